"""Local collection on MovieLens 100K's u1: error against epsilon, and Theorem 3 against practice.

    python benchmarks/collection.py [--epsilon E ...] [--rule noise-level|equation-3|theorem-3]
                                    [--seeds N] [--folder DIR]

For both channels: test RMSE of the recovery that takes reports as they come (naive, as published),
of the one that allows for spurious cells (debiased), each with its penalty from the same rule,
which reads nothing but the reports and public facts, and of the noise-aware estimator (the
default). Beside them the price for a whole user, items
x epsilon, the mean rating and the recovery without privacy. Then, on generated ratings whose truth
is known, the measured residual at the truth beside Theorem 3's bound on it.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import numpy as np

from dpmc_core import metrics, registry
from dpmc_core.data import datasets
from dpmc_core.lab.papers.z16 import recovery_error
from dpmc_core.model import Estimator
from dpmc_core.privacy import USER_REPLACED
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.recovery import Regress, Rule

ML_100K = Path(__file__).resolve().parents[2] / "shared" / "data" / "ml-100k"
CHANNELS = ("modified-laplace", "randomised-response")


def rmse(mechanism, train, test, seed):
    *_, last = mechanism.fit(train, np.random.default_rng(seed))
    predicted = last.model.predict(test.users, test.items)
    return metrics.rmse(np.clip(predicted, train.public.low, train.public.high), test.values)


def errors(train, test, epsilons, rule, seeds):
    print(f"test RMSE, penalty by the rule '{rule.value}', mean of {seeds} seeds")
    mean = registry.create("global-mean")
    twin = registry.create("soft-impute", rule=rule)
    print(f"  mean rating {rmse(mean, train, test, 0):.4f}")
    print(f"  without privacy {rmse(twin, train, test, 0):.4f}")
    heads = f"{'naive':>7} {'debiased':>9} {'default':>8}"
    print(f"  {'channel':<20} {'eps/cell':>8} {'eps/user':>9} {heads}")
    published = [
        {"estimator": Estimator.PUBLISHED, "recovery": recovery}
        for recovery in (Regress.NAIVE, Regress.DEBIASED)
    ]
    for id in CHANNELS:
        for epsilon in epsilons:
            found = [
                statistics.mean(
                    rmse(
                        registry.create(id, epsilon=epsilon, rule=rule, **settings),
                        train,
                        test,
                        seed,
                    )
                    for seed in range(seeds)
                )
                for settings in (*published, {})
            ]
            card = registry.create(id, epsilon=epsilon).guarantee(train.public)
            price = card.certified(USER_REPLACED).epsilon
            print(
                f"  {id:<20} {epsilon:>8g} {price:>9,.0f} {found[0]:>7.4f} {found[1]:>9.4f}"
                f" {found[2]:>8.4f}",
                flush=True,
            )


def generated(rng, users=600, items=400, density=0.06):
    """Ratings 1..5 of a rank-3 truth with noise of one point, and that truth on the scale -1..1."""
    truth = 0.15 + 0.25 * rng.normal(size=(users, 3)) @ rng.normal(size=(3, items))
    truth = np.clip(truth, -1, 1)
    cells = np.nonzero(rng.random((users, items)) < density)
    values = np.clip(np.rint(3 + 2 * truth[cells] + rng.normal(size=len(cells[0]))), 1, 5)
    public = PublicFacts(users=users, items=items, low=1, high=5)
    return Ratings.build(*cells, values, public), truth


def residuals(epsilons):
    """rho = ||P(Theta - Z)||_F on the scale -1..1, measured and bounded; the recovery's error."""
    ratings, truth = generated(np.random.default_rng(0))
    public = ratings.public
    misfit = metrics.rmse((ratings.values - 3) / 2, truth[ratings.users, ratings.items])
    print("\ngenerated ratings: residual at the truth and error of the published recovery,")
    print("measured and bounded (Theorem 3 with chance 95 %, Equation 5 with C0 = 1)")
    print(f"  {'channel':<20} {'eps/cell':>8} {'rho':>8} {'bound':>8} {'error':>8} {'Eq. 5':>8}")
    users, items = np.indices(truth.shape)
    for id in CHANNELS:
        for epsilon in epsilons:
            mechanism = registry.create(
                id,
                epsilon=epsilon,
                intrinsic=misfit / 2,
                estimator=Estimator.PUBLISHED,
                recovery=Regress.NAIVE,
                rule=Rule.THEOREM,
            )
            channel = mechanism.guarantee(public).releases.rows
            out = channel.publish(mechanism.rows(ratings, channel), np.random.default_rng(0))
            who = np.repeat(np.arange(public.users), np.diff(out.indptr))
            values = mechanism.values(out.data, channel)
            measured = float(np.linalg.norm(truth[who, out.indices] - values))
            bound = mechanism.rho(public, len(ratings))
            *_, last = mechanism.fit(ratings, np.random.default_rng(0))
            found = (last.model.predict(users, items) - 3) / 2
            error = float(np.linalg.norm(found - truth))
            limit = recovery_error(bound, out.nnz / truth.size)
            print(
                f"  {id:<20} {epsilon:>8g} {measured:>8.1f} {bound:>8.1f} {error:>8.1f}"
                f" {limit:>8.1f}"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1, 2, 3, 4, 6, 8, 10])
    parser.add_argument("--rule", type=Rule, default=Rule.NOISE_LEVEL)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=ML_100K)
    args = parser.parse_args()
    if args.folder.is_dir():
        train, test = datasets.read_pair(args.folder / "u1.base", args.folder / "u1.test")
        errors(train, test, args.epsilon, args.rule, args.seeds)
    else:
        print(f"no MovieLens 100K at {args.folder}: only the generated ratings")
    residuals(args.epsilon)


if __name__ == "__main__":
    main()
