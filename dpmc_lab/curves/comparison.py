"""Which of two mechanisms is better and where, seed by seed; and what an attacker may ask."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpmc_core.arrays import Floats
from dpmc_lab.curves.lines import (
    AS_CLAIMED,
    LEVEL,
    Line,
    Placed,
    interval,
    short,
)
from dpmc_lab.curves.numbers import (
    FEWEST,
    Estimate,
    complete,
    estimate,
    estimate_words,
    means,
    resamples,
)
from dpmc_lab.curves.text import Table, columns

HOW = (
    "Pairs are compared seed by seed: in each seed all mechanisms train and are tested on the same"
    " split. A winner is named only where the 95 % interval of the difference leaves out zero, at"
    " all epsilons together."
)
_WHERE = "wherever the seeds tell them apart"
_SLACK = 1 + 1e-9  # of epsilons


# --- who is better, and where ------------------------------------------------------------


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

    claimed: the one whose epsilon is only claimed where the other's is certified, or empty.
    signs: at each x +1 where `one` is better beyond doubt, -1 where `other` is, else 0; empty where
    there are too few seeds.
    """

    one: Line
    other: Line
    x: Floats
    seeds: int
    leads: tuple[Lead, ...]
    claimed: str = ""
    signs: tuple[int, ...] = ()


def duels(placed: Sequence[Placed]) -> list[Duel]:
    """Every pair of lines whose epsilons count the same: units are never mixed."""
    return [
        duel(a, b)
        for a, b in itertools.combinations(placed, 2)
        if a.counts == b.counts and a.line.metric == b.line.metric
    ]


def verdicts(placed: Sequence[Placed], found: Sequence[Duel]) -> tuple[list[str], list[str]]:
    """(pairs with a winner somewhere, pairs without one), a sentence each.

    found: their duels.
    """
    if len(placed) < 2:
        return ["Choose two mechanisms or more to see which is better where."], []
    found = sorted(found, key=lambda duel: -len(duel.leads))  # those that change places first
    won = [duel_words(duel) for duel in found if duel.leads]
    rest = [duel_words(duel) for duel in found if not duel.leads]
    if found and not won:
        won = ["No two of these can be told apart: more seeds may do it."]
    if len(found) < len(placed) * (len(placed) - 1) // 2:
        won.append("Pairs whose epsilons count different things are not compared.")
    return won, rest


class Standing(NamedTuple):
    """How a line stands at each of its epsilons among those whose epsilons count the same.

    ahead, behind: at each epsilon the labels of those it is better and worse than beyond doubt.
    rivals: at each epsilon, how many it was compared with.
    """

    placed: Placed
    ahead: tuple[tuple[str, ...], ...]
    behind: tuple[tuple[str, ...], ...]
    rivals: tuple[int, ...]

    @property
    def best(self) -> tuple[bool, ...]:
        """Where it is better than all it was compared with, beyond doubt."""
        pairs = zip(self.ahead, self.rivals, strict=True)
        return tuple(0 < rivals == len(ahead) for ahead, rivals in pairs)


def standings(placed: Sequence[Placed], found: Sequence[Duel]) -> list[Standing]:
    """Every line among the others, those whose epsilons count the same side by side.

    found: their duels.
    """
    units = list(dict.fromkeys(one.counts for one in placed))
    stands = []
    for one in sorted(placed, key=lambda one: units.index(one.counts)):
        signs: list[dict[str, int]] = [{} for _ in one.x]  # by the label of the rival
        for duel in found:
            if one.line in (duel.one, duel.other) and duel.signs:
                rival, side = (duel.other, 1) if duel.one is one.line else (duel.one, -1)
                for at, x in zip(signs, one.x, strict=True):
                    near = np.flatnonzero(np.isclose(duel.x, x, rtol=1e-8, atol=0))
                    if len(near):
                        at[rival.label] = side * duel.signs[near[0]]
        ahead, behind = (
            tuple(tuple(label for label, sign in at.items() if sign == wanted) for at in signs)
            for wanted in (1, -1)
        )
        stands.append(Standing(one, ahead, behind, tuple(map(len, signs))))
    return stands


def standing_words(one: Standing, k: int) -> str:
    """How it stands at its k-th epsilon."""
    if not one.rivals[k]:
        return "nothing to compare with"
    if one.best[k]:
        return "clearly better than all others"
    if one.behind[k]:
        return f"clearly worse than {', '.join(one.behind[k])}"
    return "nothing is clearly better"


def standings_table(found: Sequence[Standing]) -> Table:
    """Every epsilon of every line with what is clearly better and worse there."""
    rows = [
        (
            one.placed.line.label,
            float(f"{x:.4g}"),
            one.placed.counts,
            standing_words(one, k),
            ", ".join(one.ahead[k]),
        )
        for one in found
        for k, x in enumerate(one.placed.x)
    ]
    return columns(("mechanism", "epsilon", "counts", "stands", "clearly better than"), rows)


def leader_words(found: Sequence[Standing]) -> str:
    """Which of several is clearly best, and where, in a few words; '' where nothing can be said."""
    if not any(rivals for one in found for rivals in one.rivals):
        return ""
    leading = [one for one in found if any(one.best)]
    unbeaten = [one for one in found if any(one.rivals) and not any(one.behind)]
    only = (leading or unbeaten)[0] if len(leading or unbeaten) == 1 else None
    claimed = AS_CLAIMED if only is not None and not only.placed.solid else ""
    if not leading and len(unbeaten) == 1:
        text = f"{unbeaten[0].placed.line.label} is never clearly beaten"
    elif not leading and not unbeaten:
        text = "Each is clearly beaten somewhere"
    elif not leading:
        text = f"{len(unbeaten)} of {len(found)} are never clearly beaten"
    elif len(leading) == 1:
        (one,) = leading
        places = np.flatnonzero(one.best)
        first, last = (short(float(one.placed.x[k])) for k in (places[0], places[-1]))
        unbroken = len(places) == places[-1] - places[0] + 1
        where = f"from epsilon {first} to {last}" if first != last else f"at epsilon {first}"
        text = f"{one.placed.line.label} is clearly best {'' if unbroken else 'in places '}{where}"
    else:
        text = f"{len(leading)} are each clearly best somewhere"
    several = len({one.placed.counts for one in found}) > 1
    return text + claimed + (", among those counted alike" if several else "")


def duel(a: Placed, b: Placed) -> Duel:
    """Compare two lines seed by seed: all mechanisms of a seed share its split.

    At each epsilon the 95 % t interval of the mean difference decides, widened so that it holds
    for all epsilons at once (Bonferroni). A crossing lies where the mean difference changes its
    sign, linear in log epsilon; its interval comes from resampled seeds, widened for their number.
    """
    low, high = max(a.x.min(), b.x.min()), min(a.x.max(), b.x.max())
    x = np.unique(np.concatenate([a.x, b.x]))
    # Two units may give epsilons that differ in the last digits only.
    x = x[np.concatenate([[True], np.diff(np.log(x)) > 1e-9])]
    x = x[(x >= low / _SLACK) & (x <= high * _SLACK)]
    difference, seeds = _differences(a, b, x)
    if not len(x) or seeds < FEWEST:
        return Duel(a.line, b.line, x, seeds, ())
    level = 1 - (1 - LEVEL) / len(x)
    found = [interval(row, level) for row in difference]
    signs = np.array([np.sign(at.mean) * (abs(at.mean) > at.half_width) for at in found], int)
    drawn = resamples(seeds)
    leads: list[Lead] = []
    for sign, places in itertools.groupby(np.flatnonzero(signs), key=signs.__getitem__):
        run = [int(k) for k in places]
        start, end = run[0], run[-1]
        decided = bool(signs[start : end + 1].all())
        better, worse = (a.line, b.line) if sign > 0 else (b.line, a.line)
        crossing = None
        if leads:  # where this lead, positive from here on, was last zero before
            lead = sign * difference
            zeros = np.array([_last_zero(x, row, start) for row in means(lead, drawn)])
            crossing = estimate(_last_zero(x, lead.mean(axis=1), start), zeros, seeds)
        leads.append(Lead(better, worse, float(x[start]), float(x[end]), decided, crossing))
    hollow = [side.line.label for side in (a, b) if not side.solid]
    claimed = hollow[0] if len(hollow) == 1 else ""
    return Duel(a.line, b.line, x, seeds, tuple(leads), claimed, tuple(signs.tolist()))


def duel_words(found: Duel) -> str:
    """The duel in words."""
    text = _verdict(found)
    if found.leads and found.claimed:
        text += f" The epsilon of {found.claimed} is claimed, not certified."
    return text


def _verdict(found: Duel) -> str:
    one, other, x = found.one.label, found.other.label, found.x
    if not len(x):
        return f"{one} and {other} have no epsilon in common in this unit."
    if found.seeds < FEWEST:
        return f"{one} and {other}: three seeds or more are needed to tell them apart."
    ends = f"{short(x[0])} and {short(x[-1])}"
    span = f"between epsilon {ends}" if len(x) > 1 else f"at epsilon {short(x[0])}"
    if not found.leads:
        return f"{one} and {other} cannot be told apart {span} ({found.seeds} seeds)."
    last = found.leads[-1]
    better, worse = last.better.label, last.worse.label
    if len(found.leads) > 1:
        text = "; ".join(_turn(lead, x) for lead in found.leads[1:])
        first = found.leads[0]
        text += f"; before, {first.better.label} beats {first.worse.label}"
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


def _turn(lead: Lead, x: Floats) -> str:
    assert lead.crossing is not None  # every lead but the first follows another
    where = estimate_words(lead.crossing, *x[[0, -1]])
    return f"{lead.better.label} beats {lead.worse.label} above epsilon {where}"


def _range(lead: Lead, x: Floats) -> str:
    if lead.first == lead.last:
        return f"at epsilon {short(lead.first)}"
    if lead.last == x[-1] and lead.first > x[0]:
        return f"from epsilon {short(lead.first)} on"
    if lead.first == x[0] and lead.last < x[-1]:
        return f"up to epsilon {short(lead.last)}"
    return f"from epsilon {short(lead.first)} to {short(lead.last)}"


def _differences(a: Placed, b: Placed, x: Floats) -> tuple[Floats, int]:
    """a - b in the direction of better, at x, for the seeds that both have everywhere: X x S."""
    sides = []
    common = set(a.line.seeds[complete(a.line.values)].tolist())
    common &= set(b.line.seeds[complete(b.line.values)].tolist())
    for side in (a, b):
        kept = side.line.values[:, np.isin(side.line.seeds, sorted(common))]
        place, own = np.log(x), np.log(side.x)  # linear in log epsilon between neighbours
        found = [np.interp(place, own, column) for column in kept.T]
        sides.append(np.stack(found, axis=1) if common and len(x) else np.empty((len(x), 0)))
    return a.line.metric.sign * (sides[0] - sides[1]), len(common)


def _last_zero(x: Floats, lead: Floats, start: int) -> float:
    """The epsilon nearest below the first positive place from `start` on; 0 or inf for none."""
    above = np.flatnonzero(lead[start:] > 0)
    if not len(above):
        return math.inf
    below = np.flatnonzero(lead[: start + above[0]] <= 0)
    if not len(below):
        return 0.0
    k = below[-1] + 1
    share = -lead[k - 1] / (lead[k] - lead[k - 1])
    return float(np.exp(np.log(x[k - 1]) + share * np.log(x[k] / x[k - 1])))
