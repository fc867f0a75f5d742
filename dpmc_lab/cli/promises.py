"""Answer inquiries, and release and verify models: `dpmc answer`, `release`, `verify`."""

from __future__ import annotations

import dataclasses
import hashlib
import random
import re
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property, partial
from json import dumps
from pathlib import Path
from typing import Annotated, Any

from dpmc_core.arrays import JsonObject
from dpmc_core.errors import (
    DpmcError,
    InvalidSetting,
    check_number,
    format_sentence,
    format_value,
    parse_number,
)
from dpmc_core.model import Mechanism
from dpmc_core.preparation import (
    OutsideRatings,
    Transform,
    UseItemFeatures,
    align_to_catalogue,
    declare_catalogue_public,
)
from dpmc_core.privacy import DEFAULT_DELTA, Certified, Guarantee, exact_noise
from dpmc_core.problem import choose_default_task, prepare_all_ratings, prepare_public_facts
from dpmc_core.ratings import Ratings
from dpmc_data import LoadedDataset
from dpmc_data.features import ItemFeature, attach_features, read_items
from dpmc_data.memory import MEGABYTE, measure_free_memory
from dpmc_data.paths import check_new_file, write_atomically
from dpmc_data.public_inputs import read_ids
from dpmc_data.source import Source
from dpmc_data.synthetic import SAMPLES
from dpmc_lab import sweep
from dpmc_lab.cli.interface import (
    CommandReport,
    ExclusiveOptions,
    Json,
    Option,
    Progress,
    build_reader,
    format_table,
    paragraph,
    read_number,
    report_end,
    typed_words,
    write_json,
)
from dpmc_lab.cli.methods import format_guarantee
from dpmc_lab.cli.options import (
    BudgetOptions,
    Data,
    Delta,
    Epsilon,
    HeldOutOptions,
    Method,
    Predicted,
    ReadingOptions,
    Seeds,
    Steps,
    check_user_column,
    parse_frequency,
    parse_steps,
    print_columns,
)
from dpmc_lab.cli.sweep import ProgressLines
from dpmc_lab.store import Store
from dpmc_lab.study import answer as inquiry
from dpmc_lab.study.advice import Advice, PrivacyUnit
from dpmc_lab.study.release import (
    HALF_LIFE,
    Export,
    Sequel,
    check_output_path,
    check_releasable,
    estimate_noise_seconds,
    export_release,
    list_reading_lines,
    uses_features,
    write_release,
)
from dpmc_lab.study.release import build_deployment_card as deployment_sections
from dpmc_lab.study.release_command import (
    CATALOGUE_FILE,
    FROM_DATA,
    ReleaseCommand,
    build_release_command,
)
from dpmc_lab.study.verify import (
    NotVerified,
    VerifiedRelease,
    list_signing_commands,
    list_unverifiable,
    read_earlier,
    verify_signature,
)
from dpmc_lab.study.verify import verify_release as verify_file
from dpmc_lab.views import answer as answers
from dpmc_lab.views import cards, lines
from dpmc_lab.views.text import format_count

# Of memory: of a process with the program, and for each rating, user and item. Measured with 300
# thousand and 3 million ratings (`python benchmarks/answer.py`).
_PROGRAM_BYTES, _RATING_BYTES, _ROW_BYTES = 150 * MEGABYTE, 120, 200
_MUCH_MEMORY = 500 * MEGABYTE  # no less is worth a line
_PROVISIONAL_SECONDS = 10.0  # a provisional answer is printed only if it took longer than this
OFTEN = ", ".join(answers.FREQUENCY_LABELS.values())


def _parse_share(text: str) -> float:
    """Parse 80% or 0.8."""
    value = read_number(text.strip().removesuffix("%"))
    return value / 100 if text.strip().endswith("%") else value


_parse_values = build_reader(
    lambda text: tuple(map(float, text.split(","))), "numbers separated by commas"
)


@dataclass(frozen=True, kw_only=True)
class AnswerFormat(ExclusiveOptions):
    """Options for the form of the answer.

    Args:
        json: one JSON document
        progress: print progress as JSON lines for programs, and no answer
    """

    json: bool = False
    progress: bool = False


@report_end("progress")
def answer_question(
    data: Data,
    *,
    protect: PrivacyUnit = PrivacyUnit.PERSON,
    epsilon: Epsilon = 1.0,
    delta: Delta = DEFAULT_DELTA,
    often: Annotated[
        str, Option("OFTEN", f"how often one publishes: {OFTEN}, or times a year (default weekly)")
    ] = "weekly",
    per: inquiry.BudgetPeriod = inquiry.BudgetPeriod.YEAR,
    keep: Annotated[float, Option(parse=_parse_share)] = 0.8,
    reference: Annotated[tuple[float, ...], Option(parse=_parse_values)] = (),
    write_split: Path | None = None,
    catalogue: str = CATALOGUE_FILE,
    facts: bool = False,
    task: Predicted = None,
    seeds: Seeds = None,
    no_curve: bool = False,
    store: Path | None = None,
    held_out: HeldOutOptions,
    reading: ReadingOptions,
    show: AnswerFormat,
) -> None:
    """Say what privacy costs on your ratings, and whether you can afford it.

    Run the recommended mechanism, its baseline and the best method without privacy, and compare
    them user by user. Then say whether the loss is affordable, print the command that publishes
    with the same promise, and compute the curve over epsilon.

    Args:
        protect: person: everything about a person, with a trusted server (default); rating: each
            rating, even against the server
        per: what epsilon and delta are for: all publications of a year together, or each
            publication
        keep (SHARE): share of the benefit of personal recommendations that you must keep (default
            80%)
        reference (VALUE,...): accuracy of your own model on the files of --write-split, one value
            or one for each seed: share of users whose held-out item is among ten suggestions, RMSE,
            or share of likes predicted right
        write_split (DIR): write the training and test ratings of each seed as CSV, and end
        catalogue (FILE|from-data): list of all items for the printed release, see dpmc release
        facts: use public facts about the items
        seeds: seeds of splits and noise: 1,2,3 or FIRST:LAST
        no_curve: compute only the given epsilon, not the curve
        store (FILE): store of the runs, to continue from

    examples:
      dpmc answer bookshop-clicks
      dpmc answer ratings.csv --range 1:5 --epsilon 2 --often weekly --keep 80%
      dpmc answer ratings.csv --range 1:5 --write-split splits
      dpmc answer clicks.csv --protect rating --seeds 1:3 --reference 0.31,0.3,0.32 --json

    Ctrl-C ends the command and prints what is known so far. With --store, runs are kept and never
    computed twice.
    """
    chosen_seeds = inquiry.SEEDS if seeds is None else sweep.parse_seeds(seeds)
    sweep.warm_up()
    times = parse_frequency(often)
    load_options = reading.load_options(data, task)
    with Progress() as progress:
        source = sweep.open_source(data, on_progress=progress.read, **load_options)
    ratings = sweep.load_training_ratings(source, chosen_seeds[0])
    check_user_column(ratings, data)
    print_columns(ratings, show.json or show.progress)
    question = inquiry.Inquiry(
        task=task or choose_default_task(ratings),
        privacy_unit=protect,
        epsilon=epsilon,
        delta=delta,
        times=times,
        per=per,
        keep=keep,
        reference=reference,
        with_item_features=facts or bool(reading.prepare(())),
    )
    question.match_references(chosen_seeds)
    advice = question.find_advice(ratings.public)
    grid = partial(question.build_grid, advice, data, split=held_out.split)
    plan = sweep.build_plan(grid(seeds=chosen_seeds), [source])
    plans = [plan._replace(units=inquiry.add_later_publications(question, plan.units))]
    if write_split is not None:
        if not isinstance(source, sweep.SplitSource):
            raise DpmcError(f"{data} has its own test ratings: measure your system on these")
        named_dataset, split = reading.load(data, task), plans[0].units[0].split
        inquiry.write_split_files(write_split, named_dataset, question.task, split, chosen_seeds)
        values = [f"VALUE{seed}" for seed in chosen_seeds]
        arguments = inquiry.build_arguments(
            question, data, chosen_seeds, load_options, held_out.split
        )
        command = shlex.join(["dpmc", *arguments, "--reference", ",".join(values)])
        if show.json:
            write_json({"folder": str(write_split), "command": command})
        else:
            description = answers.describe_split_files(question, str(write_split), chosen_seeds)
            print(*_wrap_sentences(description), command, sep="\n")
        return
    curve = question.calibrate_curve(advice.mechanism.id, ratings.public)
    if not no_curve:
        curve_seeds = chosen_seeds[: inquiry.N_CURVE_SEEDS]
        plans.append(sweep.build_plan(grid(seeds=curve_seeds, curve=curve), [source]))
    progress_lines = ProgressLines() if show.progress else None
    release = ReleaseCommand("", "Give all ratings in one file, without a file of test ratings.")
    if isinstance(source, sweep.SplitSource):
        release = build_release_command(
            advice.mechanism,
            ratings,
            data,
            load_options,
            question=question,
            catalogue=catalogue,
        )
    _announce_memory(ratings, 1 + sweep.count_cores())
    answer = _Answer(question, advice, curve, plans, source, ratings, release, progress_lines)
    previous_handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ExitStack() as stack:
            path = store
            if path is None:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="dpmc-answer-"))
                path = Path(folder, "results.sqlite")
            rows = stack.enter_context(Store(path))
            score_cache = (
                inquiry.UserScoreCache()
                if store is None
                else inquiry.UserScoreCache.from_store_path(rows.path)
            )
            for block in answer.compute_blocks(rows, score_cache, is_own_data=data not in SAMPLES):
                if not (show.json or show.progress):
                    print(*block, "", sep="\n", flush=True)
            if show.json and answer.document:
                write_json(answer.document)
    finally:
        signal.signal(signal.SIGTERM, previous_handler)
    if answer.stopped:
        if store is not None:
            print("dpmc: the same command goes on from there", file=sys.stderr)
        raise KeyboardInterrupt


def _announce_memory(ratings: Ratings, processes: int) -> None:
    """Say on standard error about how much memory training takes, where that is much.

    Every process has the program, and a copy of the split and of what mechanisms compute from it.
    """
    each = _PROGRAM_BYTES + _RATING_BYTES * len(ratings) + _ROW_BYTES * sum(ratings.public.shape)
    if (needed := processes * each) > _MUCH_MEMORY:
        print(
            f"training takes about {needed / MEGABYTE:,.0f} MB of memory;"
            f" {measure_free_memory() / MEGABYTE:,.0f} MB are free",
            file=sys.stderr,
        )


def _wrap_sentences(*sentences: str) -> list[str]:
    """Return each sentence that is not empty as a wrapped paragraph without marks of bold."""
    return [paragraph(answers.strip_bold(text)) for text in sentences if text]


@dataclass
class _Answer:
    """The computation of an answer; Ctrl-C ends its runs, and what is known so far remains.

    Attributes:
        question: the inquiry.
        advice: the recommended mechanism.
        curve: the mechanism at each budget of the curve.
        plans: of the runs at the requested epsilon, and of the curve if it is wanted.
        source: of the data.
        ratings: training ratings of the first seed.
        release: the command that publishes with the same promise.
        lines: writes progress as JSON lines, for programs; None for a bar.
        document: the answer as plain JSON values; empty until there is one.
        stopped: whether Ctrl-C has ended the runs.
    """

    question: inquiry.Inquiry
    advice: Advice
    curve: Mapping[float, Mechanism]
    plans: Sequence[sweep.Plan]
    source: sweep.SweepData
    ratings: Ratings
    release: ReleaseCommand
    lines: ProgressLines | None
    document: JsonObject = field(default_factory=dict)
    stopped: bool = False
    _jobs: int = field(default_factory=sweep.count_cores)
    _progress: Progress = field(default_factory=Progress)
    _done_counts: list[int] = field(default_factory=list)  # increasing, as reported

    @cached_property
    def n_units(self) -> int:
        """Return the number of units of all plans."""
        return len({unit.key for plan in self.plans for unit in plan.units})

    def compute_blocks(
        self, rows: Store, cache: inquiry.UserScoreCache, *, is_own_data: bool
    ) -> Iterator[list[str]]:
        """Yield blocks of lines as parts of the answer become available, and fill the document.

        Args:
            rows: store of the runs.
            cache: scores of the runs by user.
            is_own_data: whether the data are the visitor's own.

        Raises:
            DpmcError: nothing could be measured.
        """
        yield from self._describe_distinguishable_items(is_own_data)
        start = time.monotonic()
        plan, curve_plan = self.plans[0], self.plans[-1]
        # Programs that watch the progress get a coarse curve first.
        coarse_units = (
            inquiry.select_coarse_units(curve_plan.units, self.advice.mechanism.id, self.curve)
            if self.lines
            else []
        )
        units = [*{unit.key: unit for unit in [*coarse_units, *plan.units]}.values()]
        # Two seeds give a provisional answer.
        first_seeds = [*dict.fromkeys(unit.seed for unit in plan.units)][:2]
        self._run_units([unit for unit in units if unit.seed in first_seeds], units, rows, cache)
        finding = self._find(cache)
        if finding is not None and finding.provisional and not self.stopped:
            if time.monotonic() - start > _PROVISIONAL_SECONDS:
                yield _wrap_sentences(*answers.format_answer(finding)[:2])
            self._run_units(units, units, rows, cache)
            finding = self._find(cache)
        if finding is None:
            if not self.stopped:
                raise DpmcError("no held-out rating could be measured: take more ratings")
            self.document.clear()
            return
        self.document.update(answers.serialise_finding(finding))
        self.document["release"] = self.release._asdict()
        yield _wrap_sentences(*answers.format_answer(finding))
        if curve_plan is not plan:
            yield from self._compute_curve(curve_plan, rows)
        # The command comes last, and in one line, so that it can be copied.
        introduction = answers.introduce_release(finding, self.release)
        commands = self.release.command, self.release.next
        yield [*_wrap_sentences(introduction), *filter(None, commands)]

    def _describe_distinguishable_items(self, is_own_data: bool) -> Iterator[list[str]]:
        """Yield how many items the noise leaves distinguishable, which needs no run."""
        question = self.question
        items = inquiry.count_distinguishable_items(self.advice.mechanism, self.ratings)
        if items is not None:
            self.document["told_from_noise"] = {
                "items": items.n_distinguishable,
                "of": items.n_items,
            }
            sentence = answers.format_distinguishable_items(
                items, self.advice.mechanism, is_own_data
            )
            explanation = answers.explain_distinguishable_items(question.task)
            yield _wrap_sentences(f"{sentence}. {explanation}")

    def _find(self, cache: inquiry.UserScoreCache) -> inquiry.Finding | None:
        """Return the answer from the seeds that are complete; None before the first."""
        units = self.plans[0].units
        return inquiry.compute_finding(self.question, self.advice, units, cache, self.ratings)

    def _run_units(
        self,
        units: Sequence[sweep.Unit],
        all_units: Sequence[sweep.Unit],
        rows: Store,
        cache: inquiry.UserScoreCache,
    ) -> None:
        """Run those of some units that are missing, and show them as a part of all units."""
        self._run(
            inquiry.run_missing_units,
            units,
            source=self.source,
            cache=cache,
            store=rows,
            jobs=self._jobs,
            report_progress=lambda n, _: self._report_progress("answer", n, len(all_units)),
        )

    def _compute_curve(self, plan: sweep.Plan, rows: Store) -> Iterator[list[str]]:
        """Compute the curve over all epsilons, and yield it as far as it could be computed."""
        id, metric = self.advice.mechanism.id, self.question.metric
        pool = partial(sweep.LocalPool, plan.sources, min(self._jobs, len(plan.units)))
        if not self.stopped:
            self._run(sweep.run, plan.units, rows, pool, on_progress=self._report_curve)
        seeds = {unit.seed for unit in plan.units}
        curve_rows = lines.load_curve_rows(rows, [id], [metric], keys=plan.keys.curves, seeds=seeds)
        chart = answers.place_on_budgets(
            lines.build_curve_chart(curve_rows, [id], metric), self.curve
        )
        curve = answers.list_gains_by_epsilon(chart, self.question, self.curve)
        if curve:
            values = format_table(answers.tabulate_gains(curve, chart), "  ")
            yield [values, *_wrap_sentences(answers.SEEDS_NOTE)]
        self.document["curve"] = [point._asdict() for point in curve]
        self.document["curve_seeds"] = len(seeds)

    def _run(self, work: Callable[..., object], *args: Any, **options: Any) -> None:
        """Do some of the work; Ctrl-C ends it and sets `stopped`."""
        with self._progress:
            try:
                work(*args, **options)
            except KeyboardInterrupt:
                self.stopped = True

    def _report_curve(self, report: sweep.SweepReport) -> None:
        """Report the progress of the curve, counting all units of the answer."""
        n_other = self.n_units - report.total  # units of seeds that are not part of the curve
        n_done = n_other + report.skipped + report.n_ended
        self._report_progress("curve", n_done, self.n_units)

    def _report_progress(self, task: str, n_done: int, total: int) -> None:
        """Show the progress of a task, as a bar or as lines for programs."""
        if self.lines is None:
            if total:
                self._progress.update(task, n_done, total)
        elif not self._done_counts or n_done > self._done_counts[-1]:
            self._done_counts.append(n_done)
            first = self._done_counts[0]
            self.lines(sweep.SweepReport(self.n_units, skipped=first, done=n_done - first))


_SLOW_SECONDS = 20.0  # if drawing noise takes longer, the time is announced
CatalogueLists = tuple[Sequence[str], Sequence[str] | int]  # ids of items; ids or number of users
DeploymentCard = Annotated[
    Path | None,
    Option(
        "FILE.json",
        "write the card in the sections of the OpenDP deployments registry, null where only you can"
        " know",
    ),
]


def make_release(
    data: Data,
    mechanism: Method,
    *,
    settings: BudgetOptions,
    prepare: Steps = (),
    out: Path,
    after: list[Path] | None = None,
    half_life: Annotated[float, Option("WEEKS")] = HALF_LIFE,
    budget: Annotated[float | None, Option("EPSILON")] = None,
    reading: ReadingOptions,
    catalogue: str | None = None,
    users: str | None = None,
    outside: OutsideRatings = OutsideRatings.ERROR,
    deployment_card: DeploymentCard = None,
    json: Json = False,
) -> CommandReport:
    """Train with exact noise and write a file that may be published.

    Train on all ratings with exact noise from operating-system entropy. Write the arrays that the
    mechanism publishes, together with its privacy card.

    Args:
        out (FILE.npz): the file to write; it must not exist
        after (FILE.npz): all earlier releases of ratings of the same people: what they spent is
            added, and private-effects averages its noisy statistics with theirs
        half_life: with --after: the age at which an earlier release weighs half, as tastes drift
        budget: refuse to release where this and all releases of --after add up to more
        catalogue (FILE|from-data): list of all items, one id per line; from-data: the items with
            ratings, which reveals that somebody rated them
        users (N|FILE): with a catalogue: the number of users, or a file with their ids
        outside: what to do with ratings of users or items outside the catalogue: stop with an error
            (default), or leave them out
        json: print the card as one JSON object instead of the report

    examples:
      dpmc release movie-night input-flip --epsilon 1 --prepare binarise=3.5 --out signs.npz
      dpmc release jokes private-item-mean --epsilon 1 --delta 1e-6 --out items.npz
      dpmc release jokes private-effects --epsilon 0.1 --after w1.npz w2.npz --out w3.npz --budget 1

    The command uses all ratings and holds none out, because a measurement on them would not be
    private. The file contains the published arrays and the card (`card`, as JSON); numpy.load reads
    it. The command refuses preparation that reads the ratings (binarise=mean, top-items), noise
    without an exact sampler, and mechanisms without a proved epsilon. It needs the package opendp.

    The shape of a release reveals which users and items exist, so this must be known without the
    ratings. For samples and public sets it is known. For your own file, give --catalogue items.txt
    (one id per line) with --users N or users.txt. With --catalogue from-data, users and items come
    from the ratings, and the card says so. `dpmc verify FILE.npz` checks the file.

    Releases of ratings of the same people add up. The sum counts what --after names, and what those
    files name. The command cannot know of other releases, nor whether the named ones were of the
    same people. It names releases in the folder of --out that --after leaves out. Of an earlier
    release it reads the file alone, which is public: that costs no privacy.
    """
    built_mechanism = settings.mechanism(mechanism)
    sequel = Sequel(read_earlier(after or ()), half_life, budget)
    check_number("--half-life", half_life, above=0)
    steps = parse_steps(reading.prepare(prepare, mechanism))
    check_output_path(out)  # reports mistakes before a large file is read
    if deployment_card is not None:
        check_new_file(deployment_card)
    catalogue_lists = _read_catalogue(catalogue, users, outside)
    loaded, listed_ratings, item_features = _read_listed_ratings(
        data,
        reading,
        prepare,
        catalogue_lists=catalogue_lists,
        mechanism=built_mechanism,
        steps=steps,
        outside_rule=outside,
    )
    rating_steps = _select_rating_steps(steps)
    facts = prepare_public_facts(listed_ratings.public, built_mechanism.task, rating_steps)
    if not uses_features(built_mechanism, facts):
        if len(rating_steps) < len(steps):
            print("what is published uses no item features: they are left out", file=sys.stderr)
        steps = rating_steps
    ratings, prepared = prepare_all_ratings(listed_ratings, built_mechanism.task, steps)
    # Noise without an exact sampler is refused before anything else is loaded.
    check_releasable(built_mechanism, ratings, prepared)
    exact_noise.load_opendp()
    print_columns(loaded.ratings, json)
    for feature in item_features:
        if feature.mark and feature.name in ratings.used_feature_names:
            print(feature, file=sys.stderr)
    _announce_memory(ratings, 1)
    seconds = estimate_noise_seconds(built_mechanism, ratings)
    if seconds > _SLOW_SECONDS:
        print(f"exact noise is slow: about {1 + seconds / 60:.0f} minutes", file=sys.stderr)
    for path in sequel.find_unnamed(out.parent, ratings.public):
        print(
            f"{path} is a release that --after does not name: if it is of the same people, both"
            " add up, and the new card does not say so",
            file=sys.stderr,
        )
    with Progress() as progress:
        exported = export_release(built_mechanism, ratings, prepared, progress.step, sequel)
    write_release(exported, out)
    _write_deployment_card(deployment_card, exported)
    proved = cards.format_certified(exported.guarantee.certified())
    note = (
        f"Note this release: {date.today().isoformat()}, {loaded.name}, {built_mechanism.id},"
        f" {proved}, {out.name}, sha256 {exported.release_card['sha256'][:16]}"
    )
    if json:
        print(f"dpmc: {note}", file=sys.stderr)
    next_command = _format_next_command(typed_words, [*(after or ()), out])
    following = (
        f"Check it, then publish it:\n  dpmc verify {shlex.quote(str(out))}",
        f"The next release of these ratings:\n  {next_command}",
    )
    return CommandReport(
        exported.release_card,
        (*_list_release_paragraphs(exported, built_mechanism, out), note, *following),
    )


def _format_next_command(words: Sequence[str], earlier: Sequence[Path]) -> str:
    """Return the command of the next release, which follows this one and those before it.

    Args:
        words: the command as it was typed.
        earlier: the files that the next release follows.
    """
    value = r"[ =](?!--)(?:'[^']*'|\S+)"
    dropped = rf" --(?:out|deployment-card){value}| --after(?:{value})+"
    command = re.sub(dropped, "", shlex.join(["dpmc", *words]))
    return f"{command} {shlex.join(['--after', *map(str, earlier)])} --out NEXT.npz"


def _read_listed_ratings(
    data: Data,
    reading: ReadingOptions,
    prepare: Steps,
    *,
    catalogue_lists: CatalogueLists | str | None,
    mechanism: Mechanism,
    steps: Sequence[Transform],
    outside_rule: OutsideRatings,
) -> tuple[LoadedDataset, Ratings, tuple[ItemFeature, ...]]:
    """Read the data, and bring ratings and item features to the catalogue.

    Args:
        data: as typed.
        reading: how files are read.
        prepare: what --prepare gives, which decides how a file is read.
        catalogue_lists: the lists of the catalogue; see `_apply_catalogue`.
        mechanism: the mechanism to train.
        steps: the preparation.
        outside_rule: what happens to ratings of other users and items.

    Returns:
        The data as read, the ratings over the catalogue, and the columns of the table of items.

    Raises:
        DpmcError: the data cannot be read, or do not fit the catalogue.
    """
    # With a list of items, features are read for all items of the list, not only for rated ones.
    has_lists = isinstance(catalogue_lists, tuple)
    first_reading = dataclasses.replace(reading, items=None) if has_lists else reading
    loaded = first_reading.load(data, mechanism.task, prepare)
    check_user_column(loaded.ratings, data)
    listed_ratings = _apply_catalogue(
        catalogue_lists, loaded.ratings, mechanism, steps, outside_rule
    )
    item_features = loaded.item_features
    if has_lists and reading.items is not None:
        item_features = read_items(Source.from_file(reading.items), listed_ratings)
        listed_ratings = attach_features(listed_ratings, item_features, with_digest=True)
    return loaded, listed_ratings, item_features


def _list_release_paragraphs(exported: Export, mechanism: Mechanism, out: Path) -> list[str]:
    """Return what was written, what it promises and how to use it, each as a paragraph."""
    table = [
        ("array", "shape", "what it is"),
        *(
            (name, " x ".join(map(str, exported.arrays[name].shape)), entry["what"])
            for name, entry in exported.release_card["arrays"].items()
        ),
    ]
    head = f"Wrote {out}: {mechanism.name}, {exported.guarantee.publishes.value}"
    promise = format_guarantee(cards.build_privacy_card(exported.guarantee, sampled=True))
    paragraphs = [f"{head}\n{format_table(table, '  ')}", promise]
    paragraphs += _describe_sum(exported.release_card, exported.guarantee)
    if code_lines := list_reading_lines(exported, out):
        code = "\n  ".join(code_lines)
        paragraphs.append(f"To recommend for one user (Python):\n  {code}")
    return paragraphs


def _describe_sum(release_card: Mapping[str, Any], guarantee: Guarantee) -> list[str]:
    """Return a paragraph on what a release and those that it follows spend together, if it does."""
    after = release_card.get("after")
    if not after:
        return []
    change, n_averaged = guarantee.change, sum(r["averaged"] for r in after["releases"])
    return [
        paragraph(
            f"With {format_count(len(after['releases']), 'earlier release')} on its card:"
            f" {cards.format_certified(Certified(change, **after['total']))}, for a person who is"
            f" in all of them. It averages its noisy statistics with those of {n_averaged}. It"
            " cannot know of releases that are not on the card, nor whether these were of the same"
            " people."
        )
    ]


def _write_deployment_card(path: Path | None, released: Export | VerifiedRelease) -> None:
    """Write a release's deployment card as JSON; nothing without a path.

    Raises:
        DpmcError: the file exists already.
    """
    if path is not None:
        check_new_file(path)
        sections = deployment_sections(released.release_card, released.guarantee)
        text = dumps(sections, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        with write_atomically(path) as partial_path:
            partial_path.write_text(text, encoding="utf-8")


def _read_catalogue(
    catalogue: str | None, users: str | None, outside_rule: OutsideRatings
) -> CatalogueLists | str | None:
    """Read the lists of a catalogue; without a file of items, return `catalogue` as it was typed.

    Args:
        catalogue: what --catalogue gives: a file of items, FROM_DATA, or None.
        users: what --users gives: how many there are, or a file of their ids.
        outside_rule: what --outside gives.

    Raises:
        DpmcError: a file cannot be used.
    """
    if catalogue is None or catalogue == FROM_DATA:
        if users is not None:
            raise InvalidSetting("--users", "given with --catalogue items.txt", users)
        if outside_rule is not OutsideRatings.ERROR:
            raise InvalidSetting(
                "--outside", "given with --catalogue items.txt", outside_rule.value
            )
        return catalogue
    if users is None:
        raise InvalidSetting(
            "--users", "given with --catalogue: how many there are, or a file of their ids", None
        )
    return read_ids(catalogue), parse_number(
        int, users, "--users"
    ) if users.isdecimal() else read_ids(users)


def _select_rating_steps(steps: Sequence[Transform]) -> list[Transform]:
    """Return the steps that change ratings, without those that choose item features."""
    return [step for step in steps if not isinstance(step, UseItemFeatures)]


def _apply_catalogue(
    catalogue: CatalogueLists | str | None,
    ratings: Ratings,
    mechanism: Mechanism,
    steps: Sequence[Transform],
    outside_rule: OutsideRatings,
) -> Ratings:
    """Return the ratings over the given catalogue, and print what is left out.

    Args:
        catalogue: the lists of a catalogue, FROM_DATA, or None for that of the ratings.
        ratings: the ratings.
        mechanism: the mechanism, whose guarantee decides whether users are shuffled.
        steps: the preparation.
        outside_rule: what happens to ratings of other users and items.
    """
    if catalogue is None:
        return ratings
    if isinstance(catalogue, str):
        return declare_catalogue_public(ratings)
    items, users = catalogue
    count = users if isinstance(users, int) else len(users)
    public_facts = dataclasses.replace(ratings.public, users=count, items=len(items))
    change = mechanism.guarantee(
        prepare_public_facts(public_facts, mechanism.task, _select_rating_steps(steps))
    ).change
    # If the existence of ratings is protected, the order of users must not reveal who has some, so
    # users are shuffled.
    shuffle = random.SystemRandom() if change.covers_existence else None
    restricted, left_out = align_to_catalogue(ratings, items, users, outside_rule, shuffle)
    if left_out:
        print(f"left out: {left_out} (for you alone: the file does not say so)", file=sys.stderr)
    return restricted


def check_release_file(
    file: Path,
    *,
    deployment_card: DeploymentCard = None,
    allowed_signers: Path | None = None,
    signer: str | None = None,
) -> CommandReport:
    """Check a released file against its own privacy card.

    Check a file that `dpmc release` wrote: compute its guarantee again from its card, compare its
    arrays, and say what it promises.

    Args:
        file (FILE.npz): a file that `dpmc release` wrote
        allowed_signers (FILE): file of allowed signers for ssh-keygen
        signer (NAME): the required signer (default: any of them)
        json: one JSON object instead of the report

    examples:
      dpmc verify items.npz
      dpmc verify items.npz --deployment-card card.json
      dpmc verify items.npz --allowed-signers allowed_signers

    The command needs no ratings. It derives everything but the numbers from the mechanism, its
    settings and the public facts on the card, and refuses any difference. It lists what it cannot
    notice. With --allowed-signers, ssh-keygen first checks the signature FILE.npz.sig: a digest
    detects an accident, but only a key detects a forger.
    """
    if deployment_card is not None:
        check_new_file(deployment_card)
    if signer is not None and allowed_signers is None:
        raise InvalidSetting("--signer", "given with --allowed-signers", signer)
    signed_by = None
    try:
        if allowed_signers is not None:
            signed_by = verify_signature(file, allowed_signers, signer)
        verification = verify_file(file)
    except NotVerified as error:
        return CommandReport({"verified": False, "faults": list(error.faults)}, (), error)
    _write_deployment_card(deployment_card, verification)
    promise = cards.describe_promise(verification.guarantee)
    release_card = dict(verification.release_card)
    sign, *other_limits = list_unverifiable(verification)
    document = {
        "verified": True,
        "signer": signed_by,
        "unnoticed": [sign] * (signed_by is None) + other_limits,
        "promise": promise,
        "notes": list(verification.notes),
        "card": release_card,
    }
    head = (
        f"{file} is as its card says: {verification.mechanism.name},"
        f" {verification.guarantee.publishes.value}"
    )
    notes = [f"Signed by {format_value(signed_by)}."] * (signed_by is not None) + [
        *verification.notes
    ]
    notes += _describe_sum(release_card, verification.guarantee)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    document["sha256"] = digest
    notes.append(f"SHA-256 of the file: {digest}")
    limits = list(map(_format_item, other_limits))
    if signed_by is None:
        sign_commands = list_signing_commands(shlex.quote(str(file)))
        limits = [_format_item(sign), *(f"      {line}" for line in sign_commands), *limits]
    return CommandReport(
        document,
        (
            *map(paragraph, (head, promise, *notes)),
            "\n".join(["What this cannot notice:", *limits]),
        ),
    )


def _format_item(text: str) -> str:
    """Return a sentence as an entry of a list."""
    return paragraph(format_sentence(text), " " * 4, "  - ")
