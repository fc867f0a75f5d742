"""Faults to plant one at a time, each with the tests that must notice it.

`benchmarks/mutants.py` plants them in a copy of the program; `test_mutants.py` keeps the list up to
date. A fault is an edit of one place in the source, whose text must occur there exactly once.
"""

from __future__ import annotations

from tests.faults import (
    commands,
    core,
    drawn,
    elsewhere,
    features,
    measures,
    mechanisms,
    noise,
    protocols,
    reading,
    releases,
    rooms,
    rows,
    screens,
    studies,
)
from tests.faults.base import Mutant, Operator

__all__ = ["MUTANTS", "Mutant", "Operator"]

MUTANTS = [
    *mechanisms.ONE_BIT, *mechanisms.COLLECTION, *mechanisms.FACTORIZATION, *mechanisms.DPIMF,
    *mechanisms.FRANK_WOLFE, *mechanisms.PER_USER, *mechanisms.PRIVATE_EFFECTS,
    *mechanisms.USER_RANKING, *mechanisms.LOCAL_RANKING, *mechanisms.CLEANSING, *mechanisms.DPALS,
    *mechanisms.DP_SGD,
    *protocols.PROTOCOL, *protocols.FEDERATED, *noise.SECURE, *noise.PRODUCTS, *noise.BYTES,
    *noise.KERNEL,
    *rooms.ROOM, *rooms.WALL, *rooms.PAPER,
    *reading.READING, *commands.COMMAND_LINE, *releases.VERIFY, *releases.RELEASE,
    *releases.CATALOGUE, *core.CORE, *rooms.PHONE, *rooms.SERVER, *rooms.CLASSROOM,
    *measures.METRICS, *measures.EXPERIMENT, *measures.PREPARATION, *measures.LINES, *rows.STORE,
    *rows.SWEEP, *studies.ANSWER, *screens.VIEWS, *screens.PAGES,
    *features.FEATURES, *features.PARTITIONS, *features.SESSIONS, *elsewhere.ELSEWHERE,
    *drawn.DRAWN,
]  # fmt: skip
