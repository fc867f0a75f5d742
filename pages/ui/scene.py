"""Build what the instrument of What if shows as JSON, for the page and for a file of its own.

Nothing here needs a session or a server.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from dpmc_core import registry
from dpmc_core.model import Mechanism
from dpmc_core.privacy import Guarantee
from dpmc_core.ratings import PublicFacts
from dpmc_data import datasets
from dpmc_data.synthetic import SAMPLES
from dpmc_lab.sweep import Grid
from dpmc_lab.sweep.presets import BOTH_ESTIMATORS, EPSILONS
from dpmc_lab.views import cards, lines, measurements, numbers, people, trade
from dpmc_lab.views.lines import Curve, CurveChart
from dpmc_lab.views.people import PeopleWithLists, Person
from dpmc_lab.views.trade import AttackerQuestion
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
        mechanisms: the method at each stop of the slider.
        chart: the curve.
        public: public facts of the prepared ratings.
        displayed_people: people and their lists, where they may be shown.
        descriptions: of the people, by public facts.
        refuted: whether an attack found more than the method claims.
    """

    mechanisms: tuple[Mechanism, ...]
    chart: CurveChart
    public: PublicFacts
    displayed_people: PeopleWithLists | None = None
    descriptions: tuple[str, ...] = ()
    refuted: bool = False

    @property
    def id(self) -> str:
        """Return the id of the mechanism."""
        return self.mechanisms[0].id

    def cards(self) -> list[Guarantee]:
        """Return the guarantee at each stop of the slider, on ratings prepared as the curve's."""
        prepared = self.chart.lines[0].prepared if self.chart.lines else ()
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
    refuted = measurements.is_refuted(measurements.find_default_measured_bound(id))
    curve_scene = Scene(methods, shipped_curve[0], line.info.public, refuted=refuted)
    displayed_people = people.load_people(data, methods[0].task, line.key)
    if displayed_people is None:
        return curve_scene
    dataset = datasets.load(data)
    descriptions = people.describe_people(displayed_people[0], dataset)
    return curve_scene._replace(displayed_people=displayed_people, descriptions=descriptions)


def create_mechanisms(id: str) -> tuple[Mechanism, ...]:
    """Create the mechanism at each stop of the slider."""
    return tuple(registry.create(id, epsilon=epsilon) for epsilon in EPSILONS)


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
    mechanisms, chart, public, displayed_people, descriptions, refuted = scene
    first = mechanisms[0]
    guarantees = [mechanism.guarantee(public) for mechanism in mechanisms]
    people_view, lists = displayed_people or (None, {})
    persons = people_view.people if people_view else (_invent_person(public),)
    attacker_questions = [
        trade.list_questions(guarantees[0], first.task, person.rated) for person in persons
    ]
    question = attacker_questions[0][0]
    line = chart.lines[0] if chart.lines else None
    claim_state = cards.determine_claim_state(guarantees[0], refuted=refuted)
    usefulness = line and Usefulness.from_line(chart, line, claim_state)
    risk = [
        question.success_rate(guarantee) if question.is_bounded(guarantee) else None
        for guarantee in guarantees
    ]
    data_name = line.info.title if line else ""
    name = first.name
    alt = f"Risk and usefulness against epsilon, {name}" + f", {data_name}" * bool(data_name)
    titles = (
        sentences.write_risk_title(question, first.task),
        sentences.write_usefulness_title(chart.metric),
    )
    unit = "person" if guarantees[0].change.per_user else sentences.name_rating(first.task)
    body: dict[str, Any] = {
        "name": alt,
        "axis": f"privacy budget epsilon, {guarantees[0].change.label}",
        "colors": charts_curve.get_instrument_colors(theme, first.id),
        "sentences": [
            sentences.write_answer(chart, first, guarantee, epsilon)
            for guarantee, epsilon in zip(guarantees, EPSILONS, strict=True)
        ],
        "pictures": {
            kind: layout._asdict()
            | {
                "svg": charts_curve.draw_picture(layout, alt, titles, risk, usefulness, name),
                "at": [*map(layout.locate, range(len(EPSILONS)))],
            }
            for kind, layout in charts_curve.LAYOUTS.items()
        },
        "risk": {
            "values": risk,
            "texts": [sentences.format_risk(question, guarantee) for guarantee in guarantees],
        },
        "range": usefulness and usefulness.axis,
        "stops": [_describe_stop(chart, epsilon) for epsilon in EPSILONS],
        "needed": line and usefulness and _list_needed_epsilons(line, sorted(usefulness.axis)),
        "question": sentences.write_guess(question, first.task),
        "right": [*map(question.describe_answer, guarantees)],
        "games": [trade.build_guessing_game(guarantee, question) for guarantee in guarantees],
        "panel": {
            "title": f"For one {unit}",
            "persons": [
                _describe_panel(scene, guarantees, person, pair[1])
                for person, pair in zip(persons, attacker_questions, strict=True)
            ],
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
                for k, (person, name) in enumerate(
                    zip(people_view.people, descriptions, strict=True)
                )
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


def _describe_stop(chart: CurveChart, epsilon: float) -> dict[str, Any]:
    """Return the metric of the first line and its kept share at an epsilon, as JSON."""
    line = chart.lines[0] if chart.lines else None
    point = line.interval_at(epsilon) if line else None
    name = f"{epsilon:g}"
    if line is None or point is None:
        return {"epsilon": name, "text": "-", "half": "not computed", "kept": "", "value": None}
    return {
        "epsilon": name,
        "text": chart.metric.format_value(point.mean),
        "half": numbers.format_margin(chart.metric, point),
        "kept": sentences.write_benefit(numbers.compute_gain_share(chart, line, epsilon)),
        "value": point.mean,
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


def _describe_panel(
    scene: Scene,
    guarantees: Sequence[Guarantee],
    person: Person,
    whole_row: AttackerQuestion,
) -> dict[str, Any]:
    """Return the boxes from a rating to what leaves it, and what is hidden, at each stop."""
    mechanisms, public = scene.mechanisms, scene.public
    task = mechanisms[0].task
    rating = sentences.name_rating(task)
    panel: dict[str, Any] = {
        "together": [
            sentences.write_whole_row(whole_row, guarantee, person.rated, task)
            for guarantee in guarantees
        ]
    }
    title, value = person.cells[0]
    served_reports = [
        people.draw_server_view(mechanism, person, public) for mechanism in mechanisms
    ]
    if served_reports[0] is None or value is None:
        source, computation, audience = sentences.RAW_DATA_FLOW[guarantees[0].trust]
        published = guarantees[0].publishes.value.partition(";")[0].partition(",")[0]
        count = f"her {person.rated} {rating}s" if person.name else f"all {rating}s"
        return panel | {
            "boxes": [[count, source], [f"{public.users:,} people", computation]],
            "last": published,
            "audience": audience,
            "notes": [
                *map(partial(sentences.write_protection, scene.refuted), mechanisms, guarantees)
            ],
        }
    outcomes = [people.count_outcomes(guarantee, value, public) for guarantee in guarantees]
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
            sentences.write_outcomes(people.find_main_release(guarantee), counts, task, public)
            for guarantee, counts in zip(guarantees, outcomes, strict=True)
        ],
    }
