"""The instrument of What if: one slider, and everything that moves with it, in the browser.

A component in plain HTML, CSS and JavaScript. It gets a whole curve with all that belongs to each
stop, and moves among them by itself; on release it tells the page where it stands.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import streamlit as st

from dpmc_core import registry
from dpmc_core.model import Mechanism, Task
from dpmc_core.privacy import Trust
from dpmc_core.ratings import PublicFacts
from dpmc_core.views import cards, people, stops
from dpmc_core.views.lines import Picture
from dpmc_core.views.people import Lists, People, Person, Scores, Shown
from pages.ui.charts import Theme
from pages.ui.charts import curve as charts_curve

_HERE = Path(__file__).parent
STATES = ("stop", "person", "asked", "wanted")
PLOTLY = f"plotly-{metadata.version('plotly')}.min.js"  # where the server serves it
_PERSON = 20  # ratings of somebody where no person is shown


_component = st.components.v2.component(
    "instrument",
    html='<div class="dpmc-what"></div>',
    css=(_HERE / "instrument.css").read_text("utf-8"),
    js=(_HERE / "instrument.js").read_text("utf-8"),
    isolate_styles=False,  # Plotly's own styles lie in the document
)


def show(view: Mapping[str, Any], *, key: str, on_change: Callable[[], None]) -> None:
    """The instrument over a view; where it stands is in the session under the key, by `STATES`."""
    told = {f"on_{name}_change": on_change for name in STATES}
    _component(data=dict(view), key=key, **told)


def view(
    mechanisms: Sequence[Mechanism],
    picture: Picture,
    public: PublicFacts,
    theme: Theme,
    *,
    shown: Shown | None,
    scores: Sequence[Scores] = (),
) -> dict[str, Any]:
    """Everything the instrument draws, as JSON, but where it stands.

    mechanisms: one at each stop of the slider. public: facts about the prepared ratings. shown:
    people and their lists, where they may be shown. scores: what leaves a server that is trusted.
    """
    first, line = mechanisms[0], picture.lines[0] if picture.lines else None
    made = [mechanism.guarantee(public) for mechanism in mechanisms]
    epsilons = [mechanism.epsilon for mechanism in mechanisms]
    upheld = cards.upheld(made[0])
    found, lists = shown or (None, {})
    height = charts_curve.HEIGHT if found else charts_curve.TALL
    fig = charts_curve.instrument(picture, epsilons, height=height, certified=upheld, theme=theme)
    rated = [person.rated for person in found.people] if found else [_PERSON]
    asked = [stops.questions(made[0], first.task, count) for count in rated]
    body: dict[str, Any] = {
        "plotly": PLOTLY,
        "title": picture.metric.axis,
        "finding": stops.finding(picture, line) if line else "No point of this curve is there yet.",
        "figure": {"data": fig.data, "layout": fig.layout},
        "dot": len(fig.data) - 1,
        "height": height,
        "margin": charts_curve.MARGIN,
        "room": charts_curve.ROOM,
        "colors": charts_curve.colors(theme, first.id),
        "lower": picture.metric.lower,
        "percent": picture.metric.share,
        "kind": "certified" if upheld else "claimed, not certified",
        "method": registry.get(first.id).name,
        "promise": cards.protects(made[0]),
        "unit": made[0].change.label,
        "stops": [_stop(picture, epsilon) for epsilon in epsilons],
        "needed": None if line is None else _needed(picture, epsilons),
        "questions": [
            [
                {
                    "short": one.short,
                    "text": one.text,
                    "answers": list(zip(one.answers, (True, False), strict=True)),
                }
                for one in pair
            ]
            for pair in asked
        ],
        "right": [
            [
                [stops.percent(one.right(card)) if one.bounded(card) else None for card in made]
                for one in pair
            ]
            for pair in asked
        ],
        "games": [
            [stops.guess(m, card, one) for m, card in zip(mechanisms, made, strict=True)]
            for one in asked[0]
        ],
        "people": None,
        "lists": None,
    }
    if found:
        body |= _people(mechanisms, found, lists, epsilons, public)
        body["served"] = _SERVED[made[0].trust] if not body["people"][0]["told"] else ""
        body["scores"] = [
            {
                "title": one.title,
                "query": one.query,
                "before": f"{one.before:.3g}",
                "after": [f"{v:.3g}" for v in one.after],
            }
            for one in scores
        ]
    text = json.dumps(body, sort_keys=True, allow_nan=False)
    return body | {"id": hashlib.sha256(text.encode()).hexdigest()[:16]}


_SERVED = {
    Trust.CURATOR: "raw to the server, noisy from it",
    Trust.LOCAL: "",
    Trust.AGGREGATOR: "noisy and masked to the server",
    Trust.FEDERATED: "raw to the own party, noisy from it",
}


def _stop(picture: Picture, epsilon: float) -> dict[str, Any]:
    line = picture.lines[0] if picture.lines else None
    here, metric = line.at(epsilon) if line else None, picture.metric
    name = f"{epsilon:g}"
    if line is None or here is None:
        return {"epsilon": name, "text": "-", "half": "not computed", "kept": "", "value": None}
    half = f"± {metric.text(here.half_width)}" if here.seeds > 1 else ""
    share = stops.kept(picture, line, epsilon)
    return {
        "epsilon": name,
        "text": metric.text(here.mean),
        "half": half,
        "kept": stops.kept_words(share),
        "value": here.mean,
    }


def _needed(picture: Picture, epsilons: Sequence[float]) -> dict[str, Any]:
    line = picture.lines[0]
    fit = stops.needed(line)
    places = [k for k, e in enumerate(epsilons) if line.at(e) is not None]
    there = [k for k, e in enumerate(line.epsilon.tolist()) if e in epsilons]
    sides = {name: [side[k] for k in there] for name, side in fit._asdict().items()}
    return {"places": places, **sides, "step": 0.005}


def _people(
    mechanisms: Sequence[Mechanism],
    found: People,
    lists: Mapping[float, Lists],
    epsilons: Sequence[float],
    public: PublicFacts,
) -> dict[str, Any]:
    task = mechanisms[0].task
    by_stop = [lists.get(epsilon) for epsilon in epsilons]
    return {
        "people": [_person(mechanisms, one, k, task, public) for k, one in enumerate(found.people)],
        "titles": {str(item): name for item, name in found.titles.items()},
        "popular": found.popular,
        "lists": [
            None
            if one is None
            else {"items": one.items, "shared": one.shared, "everyone": one.everyone}
            for one in by_stop
        ]
        if lists
        else None,
    }


def _person(
    mechanisms: Sequence[Mechanism], person: Person, k: int, task: Task, public: PublicFacts
) -> dict[str, Any]:
    told = [people.served(mechanism, person, public) for mechanism in mechanisms]
    cells = person.cells[: len(told[0].values)] if told[0] else _rated(person)
    name = {Task.RANKING: "clicked"}.get(task, "rated")
    return {
        "name": f"Person {person.name}",
        "why": f"{name} {person.rated} · {people.WHO[k]}",
        "plain": list(person.plain),
        "cells": [{"title": title, "text": _sign(value, task)} for title, value in cells],
        "told": None
        if told[0] is None
        else [
            {
                "texts": [_sign(value, task) for value in one.values],
                "changed": list(one.changed),
                "words": f"{sum(one.changed)} of {len(one.changed)} changed",
            }
            for one in told
            if one is not None
        ],
    }


def _rated(person: Person) -> list[tuple[str, float | None]]:
    return [(title, value) for title, value in person.cells if value is not None][:4]


def _sign(value: float | None, task: Task) -> str:
    if value is None or value != value:
        return "·"
    if task is Task.BINARY:
        return "+" if value > 0 else "\u2212"
    if task is Task.RANKING:
        return "●"
    return f"{value:.2g}" if abs(value) < 100 else f"{value:.0f}"
