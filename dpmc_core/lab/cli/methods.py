"""Methods and their promises: `dpmc list`, `fit`, `recommend`, `guarantees` and `audit`."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from dpmc_core import registry
from dpmc_core.data import datasets, read_pair
from dpmc_core.errors import DpmcError, InvalidSetting, number_text
from dpmc_core.experiment import Result, baselines_of, settings_dict
from dpmc_core.experiment import run as run_experiment
from dpmc_core.lab.cli import options, output
from dpmc_core.lab.cli.interface import CommandReport, Option, extensible
from dpmc_core.lab.cli.options import (
    DATA,
    UNITS,
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
from dpmc_core.lab.cli.output import Progress
from dpmc_core.lab.refute import RUNS, refute
from dpmc_core.lab.refute import Method as Way
from dpmc_core.lab.refute import Report as Audit
from dpmc_core.lab.refute.faults import Flaw
from dpmc_core.lab.refute.report import Shipped, record, records_text, shipped
from dpmc_core.lab.study import ledger
from dpmc_core.lab.study.recommend import recommend as advise
from dpmc_core.lab.sweep import Pair
from dpmc_core.lab.views import as_published as published
from dpmc_core.lab.views import audits, cards
from dpmc_core.lab.views.audits import known_instance, lights
from dpmc_core.lab.views.run_card import SEED_NOTE, methods
from dpmc_core.mechanisms.one_bit import Output
from dpmc_core.model import Mechanism
from dpmc_core.paths import whole_file
from dpmc_core.privacy import DELTA, ROW_VALUES, USER_EMPTIED, Change, Guarantee, Trust
from dpmc_core.problem import (
    SEED,
    build_problem,
    options_text,
    prepare_all,
    prepared_facts,
    split_words,
    usual_task,
)
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import settings_of, show_setting

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
    rows = [("id", "name", "predicts", "noise")]
    rows += [
        (cls.id, cls.name, cls.task.value, "yes" if registry.adds_noise(cls) else "no")
        for cls in registry.MECHANISMS.values()
    ]
    return CommandReport(
        [describe(cls) for cls in registry.MECHANISMS.values()],
        (output.table(rows), "Settings of one: dpmc list MECHANISM"),
    )


def describe(cls: type[Mechanism]) -> dict[str, Any]:
    """A method's facts and settings as plain JSON values."""
    return {
        **{name: getattr(cls, name) for name in ("id", "name")},
        "task": cls.task.value,
        "private": registry.adds_noise(cls),
        **{name: getattr(cls, name) for name in ("twin", "floor", "revision")},
        "summary": _summary(cls),
        "settings": [
            {
                "name": s.name,
                "help": s.info.help,
                "required": s.default is dataclasses.MISSING,
                "default": None if s.default is dataclasses.MISSING else show_setting(s.default),
                "accepts": options.accepts(s),
            }
            for s in settings_of(cls)
        ],
    }


def _summary(cls: type[Mechanism]) -> str:
    return (cls.__doc__ or "").strip().partition("\n")[0]


def _one_method(cls: type[Mechanism]) -> Iterator[str]:
    yield (
        f"{cls.id}: {cls.name}\n{_summary(cls)}\n"
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
    seed: Seed = SEED,
) -> CommandReport:
    """Train one mechanism and measure it.

    Train a mechanism; show its metrics beside guessing and no privacy, and what its privacy claim
    covers.

    Args:
        json: one JSON object instead of the report

    examples:
      dpmc fit movie-night input-flip --epsilon 2
      dpmc fit u1.base objective --epsilon 1 --test u1.test --set link=probit --json
      dpmc fit ratings.csv clear --range 1:5 --prepare binarise=4 --holdout 0.1

    `dpmc list` names the mechanisms, `dpmc list MECHANISM` their settings, `dpmc data` the samples.
    """
    made = budget.mechanism(mechanism, as_published)  # mistakes are told before a file is read
    known: dict[str, Any] = {"steps": options.steps_of(prepare), "seed": seed}
    read = reading.of(data, [made.task], prepare)
    if held_out.test is not None:
        pair, name = read_pair(data, held_out.test, **read), Path(data).name
        problem, source = (
            build_problem(pair, made.task, **known, name=name),
            Pair(*pair, name, name).fingerprint,
        )
    else:
        known["split"] = held_out.split
        found = datasets.load(data, **read)
        problem, source = build_problem(found, made.task, **known), ledger.source_of(found)
    with closing(Progress()) as progress:
        result = run_experiment(made, problem, seed, on_step=progress.step)
    document, text = result.as_dict(), _fitted(result)
    if as_published:
        switch = published.switched(
            made.id,
            budget.given(mechanism),
            problem.train.public,
            epsilon=budget.epsilon,
            delta=budget.delta,
        )
        document["as_published"] = switch.as_dict()
        text.append(output.paragraph(" ".join(published.words(switch))))
    done = [made, *(one for one in baselines_of(made) if one.id in result.baselines)]
    note(source, problem.name, ledger.fits(done, problem, source, seed))
    return CommandReport(document, text)


def note(source: str, name: str, entries: Iterable[ledger.LedgerEntry]) -> None:
    """Put runs for one's own eyes in the ledger; where it cannot be written, say so."""
    try:
        ledger.note(source, name, entries)
    except DpmcError as error:
        print(f"dpmc: not noted: {error}", file=sys.stderr)


def _fitted(result: Result) -> list[str]:
    """The data, the metrics, the guarantee, how to repeat it."""
    public, problem = result.problem.train.public, result.problem
    data = (
        f"{result.mechanism.name} on {problem.name}: {public.users:,} users x {public.items:,}"
        f" items, {len(problem.train):,} ratings\ntested on {split_words(problem.split)}"
        f" ({len(problem.test):,})"
    )
    if problem.steps:
        data += f"; prepared with {', '.join(problem.steps)}"
    rounds = f"{result.rounds} round{'' if result.rounds == 1 else 's'}"
    ending = f"{rounds} in {result.seconds:.1f} s, seed {result.seed}. {SEED_NOTE}"
    promise = output.card(cards.card(result.guarantee))
    return [data, output.metrics(methods(result)), promise, output.paragraph(ending)]


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
    ratings = datasets.load(data, **reading.of(data, [task] if task else ()))
    task = task or usual_task(ratings.ratings)
    public = prepared_facts(ratings.ratings.public, task)
    advice = advise(task, unit, public, epsilon=epsilon, delta=delta, trust=trust)
    mechanism, proved = advice.mechanism, advice.certified
    setting = number_text(settings_dict(mechanism)["epsilon"])
    words = ["dpmc", "fit", data, mechanism.id, "--epsilon", setting]
    if delta != DELTA:
        words += ["--delta", number_text(delta)]
    command = shlex.join([*words, *options_text(ratings.reading, (), None)])
    document = {
        "mechanism": mechanism.id,
        "task": task.value,
        "settings": settings_dict(mechanism),
        "unit": unit.unit,
        "neighbours": unit.neighbours,
        "certified": {"epsilon": proved.epsilon, "delta": proved.delta},
        "reason": advice.reason,
        "command": command,
    }
    why = (f"Certified: {cards.certified(proved)}.", f"Why: {advice.reason}.")
    head = f"{mechanism.name} ({mechanism.id}), epsilon setting {setting}"
    return CommandReport(document, (head, "\n".join(map(output.paragraph, why)), command))


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
    given: dict[str, Any] = {"users": users, "items": items, "cap": cap}
    given = {name: value for name, value in given.items() if value is not None}
    if data is not None and given.keys() & {"users", "items"}:
        raise InvalidSetting("--data", "left out where --users or --items is given", data)
    read = {} if data is None else reading.of(data)
    ratings = datasets.load(data or "movie-night", **read).ratings
    ends: dict[str, Any] = {} if data else dict(reading.ends)
    public = dataclasses.replace(ratings.public, **given, **ends)
    found: dict[str, tuple[Guarantee, Shipped | None]] = {}
    refused: list[tuple[str, InvalidSetting]] = []  # these facts do not suit them, say why
    for id, cls in registry.MECHANISMS.items():
        if not registry.adds_noise(cls):
            continue
        try:
            mechanism = registry.create(id, epsilon=epsilon, delta=delta)
            card = mechanism.guarantee(prepared_facts(public, cls.task))
            found[id] = card, shipped(mechanism) if measured else None
        except InvalidSetting as error:
            refused.append((id, error))
    if not found:
        raise refused[0][1]
    document = [
        describe_card(id, card) | ({"measured": _measured(tick)} if measured else {})
        for id, (card, tick) in found.items()
    ]
    return CommandReport(document, _promises(public, epsilon, measured, found, refused))


def _promises(
    public: PublicFacts,
    epsilon: float,
    measured: bool,
    found: dict[str, tuple[Guarantee, Shipped | None]],
    refused: list[tuple[str, InvalidSetting]],
) -> Iterator[str]:
    cap = f", at most {public.cap} ratings per user" if public.cap else ""
    yield f"{public.users:,} users x {public.items:,} items{cap}, epsilon {epsilon:g}"
    head = ["mechanism", "protects", "trust", "claimed", "certified", *["measured"] * measured]
    table, told = [[*head, "per rating", "user: empty", "user: other"]], []
    for id, (card, tick) in found.items():
        row = cards.card_row(id, card)
        proved = (row.claimed, row.certified, row.per_rating, row.per_user, row.per_user_other)
        words = [id, card.change.label, card.trust.value, *map(cards.epsilon_text, proved)]
        if measured:
            words.insert(5, f">= {cards.epsilon_text(tick.measured)}" if tick else "-")
        table.append(words)
        told.append(f"{id}: {row.why or 'certified as claimed'}")
    yield output.table(table)
    yield output.paragraph(HEADS)
    if measured:
        yield output.paragraph(MEASURED)
    told += [f"{id}: has no card here: {reason}" for id, reason in refused]
    yield "\n".join(output.paragraph(text, "  ", "") for text in told)


def _measured(found: Shipped | None) -> dict[str, Any] | None:
    """A tick as plain JSON: the bound, how it was found, and what it contradicts."""
    if found is None:
        return None
    names = ("delta", "unit", "neighbours", "confidence", "method", "refuted", "given")
    return {"epsilon": found.measured, **{name: getattr(found, name) for name in names}}


def describe_card(id: str, card: Guarantee) -> dict[str, Any]:
    """A card as plain JSON, with the certified epsilon of every unit (null: infinite)."""
    units = [
        {
            "unit": change.unit,
            "neighbours": change.neighbours,
            "epsilon": proved.epsilon if proved.finite else None,
            "delta": proved.delta,
            "reason": proved.reason,
        }
        for change in Change
        for proved in [card.certified(change)]
    ]
    return {"mechanism": id, **card.as_dict(), "units": units}


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
    queries, by canaries in one run, and by the noise it draws.

    Args:
        unit: what changes (default: the claim's own)
        runs (N): pairs to try, and canaries that take a run each
        method: one of three (repeatable; default all)
        plant: plant a fault in a copy, to see whether it is noticed
        all: every mechanism, with its default settings
        write (FILE.json): with --all: what was measured, to ship
        json: one JSON object instead of the report

    examples:
      dpmc audit output --epsilon 1
      dpmc audit private-popularity --epsilon 1 --plant halved
      dpmc audit randomised-response restaurants --epsilon 2 --unit cell --runs 300

    The probe is exact for the pair that it shows. A bound by canaries is too large in at most 5 of
    100 audits; what holds is refuted by them, or by the sampler, in at most 1 of 10,000. An audit
    that finds nothing confirms nothing.
    """

    def audited(made: Mechanism, seed: int, ratings: Ratings | None = None) -> Audit:
        with closing(Progress()) as progress:
            return refute(
                made,
                ratings,
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

    if not all:
        if mechanism is None:
            raise InvalidSetting("MECHANISM", "given, or --all", None)
        if write is not None:
            raise InvalidSetting("--write", "left out without --all", str(write))
        made, steps = budget.mechanism(mechanism), options.steps_of(prepare)
        if data is None:
            found = audited(made, seed)
            lit = _lit(made)
            return CommandReport(found.as_dict() | lit, _told(found) + _lights(lit))
        loaded = datasets.load(data, **reading.of(data, [made.task], prepare))
        ratings, _ = prepare_all(loaded.ratings, made.task, steps)
        found = audited(made, seed, ratings)
        entry = ledger.entry(ledger.Kind.AUDIT, made, ratings.public, count=found.runs)
        note(ledger.source_of(loaded), data, [entry])
        return CommandReport(found.as_dict(), _told(found))
    for name, value in (("mechanism", mechanism), ("data", data), ("unit", unit), ("plant", plant)):
        if value is not None:
            raise InvalidSetting(name, "left out with --all", getattr(value, "value", value))
    reports = []
    for id, cls in registry.MECHANISMS.items():
        if registry.adds_noise(cls):
            epsilon = 1.0 if budget.epsilon is None else budget.epsilon
            made = registry.create(id, epsilon=epsilon, delta=budget.delta)
            found = audited(made, seed)
            if found.best is not None and found.best.method is Way.CANARIES:
                # Coins decide the bound: the one in the middle of five seeds.
                others = [audited(made, seed + k) for k in range(1, 5)]
                found = sorted([found, *others], key=lambda one: one.measured)[2]
            reports.append(found)
    records = [record(report) for report in reports]
    if write is not None:
        with whole_file(write) as part:
            part.write_text(records_text(records), encoding="utf-8")
    rows = [("mechanism", "protects", "claimed", "certified", "measured", "refuted")]
    for found in reports:
        values = (found.claimed, found.certified.epsilon, found.measured)
        claimed, proved, least = ("-" if v is None else cards.epsilon_text(v) for v in values)
        label = found.change.label
        rows.append((found.mechanism.id, label, claimed, proved, least, found.refuted.value))
    return CommandReport([dataclasses.asdict(one) for one in records], [output.table(rows)])


def _told(report: Audit) -> list[str]:
    """What was audited, the verdict, each method."""
    certified = cards.epsilon_text(report.certified.epsilon)
    claimed = "-" if report.claimed is None else cards.epsilon_text(report.claimed)
    delta = f", delta {cards.delta_text(report.certified.delta)}" if report.certified.delta else ""
    head = (
        f"{report.mechanism.name} on {report.data}, {report.change.label}"
        f" ({report.change.relation}){delta}: claimed {claimed}, certified {certified}"
    )
    verdict = [audits.noticed(report), audits.verdict(report)]
    paragraphs = [output.paragraph(head), "\n".join(filter(None, verdict))]
    for found in report.findings:
        words = f"{audits.METHODS[found.method]}. {audits.finding(found, report.change)}"
        rows = [output.table(audits.releases(found), indent="  ")] if found.releases else []
        paragraphs.append("\n".join([output.paragraph(words), *rows]))
    for method, why in report.skipped:
        paragraphs.append(output.paragraph(f"{audits.METHODS[method]}. Does not apply: {why}."))
    paragraphs.append(f"Seed {report.seed}, {report.runs} runs: the same again with the same seed.")
    return paragraphs


def _lit(mechanism: Mechanism) -> dict[str, Any]:
    """What one rating moves in output perturbation, on its known instance."""
    if not isinstance(mechanism, Output):
        return {}
    found = lights(*known_instance(mechanism.epsilon))
    names = ("user", "item", "cells", "total", "allowed", "epsilon", "claimed")
    return {"lights": {name: getattr(found, name) for name in names}}


def _lights(lit: dict[str, Any]) -> list[str]:
    return [
        output.paragraph(
            f"One rating (item {found['item']} of user {found['user']}) on the known instance moves"
            f" {found['cells']:,} cells of the matrix, by {found['total']:.3g} together; the proof"
            f" allows {found['allowed']:g}, so epsilon is at least {found['epsilon']:.3g} there."
        )
        for found in lit.values()
    ]
