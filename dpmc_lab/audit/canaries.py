"""Canaries in one run: things of the mechanism's own unit, each there or not by a fair coin.

One run with the canaries planted is published. Whether each is there is then guessed from every
published answer, by how much likelier the answer is with it than without: the runs that say so
hear the published answers, and know all but these coins and the noise, also what a mechanism draws
beside its noise. How canaries look, how many there are and how many are guessed is decided by a
rehearsal with coins and noise of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dpmc_core.arrays import Bools, Floats, Ints, Rng
from dpmc_core.mechanisms.dpimf import Sampled
from dpmc_core.model import Mechanism
from dpmc_core.privacy import (
    CELL,
    RATING,
    ROW_VALUES,
    USER_REPLACED,
    Additive,
    Change,
    Gaussian,
    NormLaplace,
    Publication,
)
from dpmc_core.privacy.accounting import gaussian_epsilon
from dpmc_core.privacy.audit import canary_bound, gaussian_canary_bound, right_guesses
from dpmc_core.ratings import Ratings
from dpmc_core.stopping import check_cancelled
from dpmc_lab.audit.probe import History, RatingTable, run
from dpmc_lab.audit.report import (
    CONFIDENCE,
    FALSE_ALARM,
    Inapplicable,
    Measured,
    Subject,
)
from dpmc_lab.measured import Method, Refuted

MOST = 1000  # canaries, where they do not meet in any answer
_REHEARSED = 8  # canaries of which a rehearsal measures what they move
_SUREST = 20  # of so many canaries one is guessed where they meet and noise is Gaussian
_SHARES = (1, 0.7, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02)  # of the canaries, to be guessed
_NO_CELL = -1e12  # in place of a number where sparse rows have none
_GAUSSIAN = "Gaussian noise, as on the card"


@dataclass(frozen=True, eq=False)
class CanaryPlan:
    """Canaries in a table: `heads` and `tails` are what the cells of each hold, by its coin.

    owner: users x items, which canary a cell belongs to, -1: none.
    """

    table: RatingTable
    heads: Floats
    tails: Floats
    owner: Ints
    count: int

    def planted(self, coins: Bools) -> Ratings:
        up = np.append(coins, False)[self.owner]  # -1 is the last
        return replace(self.table, values=np.where(up, self.heads, self.tails)).ratings()

    def first(self, count: int) -> CanaryPlan:
        """The same with fewer canaries: the others' cells are as they were."""
        gone = self.owner >= count
        return replace(
            self,
            tails=np.where(gone, self.table.values, self.tails),
            owner=np.where(gone, -1, self.owner),
            count=min(count, self.count),
        )


def plans(table: RatingTable, change: Change, rng: Rng) -> list[CanaryPlan]:
    """Ways to plant canaries of a unit; each is tried in a rehearsal."""
    values, low, high = table.values, table.ends[0], table.ends[-1]
    users, items = values.shape
    rated = ~np.isnan(values)
    fullest = int(rated.sum(axis=1).argmax())  # stays: never no data

    def plan(where: Any, rows: Any, away: Any) -> CanaryPlan:
        """Canary k has `rows` in the cells, or the row, `where[k]` names; or `away`."""
        heads, tails, owner = values.copy(), values.copy(), np.full(values.shape, -1)
        count = len(where[0])
        heads[where], tails[where] = rows, away
        owner[where] = np.arange(count) if len(where) == 2 else np.arange(count)[:, None]
        return CanaryPlan(table, heads, tails, owner, count)

    if change in (RATING, CELL):
        if change is RATING:
            cells = np.argwhere(rated)
        elif table.most == items:
            cells = np.argwhere(np.ones_like(rated))
        else:  # users have room for one more rating at most: one canary a user under a cap
            some = np.where(rated, rng.random(values.shape), -1.0).argmax(axis=1)
            cells = np.column_stack([np.arange(users), some])
        if change is CELL:
            cells = cells[cells[:, 0] != fullest]
        where = tuple(rng.permutation(cells)[:MOST].T)
        return [plan(where, high, low if change is RATING else np.nan)]
    found = []
    others = rng.permutation(np.delete(np.arange(users), fullest))[:MOST]
    swapped = change is ROW_VALUES or (change is USER_REPLACED and len(table.ends) > 1)
    for full, chosen in ((False, others[:items]), (True, others)):
        n = len(chosen)
        if full:  # random ends on random items
            rows = rng.choice(table.ends, (n, items))
            size = table.most if len(table.ends) > 1 else max(1, min(table.most, items // 2))
        else:  # one rating each, of an item of its own
            rows, size = np.full((n, items), high), 0
        if change is ROW_VALUES:
            there = rated[chosen]
        elif full:
            there = rng.random((n, items)).argsort(axis=1) < size
        else:
            there = np.eye(n, items, dtype=bool)
        rows = np.where(there, rows, np.nan)
        found.append(plan((chosen,), rows, low + high - rows if swapped else np.nan))
    return found


@dataclass(frozen=True, eq=False)
class Scorer:
    """A published run with canaries, and the runs that score them: they hear its answers."""

    mechanism: Mechanism
    plan: CanaryPlan
    history: History
    seed: int

    def seen(self, coins: Bools) -> History:
        """What is asked of other coins after the same answers."""
        check_cancelled()
        ratings = self.plan.planted(coins)
        return run(self.mechanism, ratings, self.seed, self.history)[: len(self.history)]

    def only(self, canary: int) -> History:
        """What is asked where one canary alone is there."""
        return self.seen(np.arange(self.plan.count) == canary)

    @cached_property
    def none(self) -> History:
        """What is asked with no canary there."""
        return self.only(-1)

    @cached_property
    def every(self) -> History:
        """What is asked with all canaries there."""
        return self.seen(np.ones(self.plan.count, dtype=bool))

    @cached_property
    def owners(self) -> dict[int, Ints]:
        """Answers in which every part hangs on one canary's coin at most: which one's, by part.

        Every canary has a number, which runs write digit by digit, and then its complement: a part
        that several canaries reach shows a value of its own, or no number.
        """
        none, every = self.none, self.every
        differs = [~_near(p, q) for p, q in zip(none, every, strict=True)]
        widths = [np.abs(_values(p) - _values(q)) for p, q in zip(none, every, strict=True)]
        apart = {k: np.zeros(d.shape, dtype=np.int64) for k, d in enumerate(differs) if d.any()}
        codes = np.arange(1, self.plan.count + 1)
        for digit in range(int(self.plan.count).bit_length()):
            written = (codes >> digit) & 1 == 1
            for complement in (False, True):
                if not apart:
                    return {}
                seen = self.seen(written != complement)
                for k, numbers in tuple(apart.items()):
                    off = _near(none[k], seen[k], widths[k])
                    on = _near(every[k], seen[k], widths[k])
                    if not complement:
                        numbers += on.astype(np.int64) << digit
                    one = (numbers >> digit) & 1 == 1
                    told = np.where(differs[k], (on ^ off) & (on == (one ^ complement)), on & off)
                    if not told.all():
                        del apart[k]
        return {
            k: np.where(differs[k], numbers - 1, -1)
            for k, numbers in apart.items()
            if np.isin(numbers[differs[k]], codes).all()
        }

    def at_once(self, alone: Collection[int]) -> Floats:
        """Log likelihood ratios of all canaries, from answers in which they do not meet."""
        scores = np.zeros(self.plan.count)
        for k, owner in self.owners.items():
            if k in alone:
                ratio = _likelier(self.history[k], self.every[k].private, self.none[k].private)
                owned = owner >= 0
                scores += np.bincount(owner[owned], ratio[owned], minlength=len(scores))
        return scores

    def one_by_one(self) -> Iterator[float]:
        """The log likelihood ratio of each canary, every other one taken half for there."""
        for canary in range(self.plan.count):
            total = 0.0
            asked = self.history, self.none, self.every, self.only(canary)
            for p, low, high, with_it in zip(*asked, strict=True):
                one, other = with_it.private, low.private
                if isinstance(p.release, Additive):
                    middle, half = (low.private + high.private) / 2, (one - other) / 2
                    one, other = middle + half, middle - half
                total += float(_likelier(p, one, other).sum())
            yield total

    def power(self, alone: Collection[int]) -> float:
        """How far the scores of a canary with and without lie apart, in standard deviations."""
        count = min(_REHEARSED, self.plan.count)
        moves = [_moves(self.none, self.only(canary), alone) for canary in range(count)]
        inner = np.array([[float(a @ b) for a in moves] for b in moves])
        own = np.diag(inner)
        others = (np.square(inner).sum() - np.square(own).sum()) / max(1, count * (count - 1))
        noise = np.sqrt(own + 0.25 * others * (0 if alone else self.plan.count - 1) + 1e-300)
        return float(np.median(own / noise))


class Rehearsal(NamedTuple):
    """What a rehearsal decided. alone: the answers in which canaries do not meet; none: each
    canary takes a run to score."""

    plan: CanaryPlan
    alone: Collection[int]
    guesses: int


class Keeper(Subject):
    """Plants canaries."""

    def audit(
        self, ratings: Ratings, runs: int, rehearsed: Rehearsal | None = None
    ) -> Iterator[Measured]:
        """One run with canaries, at most `runs` of them where each takes a run to score.

        rehearsed: of the same mechanism and ratings, at a seed of its own.
        """
        plan, alone, guesses = rehearsed or self.rehearsed(ratings, runs)
        coins = np.random.default_rng([self.seed, 5]).random(plan.count) < 0.5
        # Those runs draw as the published one, whose random choices are taken for known, but where
        # they are a part of the noise.
        known = self.seed + (4 if isinstance(self.mechanism, Sampled) else 2)
        scorer = self._published(plan, coins, self.seed + 2, known)
        found = Measured(
            method=Method.CANARIES,
            valid=False,
            epsilon=0.0,
            delta=self.certified.delta,
            confidence=CONFIDENCE,
            done=0,
            total=plan.count,
            refuted=Refuted.NOTHING,
            canaries=plan.count,
            guesses=guesses,
            given=_GAUSSIAN if self._gaussian else "",
        )
        scores = np.zeros(plan.count)
        if alone:
            scores = scorer.at_once(alone)
        else:
            for canary, score in enumerate(scorer.one_by_one()):
                scores[canary] = score
                yield replace(found, done=canary + 1)
        right = right_guesses(scores, coins, guesses)
        yield replace(
            found,
            valid=True,
            epsilon=self._bound(plan.count, guesses, right),
            done=plan.count,
            refuted=self.contradicted(self._bound(plan.count, guesses, right, 1 - FALSE_ALARM)),
            right=right,
        )

    def rehearsed(self, ratings: Ratings, runs: int) -> Rehearsal:
        """Which canaries promise most, how they are scored, and how many to guess.

        Raises Inapplicable where nothing can change.
        """
        table, rng = RatingTable.of(ratings), np.random.default_rng([self.seed, 2])
        if self.change in (RATING, ROW_VALUES) and len(table.ends) == 1:
            raise Inapplicable("all ratings are alike, so no value can change")
        found = []
        for plan in plans(table, self.change, rng):
            coins = rng.random(plan.count) < 0.5
            scorer = self._published(plan, coins, self.seed + 3, self.seed + 3)
            alone = scorer.owners.keys()
            if not alone:
                scorer = replace(scorer, plan=plan.first(runs))
            found.append((scorer.power(alone), scorer, alone))
        _, scorer, alone = max(found, key=lambda one: one[0])
        return Rehearsal(scorer.plan, alone, self._guesses(scorer, alone))

    def _published(self, plan: CanaryPlan, coins: Bools, seed: int, scored: int) -> Scorer:
        """A run with these coins. scored: the seed of the runs that score."""
        return Scorer(self.mechanism, plan, run(self.mechanism, plan.planted(coins), seed), scored)

    def _guesses(self, scorer: Scorer, alone: Collection[int]) -> int:
        """How many to guess: what the rehearsal's scores promise to be best.

        A log likelihood ratio of s is right with chance 1/(1 + e^-|s|). Where canaries meet it is
        not, and the surest few, or all if everything is pure, stand.
        """
        count = scorer.plan.count
        if not alone:
            every = self.card.loss(self.change).mu == 0 and self.certified.delta == 0
            return count if every else max(min(count, 50), count // _SUREST)
        sure = np.sort(np.abs(scorer.at_once(alone)))[::-1]
        right = np.cumsum(1 / (1 + np.exp(-np.minimum(sure, 700.0))))
        counts = {max(1, int(share * count)) for share in _SHARES}
        return max(counts, key=lambda k: (self._bound(count, k, int(right[k - 1])), k))

    def _bound(
        self, canaries: int, guesses: int, right: int, confidence: float = CONFIDENCE
    ) -> float:
        delta = self.certified.delta
        if self._gaussian:
            mu = gaussian_canary_bound(canaries, guesses, right, confidence=confidence)
            return gaussian_epsilon(mu, delta)
        return canary_bound(canaries, guesses, right, delta=delta, confidence=confidence)

    @property
    def _gaussian(self) -> bool:
        """Whether all that the card spends is Gaussian, with a sharper bound."""
        noise = (release for _, release in self.card.releases)
        return self.certified.delta > 0 and all(isinstance(one, Gaussian) for one in noise)


def _values(publication: Publication) -> Floats:
    """The private value by its parts; of sparse rows the whole matrix."""
    private = publication.private
    if isinstance(private, np.ndarray):
        return private.astype(float)
    stored = private.astype(bool)
    stored.data[:] = True
    return np.where(stored.toarray(), private.toarray(), _NO_CELL)


def _near(p: Publication, q: Publication, width: Floats | float = 0.0) -> Any:
    """Which parts are alike, as far as rounding goes; width: how far canaries move each number."""
    one, other = _values(p), _values(q)
    rounding = np.maximum(1e-9 * (1 + np.abs(one)), 1e-6 * np.asarray(width))
    near: Any = np.abs(one - other) <= rounding
    return near.all(axis=-1) if isinstance(p.release, NormLaplace) else near  # a part is a row


def _likelier(p: Publication, one: Any, other: Any) -> Floats:
    """The log likelihood ratio of each part of an answer."""
    logs: Floats = p.release.log_likelihood(p.published, one)
    return logs - p.release.log_likelihood(p.published, other)


def _moves(without: History, seen: History, alone: Collection[int]) -> Floats:
    """What a canary moves, by its noise, in the answers that are read."""
    found = []
    for k, (p, q) in enumerate(zip(without, seen, strict=True)):
        if not alone or k in alone:
            moved, release = (_values(q) - _values(p)).ravel(), p.release
            at_all = (moved != 0).astype(float)
            found.append(moved / release.scale if isinstance(release, Additive) else at_all)
    return np.concatenate(found)
