"""What a fault is, and names for the tests that notice many."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
FILES = {  # of tests, by what they are called after test_
    path.stem.removeprefix("test_"): path.relative_to(TESTS.parent).as_posix()
    for path in TESTS.rglob("test_*.py")
}


class Operator(enum.Enum):
    """What kind of fault."""

    SCALE = "scale 3 % off"
    SKIPPED = "skipped publish"
    UNIT = "wrong unit"
    CLIP = "clip"
    REUSED = "reused draw"
    OTHER = "other"


SCALE, SKIPPED, UNIT, CLIP, REUSED, OTHER = Operator


@dataclass(frozen=True)
class Mutant:
    """A fault: in `file`, of dpmc_core or from the project's folder, `before` becomes `after`;
    `tests`: pytest node ids."""

    name: str
    family: str
    operator: Operator
    file: str
    before: str
    after: str
    tests: tuple[str, ...]

    @property
    def path(self) -> str:
        """Of the source, from the project's folder."""
        is_outside_core = self.file.startswith(
            ("dpmc_data/", "dpmc_lab/", "pages/", "sample_data/", ".streamlit/")
        )
        return self.file if is_outside_core else f"dpmc_core/{self.file}"


def contract(check: str, *ids: str) -> tuple[str, ...]:
    """List the tests of one check for variants of mechanisms, by their names in the contract."""
    test = f"{FILES['contract']}::test_a_mechanism_keeps_the_contract"
    return tuple(f"{test}[{id}-check_{check}]" for id in ids)


def records(*ids: str) -> tuple[str, ...]:
    """What is published are the records of the card."""
    return contract("publications", *ids)


def fresh(*ids: str) -> tuple[str, ...]:
    """Noise serves once."""
    return contract("fresh_noise", *ids)


def other_seed(*ids: str) -> tuple[str, ...]:
    return contract("seeds", *ids)


def baseline(id: str) -> tuple[str, ...]:
    """List the tests that a method's baseline keeps its promise."""
    return named("contract", f"test_a_private_floor_keeps_the_promise_that_the_method_claims[{id}]")


def bounds(*ids: str) -> tuple[str, ...]:
    """List the sensitivity tests of the methods per user, e.g. dpals-5-EMPTIED."""
    name = f"{FILES['user_level']}::test_no_row_moves_a_release_further_than_its_card_says"
    cases = (id.rpartition("-") for id in ids)
    return tuple(f"{name}[{id}-Change.USER_{change}]" for id, _, change in cases)


def spends(*ids: str) -> tuple[str, ...]:
    """Calibration of the methods per user."""
    name = f"{FILES['user_level']}::test_tight_calibration_spends_the_budget_and_no_more"
    return tuple(f"{name}[{id}]" for id in ids)


def named(file: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{FILES[file]}::{name}" for name in names)


Row = tuple[str, Operator, str, str, tuple[str, ...]]


def family_of(family: str, file: str, *rows: Row) -> list[Mutant]:
    """Faults of one file; a row: name, operator, before, after, tests."""
    return [
        Mutant(name, family, operator, file, *edit, tests) for name, operator, *edit, tests in rows
    ]


SEEDED = "np.random.default_rng(0)"
QUIETER = 'lambda r: __import__("dataclasses").replace(r, scale=0.97 * r.scale)'
ALIAS = "from dpmc_core.privacy import (\n    "  # a unit that stands for another one, in one file
