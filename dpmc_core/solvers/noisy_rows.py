"""Ratings from rows in which every cell was randomised: what the reports tell once their noise is
known.

Each cell of users x items, rated or not, may be reported. The public channel says how likely, and
what a report is worth: B = 1 where there is one and T, its score on the scale -1..1 (0 where there
is none), have known means and variances whether the cell is rated or missing. Sums of B and T over
a row or a column are then unbiased counts and sums of ratings with noise of known size, from which
the mean and the effects of users and items follow by empirical Bayes (Efron, Morris, "Stein's
estimation rule and its competitors", 1973). What taste is left is looked for in the cells most
likely to be genuine. One rule for every budget: where noise drowns a part, it shrinks to nothing.

Reports are read block by block of users, so that no pass needs more memory than one block.
No privacy here: reports are what was published, and the law of a report is public.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core.model import Factors, Step
from dpmc_core.ratings import Index, PublicFacts
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.rows import with_offsets
from dpmc_core.solvers.variational import EffectsAndTaste, effects_and_taste
from dpmc_core.stopping import look

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]

BLOCK = 1_000_000  # reports read at once: some 30 MB of scratch
CELLS = 1_500_000  # reported cells in which taste is looked for
ROUNDS = 20
_RANK = 5
_GENUINE = 0.9  # most that a cell is believed to be rated
# On the scale -1..1, so in half ranges; chosen on generated ratings.
_MEAN = 0.25  # standard deviation of the mean rating about 0
_RATING = 0.55  # of a rating about the mean
_EFFECT = 0.15  # of the effect of a user or item, worth _PSEUDO of them
_PSEUDO = 4
_DIFFER = 0.19  # variance of a rating about its effects
_RATED, _TOGETHER = 0.05, 1000  # of the cells; ratings of an effect: see LaplaceLaw
_SPREAD, _POOL = 2.5e-3, 1.25e-3  # variances of effects that the search for taste starts from
_LEAST = 1e-12  # a chance below it counts as this one


@dataclass(frozen=True, kw_only=True)
class Law:
    """What the channel does to one cell, whose rating is x in -1..1 where there is one.

    if_missing: f0, the chance that a missing cell is reported; if_rated: f1, that a rated one is.
    gain: kappa, the chance that a rated cell's report tells of x: E[T] = kappa x, and 0 if the
    cell is missing. square: V_n, E[T^2] over the reports of missing cells.
    """

    if_missing: float
    if_rated: float
    gain: float
    square: float

    def scores(self, reports: NDArray[Any]) -> Floats:
        """T of reported cells, as they were published."""
        raise NotImplementedError

    def scored(self, reports: NDArray[Any]) -> float:
        """The sum of the scores of any number of reports."""
        starts = range(0, len(reports), BLOCK)
        return math.fsum(float(self.scores(reports[k : k + BLOCK]).sum()) for k in starts)

    def spread(self, x: Floats) -> Floats:
        """V_r, the variance of T where it tells of a rating x."""
        raise NotImplementedError

    @property
    def slope(self) -> float:
        """g1 = f1 - f0: how much a rating adds to the chance of a report."""
        return self.if_rated - self.if_missing

    @property
    def count_noise(self) -> float:
        """v_c: variance of (B - f0)/g1 of a missing cell; its mean is 1 if rated, else 0."""
        return self.if_missing * (1 - self.if_missing) / self.slope**2

    @property
    def sum_noise(self) -> float:
        """v_t: variance of T/kappa of a missing cell; its mean is x if rated, else 0."""
        return self.if_missing * self.square / self.gain**2

    def rating_noise(self, differ: float) -> float:
        """What a rated cell adds to v_t, where ratings are around 0 with variance `differ`."""
        told = (differ + float(self.spread(np.zeros(1))[0])) / self.gain
        noise_less = self.if_missing - (self.if_rated - self.gain)  # it speaks in noise alone
        return told - noise_less * self.square / self.gain**2


@dataclass(frozen=True, kw_only=True)
class SymbolLaw(Law):
    """Symbols 1..d that stand for levels of mean 0, kept or replaced by any one alike."""

    levels: Floats

    @classmethod
    def of(cls, if_missing: float, gain: float, levels: Floats) -> SymbolLaw:
        """gain: how much likelier the own symbol is than each other one."""
        gain = max(gain, _LEAST)
        square = float(np.mean(np.square(levels)))
        return cls(
            if_missing=if_missing,
            if_rated=if_missing + gain,
            gain=gain,
            square=square,
            levels=levels,
        )

    def scores(self, reports: NDArray[Any]) -> Floats:
        return self.levels[reports.astype(np.intp) - 1]

    def spread(self, x: Floats) -> Floats:
        return np.zeros(len(x))


@dataclass(frozen=True, kw_only=True)
class LaplaceLaw(Law):
    """Ratings with Laplace noise of scale b, that may vanish; missing cells speak in noise alone.

    How far a report z lies beyond -1..1 tells nothing of x: T = z/slope within, +-end/slope beyond.
    With end = 1 + b, the mean of such z, E[T] is x exactly, at a variance of b^2 (2 - P(|z| > 1))
    in place of 2 b^2. A lower end has less noise and bends E[T], -(1 + b - end) e^(-1/b) sinh(x/b)
    off the line: the end is that of the least mean square error for the mean of _TOGETHER ratings,
    a share of _RATED of the cells.
    """

    scale: float
    end: float
    inner: float  # 1/slope

    @classmethod
    def of(cls, flip: float, scale: float) -> LaplaceLaw:
        """flip: the chance that a missing cell is reported, or a rated one is not."""
        x = np.linspace(-1, 1, 41)
        best, least = None, math.inf
        for end in 1 + scale * np.linspace(0, 1, 21):
            law = cls(
                if_missing=flip,
                if_rated=flip + max(1 - 2 * flip, _LEAST),
                gain=1 - flip,
                square=0.0,
                scale=scale,
                end=float(end),
                inner=1.0,
            )
            slope = float(x @ law.expected(x)) / float(x @ x)
            law = replace(law, inner=1 / slope)
            law = replace(law, square=float(law.spread(np.zeros(1))[0]))
            bent = float(np.mean((law.expected(x) - x) ** 2))
            error = law.sum_noise / (_RATED * _TOGETHER) + bent
            if error < least:
                best, least = law, error
        assert best is not None
        return best

    def scores(self, reports: NDArray[Any]) -> Floats:
        found = reports.astype(float)
        return self.inner * np.where(np.abs(found) <= 1, found, np.sign(found) * self.end)

    def expected(self, x: Floats) -> Floats:
        """E[T] where it tells of a rating x."""
        b, size = self.scale, np.abs(x)
        sinh = -np.exp((size - 1) / b) * np.expm1(-2 * size / b) / 2  # times e^(-1/b)
        found: Floats = self.inner * (x - np.sign(x) * (1 + b - self.end) * sinh)
        return found

    def spread(self, x: Floats) -> Floats:
        b, end = self.scale, self.end
        within = (np.expm1((x - 1) / b) + np.expm1((-1 - x) / b)) / 2  # -P(|z| <= 1)
        square = x**2 + (end**2 - 1 - 2 * b) + (end**2 - 1 - 2 * b - 2 * b**2) * within
        found: Floats = self.inner**2 * square - self.expected(x) ** 2
        return found


class _Part(NamedTuple):
    """The reports of a block of users: rows, their starts within it, items and scores."""

    rows: slice
    starts: NDArray[np.int64]
    items: Index
    scores: Floats

    def by_row(self, values: Floats) -> Floats:
        """Sum of one value per report over each row."""
        sums = np.concatenate(([0.0], np.cumsum(values)))
        return sums[self.starts[1:]] - sums[self.starts[:-1]]

    def spread(self, of_rows: Floats) -> Floats:
        """One value per row of the whole matrix, for each report of the block."""
        return np.repeat(of_rows[self.rows], np.diff(self.starts))


class _Reports:
    """Published rows and their law: passes over a block of users at a time."""

    def __init__(self, reported: csr_array, law: Law, block: int) -> None:
        self.reported, self.law, self.shape, self.block = reported, law, reported.shape, block

    def parts(self) -> Iterator[_Part]:
        indptr, m = self.reported.indptr, self.shape[0]
        start = 0
        while start < m:
            look()
            stop = int(np.searchsorted(indptr, indptr[start] + self.block, side="right")) - 1
            stop = min(max(stop, start + 1), m)
            k = slice(indptr[start], indptr[stop])
            starts = (indptr[start : stop + 1] - indptr[start]).astype(np.int64)
            scores = self.law.scores(self.reported.data[k])
            yield _Part(slice(start, stop), starts, self.reported.indices[k], scores)
            start = stop

    def sums(self) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """(reports, sum of scores) of each user, and of each item."""
        m, n = self.shape
        told, scored = np.zeros(n), np.zeros(n)
        users = np.zeros(m)
        for part in self.parts():
            users[part.rows] = part.by_row(part.scores)
            told += np.bincount(part.items, minlength=n)
            scored += np.bincount(part.items, weights=part.scores, minlength=n)
        return (np.diff(self.reported.indptr).astype(float), users), (told, scored)

    def over_items(self, of_items: Floats) -> Floats:
        """B times one value per item: its sum over each user's reports."""
        found = np.empty(self.shape[0])
        for part in self.parts():
            found[part.rows] = part.by_row(of_items[part.items])
        return found

    def over_users(self, of_users: Floats) -> Floats:
        """B' times one value per user: its sum over each item's reports."""
        found = np.zeros(self.shape[1])
        for part in self.parts():
            weights = part.spread(of_users)
            found += np.bincount(part.items, weights=weights, minlength=len(found))
        return found


@dataclass(frozen=True, eq=False)
class _Margin:
    """What is known of the users, or the items, of whom each has `cells` cells.

    raw: unbiased counts of ratings; count, doubt: their posterior means and variances; total:
    unbiased sums of ratings less the mean rating; noise: their variance.
    """

    cells: int
    raw: Floats
    count: Floats
    doubt: Floats
    total: Floats
    noise: Floats


def believed_counts(raw: Floats, variance: float) -> tuple[Floats, Floats]:
    """Posterior means and variances of counts of which `raw` are unbiased with that variance.

    A normal prior about their mean, its variance from the counts themselves. The prior's pull is at
    most one standard deviation of the noise, for counts have long tails (Efron, Morris, "Limiting
    the risk of Bayes and empirical Bayes estimators", 1972); what is left below 0 is cut off.
    """
    sd, mean = math.sqrt(variance), max(float(raw.mean()), 0.0)
    signal = max(float(np.mean((raw - mean) ** 2)) - variance, 0.0)
    weight = signal / (signal + variance) if signal > 0 else 0.0
    centre = np.clip(mean + weight * (raw - mean), raw - sd, raw + sd)
    return _positive(centre, math.sqrt(max(weight, _LEAST) * variance))


def _positive(centre: Floats, sd: float) -> tuple[Floats, Floats]:
    """Mean and variance of normal variables that are known to be positive."""
    from scipy.special import log_ndtr

    if sd == 0:
        return np.maximum(centre, 0.0), np.zeros(len(centre))
    z = centre / sd
    hazard = np.exp(-0.5 * z**2 - 0.5 * math.log(2 * math.pi) - log_ndtr(z))
    mean = np.maximum(sd * (z + hazard), 0.0)
    return mean, np.maximum(sd**2 * (1 - hazard * (z + hazard)), 0.0)


def shrunken_effects(
    total: Floats, count: Floats, doubt: Floats, noise: Floats
) -> tuple[Floats, Floats]:
    """Posterior means and variances of effects b.

    total: N b + noise of variance `noise`, with N known as `count`, its variance `doubt`. The best
    linear estimate; the prior variance of b by expectation and maximisation.
    """
    variance = _EFFECT**2
    for _ in range(500):
        look()
        gain = count * variance / ((count**2 + doubt) * variance + noise)
        effects = gain * total
        left = variance * (1 - gain * count)
        before = variance
        variance = float(np.sum(effects**2 + left) + _PSEUDO * _EFFECT**2) / (len(total) + _PSEUDO)
        if abs(variance - before) <= 1e-5 * before:
            break
    return effects, left


class Mean(NamedTuple):
    """The mean rating on the scale -1..1, and the number of ratings, both estimated."""

    rating: float
    ratings: float


def mean_rating(told: float, scored: float, cells: int, law: Law) -> Mean:
    """told: how many of the cells were reported; scored: the sum of their scores.

    The best linear estimate, for a number of ratings that is only known to be positive.
    """
    raw = (told - cells * law.if_missing) / law.slope
    found, spread = _positive(np.array([raw]), math.sqrt(cells * law.count_noise))
    count, doubt = float(found[0]), float(spread[0])
    noise = cells * law.sum_noise + count * law.rating_noise(_RATING**2)
    gain = count * _MEAN**2 / max((count**2 + doubt) * _MEAN**2 + noise, _LEAST)
    return Mean(gain * scored / law.gain, count)


def recovered(
    reported: csr_array, law: Law, public: PublicFacts, *, block: int = BLOCK
) -> Iterator[Step]:
    """Models in rating points from published rows: effects first, then rounds of taste.

    reported: users x items, a stored number for each reported cell, sorted by user and item.
    block: how many reports are read at once, which changes memory and time alone.
    """
    m, n = public.shape
    reports = _Reports(reported, law, block)
    del reported  # the last that holds them goes before taste takes its memory
    by_user, by_item = reports.sums()
    mean = mean_rating(float(by_user[0].sum()), float(by_user[1].sum()), m * n, law)
    users, items = _margin(*by_user, n, law, mean), _margin(*by_item, m, law, mean)
    a, b = _effects(reports, users, items)
    a += mean.rating
    trace = {
        "ratings, estimated": mean.ratings,
        "mean rating": public.middle + public.half_width * mean.rating,
        "rank": 0.0,
    }
    model = _in_points(a, b, np.zeros((m, 0)), np.zeros((n, 0)), public)
    step = Step(1, ROUNDS + 1, model, trace)
    scale = mean.ratings / max(float(users.count.sum() * items.count.sum()), _LEAST)
    pattern, y, w = _left_over(reports, scale * users.count, items.count, a, b)
    del reports
    for index, now in enumerate(_taste(pattern, y, w), 2):
        yield step
        model = _in_points(a + now.user, b + now.item, now.left, now.right, public)
        step = Step(index, ROUNDS + 1, model, trace | {"rank": float(now.left.shape[1])})
    yield replace(step, final=True)


def _in_points(a: Floats, b: Floats, left: Floats, right: Floats, public: PublicFacts) -> Factors:
    half = public.half_width
    return with_offsets(half * left, right, public.middle + half * a, half * b)


def _taste(pattern: Pattern, y: Floats, w: Floats) -> Iterator[EffectsAndTaste]:
    if not len(y):
        return iter(())
    return effects_and_taste(
        pattern,
        y - np.average(y, weights=w),  # or what the effects miss on all cells passes for taste
        weights=w,
        least_noise=1.0,
        rank=_RANK,
        rounds=ROUNDS,
        spread=_SPREAD,
        pseudo=_POOL,
    )


def _margin(told: Floats, scored: Floats, cells: int, law: Law, mean: Mean) -> _Margin:
    raw = (told - cells * law.if_missing) / law.slope
    count, doubt = believed_counts(raw, cells * law.count_noise)
    own = count * law.rating_noise(_RATING**2)
    noise = cells * (law.sum_noise + mean.rating**2 * law.count_noise) + own
    return _Margin(cells, raw, count, doubt, scored / law.gain - mean.rating * raw, noise)


def _effects(reports: _Reports, users: _Margin, items: _Margin) -> tuple[Floats, Floats]:
    """Effects of users and items in turn, each from sums less what the other side's add to them."""
    a = np.zeros(len(users.raw))
    for k in range(3):
        exposed, unsure = np.zeros(len(items.raw)), np.zeros(len(items.raw))
        if k:
            exposed, unsure = _exposure(reports.over_users(a), a, users, items, reports.law)
        total, noise = items.total - exposed, items.noise + unsure
        b, _ = shrunken_effects(total, items.count, items.doubt, noise)
        exposed, unsure = _exposure(reports.over_items(b), b, items, users, reports.law)
        total, noise = users.total - exposed, users.noise + unsure
        a, _ = shrunken_effects(total, users.count, users.doubt, noise)
    return a, b


def _exposure(
    over: Floats, effects: Floats, of: _Margin, side: _Margin, law: Law
) -> tuple[Floats, Floats]:
    """Sums of the other side's effects over each row's ratings: posterior means and variances.

    over: their sums over the row's reports, which are shrunk towards count x mean effect: with a
    prior variance in proportion to the count, for such a sum has as many terms.
    """
    mean = float(np.average(effects, weights=of.count + np.finfo(float).tiny))
    centred = effects - mean
    reported = side.cells * law.if_missing + side.raw * law.slope
    raw = (over - mean * reported - law.if_missing * float(centred.sum())) / law.slope
    noise = law.count_noise * float(centred @ centred)
    signal = max(float(raw @ raw) - noise * len(raw), 0.0)
    prior = signal / max(float(side.count.sum()), 1.0) * side.count
    weight = prior / np.maximum(prior + noise, np.finfo(float).tiny)
    return mean * side.count + weight * raw, weight * noise


def _likely(reports: _Reports, users: Floats, items: Floats) -> float:
    """The least product users x items of a reported cell at which at most CELLS lie above it."""
    edges = max(float(users.max() * items.max()), _LEAST) * np.exp(np.linspace(-20.0, 0.0, 2_000))
    seen = np.zeros(len(edges) + 1)
    for part in reports.parts():
        product = part.spread(users) * items[part.items]
        seen += np.bincount(np.searchsorted(edges, product), minlength=len(seen))
    above = np.append(np.cumsum(seen[::-1])[::-1], 0.0)  # [k]: those above edge k - 1
    first = int(np.argmax(above <= CELLS))
    return float(edges[min(first, len(edges)) - 1]) if first else -1.0


def _left_over(
    reports: _Reports, users: Floats, items: Floats, a: Floats, b: Floats
) -> tuple[Pattern, Floats, Floats]:
    """What scores tell beyond the effects, and its precision, on the cells most likely to be rated.

    users x items: the chance of that; a + b: the rating that the effects expect.

    The score of a reported cell is rho x on average, rho the chance that it tells of the rating x;
    its variance is that of noise (V_n), of a genuine report (V_r, and what ratings differ), and of
    not knowing which of the two it is.
    """
    law, least, found = reports.law, _likely(reports, users, items), []
    for part in reports.parts():
        chance = part.spread(users) * items[part.items]
        keep = np.flatnonzero(chance > least)
        rows = part.rows.start + np.searchsorted(part.starts, keep, side="right") - 1
        columns, chance = part.items[keep], np.minimum(chance[keep], _GENUINE)
        rho = chance * law.gain / (law.if_missing + chance * law.slope)
        rho = np.maximum(rho, _LEAST)
        expected = a[rows] + b[columns]
        x = np.clip(expected, -1, 1)
        variance = (1 - rho) * law.square + rho * (law.spread(x) + _DIFFER)
        variance += rho * (1 - rho) * x**2
        y, w = part.scores[keep] / rho - expected, rho**2 / variance
        found.append((rows.astype(np.int32), columns.astype(np.int32), y, w))
    rows, columns, y, w = (np.concatenate(c) for c in zip(*found, strict=True))
    indptr = np.searchsorted(rows, np.arange(len(users) + 1))
    return Pattern(rows, columns, indptr, reports.shape), y, w
