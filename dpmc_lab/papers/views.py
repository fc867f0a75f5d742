"""Present an experiment in words, tables and styles, for a page, a command and the report."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from dpmc_core import registry
from dpmc_core.errors import format_sentence
from dpmc_core.experiment import EVALUATION_ONLY
from dpmc_core.registry import get_style
from dpmc_core.style import BLUE, PURPLE, SKY, VERMILION, Style
from dpmc_data.paths import get_version
from dpmc_lab.papers import engine, verdicts
from dpmc_lab.papers.engine import CurveSet, Experiment, Paper, Point, Series
from dpmc_lab.papers.verdicts import Assessment, JudgedStatement, PromiseVerdict
from dpmc_lab.sweep import parse_seeds
from dpmc_lab.views.cards import format_delta
from dpmc_lab.views.lines import Interval, format_short_number
from dpmc_lab.views.text import Table, build_table, render_page, render_paragraphs, render_table

FACTS = {
    "evidence": "Why ours differs",
    "changed": "What we changed",
    "unknown": "What the paper does not state",
    "tried": "Settings tried",
    "draws": "Number of runs",
}
Columns = dict[str, list[str]]
_EVALUATION = format_sentence(EVALUATION_ONLY)


class ExperimentView(NamedTuple):
    """An experiment with what there is of it.

    Attributes:
        is_own: whether the result is the user's own run.
        tried: its curves at settings that are not printed.
    """

    paper: Paper
    experiment: Experiment
    result: CurveSet | None
    is_own: bool
    assessment: Assessment
    promises: tuple[PromiseVerdict, ...]
    tried: CurveSet | None = None

    @property
    def series(self) -> tuple[Series, ...]:
        """Return our curves, none without a result."""
        return self.result.series if self.result else ()

    @property
    def printed_series(self) -> tuple[Series, ...]:
        """Return the printed numbers as curves, with the errors of reading as intervals."""
        points: dict[str, dict[float, Point]] = defaultdict(dict)
        for label, x, value, error, _ in self.experiment.printed:
            points[label][x] = Point(value, error)
        methods = self.experiment.methods
        return tuple(Series.from_points(k, curve, methods.get(k)) for k, curve in points.items())

    @property
    def name(self) -> str:
        """Return its place and what it shows."""
        return f"{self.experiment.place}: {self.experiment.title}"

    @property
    def labels(self) -> list[str]:
        """Return the label of the verdict, and a mark where it is to be checked again."""
        return [self.assessment.label, *["check again"] * bool(self.assessment.doubts)]

    @property
    def promise_counts(self) -> list[tuple[str, str]]:
        """Return the count of promises with each verdict in words, and the verdict, best first."""
        counts = Counter(promise.label for promise in self.promises)
        order = (verdicts.PROVED, verdicts.UNPROVED, verdicts.COUNTEREXAMPLE)
        return [
            (f"{n} {label}{'s' * (n > 1 and label == verdicts.COUNTEREXAMPLE)}", label)
            for label in order
            if (n := counts[label])
        ]

    @property
    def ranges(self) -> list[Series]:
        """Return from the lowest mean of each curve to the highest, over all settings tried."""
        if not (self.result and self.tried):
            return []
        results = verdicts.split_settings(self.result, self.tried).values()
        labels = (s.label.partition(engine.SETTING_SEPARATOR)[2] for s in self.tried.series)
        ranges = []
        for label in dict.fromkeys(labels):
            curves = [series for r in results if (series := r.get_series(label))]
            means = {x: [p.mean for c in curves if (p := c.get_point(x))] for x in curves[0].x}
            points = {
                x: Point((max(values) + min(values)) / 2, np.ptp(values) / 2, len(values))
                for x, values in means.items()
                if len(values) == len(curves)
            }
            ranges.append(Series.from_points(label, points))
        return ranges


def load_view(
    paper: Paper, experiment: Experiment, result: CurveSet | None = None
) -> ExperimentView:
    """Return an experiment with its result: the given one, the user's own, or the shipped one."""
    own_result = result or engine.load_own_result(experiment.id)
    result = own_result or engine.load_shipped_result(experiment.id)
    experiment = experiment.match_size(result)
    result = result and experiment.add_guesses(result)
    id = f"{experiment.id}-settings"
    tried = engine.load_own_result(id) or engine.load_shipped_result(id)
    assessment = verdicts.assess(paper, experiment, result, tried)
    promises = verdicts.judge_promises(experiment)
    return ExperimentView(paper, experiment, result, bool(own_result), assessment, promises, tried)


def load_views(papers: Iterable[Paper]) -> list[ExperimentView]:
    """Return every experiment of some papers."""
    return [load_view(paper, experiment) for paper in papers for experiment in paper.experiments]


def tabulate_overview(views: Sequence[ExperimentView]) -> Columns:
    """Return all of them as a table, verdicts first."""
    return build_table(
        ("verdict", "privacy", "paper", "place", "what it shows", "run time", "preset"),
        (
            (
                ", ".join(view.labels),
                ", ".join(text for text, _ in view.promise_counts),
                view.paper.short_label,
                view.experiment.place,
                view.experiment.title,
                format_duration(view.result.stamp.seconds) if view.result else "",
                view.experiment.id,
            )
            for view in views
        ),
    )


COUNTED = {
    verdicts.HOLDS: "hold",
    verdicts.HOLDS_SOMEWHERE: "hold at some settings",
    verdicts.FAILS: "do not hold",
    verdicts.UNKNOWN: "undecided",
    verdicts.NOT_RUN: "are not run",
}


def summarise_statements(views: Sequence[ExperimentView]) -> str:
    """Return in a sentence how many statements hold, and how many verdicts are to be checked."""
    counts = Counter(entry.outcome for view in views for entry in view.assessment.statements)
    phrases = [f"{counts[name]} {text}" for name, text in COUNTED.items() if counts[name]]
    n_doubts = sum(bool(view.assessment.doubts) for view in views)
    text = (
        f"Of {counts.total()} statements, {', '.join(phrases)}."
        if phrases
        else "No statement can be judged."
    )
    return text + f" {n_doubts} of {len(views)} verdicts: check again." * bool(n_doubts)


def describe_labels(views: Iterable[ExperimentView]) -> list[str]:
    """Return a sentence for each label of a verdict that there is."""
    used = {view.assessment.label for view in views}
    return [f"{label}: {text}" for label, text in verdicts.LABELS.items() if label in used]


def format_duration(seconds: float) -> str:
    """Format the time of computing, in one process; each unit is used from 1.5 of it on."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def list_facts(view: ExperimentView) -> list[tuple[str, str]]:
    """Return the name and the text of what else is known."""
    experiment, result = view.experiment, view.result
    facts = {
        "check again": " ".join(map(format_sentence, view.assessment.doubts)),
        # A table says it itself.
        "measured": "" if experiment.x.names else conclude_curves(view, view.series),
        "evidence": " ".join(explain_difference(experiment)) if result else "",
        "changed": " ".join(map(format_sentence, experiment.changed)),
        "unknown": " ".join(map(format_sentence, experiment.unknown)),
        "tried": _describe_settings(view),
        "command": get_command(view),
        "made": "Your own run: " * view.is_own + describe_result(result) if result else "",
        "draws": describe_draws(view),
    }
    return [(name, text) for name, text in facts.items() if text]


def explain_difference(experiment: Experiment) -> list[str]:
    """Return what was found, with its evidence, and what is supposed."""
    findings = [f"Found: {text} (shown by {source})." for text, source in experiment.found]
    return [*findings, *[f"Supposed: {format_sentence(experiment.why)}"] * bool(experiment.why)]


def list_links(view: ExperimentView) -> tuple[dict[str, dict[str, str]], list[tuple[str, str]]]:
    """Return queries that train each method of a figure as published, and that compare all.

    They are on a sample: the paper's data may not be here.
    """
    ids = dict.fromkeys(promise.mechanism for promise in view.experiment.promises)
    names = [registry.get_mechanism(id).name for id in ids]
    # The figure's own kind of data: a small set of restaurants, or the sample for the paper.
    is_small = "restaurant" in view.experiment.needs
    common = {"data": "restaurants" if is_small else view.paper.sample, "published": "true"}
    train = {f"Train {name}": {**common, "mechanism": name} for name in names}
    return train, [*common.items(), *(("mechanisms", name) for name in names)]


def describe_draws(view: ExperimentView) -> str:
    """Return how many runs the paper and we average over."""
    experiment, result = view.experiment, view.result
    if not (experiment.recipe and experiment.recipe.is_random):
        return ""
    printed = experiment.draws or "a number of runs that it does not state"
    ours = f", ours over {len(parse_seeds([result.stamp.seeds]))}" if result else ""
    return format_sentence(f"the paper averages over {printed}" + ours)


def _describe_settings(view: ExperimentView) -> str:
    """Return which settings were tried and why, and how to try them again; empty without any."""
    experiment = view.experiment
    if not experiment.tried:
        return ""
    status = describe_result(view.tried) if view.tried else "Nobody has run them here yet."
    reasons = (format_sentence(f"{name}: {why}") for name, why in experiment.tried.items())
    return " ".join([*reasons, format_sentence(status), f"Again: {experiment.at_settings.command}"])


def get_command(view: ExperimentView) -> str:
    """Return what makes the displayed result, or would make one."""
    if view.result:
        return view.result.stamp.command
    return view.experiment.command if view.experiment.recipe else ""


def describe_result(result: CurveSet) -> str:
    """Return the version, seeds and run time of a result."""
    stamp = result.stamp
    duration = format_duration(stamp.seconds)
    return f"version {stamp.version}, seeds {stamp.seeds}, {duration} of computing."


def conclude_curves(view: ExperimentView, curves: Iterable[Series]) -> str:
    """Return which curves are lowest and highest where they differ most; empty for one curve.

    Several are named where their intervals, or the errors of reading them, do not tell which it is.
    """
    by_x: dict[float, dict[str, Point]] = defaultdict(dict)
    for series in curves:
        for x in () if series.level else series.x:
            by_x[x] |= {series.label: series.get_point(x) or Point(0.0)}
    if not by_x:
        return ""
    x = max(by_x, key=lambda x: (len(by_x[x]), np.ptp([p.mean for p in by_x[x].values()])))
    ends, texts = by_x[x], []
    for sign, word in ((-1, "lowest"), (1, "highest")):
        end = max(ends.values(), key=lambda point: sign * point.mean)
        reach = sign * end.mean - end.half_width
        names = [n for n, p in ends.items() if sign * p.mean + p.half_width >= reach]
        if len(names) == len(ends):
            return "The intervals of all curves overlap." * (len(ends) > 1)
        tied = " or ".join(names) if len(names) < 3 else f"one of {len(names)} curves"
        texts.append(f"the {word} is {tied} ({format_short_number(end.mean, 3)})")
    place = f"{EPSILON} " * (view.experiment.x.title == EPSILON) + format_short_number(x, 3)
    return f"At {place}, where curves differ most, {' and '.join(texts)}."


def estimate_seconds(view: ExperimentView, recipe: engine.Recipe) -> float | None:
    """Estimate the seconds of computing of a recipe by its runs and a result; None without one."""
    if view.result is None:
        return None
    stamp = view.result.stamp
    stored = engine.choose_recipe(view.experiment, parse_seeds([stamp.seeds]))
    return stamp.seconds * recipe.n_runs / stored.n_runs


def describe_marks(view: ExperimentView) -> str:
    """Return what the lines and marks of the chart mean."""
    n_seeds = {n for series in view.series for n in series.seeds if n > 1}
    texts = []
    if n_seeds:
        seeds = " to ".join(map(str, sorted({min(n_seeds), max(n_seeds)})))
        texts.append(f"Lines: the mean over {seeds} seed{'s' * (seeds != '1')} in its 95 % band.")
    if view.ranges:
        texts.append("Wide bands: from the lowest to the highest mean of the settings tried.")
    if view.experiment.printed:
        texts.append("Hollow: printed, with the error of reading it.")
    return " ".join([*texts, _EVALUATION] if n_seeds else texts)


def tabulate_numbers(view: ExperimentView) -> Columns:
    """Return ours and what is printed, a row per curve and x, without columns that are empty."""
    axis, result = view.experiment.x, view.result
    printed = {(c.printed.series, c.printed.x): c for c in view.assessment.compared}
    # A level is the same at every x, so its first point stands for all.
    ours = {(s.label, x) for s in view.series for x in s.x[: 1 if s.level else None]}
    levels = {series.label for series in view.series if series.level}
    rows = []
    for label, x in sorted({*printed, *ours}):
        compared = printed.get((label, x))
        number, within = (compared.printed, compared.within) if compared else (None, None)
        point = result.get_point(label, x) if result else None
        position = axis.names[int(x)] if axis.names else f"{x:g}"
        rows.append(
            (
                label,
                "every" if label in levels else position,
                "none" if point is None else _format_with_error(point.mean, point.half_width),
                "" if number is None else _format_with_error(number.value, number.error),
                {None: "", True: "yes", False: "no"}[within],
                "" if number is None else number.place,
            )
        )
    heads = ("curve", axis.title or "quantity", "ours", "printed", "within", "printed in")
    return {name: texts for name, texts in build_table(heads, rows).items() if any(texts)}


def _format_with_error(value: float, error: float) -> str:
    return format_short_number(value) + (f" ± {format_short_number(error, 2)}" if error else "")


def format_outcome(judged: JudgedStatement) -> str:
    """Return whether a statement holds, and at which settings where these are some."""
    if judged.outcome != verdicts.HOLDS_SOMEWHERE or not judged.settings:
        return judged.outcome
    n_true, n_all = len(judged.settings), len(judged.checked)
    return f"holds at {n_true} of {n_all} settings: {'; '.join(judged.settings)}"


def tabulate_statements(view: ExperimentView) -> Columns:
    """Return what the paper says and, with a result, whether it holds here."""
    rows = [
        (format_outcome(judged), format_sentence(judged.statement.text), judged.statement.place)
        for judged in view.assessment.statements
    ]
    table = build_table(("here", "the paper says", "in"), rows)
    return table if view.result else {name: table[name] for name in ("the paper says", "in")}


def tabulate_promises(view: ExperimentView) -> Columns:
    """Return what becomes of the methods' promises, the worst first, equal ones in one row."""
    order = [label for _, label in view.promise_counts]
    groups: dict[tuple[str, str, str], list[str]] = {}
    for promise in sorted(view.promises, key=lambda p: order.index(p.label), reverse=True):
        key = promise.label, promise.reason, promise.command
        groups.setdefault(key, []).append(registry.get_short_name(promise.mechanism))
    rows = ((", ".join(names), *key) for key, names in groups.items())
    return build_table(("method", "promise", "why", "command"), rows)


def tabulate_theorems(paper: Paper) -> Columns:
    """Return a paper's theorems beside measurements.

    A bound counts as printed if the paper states no other and leaves its constant open.
    """
    heads = "theorem", "bounds", "printed", "ours", "measured", "bound / measured", "printed is"
    rows = []
    for row in paper.theorems:
        has_no_bound_of_ours = row.printed is None and row.open_constant
        printed = row.bound if has_no_bound_of_ours else row.printed
        ours = None if has_no_bound_of_ours else row.bound
        numbers = (printed, ours, row.measured, row.factor)
        texts = ("" if n is None else format_short_number(n, 3) for n in numbers)
        state = "up to a constant" if row.open_constant else ""
        state = "contradicted, by our reading" if row.is_contradicted else state
        rows.append((row.theorem, row.quantity, *texts, state, row.setting))
    return build_table((*heads, "instance"), rows)


def list_theorem_notes(paper: Paper) -> list[str]:
    """Return what is wrong with printed theorems, each with the instance that contradicts it."""
    notes = []
    for row in paper.theorems:
        texts = [row.note, row.triviality]
        if row.is_contradicted and row.printed is not None:
            printed, measured = (format_short_number(n, 3) for n in (row.printed, row.measured))
            texts.insert(0, f"{printed} is printed, {measured} is measured ({row.setting})")
        if any(texts):
            notes.append(f"{row.theorem}: {' '.join(format_sentence(t) for t in texts if t)}")
    return list(dict.fromkeys(notes))


_HEADS = ("experiment", "whose", "curve", "mechanism", "x", "value", "low", "high", "seeds", "in")


def tabulate_exact_numbers(view: ExperimentView) -> Table:
    """Return ours and what is printed, a row each; numbers have all their digits."""
    id = view.experiment.id
    rows: list[tuple[object, ...]] = []
    for series in view.series:
        columns = (series.x, series.mean, series.low, series.high, series.seeds)
        for row in zip(*columns, strict=True):
            rows.append((id, "ours", series.label, series.mechanism or "", *row, ""))
    for label, x, value, error, place in view.experiment.printed:
        ends = value - error, value + error
        rows.append((id, "printed", label, "", x, value, *ends, "", place))
    return build_table(_HEADS, rows)


def convert_view(view: ExperimentView) -> dict[str, Any]:
    """Return a view as plain JSON values."""
    experiment, assessment, result = view.experiment, view.assessment, view.result
    verdict = experiment.verdict
    names = ("changed", "unknown", "found", "why", "draws", "not_run")
    promise_names = ("mechanism", "verdict", "why", "shown_by")
    return {
        **{name: getattr(experiment, name) for name in ("id", "place", "title", *names)},
        "paper": view.paper.key,
        "x": experiment.x.title,
        "y": experiment.y.title,
        "accuracy": {"verdict": assessment.label, "reason": assessment.sentence},
        "rests on": verdict and {"rows": verdict.rows, "commit": verdict.commit},
        "check again": assessment.doubts,
        "privacy": [dict(zip(promise_names, promise, strict=True)) for promise in view.promises],
        "statements": [
            {"words": text, "place": place, "here": format_outcome(judged), "at": judged.checked}
            for judged in assessment.statements
            for text, place, _ in (judged.statement,)
        ],
        "printed": [
            {
                **c.printed._asdict(),
                "ours": c.ours and dict(zip(Interval._fields, c.ours, strict=False)),
                "within": c.within,
            }
            for c in assessment.compared
        ],
        "result": result and engine.convert_result(result),
        "current": result and result.is_current,
        "command": get_command(view),
    }


# --- styles of curves ----------------------------------------------------------------------------

# A chart replaces "ink" and "muted" by colours of its surface.
NONPRIVATE = Style("ink", "circle", "dash")
BASELINE = Style("muted", "circle", "dot")
# Of further curves of one method, whose colour stays.
_MARKERS = ("square", "diamond", "triangle-up", "cross", "triangle-down", "pentagon")
_DASHES = ("dashdot", "solid", "longdash", "dash", "longdashdot", "dot")
_COLORS = (PURPLE, SKY, BLUE, VERMILION)  # curves of no method, in their order
EPSILON = "epsilon"
_MAX_MARKED_POINTS = 40


def has_chart(view: ExperimentView) -> bool:
    """Return whether there is something to draw: a table has no chart."""
    experiment = view.experiment
    return bool(view.result or experiment.printed) and not experiment.x.names


def choose_styles(view: ExperimentView) -> dict[str, Style]:
    """Return the style of each curve by its label: all differ, and a method keeps its colour."""
    experiment = view.experiment
    curves = {s.label: (s.mechanism, s.level) for s in (*view.printed_series, *view.series)}
    styles: dict[str, Style] = {}
    used = {BASELINE}
    for index, (label, (id, is_level)) in enumerate(curves.items()):
        style = BASELINE if label in experiment.guesses else _choose_style(id, is_level, index)
        for marker, dash in itertools.product(_MARKERS, _DASHES):
            if style not in used or label in experiment.guesses:
                break
            style = style._replace(marker=marker, dash=dash)
        used.add(style)
        styles[label] = style
    return styles


def _choose_style(mechanism: str | None, is_level: bool, index: int) -> Style:
    """Return the style from which a curve's style is made.

    A curve of a private mechanism that is the same at every epsilon has no noise, and is dashed.
    """
    if mechanism is None:
        return Style(_COLORS[index % len(_COLORS)], _MARKERS[index % len(_MARKERS)], "solid")
    cls = registry.MECHANISMS.get(mechanism)
    if cls is None or registry.adds_noise(cls):
        style = get_style(mechanism)
        return style._replace(dash="dash") if is_level else style
    baselines = {cls.baseline for cls in registry.MECHANISMS.values()}
    return BASELINE if mechanism in baselines else NONPRIVATE


def format_axis_titles(view: ExperimentView) -> tuple[str, str]:
    """Return the titles of both axes; an epsilon has the unit that it is promised for."""
    experiment = view.experiment
    title, units = experiment.x.title, {p.change.label for p in experiment.promises}
    if title == EPSILON and len(units) == 1:
        deltas = {promise.delta for promise in experiment.promises if promise.delta}
        delta = f", delta {format_delta(deltas.pop())}" if len(deltas) == 1 else ""
        title = f"{title} {units.pop()}{delta}"
    return title, experiment.y.title


def has_markers(series: Series) -> bool:
    """Return whether its points have marks, which would cover each other on a dense curve."""
    return not series.level and len(series.x) <= _MAX_MARKED_POINTS


# --- the report ----------------------------------------------------------------------------------

_SHORT_TABLE = 12  # rows, up to which a table is unfolded
_STYLE = """
:root { color-scheme: light dark; }
body { max-width: 62rem; overflow-wrap: anywhere; }
h2 { margin-top: 3rem; } h3 { margin-top: 2.5rem; } summary { cursor: pointer; }
.scroll { overflow-x: auto; overflow-wrap: normal; } table, pre { font-size: .875rem; }
td, th { padding: .25rem .8rem .25rem 0; vertical-align: top; }
a { color: var(--act); }
"""


def render_report(views: Sequence[ExperimentView]) -> str:
    """Render the page of these experiments, which needs no server."""
    overview = _render_table(tabulate_overview(views))
    for id in (view.experiment.id for view in views):
        overview = overview.replace(f"<td>{id}</td>", f"<td><a href='#{id}'>{id}</a></td>")
    sections = [
        render_paragraphs(
            summarise_statements(views),
            f"Made by dpmc papers --report, version {get_version()}, from stored results. Ours: the"
            " mean over seeds and half of its 95 % interval. Printed: with the error of reading it."
            f" The page Papers of the app draws the same numbers. {_EVALUATION}",
        ),
        _fold("What the verdicts mean", render_paragraphs(*describe_labels(views))),
        overview,
    ]
    for key, paper in {view.paper.key: view.paper for view in views}.items():
        chosen = [view for view in views if view.paper.key == key]
        summary = f"{paper.summary} {summarise_statements(chosen)}"
        sections += [f"<h2>{escape(paper.label)}</h2>", render_paragraphs(summary)]
        sections += map(_render_experiment, chosen)
        if paper.theorems:
            sections.append("<h3>Theorems beside measurements</h3>")
            sections.append(_render_table(tabulate_theorems(paper)))
            sections.append(render_paragraphs(*list_theorem_notes(paper)))
        sections.append(f"<pre>{escape(paper.bibtex)}</pre>")
    title = "Five papers: what is printed beside what is measured"
    return render_page(title, sections, _STYLE) + "\n"


def _render_experiment(view: ExperimentView) -> str:
    """Return an experiment as HTML: its verdict, numbers, statements, facts and promises."""
    id, numbers, command = view.experiment.id, tabulate_numbers(view), get_command(view)
    labels = [*view.labels, *(f"privacy: {text}" for text, _ in view.promise_counts)]
    facts = [
        f"{FACTS.get(name, name.capitalize())}: {text}"
        for name, text in list_facts(view)
        if name != "command"
    ]
    sections = [
        f"<h3 id='{escape(id)}'>{escape(view.name)}</h3>",
        f"<p><b>{escape(' · '.join(labels))}</b></p>",
        render_paragraphs(view.assessment.sentence),
    ]
    if numbers:
        is_open = len(numbers["curve"]) <= _SHORT_TABLE
        sections.append(_fold("Numbers", _render_table(numbers), is_open))
    if view.assessment.statements:
        sections.append(_render_table(tabulate_statements(view)))
    sections.append(render_paragraphs(*facts))
    sections += [f"<pre>{escape(command)}</pre>"] * bool(command)
    if view.promises:
        sections.append(_fold("Promises", _render_table(tabulate_promises(view))))
    return "\n".join(sections)


def _fold(title: str, content: str, is_open: bool = False) -> str:
    return f"<details{' open' * is_open}><summary>{title}</summary>{content}</details>"


def _render_table(columns: Mapping[str, Sequence[str]]) -> str:
    return f"<div class='scroll'>{render_table(columns)}</div>"
