"""Results of experiments as small JSON files: those that ship, and one's own.

Metrics alone. Shipped ones are made by `dpmc papers ID --run --write sample_data/papers`; one's own
lie below DPMC_HOME.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dpmc_core import paths
from dpmc_core.archives import read_json
from dpmc_core.errors import BadRatings, DpmcError
from dpmc_core.lab.papers.frame import Made, Series, Stamp

FOLDER = Path(__file__).resolve().parents[3] / "sample_data" / "papers"  # also in a wheel
_DIGITS = 7


def own_folder() -> Path:
    """Where one's own results lie."""
    return paths.home() / "papers"


def as_dict(made: Made) -> dict[str, Any]:
    """As plain JSON values."""
    return {
        "id": made.id,
        "stamp": made.stamp._asdict(),
        "series": [asdict(one) for one in made.series],
    }


def ready(folder: Path) -> None:
    """Make a folder for results where there is none: told before the work.

    Raises DpmcError, OSError.
    """
    if folder.exists() and not folder.is_dir():
        raise DpmcError(f"{folder} is a file: name a folder for the result")
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise DpmcError(f"{folder} cannot be written to: name another folder for the result")


def write(made: Made, folder: Path) -> Path:
    """A file for a result, whole or not at all. Raises DpmcError, OSError."""
    ready(folder)
    path = folder / f"{made.id}.json"
    found = as_dict(made)
    curves = ",\n".join(f"  {json.dumps(_short(one))}" for one in found["series"])
    text = (
        f'{{\n "id": {json.dumps(made.id)},\n "stamp": {json.dumps(found["stamp"])},\n'
        f' "series": [\n{curves}\n ]\n}}\n'
    )
    with paths.whole_file(path) as part:
        part.write_text(text, encoding="utf-8")
    return path


def read(path: Path) -> Made:
    """The result in a file. Raises BadRatings where it is not one of ours, OSError."""
    try:
        found = read_json(path.read_text(encoding="utf-8"))
        series = tuple(_series(one) for one in found["series"])
        return Made(id=found["id"], series=series, stamp=Stamp(**found["stamp"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadRatings(
            f"{path} is no result of a paper's experiment, or damaged: remove it, or make it again"
        ) from None


def _series(found: dict[str, Any]) -> Series:
    one = Series(**{name: _whole(value) for name, value in found.items()})
    columns = (one.x, one.mean, one.low, one.high, one.seeds)
    if not one.x or len({len(column) for column in columns}) > 1:
        raise ValueError(f"{one.label} has not one value for each place")
    if one.draws and [len(draws) for draws in one.draws] != list(one.seeds):
        raise ValueError(f"{one.label} has not one draw for each seed")
    _ = [float(value) for column in columns for value in column]
    return one


def _whole(value: Any) -> Any:
    """Lists as tuples, as they were written."""
    return tuple(map(_whole, value)) if isinstance(value, list) else value


def shipped(id: str) -> Made | None:
    """The result that came with the program."""
    return _there(FOLDER / f"{id}.json")


def own(id: str) -> Made | None:
    """The result of one's own run."""
    return _there(own_folder() / f"{id}.json")


def forget(id: str) -> None:
    """Remove one's own result; its rows, or pieces, are kept. Raises OSError."""
    (own_folder() / f"{id}.json").unlink(missing_ok=True)


def _there(path: Path) -> Made | None:
    return read(path) if path.is_file() else None


def _short(value: Any) -> Any:
    """Numbers with the digits that matter."""
    if isinstance(value, dict):
        return {name: _short(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_short(one) for one in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
