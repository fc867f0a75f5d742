"""Measure a year of weekly releases that learn from each other, on generated ratings.

    python benchmarks/releases.py [--items stable drifting churning] [--epsilons 1 2 5]
        [--half-lives 26] [--seeds 1] [--users 5000] [--without-reference]

A release is trained on all ratings so far, and spends a 52nd of the squared budget of the year.
At the end of every quarter the table measures the RMSE of the newest models on the held-out ratings
of that quarter. Its columns are: each release alone, and averaged with all before it; own mean,
without others; and no privacy. "Single" spends the budget of the year at once, after its last week.
Effects that drift turn by 60 degrees in a year, so that half of them is left. Of items that churn,
half come and go within the year, and a release only knows those of its week. `private-effects` in
simulation; the noise of real releases has the same distribution.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmc_core import registry
from dpmc_core.model import Mechanism, Model
from dpmc_core.privacy.accounting import gaussian_epsilon, gaussian_mu
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.solvers.streams import EarlierRelease
from dpmc_lab.study.release import HALF_LIFE, compute_decay

WEEKS, ITEMS, DELTA = 52, 1_000, 1e-6
MEASURED = 13  # weeks, whose held-out ratings are measured together
LOW, HIGH = 1, 5
KINDS = ("stable", "drifting", "churning")


@dataclass(frozen=True, eq=False)
class Year:
    """The ratings of a year.

    Attributes:
        users: number of people.
        rows: shape (n, 4): user, item, week and rating, at most one rating of a pair.
        held_out: shape (n,), which of them are measured and not trained on.
        weeks: shape (ITEMS, 2), the first week of each item and the first one without it.
    """

    users: int
    rows: NDArray[np.int64]
    held_out: NDArray[np.bool_]
    weeks: NDArray[np.int64]

    @classmethod
    def generate(cls, kind: str, users: int, seed: int) -> Year:
        """Generate about 60 ratings a person, from effects and three directions of taste."""
        rng = np.random.default_rng(seed)
        weeks = np.tile([0, WEEKS], (ITEMS, 1))
        if kind == "churning":
            moving = rng.permutation(ITEMS)[: ITEMS // 2]
            weeks[moving, 0] = rng.integers(0, WEEKS - 4, len(moving))
            weeks[moving, 1] = weeks[moving, 0] + rng.integers(8, 40, len(moving))
        popularity = 1 / (10 + rng.permutation(ITEMS))
        start, end = 0.4 * rng.normal(size=(2, ITEMS))
        angles = np.linspace(0, np.pi / 3 if kind == "drifting" else 0, WEEKS)
        activity = 60 * rng.lognormal(-0.32, 0.8, users)
        user_effects, factors = 0.4 * rng.normal(size=users), rng.normal(size=(users, 3))
        tastes, chunks = 0.2 * rng.normal(size=(ITEMS, 3)), []
        for week in range(WEEKS):
            chances = popularity * ((weeks[:, 0] <= week) & (week < weeks[:, 1]))
            u = np.repeat(np.arange(users), rng.poisson(activity / WEEKS))
            i = rng.choice(ITEMS, len(u), p=chances / chances.sum())
            effects = np.cos(angles[week]) * start + np.sin(angles[week]) * end
            scores = 3.5 + user_effects[u] + effects[i] + (factors[u] * tastes[i]).sum(axis=1)
            stars = np.clip(np.rint(scores + 0.9 * rng.normal(size=len(u))), LOW, HIGH)
            chunks.append(np.column_stack([u, i, np.full(len(u), week), stars]).astype(np.int64))
        rows = np.concatenate(chunks)
        _, first = np.unique(rows[:, 0] * ITEMS + rows[:, 1], return_index=True)
        rows = rows[np.sort(first)]
        return cls(users, rows, rng.random(len(rows)) < 0.1, weeks)

    def list_items(self, week: int) -> NDArray[np.int64]:
        """Return the items of a week, which are public."""
        return np.flatnonzero((self.weeks[:, 0] <= week) & (week < self.weeks[:, 1]))

    def collect_ratings(self, week: int) -> Ratings:
        """Return the training ratings up to a week, of the items of that week."""
        u, i, weeks, stars = self.rows[~self.held_out].T
        positions = self.locate_items(week)
        known = (weeks <= week) & (positions[i] >= 0)
        n_items = len(self.list_items(week))
        public = PublicFacts(users=self.users, items=n_items, low=LOW, high=HIGH)
        return Ratings.build(u[known], positions[i[known]], stars[known].astype(float), public)

    def locate_items(self, week: int) -> NDArray[np.int64]:
        """Return the row of each item in a release of a week, -1 where it has none."""
        rows = np.full(ITEMS, -1)
        rows[self.list_items(week)] = np.arange(len(self.list_items(week)))
        return rows

    def measure_rmse(self, model: Model, week: int) -> float:
        """Return the RMSE on the held-out ratings of the weeks that end with this one."""
        u, i, weeks, stars = self.rows[self.held_out].T
        positions = self.locate_items(week)
        measured = (weeks <= week) & (weeks > week - MEASURED) & (positions[i] >= 0)
        predictions = model.predict(u[measured], positions[i[measured]])
        errors = np.clip(predictions, LOW, HIGH) - stars[measured]
        return float(np.sqrt(np.mean(errors**2)))


def fit_model(mechanism: Mechanism, ratings: Ratings, seed: int, *earlier: object) -> Model:
    """Return the model after the last round."""
    *_, last = mechanism.fit(ratings, np.random.default_rng(seed), *earlier)
    assert last.model is not None
    return last.model


def measure_year(year: Year, epsilon: float, half_life: float, seed: int) -> list[list[float]]:
    """Return the RMSE alone and averaged, every few weeks, and of a single release at the end."""
    weekly = gaussian_epsilon(gaussian_mu(epsilon, DELTA) / WEEKS**0.5, DELTA)
    mechanism = registry.create("private-effects", epsilon=weekly, delta=DELTA)
    history, alone, averaged = [], [], []
    for week in range(WEEKS):
        ratings, items = year.collect_ratings(week), year.list_items(week)
        earlier: list[EarlierRelease] = [
            mechanism.align_earlier(
                public,
                arrays,
                year.locate_items(past)[items],
                compute_decay(week - past, half_life),
            )
            for past, public, arrays in history
        ]
        model = fit_model(mechanism, ratings, 1000 * seed + week, earlier)
        history.append((week, ratings.public, model.factors.user_arrays))
        if week % MEASURED == MEASURED - 1:
            averaged.append(year.measure_rmse(model, week))
            model = fit_model(mechanism, ratings, 1000 * seed + week)
            alone.append(year.measure_rmse(model, week))
    once = registry.create("private-effects", epsilon=epsilon, delta=DELTA)
    single = year.measure_rmse(fit_model(once, ratings, seed), WEEKS - 1)
    return [alone, averaged, [single]]


def main() -> None:
    """Print a line for each kind of items, epsilon and half-life."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 2.0, 5.0])
    parser.add_argument("--half-lives", nargs="+", type=float, default=[HALF_LIFE])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--users", type=int, default=5_000)
    parser.add_argument("--without-reference", action="store_true")
    args = parser.parse_args()
    print("RMSE, mean of the year / last quarter; epsilon for the year, delta 1e-6")
    print(
        "items     epsilon half-life  alone         averaged      single own mean      no privacy"
    )
    measured = range(MEASURED - 1, WEEKS, MEASURED)
    for kind in args.items:
        years = {seed: Year.generate(kind, args.users, seed) for seed in args.seeds}
        rivals = []
        for id in ("own-mean", "reference-ratings")[: 1 if args.without_reference else 2]:
            method = registry.create(id)
            curves = [
                [
                    year.measure_rmse(fit_model(method, year.collect_ratings(w), 0), w)
                    for w in measured
                ]
                for year in years.values()
            ]
            rivals.append(np.mean(curves, axis=0))
        for epsilon in args.epsilons:
            for half_life in args.half_lives:
                results = [measure_year(y, epsilon, half_life, s) for s, y in years.items()]
                alone, averaged, single = (
                    np.mean([result[k] for result in results], axis=0) for k in range(3)
                )
                texts = [
                    f"{curve.mean():.4f} {curve[-1]:.4f}" for curve in (alone, averaged, *rivals)
                ]
                texts.insert(2, f"{single[0]:.4f}")
                print(f"{kind:9} {epsilon:7g} {half_life:9g}  {' '.join(texts)}", flush=True)


if __name__ == "__main__":
    main()
