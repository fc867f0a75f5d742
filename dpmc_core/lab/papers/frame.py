"""A paper's figures and tables as data: what is printed, what is said of it, what makes ours.

Every figure and table of a paper is an `Experiment`, also one that cannot be made here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from dpmc_core import registry
from dpmc_core.lab.store import digest
from dpmc_core.lab.sweep import Grid, Unit
from dpmc_core.lab.views.lines import LEVEL, Interval, interval
from dpmc_core.privacy import Change, Guarantee
from dpmc_core.ratings import PublicFacts


class Axis(NamedTuple):
    """What an axis shows, with its unit. log: on a logarithmic scale.

    names: of the places 0, 1, ... where it holds no numbers; what stands on it is then a table.
    """

    title: str
    log: bool = False
    names: tuple[str, ...] = ()


NOTHING = Axis("")
EPSILON = Axis("epsilon")
EPSILON_LOG = Axis("epsilon", log=True)
OBSERVED = Axis("share of the cells that is observed")
DIMENSION = Axis("dimension")
ERROR = Axis("error (rating points)")
ROUNDS = Axis("round")
BYTES = Axis("bytes", log=True)

ACCURACY = Axis("share of held-out signs that is right")
ARE = Axis("average relative error", log=True)
RMSE = Axis("RMSE (rating points)")
HIT_RATIO = Axis("HR@10, 99 negatives")
NDCG = Axis("NDCG@10, 99 negatives")


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
        x = sorted(points)
        found = [points[at] for at in x]
        draws = tuple(draws_of(one) for one in found)
        return cls(
            label=label,
            mechanism=mechanism,
            x=tuple(x),
            mean=tuple(one.mean for one in found),
            low=tuple(one.mean - one.half_width for one in found),
            high=tuple(one.mean + one.half_width for one in found),
            seeds=tuple(one.seeds for one in found),
            level=level,
            draws=draws if all(draws) else (),
        )

    @classmethod
    def exact(
        cls, label: str, x: Sequence[float], y: Sequence[float], mechanism: str | None = None
    ) -> Series:
        """What rests on no draw: each value is its own interval."""
        points = {at: Point.exact(value) for at, value in zip(x, y, strict=True)}
        return cls.of(label, points, mechanism)

    def at(self, x: float) -> Point | None:
        """The interval at an x; None where there is none: values are never interpolated."""
        for k, here in enumerate(self.x):
            if self.level or abs(here - x) <= 1e-9 * max(abs(x), 1.0):
                half = (self.high[k] - self.low[k]) / 2
                found = Point(self.mean[k], half, self.seeds[k])
                found.draws = self.draws[k] if self.draws else ()
                return found
        return None

    @property
    def ends(self) -> tuple[Point, Point]:
        """At the smallest x and at the largest."""
        first, last = self.at(self.x[0]), self.at(self.x[-1])
        assert first is not None
        assert last is not None
        return first, last


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

    def at(self, label: str, x: float) -> Point | None:
        """A curve's interval at an x, None where there is none."""
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


Tells = Callable[[Made], bool | None]


class Statement(NamedTuple):
    """What the paper says, in our words. holds: of our result; None where it cannot tell.

    A word such as "close" is read without a number of ours where that can be, and the words say
    how it is read.
    """

    words: str
    place: str
    holds: Tells


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What an experiment's method promises, by the paper.

    change: the unit that the paper protects; settings: where they differ from those published;
    card: of what is no mechanism of the registry, made here.
    """

    mechanism: str
    change: Change
    public: PublicFacts
    epsilon: float = 1.0
    delta: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    card: Callable[[], Guarantee] | None = None


def epsilon_of(unit: Unit) -> float | None:
    """The x of a figure over epsilon."""
    return unit.epsilon


def short_name(unit: Unit) -> str:
    """What a method is called beside its curve."""
    return registry.short_name(unit.mechanism.id)


def option_of(unit: Unit, name: str) -> float:
    """A numeric option of the generated data a unit ran on, such as the share observed."""
    options = dict(part.split("=", 1) for part in unit.name.partition(":")[2].split(","))
    return float(options[name])


@dataclass(frozen=True, kw_only=True)
class GridRecipe:
    """A grid of runs, whose rows become curves; `dpmc sweep --preset ID` runs it too.

    metric: by its name. x: of a run, None for one that holds at every x. label: of the curve that
    a run belongs to, None to leave it out; a mean is over the seeds.
    """

    grid: Grid
    metric: str
    x: Callable[[Unit], float | None] = epsilon_of
    label: Callable[[Unit], str | None] = short_name

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(self.grid.seeds)


class Piece(NamedTuple):
    """A piece of work with a name of its own, whose result (plain JSON values) is kept."""

    key: str
    make: Callable[[], Any]


@dataclass(frozen=True, kw_only=True)
class PieceRecipe:
    """What is no row of the store: pieces of work, each kept when it is done.

    pieces: for the seeds, in the order they are done in, a seed being part of its pieces' keys; a
    piece may look whether it is to stop (`stopping.look`). series: of their results by key.
    settings: everything that results depend on beside the seeds, as plain JSON values; mechanisms:
    whose revisions do. pool: of experiments that keep their pieces in common, in the file that its
    first word names; all that their results depend on is in the rest of it and in their keys.
    """

    pieces: Callable[[tuple[int, ...]], Iterable[Piece]]
    series: Callable[[Mapping[str, Any]], tuple[Series, ...]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    mechanisms: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (1,)
    pool: tuple[Any, ...] = ()


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
    None for a curve of the result.
    """

    id: str
    place: str
    title: str
    x: Axis = EPSILON
    y: Axis = NOTHING
    printed: tuple[Printed, ...] = ()
    statements: tuple[Statement, ...] = ()
    why: str = ""
    changed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    cut: bool | tuple[str, ...] = False
    promises: tuple[Promise, ...] = ()
    methods: Mapping[str, str] = field(default_factory=dict)
    guesses: Mapping[str, float | None] = field(default_factory=dict)
    recipe: GridRecipe | PieceRecipe | None = None
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
        across = sorted({x for one in made.series for x in one.x})
        exact = {label: value for label, value in self.guesses.items() if value is not None}
        levels = (
            Series.of(label, dict.fromkeys(across, Point.exact(value)), level=True)
            for label, value in exact.items()
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
    `views.theory` has rows of it.
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


def _beyond(a: Interval | None, b: Interval | None) -> bool | None:
    """The same, and no where the two are equal in every draw."""
    found = surely_above(a, b)
    if found is not None or a is None or b is None:
        return found
    first, second = draws_of(a), draws_of(b)
    if len(first) < 2 or len(first) != len(second):
        return None
    return False if np.allclose(first, second, rtol=ROUNDED, atol=0.0) else None


def apart(a: Interval | None, b: Interval | None) -> Point | None:
    """How far two means are apart."""
    if a is None or b is None:
        return None
    few = [one.seeds for one in (a, b) if one.seeds]
    found = Point(abs(a.mean - b.mean), a.half_width + b.half_width, min(few, default=0))
    first, second = draws_of(a), draws_of(b)
    if a.seeds == b.seeds and first and second:
        sign = math.copysign(1.0, a.mean - b.mean)
        found.draws = tuple(sign * (x - y) for x, y in zip(first, second, strict=True))
    return found


def every(found: Iterable[bool | None]) -> bool | None:
    """True where all are, False where one is, None where that cannot be told."""
    known = list(found)
    if False in known:
        return False
    return None if None in known or not known else True


def above(label: str, other: str | float, at: Iterable[float]) -> Tells:
    """A curve is above another one, or above a number, at each x."""
    places = tuple(at)
    return lambda made: every(_beyond(made.at(label, x), _level(made, other, x)) for x in places)


def below(label: str, other: str | float, at: Iterable[float]) -> Tells:
    """A curve is below another one, or below a number, at each x."""
    places = tuple(at)
    return lambda made: every(_beyond(_level(made, other, x), made.at(label, x)) for x in places)


def not_the_highest(label: str, others: Iterable[str], at: Iterable[float]) -> Tells:
    """At each x one of the others is above a curve."""
    names, places = tuple(others), tuple(at)

    def tells(made: Made, x: float) -> bool | None:
        found = [surely_above(made.at(name, x), made.at(label, x)) for name in names]
        return True if True in found else None if None in found or not found else False

    return lambda made: every(tells(made, x) for x in places)


def rises(label: str) -> Tells:
    """A curve ends higher than it begins."""
    return lambda made: _turn(made, label)


def falls(label: str) -> Tells:
    """A curve ends lower than it begins."""

    def tells(made: Made) -> bool | None:
        found = _turn(made, label)
        return None if found is None else not found

    return tells


def near(label: str, other: str | float, at: Iterable[float], within: float) -> Tells:
    """A curve is as close to another one, or to a number, at each x as `within`, in units of y."""
    places = tuple(at)

    def close(a: Interval | None, b: Interval | None) -> bool | None:
        if a is None or b is None:
            return None
        gap = abs(a.mean - b.mean)
        return None if abs(gap - within) <= reach(a, b) else gap < within

    return lambda made: every(close(made.at(label, x), _level(made, other, x)) for x in places)


def nearer(label: str, goal: str, than: str, at: Iterable[float]) -> Tells:
    """A curve is nearer to one curve than to another one at each x."""
    places = tuple(at)
    return lambda made: every(
        surely_above(_gap(made, label, than, x), _gap(made, label, goal, x)) for x in places
    )


def approaches(label: str, goal: str, first: float, last: float) -> Tells:
    """A curve is nearer to another one at `last` than at `first`."""
    return lambda made: surely_above(_gap(made, label, goal, first), _gap(made, label, goal, last))


def mean_lead(label: str, other: str, printed: float, error: float, at: Iterable[float]) -> Tells:
    """The mean lead over another curve is the printed one, as far as ours and `error` tell.

    None where ours may be off by more than it is: no lead would be as good.
    """
    places = tuple(at)

    def tells(made: Made) -> bool | None:
        pairs = [(made.at(label, x), made.at(other, x)) for x in places]
        known = [(a, b) for a, b in pairs if a is not None and b is not None]
        if len(known) < len(pairs):
            return None
        ends = [one for pair in known for one in pair]
        share = 1 / len(known)
        lead = share * sum(a.mean - b.mean for a, b in known)
        unsure = share * reach(*ends, signs=[1.0, -1.0] * len(known))
        if abs(lead - printed) > unsure + error:
            return False
        return True if abs(lead) > unsure else None

    return tells


def all_of(*parts: Tells) -> Tells:
    """All of several statements."""
    return lambda made: every(part(made) for part in parts)


def _level(made: Made, other: str | float, x: float) -> Interval | None:
    return made.at(other, x) if isinstance(other, str) else Point.exact(other)


def _gap(made: Made, label: str, other: str, x: float) -> Point | None:
    return apart(made.at(label, x), made.at(other, x))


def _turn(made: Made, label: str) -> bool | None:
    found = made.get(label)
    if found is None or len(found.x) < 2:
        return None
    first, last = found.ends
    return surely_above(last, first)
