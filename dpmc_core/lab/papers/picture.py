"""A chart of an experiment, as what to draw and as a picture that needs no script."""

from __future__ import annotations

from collections import Counter

from dpmc_core import registry
from dpmc_core.lab.papers.frame import Axis, Promise, Series
from dpmc_core.lab.papers.words import Look
from dpmc_core.lab.views.cards import delta_text
from dpmc_core.lab.views.lines import short
from dpmc_core.lab.views.svg import Extent, Key, Plot, legend, line, picture
from dpmc_core.registry import style
from dpmc_core.style import BLUE, GREEN, ORANGE, PURPLE, RED, SKY, Style

OPEN = Style("currentColor", "circle", "dash")  # of what keeps nothing private
GUESS = Style("var(--muted)", "circle", "dot")  # of what looks at no person's taste
# Of further curves of one method, whose colour stays.
_MARKS = ("square", "diamond", "triangle-up", "cross", "triangle-down", "pentagon")
_MORE_DASHES = ("dashdot", "solid", "longdash", "dash", "longdashdot", "dot")
_UNNAMED = (PURPLE, GREEN, ORANGE, BLUE, RED, SKY)  # curves of no method, in their order
EPSILON = "epsilon"
_MANY = 40  # points, beyond which a curve has no marks


def drawn(found: Look) -> bool:
    """Whether there is something to draw: a table has no chart."""
    one = found.experiment
    there = found.made is not None or bool(one.printed)
    return there and not one.x.names


def looks(found: Look) -> dict[str, Style]:
    """How each curve is drawn, by its label: never two alike, and one colour for each method."""
    one, ours = found.experiment, curves(found)
    known = {p.series: one.methods.get(p.series) for p in one.printed}
    known |= {label: curve.mechanism for label, curve in ours.items()}
    levels = {label for label, curve in ours.items() if curve.level}
    bases = {
        label: GUESS if label in one.guesses else _base(id, label in levels, place)
        for place, (label, id) in enumerate(known.items())
    }
    taken = {*bases.values(), GUESS}
    marks = [mark for mark in _MARKS if mark not in {look.marker for look in taken}] or _MARKS
    dashes = [dash for dash in _MORE_DASHES if dash not in {look.dash for look in taken}]
    dashes = dashes or list(_MORE_DASHES)
    drawn: dict[str, Style] = {}
    further: Counter[str] = Counter()
    for label, base in bases.items():
        look = base
        if base in drawn.values():
            k = further[base.color]  # what is alike of two methods looks alike
            look = Style(base.color, marks[k % len(marks)], dashes[k % len(dashes)])
            further[base.color] += 1
        drawn[label] = look
    return drawn


def _base(mechanism: str | None, level: bool, place: int) -> Style:
    """level: whether it is the same whatever epsilon is, hence without noise."""
    if mechanism is None:
        color, mark = _UNNAMED[place % len(_UNNAMED)], _MARKS[place % len(_MARKS)]
        return Style(color, mark, _MORE_DASHES[(place + 1) % len(_MORE_DASHES)])
    if mechanism not in registry.MECHANISMS or registry.adds_noise(registry.get(mechanism)):
        base = style(mechanism)
        return base._replace(dash="dash") if level else base
    floors = {cls.floor for cls in registry.MECHANISMS.values()}
    return GUESS if mechanism in floors else OPEN


def curves(found: Look) -> dict[str, Series]:
    """Ours, by label."""
    return {one.label: one for one in found.made.series} if found.made is not None else {}


def svg(found: Look) -> str:
    """The chart with its text alternative; empty where there is none."""
    if not drawn(found):
        return ""
    one, looked, (across, up) = found.experiment, looks(found), titles(found)
    plot = Plot(*spans(found))
    x, y = ({tick: short(tick, 3) for tick in scale.ticks} for scale in (plot.x, plot.y))
    parts = plot.axes(x, y, across, up, "var(--grid)")
    for label, curve in curves(found).items():
        look = looked[label]
        if any(high > low for high, low in zip(curve.high, curve.low, strict=True)):
            parts.append(plot.band(curve.x, curve.low, curve.high, look.color))
        parts.append(plot.line(curve.x, curve.mean, look))
        if marked(curve):
            parts.append(plot.marks(curve.x, curve.mean, look))
    for printed in one.printed:
        look = looked[printed.series]
        ends = (plot.at(printed.x, printed.value + sign * printed.error) for sign in (-1, 1))
        parts.append(line(*next(ends), *next(ends), look.color, stroke_width=2))
        parts.append(plot.marks([printed.x], [printed.value], look, hollow=True))
    words = f"{up} over {across}: {one.title}"
    return legend(keys(found, looked)) + picture(
        parts, plot.bottom + 3, words, fill="currentColor", class_="chart"
    )


def keys(found: Look, looked: dict[str, Style]) -> list[Key]:
    """What each curve is; hollow where it is printed and has no curve of ours."""
    ours = curves(found)
    return [
        Key(label, look, mark=marked(ours[label]))
        if label in ours
        else Key(f"{label}, printed", look, line=False, hollow=True)
        for label, look in looked.items()
    ]


def titles(found: Look) -> tuple[str, str]:
    """What stands at both axes; an epsilon with the unit that it is promised for."""
    one = found.experiment
    return _with_unit(one.x, one.promises), one.y.title


def _with_unit(axis: Axis, promises: tuple[Promise, ...]) -> str:
    units = {promise.change.label for promise in promises}
    if axis.title != EPSILON or len(units) != 1:
        return axis.title
    deltas = {promise.delta for promise in promises if promise.delta}
    also = f", delta {delta_text(deltas.pop())}" if len(deltas) == 1 else ""
    return f"{axis.title} {units.pop()}{also}"


def spans(found: Look) -> tuple[Extent, Extent]:
    """The ranges of both axes, over ours and what is printed."""
    one, ours = found.experiment, curves(found).values()
    xs = [x for s in ours for x in s.x] + [p.x for p in one.printed]
    ys = [y for s in ours for y in (*s.low, *s.high)]
    ys += [y for p in one.printed for y in (p.value - p.error, p.value + p.error)]
    return Extent.over(xs, log=one.x.log), Extent.over(ys, log=one.y.log)


def marked(curve: Series) -> bool:
    """Whether its points have marks: neither a level nor a density has."""
    return not curve.level and len(curve.x) <= _MANY
