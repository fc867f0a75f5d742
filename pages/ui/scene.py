"""Build what the instrument of What if shows as JSON, for the page and for a file of its own.

Nothing here needs a session or a server.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from dpmc_core import registry
from dpmc_core.model import Mechanism, Task
from dpmc_core.privacy import ModifiedLaplace, SymbolChannel, Trust
from dpmc_core.problem import build_problem
from dpmc_core.ratings import PublicFacts
from dpmc_data import datasets
from dpmc_data.datasets import LoadedDataset
from dpmc_data.synthetic import SAMPLES
from dpmc_lab.sweep import LISTS_SEED, Grid
from dpmc_lab.sweep.presets import BOTH_ESTIMATORS, EPSILONS
from dpmc_lab.views import cards, lines, measurements, numbers, people, trade
from dpmc_lab.views.lines import Curve, CurveChart, Role
from dpmc_lab.views.measurements import find_default_measured_bound
from dpmc_lab.views.noise import find_main_release, list_symbols
from dpmc_lab.views.people import PeopleWithLists
from dpmc_lab.views.what_if import Stop, build_stop
from pages.ui import sentences
from pages.ui.charts.curve import Usefulness

STYLESHEET = Path(__file__).with_name("instrument.css")
_STEP = 0.005  # between two qualities that may be asked for


class DisplayedPerson(NamedTuple):
    """Somebody whose ratings are shown.

    Attributes:
        ratings: all her ratings to learn from, as prepared.
        description: who she is, by public facts.
        plain: items of her list without privacy.
    """

    ratings: tuple[float, ...]
    description: str = ""
    plain: tuple[int, ...] = ()

    @property
    def rated(self) -> int:
        """Return how many ratings she has."""
        return len(self.ratings)


class Scene(NamedTuple):
    """One method's curve, with everything that What if shows beside it.

    Attributes:
        stops: the method at each epsilon of the knob.
        chart: the curve.
        public: public facts of the prepared ratings.
        persons: who may be shown, or somebody invented.
        displayed_people: people and their lists, where they may be shown.
        refuted: whether an attack found more than the method claims.
    """

    stops: tuple[Stop, ...]
    chart: CurveChart
    public: PublicFacts
    persons: tuple[DisplayedPerson, ...]
    displayed_people: PeopleWithLists | None = None
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

    def find_person(self, position: int) -> DisplayedPerson:
        """Return who is shown; where there are fewer people, the last one."""
        return self.persons[min(position, len(self.persons) - 1)]


def build_scene(
    id: str,
    chart: CurveChart,
    public: PublicFacts,
    displayed_people: PeopleWithLists | None = None,
    dataset: LoadedDataset | None = None,
    *,
    refuted: bool = False,
    methods: Mapping[float, Mechanism] | None = None,
    times: int = 1,
) -> Scene:
    """Compute what What if shows of a method, at every epsilon of the knob.

    Args:
        id: of the mechanism.
        chart: the curve.
        public: public facts of the prepared ratings.
        displayed_people: people and their lists, where they may be shown.
        dataset: the data set that these people are from.
        refuted: whether an attack found more than the method claims.
        methods: the method by the budget for all publications; None: for one, with its defaults.
        times: the number of publications.
    """
    persons = (_invent_person(public),)
    if displayed_people and dataset:
        task = registry.get_mechanism(id).task
        persons = _describe_persons(displayed_people, dataset, task)
    rated = {person.rated for person in persons}
    methods = methods or {epsilon: registry.create(id, epsilon=epsilon) for epsilon in EPSILONS}
    stops = (
        build_stop(method, epsilon, chart, public, rated, times)
        for epsilon, method in methods.items()
    )
    return Scene(tuple(stops), chart, public, persons, displayed_people, refuted)


def _describe_persons(
    displayed_people: PeopleWithLists, dataset: LoadedDataset, task: Task
) -> tuple[DisplayedPerson, ...]:
    """Return the people with all their ratings in the split that their lists are from."""
    shown, _ = displayed_people
    train = build_problem(dataset, task, seed=LISTS_SEED).train
    return tuple(
        DisplayedPerson(tuple(ratings), description, person.plain)
        for ratings, description, person in zip(
            people.list_ratings(shown, train),
            people.describe_people(shown, dataset),
            shown.people,
            strict=True,
        )
    )


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
    dataset = datasets.load(data) if displayed_people else None
    refuted = measurements.is_refuted(find_default_measured_bound(id))
    public = line.info.public
    return build_scene(id, shipped_curve[0], public, displayed_people, dataset, refuted=refuted)


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


def build_view(scene: Scene) -> dict[str, Any]:
    """Return everything that the instrument draws as JSON, except its state."""
    stops, chart, _, persons, displayed_people, _ = scene
    first, line, cls = stops[0], chart.first_line, scene.mechanism
    people_view, lists = displayed_people or (None, {})
    question, guarantee = first.risk.question, first.guarantee
    usefulness = line and Usefulness.from_line(chart, line)
    data_name = line.info.title if line else ""
    entry = sentences.name_rating(cls.task)
    unit = "person" if guarantee.change.per_user else entry
    bound = find_default_measured_bound(cls.id)
    items = SAMPLES[line.info.name].items if line and line.info.name in SAMPLES else "titles"
    body: dict[str, Any] = {
        "name": f"Risk and usefulness against epsilon, {cls.name}"
        + f", {data_name}" * bool(data_name),
        "axis": f"epsilon per {unit}",
        "entry": entry,
        "measured": bound
        and {
            "epsilon": bound.epsilon,
            "rate": sentences.compute_measured_rate(bound),
            "text": sentences.describe_attack(first.mechanism, bound.epsilon)[2:].partition(",")[0],
        },
        "usefulness": usefulness
        and usefulness._asdict()
        | {
            "levels": [
                [role is Role.NO_PRIVACY, name, values] for role, name, values in usefulness.levels
            ]
        },
        "metric": sentences.describe_metric(chart.metric),
        "stops": [_describe_stop(scene, stop) for stop in stops],
        "needed": line and usefulness and _list_needed_epsilons(line, sorted(usefulness.axis)),
        "question": sentences.write_guess(question, cls.task),
        "panel": _describe_panel(scene),
        "notes": sentences.write_notes(guarantee, cls.task, items),
        "items": items,
        "people": None,
        "lists": None,
    }
    if people_view:
        body |= {
            "people": [{"plain": person.plain} for person in persons],
            "titles": {str(item): name for item, name in people_view.titles.items()},
            "popular": people_view.popular,
            "lists": [entry and asdict(entry) for entry in map(lists.get, EPSILONS)]
            if lists
            else None,
        }
    text = json.dumps(body, sort_keys=True, allow_nan=False)
    return body | {"id": hashlib.sha256(text.encode()).hexdigest()[:16]}


def _invent_person(public: PublicFacts) -> DisplayedPerson:
    """Return a person for data of which no person may be shown."""
    pattern = (public.high, public.high, public.low or public.high)
    return DisplayedPerson(tuple(pattern[k % 3] for k in range(cards.TYPICAL_RATINGS)))


def _describe_stop(scene: Scene, stop: Stop) -> dict[str, Any]:
    """Return what is said of a method at one epsilon, as JSON; what differs by person is a list."""
    chart, risk, interval = scene.chart, stop.risk, stop.interval
    counts = [person.rated for person in scene.persons]
    answers = [
        sentences.write_answer(chart, stop, count, refuted=scene.refuted) for count in counts
    ]
    everything = [stop.person_risks[count] for count in counts]
    return {
        "epsilon": stop.epsilon,
        "sentence": [
            [_merge_texts([text for text, _ in pairs]), pairs[0][1]]
            for pairs in zip(*answers, strict=True)
        ],
        "titles": [
            _merge_texts(
                [sentences.write_risk_title(stop, n, refuted=scene.refuted) for n in counts]
            ),
            sentences.write_usefulness_title(chart, stop),
        ],
        "risk": risk.success_rate if risk.is_bounded else None,
        "limit": risk.label,
        # None where one rating is no easier than all of them
        "all": None
        if stop.guarantee.change.per_user
        else [[r.success_rate if r.is_bounded else None, r.label] for r in everything],
        "attacker": risk.describe(),
        "game": trade.build_guessing_game(risk),
        "text": chart.metric.format_value(interval.mean) if interval else "-",
        "half": numbers.format_margin(chart.metric, interval) if interval else "not computed",
        "band": interval and [interval.low, interval.high],
        "value": stop.value,
        "channel": people.describe_channel(stop.guarantee),
    }


def _merge_texts(texts: Sequence[str]) -> str | list[str]:
    """Return the text, or a list of them where they differ."""
    return texts[0] if len({*texts}) == 1 else [*texts]


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


# --- the panel about one person -------------------------------------------------------------------


def _describe_panel(scene: Scene) -> dict[str, Any]:
    """Return the ratings of each person and what may become of them, or who trusts whom.

    A rating is the index of its symbol, or its value where noise is added to it.
    """
    guarantee, public, task = scene.stops[0].guarantee, scene.public, scene.mechanism.task
    rating, persons = sentences.name_rating(task), scene.persons
    panel: dict[str, Any] = {
        "title": "What she sends",
        "rated": [person.rated for person in persons],
        "who": [
            sentences.write_person(person.description, k)
            if person.description
            else f"An invented user: {person.rated} {rating}s"
            for k, person in enumerate(persons)
        ],
        "ratings": None,
    }
    release = find_main_release(guarantee)
    if guarantee.trust is not Trust.LOCAL or release is None:
        trusted, stations = "server", ["server", "everyone"]
        if guarantee.trust is Trust.FEDERATED:
            trusted, stations = "party", ["her party", "the server"]
        return panel | {
            "title": f"One of {public.users:,} people, a trusted {trusted}",
            "stations": stations,
            "people": public.users,
            "words": sentences.write_protection(guarantee, task, refuted=scene.refuted),
        }
    panel |= sentences.describe_reports(release, public, scene.chart.metric)
    if isinstance(release, ModifiedLaplace):
        return panel | {
            "tolerance": people.compute_tolerance(public),
            "ends": [public.low, public.high],
            "ratings": [person.ratings for person in persons],
        }
    symbols = list_symbols(release, public)
    values = [public.low, public.high]
    if isinstance(release, SymbolChannel):  # its first symbol stands for no rating
        values = [math.inf, *map(float, symbols[1:])]
        panel["levels"] = symbols
    return panel | {
        "ratings": [
            [_find_nearest(rating, values) for rating in person.ratings] for person in persons
        ],
    }


def _find_nearest(value: float, values: Sequence[float]) -> int:
    """Return the index of the value that is nearest to another one."""
    distances = [abs(candidate - value) for candidate in values]
    return distances.index(min(distances))
