"""A Dask cluster: its workers run units of a sweep, or hold the users of a fit in partitions.

Nothing else knows Dask: a sweep knows a pool, a fit knows sums over users (`ratings.Here`). A
function of one partition depends on its arguments alone, so running it again changes nothing.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from dpmc_core import registry
from dpmc_core.arrays import Floats, Rng
from dpmc_core.data import Implicit, ReadOptions
from dpmc_core.data.source import Source
from dpmc_core.errors import BadRatings, DpmcError, InvalidSetting, check_number, number_text
from dpmc_core.metrics import counted
from dpmc_core.model import Mechanism, Task
from dpmc_core.paths import version
from dpmc_core.problem import Problem, RandomShare, Split, default_split, generator, prepared_facts
from dpmc_core.ratings import ColumnRoles, Here, PublicFacts
from dpmc_core.stopping import check_cancelled
from dpmc_lab.store import Record, digest
from dpmc_lab.sweep import partitions
from dpmc_lab.sweep.engine import run_unit
from dpmc_lab.sweep.grid import Unit
from dpmc_lab.sweep.sources import SweepData

REACHING = 10.0  # seconds to reach a scheduler, and to wait for its first worker
_ADDRESS = re.compile(r"(tcp|tls)://(\[[\w:.%]+\]|[^\s:/@\[\]]+):(\d{1,5})")


def check_address(address: str) -> None:
    """Raise InvalidSetting unless it is the address of a scheduler as Dask prints it."""
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match[3]) < 2**16:
        raise InvalidSetting("--cluster", "tcp://HOST:PORT or tls://HOST:PORT", address)


def connect(address: str) -> Any:
    """A client of a running Dask scheduler whose workers have this program. Raises DpmcError."""
    check_address(address)
    # Dask reports every lost connection at length.
    log_levels = dict.fromkeys(("distributed", "distributed.client"), "critical")
    os.environ.setdefault("DASK_DISTRIBUTED__LOGGING", repr(log_levels))
    try:
        from distributed import Client
    except ImportError:
        advice = "run 'pip install \"dpmc-lab[cluster]\"', or leave --cluster out"
        raise DpmcError(f"a cluster needs Dask: {advice}") from None
    client: Any = object.__new__(Client)  # in two steps: half a client has to be closed
    try:
        client.__init__(address, timeout=REACHING, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        client.status = "closed"  # else it says goodbye for 20 s when it is collected
        advice = "start it with 'dask scheduler' and 'dask worker', or leave --cluster out"
        raise DpmcError(f"the cluster at {address} cannot be reached ({error}): {advice}") from None
    try:
        _check_workers(client, address)
    except BaseException:
        client.close()
        raise
    return client


class ClusterPool:
    """The workers of a running Dask scheduler."""

    def __init__(self, address: str, sources: Mapping[str, SweepData]) -> None:
        self._client = connect(address)
        try:
            self.size = sum(self._client.nthreads().values())
            self._data = {
                fingerprint: self._client.scatter(source, broadcast=True, hash=False)
                for fingerprint, source in sources.items()
            }
        except BaseException:
            self._client.close()
            raise
        self._running: dict[Future[Record | str], Any] = {}

    def submit(self, unit: Unit) -> Future[Record | str]:
        # Dask's own executor never answers where the scheduler is lost before a result arrives.
        future: Future[Record | str] = Future()

        def finish(task: Any) -> None:
            self._running.pop(future, None)
            try:
                if task.status == "error":
                    future.set_exception(task.exception(timeout=REACHING))
                else:
                    future.set_result(task.result(timeout=REACHING))
            except Exception:  # cancelled, or no longer to be had
                future.set_exception(CancelledError())

        task = self._client.submit(run_unit, unit, self._data[unit.source], True, pure=False)
        if self._client.status != "running":  # looking for its scheduler; this one got lost
            raise BrokenExecutor("the connection to the cluster was lost")
        self._running[future] = task
        task.add_done_callback(finish)
        return future

    def close(self, *, at_once: bool) -> None:
        with suppress(Exception):  # the scheduler may be gone
            if at_once:
                self._client.cancel(list(self._running.values()))
            else:
                wait(list(self._running))
        with suppress(Exception):
            self._data.clear()
            self._client.close()


def _check_workers(client: Any, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=REACHING)
    except TimeoutError:
        advice = f"start some with 'dask worker {address}'"
        raise DpmcError(f"the cluster at {address} has no workers: {advice}") from None
    try:
        there = {*client.run(version).values(), client.run_on_scheduler(version)}
    except Exception as error:
        why = f"the scheduler and the workers of {address} cannot load this program"
        raise DpmcError(f"{why} ({type(error).__name__}): install dpmc-lab {version()}") from None
    if there != {version()}:
        found = f"{address} runs version {' and '.join(sorted(there))} of dpmc-lab"
        raise DpmcError(f"{found}, and this is {version()}: install the same everywhere")


# --- one fit on users in partitions -----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Parts(Here):
    """What workers hold of the users of each partition.

    parts: a future of each; Dask computes it again, from its file if need be, where its worker is
    lost. Of ratings: their number and fingerprint.
    """

    client: Any
    parts: Sequence[Any]
    public: PublicFacts
    count: int = 0
    fingerprint: str = ""
    columns: ColumnRoles = field(default_factory=ColumnRoles)
    prepared: ClassVar[tuple[str, ...]] = ()

    def __len__(self) -> int:
        return self.count

    @property
    def features(self) -> Floats:
        return np.zeros((self.public.items, 0))

    def map(self, function: Callable[..., Any], *state: Any) -> Parts:
        # State is a task of its own: it travels once, and is there again where a worker is lost.
        call = _submit(self.client, pickle.loads, pickle.dumps((function, state)))
        return replace(
            self,
            parts=[
                _submit(self.client, partitions.apply, partition, call) for partition in self.parts
            ],
        )

    def total(self, function: Callable[..., Any], *state: Any) -> Any:
        # In pairs, always the same ones: each partition counts once, in whatever order they end.
        sums = self.map(function, *state).parts
        while len(sums) > 1:
            pairs = (sums[k : k + 2] for k in range(0, len(sums), 2))
            sums = [_submit(self.client, partitions.added, *two) for two in pairs]
        return _result(sums[0])

    def model(self, function: Callable[..., Any], *state: Any) -> Any:
        return PartsModel(self, function, state)


class PartsModel(NamedTuple):
    """A model of which each partition has that of its users: function(partition, *state)."""

    parts: Parts
    function: Callable[..., Any]
    state: tuple[Any, ...]
    factors: None = None

    def predict(self, *_: Any) -> Floats:
        raise DpmcError("what is predicted for users stays with their partition")


class PartsProblem(Problem):
    """Training and test ratings of users in partitions, measured where they are."""

    def check(self, task: Task) -> None:
        pass

    def evaluate(self, task: Task, model: Any, rng: Rng) -> dict[str, float]:  # noqa: ARG002
        test: Any = self.test
        pairs = zip(model.parts.parts, test.parts, strict=True)
        both = replace(test, parts=[_submit(test.client, partitions.pair, *two) for two in pairs])
        errors, count = both.total(partitions.measured, task, model.function, model.state)
        if not count:
            raise BadRatings("no rating is held out to be tested on: hold out a larger share")
        metric, mean = counted(task), errors / count
        return {metric.name: float(np.sqrt(mean) if metric.lower else mean)}


@contextmanager
def partitioned(
    address: str,
    data: str,
    mechanism: Mechanism,
    reading: Mapping[str, Any],
    split: Split | None,
    seed: int,
) -> Iterator[PartsProblem]:
    """A folder of Parquet files as partitions of whole users, each read by a worker of a cluster.

    Only ids of users and items, and sums, come from there. Raises DpmcError.
    """
    files = [
        source_part.path
        for source_part in Source("", path=Path(data)).parts
        if source_part.path is not None
    ]
    if not mechanism.partitioned:
        known = ", ".join(id for id, cls in registry.MECHANISMS.items() if cls.partitioned)
        raise InvalidSetting("--cluster", f"left out, or used with one of {known}", mechanism.id)
    if not files:
        raise InvalidSetting("--cluster", "left out unless DATA is a folder of Parquet files", data)
    if "items" in reading:
        raise InvalidSetting("--items", "left out with --cluster", reading["items"])
    client = connect(address)
    try:
        all_ratings = spread(client, files, mechanism.task, reading)
        yield problem(all_ratings, Path(data).name, mechanism.task, split, seed)
    finally:
        with suppress(Exception):  # the scheduler may be gone
            client.close()


def spread(client: Any, files: Sequence[Path], task: Task, reading: Mapping[str, Any]) -> Parts:
    """Ratings of a folder's files over one list of users and items, in the form of the task."""
    options = ReadOptions(**reading)
    loaded = [
        _submit(client, partitions.read_file, str(p.resolve()), options, partitions.stamp(p))
        for p in files
    ]
    summaries = list(
        map(_result, [_submit(client, partitions.CATALOGUE, partition) for partition in loaded])
    )
    users, items = partitions.joined(files, summaries)
    _, _, first_facts, columns = summaries[0]
    parts = []
    for partition, (user_names, item_names, *_) in zip(loaded, summaries, strict=True):
        places, cells = (
            np.array([users[id] for id in user_names]),
            np.array([items[id] for id in item_names]),
        )
        parts.append(_submit(client, partitions.placed, partition, places, cells, len(items), task))
    public = prepared_facts(replace(first_facts, users=len(users), items=len(items)), task)
    return with_count(Parts(client, parts, public, columns=columns))


def _submit(client: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    return client.submit(function, *arguments, pure=False)


def _result(future: Any) -> Any:
    """What a task found, as soon as it is there. Raises DpmcError."""
    while True:
        check_cancelled()
        try:
            return future.result(timeout=1.0)
        except DpmcError:
            raise
        except Exception as error:  # a worker too small, too many lost, or the scheduler gone
            if isinstance(error, TimeoutError) and not future.done():
                continue
            first = (str(error) or type(error).__name__).splitlines()[0]
            raise DpmcError(f"the cluster could not finish: {first}") from None


def problem(whole: Parts, name: str, task: Task, split: Split | None, seed: int) -> PartsProblem:
    """All ratings, split into those to train and those to test on. Raises InvalidSetting."""
    chosen = split or default_split(task)
    share, words = None, f"{chosen}, without times a random one"
    if isinstance(chosen, RandomShare):
        share, words = chosen.share, f"a random {number_text(chosen.share)} of every user's ratings"
        check_number("share of test ratings", share, above=0, below=1)
    key = int(generator(seed, f"split {words} of {whole.fingerprint}").integers(2**63))
    halves = whole.map(partitions.split_ratings, share, key)
    train, test = (with_count(halves.map(itemgetter(k))) for k in (0, 1))
    ratings, held_out = cast("Any", (train, replace(halves, count=test.count)))
    steps = (str(Implicit()),) if task is Task.RANKING else ()
    return PartsProblem(ratings, held_out, name, steps, words)


def with_count(parts: Parts) -> Parts:
    """With how many ratings there are, and their fingerprint."""
    count, entry_hash_sum = parts.total(partitions.content_of)
    fingerprint = digest("partitions", parts.public.as_dict(), int(entry_hash_sum[0]))[:16]
    return replace(parts, count=count, fingerprint=fingerprint)
