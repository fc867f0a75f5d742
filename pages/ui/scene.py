"""What the instrument of What if shows, as JSON: on the page, and in a file of its own.

Nothing here needs a session or a server.
"""

from __future__ import annotations

import hashlib
import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import plotly as plotly_package

from dpmc_core import registry
from dpmc_core.data import datasets
from dpmc_core.model import Mechanism, Task
from dpmc_core.privacy import Guarantee, Trust
from dpmc_core.problem import build_problem, prepared_facts
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_lab.curves import cards, lines, numbers, people, trade
from dpmc_lab.curves.lines import Line, Picture
from dpmc_lab.curves.people import Around, Person, Scores, Shown, Yours
from dpmc_lab.sweep import Grid
from dpmc_lab.sweep.presets import BOTH, EPSILONS
from pages.ui.charts import Figure, Theme
from pages.ui.charts import curve as charts_curve
from pages.ui.text import in_chart

LOOK = Path(__file__).with_name("instrument.css")
PLOTLY = f"plotly-{metadata.version('plotly')}.min.js"  # where the server serves it
_STEP = 0.005  # between two qualities that may be asked for


class Scene(NamedTuple):
    """One curve with what belongs to it.

    mechanisms: one at each stop of the slider. public: facts about the prepared ratings. shown:
    people and their lists, where they may be shown. scores: what leaves a server that is trusted.
    around: what public facts say of the people; yours: what a visitor's lists are made of.
    """

    mechanisms: tuple[Mechanism, ...]
    picture: Picture
    public: PublicFacts
    shown: Shown | None = None
    scores: Sequence[Scores] = ()
    around: Around = Around()
    yours: Yours | None = None

    @property
    def id(self) -> str:
        return self.mechanisms[0].id

    def cards(self) -> list[Guarantee]:
        """The guarantee at each stop, given what the curve's ratings were prepared by."""
        prepared = self.picture.lines[0].prepared if self.picture.lines else ()
        return [one.guarantee(self.public).given(prepared) for one in self.mechanisms]


def came(data: str, id: str) -> Scene | None:
    """What came with the program for a sample and a method; None where there is no curve.

    Raises DpmcError, OSError.
    """
    found = lines.shipped(data, id)
    if found is None:
        return None
    line, methods = found[0].lines[0], at_stops(id)
    bare = Scene(methods, found[0], line.info.public)
    shown = people.load(data, methods[0].task, line.key)
    if shown is None:
        return bare
    dataset = datasets.load(data)
    scores = leaving(methods, dataset.ratings)
    around = people.around(shown[0], dataset, methods[0])
    yours = people.joined(data, methods[0].task, line.key)
    return bare._replace(shown=shown, scores=scores, around=around, yours=yours)


def at_stops(id: str) -> tuple[Mechanism, ...]:
    """A method at each stop of the slider."""
    return tuple(registry.create(id, epsilon=epsilon) for epsilon in EPSILONS)


def leaving(mechanisms: Sequence[Mechanism], ratings: Ratings) -> tuple[Scores, ...]:
    """What leaves a server that is trusted with raw ratings."""
    first = mechanisms[0]
    if first.guarantee(prepared_facts(ratings.public, first.task)).trust is Trust.LOCAL:
        return ()
    return people.scores(mechanisms, build_problem((ratings, ratings), first.task).train)


def grid(data: str, id: str, seeds: Sequence[int], steps: Sequence[str] = ()) -> Grid:
    """The runs behind a curve: for each estimator, of the same reports and certificate; with public
    facts the usual one alone."""
    two = registry.has_setting(registry.get(id), "estimator") and not steps
    return Grid(
        data=[data],
        mechanisms=[id],
        epsilons=EPSILONS,
        seeds=seeds,
        settings=BOTH if two else {},
        steps=steps,
    )


def code() -> str:
    """The instrument's JavaScript, with that of a visitor."""
    return "".join(
        LOOK.with_name(f"{name}.js").read_text("utf-8") for name in ("you", "instrument")
    )


def plotly() -> Path:
    """Plotly's code for browsers, as its Python package brings it."""
    return Path(plotly_package.__file__).parent / "package_data" / "plotly.min.js"


SERVED = {  # to whom raw ratings go
    Trust.CURATOR: "raw to the server, noisy from it",
    Trust.LOCAL: "",
    Trust.AGGREGATOR: "noisy and masked to the server",
    Trust.FEDERATED: "raw to the own party, noisy from it",
}


def view(scene: Scene, theme: Theme) -> dict[str, Any]:
    """Everything the instrument draws, as JSON, but where it stands."""
    mechanisms, picture, public, shown, scores, around, yours = scene
    first, line = mechanisms[0], picture.lines[0] if picture.lines else None
    made = [mechanism.guarantee(public) for mechanism in mechanisms]
    found, lists = shown or (None, {})
    curve = charts_curve.instrument(picture, EPSILONS, certified=cards.upheld(made[0]))
    rated = [person.rated for person in found.people] if found else [cards.TYPICAL]
    asked = [trade.questions(made[0], first.task, count) for count in rated]
    stops = [_stop(picture, epsilon) for epsilon in EPSILONS]
    said = numbers.finding(picture, line) if line else "No point of this curve is there yet."
    body: dict[str, Any] = {
        "plotly": PLOTLY,
        "title": picture.metric.axis,
        "finding": said,
        "picture": _moving(charts_curve.standing(curve, stops), theme),
        "room": charts_curve.ROOM,
        "colors": charts_curve.colors(theme, first.id),
        "method": registry.get(first.id).name,
        "data": in_chart(line.info.title) if line else "",
        "promise": cards.protects(made[0]),
        "told": "<br>".join(textwrap.wrap(cards.protects(made[0]), 110)),
        "unit": made[0].change.label,
        "stops": stops,
        "needed": None if line is None else _needed(line, curve.layout["yaxis"]["range"]),
        "questions": [
            [
                {
                    **{name: getattr(one, name) for name in ("short", "text", "answers")},
                    "limit": cards.LIMIT.format(one.text, "{}"),
                }
                for one in pair
            ]
            for pair in asked
        ],
        "right": [[[*map(one.answer, made)] for one in pair] for pair in asked],
        "games": [[trade.guess(card, one) for card in made] for one in asked[0]],
        "people": None,
        "lists": None,
        "six": [card._asdict() for card in around.six],
        "flips": [people.Flips.of(card)._asdict() for card in made] if around.six else [],
    }
    if found:
        body |= {
            "people": [
                _person(mechanisms, one, name, public)
                for one, name in zip(found.people, around.who, strict=True)
            ],
            "titles": {str(item): name for item, name in found.titles.items()},
            "popular": found.popular,
            "lists": [one and asdict(one) for one in map(lists.get, EPSILONS)] if lists else None,
            "served": SERVED[made[0].trust],
            "scores": [
                one._asdict() | {"before": _short(one.before), "after": [*map(_short, one.after)]}
                for one in scores
            ],
        }
    text = json.dumps(body, sort_keys=True, allow_nan=False)
    id = hashlib.sha256(text.encode()).hexdigest()[:16]
    if yours:
        body["yours"] = yours._asdict() | {
            "names": [one.name for one in yours.judged],
            "said": [one.words for one in yours.judged],
        }
    return body | {"id": id}


_short = partial(lines.short, digits=3)


def _moving(figures: Sequence[Figure], theme: Theme) -> dict[str, Any]:
    """A figure, and at each stop of the slider what of it is otherwise."""
    drawn = [fig.on(theme) for fig in figures]
    first = drawn[0]
    traces = range(len(first["data"]))
    apart = {
        k: {name for one in drawn for name in _differing(first["data"][k], one["data"][k])}
        for k in traces
    }
    names, moved = set().union(*apart.values()), [k for k in traces if apart[k]]
    parts = {name for one in drawn for name in _differing(first["layout"], one["layout"])}
    stops = [
        {
            "traces": moved,
            "data": {name: [one["data"][k].get(name) for k in moved] for name in sorted(names)},
            "layout": {name: one["layout"].get(name, []) for name in sorted(parts)},
        }
        for one in drawn
    ]
    return {"figure": first, "stops": stops}


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> set[str]:
    return {name for name in {*one, *other} if one.get(name) != other.get(name)}


def _stop(picture: Picture, epsilon: float) -> dict[str, Any]:
    line = picture.lines[0] if picture.lines else None
    here, metric = line.at(epsilon) if line else None, picture.metric
    name = f"{epsilon:g}"
    if line is None or here is None:
        return {"epsilon": name, "text": "-", "half": "not computed", "kept": "", "value": None}
    found = numbers.kept(picture, line, epsilon)
    return {
        "epsilon": name,
        "text": metric.text(here.mean),
        "half": numbers.around(metric, here),
        "kept": found.words if found else "",
        "value": here.mean,
    }


def _needed(line: Line, axis: Sequence[float]) -> dict[str, Any]:
    """What each quality on the axis takes, from its lowest step on."""
    first, last = math.ceil(axis[0] / _STEP - 1e-9), math.floor(axis[1] / _STEP + 1e-9)
    found = numbers.needed(line, EPSILONS, [k * _STEP for k in range(first, last + 1)])
    return {"step": _STEP, "first": first, "answers": [one._asdict() for one in found]}


def _person(
    mechanisms: Sequence[Mechanism], person: Person, name: str, public: PublicFacts
) -> dict[str, Any]:
    task = mechanisms[0].task
    told = [people.served(mechanism, person, public) for mechanism in mechanisms]
    rated = [cell for cell in person.cells if cell[1] is not None][:4]
    cells = person.cells[: len(told[0].values)] if told[0] else rated  # of a server that is trusted
    return {
        "name": name,
        "plain": person.plain,
        "cells": [{"title": title, "text": _sign(value, task)} for title, value in cells],
        "told": [
            {
                "texts": [_sign(value, task) for value in one.values],
                "changed": one.changed,
                "words": f"{sum(one.changed)} of {len(one.changed)} changed",
            }
            for one in told
            if one
        ],
    }


def _sign(value: float | None, task: Task) -> str:
    if value is None or value != value:
        return "·"
    if task is Task.BINARY:
        return "+" if value > 0 else "\u2212"
    if task is Task.RANKING:
        return "●"
    return f"{value:.2g}" if abs(value) < 100 else f"{value:.0f}"
