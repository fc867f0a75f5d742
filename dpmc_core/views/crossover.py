"""Which of two mechanisms is better, where, and how certain that is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from dpmc_core.views import resample
from dpmc_core.views.compare import LEVEL, Line, Placed
from dpmc_core.views.resample import Estimate, short

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


FEWEST = 3  # seeds: from two alone an interval is too wide to say anything
HOW = (
    "Pairs are compared seed by seed: in each seed all mechanisms train and are tested on the same"
    " split. A winner is named only where the 95 % interval of the difference leaves out zero, at"
    " all epsilons together."
)
_WHERE = "wherever the seeds tell them apart"


class Lead(NamedTuple):
    """Epsilons from `first` to `last` at which one line beats the other beyond doubt.

    decided: whether it does at every epsilon computed between the two, or at some it is open.
    crossing: where the curves meet before `first`, after an opposite lead; None without one.
    """

    better: Line
    worse: Line
    first: float
    last: float
    decided: bool
    crossing: Estimate | None


class Duel(NamedTuple):
    """Two lines on the epsilons x that both cover, with every lead in order; seeds in common.

    claimed: key of the one whose epsilon is only claimed where the other's is certified, or empty.
    """

    one: Line
    other: Line
    x: Floats
    seeds: int
    leads: tuple[Lead, ...]
    claimed: str = ""


def duels(placed: Sequence[Placed], rng: np.random.Generator) -> list[Duel]:
    """Every pair of lines whose epsilons count the same: units are never mixed."""
    return [
        duel(a, b, rng)
        for a, b in itertools.combinations(placed, 2)
        if a.counts == b.counts and a.line.metric == b.line.metric
    ]


def duel(a: Placed, b: Placed, rng: np.random.Generator) -> Duel:
    """Compare two lines seed by seed: all mechanisms of a seed share its split.

    At each epsilon the 95 % t interval of the mean difference decides, widened so that it holds
    for all epsilons at once (Bonferroni). A crossing lies where the mean difference changes its
    sign, linear in log epsilon; its interval comes from resampled seeds, widened for their number.
    """
    x = _shared_axis(a.x, b.x)
    difference, seeds = _differences(a, b, x)
    if not len(x) or seeds < FEWEST:
        return Duel(a.line, b.line, x, seeds, ())
    signs = _decided(difference)
    drawn = resample.resamples(seeds, rng)
    leads: list[Lead] = []
    for sign, start, end in _runs(signs):
        decided = bool(signs[start : end + 1].all())
        better, worse = (a.line, b.line) if sign > 0 else (b.line, a.line)
        crossing = None
        if leads:
            crossing = _crossing(x, sign * difference, start, drawn)
        leads.append(Lead(better, worse, float(x[start]), float(x[end]), decided, crossing))
    hollow = [side.line.key for side in (a, b) if not side.solid]
    claimed = hollow[0] if len(hollow) == 1 else ""
    return Duel(a.line, b.line, x, seeds, tuple(leads), claimed)


def sentence(found: Duel, names: tuple[str, str] | None = None) -> str:
    """The duel in words; names: of the two lines, where not their labels."""
    one, other = names or (found.one.label, found.other.label)
    name = {found.one.key: one, found.other.key: other}
    text = _verdict(found, name)
    if found.leads and found.claimed:
        text += f" The epsilon of {name[found.claimed]} is claimed, not certified."
    return text


def _verdict(found: Duel, name: dict[str, str]) -> str:
    one, other, x = name[found.one.key], name[found.other.key], found.x
    if not len(x):
        return f"{one} and {other} have no epsilon in common in this unit."
    if found.seeds < FEWEST:
        return f"{one} and {other}: three seeds or more are needed to tell them apart."
    ends = f"{short(x[0])} and {short(x[-1])}"
    span = f"between epsilon {ends}" if len(x) > 1 else f"at epsilon {short(x[0])}"
    if not found.leads:
        return f"{one} and {other} cannot be told apart {span} ({found.seeds} seeds)."
    last = found.leads[-1]
    better, worse = name[last.better.key], name[last.worse.key]
    if len(found.leads) > 1:
        text = "; ".join(_turn(lead, name, x) for lead in found.leads[1:])
        first = found.leads[0]
        text += f"; before, {name[first.better.key]} beats {name[first.worse.key]}"
        ends_too = first.first == x[0] and last.last == x[-1]
        sure = ends_too and all(lead.decided for lead in found.leads)
        return f"{text}." if sure else f"{text}; {_WHERE}."
    if not last.decided:
        return f"{better} beats {worse} {_range(last, x)}, {_WHERE}."
    if last.first == x[0] and last.last == x[-1]:
        ends = f"{short(x[0])} to {short(x[-1])}"
        whole = f"at every epsilon from {ends}" if len(x) > 1 else span
        return f"{better} beats {worse} {whole}."
    return f"{better} beats {worse} {_range(last, x)}; elsewhere the seeds do not tell them apart."


def _turn(lead: Lead, name: dict[str, str], x: Floats) -> str:
    assert lead.crossing is not None  # every lead but the first follows another
    where = resample.words(lead.crossing, float(x[0]), float(x[-1]))
    return f"{name[lead.better.key]} beats {name[lead.worse.key]} above epsilon {where}"


def _range(lead: Lead, x: Floats) -> str:
    if lead.first == lead.last:
        return f"at epsilon {short(lead.first)}"
    if lead.last == x[-1] and lead.first > x[0]:
        return f"from epsilon {short(lead.first)} on"
    if lead.first == x[0] and lead.last < x[-1]:
        return f"up to epsilon {short(lead.last)}"
    return f"from epsilon {short(lead.first)} to {short(lead.last)}"


def _shared_axis(a: Floats, b: Floats) -> Floats:
    """The epsilons of both, where both have values."""
    low, high = max(a.min(), b.min()), min(a.max(), b.max())
    together = np.unique(np.concatenate([a, b]))
    # Two units may give epsilons that differ in the last digits only.
    together = together[np.concatenate([[True], np.diff(np.log(together)) > 1e-9])]
    slack = 1 + 1e-9
    inside: Floats = together[(together >= low / slack) & (together <= high * slack)]
    return inside


def _differences(a: Placed, b: Placed, x: Floats) -> tuple[Floats, int]:
    """a - b in the direction of better, at x, for the seeds that both have everywhere: X x S."""
    sides = []
    common = set(a.line.seeds[resample.complete(a.line.values)].tolist())
    common &= set(b.line.seeds[resample.complete(b.line.values)].tolist())
    for side in (a, b):
        kept = side.line.values[:, np.isin(side.line.seeds, sorted(common))]
        sides.append(resample.at(side.x, kept, x) if common and len(x) else np.empty((len(x), 0)))
    return a.line.metric.sign * (sides[0] - sides[1]), len(common)


def _decided(difference: Floats) -> Ints:
    """+1, -1 or 0 (undecided) at each epsilon."""
    points, seeds = difference.shape
    mean = difference.mean(axis=1)
    t = float(stdtrit(seeds - 1, 1 - (1 - LEVEL) / (2 * points)))
    half = t * difference.std(axis=1, ddof=1) / math.sqrt(seeds)
    return np.where(np.abs(mean) > half, np.sign(mean), 0).astype(np.int64)


def _runs(signs: Ints) -> list[tuple[int, int, int]]:
    """(sign, first, last) of each stretch with one sign, undecided places left out."""
    found: list[tuple[int, int, int]] = []
    for k in np.flatnonzero(signs):
        sign = int(signs[k])
        if found and found[-1][0] == sign:
            found[-1] = (sign, found[-1][1], int(k))
        else:
            found.append((sign, int(k), int(k)))
    return found


def _crossing(x: Floats, lead: Floats, start: int, drawn: Ints) -> Estimate:
    """Where the lead (X x S), positive from `start` on, was last zero before."""
    value = _last_zero(x, lead.mean(axis=1), start)
    found = np.array([_last_zero(x, row, start) for row in resample.means(lead, drawn)])
    return resample.estimate(value, found, lead.shape[1])


def _last_zero(x: Floats, lead: Floats, start: int) -> float:
    """The epsilon nearest below the first positive place from `start` on; 0 or inf for none."""
    k = start
    while k < len(x) and lead[k] <= 0:
        k += 1
    if k == len(x):
        return math.inf
    while k > 0 and lead[k - 1] > 0:
        k -= 1
    if k == 0:
        return 0.0
    share = -lead[k - 1] / (lead[k] - lead[k - 1])
    return float(np.exp(np.log(x[k - 1]) + share * np.log(x[k] / x[k - 1])))
