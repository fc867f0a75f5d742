"""A paper's figures and tables as data: what is printed, what is said of it, what makes ours.

Every figure and table of a paper is an `Experiment`, also one that cannot be made here. What a
paper prints and says stands in its TOML file; `dpmc_core.lab.papers` reads it.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from dpmc_core import registry
from dpmc_core.data import datasets
from dpmc_core.lab.store import digest
from dpmc_core.lab.sweep import Grid, Unit
from dpmc_core.lab.views.lines import LEVEL, Interval, interval
from dpmc_core.privacy import Change
from dpmc_core.ratings import PublicFacts
from dpmc_core.settings import parse_setting, setting_text


@dataclass(frozen=True)
class Axis:
    """What an axis shows, with its unit. log: on a logarithmic scale.

    names: of the places 0, 1, ... where it holds no numbers; what stands on it is then a table.
    """

    title: str = ""
    log: bool = False
    names: tuple[str, ...] = ()


class Point(Interval):
    """An interval that knows what it rests on. draws: the value of each seed, in their order; empty
    where that is not known. seeds: 0 where nothing is drawn; one seed alone has no interval.
    """

    draws: tuple[float, ...] = ()

    @classmethod
    def of(cls, values: Sequence[float]) -> Point:
        """From the value of each seed, in an order that all curves of a result share."""
        found = cls(*interval(values))
        found.draws = tuple(float(value) for value in values)
        return found

    @classmethod
    def exact(cls, value: float) -> Point:
        """What rests on no draw."""
        return cls(value, 0.0, 0)


@dataclass(frozen=True, kw_only=True)
class Series:
    """A curve: the mean over seeds at each x, within its 95 % interval.

    mechanism: its id, None where it is none's. seeds: how many each mean rests on, 0 where nothing
    is drawn. level: one value, whatever x is. draws: at each x the value of each seed, in their
    order; empty where that is not known.
    """

    label: str
    mechanism: str | None = None
    x: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    seeds: tuple[int, ...]
    level: bool = False
    draws: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def of(
        cls,
        label: str,
        points: Mapping[float, Interval],
        mechanism: str | None = None,
        level: bool = False,
    ) -> Series:
        """From the interval at each x."""
        x = tuple(sorted(points))
        mean, half, seeds = zip(*(points[at] for at in x), strict=True)
        low, high = (tuple(np.add(mean, np.multiply(sign, half)).tolist()) for sign in (-1, 1))
        draws = tuple(draws_of(points[at]) for at in x)
        return cls(
            label=label,
            mechanism=mechanism,
            x=x,
            mean=mean,
            low=low,
            high=high,
            seeds=seeds,
            level=level,
            draws=draws if all(draws) else (),
        )

    @classmethod
    def exact(
        cls, label: str, x: Iterable[float], y: Iterable[float], mechanism: str | None = None
    ) -> Series:
        """What rests on no draw: each value is its own interval."""
        return cls.of(label, dict(zip(x, map(Point.exact, y), strict=True)), mechanism)

    def at(self, x: float) -> Point | None:
        """The interval at an x; None where there is none: values are never interpolated."""
        for k, here in enumerate(self.x):
            if self.level or abs(here - x) <= 1e-9 * max(abs(x), 1.0):
                found = Point(self.mean[k], (self.high[k] - self.low[k]) / 2, self.seeds[k])
                found.draws = self.draws[k] if self.draws else ()
                return found
        return None


def curves(values: Mapping[tuple[str, str], Mapping[float | None, Interval]]) -> tuple[Series, ...]:
    """Curves by label and mechanism from the interval at each x; at None: whatever x is."""
    places = [x for points in values.values() for x in points if x is not None]
    ends = min(places, default=0.0), max(places, default=1.0)
    return tuple(
        Series.of(label, dict.fromkeys(ends, points[None]), id, level=True)
        if None in points
        else Series.of(label, {x: one for x, one in points.items() if x is not None}, id)
        for (label, id), points in values.items()
    )


class Stamp(NamedTuple):
    """How a result was made. command: what makes it again; seeds: as typed.

    settings: of each curve, by its label; revisions: of each mechanism, by its id; seconds: of
    computing, all runs together.
    """

    version: str
    command: str
    settings: Mapping[str, Any]
    seeds: str
    revisions: Mapping[str, int]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Made:
    """Our result of an experiment."""

    id: str
    series: tuple[Series, ...]
    stamp: Stamp

    def get(self, label: str) -> Series | None:
        """The curve of that label."""
        return next((one for one in self.series if one.label == label), None)

    def at(self, label: str | float, x: float) -> Point | None:
        """A curve's interval at an x, None where there is none; a number's is itself."""
        if not isinstance(label, str):
            return Point.exact(label)
        found = self.get(label)
        return None if found is None else found.at(x)

    @property
    def mark(self) -> str:
        """Eight digits for what made it: version, settings, seeds and revisions."""
        return digest(self.stamp._replace(seconds=0.0)._asdict())[:8]

    @property
    def current(self) -> bool:
        """Whether this program would make the same: no mechanism has been revised since."""
        known = registry.MECHANISMS
        return all(
            id in known and known[id].revision == one for id, one in self.stamp.revisions.items()
        )


class Printed(NamedTuple):
    """A printed number. series: the label of our curve that it stands beside.

    error: how far off it may be read from a plot, or half a unit of its last printed digit. place:
    where it stands in the paper.
    """

    series: str
    x: float
    value: float
    error: float
    place: str


class Statement(NamedTuple):
    """What the paper says, in our words. holds: of our result; None where it cannot tell.

    A word such as "close" is read without a number of ours where that can be, and the words say
    how it is read.
    """

    words: str
    place: str
    holds: Callable[[Made], bool | None]


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What an experiment's method promises, by the paper.

    change: the unit that the paper protects; settings: where they differ from those published.
    """

    mechanism: str
    change: Change
    public: PublicFacts
    epsilon: float = 1.0
    delta: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class GridRecipe:
    """A grid of runs, whose rows become curves; `dpmc sweep --preset ID` runs it too.

    metric: by its name; a mean is over the seeds. curves: the label of a mechanism's runs by its
    id, or by 'ID SETTING=VALUE ...' of those runs alone that have these settings; others are left
    out. by_epsilon: each epsilon is a curve of its own. x: 'OPTION' of the generated data that the
    curves are over, 'SHARE * OPTION'; empty: epsilon.
    """

    grid: Grid
    metric: str
    curves: Mapping[str, str]
    by_epsilon: bool = False
    x: str = ""

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(self.grid.seeds)

    def label(self, unit: Unit) -> str | None:
        """Of the curve that a run belongs to, None to leave it out."""
        settings = {name: setting_text(value) for name, value in unit.settings.items()}
        for rule, label in self.curves.items():
            id, *wanted = rule.split()
            if (
                id == unit.mechanism.id
                and dict(w.split("=") for w in wanted).items() <= settings.items()
            ):
                split = self.by_epsilon and unit.epsilon is not None
                return f"{label}, epsilon {unit.epsilon:g}" if split else label
        return None

    def place(self, unit: Unit) -> float | None:
        """The x of a run, None for one that holds at every x."""
        if not self.x:
            return unit.epsilon
        share, _, option = self.x.rpartition(" * ")
        options = dict(part.split("=", 1) for part in unit.name.partition(":")[2].split(","))
        return round(float(share or 1) * float(options[option]), 6)


class Piece(NamedTuple):
    """A piece of work with a name of its own, whose result (plain JSON values) is kept."""

    key: str
    make: Callable[[], Any]


@dataclass(frozen=True, kw_only=True)
class PieceRecipe:
    """What is no row of the store: pieces of work, each kept when it is done.

    pieces: for the seeds, in the order they are done in, a seed being part of its pieces' keys; a
    piece may look whether it is to stop (`stopping.check_cancelled`). series: of their results by
    key. settings: everything that results depend on beside the seeds, as plain JSON values;
    mechanisms: whose revisions do. pool: of experiments that keep their pieces in common, in the
    file that its first word names; all that their results depend on is in the rest of it and in
    their keys.
    """

    pieces: Callable[[tuple[int, ...]], Iterable[Piece]]
    series: Callable[[Mapping[str, Any]], tuple[Series, ...]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    mechanisms: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (1,)
    pool: tuple[Any, ...] = ()


Recipe = GridRecipe | PieceRecipe


def exact_curves(
    make: Callable[[], Mapping[str, tuple[Iterable[float], Iterable[float]]]],
    *,
    of: Mapping[str, str] = MappingProxyType({}),
    settings: Mapping[str, Any] = MappingProxyType({}),
    mechanisms: tuple[str, ...] = (),
) -> PieceRecipe:
    """Curves that rest on no draw, in one piece: x and y by label. of: the mechanism, by label."""
    return PieceRecipe(
        pieces=lambda seeds: [Piece("curves", make)],  # noqa: ARG005
        series=lambda found: tuple(
            Series.exact(label, x, y, of.get(label)) for label, (x, y) in found["curves"].items()
        ),
        settings=dict(settings),
        mechanisms=mechanisms,
    )


def counted(sets: Mapping[str, str], columns: Sequence[str], clicks: bool = False) -> PieceRecipe:
    """A table of the sizes of data sets. sets: labels by data; clicks: read for ranking."""

    def sizes(data: str) -> list[float]:
        ratings = datasets.load(data, for_ranking=clicks).ratings
        (users, items), many, values = ratings.shape, len(ratings), ratings.values
        found = {
            "users": users,
            "items": items,
            "density": 100 * many / (users * items),
            "lowest": float(values.min()),
            "highest": float(values.max()),
            "per user": many / users,
            "per item": many / items,
        }
        return [found[name] for name in columns]

    return exact_curves(
        lambda: {label: (range(len(columns)), sizes(data)) for data, label in sets.items()}
    )


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A figure or a table of a paper.

    id: such as lwhm22-1b; place: such as 'figure 1b'. title: what it shows. x, y: the paper's axes.
    printed: numbers; statements: what the paper says of it. why: why ours differ. changed: what we
    changed; unknown: what we could not know: a sentence each. cut: whether what we changed is less
    work than the paper's, or other data, so that a difference does not speak against the paper; the
    labels of such curves, where others have the paper's size. promises: what its methods promise.
    not_run: why it cannot be made here; recipe: what makes it. methods: the id of the method behind
    a curve's label, which gives a curve that is only printed its colour. guesses: labels of what is
    no method and looks at no rating, with its value where that is exact and the same at every x;
    nan for a curve of the result.
    """

    id: str
    place: str
    title: str
    x: Axis = Axis("epsilon")
    y: Axis = Axis()
    printed: tuple[Printed, ...] = ()
    statements: tuple[Statement, ...] = ()
    why: str = ""
    changed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    cut: bool | tuple[str, ...] = False
    promises: tuple[Promise, ...] = ()
    methods: Mapping[str, str] = field(default_factory=dict)
    guesses: Mapping[str, float] = field(default_factory=dict)
    recipe: Recipe | None = None
    not_run: str = ""

    def __post_init__(self) -> None:
        if (self.recipe is None) != bool(self.not_run):
            raise ValueError(f"{self.id} needs a recipe, or the reason why it has none")
        if self.cut and not self.changed:
            raise ValueError(f"{self.id} is cut down: say what was changed")

    def makes(self, made: Made) -> bool:
        """Whether its recipe has the settings of a result still; of a grid its rows tell."""
        if not isinstance(self.recipe, PieceRecipe):
            return True
        now, then = self.recipe.settings, made.stamp.settings
        return json.dumps(dict(now), sort_keys=True) == json.dumps(dict(then), sort_keys=True)

    def with_guesses(self, made: Made) -> Made:
        """A result, and before its curves what needs no run."""
        across = {x for one in made.series for x in one.x}
        levels = (
            Series.of(label, dict.fromkeys(across, Point.exact(value)), level=True)
            for label, value in self.guesses.items()
            if not math.isnan(value)
        )
        return replace(made, series=(*levels, *made.series))

    @property
    def command(self) -> str:
        """What makes it."""
        return f"dpmc papers {self.id} --run"


@dataclass(frozen=True, kw_only=True)
class Paper:
    """key: such as LWHM22. entry: the kind of BibTeX entry; more: its other fields.

    unjudged: why there is no verdict on its accuracy, where there is none. theory: whether
    `papers.theory` has rows of it.
    """

    key: str
    title: str
    authors: tuple[str, ...]
    year: int
    venue: str
    entry: str = "misc"
    more: Mapping[str, str] = field(default_factory=dict)
    experiments: tuple[Experiment, ...]
    unjudged: str = ""
    theory: bool = True

    @property
    def bibtex(self) -> str:
        """Its entry."""
        fields = {
            "title": f"{{{self.title}}}",
            "author": " and ".join(self.authors),
            **self.more,
            "year": str(self.year),
        }
        lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
        return f"@{self.entry}{{{self.key.lower()},\n{lines}\n}}"


# --- what a statement is made of ---------------------------------------------------------------


@dataclass
class Asked:
    """What a statement asked. count: comparisons made; among: how many are to hold at once."""

    count: int = 0
    among: int = 1


ROUNDED = 1e-6  # of a value: files hold seven digits of it
_ASKED: ContextVar[Asked] = ContextVar("asked")


@contextmanager
def asking(among: int = 1) -> Iterator[Asked]:
    """Comparisons made meanwhile are counted, and told only where so many hold at once."""
    asked = Asked(among=among)
    token = _ASKED.set(asked)
    try:
        yield asked
    finally:
        _ASKED.reset(token)


def draws_of(found: Interval) -> tuple[float, ...]:
    """The value of each seed behind an interval, empty where that is not known."""
    return found.draws if isinstance(found, Point) else ()


def wider(seeds: int, among: int) -> float:
    """By how much a t interval over so many seeds grows where so many are to hold at once."""
    if seeds < 2 or among < 2:
        return 1.0
    one, all_of_them = (float(stdtrit(seeds - 1, 1 - (1 - LEVEL) / (2 * n))) for n in (1, among))
    return all_of_them / one


def reach(*found: Interval, signs: Sequence[float] = (1.0, -1.0)) -> float:
    """How far a signed sum of means may be off: with chance 5 % at most it is further to one side.

    Over the same seeds the interval is that of the sum in each draw, for the same seed draws the
    same data; else the half widths add up, which holds however the means depend on each other.
    Infinite where one of them rests on a single seed. Of several comparisons that are to hold at
    once (`asking`) each is wider (Bonferroni).
    """
    asked = _ASKED.get(Asked())
    asked.count += 1
    if any(one.seeds == 1 for one in found):
        return math.inf
    drawn = [one for one in found if one.seeds]
    draws = [draws_of(one) for one in drawn]
    if drawn and all(draws) and len({len(one) for one in draws}) == 1:
        kept = [sign for one, sign in zip(found, signs, strict=True) if one.seeds]
        each = interval(np.asarray(kept) @ np.asarray(draws))
        return each.half_width * wider(each.seeds, asked.among)
    return sum(one.half_width * wider(one.seeds, asked.among) for one in drawn)


def surely_above(a: Interval | None, b: Interval | None) -> bool | None:
    """Whether a is above b by more than their difference may be off; None where nobody can tell."""
    if a is None or b is None:
        return None
    gap = a.mean - b.mean
    rounded = ROUNDED * max(abs(a.mean), abs(b.mean))
    return None if abs(gap) <= max(reach(a, b), rounded) else gap > 0


def apart(a: Interval | None, b: Interval | None) -> Point | None:
    """How far two means are apart."""
    if a is None or b is None:
        return None
    few = [one.seeds for one in (a, b) if one.seeds]
    found = Point(abs(a.mean - b.mean), a.half_width + b.half_width, min(few, default=0))
    first, second = draws_of(a), draws_of(b)
    if a.seeds == b.seeds and first and second:
        sign = math.copysign(1.0, a.mean - b.mean)
        found.draws = tuple((sign * np.subtract(first, second)).tolist())
    return found


def every(found: Iterable[bool | None]) -> bool | None:
    """True where all are, False where one is, None where that cannot be told."""
    known = list(found)
    if False in known:
        return False
    return None if None in known or not known else True


def above(made: Made, label: str | float, other: str | float, at: Iterable[float]) -> bool | None:
    """A curve, or a number, is above another one at each x; not where equal in every draw."""

    def beyond(a: Point | None, b: Point | None) -> bool | None:
        found = surely_above(a, b)
        if found is not None or a is None or b is None:
            return found
        same = len(a.draws) == len(b.draws) > 1 and np.allclose(a.draws, b.draws, ROUNDED, 0.0)
        return False if same else None

    return every(beyond(made.at(label, x), made.at(other, x)) for x in at)


def not_the_highest(made: Made, label: str, at: Iterable[float], *others: str) -> bool | None:
    """At each x one of the others is above a curve."""

    def tells(x: float) -> bool | None:
        found = [surely_above(made.at(name, x), made.at(label, x)) for name in others]
        return True if True in found else None if None in found else False

    return every(map(tells, at))


def mostly_below(
    made: Made, label: str, share: float, at: Iterable[float], *others: str
) -> bool | None:
    """A curve is below the others at most places, a share of all of them at least."""
    pairs = [(made.at(other, x), made.at(label, x)) for other in others for x in at]
    found = [surely_above(*pair) for pair in pairs if None not in pair]
    if not found:
        return None
    if found.count(False) > (1 - share) * len(found):
        return False
    return True if found.count(True) >= share * len(found) else None


def _ends(made: Made, label: str) -> tuple[Point | None, Point | None]:
    """The intervals of a curve at its smallest x and at its largest."""
    found = made.get(label)
    if found is None or len(found.x) < 2:
        return None, None
    return found.at(found.x[0]), found.at(found.x[-1])


def rises(made: Made, label: str) -> bool | None:
    """A curve ends higher than it begins."""
    first, last = _ends(made, label)
    return surely_above(last, first)


def falls(made: Made, label: str) -> bool | None:
    """A curve ends lower than it begins."""
    return surely_above(*_ends(made, label))


def steadier(made: Made, label: str, other: str) -> bool | None:
    """A curve's ends are nearer to each other than another one's."""
    return surely_above(apart(*_ends(made, other)), apart(*_ends(made, label)))


def ends_above(made: Made, label: str, other: str) -> bool | None:
    """A curve ends higher than another one."""
    return surely_above(_ends(made, label)[1], _ends(made, other)[1])


def near(
    made: Made, label: str, other: str | float, at: Iterable[float], within: float
) -> bool | None:
    """A curve is as close to another one, or to a number, at each x as `within`, in units of y."""

    def close(a: Interval | None, b: Interval | None) -> bool | None:
        if a is None or b is None:
            return None
        gap = abs(a.mean - b.mean)
        return None if abs(gap - within) <= reach(a, b) else gap < within

    return every(close(made.at(label, x), made.at(other, x)) for x in at)


def farther(
    made: Made, one: str, other: str, first: str, second: str, at: Iterable[float] = ()
) -> bool | None:
    """Two curves are farther apart than two others at each x, or wherever the first one is."""
    found = made.get(one)
    places = at or (found.x if found is not None else ())
    return every(
        surely_above(_gap(made, one, other, x), _gap(made, first, second, x)) for x in places
    )


def approaches(made: Made, label: str, goal: str, first: float, last: float) -> bool | None:
    """A curve is nearer to another one at `last` than at `first`."""
    return surely_above(_gap(made, label, goal, first), _gap(made, label, goal, last))


def mean_lead(
    made: Made, label: str, other: str, printed: float, error: float, at: Sequence[float]
) -> bool | None:
    """The mean lead over another curve is the printed one, as far as ours and `error` tell.

    None where ours may be off by more than it is: no lead would be as good.
    """
    ends = [made.at(name, x) for x in at for name in (label, other)]
    known = [one for one in ends if one is not None]
    if len(known) < len(ends):
        return None
    signs = [1.0, -1.0] * len(at)
    lead = np.dot(signs, [one.mean for one in known]) / len(at)
    unsure = reach(*known, signs=signs) / len(at)
    if abs(lead - printed) > unsure + error:
        return False
    return True if abs(lead) > unsure else None


def closer_ratio(made: Made, label: str, goal: str, than: str) -> bool | None:
    """The median ratio of a curve to another one is nearer to 1 than that of a third to it."""
    found = [made.get(name) for name in (label, goal, than)]
    if None in found:
        return None
    ours, best, other = (np.log(one.mean) for one in found if one is not None)
    return bool(np.median(np.abs(ours - best)) < np.median(np.abs(other - best)))


def _gap(made: Made, label: str, other: str, x: float) -> Point | None:
    return apart(made.at(label, x), made.at(other, x))


_CHECKS: Mapping[str, Callable[..., bool | None]] = {
    check.__name__: check
    for check in (
        *(above, not_the_highest, mostly_below, rises, falls, steadier, ends_above),
        *(near, farther, approaches, mean_lead, closer_ratio),
    )
}


def holds(checks: Sequence[Sequence[Any]], made: Made) -> bool | None:
    """Whether all checks hold of a result.

    checks: each a name and its arguments; of an argument that is a list of labels it is each.
    """
    return every(
        _CHECKS[name](made, *chosen)
        for name, *given in checks
        for chosen in itertools.product(
            *(one if isinstance(one, list) and isinstance(one[0], str) else [one] for one in given)
        )
    )


def parsed(mechanism: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Settings of a mechanism from their texts, those that it has not left out."""
    cls = registry.get(mechanism)
    return {
        name: parse_setting(cls, name, text)
        for name, text in texts.items()
        if registry.has_setting(cls, name)
    }
