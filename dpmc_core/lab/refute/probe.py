"""The sensitivity probe: how far the queries of a mechanism really move between two data sets.

Both data sets are run with the same random numbers, and the second one hears the answers that the
first one got, so that all that differs is what the changed row does. An answer that asks the same
after another history moves so far whatever was published: its loss is exact, and those losses add
up. How far the others move is held against the card, but bounds nothing: another history moves them
otherwise.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmc_core.lab.refute.pairs import RatingTable, RowPair, changed, neighbours
from dpmc_core.lab.refute.report import (
    TIGHT,
    Inapplicable,
    Measured,
    Method,
    Spent,
    Subject,
    refuted_by,
)
from dpmc_core.mechanisms.dpimf import Sampled
from dpmc_core.model import Mechanism
from dpmc_core.privacy import (
    RATING,
    ROW_VALUES,
    Additive,
    Loss,
    Publication,
    sensitivity_at,
    witness,
)
from dpmc_core.ratings import Ratings
from dpmc_core.stopping import look

_DRAWN = 0.5  # share of the pairs that are drawn; the others change the worst one so far
_COINS = "random choices that no noise is for (what a cap keeps, where a solver starts)"

History = list[Publication]
Bits = NDArray[np.bool_]


def run(
    mechanism: Mechanism, ratings: Ratings, seed: int, answers: History | None = None
) -> History:
    """Everything that one run publishes; answers: what is published instead.

    What follows the last publication of the card is left out.
    """
    most = sum(release.times for _, release in mechanism.guarantee(ratings.public).releases)
    with witness(answers=answers, most=most) as found:
        for _ in mechanism.fit(ratings, np.random.default_rng(seed)):
            look()
    return found


@dataclass(frozen=True, eq=False)
class _Worst:
    """The worst pair so far: how far each answer moved, of what history, and its rank."""

    rows: RowPair
    moved: tuple[float, ...]
    history: History
    rank: tuple[float, float]


@dataclass(frozen=True)
class Prober(Subject):
    """Tries pairs of neighbours."""

    def probe(self, ratings: Ratings, pairs: int, tell: Callable[[Measured], None]) -> Measured:
        """The worst of so many pairs. Raises Inapplicable where no noise is added to an array."""
        if isinstance(self.mechanism, Sampled):
            raise Inapplicable("which ratings count is drawn anew each time, as part of its noise")
        if not any(isinstance(release, Additive) for _, release in self.card.releases):
            raise Inapplicable("no release adds noise to an array: each cell is randomised itself")
        if self.change in (RATING, ROW_VALUES) and ratings.clicks:
            raise Inapplicable("all ratings are alike, so no value can change")
        table, rng = RatingTable.of(ratings), np.random.default_rng([self.seed, 1])
        drawn = neighbours(table, self.change, rng)
        history = run(self.mechanism, ratings, self.seed)
        free = self._free(ratings, history)
        worst: _Worst | None = None
        for done in range(1, pairs + 1):
            look()
            greedy = worst is not None and done > max(_DRAWN * pairs, 8)
            rows = changed(worst.rows, table, self.change, rng) if worst and greedy else next(drawn)
            found = self._moved(rows, table, free)
            if worst is None or found.rank > worst.rank:
                worst = found
            tell(self._measured(worst, free, done, pairs))
        assert worst is not None
        before = table.with_row(worst.rows.user, worst.rows.before).ratings()
        free &= self._free(before, worst.history)
        again = run(self.mechanism, before, self.seed + 1, worst.history)
        coins = any(
            alone and not np.array_equal(p.private, q.private)
            for p, q, alone in zip(worst.history, again, free, strict=False)
        )
        return self._measured(worst, free, pairs, pairs, _COINS if coins else "")

    def _free(self, ratings: Ratings, history: History) -> Bits:
        """Which answers ask the same, to the last bit, after answers of another run."""
        others = run(self.mechanism, ratings, self.seed + 1)
        again = run(self.mechanism, ratings, self.seed, others)
        same = [np.array_equal(p.private, q.private) for p, q in zip(history, again, strict=False)]
        return np.array(same + [False] * (len(history) - len(same)))

    def _moved(self, rows: RowPair, table: RatingTable, free: Bits) -> _Worst:
        one = table.with_row(rows.user, rows.before).ratings()
        other = table.with_row(rows.user, rows.after).ratings()
        history = run(self.mechanism, one, self.seed)
        seen = run(self.mechanism, other, self.seed, history)
        moved = tuple(
            p.release.distance(p.private, q.private) if isinstance(p.release, Additive) else 0.0
            for p, q in zip(history, seen, strict=False)
        )
        shares = [m / self._allowed(p) for p, m in zip(history, moved, strict=False) if m > 0]
        past = max(shares, default=0.0)
        loss = self._loss(history, moved, free)
        return _Worst(rows, moved, history, (past if past > TIGHT else 0.0, loss.epsilon + loss.mu))

    def _allowed(self, publication: Publication) -> float:
        return sensitivity_at(publication.release.sensitivity, self.change, self.card.public)

    def _loss(self, history: History, moved: tuple[float, ...], free: Bits) -> Loss:
        spent = Loss()
        for p, m, alone in zip(history, moved, free, strict=False):
            if alone and m > 0:
                spent += dataclasses.replace(p.release, times=1).loss(m)
        return spent

    def _measured(
        self, worst: _Worst, free: Bits, done: int, pairs: int, given: str = ""
    ) -> Measured:
        names = {release.query: name for name, release in self.card.releases}
        releases: dict[tuple[str, bool], Spent] = {}
        for p, m, alone in zip(worst.history, worst.moved, free, strict=False):
            query, counts = p.release.query, bool(alone)
            name = names.get(query, query)
            spent = Spent(name, query, m, self._allowed(p), p.release.norm, counts)
            known = releases.get((query, counts))
            if known is None or m > known.measured:
                releases[query, counts] = spent
        loss = self._loss(worst.history, worst.moved, free)
        # A pure part at delta > 0 is only bounded from above: there the Gaussian part counts alone.
        epsilon = (Loss(mu=loss.mu) if self.delta > 0 else loss).epsilon_at(self.delta)
        found = tuple(releases.values())
        certified = self.card.certified(self.change, self.delta).epsilon
        return Measured(
            Method.PROBE,
            valid=math.isfinite(epsilon),
            epsilon=epsilon,
            delta=self.delta,
            confidence=None,
            done=done,
            total=pairs,
            refuted=refuted_by(epsilon, self.claimed, certified, found),
            releases=found,
            pair=worst.rows.told(),
            given=given,
        )
