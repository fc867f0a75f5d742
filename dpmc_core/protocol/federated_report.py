"""One whole run of the federated flow on a problem: built from names, measured and counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpmc_core import experiment, metrics
from dpmc_core.errors import InvalidSetting, check_number
from dpmc_core.mechanisms.dpimf import Dpimf
from dpmc_core.model import Task
from dpmc_core.problem import Problem, generator
from dpmc_core.protocol.federated import BudgetLine, Federation, Round
from dpmc_core.protocol.messages import Message, Transcript
from dpmc_core.registry import MECHANISMS, create
from dpmc_core.settings import settings_of, show_setting

FLOW = "federated"
TITLE = "parties send noisy profiles, a server averages them"
VARIANTS = tuple(id for id, cls in MECHANISMS.items() if issubclass(cls, Dpimf))
PAPER = {"parties": 10, "rounds": 100, "local": 20}  # RYHH24, section VI-A

OnRound = Callable[[int, int], None]


def build(
    variant: str, epsilon: float, *, parties: int, rounds: int, local: int, **settings: Any
) -> Federation:
    """The flow with a variant of DPIMF; its card counts the solves of all rounds.

    Raises InvalidSetting.
    """
    if variant not in VARIANTS:
        raise InvalidSetting("mechanism", f"one of {', '.join(VARIANTS)}", variant)
    for name, value in (("rounds", rounds), ("local", local)):
        check_number(name, value, at_least=1, integer=True)
    if rounds * local > 10_000:
        raise InvalidSetting("rounds x local", "at most 10,000", rounds * local)
    mechanism = create(variant, epsilon=epsilon, rounds=rounds * local, **settings)
    assert isinstance(mechanism, Dpimf)
    return Federation(mechanism=mechanism, parties=parties, rounds=rounds, local=local)


def play(
    flow: Federation,
    problem: Problem,
    seed: int,
    *,
    keep: bool = False,
    on_round: OnRound | None = None,
) -> Round:
    """The last round with everybody's messages; keep: with what is in them. Raises DpmcError."""
    rng = generator(seed, f"federated flow on {problem.train.fingerprint}")
    last: Round | None = None
    for last in flow.run(problem.train, rng, keep=keep):
        if on_round is not None:
            on_round(last.number, flow.rounds)
    assert last is not None  # at least one round
    return last


def report(flow: Federation, played: Round, problem: Problem, seed: int) -> dict[str, Any]:
    """What a run found, as plain JSON values; everything about raw ratings is evaluation only."""
    rng = generator(seed, f"evaluate on {problem.test.fingerprint}")
    pair, public = (problem.train, problem.test), problem.train.public
    found = metrics.evaluate(Task.RANKING, played.model, *pair, rng)
    baselines = {}
    for id in (flow.mechanism.floor, flow.mechanism.twin):
        *_, last = create(id).fit(problem.train, generator(seed, id))
        assert last.model is not None
        rng = generator(seed, f"evaluate on {problem.test.fingerprint}")
        baselines[id] = metrics.evaluate(Task.RANKING, last.model, *pair, rng)
    formula, counted = flow.cost(public), played.transcript
    return {
        "scenario": FLOW,
        "title": TITLE,
        "mechanism": flow.mechanism.id,
        "data": {
            "name": problem.name,
            "users": public.users,
            "items": public.items,
            "ratings": len(problem.train),
            "fingerprint": problem.train.fingerprint,
        },
        "settings": {
            s.name: show_setting(getattr(part, s.name))
            for part in (flow.mechanism, flow)
            for s in settings_of(type(part))
        },
        "seed": seed,
        "guarantee": flow.mechanism.guarantee(public).as_dict(),
        "budget": _budget(flow.budget(public)),
        "rounds": played.number,
        "metrics": found,
        "baselines": baselines,
        "evaluation": experiment.EVALUATION_ONLY,
        "communication": {
            "messages": counted.total_count,
            "bytes": counted.total_bytes,
            "by kind": {
                kind: {"messages": n, "bytes": counted.bytes[kind]}
                for kind, n in counted.count.items()
            },
            "by formula": {"messages": formula.messages, "bytes": formula.bytes},
        },
    }


def messages(transcript: Transcript, profile: int) -> list[dict[str, Any]]:
    """The kept messages with one profile of each, as plain JSON values. Raises InvalidSetting."""
    return [
        {
            "round": m.round,
            "sender": m.sender,
            "receiver": m.receiver,
            "kind": m.kind,
            "bytes": m.bytes,
            "payload": f"profile {profile}: {numbers(m, profile)}",
        }
        for m in transcript
    ]


def numbers(message: Message, profile: int) -> str:
    """One profile of a message as text. Raises InvalidSetting."""
    profiles = message.payload["profiles"]
    check_number("watched profile", profile, at_least=0, at_most=len(profiles) - 1, integer=True)
    return "(" + ", ".join(f"{n:.3g}" for n in np.asarray(profiles[profile]).tolist()) + ")"


def _budget(line: BudgetLine) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and math.isinf(value) else value
        for name, value in line._asdict().items()
    }
