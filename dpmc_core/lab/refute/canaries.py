"""Canaries in one run: things of the mechanism's own unit, each there or not by a fair coin.

One run with the canaries planted is published. Whether each is there is then guessed from every
published answer, by how much likelier the answer is with it than without: the runs that say so
hear the published answers, and know all but these coins and the noise, also what a mechanism draws
beside its noise. How canaries look, how many there are and how many are guessed is decided by a
rehearsal with coins and noise of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core.lab.refute.pairs import RatingTable
from dpmc_core.lab.refute.probe import History, run
from dpmc_core.lab.refute.report import (
    CONFIDENCE,
    FALSE_ALARM,
    Inapplicable,
    Measured,
    Method,
    Subject,
    refuted_by,
)
from dpmc_core.mechanisms.dpimf import Sampled
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
from dpmc_core.privacy.audit import canary_bound, gaussian_canary_bound
from dpmc_core.ratings import Ratings
from dpmc_core.stopping import look

Floats = NDArray[np.float64]
Bits = NDArray[np.bool_]
Ints = NDArray[np.int64]

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

    def planted(self, coins: Bits) -> Ratings:
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


def plans(table: RatingTable, change: Change, rng: np.random.Generator) -> list[CanaryPlan]:
    """Ways to plant canaries of a unit; each is tried in a rehearsal."""
    values, low, high = table.values, table.ends[0], table.ends[-1]
    users, items = values.shape
    fullest = int(np.count_nonzero(~np.isnan(values), axis=1).argmax())  # stays: never no data
    if change in (RATING, CELL):
        where = np.argwhere(~np.isnan(values)) if change is RATING else _any_cells(table, rng)
        if change is CELL:
            where = where[where[:, 0] != fullest]
        where = rng.permutation(where)[:MOST]
        owner = np.full(values.shape, -1)
        owner[where[:, 0], where[:, 1]] = np.arange(len(where))
        chosen = owner >= 0
        heads = np.where(chosen, high, values)
        tails = np.where(chosen, low if change is RATING else np.nan, values)
        return [CanaryPlan(table, heads, tails, owner, len(where))]
    found = []
    others = rng.permutation(np.delete(np.arange(users), fullest))[:MOST]
    for rows, chosen in ((_single, others[:items]), (_full, others)):
        heads, tails, owner = values.copy(), values.copy(), np.full(values.shape, -1)
        heads[chosen] = rows(table, len(chosen), rng, values[chosen], change)
        if change is ROW_VALUES or (change is USER_REPLACED and len(table.ends) > 1):
            tails[chosen] = low + high - heads[chosen]
        else:
            tails[chosen] = np.nan
        owner[chosen] = np.arange(len(chosen))[:, None]
        found.append(CanaryPlan(table, heads, tails, owner, len(chosen)))
    return found


def _any_cells(table: RatingTable, rng: np.random.Generator) -> NDArray[np.intp]:
    """Cells of users who have room for one more rating at most: one canary a user under a cap."""
    users, items = table.values.shape
    if table.most == items:
        return np.argwhere(np.ones((users, items), dtype=bool))
    return np.column_stack([np.arange(users), _some_rated(table, rng)])


def _some_rated(table: RatingTable, rng: np.random.Generator) -> NDArray[np.intp]:
    priority = np.where(np.isnan(table.values), -1.0, rng.random(table.values.shape))
    chosen: NDArray[np.intp] = priority.argmax(axis=1)
    return chosen


def _single(
    table: RatingTable,
    count: int,
    rng: np.random.Generator,  # noqa: ARG001 - as for the other kind
    own: Floats,
    change: Change,
) -> Floats:
    """One rating each, of an item of its own."""
    rows = np.full((count, table.public.items), np.nan)
    if change is ROW_VALUES:
        return np.where(np.isnan(own), np.nan, table.ends[-1])
    rows[np.arange(count), np.arange(count)] = table.ends[-1]
    return rows


def _full(
    table: RatingTable, count: int, rng: np.random.Generator, own: Floats, change: Change
) -> Floats:
    """Random ends on random items."""
    n = table.public.items
    ends = rng.choice(table.ends, (count, n))
    if change is ROW_VALUES:
        return np.where(np.isnan(own), np.nan, ends)
    size = table.most if len(table.ends) > 1 else max(1, min(table.most, n // 2))
    place = rng.random((count, n)).argsort(axis=1)
    rows: Floats = np.where(place < size, ends, np.nan)
    return rows


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """What a rehearsal decided. alone: the answers in which canaries do not meet; none: each
    canary takes a run to score."""

    plan: CanaryPlan
    alone: tuple[int, ...]
    guesses: int


@dataclass(frozen=True)
class Keeper(Subject):
    """Plants canaries."""

    def audit(
        self,
        ratings: Ratings,
        runs: int,
        tell: Callable[[Measured], None],
        rehearsed: Rehearsal | None = None,
    ) -> Measured:
        """One run with canaries, at most `runs` of them where each takes a run to score.

        rehearsed: of the same mechanism and ratings, at a seed of its own.
        """
        found = rehearsed or self.rehearsed(ratings, runs)
        plan, guesses = found.plan, found.guesses
        coins = np.random.default_rng([self.seed, 5]).random(plan.count) < 0.5
        history = run(self.mechanism, plan.planted(coins), self.seed + 2)
        scores = np.zeros(plan.count)
        if found.alone:
            scores = self._apart(plan, history, found.alone, self._known)
        else:
            for canary, score in enumerate(self._one_by_one(plan, history)):
                scores[canary] = score
                tell(self._measured(plan.count, guesses, 0, canary + 1))
        surest = np.argsort(-np.abs(scores), kind="stable")[:guesses]
        right = int(((scores > 0) == coins)[surest].sum())
        return self._measured(plan.count, guesses, right, plan.count, valid=True)

    def _guesses(self, plan: CanaryPlan, history: History, alone: Sequence[int]) -> int:
        """How many to guess: what the rehearsal's scores promise to be best.

        A log likelihood ratio of s is right with chance 1/(1 + e^-|s|). Where canaries meet it is
        not, and the surest few, or all if everything is pure, stand.
        """
        if not alone:
            every = self.card.loss(self.change).mu == 0 and self.delta == 0
            return plan.count if every else max(min(plan.count, 50), plan.count // _SUREST)
        sure = np.sort(np.abs(self._apart(plan, history, alone, self.seed + 3)))[::-1]
        right = np.cumsum(1 / (1 + np.exp(-np.minimum(sure, 700.0))))
        counts = {max(1, int(share * plan.count)) for share in _SHARES}
        bounds = {k: self._bound(plan.count, k, int(right[k - 1])) for k in sorted(counts)}
        return max(bounds, key=lambda k: (bounds[k], k))

    def _bound(
        self, canaries: int, guesses: int, right: int, confidence: float = CONFIDENCE
    ) -> float:
        if self._gaussian:
            mu = gaussian_canary_bound(canaries, guesses, right, confidence=confidence)
            return gaussian_epsilon(mu, self.delta)
        return canary_bound(canaries, guesses, right, delta=self.delta, confidence=confidence)

    @property
    def _gaussian(self) -> bool:
        """Whether all that the card spends is Gaussian, with a sharper bound."""
        return self.delta > 0 and all(isinstance(r, Gaussian) for _, r in self.card.releases)

    def _measured(
        self, canaries: int, guesses: int, right: int, done: int, valid: bool = False
    ) -> Measured:
        epsilon, sure = 0.0, 0.0
        if valid:
            epsilon = self._bound(canaries, guesses, right)
            sure = self._bound(canaries, guesses, right, 1 - FALSE_ALARM)
        certified = self.card.certified(self.change, self.delta).epsilon
        return Measured(
            Method.CANARIES,
            valid=valid,
            epsilon=epsilon,
            delta=self.delta,
            confidence=CONFIDENCE,
            done=done,
            total=canaries,
            refuted=refuted_by(sure, self.claimed, certified),
            canaries=canaries,
            guesses=guesses,
            right=right,
            given=_GAUSSIAN if self._gaussian else "",
        )

    def rehearsed(self, ratings: Ratings, runs: int) -> Rehearsal:
        """Which canaries promise most, how they are scored, and how many to guess.

        Raises Inapplicable where nothing can change.
        """
        table, rng = RatingTable.of(ratings), np.random.default_rng([self.seed, 2])
        if self.change in (RATING, ROW_VALUES) and len(table.ends) == 1:
            raise Inapplicable("all ratings are alike, so no value can change")
        best: tuple[float, Rehearsal] | None = None
        for plan in plans(table, self.change, rng):
            coins = rng.random(plan.count) < 0.5
            history = run(self.mechanism, plan.planted(coins), self.seed + 3)
            alone = tuple(self._owners(plan, history, self.seed + 3))
            used = plan if alone else plan.first(runs)
            power = self._power(used, history, alone)
            if best is None or power > best[0]:
                best = power, Rehearsal(used, alone, self._guesses(used, history, alone))
        assert best is not None
        return best[1]

    def _power(self, plan: CanaryPlan, history: History, alone: tuple[int, ...]) -> float:
        """How far the scores of a canary with and without lie apart, in standard deviations."""
        count = min(_REHEARSED, plan.count)
        without = self._seen(plan, _only(plan.count, -1), history, self.seed + 3)
        moves = []
        for canary in range(count):
            look()
            seen = self._seen(plan, _only(plan.count, canary), history, self.seed + 3)
            moves.append(_moves(without, seen, alone))
        inner = np.array([[float(a @ b) for a in moves] for b in moves])
        own = np.diag(inner)
        others = (np.square(inner).sum() - np.square(own).sum()) / max(1, count * (count - 1))
        noise = np.sqrt(own + 0.25 * others * (0 if alone else plan.count - 1) + 1e-300)
        return float(np.median(own / noise))

    def _one_by_one(self, plan: CanaryPlan, history: History) -> Iterator[float]:
        """The log likelihood ratio of each canary, every other one taken half for there."""
        none, every = self._ends(plan, history, self._known)
        for canary in range(plan.count):
            look()
            seen = self._seen(plan, _only(plan.count, canary), history, self._known)
            yield _ratio(history, none, every, seen)

    def _apart(self, plan: CanaryPlan, history: History, alone: Sequence[int], seed: int) -> Floats:
        """Log likelihood ratios of all canaries at once, from answers in which they do not meet."""
        none, every = self._ends(plan, history, seed)
        owners, scores = self._owners(plan, history, seed), np.zeros(plan.count)
        for k in set(alone) & set(owners):
            release, told = history[k].release, history[k].published
            ratio = release.log_likelihood(told, every[k].private)
            ratio = ratio - release.log_likelihood(told, none[k].private)
            owned = owners[k] >= 0
            scores += np.bincount(owners[k][owned], ratio[owned], minlength=plan.count)
        return scores

    def _owners(self, plan: CanaryPlan, history: History, seed: int) -> dict[int, Ints]:
        """Answers in which every part hangs on one canary's coin at most: which one's, by part.

        Every canary has a number, which runs write digit by digit, and then its complement: a part
        that several canaries reach shows a value of its own, or no number.
        """
        none, every = self._ends(plan, history, seed)
        differs = [~_near(p, q) for p, q in zip(none, every, strict=True)]
        widths = [np.abs(_values(p) - _values(q)) for p, q in zip(none, every, strict=True)]
        numbers = [np.zeros(part.shape, dtype=np.int64) for part in differs]
        apart = {k for k, part in enumerate(differs) if part.any()}
        codes = np.arange(1, plan.count + 1)
        for digit in range(int(plan.count).bit_length()):
            for complement in (False, True):
                if not apart:
                    return {}
                look()
                coins = ((codes >> digit) & 1 == 1) != complement
                seen = self._seen(plan, coins, history, seed)
                for k in tuple(apart):
                    off = _near(none[k], seen[k], widths[k])
                    on = _near(every[k], seen[k], widths[k])
                    if not complement:
                        numbers[k] += on.astype(np.int64) << digit
                    one = (numbers[k] >> digit) & 1 == 1
                    if (
                        not np.where(differs[k], on ^ off, on & off).all()
                        or ((on == (one if complement else ~one)) & differs[k]).any()
                    ):
                        apart.discard(k)
        apart = {k for k in apart if numbers[k][differs[k]].min() >= 1}
        apart = {k for k in apart if numbers[k][differs[k]].max() <= plan.count}
        return {k: np.where(differs[k], numbers[k] - 1, -1) for k in apart}

    def _ends(self, plan: CanaryPlan, history: History, seed: int) -> tuple[History, History]:
        """What is asked with no canary there and with all of them."""
        every = np.ones(plan.count, dtype=bool)
        return tuple(self._seen(plan, coins, history, seed) for coins in (~every, every))  # type: ignore[return-value]

    def _seen(self, plan: CanaryPlan, coins: Bits, history: History, seed: int) -> History:
        return run(self.mechanism, plan.planted(coins), seed, history)[: len(history)]

    @property
    def _known(self) -> int:
        """The seed of the runs that score: that of the published run, whose random choices are
        taken for known, but where they are a part of the noise."""
        return self.seed + (4 if isinstance(self.mechanism, Sampled) else 2)


def _only(count: int, canary: int) -> Bits:
    """The coins of one canary alone, of none for -1."""
    coins: Bits = np.zeros(count, dtype=bool)
    if canary >= 0:
        coins[canary] = True
    return coins


def _values(publication: Publication) -> Floats:
    """The private value by its parts; of sparse rows the whole matrix."""
    private = publication.private
    if isinstance(private, np.ndarray):
        return private.astype(float)
    stored = private.copy()
    stored.data = np.ones_like(stored.data)
    whole: Floats = np.where(stored.toarray() > 0, private.toarray(), _NO_CELL)
    return whole


def _near(p: Publication, q: Publication, width: Floats | float = 0.0) -> Any:
    """Which parts are alike, as far as rounding goes; width: how far canaries move each number."""
    one, other = _values(p), _values(q)
    rounding = np.maximum(1e-9 * (1 + np.abs(one)), 1e-6 * np.asarray(width))
    apart: Any = np.abs(one - other) > rounding
    if isinstance(p.release, NormLaplace):
        apart = apart.any(axis=-1)  # a part is a row
    return np.logical_not(apart)


def _ratio(history: History, none: History, every: History, seen: History) -> float:
    """The log likelihood ratio of one canary, from all that was published."""
    total = 0.0
    for p, low, high, with_it in zip(history, none, every, seen, strict=True):
        one, other = with_it.private, low.private
        if isinstance(p.release, Additive):
            middle, half = (low.private + high.private) / 2, (one - other) / 2
            one, other = middle + half, middle - half
        ratio = p.release.log_likelihood(p.published, one)
        total += float((ratio - p.release.log_likelihood(p.published, other)).sum())
    return total


def _moves(without: History, seen: History, alone: Sequence[int]) -> Floats:
    """What a canary moves, by its noise, in the answers that are read."""
    found = []
    for k, (p, q) in enumerate(zip(without, seen, strict=True)):
        if alone and k not in alone:
            continue
        moved = (_values(q) - _values(p)).ravel()
        additive = isinstance(p.release, Additive)
        found.append(moved / p.release.scale if additive else (moved != 0).astype(float))  # type: ignore[attr-defined]
    return np.concatenate(found)
