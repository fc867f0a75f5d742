"""How many phases scenarios 2 and 3 of private factorization are best split over, and how.

    python benchmarks/phases.py [--epsilon E ...] [--growth G ...] [--most M] [--draws N]

Generated ratings of four shapes, none of them a sample: test RMSE above that of scenario 1 with the
same form of noise, by number of phases, mean of some draws of start and noise; the best number
beside the rule's (`affordable` in dpmc_core/protocol/phases.py, whose constants are from here); and
what every growth of epsilon over the phases costs on average, at its best and at the rule's number.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from dpmc_core import metrics
from dpmc_core.data import synthetic
from dpmc_core.data.datasets import Dataset
from dpmc_core.model import Task
from dpmc_core.problem import build_problem
from dpmc_core.protocol.phases import affordable
from dpmc_core.protocol.scenarios import StaticUsers
from dpmc_core.protocol.trusted import in_phases
from dpmc_core.solvers.rows import with_offsets

SEEDS = {"small": 101, "many users": 102, "large": 103, "restaurants": 104}


def films(seed, users, items, share):
    histogram = tuple(round(share * count) for count in synthetic.MOVIE_NIGHT.histogram)
    shape = replace(synthetic.MOVIE_NIGHT, users=users, items=items, histogram=histogram, least=5)
    return synthetic.films(shape, seed).ratings


def problems():
    made = {
        "small": films(SEEDS["small"], 600, 800, 0.4),
        "many users": films(SEEDS["many users"], 1500, 150, 0.5),
        "large": films(SEEDS["large"], 1200, 1400, 1.0),
        "restaurants": synthetic.restaurants(SEEDS["restaurants"]).ratings,
    }
    for name, ratings in made.items():
        data = Dataset(ratings, name, name, "generated", "", ())
        yield name, build_problem(data, Task.RATINGS, seed=5)


def error(mechanism, sides, items, problem):
    model = with_offsets(mechanism.fit_users(sides, items), items, problem.train.public.middle)
    rng = np.random.default_rng(0)
    return metrics.evaluate(Task.RATINGS, model, problem.train, problem.test, rng)["rmse"]


def above_scenario_1(problem, epsilon, growths, most, draws):
    """growths x phases: RMSE above scenario 1's."""
    public, mechanism = problem.train.public, StaticUsers(epsilon=epsilon).mechanism
    sides = mechanism.sides(problem.train)
    *_, (users, _) = mechanism.alternate(sides, np.random.default_rng(0))
    noisy = [
        mechanism.private_items(sides, users, public, np.random.default_rng(seed))
        for seed in range(draws)
    ]
    trusted = np.mean([error(mechanism, sides, items, problem) for items in noisy])
    found = np.empty((len(growths), most))
    for g, growth in enumerate(growths):
        for m in range(1, most + 1):
            settings = StaticUsers(epsilon=epsilon, phases=m, growth=growth)
            parts = settings.parts(public.users)
            errors = [
                error(
                    mechanism,
                    sides,
                    in_phases(settings, parts, sides, public, np.random.default_rng(seed)),
                    problem,
                )
                for seed in range(draws)
            ]
            found[g, m - 1] = np.mean(errors) - trusted
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1, 3, 10, 30, 100])
    parser.add_argument("--growth", type=float, nargs="+", default=[1.0, 1.3, 1.7])
    parser.add_argument("--most", type=int, default=14)
    parser.add_argument("--draws", type=int, default=2)
    args = parser.parse_args()
    best, ruled = ([[] for _ in args.growth] for _ in range(2))
    for name, problem in problems():
        users = problem.train.public.users
        print(f"{name}: {users:,} users, {len(problem.train):,} ratings; RMSE above scenario 1's")
        for epsilon in args.epsilon:
            table = above_scenario_1(problem, epsilon, args.growth, args.most, args.draws)
            rule = min(affordable(epsilon, users, 3), args.most)
            for g, (growth, row) in enumerate(zip(args.growth, table, strict=True)):
                best[g].append(row.min())
                ruled[g].append(row[rule - 1])
                shown = " ".join(f"{value:7.4f}" for value in row)
                print(
                    f"  epsilon {epsilon:g} (x users {epsilon * users:,.0f}), growth {growth:g}:"
                    f" {shown}  best {1 + row.argmin()}, rule {rule}",
                    flush=True,
                )
    for g, growth in enumerate(args.growth):
        print(f"growth {growth:g}: {np.mean(best[g]):.4f} at best, {np.mean(ruled[g]):.4f} by rule")


if __name__ == "__main__":
    main()
