"""List, fit and recommend mechanisms: `dpmc list`, `fit`, `recommend`, `guarantees`."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from dpmc_core import experiment, registry
from dpmc_core.arrays import JsonObject
from dpmc_core.errors import InvalidSetting, format_number
from dpmc_core.experiment import EVALUATION_ONLY, Result, serialise_settings
from dpmc_core.model import Mechanism, Task
from dpmc_core.preparation import Transform
from dpmc_core.privacy import DEFAULT_DELTA, USER_EMPTIED, Change, Guarantee, Trust
from dpmc_core.problem import Problem, build_problem, choose_default_task, prepare_public_facts
from dpmc_data import read_pair
from dpmc_lab.cli import options
from dpmc_lab.cli.interface import (
    CommandReport,
    Json,
    Option,
    Progress,
    accept_plugins,
    format_document_table,
    format_facts,
    format_table,
    paragraph,
)
from dpmc_lab.cli.options import (
    BudgetOptions,
    Data,
    Delta,
    Epsilon,
    HeldOutOptions,
    Method,
    Predicted,
    Published,
    ReadingOptions,
    Seed,
    Steps,
    Unit,
)
from dpmc_lab.measured import MeasuredBound, find_measured_bound
from dpmc_lab.study.advice import PrivacyUnit
from dpmc_lab.study.advice import recommend_method as advise
from dpmc_lab.study.answer import Inquiry, build_arguments
from dpmc_lab.study.release_command import build_method_command, build_release_command
from dpmc_lab.sweep.grid import DEFAULT_SEED
from dpmc_lab.views import as_published as published
from dpmc_lab.views import cards
from dpmc_lab.views.run_card import SEED_NOTE, collect_metrics, tabulate_metrics
from dpmc_lab.views.text import format_count, format_split

MAX_REFERENCE_RATINGS = 5_000_000  # beyond it, references take far longer than a private fit
NAME_WIDTH = 40  # characters of the column of names in a table that is printed line by line
TRUST = {"curator": Trust.CURATOR, "nobody": Trust.LOCAL}


@accept_plugins
def list_methods(mechanism: Method | None = None) -> CommandReport:
    """List the mechanisms, or the settings of one.

    List all mechanisms with their ids, or the settings of one mechanism with their limits.

    Args:
        mechanism: list the settings of this mechanism
    """
    for sentence in registry.MECHANISMS.broken:
        print(f"dpmc: {sentence}", file=sys.stderr)
    if mechanism is not None:
        cls = registry.get_mechanism(mechanism)
        return CommandReport(describe_method(cls), _format_method(cls))
    documents = [describe_method(cls) for cls in registry.MECHANISMS.values()]
    methods_table = format_document_table(
        documents, id="id", name="name", predicts="task", noise="private"
    )
    return CommandReport(documents, (methods_table, "Settings of one: dpmc list MECHANISM"))


def describe_method(cls: type[Mechanism]) -> JsonObject:
    """Return a method's facts and settings as plain JSON values."""
    return {
        "id": cls.id,
        "name": cls.name,
        "task": cls.task.value,
        "private": registry.adds_noise(cls),
        "twin": cls.nonprivate_counterpart,
        "floor": cls.baseline,
        "revision": cls.revision,
        "summary": (cls.__doc__ or "").strip().partition("\n")[0],
        "settings": options.describe_settings(cls),
    }


def _format_method(cls: type[Mechanism]) -> Iterator[str]:
    """Yield the facts and the settings of a method as blocks of text."""
    yield (
        f"{cls.id}: {cls.name}\n{describe_method(cls)['summary']}\npredicts: {cls.task.value};"
        f" without privacy: {cls.nonprivate_counterpart}; floor: {cls.baseline}"
    )
    if settings_text := options.format_settings_table(cls):
        yield settings_text
    hint = "Set them with --set NAME=VALUE; epsilon and delta have options of their own."
    yield hint if settings_text else "It has no settings."


@dataclass(frozen=True, kw_only=True)
class HeldOutOrTest(HeldOutOptions):
    """Options for held-out ratings, or a file to test on.

    Args:
        test (FILE): file of test ratings to use instead of held-out ones
    """

    test: Path | None = None


@accept_plugins
def fit(
    data: Data,
    mechanism: Method,
    *,
    budget: BudgetOptions,
    prepare: Steps = (),
    as_published: Published = False,
    held_out: HeldOutOrTest,
    reading: ReadingOptions,
    baselines: Annotated[str, Option(choices={"all": "all", "none": "none"})] = "all",
    cluster: str | None = None,
    seed: Seed = DEFAULT_SEED,
    json: Json = False,
) -> CommandReport:
    """Train one mechanism and measure its accuracy.

    Show the metrics of the mechanism, of the baseline and without privacy, and what its privacy
    claim covers.

    Args:
        baselines: none: train the mechanism alone; otherwise its metrics come first, and methods
            without privacy follow, on a sample of users beyond 5 million ratings
        cluster (ADDRESS): train on the workers of a Dask scheduler, tcp://HOST:PORT; DATA is then a
            folder of Parquet files, and all ratings of a user are in one file
        json: one JSON object instead of the report

    examples:
      dpmc fit movie-night input-flip --epsilon 2
      dpmc fit u1.base objective --epsilon 1 --test u1.test --set link=probit --json
      dpmc fit ratings.csv clear --range 1:5 --prepare binarise=4 --holdout 0.1

    `dpmc list` lists the mechanisms, `dpmc list MECHANISM` the settings of one, `dpmc data` the
    samples.
    """
    # Mistakes in the options are reported before a file is read.
    built_mechanism = budget.mechanism(mechanism, as_published)
    parsed_steps = options.parse_steps(reading.prepare(prepare, mechanism))
    with ExitStack() as stack:
        if cluster is None:
            problem = _build_local_problem(
                data, built_mechanism.task, parsed_steps, prepare, held_out, reading, seed
            )
        elif prepare or held_out.test is not None:
            left_out = prepare[0] if prepare else str(held_out.test)
            raise InvalidSetting("--prepare and --test", "left out with --cluster", left_out)
        else:
            from dpmc_lab.sweep import cluster as clusters  # no other run needs it

            load_options = reading.load_options(data, built_mechanism.task)
            partitioned_problem = clusters.open_partitioned_problem(
                cluster, data, built_mechanism, load_options, held_out.split, seed
            )
            problem = stack.enter_context(partitioned_problem)
        options.print_columns(problem.train, json)
        progress = stack.enter_context(Progress())
        public = problem.train.public

        def split_table(result: Result) -> list[str]:
            """Return the head of the table of metrics, the mechanism's line, and what follows."""
            # The names are padded because the first line is printed before the others are known.
            padded = {f"{name:<{NAME_WIDTH}}": row for name, row in collect_metrics(result).items()}
            return format_metrics(padded).split("\n", 2)

        def show_mechanism(result: Result) -> None:
            """Print what was trained, and its metrics before anything is fitted for comparison."""
            progress.close()
            steps = ", ".join(problem.steps)
            print(
                f"{built_mechanism.name} on {problem.name}: {format_count(public.users, 'user')} x"
                f" {format_count(public.items, 'item')},"
                f" {format_count(len(problem.train), 'rating')}\n"
                f"tested on {format_split(problem.split)}"
                f" ({len(problem.test):,})" + f"; prepared with {steps}" * bool(steps) + "\n",
                *split_table(result)[:2],
                sep="\n",
                flush=True,
            )

        fitted = experiment.fit(built_mechanism, problem, seed, progress.step)
        result = experiment.measure(fitted)
        if not json:
            show_mechanism(result)
        if cluster is None and baselines == "all":
            *_, result = experiment.fit_baselines(result, progress.step, MAX_REFERENCE_RATINGS)
    document = result.as_dict()
    text = [
        split_table(result)[2],
        format_guarantee(cards.build_privacy_card(result.guarantee, columns=problem.train.columns)),
        paragraph(
            f"{format_count(result.rounds, 'round')} in {result.seconds:.1f} s, seed {result.seed}."
            f" {SEED_NOTE}"
        ),
    ]
    if as_published:
        budgets = {"epsilon": budget.epsilon, "delta": budget.delta}
        comparison = published.compare_with_published(
            built_mechanism.id, budget.parse_given(mechanism), public, **budgets
        )
        text.append(paragraph(" ".join(published.describe_published_changes(comparison))))
    return CommandReport(document, text)


def _build_local_problem(
    data: str,
    task: Task,
    steps: Sequence[Transform],
    step_texts: Sequence[str],
    held_out: HeldOutOrTest,
    reading: ReadingOptions,
    seed: int,
) -> Problem:
    """Build a problem on this machine, from one file or from a training and a test file.

    Args:
        data: as typed.
        task: what is predicted.
        steps: the preparation.
        step_texts: what --prepare gives, which decides how a file is read.
        held_out: how ratings are held out, or the test file.
        reading: how files are read.
        seed: of the split.
    """
    if held_out.test is None:
        # The ratings before the split have no name here, so that their memory is freed.
        return build_problem(
            reading.load(data, task, step_texts),
            task,
            steps=steps,
            split=held_out.split,
            seed=seed,
        )
    pair = read_pair(data, held_out.test, **reading.load_options(data, task, step_texts))
    return build_problem(pair, task, steps=steps, name=Path(data).name, seed=seed)


def format_metrics(metrics: Mapping[str, Mapping[str, float]]) -> str:
    """Return metrics by method as a table."""
    return f"{format_table(tabulate_metrics(metrics), '  ')}\n  {EVALUATION_ONLY}"


def format_guarantee(privacy_card: cards.PrivacyCard) -> str:
    """Return a guarantee as a paragraph with its details below."""
    return f"{paragraph(privacy_card.protects)}\n{format_facts(privacy_card.details)}"


def recommend_command(
    data: Data,
    *,
    unit: Unit = USER_EMPTIED,
    epsilon: Epsilon = 1.0,
    delta: Delta = DEFAULT_DELTA,
    trust: Annotated[Trust, Option(choices=TRUST)] = Trust.CURATOR,
    task: Predicted = None,
    reading: ReadingOptions,
) -> CommandReport:
    """Recommend one mechanism with a proved guarantee, and say why.

    Recommend a mechanism for a privacy unit, a trust model and a task. The rule was fixed on
    generated data. It looks only at public sizes, never at a rating.

    Args:
        unit: the privacy unit
        trust: who may see raw ratings
    """
    dataset = reading.load(data, task)
    task = task or choose_default_task(dataset.ratings)
    public = prepare_public_facts(dataset.ratings.public, task)
    advice = advise(task, unit, public, epsilon=epsilon, delta=delta, trust=trust)
    mechanism = advice.mechanism
    proved = advice.certified
    settings = serialise_settings(mechanism)
    command = build_method_command("fit", mechanism, data, dataset.reading)
    privacy_unit = PrivacyUnit.from_guarantee(mechanism.guarantee(public))
    answer_command = None
    if privacy_unit is not None and privacy_unit.change(task) is unit:
        question = Inquiry(task=task, privacy_unit=privacy_unit, epsilon=epsilon, delta=delta)
        arguments = build_arguments(question, data, reading=dataset.reading)
        answer_command = shlex.join(["dpmc", *arguments])
    release = build_release_command(mechanism, dataset.ratings, data, dataset.reading)
    document: JsonObject = {
        "mechanism": mechanism.id,
        "task": task.value,
        "settings": settings,
        "unit": unit.unit,
        "neighbours": unit.neighbours,
        "certified": {"epsilon": proved.epsilon, "delta": proved.delta},
        "reason": advice.reason,
        "command": shlex.join(command),
        "answer": answer_command,
        "release": release._asdict(),
    }
    explanation = (f"Certified: {cards.format_certified(proved)}.", f"Why: {advice.reason}.")
    setting = format_number(settings["epsilon"])
    head = f"{mechanism.name} ({mechanism.id}), epsilon setting {setting}"
    commands = filter(None, (document["command"], answer_command, release.command))
    title = "To try it, to learn whether you can afford it, and to publish a model:"
    return CommandReport(
        document,
        (
            head,
            "\n".join(map(paragraph, explanation)),
            "\n".join((title, *commands)),
            *map(paragraph, filter(None, [release.note])),
        ),
    )


HEADS_NOTE = (
    "Claimed and proved count the unit that the mechanism protects. The last three columns are"
    " proved too. “per rating”: one rating gets another value. “user: empty”: everything about one"
    " person disappears. “user: other”: other data replace it, which never costs less. Numbers of"
    " different columns cannot be compared. “per rating” may be larger than “user: empty”, because"
    " a rating is replaced and does not disappear."
)
MEASURED_NOTE = (
    "Measured is a lower bound that an audit found on small data at default settings (`dpmc audit"
    " MECHANISM` runs it). Above the claim it refutes the claim; below, that is no proof. “-”:"
    " there is none at these settings."
)


@accept_plugins
def compare_guarantees(
    *,
    epsilon: Epsilon = 1.0,
    delta: Delta | None = None,
    data: Data | None = None,
    users: int | None = None,
    items: int | None = None,
    cap: int | None = None,
    measured: bool = False,
    reading: ReadingOptions,
) -> CommandReport:
    """Compare the claimed and the proved epsilon of every mechanism.

    Compare what each mechanism claims with what its noise proves. Only public facts are used
    (default: those of movie-night).

    Args:
        epsilon: claimed privacy budget
        delta: delta of the claim, for mechanisms that use one
        data: use the public facts of a sample, a downloaded set, a file, or a folder of a known set
        users (M): number of users
        items (N): number of items
        cap (K): largest number of ratings per user, which the data must respect
        measured: also show what an audit measured at default settings (dpmc audit runs others)
    """
    if data is not None and (users is not None or items is not None):
        raise InvalidSetting("--data", "left out where --users or --items is given", data)
    public_facts: JsonObject = {"users": users, "items": items, "cap": cap}
    public_facts = {name: value for name, value in public_facts.items() if value is not None}
    if data is None:
        public_facts |= reading.ends
    dataset = (reading if data else ReadingOptions()).load(data or "movie-night")
    public = dataclasses.replace(dataset.ratings.public, **public_facts)
    document: list[JsonObject] = []
    rows, notes = [], []
    refused: dict[str, InvalidSetting] = {}  # mechanisms without a guarantee for these facts
    for id, cls in registry.MECHANISMS.items():
        if not registry.adds_noise(cls):
            continue
        try:
            mechanism = registry.create(id, epsilon=epsilon, delta=delta)
            guarantee = mechanism.guarantee(prepare_public_facts(public, cls.task))
        except InvalidSetting as error:
            refused[id] = error
            continue
        bounds = [find_measured_bound(mechanism)] * measured
        document.append(_describe_guarantee(id, guarantee, bounds))
        row = cards.build_guarantee_row(id, guarantee)
        rows.append(_format_guarantee_row(row, bounds))
        notes.append(f"{id}: {row.reason or 'proved as claimed'}")
    if not document:
        raise next(iter(refused.values()))
    notes += [f"{id}: no guarantee for these facts: {reason}" for id, reason in refused.items()]
    limit = f", at most {format_count(public.cap, 'rating')} per user" if public.cap else ""
    head = ["mechanism", "protects", "trust", "claimed", "proved", *["measured"] * measured]
    text = [
        f"{format_count(public.users, 'user')} x {format_count(public.items, 'item')}{limit},"
        f" epsilon {epsilon:g}",
        format_table([[*head, "per rating", "user: empty", "user: other"], *rows]),
        paragraph(HEADS_NOTE),
        *[paragraph(MEASURED_NOTE)] * measured,
        "\n".join(paragraph(reason, "  ", "") for reason in notes),
    ]
    return CommandReport(document, text)


def _describe_guarantee(
    id: str, guarantee: Guarantee, bounds: Sequence[MeasuredBound | None]
) -> JsonObject:
    """Return a mechanism's guarantee as plain JSON values, with its measured bound if asked for.

    Args:
        id: of the mechanism.
        guarantee: its guarantee.
        bounds: what an audit measured, None without an audit; empty if it is not asked for.
    """
    units = [
        {
            "unit": proved.change.unit,
            "neighbours": proved.change.neighbours,
            "epsilon": proved.epsilon if proved.finite else None,
            "delta": proved.delta,
            "reason": proved.reason,
        }
        for proved in map(guarantee.certified, Change)
    ]
    document: JsonObject = {"mechanism": id, **guarantee.as_dict(), "units": units}
    names = ("delta", "unit", "neighbours", "confidence", "method", "refuted", "given")
    for bound in bounds:
        document["measured"] = bound and {
            "epsilon": bound.measured,
            **{name: getattr(bound, name) for name in names},
        }
    return document


def _format_guarantee_row(
    row: cards.GuaranteeRow, bounds: Sequence[MeasuredBound | None]
) -> list[str]:
    """Return a row of the table of guarantees, with a cell for each bound; see above."""
    change, trust = row.guarantee.change, row.guarantee.trust
    measured = (
        f">= {cards.format_epsilon(bound.measured, round_down=True)}" if bound else "-"
        for bound in bounds
    )
    proved = map(cards.format_epsilon, (row.per_rating, row.per_user, row.per_user_other))
    claim = map(cards.format_epsilon, (row.claimed, row.certified))
    return [row.mechanism, change.label, trust.value, *claim, *measured, *proved]
