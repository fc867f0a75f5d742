"""What a worker does: run one unit, remembering the data and solves that units share."""

from __future__ import annotations

import os
import signal
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from dpmc_core import experiment, plugins
from dpmc_core.data import parse_step
from dpmc_core.errors import DpmcError
from dpmc_core.experiment import Result, settings_dict
from dpmc_core.lab.store import Record, digest, every_unit, without_epsilon
from dpmc_core.lab.sweep import toplists
from dpmc_core.lab.sweep.grid import Unit
from dpmc_core.lab.sweep.sources import SweepData
from dpmc_core.model import Rounds
from dpmc_core.paths import version
from dpmc_core.problem import Problem, build_problem
from dpmc_core.ratings import Ratings

T = TypeVar("T")

LISTS_OF = 1  # the seed whose lists are kept
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class Memory:
    """The most recent problems and solves of a process, which may run units in several threads."""

    def __init__(self, size: int) -> None:
        self._size, self._lock = size, threading.RLock()
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        with self._lock:
            if key not in self._kept:
                while len(self._kept) >= self._size:  # before the new one takes its room
                    self._kept.popitem(last=False)
                self._kept[key] = make()
            self._kept.move_to_end(key)
            found: T = self._kept[key]
            return found


_sources: dict[str, SweepData] = {}
_problems = Memory(4)
_solves = Memory(2)


def start(
    sources: Mapping[str, SweepData], lifeline: Connection, files: Mapping[str, bytes]
) -> None:
    """Make ready a process that lives only as long as the other end of its lifeline is open."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches everybody; the parent decides
    threading.Thread(target=_follow, args=(lifeline,), daemon=True).start()
    _sources.update(sources)
    for path, source in files.items():  # the same text in every worker, whatever is on disk by now
        plugins.run(path, source)


def _follow(lifeline: Connection) -> None:
    with suppress(EOFError, OSError):
        lifeline.recv_bytes()
    os._exit(1)


def run_unit(unit: Unit, source: SweepData | None = None, pin: bool = False) -> Record | str:
    """The record of a unit, or the sentence that says why there is none.

    source: None in a process that `start` gave the data.
    pin: hold linear algebra to one thread, where the environment has not done so already.
    """
    try:
        if pin:
            _pin()
        return _record(unit, source or _sources[unit.source])
    except DpmcError as error:
        return str(error)
    except MemoryError:
        return "not enough memory; take smaller data or another method"
    except Exception as error:  # a fault of ours must not end a sweep of a thousand units
        return f"unexpected {type(error).__name__}: {error}"


def _record(unit: Unit, source: SweepData) -> Record:
    return run_here(unit, source)[1]


def run_here(unit: Unit, source: SweepData) -> tuple[Result, Record]:
    """What a unit finds in this process, and its record. Raises DpmcError."""
    key = unit.source, unit.steps, unit.split, unit.mechanism.task
    seed = unit.seed if source.per_seed or unit.split is not None else 0
    problem = _problems.get((*key, seed), lambda: problem_of(unit, source))
    result = experiment.run(
        unit.mechanism, problem, unit.seed, with_baselines=False, solve=shared_solve
    )
    record = result.as_dict()
    del record["baselines"], record["evaluation"], record["raw"]
    public = problem.train.public
    record["data"] |= {"source": unit.source, "title": source.title, "split": unit.tested}
    record["data"] |= {"low": public.low, "high": public.high, "cap": public.cap}
    record["data"]["prepared"] = list(problem.train.prepared)
    record["guarantee"] |= every_unit(result.guarantee)
    if unit.seed == LISTS_OF:
        record["lists"] = toplists.of(result.model, problem.train)
    return result, {"key": unit.key, "version": version(), **record}


def problem_of(unit: Unit, source: SweepData) -> Problem:
    """What a unit is trained and tested on."""
    steps = [parse_step(step) for step in unit.steps]
    return build_problem(
        source.at(unit.seed),
        unit.mechanism.task,
        steps=steps,
        split=unit.split,
        seed=unit.seed,
        name=source.name,
    )


def shared_solve(mechanism: Any, ratings: Ratings) -> Rounds:
    """The solve of a mechanism that adds its noise last, once for all its epsilons and seeds."""
    settings = without_epsilon(settings_dict(mechanism))
    key = digest(mechanism.id, mechanism.revision, settings, ratings.fingerprint)
    return _solves.get(key, lambda: tuple(mechanism.before_noise(ratings)))


def _pin() -> None:
    if all(os.environ.get(name) == "1" for name in THREADS[:2]):
        return
    with suppress(ImportError):
        from threadpoolctl import threadpool_limits

        threadpool_limits(limits=1)
        os.environ.update(dict.fromkeys(THREADS, "1"))
