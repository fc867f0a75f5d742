"""Build what the instrument of What if shows as JSON, for the page and for a file of its own.

Nothing here needs a session or a server.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from dpmc_core import registry
from dpmc_core.model import Mechanism
from dpmc_core.ratings import PublicFacts
from dpmc_data import datasets
from dpmc_data.synthetic import SAMPLES
from dpmc_lab.sweep import Grid
from dpmc_lab.sweep.presets import BOTH_ESTIMATORS, EPSILONS
from dpmc_lab.views import cards, lines, measurements, numbers, people, trade
from dpmc_lab.views.lines import Curve, CurveChart
from dpmc_lab.views.people import PeopleWithLists, Person
from dpmc_lab.views.what_if import Stop, build_stop
from pages.ui import sentences
from pages.ui.charts import Theme
from pages.ui.charts import curve as charts_curve
from pages.ui.charts.curve import Usefulness

STYLESHEET = Path(__file__).with_name("instrument.css")
_STILL_STYLE = """<style>.still { width: 100%; max-width: 1000px; }
.still.narrow { display: none; }
@media (max-width: 640px) { .still.narrow { display: block; } .still.wide { display: none; } }
</style>"""
_STEP = 0.005  # between two qualities that may be asked for


class Scene(NamedTuple):
    """One method's curve, with everything that What if shows beside it.

    Attributes:
        stops: the method at each epsilon of the knob.
        chart: the curve.
        public: public facts of the prepared ratings.
        persons: who may be shown, or somebody invented.
        displayed_people: people and their lists, where they may be shown.
        descriptions: of the people, by public facts.
        refuted: whether an attack found more than the method claims.
    """

    stops: tuple[Stop, ...]
    chart: CurveChart
    public: PublicFacts
    persons: tuple[Person, ...]
    displayed_people: PeopleWithLists | None = None
    descriptions: tuple[str, ...] = ()
    refuted: bool = False

    @property
    def mechanism(self) -> type[Mechanism]:
        """Return the class of the mechanism."""
        return type(self.stops[0].mechanism)

    @property
    def id(self) -> str:
        """Return the id of the mechanism."""
        return self.mechanism.id

    def find_stop(self, epsilon: float) -> Stop:
        """Return what is shown at an epsilon of the knob."""
        return self.stops[EPSILONS.index(epsilon)]


def build_scene(
    id: str,
    chart: CurveChart,
    public: PublicFacts,
    displayed_people: PeopleWithLists | None = None,
    descriptions: tuple[str, ...] = (),
    *,
    refuted: bool = False,
) -> Scene:
    """Compute what What if shows of a method, at every epsilon of the knob.

    The arguments are those of `Scene`, and the id of the mechanism.
    """
    persons = displayed_people[0].people if displayed_people else (_invent_person(public),)
    rated = {person.rated for person in persons}
    stops = (
        build_stop(registry.create(id, epsilon=epsilon), epsilon, chart, public, rated)
        for epsilon in EPSILONS
    )
    return Scene(tuple(stops), chart, public, persons, displayed_people, descriptions, refuted)


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
    displayed_people = people.load_people(data, registry.get_mechanism(id).task, line.key)
    descriptions = (
        people.describe_people(displayed_people[0], datasets.load(data)) if displayed_people else ()
    )
    refuted = measurements.is_refuted(measurements.find_default_measured_bound(id))
    public = line.info.public
    return build_scene(
        id, shipped_curve[0], public, displayed_people, descriptions, refuted=refuted
    )


def build_curve_grid(data: str, id: str, seeds: Sequence[int], steps: Sequence[str] = ()) -> Grid:
    """Return the grid of a method's curve at the epsilons of the slider.

    A method with two estimators gets both, unless there are preparation steps such as public item
    features.

    Args:
        data: the data set, as it is typed.
        id: of the mechanism.
        seeds: of the splits and the noise.
        steps: preparation as command-line text.
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
    """Return the instrument's JavaScript."""
    return STYLESHEET.with_name("instrument.js").read_text("utf-8")


def build_view(scene: Scene, theme: Theme) -> dict[str, Any]:
    """Return everything that the instrument draws as JSON, except its state."""
    stops, chart, _, persons, displayed_people, descriptions, refuted = scene
    first, line, cls = stops[0], chart.first_line, scene.mechanism
    people_view, lists = displayed_people or (None, {})
    question = first.risk.question
    claim_state = cards.determine_claim_state(first.guarantee, refuted=refuted)
    usefulness = line and Usefulness.from_line(chart, line, claim_state)
    data_name = line.info.title if line else ""
    alt = f"Risk and usefulness against epsilon, {cls.name}" + f", {data_name}" * bool(data_name)
    titles = (
        sentences.write_risk_title(question, cls.task),
        sentences.write_usefulness_title(chart.metric),
    )
    unit = "person" if first.guarantee.change.per_user else sentences.name_rating(cls.task)
    body: dict[str, Any] = {
        "name": alt,
        "axis": f"privacy budget epsilon, {first.guarantee.change.label}",
        "colors": charts_curve.get_instrument_colors(theme, cls.id),
        "pictures": {
            kind: layout._asdict()
            | {
                "svg": charts_curve.render_picture(
                    layout, alt, titles, stops, usefulness, cls.name
                ),
                "at": layout.columns,
            }
            for kind, layout in charts_curve.LAYOUTS.items()
        },
        "range": usefulness and usefulness.axis,
        "stops": [_describe_stop(chart, stop) for stop in stops],
        "needed": line and usefulness and _list_needed_epsilons(line, sorted(usefulness.axis)),
        "question": sentences.write_guess(question, cls.task),
        "panel": {
            "title": f"For one {unit}",
            "persons": [_describe_panel(scene, person) for person in persons],
        },
        "people": None,
        "lists": None,
    }
    if people_view:
        data = line.info.name if line else ""
        items = SAMPLES[data].items if data in SAMPLES else "titles"
        body |= {
            "items": items,
            "people": [
                {"name": sentences.write_person(name, k), "plain": person.plain}
                for k, (person, name) in enumerate(zip(persons, descriptions, strict=True))
            ],
            "titles": {str(item): name for item, name in people_view.titles.items()},
            "popular": people_view.popular,
            "lists": [entry and asdict(entry) for entry in map(lists.get, EPSILONS)]
            if lists
            else None,
        }
    text = json.dumps(body, sort_keys=True, allow_nan=False)
    return body | {"id": hashlib.sha256(text.encode()).hexdigest()[:16]}


def render_still(view: Mapping[str, Any], position: int) -> str:
    """Render the charts of a view as HTML, wide and narrow, with a rule at one stop."""
    colors = ";".join(f"--{name}:{color}" for name, color in view["colors"].items())
    images = []
    for kind, picture in view["pictures"].items():
        svg = picture["svg"].replace("<svg ", f'<svg font-family="sans-serif" style="{colors}" ', 1)
        rule = f"path.rule{{display:inline;transform:translateX({picture['at'][position]:.1f}px)}}"
        svg = svg.replace("</svg>", f"<style>.moves{{display:none}}{rule}</style></svg>")
        name = escape(view["name"])
        images.append(
            f'<img class="still {kind}" alt="{name}" src="data:image/svg+xml,{quote(svg)}">'
        )
    return _STILL_STYLE + "".join(images)


def _invent_person(public: PublicFacts) -> Person:
    """Return a person for data of which no person may be shown."""
    return Person("", cards.TYPICAL_RATINGS, (("an invented item", public.high),), (), 0)


def _describe_stop(chart: CurveChart, stop: Stop) -> dict[str, Any]:
    """Return what is said of a method at one epsilon, as JSON."""
    metric, interval, risk = chart.metric, stop.interval, stop.risk
    return {
        "epsilon": stop.epsilon,
        "sentence": sentences.write_answer(chart, stop),
        "risk": risk.success_rate if risk.is_bounded else None,
        "limit": risk.label,
        "attacker": risk.describe(),
        "game": trade.build_guessing_game(risk),
        "text": metric.format_value(interval.mean) if interval else "-",
        "half": numbers.format_margin(metric, interval) if interval else "not computed",
        "kept": sentences.write_benefit(stop.benefit),
        "value": stop.value,
    }


def _list_needed_epsilons(line: Curve, axis: Sequence[float]) -> dict[str, Any]:
    """Return the epsilon that each target on the metric's axis needs, as JSON.

    Targets are the multiples of `step`, from `first` times the step on. A quality less `slack` is
    rounded to a target that it meets; a target of 1 is `per` where it is typed.
    """
    first = math.ceil(axis[0] / _STEP - 1e-9)
    last = math.floor(axis[1] / _STEP + 1e-9)
    needed = numbers.locate_targets(line, EPSILONS, [k * _STEP for k in range(first, last + 1)])
    return {
        "step": _STEP,
        "slack": line.metric.sign * _STEP / 2,
        "per": 100 if line.metric.is_share else 1,
        "first": first,
        "answers": [answer._asdict() for answer in needed],
    }


# --- the panel about one rating or one person ----------------------------------------------------


def _describe_panel(scene: Scene, person: Person) -> dict[str, Any]:
    """Return the boxes from a rating to what leaves it, and what is hidden, at each stop."""
    stops, public, task = scene.stops, scene.public, scene.mechanism.task
    guarantee = stops[0].guarantee
    rating = sentences.name_rating(task)
    panel: dict[str, Any] = {
        "together": [
            sentences.write_whole_row(stop.person_risks[person.rated], person.rated, task)
            for stop in stops
        ]
    }
    title, value = person.cells[0]
    served_reports = [people.sample_server_view(stop.guarantee, person, task) for stop in stops]
    if served_reports[0] is None or value is None:
        source, computation, audience = sentences.RAW_DATA_FLOW[guarantee.trust]
        published = guarantee.publishes.value.partition(";")[0].partition(",")[0]
        count = f"her {person.rated} {rating}s" if person.name else f"all {rating}s"
        return panel | {
            "boxes": [[count, source], [f"{public.users:,} people", computation]],
            "last": published,
            "audience": audience,
            "notes": [
                sentences.write_protection(stop.guarantee, task, refuted=scene.refuted)
                for stop in stops
            ],
        }
    outcomes = [people.count_outcomes(stop.guarantee, value) for stop in stops]
    return panel | {
        "boxes": [[sentences.format_rating(value, task), f"her {rating} of {title}"]],
        "audience": "what the server gets",
        "reports": [
            [sentences.format_rating(report.values[0], task), report.changed[0]]
            for report in served_reports
            if report
        ],
        "outcomes": outcomes,
        "notes": [
            sentences.write_outcomes(people.find_main_release(stop.guarantee), counts, task, public)
            for stop, counts in zip(stops, outcomes, strict=True)
        ],
    }
