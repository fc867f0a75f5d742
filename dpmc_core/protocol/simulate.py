"""One whole run of a distributed scenario on a problem, measured and attacked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpmc_core import experiment, metrics
from dpmc_core.model import Task
from dpmc_core.problem import Problem, generator
from dpmc_core.protocol import attacks, costs
from dpmc_core.protocol.distributed import Distributed, Run, reference_items
from dpmc_core.protocol.messages import Transcript
from dpmc_core.protocol.scenarios import DynamicUsers, StaticUsers
from dpmc_core.registry import create
from dpmc_core.settings import settings_of, show_setting

OnRound = Callable[[int, int], None]

SCENARIOS: dict[str, type[Distributed]] = {cls.scenario: cls for cls in (StaticUsers, DynamicUsers)}


def play(
    settings: Distributed,
    problem: Problem,
    seed: int,
    *,
    watch: int | None = None,
    on_round: OnRound | None = None,
) -> Run:
    """Exchange all messages. Raises DpmcError; ProtocolAborted where a round cannot go on."""
    rng = generator(seed, f"scenario {settings.scenario} on {problem.train.fingerprint}")
    run = settings.start(problem.train, rng, watch=watch)
    for t in run.play():
        if on_round is not None:
            on_round(t, settings.iterations)
    return run


def report(run: Run, problem: Problem, seed: int) -> dict[str, Any]:
    """What a run found, as plain JSON values; everything about raw ratings is evaluation only."""
    settings = run.settings
    rng = generator(seed, f"evaluate on {problem.test.fingerprint}")
    pair = problem.train, problem.test
    found = metrics.evaluate(Task.RATINGS, run.model(), *pair, rng)
    baselines = {}
    for id in ("global-mean", "pmf"):
        *_, last = create(id).fit(problem.train, generator(seed, id))
        assert last.model is not None
        baselines[id] = metrics.evaluate(Task.RATINGS, last.model, *pair, rng)
    counted = costs.Cost(run.transcript.total_count, run.transcript.total_bytes)
    kinds = run.transcript.count
    return {
        "scenario": settings.scenario,
        "title": settings.title,
        "data": {
            "name": problem.name,
            "users": run.public.users,
            "items": run.public.items,
            "ratings": len(problem.train),
            "fingerprint": problem.train.fingerprint,
        },
        "settings": {
            s.name: show_setting(getattr(settings, s.name)) for s in settings_of(type(settings))
        },
        "seed": seed,
        "guarantee": settings.guarantee(run.public).as_dict(),
        "rounds": len(run.steps),
        "skipped": {
            "items nobody rated": len(run.skipped.unrated),
            "items with too few raters": len(run.skipped.too_few),
            "items too few were there to make noise for": len(run.skipped.unmade),
            "users without ratings": len(run.skipped.silent),
        },
        "metrics": found,
        "baselines": baselines,
        "evaluation": experiment.EVALUATION_ONLY,
        "difference from scenario 1": float(np.abs(run.items - reference_items(run)).max()),
        "communication": {
            "messages": counted.messages,
            "bytes": counted.bytes,
            "bytes per user": counted.bytes / run.public.users,
            "by kind": {k: {"messages": kinds[k], "bytes": run.transcript.bytes[k]} for k in kinds},
            "by formula": formula(run),
        },
    }


def formula(run: Run) -> dict[str, int] | None:
    """The same totals from the number of raters; None where attendance was left to chance."""
    if getattr(run.settings, "online", 1.0) < 1 or run.settings.leaves.who:
        return None
    expected = costs.total(costs.cost(run.settings, run.raters))
    return {"messages": expected.messages, "bytes": expected.bytes}


def attack(run: Run) -> dict[str, Any]:
    """Every attack on the watched item of a finished run, beside the truth it was after."""
    item = run.wire.watch
    assert item is not None
    step = run.settings.fixed.step
    own = [int(u) for u in run.who[run.what == item]]
    found = []
    for user in own:
        try:
            found.append(attacks.attack_user(run, user))
        except ValueError:  # not there in both rounds
            continue
    truth = attacks.true_squares(run, item)
    models, sums = [v[item] for v in run.models[:-1]], [s[item] for s in run.sums]
    passive = attacks.passive_squares(models, sums) if len(sums) > 1 else None
    reach = attacks.longest_reach(run, item)
    active = attacks.active_squares(attacks.asker(run, item), len(truth), reach)
    attended = attacks.attack_attendance(run, item)
    return {
        "difference": {
            "users": len(found),
            "recovered": sum(f.succeeds(step) for f in found),
            "largest error": max((f.error for f in found), default=None),
        },
        "attendance": {
            "users": len(attended),
            "recovered": sum(a.succeeds for a in attended),
            "largest relative error": max((a.error for a in attended), default=None),
        },
        "passive": None if passive is None else float(np.abs(passive - truth).max()),
        "active": float(np.abs(active - truth).max()),
        "largest entry of A": float(np.abs(truth).max()),
    }


def messages(transcript: Transcript) -> list[dict[str, Any]]:
    """The kept messages as plain JSON values."""
    return [
        {
            "round": m.round,
            "sender": m.sender,
            "receiver": m.receiver,
            "kind": m.kind,
            "bytes": m.bytes,
            "payload": m.summary,
        }
        for m in transcript
    ]
