"""Build what the instrument of What if shows as JSON, for the page and for a file of its own.

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

import plotly

from dpmc_core import registry
from dpmc_core.data import datasets
from dpmc_core.model import Mechanism, Task
from dpmc_core.privacy import Guarantee, Trust
from dpmc_core.problem import build_problem, prepare_public_facts
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_lab.curves import cards, lines, numbers, people, trade
from dpmc_lab.curves.lines import CurveChart, Line
from dpmc_lab.curves.people import (
    PeopleDescription,
    PeopleWithLists,
    Person,
    ReleasedScores,
    VisitorLists,
)
from dpmc_lab.sweep import Grid
from dpmc_lab.sweep.presets import BOTH_ESTIMATORS, EPSILONS
from pages.ui.charts import Figure, Theme
from pages.ui.charts import curve as charts_curve
from pages.ui.text import escape_for_chart

STYLESHEET = Path(__file__).with_name("instrument.css")
PLOTLY = f"plotly-{metadata.version('plotly')}.min.js"  # where the server serves it
_STEP = 0.005  # between two qualities that may be asked for


class Scene(NamedTuple):
    """One curve with everything that belongs to it.

    Attributes:
        mechanisms: one at each stop of the slider.
        picture: the curve.
        public: public facts of the prepared ratings.
        displayed_people: people and their lists, where they may be shown.
        scores: what leaves a trusted server.
        public_context: what public facts say about the people.
        yours: what a visitor's lists are made of.
    """

    mechanisms: tuple[Mechanism, ...]
    picture: CurveChart
    public: PublicFacts
    displayed_people: PeopleWithLists | None = None
    scores: Sequence[ReleasedScores] = ()
    public_context: PeopleDescription = PeopleDescription()
    yours: VisitorLists | None = None

    @property
    def id(self) -> str:
        """Return the id of the mechanism."""
        return self.mechanisms[0].id

    def cards(self) -> list[Guarantee]:
        """Return the guarantee at each stop, given how the curve's ratings were prepared."""
        prepared = self.picture.lines[0].prepared if self.picture.lines else ()
        return [
            mechanism.guarantee(self.public).with_preparation(prepared)
            for mechanism in self.mechanisms
        ]


def load_shipped_scene(data: str, id: str) -> Scene | None:
    """Load what the program ships for a sample and a method; None if there is no curve.

    Raises:
        DpmcError: a file of the app is not valid.
        OSError: a file cannot be read.
    """
    shipped_curve = lines.load_shipped_charts(data, id)
    if shipped_curve is None:
        return None
    line = shipped_curve[0].lines[0]
    methods = create_mechanisms(id)
    curve_scene = Scene(methods, shipped_curve[0], line.info.public)
    displayed_people = people.load_people(data, methods[0].task, line.key)
    if displayed_people is None:
        return curve_scene
    dataset = datasets.load(data)
    scores = compute_released_scores(methods, dataset.ratings)
    public_context = people.describe_people(displayed_people[0], dataset, methods[0])
    yours = people.load_visitor_lists(data, methods[0].task, line.key)
    return curve_scene._replace(
        displayed_people=displayed_people, scores=scores, public_context=public_context, yours=yours
    )


def create_mechanisms(id: str) -> tuple[Mechanism, ...]:
    """Create the mechanism at each stop of the slider."""
    return tuple(registry.create(id, epsilon=epsilon) for epsilon in EPSILONS)


def compute_released_scores(
    mechanisms: Sequence[Mechanism], ratings: Ratings
) -> tuple[ReleasedScores, ...]:
    """Return what leaves a server that is trusted with raw ratings."""
    first = mechanisms[0]
    if first.guarantee(prepare_public_facts(ratings.public, first.task)).trust is Trust.LOCAL:
        return ()
    return people.release_item_scores(
        mechanisms, build_problem((ratings, ratings), first.task).train
    )


def build_curve_grid(data: str, id: str, seeds: Sequence[int], steps: Sequence[str] = ()) -> Grid:
    """Return the grid of a curve, with each estimator of the same reports and certificate.

    With preparation steps, such as public item features, it has the default estimator only.
    """
    with_estimators = registry.has_setting(registry.get_mechanism(id), "estimator") and not steps
    return Grid(
        data=[data],
        mechanisms=[id],
        epsilons=EPSILONS,
        seeds=seeds,
        settings=BOTH_ESTIMATORS if with_estimators else {},
        steps=steps,
    )


def read_javascript() -> str:
    """Return the instrument's JavaScript, including that for a visitor."""
    return "".join(
        STYLESHEET.with_name(f"{name}.js").read_text("utf-8") for name in ("you", "instrument")
    )


def find_plotly_bundle() -> Path:
    """Return the path of Plotly's browser code in its Python package."""
    return Path(plotly.__file__).parent / "package_data" / "plotly.min.js"


RAW_DATA_FLOW = {  # to whom raw ratings go
    Trust.CURATOR: "raw to the server, noisy from it",
    Trust.LOCAL: "",
    Trust.AGGREGATOR: "noisy and masked to the server",
    Trust.FEDERATED: "raw to the own party, noisy from it",
}


def build_view(scene: Scene, theme: Theme) -> dict[str, Any]:
    """Return everything that the instrument draws as JSON, except its state."""
    mechanisms, picture, public, displayed_people, scores, public_context, yours = scene
    first = mechanisms[0]
    line = picture.lines[0] if picture.lines else None
    guarantees = [mechanism.guarantee(public) for mechanism in mechanisms]
    people_view, lists = displayed_people or (None, {})
    curve = charts_curve.plot_instrument(
        picture, EPSILONS, certified=cards.is_upheld(guarantees[0])
    )
    rated = (
        [person.rated for person in people_view.people] if people_view else [cards.TYPICAL_RATINGS]
    )
    attacker_questions = [trade.list_questions(guarantees[0], first.task, count) for count in rated]
    stops = [_describe_stop(picture, epsilon) for epsilon in EPSILONS]
    summary = (
        numbers.describe_curve(picture, line) if line else "No point of this curve is there yet."
    )
    body: dict[str, Any] = {
        "plotly": PLOTLY,
        "title": picture.metric.axis_title,
        "finding": summary,
        "picture": _split_by_stop(charts_curve.build_stop_figures(curve, stops), theme),
        "room": charts_curve.EDGE_ROOM,
        "colors": charts_curve.get_instrument_colors(theme, first.id),
        "method": registry.get_mechanism(first.id).name,
        "data": escape_for_chart(line.info.title) if line else "",
        "promise": cards.describe_protection(guarantees[0]),
        "told": "<br>".join(textwrap.wrap(cards.describe_protection(guarantees[0]), 110)),
        "unit": guarantees[0].change.label,
        "stops": stops,
        "needed": None
        if line is None
        else _list_needed_epsilons(line, curve.layout["yaxis"]["range"]),
        "questions": [
            [
                {
                    **{name: getattr(entry, name) for name in ("short", "text", "answers")},
                    "limit": cards.LIMIT_SENTENCE.format(entry.text, "{}"),
                }
                for entry in pair
            ]
            for pair in attacker_questions
        ],
        "right": [
            [[*map(entry.describe_answer, guarantees)] for entry in pair]
            for pair in attacker_questions
        ],
        "games": [
            [trade.build_guessing_game(guarantee, entry) for guarantee in guarantees]
            for entry in attacker_questions[0]
        ],
        "people": None,
        "lists": None,
        "six": [guarantee._asdict() for guarantee in public_context.prompts],
        "flips": [
            people.FlipChances.from_guarantee(guarantee)._asdict() for guarantee in guarantees
        ]
        if public_context.prompts
        else [],
    }
    if people_view:
        body |= {
            "people": [
                _describe_person(mechanisms, entry, name, public)
                for entry, name in zip(people_view.people, public_context.descriptions, strict=True)
            ],
            "titles": {str(item): name for item, name in people_view.titles.items()},
            "popular": people_view.popular,
            "lists": [entry and asdict(entry) for entry in map(lists.get, EPSILONS)]
            if lists
            else None,
            "served": RAW_DATA_FLOW[guarantees[0].trust],
            "scores": [
                entry._asdict()
                | {
                    "before": _format_score(entry.before),
                    "after": [*map(_format_score, entry.after)],
                }
                for entry in scores
            ],
        }
    text = json.dumps(body, sort_keys=True, allow_nan=False)
    id = hashlib.sha256(text.encode()).hexdigest()[:16]
    if yours:
        body["yours"] = yours._asdict() | {
            "names": [entry.name for entry in yours.judged],
            "said": [entry.summary for entry in yours.judged],
        }
    return body | {"id": id}


_format_score = partial(lines.format_short_number, digits=3)


def _split_by_stop(figures: Sequence[Figure], theme: Theme) -> dict[str, Any]:
    """Return a figure, and what differs in it at each stop of the slider."""
    plotly_figures = [fig.to_plotly(theme) for fig in figures]
    first = plotly_figures[0]
    traces = range(len(first["data"]))
    trace_differences = {
        k: {
            name
            for plotly_figure in plotly_figures
            for name in _list_differing(first["data"][k], plotly_figure["data"][k])
        }
        for k in traces
    }
    names = set().union(*trace_differences.values())
    moving_traces = [k for k in traces if trace_differences[k]]
    layout_names = {
        name
        for plotly_figure in plotly_figures
        for name in _list_differing(first["layout"], plotly_figure["layout"])
    }
    stops = [
        {
            "traces": moving_traces,
            "data": {
                name: [plotly_figure["data"][k].get(name) for k in moving_traces]
                for name in sorted(names)
            },
            "layout": {
                name: plotly_figure["layout"].get(name, []) for name in sorted(layout_names)
            },
        }
        for plotly_figure in plotly_figures
    ]
    return {"figure": first, "stops": stops}


def _list_differing(first: Mapping[str, Any], other: Mapping[str, Any]) -> set[str]:
    return {name for name in {*first, *other} if first.get(name) != other.get(name)}


def _describe_stop(picture: CurveChart, epsilon: float) -> dict[str, Any]:
    line = picture.lines[0] if picture.lines else None
    point = line.interval_at(epsilon) if line else None
    metric = picture.metric
    name = f"{epsilon:g}"
    if line is None or point is None:
        return {"epsilon": name, "text": "-", "half": "not computed", "kept": "", "value": None}
    kept_share = numbers.compute_gain_share(picture, line, epsilon)
    return {
        "epsilon": name,
        "text": metric.format_value(point.mean),
        "half": numbers.format_margin(metric, point),
        "kept": kept_share.label if kept_share else "",
        "value": point.mean,
    }


def _list_needed_epsilons(line: Line, axis: Sequence[float]) -> dict[str, Any]:
    """Return the epsilon that each quality on the axis needs, from its lowest step on."""
    first = math.ceil(axis[0] / _STEP - 1e-9)
    last = math.floor(axis[1] / _STEP + 1e-9)
    needed = numbers.locate_targets(line, EPSILONS, [k * _STEP for k in range(first, last + 1)])
    return {"step": _STEP, "first": first, "answers": [answer._asdict() for answer in needed]}


def _describe_person(
    mechanisms: Sequence[Mechanism], person: Person, name: str, public: PublicFacts
) -> dict[str, Any]:
    task = mechanisms[0].task
    served_reports = [
        people.draw_server_view(mechanism, person, public) for mechanism in mechanisms
    ]
    rated = [cell for cell in person.cells if cell[1] is not None][:4]
    # Of a server that is trusted.
    cells = person.cells[: len(served_reports[0].values)] if served_reports[0] else rated
    return {
        "name": name,
        "plain": person.plain,
        "cells": [{"title": title, "text": _format_rating(value, task)} for title, value in cells],
        "told": [
            {
                "texts": [_format_rating(value, task) for value in report.values],
                "changed": report.changed,
                "words": f"{sum(report.changed)} of {len(report.changed)} changed",
            }
            for report in served_reports
            if report
        ],
    }


def _format_rating(value: float | None, task: Task) -> str:
    if value is None or value != value:
        return "·"
    if task is Task.BINARY:
        return "+" if value > 0 else "\u2212"
    if task is Task.RANKING:
        return "●"
    return f"{value:.2g}" if abs(value) < 100 else f"{value:.0f}"
