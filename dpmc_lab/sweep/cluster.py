"""A Dask cluster: workers that take units of a sweep, and users in partitions where they lie.

Nothing else knows Dask: a sweep knows a pool, a fit knows sums over users (`ratings.Here`). Each
function of one partition is a function of its arguments alone: a second time it gives the same.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dpmc_core import registry
from dpmc_core.arrays import Floats, Ints, Rng
from dpmc_core.data import Implicit, ReadOptions
from dpmc_core.data.reading import clean, natural_order, read_table
from dpmc_core.data.source import Source
from dpmc_core.errors import BadRatings, DpmcError, InvalidSetting, check_number, number_text
from dpmc_core.metrics import counted, each
from dpmc_core.model import Mechanism, Model, Task
from dpmc_core.paths import version
from dpmc_core.problem import (
    Problem,
    RandomShare,
    Split,
    default_split,
    generator,
    prepare_all,
    prepared_facts,
)
from dpmc_core.ratings import ColumnRoles, Here, PublicFacts, Ratings, hashes, place_in_row
from dpmc_core.stopping import check_cancelled
from dpmc_lab.store import Record, digest
from dpmc_lab.sweep.engine import run_unit
from dpmc_lab.sweep.grid import Unit
from dpmc_lab.sweep.sources import SweepData

T = TypeVar("T")
REACHING = 10.0  # seconds to reach a scheduler, and to wait for its first worker
_ADDRESS = re.compile(r"(tcp|tls)://(\[[\w:.%]+\]|[^\s:/@\[\]]+):(\d{1,5})")


def check_address(address: str) -> None:
    """Raise InvalidSetting unless it is the address of a scheduler as Dask prints it."""
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found[3]) < 2**16:
        raise InvalidSetting("--cluster", "tcp://HOST:PORT or tls://HOST:PORT", address)


def connect(address: str) -> Any:
    """A client of a running Dask scheduler whose workers have this program. Raises DpmcError.

    Needs the extra `cluster`.
    """
    check_address(address)
    # Dask reports every lost connection at length; what matters is said in a sentence
    quiet = dict.fromkeys(("distributed", "distributed.client"), "critical")
    os.environ.setdefault("DASK_DISTRIBUTED__LOGGING", repr(quiet))
    try:
        from distributed import Client
    except ImportError:
        raise DpmcError(
            "a cluster needs Dask: run 'pip install \"dpmc-lab[cluster]\"', or leave --cluster out"
        ) from None
    kind: Any = Client
    client = kind.__new__(kind)  # in two steps: half a client has to be closed
    try:
        client.__init__(address, timeout=REACHING, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        client.status = "closed"  # else it says goodbye for 20 s when it is collected
        raise DpmcError(
            f"the cluster at {address} cannot be reached ({error}): start it with 'dask"
            " scheduler' and 'dask worker', or leave --cluster out"
        ) from None
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
                mark: self._client.scatter(source, broadcast=True, hash=False)
                for mark, source in sources.items()
            }
        except BaseException:
            self._client.close()
            raise
        self._running: dict[Future[Record | str], Any] = {}

    def submit(self, unit: Unit) -> Future[Record | str]:
        task = self._client.submit(run_unit, unit, self._data[unit.source], True, pure=False)
        if self._client.status != "running":  # looking for its scheduler; this one got lost
            raise BrokenExecutor("the connection to the cluster was lost")
        # Not Dask's own executor: it prints a traceback, and never answers, where the scheduler
        # is lost between the end of a task and the arrival of its result.
        answer: Future[Record | str] = Future()
        self._running[answer] = task
        task.add_done_callback(lambda task: self._pass_on(task, answer))
        return answer

    def _pass_on(self, task: Any, answer: Future[Record | str]) -> None:
        self._running.pop(answer, None)
        try:
            if task.status == "error":
                answer.set_exception(task.exception(timeout=REACHING))
            else:
                answer.set_result(task.result(timeout=REACHING))
        except Exception:  # cancelled, or no longer to be had
            answer.set_exception(CancelledError())

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
        raise DpmcError(
            f"the cluster at {address} has no workers: start some with 'dask worker {address}'"
        ) from None
    try:
        there = {*client.run(version).values(), client.run_on_scheduler(version)}
    except Exception as error:
        raise DpmcError(
            f"the scheduler and the workers of {address} must be able to load this program:"
            f" install dpmc-lab {version()} there too ({type(error).__name__})"
        ) from None
    if there != {version()}:
        raise DpmcError(
            f"{address} runs version {' and '.join(sorted(there))} of dpmc-lab, and this is"
            f" {version()}: install the same everywhere"
        )


# --- one fit on users in partitions -----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Parts(Here):
    """What is held of users in partitions on the workers of a cluster.

    parts: a future of each; where its worker is lost, Dask makes it again, from its file if need
    be. Of ratings: public, how many, and a fingerprint, whatever the
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
        sent = self.client.submit(pickle.loads, pickle.dumps((function, state)), pure=False)
        return replace(
            self,
            parts=[self.client.submit(apply, p, sent, pure=False) for p in self.parts],
        )

    def total(self, function: Callable[..., T], *state: Any) -> T:
        # In pairs, always the same ones: each partition counts once, in whatever order they end.
        sums = self.map(function, *state).parts
        while len(sums) > 1:
            pairs = (sums[k : k + 2] for k in range(0, len(sums), 2))
            sums = [self.client.submit(added, *pair, pure=False) for pair in pairs]
        found: T = _result(sums[0])
        return found

    def model(self, function: Callable[..., Any], *state: Any) -> Any:
        return PartsModel(self, function, state)

    def beside(self, other: Parts) -> Parts:
        """Pairs of what either holds."""
        both = zip(self.parts, other.parts, strict=True)
        return replace(self, parts=[self.client.submit(pair, *two, pure=False) for two in both])


@dataclass(frozen=True, eq=False)
class PartsModel:
    """A model of which each partition has that of its users: function(partition, *state)."""

    parts: Parts
    function: Callable[..., Model]
    state: tuple[Any, ...]
    factors: ClassVar[None] = None

    def predict(self, users: ArrayLike, items: ArrayLike) -> Floats:  # noqa: ARG002
        raise DpmcError("what is predicted for users stays with their partition")


class PartsProblem(Problem):
    """Training and test ratings of users in partitions, measured where they are."""

    def check(self, task: Task) -> None:
        pass

    def evaluate(self, task: Task, model: Any, rng: Rng) -> dict[str, float]:  # noqa: ARG002
        test: Any = self.test
        errors, count = model.parts.beside(test).total(measured, task, model.function, model.state)
        if not count:
            raise BadRatings(
                "no rating is held out that could be tested on: hold out a larger share"
            )
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

    What comes from there are the ids of users and items, and sums. Raises DpmcError.
    """
    files = [part.path for part in Source("", path=Path(data)).parts if part.path is not None]
    if not mechanism.partitioned:
        known = ", ".join(id for id, cls in registry.MECHANISMS.items() if cls.partitioned)
        raise InvalidSetting(
            "--cluster", f"left out, or the mechanism one of {known}", mechanism.id
        )
    if not files:
        raise InvalidSetting("--cluster", "left out unless DATA is a folder of Parquet files", data)
    if "items" in reading:
        raise InvalidSetting("--items", "left out with --cluster", reading["items"])
    client = connect(address)
    try:
        task = mechanism.task
        whole = spread(client, files, task, reading)
        yield problem(whole, Path(data).name, task, split, seed)
    finally:
        with suppress(Exception):  # the scheduler may be gone
            client.close()


def spread(client: Any, files: Sequence[Path], task: Task, reading: Mapping[str, Any]) -> Parts:
    """Ratings of a folder's files over one list of users and items, in the form of the task."""
    options = ReadOptions(**reading)
    read = [
        client.submit(read_file, str(path.resolve()), options, stamp(path), pure=False)
        for path in files
    ]
    found = list(map(_result, [client.submit(catalogue, part, pure=False) for part in read]))
    first = found[0][2]
    owner: dict[str, Path] = {}
    for path, (ids, _, public, _) in zip(files, found, strict=True):
        if (public.low, public.high) != (first.low, first.high):
            raise BadRatings(
                f"{files[0].name} and {path.name} have different rating ranges: give the range,"
                " low and high"
            )
        for id in ids:
            if owner.setdefault(id, path) != path:
                raise BadRatings(
                    f"user '{id[:60]}' is in {owner[id].name} and {path.name}: with --cluster all"
                    " ratings of a user must be in one file; write the folder partitioned by user,"
                    " or leave --cluster out"
                )
    users, items = list(owner), list(dict.fromkeys(chain.from_iterable(part[1] for part in found)))
    user, item = (
        {names[k]: n for n, k in enumerate(natural_order(names))} for names in (users, items)
    )
    public = replace(first, users=len(users), items=len(items))
    parts = [
        client.submit(
            placed,
            part,
            np.array([user[id] for id in ids]),
            np.array([item[id] for id in rated], dtype=np.int32),
            len(items),
            task,
            pure=False,
        )
        for part, (ids, rated, *_) in zip(read, found, strict=True)
    ]
    public = prepared_facts(public, task)
    return with_count(Parts(client, parts, public, columns=found[0][3]))


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
    both = whole.map(split_ratings, share, key)
    train, test = (with_count(both.map(itemgetter(k))) for k in (0, 1))
    ratings: Any = train
    held: Any = replace(both, count=test.count)
    steps = (str(Implicit()),) if task is Task.RANKING else ()
    return PartsProblem(ratings, held, name, steps, words)


def with_count(parts: Parts) -> Parts:
    """With how many ratings there are, and their fingerprint."""
    count, content = parts.total(content_of)
    mark = digest("partitions", parts.public.as_dict(), int(content[0]))[:16]
    return replace(parts, count=count, fingerprint=mark)


# --- what is done in one partition ---------------------------------------------------------------


def apply(part: Any, sent: tuple[Callable[..., Any], tuple[Any, ...]]) -> Any:
    """What a function gives; sent: the function and its further arguments."""
    return sent[0](part, *sent[1])


def added(one: Any, *other: Any) -> Any:
    """A sum of arrays or numbers, or of tuples of them."""
    if isinstance(one, tuple):
        return tuple(map(added, one, *other))
    return sum(other, one)


def pair(*both: Any) -> tuple[Any, ...]:
    """What two partitions hold of the same users."""
    return both


def stamp(path: Path) -> tuple[int, int]:
    """What changes where a file is written anew."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def read_file(path: str, options: ReadOptions, seen: tuple[int, int]) -> Ratings:
    """The ratings of a file. Raises BadRatings where its stamp is no more the one that was seen."""
    if Path(path).is_file() and stamp(Path(path)) != seen:  # read again, in the middle of a fit
        raise BadRatings(f"{Path(path).name} has changed while it was used: run the command again")
    return clean(options, read_table(Source.file(path), options))[0][0]


def catalogue(ratings: Ratings) -> tuple[Sequence[str], Sequence[str], PublicFacts, ColumnRoles]:
    """The ids of users and items, public facts and what each column was."""
    return ratings.user_ids or (), ratings.item_ids or (), ratings.public, ratings.columns


def placed(ratings: Ratings, places: Ints, items: Ints, count: int, task: Task) -> Ratings:
    """A file's ratings over the items of all; places: of its users among all."""
    public = replace(ratings.public, items=count)
    cells = ratings.users, items[ratings.items], ratings.values
    return prepare_all(Ratings.build(*cells, public, times=ratings.times, places=places), task)[0]


def split_ratings(
    ratings: Ratings, share: float | None, key: int
) -> tuple[Ratings, Ratings | None]:
    """Training ratings, and test ratings where there are any: each user's latest, or a share of
    which one rating of each user is never a part. By a hash, so the same in any partition."""
    number = hashes(ratings, key)
    if share is None:
        latest = () if ratings.times is None else (-ratings.times,)
        held = place_in_row(ratings, number, *latest) == 0
        held &= np.diff(ratings.indptr)[ratings.users] > 1
    else:
        held = (number < share * 2.0**64) & (place_in_row(ratings, ~number) > 0)
    return ratings.select(~held), ratings.select(held) if held.any() else None


def content_of(ratings: Ratings | None) -> tuple[int, Any]:
    """How many ratings, and a sum over them that tells other ratings apart."""
    if ratings is None:
        return 0, np.zeros(1, dtype=np.uint64)
    marks = hashes(ratings, 0) * ratings.values.view(np.uint64) + hashes(ratings, 1)
    return len(ratings), marks.sum(keepdims=True)


def measured(
    both: tuple[Any, tuple[Ratings, Ratings | None]],
    task: Task,
    function: Callable[..., Model],
    state: tuple[Any, ...],
) -> tuple[float, int]:
    """The sum of the measures of the test ratings that have one, and how many these are."""
    part, (train, test) = both
    if test is None:
        return 0.0, 0
    found = each(task, function(part, *state), train, test)
    there = ~np.isnan(found)
    return float(found[there].sum()), int(there.sum())
