"""Private factorization without a trusted server, on MovieLens 100K's u1.

    python benchmarks/factorization.py [--epsilon E ...] [--folder DIR] [--many-users]

Scenarios 2 and 3 with both kinds of shares: time, messages, bytes, the formula, and the largest
difference from a trusted server with the same noise and steps; whether the noise passes a Laplace
test; what scenario 2 adds to scenario 1's error, taken apart; the attacks. Scenario 1's errors are
those of `dpmc papers hxz15-cdf` and `hxz15-increase`. Movie-night stands in where the folder is
absent.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import generated
import numpy as np
from scipy import stats

from dpmc_core import metrics
from dpmc_core.data import datasets
from dpmc_core.lab.protocol import simulate
from dpmc_core.lab.protocol.scenarios import (
    DynamicUsers,
    Leaves,
    ProtocolAborted,
    ScenarioRun,
    StaticUsers,
)
from dpmc_core.lab.protocol.simulate import reference_items
from dpmc_core.lab.views.protocol import gap_words
from dpmc_core.model import Task
from dpmc_core.privacy import Shares
from dpmc_core.problem import build_problem

ML_100K = Path(__file__).resolve().parents[2] / "shared" / "data" / "ml-100k"


def played(settings, problem, watch=None):
    run = simulate.start(settings, problem, 0, watch=watch)
    for _ in run.play():
        pass
    return run


def distributed(problem):
    print("\nscenarios 2 and 3: epsilon 1, 20 rounds")
    item = int(np.bincount(problem.train.items).argmax())
    for cls in (StaticUsers, DynamicUsers):
        for shares in Shares:
            start = time.perf_counter()
            run = played(cls(epsilon=1.0, shares=shares), problem, item)
            seconds = time.perf_counter() - start
            rng = np.random.default_rng(0)
            train, test = problem.train, problem.test
            rmse = metrics.evaluate(Task.RATINGS, run.model(), train, test, rng)["rmse"]
            gap = np.abs(run.items - reference_items(run)).max()
            noise = run.phase.noise[run.phase.active].ravel()
            p = stats.kstest(noise, stats.laplace(scale=run.phase.release.scale).cdf).pvalue
            sent, formula = run.transcript.total, simulate.formula(run)
            print(
                f"  scenario {cls.number}, {shares.value}: {seconds:.2f} s,"
                f" {sent.messages:,} messages and {sent.bytes:,} bytes"
                f" (formula {formula.messages:,} and {formula.bytes:,}), RMSE {rmse:.4f},"
                f" off scenario 1 by {gap:.1g}, Laplace test of {len(noise):,} sums p = {p:.2f}"
            )
            skipped = run.skipped
            if shares is Shares.GAUSSIAN:
                print(
                    f"    left out: {len(skipped.unrated)} items without ratings,"
                    f" {len(skipped.too_few)} with one rater, {len(skipped.silent)} users without"
                )


def apart(problem, epsilons):
    """Scenario 2's difference from scenario 1: refitting in phases, dividing epsilon."""
    print("\nscenario 2 beside scenario 1 with the same form of noise")
    for epsilon in epsilons:
        words = gap_words(simulate.gap(StaticUsers(epsilon=epsilon), problem, 0))
        print(f"  epsilon {epsilon:g}: {words}", flush=True)


def many_users():
    """Communication at the paper's other shape, on generated ratings."""
    print("\n191,668 users x 100 items, generated: epsilon 1, 20 rounds")
    ratings = generated.netflix_like(0)
    for cls in (StaticUsers, DynamicUsers):
        start = time.perf_counter()
        run = ScenarioRun(cls(epsilon=1.0, phases=1), ratings, np.random.default_rng(0))
        for _ in run.play():
            pass
        sent, users = run.transcript.total, ratings.public.users
        print(
            f"  scenario {cls.number}: {time.perf_counter() - start:.0f} s,"
            f" {sent.messages:,} messages, {sent.bytes:,} bytes,"
            f" {sent.bytes / users:,.0f} per user",
            flush=True,
        )


def attack(problem):
    counts = np.bincount(problem.train.items)
    item = int(np.argmin(np.abs(counts - 50)))
    print(f"\nattacks on an item with {counts[item]} raters, epsilon 1, 20 rounds")
    for masks in (False, True):
        run = played(StaticUsers(epsilon=1.0, masks=masks), problem, item)
        found = simulate.attack(run)
        hit = found["difference"]
        print(
            f"  masks {'on' if masks else 'off'}: difference attack recovers {hit['recovered']} of"
            f" {hit['users']} (largest error {hit['largest error']:.2g})"
        )
    for rank in (3, 10):
        run = played(StaticUsers(epsilon=1.0, rank=rank), problem, item)
        found = simulate.attack(run)
        print(
            f"  rank {rank}: A off by {found['passive']:.2g} passively, by {found['active']:.2g}"
            f" actively (largest entry {found['largest entry of A']:.3g})"
        )
    user = int(run.who[run.what == item][0])
    try:
        played(StaticUsers(epsilon=1.0, leaves=Leaves(((3, user),))), problem)
    except ProtocolAborted as error:
        print(f"  scenario 2: {error}")
    run = played(DynamicUsers(epsilon=1.0, leaves=Leaves(((3, user),))), problem)
    gap = np.abs(run.items - reference_items(run)).max()
    print(f"  scenario 3: goes on; off scenario 1 with the same noise and attendance by {gap:.1g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 0.3, 1, 3, 10])
    parser.add_argument("--folder", type=Path, default=ML_100K)
    parser.add_argument("--many-users", action="store_true", help="also 191,668 users x 100 items")
    args = parser.parse_args()
    if args.folder.is_dir():
        pair = datasets.read_pair(args.folder / "u1.base", args.folder / "u1.test")
        problem = build_problem(pair, Task.RATINGS, name="u1")
    else:
        print(f"no MovieLens 100K at {args.folder}: movie-night instead")
        problem = build_problem(datasets.load("movie-night"), Task.RATINGS)
    distributed(problem)
    apart(problem, args.epsilon)
    attack(problem)
    if args.many_users:
        many_users()


if __name__ == "__main__":
    main()
