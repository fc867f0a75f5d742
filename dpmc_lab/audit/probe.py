"""Probe the sensitivity: how far the queries of a mechanism really move between two data sets.

Both data sets are run with the same random numbers, and the second run receives the answers of the
first, so that only the changed row makes a difference. A query that stays the same after another
history moves by this much whatever was published: its loss is exact, and such losses add up. The
movement of other queries is compared with the guarantee, but it is no bound, since another history
moves them differently.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dpmc_core.arrays import Bools, Floats, Rng
from dpmc_core.mechanisms.dpimf import Sampled
from dpmc_core.model import Mechanism
from dpmc_core.privacy import (
    CELL,
    RATING,
    ROW_VALUES,
    USER_EMPTIED,
    Additive,
    Change,
    Loss,
    Publication,
    record_publications,
    sensitivity_at,
)
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.stopping import check_cancelled
from dpmc_lab.audit.report import (
    ROUNDING_FACTOR,
    AuditFinding,
    AuditSubject,
    ChangedRow,
    Inapplicable,
    ReleaseFinding,
)
from dpmc_lab.measured import AuditMethod

_SAMPLED_SHARE = 0.5  # share of the pairs that are generated; the others vary the worst pair so far
_MIN_SAMPLED_PAIRS = 8  # pairs that are generated at least
_RANDOM_CHOICES = "random choices that no noise is for (what a cap keeps, where a solver starts)"

History = list[Publication]


# --- data sets to try -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RatingTable:
    """Ratings as a matrix.

    Attributes:
        values: array of shape (n_users, n_items), NaN where there is no rating.
        public: public facts of the ratings.
        prepared: what preparation read off the data.
        extreme_values: the lowest and the highest rating, (low, high), or (1,) for clicks.
    """

    values: Floats
    public: PublicFacts
    prepared: tuple[str, ...]
    extreme_values: tuple[float, ...]

    @classmethod
    def from_ratings(cls, ratings: Ratings) -> RatingTable:
        """Return the ratings as a table."""
        public = ratings.public
        values = np.full(public.shape, np.nan)
        values[ratings.users, ratings.items] = ratings.values
        extreme_values = (1.0,) if ratings.has_only_clicks else (public.low, public.high)
        return cls(values, public, ratings.prepared, extreme_values)

    def with_row(self, user: int, row: Floats) -> Ratings:
        """Return the ratings with another row for one user."""
        values = self.values.copy()
        values[user] = row
        return replace(self, values=values).to_ratings()

    def to_ratings(self) -> Ratings:
        """Return the table as ratings."""
        users, items = np.nonzero(~np.isnan(self.values))
        return Ratings.build(
            users, items, self.values[users, items], self.public, prepared=self.prepared
        )

    @property
    def max_row_ratings(self) -> int:
        """Return the maximum number of ratings in a row."""
        return min(self.public.cap or self.public.items, self.public.items)


class RowPair(NamedTuple):
    """One user's row in two neighbouring data sets; the other rows are those of a table.

    Attributes:
        user: index of the row.
        before, after: arrays of shape (n_items,), NaN where there is no rating.
    """

    user: int
    before: Floats
    after: Floats

    @property
    def differs(self) -> Bools:
        """Return for each item whether the rows differ there."""
        both_missing = np.isnan(self.before) & np.isnan(self.after)
        return np.asarray((self.before != self.after) & ~both_missing)

    def to_changed_row(self) -> ChangedRow:
        """Return the items where the rows differ, with both ratings."""
        items = np.flatnonzero(self.differs)
        before, after = (
            tuple(None if np.isnan(value) else float(value) for value in row[items])
            for row in (self.before, self.after)
        )
        n_unchanged = np.count_nonzero(~self.differs & ~np.isnan(self.before))
        return ChangedRow(self.user, tuple(items.tolist()), before, after, int(n_unchanged))


def generate_rows(table: RatingTable, rng: Rng) -> Iterator[Floats]:
    """Yield rows of extreme ratings that push queries to their limits, then random rows, endlessly.

    Each row is an array of shape (n_items,), NaN where there is no rating.

    Args:
        table: the ratings, for limits of rows and values.
        rng: random numbers.
    """
    n = table.public.items
    max_ratings = table.max_row_ratings
    low = table.extreme_values[0]
    high = table.extreme_values[-1]
    position = np.arange(n)
    is_odd = position % 2 == 1
    for is_low, n_rated in (  # the first `n_rated` items get the low or the high end
        (np.zeros(n, dtype=bool), max_ratings),
        (np.zeros(n, dtype=bool), 1),
        (position >= n // 2, max_ratings),
        (is_odd, max_ratings),
        (is_odd, 2),
        (np.ones(n, dtype=bool), max_ratings),
        (np.ones(n, dtype=bool), 1),
        (~is_odd, min(max_ratings, max(1, n // 2))),
    ):
        yield np.where(position < n_rated, np.where(is_low, low, high), np.nan)
    while True:
        n_rated = int(rng.integers(1, max_ratings + 1))
        row = np.full(n, np.nan)
        row[rng.choice(n, n_rated, replace=False)] = rng.choice(table.extreme_values, n_rated)
        yield row


def generate_neighbours(table: RatingTable, change: Change, rng: Rng) -> Iterator[RowPair]:
    """Yield pairs of rows that differ by the change, endlessly.

    The first pair changes the user with the fewest ratings in the table; the others take their rows
    from `generate_rows`, whose extreme rows come first. A row that becomes any other is often
    reflected, so that every rating moves to the other end of the range.

    Args:
        table: the ratings.
        change: how neighbouring data sets differ.
        rng: random numbers.
    """
    counts = np.count_nonzero(~np.isnan(table.values), axis=1)
    user = int(np.argmin(np.where(counts > 0, counts, counts.max() + 1)))
    low = table.extreme_values[0]
    high = table.extreme_values[-1]
    rows = generate_rows(table, rng)
    row = table.values[user].copy()
    while True:
        rated_items = np.flatnonzero(~np.isnan(row))
        after = row.copy()
        if change is USER_EMPTIED:
            after[:] = np.nan
        elif change is RATING:
            changed_item = rng.choice(rated_items, 1)
            row[changed_item], after[changed_item] = low, high
        elif change is CELL:
            free_items = np.flatnonzero(np.isnan(row))
            if len(free_items) and len(rated_items) < table.max_row_ratings:
                after[rng.choice(free_items)] = rng.choice(table.extreme_values)
            else:
                after[rng.choice(rated_items)] = np.nan
        # A mirrored row moves sums of ratings far, so it is tried often.
        elif change is ROW_VALUES or rng.random() < 0.3:
            after = low + high - row
        else:
            after = next(rows)
        yield RowPair(user, row, after)
        user = int(rng.integers(table.public.users))
        row = next(rows)


def mutate_pair(rows: RowPair, table: RatingTable, change: Change, rng: Rng) -> RowPair:
    """Return the pair with one random rating set or removed, its rows still differing by `change`.

    Where that is not possible, the pair is returned unchanged.

    Args:
        rows: the pair.
        table: the ratings, for limits of rows and values.
        change: how neighbouring data sets differ.
        rng: random numbers.
    """
    user = rows.user
    before = rows.before.copy()
    after = rows.after.copy()
    item = int(rng.integers(len(before)))
    value = rng.choice([*table.extreme_values, np.nan])
    if change in (RATING, CELL, ROW_VALUES):  # only what both rows have in common may change
        if not rows.differs[item]:
            before[item] = after[item] = value
    elif change is USER_EMPTIED or rng.random() < 0.5:
        before[item] = value
    else:
        after[item] = value
    mutated = RowPair(user, before, after)
    is_valid = all(
        np.count_nonzero(~np.isnan(row)) <= table.max_row_ratings for row in (before, after)
    )
    return mutated if is_valid and mutated.differs.any() else rows


# --- what a run publishes ---------------------------------------------------------------------


def record_history(
    mechanism: Mechanism, ratings: Ratings, seed: int, answers: History | None = None
) -> History:
    """Record everything that one run publishes, up to the last publication of the guarantee.

    Args:
        mechanism: the mechanism.
        ratings: the ratings.
        seed: of the run.
        answers: what is published instead, if given, while the queries are computed as usual.
    """
    max_publications = sum(
        release.times for _, release in mechanism.guarantee(ratings.public).releases
    )
    with record_publications(replayed=answers, max_publications=max_publications) as history:
        for _ in mechanism.fit(ratings, np.random.default_rng(seed)):
            check_cancelled()
    return history


class _TriedPair(NamedTuple):
    """A pair of neighbouring rows that was run.

    Attributes:
        rows: the pair.
        history: what the run with the first row published.
        distances: how far each answer moves to the second row, in its release's norm.
        rank: how many times a distance exceeds the guarantee's sensitivity (0 if none does), then
            the total loss; the largest is the worst.
    """

    rows: RowPair
    history: History
    distances: tuple[float, ...]
    rank: tuple[float, float]


class ProbeAuditor(AuditSubject):
    """Auditor that tries pairs of neighbours."""

    def audit(self, ratings: Ratings, runs: int) -> Iterator[AuditFinding]:
        """Find the worst of `runs` pairs, yielding the finding on the worst so far.

        Args:
            ratings: the prepared ratings.
            runs: number of pairs to try.

        Raises:
            Inapplicable: no release adds noise to an array.
        """
        if isinstance(self.mechanism, Sampled):
            raise Inapplicable("which ratings count is drawn anew each time, as part of its noise")
        if not any(isinstance(release, Additive) for _, release in self.guarantee.releases):
            raise Inapplicable("no release adds noise to an array: each cell is randomised itself")
        if self.change in (RATING, ROW_VALUES) and ratings.has_only_clicks:
            raise Inapplicable("all ratings are alike, so no value can change")
        table = RatingTable.from_ratings(ratings)
        rng = np.random.default_rng([self.seed, 1])
        pairs = generate_neighbours(table, self.change, rng)
        nonadaptive = self._find_nonadaptive(
            ratings, record_history(self.mechanism, ratings, self.seed)
        )
        worst: _TriedPair | None = None
        for n_tried in range(1, runs + 1):
            check_cancelled()
            is_sampled = n_tried <= max(_SAMPLED_SHARE * runs, _MIN_SAMPLED_PAIRS)
            pair = (
                next(pairs)
                if worst is None or is_sampled
                else mutate_pair(worst.rows, table, self.change, rng)
            )
            tried = self._try_pair(pair, table, nonadaptive)
            if worst is None or tried.rank > worst.rank:
                worst = tried
            yield self._build_finding(worst, nonadaptive, n_tried, runs)
        assert worst is not None
        # Repeat the worst pair's first run with other random numbers. An answer that moves, though
        # it depends on no earlier answer, depends on random choices besides the noise.
        ratings_before = table.with_row(worst.rows.user, worst.rows.before)
        nonadaptive &= self._find_nonadaptive(ratings_before, worst.history)
        replayed = record_history(self.mechanism, ratings_before, self.seed + 1, worst.history)
        has_coins = (nonadaptive & ~_compare_answers(worst.history, replayed)).any()
        yield self._build_finding(
            worst, nonadaptive, runs, runs, _RANDOM_CHOICES if has_coins else ""
        )

    def _find_nonadaptive(self, ratings: Ratings, history: History) -> Bools:
        """Return which queries give the same, to the last bit, after the answers of another run.

        These do not depend on earlier answers, up to chance.

        Args:
            ratings: the ratings.
            history: what a run on them with the seed of the audit published.
        """
        other_history = record_history(self.mechanism, ratings, self.seed + 1)
        return _compare_answers(
            history, record_history(self.mechanism, ratings, self.seed, other_history)
        )

    def _try_pair(self, pair: RowPair, table: RatingTable, nonadaptive: Bools) -> _TriedPair:
        """Run both data sets of a pair, the second after the answers of the first.

        Args:
            pair: the rows of one user in both data sets.
            table: the other rows.
            nonadaptive: array of shape (n_answers,), whether each query depends on no earlier
                answer.
        """
        ratings_before, ratings_after = (
            table.with_row(pair.user, row) for row in (pair.before, pair.after)
        )
        history = record_history(self.mechanism, ratings_before, self.seed)
        replayed = record_history(self.mechanism, ratings_after, self.seed, history)
        # The second run may publish fewer answers, so the zips here are not strict.
        distances = tuple(
            p.release.distance(p.private, q.private) if isinstance(p.release, Additive) else 0.0
            for p, q in zip(history, replayed, strict=False)
        )
        ratios = (
            distance / self._find_sensitivity(p)
            for p, distance in zip(history, distances, strict=False)
            if distance > 0
        )
        excess = max(ratios, default=0.0)
        loss = _sum_losses(history, distances, nonadaptive)
        return _TriedPair(
            pair,
            history,
            distances,
            rank=(excess if excess > ROUNDING_FACTOR else 0.0, loss.epsilon + loss.mu),
        )

    def _find_sensitivity(self, publication: Publication) -> float:
        """Return the sensitivity that a publication's release states for the audited change."""
        return sensitivity_at(publication.release.sensitivity, self.change, self.guarantee.public)

    def _build_finding(
        self, worst: _TriedPair, nonadaptive: Bools, n_tried: int, pairs: int, assumption: str = ""
    ) -> AuditFinding:
        """Summarise the worst pair: its bound, and by query the answer that moved furthest.

        Args:
            worst: the worst pair so far.
            nonadaptive: array of shape (n_answers,), whether each query depends on no earlier
                answer.
            n_tried: number of pairs tried.
            pairs: number of pairs to try.
            assumption: what the bound assumes, in words.
        """
        names = {release.query: name for name, release in self.guarantee.releases}
        largest_by_query: dict[tuple[str, bool], ReleaseFinding] = {}
        for p, distance, is_nonadaptive in zip(
            worst.history, worst.distances, nonadaptive, strict=False
        ):
            query = p.release.query
            counts = bool(is_nonadaptive)
            name = names.get(query, query)
            norm = p.release.norm
            release_finding = ReleaseFinding(
                name, query, distance, self._find_sensitivity(p), norm, counts
            )
            largest = largest_by_query.setdefault((query, counts), release_finding)
            if distance > largest.measured:
                largest_by_query[query, counts] = release_finding
        loss = _sum_losses(worst.history, worst.distances, nonadaptive)
        delta = self.certified.delta
        # At delta > 0 the loss of releases without mu is only known from above, so a lower bound
        # counts only the Gaussian releases.
        epsilon = (Loss(mu=loss.mu) if delta > 0 else loss).epsilon_at(delta)
        return AuditFinding(
            method=AuditMethod.PROBE,
            valid=math.isfinite(epsilon),
            epsilon=epsilon,
            delta=delta,
            done=n_tried,
            total=pairs,
            refuted=self.find_contradiction(epsilon, largest_by_query.values()),
            releases=tuple(largest_by_query.values()),
            pair=worst.rows.to_changed_row(),
            given=assumption,
        )


def _compare_answers(history: History, replayed: History) -> Bools:
    """Return which answers before noise are equal in a replay; a missing one is not equal."""
    equal = [np.array_equal(p.private, q.private) for p, q in zip(history, replayed, strict=False)]
    return np.array(equal + [False] * (len(history) - len(equal)))


def _sum_losses(history: History, distances: tuple[float, ...], nonadaptive: Bools) -> Loss:
    """Return the total loss of the answers whose query is nonadaptive.

    Args:
        history: the answers; a release that is published several times has several.
        distances: how far each answer moves.
        nonadaptive: array of shape (n_answers,), whether each query depends on no earlier answer.
    """
    losses = (
        dataclasses.replace(p.release, times=1).loss(distance)
        for p, distance, is_nonadaptive in zip(history, distances, nonadaptive, strict=False)
        if is_nonadaptive and distance > 0
    )
    return sum(losses, Loss())
