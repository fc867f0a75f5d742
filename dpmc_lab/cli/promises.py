"""One's own ratings and what may leave the house: `dpmc answer`, `release`, `verify`."""

from __future__ import annotations

import dataclasses
import random
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from functools import partial
from json import dumps
from pathlib import Path
from typing import Annotated, Any

from dpmc_core.data import Outside, Transform, from_data, on_catalogue, read_ids
from dpmc_core.data.features import knowing, read_items
from dpmc_core.data.source import Source
from dpmc_core.data.synthetic import SAMPLES
from dpmc_core.data.transforms import UseFacts
from dpmc_core.errors import (
    DpmcError,
    InvalidSetting,
    NotVerified,
    parsed,
    sentence,
    shown,
)
from dpmc_core.model import Mechanism
from dpmc_core.paths import check_new, whole_file
from dpmc_core.privacy import DELTA, exact_noise
from dpmc_core.problem import prepare_all, prepared_facts, usual_task
from dpmc_core.ratings import Ratings
from dpmc_lab import sweep
from dpmc_lab.cli.interface import (
    CommandReport,
    Json,
    OneOf,
    Option,
    Progress,
    number,
    paragraph,
    table,
    write_json,
)
from dpmc_lab.cli.methods import card_text
from dpmc_lab.cli.options import (
    Budgeted,
    Data,
    Delta,
    Epsilon,
    HeldOut,
    Method,
    Predicted,
    Reading,
    Seeds,
    Steps,
    check_person,
    steps_of,
    tell_columns,
    times_a_year,
)
from dpmc_lab.cli.sweep import SweepLines
from dpmc_lab.curves import answer as answers
from dpmc_lab.curves import cards, lines
from dpmc_lab.store import Store
from dpmc_lab.study import answer as inquiry
from dpmc_lab.study.advice import Protect
from dpmc_lab.study.release import (
    Export,
    check,
    check_path,
    export,
    reading_lines,
    uses_features,
    waiting,
    write,
)
from dpmc_lab.study.release import deployment_card as deployment_sections
from dpmc_lab.study.verify import Verified, sign_lines, signed, unnoticed
from dpmc_lab.study.verify import verify as verified
from dpmc_lab.sweep.presets import EPSILONS

_SOON = 10.0  # seconds after which a provisional answer is worth its lines
OFTEN = ", ".join(answers.OFTEN.values())


def _share(text: str) -> float:
    """80% or 0.8."""
    value = number(text.strip().removesuffix("%"))
    return value / 100 if text.strip().endswith("%") else value


@dataclass(frozen=True, kw_only=True)
class AnswerForm(OneOf):
    """How it is told.

    Args:
        json: one JSON document
        progress: for programs: progress as JSON lines, no answer
    """

    json: bool = False
    progress: bool = False


def answer(
    data: Data,
    *,
    protect: Protect = Protect.PERSON,
    epsilon: Epsilon = 1.0,
    delta: Delta = DELTA,
    often: Annotated[
        str, Option("OFTEN", f"how often one publishes: {OFTEN}, or times a year (default weekly)")
    ] = "weekly",
    keep: Annotated[float, Option(parse=_share)] = 0.8,
    reference: float | None = None,
    facts: bool = False,
    task: Predicted = None,
    seeds: Seeds = None,
    no_curve: bool = False,
    store: Path | None = None,
    held_out: HeldOut,
    reading: Reading,
    show: AnswerForm,
) -> None:
    """What a promise costs on your ratings, and whether it is affordable.

    Run the recommended method beside the private floor and the reference without privacy, user by
    user, and say whether the loss is affordable; then the whole curve.

    Args:
        protect: person: all of a person, server trusted (default); rating: each rating, even from
            the server
        keep (SHARE): share of what personalisation adds that must be left (default 80%)
        reference (VALUE): what your own model reaches on the same split: share of users whose
            held-out item is among ten of all unseen ones, RMSE, or share of likes told right
        facts: use what is publicly known of the items
        seeds: splits and noise: 1,2,3 or FIRST:LAST
        no_curve: the epsilon asked about alone
        store (FILE): keep the runs there, to go on from

    examples:
      dpmc answer bookshop-clicks
      dpmc answer ratings.csv --range 1:5 --epsilon 2 --often weekly --keep 80%
      dpmc answer clicks.csv --protect rating --reference 0.31 --json

    Ctrl-C ends it with what is there. With --store, runs are kept and never computed twice.
    """
    chosen_seeds = inquiry.SEEDS if seeds is None else sweep.parse_seeds(seeds)
    times = times_a_year("--often", often)
    source = sweep.open_source(data, **reading.of(data, task))
    ratings = sweep.ratings_of(source, chosen_seeds[0])
    check_person(ratings, data)
    tell_columns(ratings, show.json or show.progress)
    question = inquiry.Inquiry(
        task=task or usual_task(ratings),
        protect=protect,
        epsilon=epsilon,
        delta=delta,
        times=times,
        keep=keep,
        reference=reference,
        facts=facts or bool(reading.prepare(())),
    )
    advice = question.advice(ratings.public)
    grid = partial(question.grid, advice, data, split=held_out.split)
    plans = [sweep.plan(grid(seeds=chosen_seeds), [source])]
    if not no_curve:
        curve_seeds = chosen_seeds[: inquiry.CURVE]
        plans.append(sweep.plan(grid(seeds=curve_seeds, epsilons=EPSILONS), [source]))
    total, jobs = len({u.key for plan in plans for u in plan.units}), sweep.default_jobs()
    work, document = _Work(total, show.progress), dict[str, Any]()

    def told(rows: Store, score_cache: inquiry.Kept) -> Iterator[list[str]]:
        """The answer as it is found: in blocks of lines, and in the document."""
        distinguishable = inquiry.told_apart(advice.mechanism, ratings)
        if distinguishable is not None:
            document["told_from_noise"] = {"items": distinguishable.items, "of": distinguishable.of}
            items = answers.told_words(distinguishable, question, data not in SAMPLES)
            yield _said(f"{items}. {answers.told_rule(question.task, protect)}")
        units, id = plans[0].units, advice.mechanism.id
        tell, start = partial(work.tell, "answer"), time.monotonic()
        collect = partial(inquiry.collect, source=source, kept=score_cache, store=rows, jobs=jobs)
        first_units = [unit for unit in units if unit.seed in chosen_seeds[:2]]
        work.do(partial(collect, first_units, tell=lambda n_done, _: tell(n_done, len(units))))
        finding = inquiry.answer(question, advice, units, score_cache, ratings)
        if finding is not None and finding.provisional and not work.stopped:
            if time.monotonic() - start > _SOON:
                yield _said(*answers.said(finding)[:2])
            work.do(partial(collect, units, tell=tell))
            finding = inquiry.answer(question, advice, units, score_cache, ratings)
        if finding is None:
            if not work.stopped:
                raise DpmcError("no held-out rating could be measured: take more ratings")
            document.clear()
            return
        document.update(answers.as_dict(finding))
        yield _said(*answers.said(finding))
        for plan in plans[1:]:  # over the fourteen epsilons, as far as they were computed
            pool = partial(sweep.LocalPool, plan.sources, min(jobs, len(plan.units)))
            if not work.stopped:
                work.do(partial(sweep.run, plan.units, rows, pool, on_progress=tell_curve))
            curve_seeds = {unit.seed for unit in plan.units}
            read_options = {"keys": plan.keys.curves, "epsilons": EPSILONS, "seeds": curve_seeds}
            chart = lines.read(rows, [id], question.metric, **read_options)
            curve = answers.curve(chart, id, reference)
            if curve:
                values = table(answers.curve_table(curve, chart), "  ")
                yield [values, *_said(answers.curve_words(curve, keep))]
            document["curve"] = [point._asdict() for point in curve]
            document["curve_seeds"] = len(curve_seeds)

    def tell_curve(report: sweep.SweepReport) -> None:
        n_other = total - report.total  # of seeds that the curve has not
        work.tell("curve", n_other + report.skipped + report.ended, total)

    previous_handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ExitStack() as stack:
            path = store
            if path is None:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="dpmc-answer-"))
                path = Path(folder, "results.sqlite")
            rows = stack.enter_context(Store(path))
            score_cache = inquiry.Kept() if store is None else inquiry.Kept.beside(rows.path)
            for block in told(rows, score_cache):
                if not (show.json or show.progress):
                    print(*block, "", sep="\n", flush=True)
            if show.json and document:
                write_json(document)
    finally:
        signal.signal(signal.SIGTERM, previous_handler)
    if work.stopped:
        if store is not None:
            print("dpmc: the same command goes on from there", file=sys.stderr)
        raise KeyboardInterrupt


def _said(*sentences: str) -> list[str]:
    return [paragraph(answers.plain(text)) for text in sentences if text]


class _Work:
    """Long work that tells its progress; Ctrl-C ends it, and what is there by then is kept."""

    def __init__(self, total: int, as_json: bool) -> None:
        self.stopped, self._total = False, total
        self._progress, self._lines = Progress(), SweepLines() if as_json else None
        self._seen: list[int] = []

    def do(self, work: Callable[[], object]) -> None:
        with self._progress:
            try:
                work()
            except KeyboardInterrupt:
                self.stopped = True

    def tell(self, task: str, n_done: int, total: int) -> None:
        if self._lines is None:
            if total:
                self._progress.update(task, n_done, total)
        elif not self._seen or n_done > self._seen[-1]:
            self._seen.append(n_done)
            first = self._seen[0]
            self._lines(sweep.SweepReport(self._total, skipped=first, done=n_done - first))


FROM_DATA = "from-data"
_LONG = 20.0  # seconds of drawing that are worth a word
Listed = tuple[Sequence[str], Sequence[str] | int]  # items; users, or how many
DeploymentCard = Annotated[
    Path | None,
    Option(
        "FILE.json",
        "write the card in the sections of the OpenDP deployments registry, null where only you can"
        " know",
    ),
]


def release(
    data: Data,
    mechanism: Method,
    *,
    budget: Budgeted,
    prepare: Steps = (),
    out: Path,
    reading: Reading,
    catalogue: str | None = None,
    users: str | None = None,
    outside: Outside = Outside.ERROR,
    deployment_card: DeploymentCard = None,
    json: Json = False,
) -> CommandReport:
    """Train with exact noise and write what may be published.

    Train on all ratings with exact noise from operating-system entropy, and write what the
    mechanism's card says is published, with that card.

    Args:
        out (FILE.npz): a new file
        catalogue (FILE|from-data): all items there are, one id a line; from-data: those with
            ratings, which tells what somebody rated
        users (N|FILE): with a catalogue: how many users there are, or a file of their ids
        outside: ratings of users or items that a catalogue lacks: an error (default), or left out
        json: the card as one JSON object instead of the report

    examples:
      dpmc release movie-night input-flip --epsilon 1 --prepare binarise=3.5 --out signs.npz
      dpmc release jokes private-item-mean --epsilon 1 --delta 1e-6 --out items.npz

    All ratings are used and none held out: nothing measured on them would be private. The file has
    the published arrays and the card (`card`, as JSON); numpy.load reads it. Refused, with the
    reason: preparation that reads the ratings (binarise=mean, top-items), noise without an exact
    sampler, and what has no finite certified epsilon. Needs the package opendp.

    The shape of a release tells which users and items there are, so this must be known without the
    ratings. Of samples and public sets it is. For a file of yours give --catalogue items.txt (one
    id a line) with --users N or users.txt, or say --catalogue from-data: then they are read off the
    ratings, and the card tells readers so. `dpmc verify FILE.npz` checks what was written.
    """
    made, steps = budget.mechanism(mechanism), steps_of(reading.prepare(prepare, mechanism))
    check_path(out)  # mistakes are told before a large file is read
    if deployment_card is not None:
        check_new(deployment_card)
    catalogue_lists = _catalogue(catalogue, users, outside)
    has_lists = isinstance(catalogue_lists, tuple)  # features are then those of all items listed
    first_reading = dataclasses.replace(reading, items=None) if has_lists else reading
    loaded = first_reading.load(data, made.task, prepare)
    check_person(loaded.ratings, data)
    listed_ratings, item_features = (
        _over(catalogue_lists, loaded.ratings, made, steps, outside),
        loaded.facts,
    )
    if has_lists and reading.items is not None:
        item_features = read_items(Source.file(reading.items), listed_ratings)
        listed_ratings = knowing(listed_ratings, item_features, told=True)
    if not uses_features(made, prepared_facts(listed_ratings.public, made.task, _shaping(steps))):
        if len(_shaping(steps)) < len(steps):
            print("what is published uses no item features: they are left out", file=sys.stderr)
        steps = _shaping(steps)
    ratings, prepared = prepare_all(listed_ratings, made.task, steps)
    check(made, ratings, prepared)  # noise that nobody can sample exactly is told first
    exact_noise.opendp()
    tell_columns(loaded.ratings, json)
    for fact in item_features:
        if fact.mark and fact.name in ratings.used:
            print(fact, file=sys.stderr)
    seconds = waiting(made, ratings)
    if seconds > _LONG:
        print(f"exact noise is slow: about {1 + seconds / 60:.0f} minutes", file=sys.stderr)
    with Progress() as progress:
        found = export(made, ratings, prepared, on_step=progress.step)
    write(found, out)
    _write_deployment_card(deployment_card, found)
    proved = cards.certified(found.guarantee.certified())
    noted = (
        f"Note this release: {date.today().isoformat()}, {loaded.name}, {made.id}, {proved},"
        f" {out.name}, sha256 {found.card['sha256'][:16]}"
    )
    if json:
        print(f"dpmc: {noted}", file=sys.stderr)
    rows = [("array", "shape", "what it is")]
    for name, line in found.card["arrays"].items():
        rows.append((name, " x ".join(map(str, found.arrays[name].shape)), line["what"]))
    head = f"Wrote {out}: {made.name}, {found.guarantee.publishes.value}"
    promise = card_text(cards.card(found.guarantee, sampled=True))
    files = f"{head}\n{table(rows, '  ')}"
    lines = "\n  ".join(reading_lines(found, out))
    use = f"To recommend for one user (Python):\n  {lines}" if lines else ""
    return CommandReport(found.card, (files, promise, *filter(None, (use, noted))))


def _write_deployment_card(path: Path | None, released: Export | Verified) -> None:
    """As JSON, whole or not at all. Raises DpmcError where there is such a file."""
    if path is not None:
        check_new(path)
        sections = deployment_sections(released.card, released.guarantee)
        text = dumps(sections, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        with whole_file(path) as partial_path:
            partial_path.write_text(text, encoding="utf-8")


def _catalogue(
    catalogue: str | None, users: str | None, outside_rule: Outside
) -> Listed | str | None:
    """What --catalogue and --users ask for, the files read. Raises DpmcError."""
    if catalogue is None or catalogue == FROM_DATA:
        if users is not None:
            raise InvalidSetting("--users", "given with --catalogue items.txt", users)
        if outside_rule is not Outside.ERROR:
            raise InvalidSetting(
                "--outside", "given with --catalogue items.txt", outside_rule.value
            )
        return catalogue
    if users is None:
        raise InvalidSetting(
            "--users", "given with --catalogue: how many there are, or a file of their ids", None
        )
    return read_ids(catalogue), parsed(int, users, "--users") if users.isdecimal() else read_ids(
        users
    )


def _shaping(steps: Sequence[Transform]) -> list[Transform]:
    """The steps that change ratings; the others choose item features."""
    return [step for step in steps if not isinstance(step, UseFacts)]


def _over(
    catalogue: Listed | str | None,
    ratings: Ratings,
    mechanism: Mechanism,
    steps: Sequence[Transform],
    outside_rule: Outside,
) -> Ratings:
    """The ratings over the catalogue; what is left out is said on standard error alone."""
    if catalogue is None:
        return ratings
    if isinstance(catalogue, str):
        return from_data(ratings)
    items, users = catalogue
    count = users if isinstance(users, int) else len(users)
    public_facts = dataclasses.replace(ratings.public, users=count, items=len(items))
    change = mechanism.guarantee(
        prepared_facts(public_facts, mechanism.task, _shaping(steps))
    ).change
    # Only their number is known: who is where must not tell who has ratings.
    shuffle = random.SystemRandom() if change.covers_existence else None
    restricted, left_out = on_catalogue(ratings, items, users, outside_rule, shuffle)
    if left_out:
        print(f"left out: {left_out} (for you alone: the file does not say so)", file=sys.stderr)
    return restricted


def verify(
    file: Path,
    *,
    deployment_card: DeploymentCard = None,
    allowed_signers: Path | None = None,
    signer: str | None = None,
) -> CommandReport:
    """Check a released file against its own card.

    Compute the certificate of a file that `dpmc release` wrote from its card alone, check its
    arrays, and say what it promises.

    Args:
        file (FILE.npz): a file that `dpmc release` wrote
        allowed_signers (FILE): whose signature counts (ssh-keygen)
        signer (NAME): who of them has to have signed (default: any)
        json: one JSON object instead of the report

    examples:
      dpmc verify items.npz
      dpmc verify items.npz --deployment-card card.json
      dpmc verify items.npz --allowed-signers allowed_signers

    Needs no ratings. From the mechanism, its settings and the public facts on the card it makes the
    file again but for the numbers, and refuses what is more, less or worded otherwise. It says what
    it cannot notice. With --allowed-signers the signature beside the file, FILE.npz.sig, is checked
    first, by ssh-keygen: a digest notices an accident, only a key a forger.
    """
    if deployment_card is not None:
        check_new(deployment_card)
    if signer is not None and allowed_signers is None:
        raise InvalidSetting("--signer", "given with --allowed-signers", signer)
    by = None
    try:
        if allowed_signers is not None:
            by = signed(file, allowed_signers, signer)
        found = verified(file)
    except NotVerified as error:
        return CommandReport({"verified": False, "faults": list(error.faults)}, (), error)
    _write_deployment_card(deployment_card, found)
    promise, release_card = cards.promise(found.guarantee), dict(found.card)
    sign, *other_limits = unnoticed(found)
    document = {
        "verified": True,
        "signer": by,
        "unnoticed": [sign] * (by is None) + other_limits,
        "promise": promise,
        "notes": list(found.notes),
        "card": release_card,
    }
    head = f"{file} is as its card says: {found.mechanism.name}, {found.guarantee.publishes.value}"
    notes = [f"Signed by {shown(by)}."] * (by is not None) + [*found.notes]
    limits = list(map(_dash, other_limits))
    if by is None:
        sign_commands = sign_lines(shlex.quote(str(file)))
        limits = [_dash(sign), *(f"      {line}" for line in sign_commands), *limits]
    return CommandReport(
        document,
        (
            *map(paragraph, (head, promise, *notes)),
            "\n".join(["What this cannot notice:", *limits]),
        ),
    )


def _dash(text: str) -> str:
    return paragraph(sentence(text), " " * 4, "  - ")
