"""Names that are data, collected in one document.

A changed string here changes noise (a run's generator is seeded by ids, revisions and settings),
loses stored rows, breaks scripts, or opens a saved link at the wrong place. After a change that is
meant, write the document again and read the difference:

    python -m tests.frozen_interfaces
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = Path(__file__).with_name("fixtures") / "interfaces.json"
LINKS = Path(__file__).with_name("fixtures") / "links.txt"
STEPS = (
    *("binarise=mean", "binarise=middle", "binarise=1.5", "implicit=all", "implicit=1"),
    *("top-items=20", "cap=5:3", "rescale=0:1", "features", "features=genre"),
)
JSON_COMMANDS = (  # each takes a second or two
    "fit one-bit-lab input-flip --epsilon 1",
    "fit restaurants private-effects --epsilon 1",
    "fit restaurants randomised-response --epsilon 1",
    "guarantees --epsilon 1",
    "recommend restaurants",
    "protocol 2 restaurants --epsilon 1",
    "protocol federated --epsilon 1 --set rounds=1",
    "audit output --epsilon 1",
    "data describe movie-night",
    "data list",
    "list",
)


def call_json(command: str) -> Any:
    """Return what a command prints with --json."""
    with tempfile.TemporaryDirectory() as home:
        result = subprocess.run(
            [sys.executable, "-m", "dpmc_lab", *command.split(), "--json"],
            cwd=ROOT,
            env=os.environ | {"DPMC_HOME": home, "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
    return json.loads(result.stdout)


def list_fields(document: Any, path: str = "") -> Iterator[str]:
    """Yield the dotted paths of all fields; the elements of a list share one path."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield f"{path}.{name}".lstrip(".")
            yield from list_fields(value, f"{path}.{name}")
    elif isinstance(document, list):
        for value in document:
            yield from list_fields(value, f"{path}[]")


def collect_fields(command: str) -> list[str]:
    """Return the fields of the JSON that a command prints."""
    return sorted(set(list_fields(call_json(command))))


def collect_mechanisms() -> dict[str, Any]:
    """Return each mechanism's id, revision, task and settings with their values."""
    return {
        row["id"]: {
            **{name: row[name] for name in ("revision", "task", "twin", "floor")},
            "settings": {
                setting["name"]: [setting["accepts"], setting["default"], setting["required"]]
                for setting in row["settings"]
            },
        }
        for row in call_json("list")
    }


def collect_preparation() -> dict[str, Any]:
    """Return the texts that preparation and splits leave in stored rows and seeds."""
    from dpmc_core.preparation import parse_step
    from dpmc_core.problem import LeaveLast, RandomShare, SharePerUser
    from dpmc_data import load

    texts: dict[str, Any] = {}
    ratings = load("restaurants").ratings
    for step in STEPS:
        transform = parse_step(step)
        prepared = transform.apply(ratings, ratings)
        texts[step] = [str(transform), prepared.fingerprint, *prepared.prepared]
    for split in (RandomShare(0.2), SharePerUser(0.2), LeaveLast()):
        train, test = split(ratings, np.random.default_rng(1))
        texts[type(split).__name__] = [
            *(str(split), split.describe(ratings)),
            *(train.fingerprint, test.fingerprint),
        ]
    return texts


def collect_draws() -> dict[str, Any]:
    """Return what seeded generators draw first, for the strings that seed them."""
    from dpmc_core.problem import create_generator

    return {
        key: int(create_generator(3, key).integers(2**32))
        for key in ("input-flip", "evaluate on x")
    }


def collect_store() -> dict[str, Any]:
    """Return the tables of a new result store and the columns of what it exports."""
    from dpmc_lab import store

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.sqlite"
        with store.Store(path):
            pass
        with sqlite3.connect(path) as connection:
            shape = sorted(
                sql or name
                for name, sql in connection.execute("SELECT name, sql FROM sqlite_schema")
            )
            version = connection.execute("PRAGMA user_version").fetchone()[0]
    return {"version": version, "tables": shape, "fields": [f.name for f in store.FIELDS]}


def collect_shipped_rows() -> dict[str, Any]:
    """Return, per file of shipped curves, what its first lines name: data, columns, curves."""
    files: dict[str, Any] = {}
    for path in sorted((ROOT / "sample_data" / "curves").glob("*.csv")):
        with path.open(encoding="utf-8") as lines:
            header, columns = json.loads(next(lines).lstrip("# ")), next(lines).strip()
        names = ("data", "fingerprint", "prepared", "steps", "split")
        files[path.name] = {name: header[name] for name in names} | {"columns": columns}
    return files


def collect_commands() -> dict[str, Any]:
    """Return each command's options and positional arguments."""
    from dpmc_lab.cli import build_parser

    commands: dict[str, list[str]] = {}

    def visit(parser: argparse.ArgumentParser, path: str) -> None:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, child in action.choices.items():
                    visit(child, f"{path} {name}")
            else:
                commands.setdefault(path, []).append(
                    " ".join(action.option_strings) or f"<{action.dest}>"
                )

    visit(build_parser(), "dpmc")
    return {path: sorted(options) for path, options in sorted(commands.items())}


def collect_names() -> dict[str, Any]:
    """Return variables of the environment, routes, and the keys a phone's browser stores."""
    roots = ("dpmc_core", "dpmc_data", "dpmc_lab", "pages")
    sources = [path for root in roots for path in (ROOT / root).rglob("*.py")]
    text = "\n".join(path.read_text("utf-8") for path in sources)
    phone = (ROOT / "pages" / "ui" / "phone.html").read_text("utf-8")
    return {
        "environment": sorted(set(re.findall(r"\"(DPMC_[A-Z_]+)\"", text))),
        "routes": sorted(set(re.findall(r"Route\(f?\"([^\"]+)\"", text))),
        "storage": re.findall(r"KEY = ([^;\n]+)", phone),
    }


def collect_catalogues() -> dict[str, Any]:
    """Return the ids of samples, public sets, presets, lessons, metrics and the papers' entries."""
    from dpmc_core.metrics import METRICS
    from dpmc_data import public_sets, synthetic
    from dpmc_lab import papers
    from dpmc_lab.sweep import presets

    lessons = sorted((ROOT / "dpmc_lab" / "texts" / "en" / "lessons").glob("*.toml"))
    return {
        "samples": sorted(synthetic.ALL_SAMPLES),
        "public sets": sorted(public_sets.SETS),
        "presets": sorted(presets.PRESETS),
        "metrics": list(METRICS),
        "lessons": [path.stem for path in lessons],
        "papers": sorted(
            experiment.id for _, experiment in papers.list_experiments(with_settings=True)
        ),
    }


def collect_imports() -> list[str]:
    """Return the imports of core and data that documents and the plug-in of the tests show."""
    files = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    text = "\n".join(path.read_text("utf-8") for path in files)
    return sorted(
        set(re.findall(r"^(?:from dpmc_(?:core|data)[\w.]* )?import (?:\([^)]*\)|.+)", text, re.M))
    )


def open_link(link: str) -> dict[str, Any]:
    """Return what a saved link opens: its notes, and the value behind each of its parameters."""
    from pages.ui.server import MOVED_PAGES
    from tests.page_helpers import open_page

    page, _, query = link.partition("?")
    parameters = dict(parse_qsl(query))  # one value each is enough for AppTest
    app = open_page(MOVED_PAGES.get(page, "") or page, **parameters)
    values = {}
    for name in parameters:
        value = app.session_state.get(name, None)
        values[name] = str(getattr(value, "value", value))
    return {"values": values, "notes": [e.value for e in app.warning if "The link" in e.value]}


def collect_interfaces() -> dict[str, Any]:
    """Return everything that is frozen, as it is now."""
    return {
        "mechanisms": collect_mechanisms(),
        "preparation": collect_preparation(),
        "draws": collect_draws(),
        "store": collect_store(),
        "shipped rows": collect_shipped_rows(),
        "commands": collect_commands(),
        "names": collect_names(),
        "imports": collect_imports(),
        "catalogues": collect_catalogues(),
        "json": {command: collect_fields(command) for command in JSON_COMMANDS},
        "links": {link: open_link(link) for link in LINKS.read_text("utf-8").split()},
    }


if __name__ == "__main__":
    document = json.dumps(collect_interfaces(), indent=1, sort_keys=True, ensure_ascii=False)
    DOCUMENT.write_text(document + "\n", encoding="utf-8")
