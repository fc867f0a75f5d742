"""`dpmc sweep`: a grid of runs into the result store, resumed by running it again."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from dpmc_core import curves
from dpmc_core import sweep as core
from dpmc_core.cli import arguments, grids
from dpmc_core.cli.output import Progress
from dpmc_core.errors import DpmcError, InvalidSetting
from dpmc_core.store import Store
from dpmc_core.sweep import presets

EPILOG = """examples:
  dpmc sweep --data movie-night --mechanisms input-flip,output --epsilons 0.1:10:11 --seeds 1:5
  dpmc sweep --data u1.base --test u1.test --mechanisms output --epsilons 1 4 --set bound=0.1,1
  dpmc sweep --preset lwhm22-3b --jobs 2

Every finished run is a row of the store at once. Ctrl-C, a crash or a power cut lose none of them:
the same command goes on where it stopped. Rows do not depend on --jobs, --cluster or the order.

presets:
"""


def add_to(commands: Any) -> None:
    width = max(map(len, presets.PRESETS)) + 2
    listing = "\n".join(f"  {name:<{width}}{p.summary}" for name, p in presets.PRESETS.items())
    parser = commands.add_parser(
        "sweep",
        help="run a grid of mechanisms, epsilons and seeds",
        description="Run every combination of data, mechanism, settings, epsilon and seed, with"
        " the floor and the method without privacy beside them, and store each result.",
        epilog=EPILOG + listing,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--preset", metavar="NAME", help="a named grid; other options replace its parts")
    grids.add_to(parser)
    arguments.add_plugin(parser)
    add("--jobs", metavar="N", type=arguments.integer, help="processes (default: one per core)")
    add("--cluster", metavar="ADDRESS", help="a Dask scheduler instead, tcp://HOST:PORT")
    add("--store", metavar="FILE", type=Path, help="result store (default: the shared one)")
    add(
        "--curves",
        metavar="FOLDER",
        type=Path,
        help="when all is done, write each data set's curves there, as they ship with the samples",
    )
    add("--json", action="store_true", help="progress as JSON lines on standard output")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> None:
    grids.check(args)  # a wrong word is told before anything is read or started
    if args.cluster is None:
        core.warm_up()
    else:
        core.check_address(args.cluster)
        if args.plugin:
            limit = "left out with --cluster, whose workers know installed packages alone"
            raise InvalidSetting("--plugin", limit, args.plugin[0])
        # Dask reports every lost connection at length; what matters is said in a sentence
        quiet = dict.fromkeys(("distributed", "distributed.client"), "critical")
        os.environ.setdefault("DASK_DISTRIBUTED__LOGGING", repr(quiet))
    with Store(args.store) as store:
        plan = core.plan(grids.grid_of(args))
        if args.curves is not None:
            curves.check(plan)
            _make_folder(args.curves)
        jobs = min(args.jobs or core.default_jobs(), len(plan.units))

        def open_pool() -> core.LocalPool | core.ClusterPool:
            if args.cluster is not None:
                print(f"dpmc: connecting to {args.cluster} ...", file=sys.stderr, flush=True)
                return core.ClusterPool(args.cluster, plan.sources)
            return core.LocalPool(plan.sources, jobs)

        show = _Lines() if args.json else _Bar()
        try:
            with _stop_button() as stop:
                report = core.run(plan.units, store, open_pool, on_progress=show, stop=stop)
        finally:
            show.close()
        _conclude(report, store.path, args.json)
        if args.curves is not None:
            write_curves(curves.collect(store, plan), args.curves)


def write_curves(found: list[curves.Curves], folder: Path) -> None:
    """One CSV file per data set, named after it and what is predicted."""
    for one in found:
        path = folder / curves.file_name(one.stamp.data, curves.task_of(one))
        with path.open("w", encoding="utf-8", newline="") as stream:
            curves.write(one, stream)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidSetting("--curves", "a folder", f"{folder} ({error.strerror})") from None


def _conclude(report: core.Report, path: Path, as_json: bool) -> None:
    kept = report.done + report.skipped
    if report.stopped:
        print(
            f"dpmc: {kept:,} of {report.total:,} rows are kept in {path}; the same command goes on"
            " from there",
            file=sys.stderr,
        )
        raise KeyboardInterrupt
    if not as_json:
        print(f"{kept:,} rows ({report.done:,} new) in {path}")
    if report.failed:
        reasons = Counter(report.failed.values())
        first = {reason: unit for unit, reason in reversed(report.failed.items())}
        lines = [
            f"{first[reason]}{f' and {n - 1} more' if n > 1 else ''}: {reason}"
            for reason, n in reasons.items()
        ]
        count = len(report.failed)
        raise DpmcError(f"{count:,} of {report.total:,} units failed\n  " + "\n  ".join(lines))


class _Bar:
    """Progress on standard error, and what went wrong as soon as it did."""

    def __init__(self) -> None:
        self._progress, self._said = Progress(), {""}

    def __call__(self, report: core.Report) -> None:
        done, total = report.done + len(report.failed), report.total - report.skipped
        task = "sweep" if not report.skipped else f"sweep ({report.skipped:,} rows there before)"
        failures = [f"{unit}: {reason}" for unit, reason in report.failed.items()]
        reasons = [report.note, *report.failed.values()]
        for reason, words in zip(reasons, [report.note, *failures], strict=True):
            if reason not in self._said:
                self._said.add(reason)
                self._progress.close()
                print(f"dpmc: {words}", file=sys.stderr)
        if total:
            self._progress.update(task, done, total)

    def close(self) -> None:
        self._progress.close()


class _Lines:
    """The same for programs: a JSON object per line, whenever something changed."""

    def __init__(self) -> None:
        self._start, self._last = time.monotonic(), ""

    def __call__(self, report: core.Report) -> None:
        done = report.done + len(report.failed)
        left = report.total - report.skipped - done
        state = {
            "total": report.total,
            "skipped": report.skipped,
            "done": report.done,
            "failed": len(report.failed),
            "note": report.note,
        }
        if json.dumps(state) == self._last:
            return
        self._last = json.dumps(state)
        seconds = (time.monotonic() - self._start) / done * left if done else None
        sys.stdout.write(json.dumps(state | {"seconds_left": seconds}) + "\n")
        sys.stdout.flush()

    def close(self) -> None:
        """Every line is out already."""


@contextmanager
def _stop_button() -> Iterator[Any]:
    """Ctrl-C and SIGTERM ask to stop; a second one stops by force."""
    pressed = False

    def press(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    signals = [signal.SIGINT, signal.SIGTERM]
    before = [signal.signal(number, press) for number in signals]
    try:
        yield lambda: pressed
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
