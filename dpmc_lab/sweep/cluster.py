"""Use a Dask cluster: its workers run units of a sweep, or hold the users of a fit in partitions.

No other module uses Dask: a sweep uses a pool, and a fit uses sums over users (`UserData`). A
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
from dpmc_core.errors import BadRatings, DpmcError, InvalidSetting, check_number, format_number
from dpmc_core.metrics import choose_headline_metric
from dpmc_core.model import Mechanism, Task
from dpmc_core.preparation import Implicit
from dpmc_core.problem import (
    Problem,
    RandomShare,
    Split,
    choose_default_split,
    create_generator,
    prepare_public_facts,
)
from dpmc_core.ratings import ColumnRoles, PublicFacts, UserData
from dpmc_core.stopping import check_cancelled
from dpmc_data import ReadOptions
from dpmc_data.paths import get_version
from dpmc_data.source import Source
from dpmc_lab.store import Record, digest_values
from dpmc_lab.sweep import partitions
from dpmc_lab.sweep.engine import run_unit
from dpmc_lab.sweep.grid import Unit
from dpmc_lab.sweep.sources import SweepData

CONNECT_TIMEOUT = 10.0  # seconds to reach a scheduler, and to wait for its first worker
_ADDRESS = re.compile(r"(tcp|tls)://(\[[\w:.%]+\]|[^\s:/@\[\]]+):(\d{1,5})")


def check_scheduler_address(address: str) -> None:
    """Check that an address is that of a scheduler, as Dask prints it.

    Raises:
        InvalidSetting: it is not.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match[3]) < 2**16:  # the number of a port
        raise InvalidSetting("--cluster", "tcp://HOST:PORT or tls://HOST:PORT", address)


def connect_to_cluster(address: str) -> Any:
    """Return a client of a running Dask scheduler whose workers have this program.

    Raises:
        DpmcError: the cluster cannot be used.
    """
    check_scheduler_address(address)
    # Dask reports every lost connection at length.
    log_levels = dict.fromkeys(("distributed", "distributed.client"), "critical")
    os.environ.setdefault("DASK_DISTRIBUTED__LOGGING", repr(log_levels))
    try:
        from distributed import Client
    except ImportError:
        advice = "run 'pip install \"dpmc-lab[cluster]\"', or leave --cluster out"
        raise DpmcError(f"a cluster needs Dask: {advice}") from None
    # Allocate first and connect second, so that a client that failed to connect can be closed.
    client: Any = object.__new__(Client)
    try:
        client.__init__(address, timeout=CONNECT_TIMEOUT, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        client.status = "closed"  # otherwise it takes 20 s to disconnect when it is collected
        advice = "start it with 'dask scheduler' and 'dask worker', or leave --cluster out"
        raise DpmcError(f"the cluster at {address} cannot be reached ({error}): {advice}") from None
    try:
        _check_workers(client, address)
    except BaseException:
        client.close()
        raise
    return client


class ClusterPool:
    """The workers of a running Dask scheduler, which run units (see `engine.Pool`).

    Args:
        address: of the scheduler.
        sources: the data of the units by fingerprint, sent to every worker at once.

    Attributes:
        size: how many units run at the same time.

    Raises:
        DpmcError: the cluster cannot be used.
    """

    def __init__(self, address: str, sources: Mapping[str, SweepData]) -> None:
        self._client = connect_to_cluster(address)
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
        """Hand a unit to a worker."""
        # A future of Dask's own executor never ends if the scheduler is lost before its result.
        future: Future[Record | str] = Future()

        def finish(task: Any) -> None:
            """Pass the result of a Dask task on to the future that the sweep waits for."""
            self._running.pop(future, None)
            try:
                if task.status == "error":
                    future.set_exception(task.exception(timeout=CONNECT_TIMEOUT))
                else:
                    future.set_result(task.result(timeout=CONNECT_TIMEOUT))
            except Exception:  # cancelled, or the result was lost with its worker
                future.set_exception(CancelledError())

        task = self._client.submit(run_unit, unit, self._data[unit.source], pin=True, pure=False)
        if self._client.status != "running":  # Dask tries to reconnect, but this task is lost
            raise BrokenExecutor("the connection to the cluster was lost")
        self._running[future] = task
        task.add_done_callback(finish)
        return future

    def close(self, *, at_once: bool) -> None:
        """Disconnect from the cluster, cancelling the running units if `at_once`."""
        with suppress(Exception):  # the scheduler may be gone
            if at_once:
                self._client.cancel(list(self._running.values()))
            else:
                wait(list(self._running))
        with suppress(Exception):
            self._data.clear()
            self._client.close()


def _check_workers(client: Any, address: str) -> None:
    """Check that the cluster has workers, and that all of it runs this version of the program.

    Raises:
        DpmcError: it has none, or another version.
    """
    try:
        client.wait_for_workers(1, timeout=CONNECT_TIMEOUT)
    except TimeoutError:
        advice = f"start some with 'dask worker {address}'"
        raise DpmcError(f"the cluster at {address} has no workers: {advice}") from None
    try:
        versions = {*client.run(get_version).values(), client.run_on_scheduler(get_version)}
    except Exception as error:
        reason = f"the scheduler and the workers of {address} cannot load this program"
        raise DpmcError(
            f"{reason} ({type(error).__name__}): install dpmc-lab {get_version()}"
        ) from None
    if versions != {get_version()}:
        mismatch = f"{address} runs version {' and '.join(sorted(versions))} of dpmc-lab"
        raise DpmcError(f"{mismatch}, and this is {get_version()}: install the same everywhere")


# --- one fit on users in partitions -----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PartitionedUsers(UserData):
    """The users of each partition, held by the workers.

    Attributes:
        client: the Dask client.
        partitions: one future per partition; Dask computes it again, if necessary from its file,
            when its worker is lost.
        public: public facts of all ratings.
        count: number of ratings.
        fingerprint: of the ratings.
        columns: roles of the file's columns.
    """

    client: Any
    partitions: Sequence[Any]
    public: PublicFacts
    count: int = 0
    fingerprint: str = ""
    columns: ColumnRoles = field(default_factory=ColumnRoles)
    prepared: ClassVar[tuple[str, ...]] = ()

    def __len__(self) -> int:
        return self.count

    @property
    def features(self) -> Floats:
        """Return the item features, of which there are none."""
        return np.zeros((self.public.items, 0))

    def map_users(self, function: Callable[..., Any], *state: Any) -> PartitionedUsers:
        """Return the results of `function(partition, *state)`, which stay on the workers."""
        # The state is a task of its own: it is sent only once, and Dask can compute it again when a
        # worker is lost.
        call = _submit(self.client, pickle.loads, pickle.dumps((function, state)))
        return replace(
            self,
            partitions=[
                _submit(self.client, partitions.apply_function, partition, call)
                for partition in self.partitions
            ],
        )

    def sum_over_users(self, function: Callable[..., Any], *state: Any) -> Any:
        """Return the sum of `function(partition, *state)` over all partitions."""
        # Always the same pairs are added, so the sum does not depend on the order in which tasks
        # end.
        sums = self.map_users(function, *state).partitions
        while len(sums) > 1:
            pairs = (sums[k : k + 2] for k in range(0, len(sums), 2))
            sums = [_submit(self.client, partitions.add_results, *pair) for pair in pairs]
        return _wait_for_result(sums[0])

    def build_model(self, function: Callable[..., Any], *state: Any) -> Any:
        """Return a model that each partition builds for its own users."""
        return PartitionedModel(self, function, state)


class PartitionedModel(NamedTuple):
    """A model in parts: `function(partition, *state)` is the model of a partition's users."""

    partitions: PartitionedUsers
    function: Callable[..., Any]
    state: tuple[Any, ...]
    factors: None = None

    def predict(self, *_: Any) -> Floats:
        """Refuse to predict, since the models of users stay in their partitions.

        Raises:
            DpmcError: always.
        """
        raise DpmcError("what is predicted for users stays with their partition")


class PartitionedProblem(Problem):
    """Training and test ratings of users in partitions, evaluated on the workers."""

    def check(self, task: Task) -> None:
        """Check nothing, since ratings stay in their partitions."""

    def evaluate(self, task: Task, model: Any, rng: Rng) -> dict[str, float]:  # noqa: ARG002
        """Return the task's metric that is a mean over test ratings, by its name.

        Raises:
            BadRatings: there are no test ratings.
        """
        test: Any = self.test
        pairs = zip(model.partitions.partitions, test.partitions, strict=True)
        paired_users = replace(
            test,
            partitions=[_submit(test.client, partitions.pair_partitions, *pair) for pair in pairs],
        )
        errors, count = paired_users.sum_over_users(
            partitions.sum_test_measures, task, model.function, model.state
        )
        if not count:
            raise BadRatings("no rating is held out to be tested on: hold out a larger share")
        metric = choose_headline_metric(task)
        # Of the headline metrics only the RMSE is better if lower; it sums squared errors.
        mean = errors / count
        return {metric.name: float(np.sqrt(mean) if metric.lower_is_better else mean)}


@contextmanager
def open_partitioned_problem(
    address: str,
    data: str,
    mechanism: Mechanism,
    reading: Mapping[str, Any],
    split: Split | None,
    seed: int,
) -> Iterator[PartitionedProblem]:
    """Open a folder of Parquet files as partitions of whole users, each read by a worker.

    Only ids of users and items, and sums, leave the workers.

    Args:
        address: of the Dask scheduler.
        data: path of the folder.
        mechanism: the mechanism, which must support partitions.
        reading: how the files are read.
        split: how ratings are held out (default: as the task does it).
        seed: of the split.

    Raises:
        DpmcError: the data or the cluster cannot be used.
    """
    files = [
        source_part.path
        for source_part in Source("", path=Path(data)).parts
        if source_part.path is not None
    ]
    if not mechanism.supports_partitions:
        partitioned_ids = ", ".join(
            id for id, cls in registry.MECHANISMS.items() if cls.supports_partitions
        )
        raise InvalidSetting(
            "--cluster", f"left out, or used with one of {partitioned_ids}", mechanism.id
        )
    if not files:
        raise InvalidSetting("--cluster", "left out unless DATA is a folder of Parquet files", data)
    if "items" in reading:
        raise InvalidSetting("--items", "left out with --cluster", reading["items"])
    client = connect_to_cluster(address)
    try:
        all_ratings = load_partitions(client, files, mechanism.task, reading)
        yield build_partitioned_problem(all_ratings, Path(data).name, mechanism.task, split, seed)
    finally:
        with suppress(Exception):  # the scheduler may be gone
            client.close()


def load_partitions(
    client: Any, files: Sequence[Path], task: Task, reading: Mapping[str, Any]
) -> PartitionedUsers:
    """Load the ratings of files, one partition each, prepared for the task.

    Users and items get the same indices in all partitions.

    Args:
        client: the Dask client.
        files: Parquet files, each with all ratings of its users.
        task: what the ratings are prepared for.
        reading: how the files are read, as arguments of `ReadOptions`.
    """
    options = ReadOptions(**reading)
    loaded = [
        _submit(
            client, partitions.read_file, str(p.resolve()), options, partitions.read_file_stamp(p)
        )
        for p in files
    ]
    summaries = list(
        map(
            _wait_for_result,
            [_submit(client, partitions.CATALOGUE, partition) for partition in loaded],
        )
    )
    users, items = partitions.index_all_names(files, summaries)
    _, _, first_facts, columns = summaries[0]  # the fields of CATALOGUE
    indexed_partitions = []
    for partition, (user_names, item_names, *_) in zip(loaded, summaries, strict=True):
        indexed_partitions.append(
            _submit(
                client,
                partitions.reindex_ratings,
                partition,
                np.array([users[id] for id in user_names]),
                np.array([items[id] for id in item_names]),
                len(items),
                task,
            )
        )
    public = prepare_public_facts(replace(first_facts, users=len(users), items=len(items)), task)
    return attach_rating_count(
        PartitionedUsers(client, indexed_partitions, public, columns=columns)
    )


def _submit(client: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the future of a call on a worker; an equal call is a task of its own."""
    return client.submit(function, *arguments, pure=False)


def _wait_for_result(future: Any) -> Any:
    """Return the result of a task as soon as it is available.

    Raises:
        DpmcError: the cluster could not finish.
    """
    while True:
        check_cancelled()
        try:
            return future.result(timeout=1.0)
        except DpmcError:
            raise
        except Exception as error:  # a worker too small, too many lost, or the scheduler gone
            if isinstance(error, TimeoutError) and not future.done():
                continue
            first_line = (str(error) or type(error).__name__).splitlines()[0]
            raise DpmcError(f"the cluster could not finish: {first_line}") from None


def build_partitioned_problem(
    all_ratings: PartitionedUsers, name: str, task: Task, split: Split | None, seed: int
) -> PartitionedProblem:
    """Build a problem by splitting the ratings of every user, which stay in their partitions.

    Args:
        all_ratings: the prepared ratings.
        name: of the data.
        task: what is predicted.
        split: how ratings are held out (default: as the task does it).
        seed: of the split.

    Raises:
        InvalidSetting: the share of test ratings is not between 0 and 1.
    """
    chosen_split = split or choose_default_split(task)
    share = None
    description = f"{chosen_split}, without times a random one"
    if isinstance(chosen_split, RandomShare):
        share = chosen_split.share
        description = f"a random {format_number(chosen_split.share)} of every user's ratings"
        check_number("share of test ratings", share, above=0, below=1)
    key = int(
        create_generator(seed, f"split {description} of {all_ratings.fingerprint}").integers(2**63)
    )
    halves = all_ratings.map_users(partitions.split_ratings, share, key)
    train, test = (attach_rating_count(halves.map_users(itemgetter(k))) for k in (0, 1))
    # The test side keeps (training, test) pairs, since measures need both.
    ratings, held_out = cast("Any", (train, replace(halves, count=test.count)))
    steps = (str(Implicit()),) if task is Task.RANKING else ()
    return PartitionedProblem(ratings, held_out, name, steps, description)


def attach_rating_count(users: PartitionedUsers) -> PartitionedUsers:
    """Return the partitions with the number of their ratings and a fingerprint."""
    count, entry_hash_sum = users.sum_over_users(partitions.summarise_content)
    fingerprint = digest_values("partitions", users.public.as_dict(), int(entry_hash_sum[0]))[:16]
    return replace(users, count=count, fingerprint=fingerprint)
