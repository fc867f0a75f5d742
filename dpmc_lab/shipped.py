"""Read the curves that ship with the sample data.

`python sample_data/compute.py` writes these files again, and the recommendation lists of people
beside them (JSON, see views/people.py). The first line of a file is a comment with its stamp: what
its rows have in common. Metrics are for evaluation only: they are measured on raw held-out ratings.
"""

import csv
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import IO, Any

from dpmc_core import registry
from dpmc_core.arrays import JsonObject
from dpmc_core.errors import BadRatings
from dpmc_core.model import Mechanism, Task
from dpmc_core.ratings import FEATURES_REVISION, PublicFacts
from dpmc_lab.store import (
    MEMORY,
    Record,
    Store,
    drop_epsilon,
    list_certified_units,
    restore_mechanism,
    unit_key,
)

CURVE_FOLDER = Path(__file__).resolve().parents[1] / "sample_data" / "curves"  # also in a wheel


def build_curve_file_name(data: str, task: Task, *, with_item_features: bool = False) -> str:
    """Return the file name of the curves of a data set and a task, with one preparation and split.

    Args:
        data: id of the data set.
        task: the task.
        with_item_features: whether the runs use public item features.
    """
    name = data.replace("/", "-").replace(":", "-")
    name = name if task is Task.BINARY else f"{name}-{task.value}"
    return f"{name}-facts.csv" if with_item_features else f"{name}.csv"


def format_variant(row: Record) -> str:
    """Return the id of a row's mechanism, then its settings that are not the defaults."""
    changed = registry.find_changed_settings(row["mechanism"], drop_epsilon(row["settings"]))
    return " ".join([row["mechanism"], *(f"{name}={v}" for name, v in sorted(changed.items()))])


def read_curves(
    stream: IO[str],
    mechanisms: Collection[str] | None = None,
    store: Store | None = None,
    skipped_seed: int | None = None,
) -> Store:
    """Read the rows of a file into a store in memory, which must be closed after use.

    Rows that this program would compute in another way, with another revision or other defaults,
    are left out. Values of a row that the file does not have, such as its rounds, are 0 or empty.

    Args:
        stream: the file.
        mechanisms: the only mechanisms to read, with those they are compared with (default: all).
        store: where to add the rows (default: a new store).
        skipped_seed: a seed whose rows are left out, since its recommendation lists are not in the
            file.

    Raises:
        BadRatings: the file is not a file of curves.
    """
    try:
        stamp, names = _read_stamp(stream)
        if mechanisms is not None:
            mechanism_ids = {*mechanisms}.union(
                *map(registry.list_comparison_methods, map(registry.get_mechanism, mechanisms))
            )
            names = [name for name in names if name.split()[0] in mechanism_ids]
        rows = [
            row
            for row in _parse_records(stamp, names, csv.DictReader(stream))
            if row["seed"] != skipped_seed
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise BadRatings(f"the file of curves cannot be read: {error}") from None
    store = store or Store(MEMORY)
    store.add(rows)
    return store


def load_curves(data: str, task: Task, mechanisms: Collection[str] | None = None) -> Store | None:
    """Load the precomputed curves of a sample data set for a task; None where there are none.

    Curves with public item features are included.

    Args:
        data: id of the sample.
        task: the task.
        mechanisms: the only mechanisms to load, with those they are compared with (default: all).
    """
    curve_store = None
    for with_item_features in (False, True):
        with _open_curve_file(data, task, with_item_features) as stream:
            curve_store = (
                curve_store if stream is None else read_curves(stream, mechanisms, curve_store)
            )
    return curve_store


def list_shipped_run_keys(data: str, task: Task) -> frozenset[str]:
    """Return the keys of the runs that came with this program."""
    file = load_curves(data, task)
    if file is None:
        return frozenset()
    with file:
        return frozenset(file.list_unit_keys())


def list_shipped_mechanisms(data: str, task: Task) -> frozenset[str]:
    """Return the ids of the mechanisms whose curve for a data set and task is shipped."""
    with _open_curve_file(data, task, with_item_features=False) as stream:
        names = [] if stream is None else _read_stamp(stream)[1]
    return frozenset(name.split()[0] for name in names)


def _open_curve_file(
    data: str, task: Task, with_item_features: bool
) -> AbstractContextManager[IO[str] | None]:
    """Open the file of shipped curves for a data set and a task; None where there is no file."""
    path = CURVE_FOLDER / build_curve_file_name(data, task, with_item_features=with_item_features)
    return path.open(encoding="utf-8", newline="") if path.is_file() else nullcontext()


def _read_stamp(stream: IO[str]) -> tuple[JsonObject, list[str]]:
    """Return the stamp of a file, and its mechanisms that this program computes in the same way."""
    stamp = json.loads(stream.readline().removeprefix("# "))
    names: list[str] = []
    uses_features = "features" in stamp["public"]
    if uses_features and stamp.get("features_revision") != FEATURES_REVISION:
        return stamp, names
    for name, settings in stamp["settings"].items():
        cls = registry.MECHANISMS.get(name.split()[0])
        if cls is not None and cls.revision == stamp["revisions"][name]:
            variant = format_variant({"mechanism": cls.id, "settings": settings})
            if name == variant:  # otherwise the defaults of the settings have changed
                names.append(name)
    return stamp, names


def _parse_records(
    stamp: Mapping[str, Any], names: Collection[str], lines: Iterable[Mapping[str, str]]
) -> Iterator[Record]:
    """Yield the records of a file of curves.

    Args:
        stamp: the file's stamp.
        names: the mechanisms to read, each with its settings as `format_variant` writes them.
        lines: the rows of the file, one for each metric of a run.
    """
    public = PublicFacts(**stamp["public"])
    prepared = stamp["prepared"]

    @cache
    def restore_variant(name: str, epsilon_text: str) -> tuple[Mechanism, JsonObject, JsonObject]:
        """Return a mechanism at an epsilon, its settings, and its guarantee as a record has it."""
        settings = stamp["settings"][name] | (
            {"epsilon": float(epsilon_text)} if epsilon_text else {}
        )
        mechanism = restore_mechanism(name.split()[0], settings)
        privacy_guarantee = mechanism.guarantee(public).with_preparation(tuple(prepared))
        return (
            mechanism,
            settings,
            privacy_guarantee.as_dict() | list_certified_units(privacy_guarantee),
        )

    measured: dict[tuple[str, str, str], dict[str, float]] = {}
    for line in lines:
        if line["mechanism"] in names:
            row_key = line["mechanism"], line["epsilon"], line["seed"]
            measured.setdefault(row_key, {})[line["metric"]] = float(line["value"])
    for (name, epsilon_text, seed), metrics in measured.items():
        mechanism, settings, guarantee = restore_variant(name, epsilon_text)
        run_identity = (
            stamp["source"],
            stamp["steps"],
            stamp["split"],
            mechanism.id,
            mechanism.revision,
        )
        yield {
            "key": unit_key(*run_identity, settings, int(seed)),
            "version": stamp["version"],
            "mechanism": mechanism.id,
            "revision": mechanism.revision,
            "task": mechanism.task.value,
            "seed": int(seed),
            "data": {
                **stamp["public"],
                "name": stamp["data"],
                "title": stamp["title"],
                "source": stamp["source"],
                "fingerprint": "",
                "ratings": 0,
                "test_ratings": 0,
                "split": stamp["split"],
                "prepare": stamp["steps"],
                "prepared": prepared,
            },
            "settings": settings,
            "guarantee": guarantee,
            "metrics": metrics,
            "rounds": 0,
            "stopped": False,
            "seconds": 0.0,
        }
