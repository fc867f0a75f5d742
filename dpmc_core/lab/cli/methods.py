"""Methods and promises: `dpmc list`, `fit`, `recommend`, `guarantees`, `audit`, `protocol`."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np

from dpmc_core import registry
from dpmc_core.arrays import Plain
from dpmc_core.data import read_pair
from dpmc_core.errors import InvalidSetting, check_number, number_text, unknown_name
from dpmc_core.experiment import EVALUATION_ONLY, settings_dict
from dpmc_core.experiment import run as run_experiment
from dpmc_core.lab.cli import options
from dpmc_core.lab.cli.interface import (
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
from dpmc_core.lab.cli.options import (
    DATA,
    UNITS,
    Budgeted,
    Data,
    Delta,
    Epsilon,
    Given,
    HeldOut,
    Method,
    Predicted,
    Published,
    Reading,
    Seed,
    Steps,
    Unit,
)
from dpmc_core.lab.protocol import Transcript, federated, simulate
from dpmc_core.lab.protocol.federated import Federation
from dpmc_core.lab.protocol.scenarios import DynamicUsers, Scenario
from dpmc_core.lab.refute import RUNS, refute
from dpmc_core.lab.refute import Method as Way
from dpmc_core.lab.refute import Report as Audit
from dpmc_core.lab.refute.faults import Flaw
from dpmc_core.lab.refute.report import record, records_text, shipped
from dpmc_core.lab.study.answer import recommend as advise
from dpmc_core.lab.views import as_published as published
from dpmc_core.lab.views import audits, cards
from dpmc_core.lab.views import protocol as words
from dpmc_core.lab.views.run_card import SEED_NOTE, methods, metrics_table
from dpmc_core.mechanisms.one_bit import Output
from dpmc_core.model import Mechanism, Task
from dpmc_core.paths import whole_file
from dpmc_core.privacy import DELTA, ROW_VALUES, USER_EMPTIED, Change, Trust
from dpmc_core.problem import (
    SEED,
    Problem,
    build_problem,
    options_text,
    prepare_all,
    prepared_facts,
    split_words,
    usual_task,
)
from dpmc_core.ratings import Ratings
from dpmc_core.settings import settings_of

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
    found = [describe(cls) for cls in registry.MECHANISMS.values()]
    known = listed(found, id="id", name="name", predicts="task", noise="private")
    return CommandReport(found, (known, "Settings of one: dpmc list MECHANISM"))


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
    if known := options.settings_table(cls):
        yield known
    more = "Set them with --set NAME=VALUE; epsilon and delta have options of their own."
    yield more if known else "It has no settings."


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
    steps_of_all = options.steps_of(reading.prepare(prepare, mechanism))
    known: Plain = {"steps": steps_of_all, "seed": seed}
    with ExitStack() as held:
        problem: Problem
        if cluster is not None:
            if prepare or held_out.test is not None:
                given = prepare[0] if prepare else str(held_out.test)
                raise InvalidSetting("--prepare and --test", "left out with --cluster", given)
            from dpmc_core.lab.sweep import cluster as clusters  # no other run needs it

            read = reading.of(data, made.task)
            found_there = clusters.partitioned(cluster, data, made, read, held_out.split, seed)
            problem = held.enter_context(found_there)
        elif held_out.test is None:
            found = reading.load(data, made.task, prepare)
            problem = build_problem(found, made.task, **known, split=held_out.split)
        else:
            read, name = reading.of(data, made.task, prepare), Path(data).name
            pair = read_pair(data, held_out.test, **read)
            problem = build_problem(pair, made.task, **known, name=name)
        options.tell_columns(problem.train, json)
        progress = held.enter_context(Progress())
        result = run_experiment(
            made, problem, seed, on_step=progress.step, with_baselines=cluster is None
        )
    document, public, steps = result.as_dict(), problem.train.public, ", ".join(problem.steps)
    rounds = f"{result.rounds} round{'' if result.rounds == 1 else 's'}"
    text = [
        f"{made.name} on {problem.name}: {public.users:,} users x {public.items:,}"
        f" items, {len(problem.train):,} ratings\ntested on {split_words(problem.split)}"
        f" ({len(problem.test):,})" + f"; prepared with {steps}" * bool(steps),
        _metrics(methods(result)),
        card_text(cards.card(result.guarantee, columns=problem.train.columns)),
        paragraph(f"{rounds} in {result.seconds:.1f} s, seed {result.seed}. {SEED_NOTE}"),
    ]
    if as_published:
        both = {"epsilon": budget.epsilon, "delta": budget.delta}
        switch = published.switched(made.id, budget.given(mechanism), public, **both)
        document["as_published"] = switch.as_dict()
        text.append(_switched(switch))
    return CommandReport(document, text)


def _metrics(found: Mapping[str, Mapping[str, float]]) -> str:
    """Metrics by method as a table."""
    return f"{table(metrics_table(found), '  ')}\n  {EVALUATION_ONLY}"


def card_text(shown: cards.Card) -> str:
    """A guarantee as a paragraph with its facts below."""
    return f"{paragraph(shown.protects)}\n{facts(shown.facts)}"


def _switched(found: published.Switched) -> str:
    """What the papers' settings changed."""
    return paragraph(" ".join(published.words(found)))


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
    found = reading.load(data, task)
    task = task or usual_task(found.ratings)
    public = prepared_facts(found.ratings.public, task)
    advice = advise(task, unit, public, epsilon=epsilon, delta=delta, trust=trust)
    mechanism, proved = advice.mechanism, advice.certified
    settings = settings_dict(mechanism)
    setting = number_text(settings["epsilon"])
    command = ["dpmc", "fit", data, mechanism.id, "--epsilon", setting]
    if delta != DELTA:
        command += ["--delta", number_text(delta)]
    command += options_text(found.reading, (), None)
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
    why = (f"Certified: {cards.certified(proved)}.", f"Why: {advice.reason}.")
    head = f"{mechanism.name} ({mechanism.id}), epsilon setting {setting}"
    return CommandReport(document, (head, "\n".join(map(paragraph, why)), document["command"]))


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
    given: Plain = {"users": users, "items": items, "cap": cap}
    given = {name: value for name, value in given.items() if value is not None}
    if data is None:
        given |= reading.ends
    known = (reading if data else Reading()).load(data or "movie-night")
    public = dataclasses.replace(known.ratings.public, **given)
    document: list[Plain] = []
    rows, told = [], []
    refused: dict[str, InvalidSetting] = {}  # these facts do not suit them, say why
    for id, cls in registry.MECHANISMS.items():
        if not registry.adds_noise(cls):
            continue
        try:
            mechanism = registry.create(id, epsilon=epsilon, delta=delta)
            card = mechanism.guarantee(prepared_facts(public, cls.task))
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
            for proved in map(card.certified, Change)
        ]
        document.append({"mechanism": id, **card.as_dict(), "units": units})
        if measured:
            names = ("delta", "unit", "neighbours", "confidence", "method", "refuted", "given")
            told_of = {name: getattr(tick, name) for name in names} if tick else {}
            document[-1]["measured"] = tick and {"epsilon": tick.measured, **told_of}
        row = cards.card_row(id, card)
        proved = (row.claimed, row.certified, row.per_rating, row.per_user, row.per_user_other)
        words = [id, card.change.label, card.trust.value, *map(cards.epsilon_text, proved)]
        if measured:
            words.insert(5, f">= {cards.epsilon_text(tick.measured, least=True)}" if tick else "-")
        rows.append(words)
        told.append(f"{id}: {row.why or 'certified as claimed'}")
    if not document:
        raise next(iter(refused.values()))
    told += [f"{id}: has no card here: {reason}" for id, reason in refused.items()]
    limit = f", at most {public.cap} ratings per user" if public.cap else ""
    head = ["mechanism", "protects", "trust", "claimed", "certified", *["measured"] * measured]
    text = [
        f"{public.users:,} users x {public.items:,} items{limit}, epsilon {epsilon:g}",
        table([[*head, "per rating", "user: empty", "user: other"], *rows]),
        paragraph(HEADS),
        *[paragraph(MEASURED)] * measured,
        "\n".join(paragraph(reason, "  ", "") for reason in told),
    ]
    return CommandReport(document, text)


@extensible
def audit(
    mechanism: Method | None = None,
    data: Annotated[str | None, Option("DATA", f"{DATA} (default: a few invented)")] = None,
    *,
    budget: Budgeted,
    prepare: Steps = (),
    reading: Reading,
    unit: Annotated[Change | None, Option(words={**UNITS, "row": ROW_VALUES})] = None,
    runs: int = RUNS,
    method: tuple[Way, ...] = (),
    plant: Flaw | None = None,
    all: bool = False,
    write: Path | None = None,
    seed: Seed = SEED,
) -> CommandReport:
    """Try to refute what a mechanism claims.

    Look for neighbouring data sets that a mechanism tells apart better than it claims, by its
    queries and by canaries in one run.

    Args:
        unit: what changes (default: the claim's own)
        runs (N): pairs to try, and canaries that take a run each
        method: one of two (repeatable; default both)
        plant: plant a fault in a copy, to see whether it is noticed
        all: every mechanism, with its default settings
        write (FILE.json): with --all: what was measured, to ship
        json: one JSON object instead of the report

    examples:
      dpmc audit output --epsilon 1
      dpmc audit private-popularity --epsilon 1 --plant halved
      dpmc audit randomised-response restaurants --epsilon 2 --unit cell --runs 300

    The probe is exact for the pair that it shows. A bound by canaries is too large in at most 5 of
    100 audits; what holds is refuted by them in at most 1 of 10,000. An audit that finds nothing
    confirms nothing.
    """

    asked = {"mechanism": mechanism, "data": data, "unit": unit, "plant": plant}

    def audited(made: Mechanism, seed: int, ratings: Ratings | None = None) -> Audit:
        with Progress() as progress:
            return refute(
                *(made, ratings),
                data=data or "",
                change=unit,
                runs=runs,
                methods=method or tuple(Way),
                flaw=plant,
                seed=seed,
                tell=lambda done, total, label, _: progress.update(
                    f"{made.id}: {label}", done, total, lambda part: f"{100 * part // total} %"
                ),
            )

    if all:
        for name, value in asked.items():
            if value is not None:
                raise InvalidSetting(name, "left out with --all", getattr(value, "value", value))
        return _audit_all(audited, budget, seed, write)
    if mechanism is None:
        raise InvalidSetting("MECHANISM", "given, or --all", None)
    if write is not None:
        raise InvalidSetting("--write", "left out without --all", str(write))
    made, steps = budget.mechanism(mechanism), options.steps_of(prepare)
    if data is None:
        found, (lit, words) = audited(made, seed), _lit(made)
        return CommandReport(found.as_dict() | lit, _told(found) + words)
    loaded = reading.load(data, made.task, prepare)
    ratings, _ = prepare_all(loaded.ratings, made.task, steps)
    found = audited(made, seed, ratings)
    return CommandReport(found.as_dict(), _told(found))


def _audit_all(
    audited: Callable[[Mechanism, int], Audit], budget: Budgeted, seed: int, write: Path | None
) -> CommandReport:
    """Every mechanism that adds noise, and the file of what was measured."""
    records, rows = [], []
    epsilon = 1.0 if budget.epsilon is None else budget.epsilon
    for id, cls in registry.MECHANISMS.items():
        if registry.adds_noise(cls):
            made = registry.create(id, epsilon=epsilon, delta=budget.delta)
            found = audited(made, seed)
            if found.best is not None and found.best.method is Way.CANARIES:
                # Coins decide the bound: the one in the middle of five seeds.
                others = [audited(made, seed + k) for k in range(1, 5)]
                found = sorted([found, *others], key=lambda one: one.measured)[2]
            records.append(record(found))
            values = (found.claimed, found.certified.epsilon, found.measured)
            known = ("-" if value is None else cards.epsilon_text(value) for value in values)
            rows.append((id, found.change.label, *known, found.refuted.value))
    if write is not None:
        with whole_file(write) as part:
            part.write_text(records_text(records), encoding="utf-8")
    head = ("mechanism", "protects", "claimed", "certified", "measured", "refuted")
    return CommandReport(list(map(dataclasses.asdict, records)), [table([head, *rows])])


def _told(report: Audit) -> list[str]:
    """What was audited, the verdict, each method."""
    certified = cards.budget_text(report.certified.epsilon, report.certified.delta)
    claimed = "-" if report.claimed is None else cards.epsilon_text(report.claimed)
    head = (
        f"{report.mechanism.name} on {report.data}, {report.change.label}"
        f" ({report.change.relation}): claimed {claimed}, certified {certified}"
    )
    verdict = [audits.noticed(report), audits.verdict(report)]
    paragraphs = [paragraph(head), "\n".join(filter(None, verdict))]
    for found in report.findings:
        rows = f"\n{table(audits.releases(found), '  ')}" if found.releases else ""
        words = f"{audits.METHODS[found.method]}. {audits.finding(found, report.change)}"
        paragraphs.append(paragraph(words) + rows)
    for method, why in report.skipped:
        paragraphs.append(paragraph(f"{audits.METHODS[method]}. Does not apply: {why}."))
    paragraphs.append(f"Seed {report.seed}, {report.runs} runs: the same again with the same seed.")
    return paragraphs


def _lit(mechanism: Mechanism) -> tuple[Plain, list[str]]:
    """What one rating moves in output perturbation, on its known instance; and in words."""
    if not isinstance(mechanism, Output):
        return {}, []
    found = audits.lights(*audits.known_instance(mechanism.epsilon))
    names = ("user", "item", "cells", "total", "allowed", "epsilon", "claimed")
    told = (
        f"One rating (item {found.item} of user {found.user}) on the known instance moves"
        f" {found.cells:,} cells of the matrix, by {found.total:.3g} together; the proof allows"
        f" {found.allowed:g}, so epsilon is at least {found.epsilon:.3g} there."
    )
    return {"lights": {name: getattr(found, name) for name in names}}, [paragraph(told)]


# --- protocols, message by message ------------------------------------------------------------

_SHOWN = 40  # messages of a report


@dataclass(frozen=True, kw_only=True)
class PlayOptions:
    """What of a run is chosen.

    Args:
        epsilon: budget per rating, federated: per solve
        mechanism (ID): federated: the variant (default dpimf-optimal)
        watch (ITEM): keep this item's messages (counted from 0)
        attack: attack the watched item (default: the busiest)
    """

    epsilon: Epsilon = 1.0
    mechanism: str | None = None
    set: Given = ()
    watch: int | None = None
    attack: bool = False
    as_published: Published = False
    reading: Reading
    seed: Seed = SEED


def protocol(
    scenario: Annotated[
        str,
        Option(
            "SCENARIO",
            "2, 3 or federated",
            words={name: name for name in (*simulate.SCENARIOS, federated.FLOW)},
        ),
    ],
    data: Data | None = None,
    *,
    asked: PlayOptions,
) -> CommandReport:
    """Factorization with an untrusted recommender, message by message.

    Play scenario 2 or 3 of private matrix factorization, or the federated flow of its implicit
    kind: count the messages, measure the result, look at one item's messages, attack the scenarios.

    Args:
        json: one JSON object instead of the report

    scenarios:
      2  a third party adds up masked gradients of the same users in every round
      3  the noise is made once and handed out in pieces to whoever is online
      federated  parties send noisy profiles of implicit factorization, a server averages them

    examples:
      dpmc protocol 2 movie-night --epsilon 1
      dpmc protocol 2 restaurants --epsilon 1 --set shares=gamma --watch 3 --attack
      dpmc protocol 2 movie-night --epsilon 10 --set phases=4 --set growth=1.3
      dpmc protocol 2 movie-night --epsilon 1 --set user_factors=pmf
      dpmc protocol 3 restaurants --epsilon 1 --set leaves=2:5 --json
      dpmc protocol 3 restaurants --epsilon 10 --set picked=5 --attack
      dpmc protocol federated --epsilon 1 --set parties=4 --set rounds=3 --set local=2
      dpmc protocol federated --mechanism dpimf-symmetric --set alpha=0.9
      dpmc protocol 2 movie-night --epsilon 1 --as-published

    Scenario 1, with a trusted recommender, is `dpmc fit DATA dpmf`.
    """
    return (_federated if scenario == federated.FLOW else _scenario)(scenario, data, asked)


def _scenario(scenario: str, data: str | None, asked: PlayOptions) -> CommandReport:
    settings, given = scenario_from(scenario, asked)
    problem = _problem(data or "movie-night", Task.RATINGS, asked)
    watch = asked.watch
    if asked.attack and watch is None:
        watch = int(np.bincount(problem.train.items).argmax())
    run = simulate.start(settings, problem, asked.seed, watch=watch)
    with Progress() as progress:
        for t in run.play():
            progress.update(f"scenario {scenario}", t, settings.iterations * len(run.parts))
        tell = partial(progress.update, "beside scenario 1")
        gap = simulate.gap(settings, problem, asked.seed, tell)
    found = simulate.report(run, problem, asked.seed, gap)
    skipped = "; ".join(f"{n} {what}" for what, n in found["skipped"].items())
    more = [words.gap_words(gap)]
    if isinstance(settings, DynamicUsers) and settings.picked:
        more.append(words.picked_words(problem.train, settings))
    more.append(
        "Largest difference from item factors that a trusted server gets in floating point with"
        " the same phases, gradient steps, attendance and noise:"
        f" {found['difference from scenario 1']:.2g} rating points; from the exact minimum of"
        f" the last noisy objective: {found['difference from the exact minimum']:.2g}."
    )
    text = [
        f"Scenario {scenario} ({found['title']}) on {_size(found)} ratings,"
        f" {found['rounds']} rounds in {found['phases']} phase{'' if found['phases'] == 1 else 's'}"
        f"\ntakes no part: {skipped}",
        _metrics({f"scenario {scenario}": found["metrics"]} | found["baselines"]),
        _traffic(found["communication"]),
        *map(paragraph, more),
        card_text(cards.card(settings.guarantee(run.public))),
    ]
    if asked.attack:
        found["attacks"] = simulate.attack(run)
        text.append(_attacks(found["attacks"]))
    return _with_messages(
        *(found, text, run.transcript),
        published.scenario(type(settings), asked.epsilon, given, run.public)
        if asked.as_published
        else None,
    )


def _federated(scenario: str, data: str | None, asked: PlayOptions) -> CommandReport:
    if asked.attack:
        raise InvalidSetting("--attack", "left out: it belongs to scenarios 2 and 3", "given")
    flow, given = federation_from(asked)
    problem = _problem(data or "bookshop-clicks", Task.RANKING, asked)
    public = problem.train.public
    if asked.watch is not None:
        last = federated.count(public, flow.mechanism.profiles) - 1
        check_number("--watch", asked.watch, at_least=0, at_most=last, integer=True)
    run = federated.start(flow, problem, asked.seed, watch=asked.watch)
    with Progress() as progress:
        for t in run.play():
            progress.update("federated flow", t, flow.rounds)
    found = federated.report(run, problem, asked.seed)
    budget = words.budget_rows(flow.budget(public))
    rows = [(what, cards.epsilon_text(value)) for what, value in budget.items()]
    budget_table = table([(f"budget, {flow.rounds} x {flow.local} solves", "epsilon"), *rows], "  ")
    why = (paragraph(text, "  ") for text in words.why_not_per_user(flow, public))
    text = [
        f"Federated flow ({found['title']}) of {flow.mechanism.name} on {_size(found)} clicks,"
        f" {flow.parties} parties, {flow.rounds} rounds of {flow.local} local solves",
        _metrics({scenario: found["metrics"]} | found["baselines"]),
        _traffic(found["communication"]),
        "\n".join((budget_table, *why)),
    ]
    return _with_messages(
        *(found, text, run.transcript),
        published.federation(flow.mechanism.id, asked.epsilon, given, public)
        if asked.as_published
        else None,
    )


def _problem(data: str, task: Task, asked: PlayOptions) -> Problem:
    return build_problem(asked.reading.load(data), task, seed=asked.seed)


def _size(found: Plain) -> str:
    data = found["data"]
    users, items, ratings = data["users"], data["items"], data["ratings"]
    return f"{data['name']}: {users:,} users x {items:,} items, {ratings:,}"


def scenario_from(scenario: str, asked: PlayOptions) -> tuple[Scenario, Plain]:
    """The scenario's settings from the options, and those that --set gives.

    Raises InvalidSetting.
    """
    if asked.mechanism is not None:
        raise InvalidSetting(
            "--mechanism", f"left out: it belongs to the {federated.FLOW} flow", asked.mechanism
        )
    cls = simulate.SCENARIOS[scenario]
    given = options.settings(asked.set, ("--epsilon",), lambda _: cls, f"scenario {scenario}", str)
    whole = published.with_published_scenario(cls, given) if asked.as_published else given
    return cls(epsilon=asked.epsilon, **whole), given


def federation_from(asked: PlayOptions) -> tuple[Federation, Plain]:
    """The flow from the options, and the settings that --set gives; `rounds` is the flow's own.

    Raises InvalidSetting.
    """
    variant = asked.mechanism or "dpimf-optimal"
    if variant not in federated.VARIANTS:
        raise unknown_name("--mechanism", variant, federated.VARIANTS)
    own = [s.name for s in settings_of(Federation)]
    more = "".join(f", {name}" for name in own if name != "rounds")
    given = options.settings(
        asked.set,
        ("--epsilon",),
        lambda name: Federation if name in own else registry.get(variant),
        f"the flow or of {variant}",
        lambda known: known + more,
    )
    paper = dict(federated.published(variant).settings) if asked.as_published else {}
    return federated.build(variant, asked.epsilon, **paper | given), given


def _traffic(sent: Plain) -> str:
    """Counted messages and bytes by kind and together, and by formula where there is one."""
    kinds = sent["by kind"] | {"together": sent, "by formula": sent["by formula"]}
    rows = [{"message": kind} | count for kind, count in kinds.items() if count]
    return listed(rows, "  ", message="message", messages="messages", bytes="bytes")


def _with_messages(
    found: Plain,
    text: list[str],
    transcript: Transcript,
    switch: published.Switched | None,
) -> CommandReport:
    """The report with the first messages of the watched item or profile, and what was switched."""
    if len(transcript):
        messages = found["transcript"] = [message.as_dict() for message in transcript]
        lines = [
            f"  round {m['round']}: {m['sender']} -> {m['receiver']}, {m['kind']},"
            f" {m['bytes']:,} bytes: {m['payload']}"
            for m in messages[:_SHOWN]
        ]
        if len(messages) > _SHOWN:
            lines.append(f"  ... {len(messages) - _SHOWN} more: --json has all")
        text.append("\n".join(lines))
    if switch:
        found["as_published"] = switch.as_dict()
        text.append(_switched(switch))
    return CommandReport(found, text)


def _attacks(found: Plain) -> str:
    d, a = found["difference"], found["attendance"]
    passive = "too few rounds" if found["passive"] is None else f"{found['passive']:.2g}"
    return "\n".join(
        (
            f"difference attack by the third party: {d['recovered']} of {d['users']} users'"
            " gradient differences recovered",
            f"attendance attack by the recommender: the gradients of {a['recovered']} of the"
            f" {a['users']} users who missed rounds of their own recovered"
            + (", up to one vector common to all" if a["centred"] else ""),
            f"passive recommender: A = sum u u' off by {passive} (largest entry"
            f" {found['largest entry of A']:.3g})",
            f"active recommender, choosing what it sends: A off by {found['active']:.2g}",
        )
    )
