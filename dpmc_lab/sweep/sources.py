"""Open what a sweep runs on: a data set, official training and test files, or generated data.

The module also has a folder for ratings that must not outlive their session.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import secrets
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from dpmc_core.dataset import Dataset
from dpmc_core.errors import BadRatings
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_data import archives, datasets, public_sets, read_pair, synthetic
from dpmc_data.datasets import EACH_SEED
from dpmc_lab import locks
from dpmc_lab.store import digest_values

SNAPSHOT_SUFFIX = ".dpmc.npz"  # how the name of a private file of ratings ends
_COLUMNS = ("users", "items", "values", "times")


@dataclass(frozen=True, eq=False)
class SplitSource:
    """One data set, which each unit splits."""

    dataset: Dataset
    per_seed: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Return the name of the data set."""
        return self.dataset.name

    @property
    def title(self) -> str:
        """Return the title of the data set."""
        return self.dataset.title

    @cached_property
    def fingerprint(self) -> str:
        """Return a hash of everything that results can depend on."""
        truth = self.dataset.truth
        truth_hashes = (
            None if truth is None else [_hash_array(truth.left), _hash_array(truth.right)]
        )
        return digest_values("whole", _hash_content(self.dataset.ratings), truth_hashes)[:16]

    def for_seed(self, seed: int) -> Dataset:  # noqa: ARG002
        """Return the data set, which is the same for every seed."""
        return self.dataset


@dataclass(frozen=True, eq=False)
class PairSource:
    """Official training and test ratings over one index space."""

    train: Ratings
    test: Ratings
    name: str
    title: str
    per_seed: ClassVar[bool] = False

    @cached_property
    def fingerprint(self) -> str:
        """Return a hash of everything that results can depend on."""
        return digest_values("pair", _hash_content(self.train), _hash_content(self.test))[:16]

    def for_seed(self, seed: int) -> tuple[Ratings, Ratings]:  # noqa: ARG002
        """Return the ratings, which are the same for every seed."""
        return self.train, self.test


@dataclass(frozen=True, eq=False)
class GeneratedSource:
    """Generated ratings, of which every seed has its own.

    Attributes:
        sample: one of `synthetic.DRAWN`.
        options: of its generator, without its seed.
    """

    sample: str
    options: Mapping[str, Any]
    per_seed: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """Return the name under which these data are typed, see `open_source`."""
        options_text = "".join(f",{name}={value}" for name, value in self.options.items())
        return f"{self.sample}:seed={EACH_SEED}{options_text}"

    @property
    def title(self) -> str:
        """Return the title of the sample."""
        samples = {**synthetic.SAMPLES, **synthetic.ON_DEMAND}
        return f"{samples[self.sample].title}, drawn anew for each seed"

    @cached_property
    def fingerprint(self) -> str:
        """Return a hash of the options and of one draw."""
        # A changed generator changes this draw, so its results never mix with older ones.
        option_texts = {name: str(value) for name, value in self.options.items()}
        return digest_values("drawn", option_texts, _hash_content(self.for_seed(0).ratings))[:16]

    def for_seed(self, seed: int) -> Dataset:
        """Return the draw of a seed."""
        return datasets.load(self.sample, seed=seed, **self.options)


# The source of a unit's ratings. `fingerprint` is a hash of everything that results can depend on,
# `per_seed` is whether the ratings themselves, before any split, depend on the seed, and `for_seed`
# returns a data set to split, or (training, test) ratings.
SweepData = SplitSource | PairSource | GeneratedSource


def load_training_ratings(source: SweepData, seed: int = 0) -> Ratings:
    """Return the ratings to learn from, of a data set or of an official pair."""
    loaded = source.for_seed(seed)
    return loaded.ratings if isinstance(loaded, Dataset) else loaded[0]


def open_source(
    data: str, test: str | None = None, *, on_progress: Any = None, **options: Any
) -> SweepData:
    """Open data as they are typed.

    DATA is what `datasets.load` opens, an official fold, a snapshot, or generated data. A fold is
    FOLDER/u1 where FOLDER, a path or the name of a downloaded set, has u1.base and u1.test.
    Generated data are one-bit-lab:NAME=VALUE,... or another of `synthetic.DRAWN`; with seed=each
    they are drawn anew for the seed of each unit.

    Args:
        data: DATA.
        test: file of official test ratings.
        on_progress: as of `datasets.load`.
        **options: how a file is read.

    Raises:
        DpmcError: the data cannot be used.
        OSError: a file cannot be read.
    """
    fold = None if test else _find_fold(data)
    if test is not None or fold is not None:
        train_path, test_path = (
            (_locate_file(data), _locate_file(test or "")) if fold is None else fold
        )
        pair = read_pair(train_path, test_path, **options)
        name = f"{train_path.resolve().parent.name}/{train_path.stem if fold else train_path.name}"
        return drop_names(PairSource(*pair, name, f"{name}, tested on {test_path.name}"))
    if (generated := datasets.parse_drawn_sample(data)) is not None:
        sample, sample_options = generated
        if sample_options.get("seed") == EACH_SEED:
            del sample_options["seed"]
            source = GeneratedSource(sample, sample_options)
            source.for_seed(0)  # raises an error now if an option is wrong
            return source
        options_text = ",".join(f"{name}={value}" for name, value in sample_options.items())
        dataset = datasets.load(sample, **sample_options)
        return drop_names(
            SplitSource(dataclasses.replace(dataset, name=f"{sample}:{options_text}"))
        )
    if data.endswith(SNAPSHOT_SUFFIX) and Path(data).is_file():
        return drop_names(SplitSource(read_snapshot(Path(data))))
    return drop_names(SplitSource(datasets.load(data, on_progress=on_progress, **options)))


def drop_names(source: SplitSource | PairSource) -> SplitSource | PairSource:
    """Return the same source without names of users and items, on which no result depends."""
    if isinstance(source, PairSource):
        train = _remove_names(source.train)
        return PairSource(train, _remove_names(source.test), source.name, source.title)
    return SplitSource(
        dataclasses.replace(source.dataset, ratings=_remove_names(source.dataset.ratings))
    )


def write_snapshot(dataset: Dataset, path: Path) -> None:
    """Write the ratings and public facts of a data set to a private file (mode 0600).

    An upload becomes such a file while its sweep runs. Names of users and items are left out.

    Args:
        dataset: the data set.
        path: the file, which must not exist yet.

    Raises:
        OSError: the file exists or cannot be written.
    """
    ratings = dataset.ratings
    metadata: dict[str, Any] = {"name": dataset.name, "title": dataset.title}
    metadata |= {"prepared": ratings.prepared, "told": ratings.features_digest}
    optional_arrays = {name: getattr(ratings, name) for name in _COLUMNS}
    arrays = {name: array for name, array in optional_arrays.items() if array is not None}
    arrays |= {f"known {name}": columns for name, columns in ratings.item_features.items()}
    arrays["facts"] = np.array(json.dumps(metadata | ratings.public.as_dict()))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def read_snapshot(path: Path) -> Dataset:
    """Read what `write_snapshot` wrote.

    Raises:
        BadRatings: the file is not a snapshot.
    """
    try:
        arrays = archives.read_npz(path)
        metadata = dict(archives.parse_json(str(arrays["facts"])))
        name, title, prepared = (metadata.pop(key) for key in ("name", "title", "prepared"))
        table_digest = metadata.pop("told")
        columns: dict[str, Any] = {name: arrays.get(name) for name in _COLUMNS}
        public = PublicFacts(**metadata)
        ratings = Ratings.build(**columns, public=public, prepared=tuple(map(str, prepared)))
        item_features = {  # the only arrays with a space in their name
            name.removeprefix("known "): arrays[name] for name in arrays if " " in name
        }
        ratings = ratings.with_item_features(item_features, digest=table_digest)
    except BadRatings:
        raise
    except (archives.BadArchive, LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise BadRatings(f"{path.name} is not a snapshot of ratings: {error}") from None
    return Dataset(ratings, name, title)


def _find_fold(data: str) -> tuple[Path, Path] | None:
    """Return the training and test files of an official split whose common stem `data` is."""
    path = _locate_file(data)
    if not path.exists():
        for train in (path.with_name(f"{path.name}.{end}") for end in ("base", "train")):
            test = path.with_name(f"{path.name}.test")
            if train.is_file() and test.is_file():
                return train, test
    return None


def _locate_file(data: str) -> Path:
    """Return the path of a file; its first part may name a downloaded set instead of a folder."""
    path = Path(data)
    if path.parent.exists() or path.parts[0] not in public_sets.ARCHIVES:
        return path
    return public_sets.find_downloaded_folder(path.parts[0]).joinpath(*path.parts[1:])


def _remove_names(ratings: Ratings) -> Ratings:
    """Return ratings without ids of users and items, and without titles."""
    return dataclasses.replace(ratings, user_ids=None, item_ids=None, titles=None)


def _hash_content(ratings: Ratings) -> list[str | None]:
    """Return the fingerprint of ratings and a hash of their times, which it does not cover."""
    return [ratings.fingerprint, None if ratings.times is None else _hash_array(ratings.times)]


def _hash_array(array: np.ndarray[Any, Any]) -> str:
    """Return the SHA-256 of an array's bytes."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


# --- a folder for one upload -------------------------------------------------------------------

_FOLDER_NAME = "dpmc-private-{}"
_WATCH_CODE = (
    "import pathlib, sys; from dpmc_lab import locks; locks.outlive(pathlib.Path(sys.argv[1]))"
)
_FOLDER_PATTERN = re.compile(_FOLDER_NAME.format("[0-9a-f]{16}"))


class PrivateFolder:
    """A private folder for sweeps on one upload: ratings, store and temporary files.

    Nothing is on disk before `write`, and nothing after `close`. This process holds a lock in the
    folder for as long as it lives. If it is killed, its children end (`locks.end_with_owner`) and a
    process that does nothing else removes the folder. If the whole machine stops, `claim_orphans`
    finds what remains.

    Pass `environment` to the child, and `data` and `store` to its command; end it before `close`.
    """

    def __init__(self, dataset: Dataset | None, name: str | None = None) -> None:
        self.dataset = dataset
        self.path = Path(tempfile.gettempdir(), name or _FOLDER_NAME.format(secrets.token_hex(8)))
        self.data = self.path / f"ratings{SNAPSHOT_SUFFIX}"
        self.store = self.path / "results.sqlite"
        self._lock: IO[str] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None

    @classmethod
    def claim_orphans(cls) -> list[PrivateFolder]:
        """Return the folders that killed processes of this user left, now held by this process."""
        folders = []
        for path in Path(tempfile.gettempdir()).glob(_FOLDER_NAME.format("*")):
            folder = cls(None, path.name)
            with suppress(OSError):
                if (
                    locks.AVAILABLE
                    and _FOLDER_PATTERN.fullmatch(path.name)
                    and _belongs_to_user(path)
                ):
                    folder._lock = locks.acquire_lock(path / locks.OWNER_LOCK)
            if folder._lock is not None:
                folders.append(folder)
        return folders

    @property
    def environment(self) -> dict[str, str]:
        """Return the child's environment, whose home and temporary files are in the folder."""
        folder = str(self.path)
        names = (locks.FOLDER_VARIABLE, "DPMC_HOME", "TMPDIR", "TEMP", "TMP")
        return {**os.environ, **dict.fromkeys(names, folder)}

    def write(self) -> None:
        """Create the folder (mode 0700) with the ratings, and start its watcher.

        Nothing happens where the folder was written before or claimed as an orphan.

        Raises:
            OSError: the folder cannot be written.
        """
        if self._lock is not None or self.dataset is None:
            return
        # `claim_orphans` does not find a folder of this name, which nobody has locked yet.
        staging = self.path.with_name(f".{self.path.name}")
        staging.mkdir(mode=0o700)
        try:
            self._lock = locks.acquire_lock(staging / locks.OWNER_LOCK)
            staging.rename(self.path)
            write_snapshot(self.dataset, self.data)
            self.store.touch(mode=0o600, exist_ok=False)  # SQLite's other files take its mode
        except BaseException:
            self.close()
            locks.remove_folder(staging)
            raise
        if locks.AVAILABLE:
            self._watcher = subprocess.Popen(
                (sys.executable, "-c", _WATCH_CODE, str(self.path)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a closed terminal ends the server, not its watcher
            )

    def close(self) -> None:
        """Remove the folder with everything in it."""
        if self._lock is None:
            return
        locks.remove_folder(self.path)
        self._lock.close()
        self._lock = None
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.wait()


def _belongs_to_user(folder: Path) -> bool:
    """Return whether a path is a folder, and no link, of this user."""
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
