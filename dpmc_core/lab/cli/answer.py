"""`dpmc answer`: what a promise costs on one's own ratings, and whether that is affordable."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from dpmc_core.data import Dataset
from dpmc_core.data.samples import SAMPLES
from dpmc_core.errors import DpmcError
from dpmc_core.lab import sweep
from dpmc_core.lab.cli import arguments, output
from dpmc_core.lab.cli.fit import noting
from dpmc_core.lab.store import Store
from dpmc_core.lab.study import answer as core
from dpmc_core.lab.study import ledger
from dpmc_core.lab.study.recommend import Advice
from dpmc_core.lab.sweep.presets import EPSILONS
from dpmc_core.lab.views import answer as words
from dpmc_core.lab.views import lines
from dpmc_core.model import Task
from dpmc_core.privacy import DELTA
from dpmc_core.problem import prepared_facts, usual_task
from dpmc_core.ratings import Ratings

EPILOG = """examples:
  dpmc answer bookshop-clicks
  dpmc answer ratings.csv --range 1:5 --epsilon 2 --often weekly --keep 80%
  dpmc answer clicks.csv --protect rating --reference 0.31 --json

Ctrl-C ends it with what is there. With --store, runs are kept and never computed twice."""


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "answer",
        help="what a promise costs on your ratings, and whether it is affordable",
        description="Run the recommended method beside the private floor and the reference without"
        " privacy, user by user, and say whether the loss is affordable; then the whole curve.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("data", metavar="DATA", help=arguments.DATA_HELP)
    add(
        "--protect",
        choices=[one.value for one in core.Protect],
        default="person",
        help="person: all of a person, server trusted (default); rating: each rating, even from"
        " the server",
    )
    add("--epsilon", metavar="E", type=arguments.number, default=1.0, help="default 1")
    add("--delta", metavar="D", type=arguments.number, default=DELTA, help="default 1e-6")
    add(
        "--often",
        metavar="OFTEN",
        default="weekly",
        help=f"how often one publishes: {arguments.OFTEN}, or times a year (default weekly)",
    )
    add(
        "--keep",
        metavar="SHARE",
        type=_share,
        default=0.8,
        help="share of what personalisation adds that must be left (default 80%%)",
    )
    add(
        "--reference",
        metavar="VALUE",
        type=arguments.number,
        help="what your own model reaches on the same split: share of users whose held-out item is"
        " among ten of all unseen ones, RMSE, or share of likes told right",
    )
    add(
        "--task",
        choices=[task.value for task in Task],
        help="what is predicted (default: ratings, or ranking where all are clicks)",
    )
    add("--seeds", metavar="N", nargs="+", help="splits and noise: 1,2,3 or FIRST:LAST")
    add("--no-curve", action="store_true", help="the epsilon asked about alone")
    add("--store", metavar="FILE", type=Path, help="keep the runs there, to go on from")
    arguments.add_split(parser)
    arguments.add_reading(parser)
    show = parser.add_mutually_exclusive_group()
    show.add_argument("--json", action="store_true", help="one JSON document")
    show.add_argument(
        "--progress", action="store_true", help="for programs: progress as JSON lines, no answer"
    )
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> None:
    seeds = core.SEEDS if args.seeds is None else sweep.parse_seeds(args.seeds)
    times = arguments.times_a_year("--often", args.often)
    tasks = [Task(args.task)] if args.task else []
    source = sweep.open_source(args.data, **arguments.reading_of(args, args.data, tasks))
    found = source.at(seeds[0])
    ratings = found.ratings if isinstance(found, Dataset) else found[0]
    question = core.Inquiry(
        task=tasks[0] if tasks else usual_task(ratings),
        protect=core.Protect(args.protect),
        epsilon=args.epsilon,
        delta=args.delta,
        times=times,
        keep=args.keep,
        reference=args.reference,
    )
    advice = question.advice(ratings.public)
    split = arguments.split_of(args)
    here = question.grid(advice, args.data, split=split, seeds=seeds)
    plan = sweep.plan(here, [source])
    curve = None
    if not args.no_curve:
        few = seeds[: core.CURVE]
        grid = question.grid(advice, args.data, split=split, seeds=few, epsilons=EPSILONS)
        curve = sweep.plan(grid, [source])
    _Run(args, question, advice, ratings, source, plan, curve).go()


class _Run:
    """Everything after the plan: what is told, run and shown, in that order."""

    def __init__(
        self,
        args: argparse.Namespace,
        question: core.Inquiry,
        advice: Advice,
        ratings: Ratings,
        source: sweep.SweepData,
        plan: sweep.Plan,
        curve: sweep.Plan | None,
    ) -> None:
        self.args, self.question, self.advice, self.ratings = args, question, advice, ratings
        self.source, self.plan, self.curve = source, plan, curve
        self.stopped = False
        self.lines = _Counter() if args.progress else None
        keys = {unit.key for one in (plan, curve) if one is not None for unit in one.units}
        self.total = len(keys)

    def go(self) -> None:
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            with ExitStack() as stack:
                path = self.args.store
                kept = core.Kept()
                if path is None:
                    name = stack.enter_context(tempfile.TemporaryDirectory(prefix="dpmc-answer-"))
                    path = Path(name, "results.sqlite")
                store = stack.enter_context(Store(path))
                if self.args.store is not None:
                    kept = core.Kept.beside(store.path)
                self._answer(store, kept)
        finally:
            signal.signal(signal.SIGTERM, before)
        if self.stopped:
            if self.args.store is not None:
                print("dpmc: the same command goes on from there", file=sys.stderr)
            raise KeyboardInterrupt

    def _answer(self, store: Store, kept: core.Kept) -> None:
        document: dict[str, Any] = {}
        told = core.told_apart(self.advice.mechanism, self.ratings)
        if told is not None:
            document["told_from_noise"] = {"items": told.items, "of": told.of}
            own = self.args.data not in SAMPLES
            rule = words.told_rule(self.question.task, self.question.protect)
            self._say(f"{words.told_words(told, self.question, own)}. {rule}")
        try:
            self._collect(store, kept)
        except KeyboardInterrupt:
            self.stopped = True
        if self.args.store is None:
            self._note(store)
        finding = core.answer(self.question, self.advice, self.plan.units, kept, self.ratings)
        if finding is None:
            if not self.stopped:
                raise DpmcError("no held-out rating could be measured: take more ratings")
            return
        document |= words.as_dict(finding)
        self._say(*words.said(finding))
        if self.curve is not None:
            document["curve"] = self._curve(store)
            document["curve_seeds"] = len({unit.seed for unit in self.curve.units})
            if self.args.store is None:
                self._note(store)
        if self.args.json:
            output.write_json(document)

    def _note(self, store: Store) -> None:
        """Put the runs of a store that does not last in the ledger."""
        units = [u for one in (self.plan, self.curve) if one is not None for u in one.units]
        there = store.present(unit.key for unit in units)
        public = prepared_facts(self.ratings.public, self.question.task)
        done = ledger.units_done((unit for unit in units if unit.key in there), public)
        noting(self.source.fingerprint, self.source.name, done)

    def _say(self, *sentences: str) -> None:
        if not (self.args.json or self.args.progress):
            for text in filter(None, sentences):
                print(output.paragraph(words.plain(text)))
            print(flush=True)

    def _collect(self, store: Store, kept: core.Kept) -> None:
        progress = output.Progress()
        try:
            core.collect(
                *(self.plan.units, self.source, kept),
                store=store,
                tell=lambda done, total: self._tell(progress, "answer", done, total),
            )
        finally:
            progress.close()

    def _tell(self, progress: output.Progress, task: str, done: int, total: int) -> None:
        if self.lines is not None:
            self.lines(done, self.total)
        elif total:
            progress.update(task, done, total)

    def _curve(self, store: Store) -> list[Mapping[str, Any]]:
        """What the fourteen epsilons keep, as far as they were computed."""
        plan = self.curve
        assert plan is not None
        if not self.stopped:
            progress = output.Progress()
            others = self.total - len(plan.units)  # of seeds that the curve has not

            def tell(report: sweep.SweepReport) -> None:
                done = others + report.skipped + report.done + len(report.failed)
                self._tell(progress, "curve", done, self.total)

            try:
                jobs = min(sweep.default_jobs(), len(plan.units))
                pool = partial(sweep.LocalPool, plan.sources, jobs)
                sweep.run(plan.units, store, pool, on_progress=tell)
            except KeyboardInterrupt:
                self.stopped = True
            finally:
                progress.close()
        id, metric = self.advice.mechanism.id, self.question.metric
        keys, seeds = plan.keys.curves, {unit.seed for unit in plan.units}
        picture = lines.read(store, [id], metric, keys=keys, epsilons=EPSILONS, seeds=seeds)
        found = words.curve(picture, id, self.question.reference)
        if found:
            columns = words.curve_table(found, picture)
            rows = [tuple(columns), *zip(*columns.values(), strict=True)]
            if not (self.args.json or self.args.progress):
                print(output.table(rows, indent="  "))
            self._say(words.curve_words(found, self.question.keep))
        return [one._asdict() for one in found]


class _Counter:
    """Progress for programs, as `dpmc sweep --json` tells it."""

    def __init__(self) -> None:
        self._start, self._first, self._last = time.monotonic(), -1, -1

    def __call__(self, done: int, total: int) -> None:
        if done <= self._last:
            return
        self._first = done if self._first < 0 else self._first
        self._last, new = done, done - self._first
        left = (time.monotonic() - self._start) / new * (total - done) if new else None
        state = {"total": total, "skipped": 0, "done": done, "failed": 0, "note": ""}
        sys.stdout.write(json.dumps(state | {"seconds_left": left}) + "\n")
        sys.stdout.flush()


def _share(text: str) -> float:
    """80% or 0.8."""
    number = arguments.number(text.strip().removesuffix("%"))
    return number / 100 if text.strip().endswith("%") else number
