"""Files of public inputs beside the ratings: lists of users and items, and user factors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from dpmc_core.errors import BadRatings, InvalidSetting
from dpmc_core.settings import parse_setting
from dpmc_data import archives

T = TypeVar("T")


def read_ids(path: str | Path) -> tuple[str, ...]:
    """Read the ids of a UTF-8 text file, one per line; blank lines do not count.

    Raises:
        BadRatings: if there is no such file, or it holds no ids.
    """
    file = Path(path)
    if not file.is_file():
        raise BadRatings(f"there is no file {file} with one id a line")
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise BadRatings(f"{file.name} is no text in UTF-8: write one id a line") from None
    ids = tuple(line.strip() for line in lines if line.strip())
    if not ids:
        raise BadRatings(f"{file.name} has no ids: write one a line")
    return ids


def read_setting(mechanism: type, name: str, text: str) -> Any:
    """Parse the text of a setting as `parse_setting` does, and read the file that it may name.

    Raises:
        InvalidSetting: if the setting is unknown, the text is no value of it, or the file cannot be
            read.
    """
    return read_array(name, parse_setting(mechanism, name, text))


def read_array(name: str, value: T) -> T:
    """Return a setting's value with the array of the .npy file that it names, if it names one.

    Args:
        name: the name of the setting.
        value: its value; one that names a file has the fields `unread_file` and `array`.

    Raises:
        InvalidSetting: if the file cannot be read.
    """
    file = getattr(value, "unread_file", "")
    if not file:
        return value
    try:
        return cast(T, replace(cast(Any, value), array=archives.read_npy(Path(file))))
    except archives.BadArchive as error:
        raise InvalidSetting(name, "a readable .npy file", file, error.reason) from None
