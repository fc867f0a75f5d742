"""Methods and promises: `dpmc list`, `fit`, `recommend`, `guarantees`."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from dpmc_core import registry
from dpmc_core.arrays import Plain
from dpmc_core.data import read_pair
from dpmc_core.errors import InvalidSetting, number_text
from dpmc_core.experiment import EVALUATION_ONLY, settings_dict
from dpmc_core.experiment import run as run_experiment
from dpmc_core.model import Mechanism
from dpmc_core.privacy import DELTA, USER_EMPTIED, Change, Trust
from dpmc_core.problem import (
    SEED,
    Problem,
    build_problem,
    options_text,
    prepared_facts,
    split_words,
    usual_task,
)
from dpmc_lab.cli import options
from dpmc_lab.cli.interface import (
    CommandReport,
    Json,
    Option,
    Progress,
    extensible,
    facts,
    listed,
    paragraph,
    table,
)
from dpmc_lab.cli.options import (
    Budgeted,
    Data,
    Delta,
    Epsilon,
    HeldOut,
    Method,
    Predicted,
    Published,
    Reading,
    Seed,
    Steps,
    Unit,
)
from dpmc_lab.curves import as_published as published
from dpmc_lab.curves import cards
from dpmc_lab.curves.run_card import SEED_NOTE, methods, metrics_table
from dpmc_lab.measured import shipped
from dpmc_lab.study.advice import recommend as advise

TRUST = {"curator": Trust.CURATOR, "nobody": Trust.LOCAL}


@extensible
def listing(mechanism: Method | None = None) -> CommandReport:
    """The methods, or the settings of one.

    The methods with their ids, or the settings of one with their limits.

    Args:
        mechanism: show its settings
    """
    for sentence in registry.MECHANISMS.broken:
        print(f"dpmc: {sentence}", file=sys.stderr)
    if mechanism is not None:
        cls = registry.get(mechanism)
        return CommandReport(describe(cls), _one_method(cls))
    documents = [describe(cls) for cls in registry.MECHANISMS.values()]
    methods_table = listed(documents, id="id", name="name", predicts="task", noise="private")
    return CommandReport(documents, (methods_table, "Settings of one: dpmc list MECHANISM"))


def describe(cls: type[Mechanism]) -> Plain:
    """A method's facts and settings as plain JSON values."""
    return {
        "id": cls.id,
        "name": cls.name,
        "task": cls.task.value,
        "private": registry.adds_noise(cls),
        **{name: getattr(cls, name) for name in ("twin", "floor", "revision")},
        "summary": (cls.__doc__ or "").strip().partition("\n")[0],
        "settings": options.settings_facts(cls),
    }


def _one_method(cls: type[Mechanism]) -> Iterator[str]:
    yield (
        f"{cls.id}: {cls.name}\n{describe(cls)['summary']}\n"
        f"predicts: {cls.task.value}; without privacy: {cls.twin}; floor: {cls.floor}"
    )
    if settings_text := options.settings_table(cls):
        yield settings_text
    hint = "Set them with --set NAME=VALUE; epsilon and delta have options of their own."
    yield hint if settings_text else "It has no settings."


@dataclass(frozen=True, kw_only=True)
class HeldOutOrTest(HeldOut):
    """Or a file to test on.

    Args:
        test (FILE): official test ratings
    """

    test: Path | None = None


@extensible
def fit(
    data: Data,
    mechanism: Method,
    *,
    budget: Budgeted,
    prepare: Steps = (),
    as_published: Published = False,
    held_out: HeldOutOrTest,
    reading: Reading,
    cluster: str | None = None,
    seed: Seed = SEED,
    json: Json = False,
) -> CommandReport:
    """Train one mechanism and measure it.

    Train a mechanism; show its metrics beside guessing and no privacy, and what its privacy claim
    covers.

    Args:
        cluster (ADDRESS): DATA, a folder of Parquet files with all ratings of a user in one of
            them, stays on the workers of a Dask scheduler, tcp://HOST:PORT
        json: one JSON object instead of the report

    examples:
      dpmc fit movie-night input-flip --epsilon 2
      dpmc fit u1.base objective --epsilon 1 --test u1.test --set link=probit --json
      dpmc fit ratings.csv clear --range 1:5 --prepare binarise=4 --holdout 0.1

    `dpmc list` names the mechanisms, `dpmc list MECHANISM` their settings, `dpmc data` the samples.
    """
    made = budget.mechanism(mechanism, as_published)  # mistakes are told before a file is read
    parsed_steps = options.steps_of(reading.prepare(prepare, mechanism))
    problem_options: Plain = {"steps": parsed_steps, "seed": seed}
    with ExitStack() as stack:
        problem: Problem
        if cluster is not None:
            if prepare or held_out.test is not None:
                left_out = prepare[0] if prepare else str(held_out.test)
                raise InvalidSetting("--prepare and --test", "left out with --cluster", left_out)
            from dpmc_lab.sweep import cluster as clusters  # no other run needs it

            read = reading.of(data, made.task)
            partitioned_problem = clusters.partitioned(
                cluster, data, made, read, held_out.split, seed
            )
            problem = stack.enter_context(partitioned_problem)
        elif held_out.test is None:
            dataset = reading.load(data, made.task, prepare)
            problem = build_problem(dataset, made.task, **problem_options, split=held_out.split)
        else:
            read, name = reading.of(data, made.task, prepare), Path(data).name
            pair = read_pair(data, held_out.test, **read)
            problem = build_problem(pair, made.task, **problem_options, name=name)
        options.tell_columns(problem.train, json)
        progress = stack.enter_context(Progress())
        result = run_experiment(
            made, problem, seed, on_step=progress.step, with_baselines=cluster is None
        )
    document, public, steps = result.as_dict(), problem.train.public, ", ".join(problem.steps)
    rounds = f"{result.rounds} round{'' if result.rounds == 1 else 's'}"
    text = [
        f"{made.name} on {problem.name}: {public.users:,} users x {public.items:,}"
        f" items, {len(problem.train):,} ratings\ntested on {split_words(problem.split)}"
        f" ({len(problem.test):,})" + f"; prepared with {steps}" * bool(steps),
        metrics_text(methods(result)),
        card_text(cards.card(result.guarantee, columns=problem.train.columns)),
        paragraph(f"{rounds} in {result.seconds:.1f} s, seed {result.seed}. {SEED_NOTE}"),
    ]
    if as_published:
        budgets = {"epsilon": budget.epsilon, "delta": budget.delta}
        switch = published.switched(made.id, budget.given(mechanism), public, **budgets)
        text.append(paragraph(" ".join(published.words(switch))))
    return CommandReport(document, text)


def metrics_text(found: Mapping[str, Mapping[str, float]]) -> str:
    """Metrics by method as a table."""
    return f"{table(metrics_table(found), '  ')}\n  {EVALUATION_ONLY}"


def card_text(shown: cards.Card) -> str:
    """A guarantee as a paragraph with its facts below."""
    return f"{paragraph(shown.protects)}\n{facts(shown.facts)}"


def recommend(
    data: Data,
    *,
    unit: Unit = USER_EMPTIED,
    epsilon: Epsilon = 1.0,
    delta: Delta = DELTA,
    trust: Annotated[Trust, Option(words=TRUST)] = Trust.CURATOR,
    task: Predicted = None,
    reading: Reading,
) -> CommandReport:
    """One certified method for a promise, and why.

    Which method to take for a unit, a trust and a task. The rule was fixed on generated data and
    sees the public sizes alone, no rating.

    Args:
        unit: what is protected
        trust: who may see raw ratings
    """
    dataset = reading.load(data, task)
    task = task or usual_task(dataset.ratings)
    public = prepared_facts(dataset.ratings.public, task)
    advice = advise(task, unit, public, epsilon=epsilon, delta=delta, trust=trust)
    mechanism, proved = advice.mechanism, advice.certified
    settings = settings_dict(mechanism)
    setting = number_text(settings["epsilon"])
    command = ["dpmc", "fit", data, mechanism.id, "--epsilon", setting]
    if delta != DELTA:
        command += ["--delta", number_text(delta)]
    command += options_text(dataset.reading, (), None)
    document: Plain = {
        "mechanism": mechanism.id,
        "task": task.value,
        "settings": settings,
        "unit": unit.unit,
        "neighbours": unit.neighbours,
        "certified": {"epsilon": proved.epsilon, "delta": proved.delta},
        "reason": advice.reason,
        "command": shlex.join(command),
    }
    explanation = (f"Certified: {cards.certified(proved)}.", f"Why: {advice.reason}.")
    head = f"{mechanism.name} ({mechanism.id}), epsilon setting {setting}"
    return CommandReport(
        document, (head, "\n".join(map(paragraph, explanation)), document["command"])
    )


HEADS = (
    "claimed and certified count the unit that the mechanism protects; the last three columns are"
    " certified too. per rating: one rating has another value. user: empty: everything of one"
    " person disappears. user: other: it becomes somebody else's, which never costs less."
    " Numbers of different columns cannot be compared: per rating may stand above user: empty,"
    " because a rating that changes is an exchange and not a disappearance."
)
MEASURED = (
    "measured: a lower bound that an audit of the default settings found on small data (`dpmc audit"
    " MECHANISM` runs it); above claimed it refutes the claim, below it confirms nothing. -: none"
    " at these settings."
)


@extensible
def guarantees(
    *,
    epsilon: Epsilon = 1.0,
    delta: Delta | None = None,
    data: Data | None = None,
    users: int | None = None,
    items: int | None = None,
    cap: int | None = None,
    measured: bool = False,
    reading: Reading,
) -> CommandReport:
    """Claimed and certified epsilon of every mechanism.

    What each mechanism claims and what its releases prove, from public facts alone (default: those
    of movie-night).

    Args:
        epsilon: claimed budget
        delta: probability of failure, where one is used
        data: take the public facts of a sample's id, a downloaded set's name, a file, or a folder
            of a known set
        users (M): number of users
        items (N): number of items
        cap (K): enforced cap on ratings per user
        measured: also what an audit measured at default settings (dpmc audit measures others)
    """
    if data is not None and (users is not None or items is not None):
        raise InvalidSetting("--data", "left out where --users or --items is given", data)
    public_facts: Plain = {"users": users, "items": items, "cap": cap}
    public_facts = {name: value for name, value in public_facts.items() if value is not None}
    if data is None:
        public_facts |= reading.ends
    dataset = (reading if data else Reading()).load(data or "movie-night")
    public = dataclasses.replace(dataset.ratings.public, **public_facts)
    document: list[Plain] = []
    rows, notes = [], []
    refused: dict[str, InvalidSetting] = {}  # these facts do not suit them, say why
    for id, cls in registry.MECHANISMS.items():
        if not registry.adds_noise(cls):
            continue
        try:
            mechanism = registry.create(id, epsilon=epsilon, delta=delta)
            guarantee = mechanism.guarantee(prepared_facts(public, cls.task))
        except InvalidSetting as error:
            refused[id] = error
            continue
        tick = shipped(mechanism) if measured else None
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
        document.append({"mechanism": id, **guarantee.as_dict(), "units": units})
        if measured:
            names = ("delta", "unit", "neighbours", "confidence", "method", "refuted", "given")
            details = {name: getattr(tick, name) for name in names} if tick else {}
            document[-1]["measured"] = tick and {"epsilon": tick.measured, **details}
        row = cards.card_row(id, guarantee)
        proved = (row.claimed, row.certified, row.per_rating, row.per_user, row.per_user_other)
        texts = [
            id,
            guarantee.change.label,
            guarantee.trust.value,
            *map(cards.epsilon_text, proved),
        ]
        if measured:
            texts.insert(5, f">= {cards.epsilon_text(tick.measured, least=True)}" if tick else "-")
        rows.append(texts)
        notes.append(f"{id}: {row.why or 'certified as claimed'}")
    if not document:
        raise next(iter(refused.values()))
    notes += [f"{id}: has no card here: {reason}" for id, reason in refused.items()]
    limit = f", at most {public.cap} ratings per user" if public.cap else ""
    head = ["mechanism", "protects", "trust", "claimed", "certified", *["measured"] * measured]
    text = [
        f"{public.users:,} users x {public.items:,} items{limit}, epsilon {epsilon:g}",
        table([[*head, "per rating", "user: empty", "user: other"], *rows]),
        paragraph(HEADS),
        *[paragraph(MEASURED)] * measured,
        "\n".join(paragraph(reason, "  ", "") for reason in notes),
    ]
    return CommandReport(document, text)
