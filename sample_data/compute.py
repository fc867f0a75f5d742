"""Compute the curves of this folder again, and the lists that people would see.

    python sample_data/compute.py [PRESET ...] [--store FILE] [--into FOLDER]

This takes long. It continues where it stopped: finished runs are rows of the store, and rows that
are in the folder already count as done, except those of the first seed.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import IO

from dpmc_core import registry
from dpmc_core.model import Task
from dpmc_core.ratings import FEATURES_REVISION
from dpmc_data import datasets
from dpmc_data.synthetic import SAMPLES
from dpmc_lab import shipped, sweep
from dpmc_lab.cli.sweep import open_local_pool, run_plan
from dpmc_lab.store import (
    PUBLIC_COLUMNS,
    Record,
    Store,
    drop_epsilon,
    iterate_records,
    list_curves,
)
from dpmc_lab.sweep.presets import PRESETS
from dpmc_lab.views import people


def compute(grid: sweep.Grid, store: Store, folder: Path) -> None:
    """Run what is missing of a grid, and write its files.

    Raises:
        DpmcError: if a run fails.
    """
    plan, with_features = sweep.build_plan(grid), registry.has_features_step(grid.steps)
    for source, task in product(plan.sources.values(), Task):
        path = folder / shipped.build_curve_file_name(
            source.name, task, with_item_features=with_features
        )
        if path.is_file():
            with path.open(encoding="utf-8", newline="") as stream:
                shipped.read_curves(stream, store=store, skipped_seed=sweep.LISTS_SEED)
    sweep.warm_up()
    run_plan(plan, store, partial(open_local_pool, plan, sweep.count_cores()), False)
    write_curves(store, plan, folder, with_features=with_features)


def write_curves(store: Store, plan: sweep.Plan, folder: Path, *, with_features: bool) -> None:
    """Write one file for each data set and task."""
    units = set(plan.keys.units)
    for source_key, source in plan.sources.items():
        # A file could not distinguish the curves of other sources.
        assert isinstance(source, sweep.SplitSource)
        curves = list_curves(store, keys=plan.keys.curves, source=source_key, count=False)
        for task in Task:
            # The file of a grid with item features leaves out curves that use none of them.
            selected = [
                curve
                for curve in curves
                if curve.task == task.value
                and registry.has_features_step(curve.prepare) == with_features
            ]
            rows = iterate_records(store, [curve.id for curve in selected])
            records = [record for record in rows if record["key"] in units]
            if records:
                path = folder / shipped.build_curve_file_name(
                    source.name, task, with_item_features=with_features
                )
                with path.open("w", encoding="utf-8", newline="") as stream:
                    write_curve_file(records, source.dataset, source_key, stream)
                keys = {curve.key: curve.mechanism for curve in selected}
                write_lists(store, plan, source, task, keys, path.with_suffix(".json"))


def write_lists(
    store: Store,
    plan: sweep.Plan,
    source: sweep.SplitSource,
    task: Task,
    keys: Mapping[str, str],
    path: Path,
) -> None:
    """Write what people would see at every epsilon, if the first seed was among those computed."""
    target = (source.fingerprint, task, sweep.LISTS_SEED)
    references = [key for key, id in keys.items() if id == registry.NONPRIVATE_REFERENCES[task]]
    units = [u for u in plan.units if (u.source, u.mechanism.task, u.seed) == target]
    if not references or not units:
        return
    if source.name in SAMPLES:  # with names, on which no result depends
        source = sweep.SplitSource(datasets.load(source.name))
    train = sweep.build_unit_problem(units[0], source).train
    if cached := people.load_people_from_store(store, keys, references[0], train):
        with path.open("w", encoding="utf-8") as stream:
            write_people(*cached, stream)


def write_curve_file(
    records: Iterable[Record], dataset: datasets.LoadedDataset, source: str, stream: IO[str]
) -> None:
    """Write the rows of one data set and task: the stamp as a comment line, then CSV.

    A mechanism is named with the settings that are not its defaults.

    Args:
        records: the rows.
        dataset: the data set.
        source: fingerprint of the data set.
        stream: where to write.
    """
    rows = list(records)
    first = min(rows, key=lambda row: int(row["seed"]))["data"]
    item_features = (
        {"features": dataset.ratings.public.available_features}
        if registry.has_features_step(first["prepare"])
        else {}
    )
    stamp = {
        "version": ", ".join(sorted({row["version"] for row in rows})),
        "data": dataset.name,
        "title": dataset.title,
        "public": {name: first[name] for name in PUBLIC_COLUMNS} | item_features,
        "ratings": len(dataset.ratings),
        "fingerprint": dataset.ratings.fingerprint,
        "prepared": first["prepared"],
        "steps": first["prepare"],
        "split": first["split"],
        "settings": {shipped.format_variant(row): drop_epsilon(row["settings"]) for row in rows},
        "revisions": {shipped.format_variant(row): row["revision"] for row in rows},
        "source": source,
    } | ({"features_revision": FEATURES_REVISION} if item_features else {})
    stream.write("# " + json.dumps(stamp) + "\n")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(("data", "mechanism", "epsilon", "seed", "metric", "value"))
    for row in rows:
        epsilon = row["settings"].get("epsilon")
        epsilon_text = "" if epsilon is None else f"{epsilon:g}"
        for metric, value in row["metrics"].items():
            writer.writerow(
                (
                    dataset.name,
                    shipped.format_variant(row),
                    epsilon_text,
                    row["seed"],
                    metric,
                    f"{value:.6g}",
                )
            )


def write_people(
    selected: people.People,
    lists_by_curve: Mapping[str, Mapping[float, people.TopLists]],
    stream: IO[str],
) -> None:
    """Write the JSON file of people and lists that ships with a sample's curves for a task.

    Args:
        selected: the users that are shown, with their lists without privacy.
        lists_by_curve: the recommendation lists of these users, by the key of the curve and by
            epsilon.
        stream: where to write.
    """
    document = {
        "people": [dataclasses.asdict(person) for person in selected.people],
        "titles": selected.titles,
        "popular": selected.popular,
        "curves": {
            key: {f"{e:g}": dataclasses.astuple(lists) for e, lists in by_epsilon.items()}
            for key, by_epsilon in lists_by_curve.items()
        },
    }
    json.dump(document, stream, separators=(",", ":"))
    stream.write("\n")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("presets", nargs="*", default=[*PRESETS], metavar="PRESET")
    parser.add_argument("--store", type=Path, help="result store (default: the shared one)")
    parser.add_argument("--into", type=Path, default=shipped.CURVE_FOLDER, help="folder (this one)")
    args = parser.parse_args(argv)
    with Store(args.store) as store:
        for name in args.presets:
            print(f"==> {name}", flush=True)
            compute(PRESETS[name].grid, store, args.into)


if __name__ == "__main__":
    main()
