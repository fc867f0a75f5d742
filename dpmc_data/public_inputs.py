"""Files of public inputs beside the ratings: lists of users and items, and user factors."""

from __future__ import annotations

from pathlib import Path

from dpmc_core.errors import BadRatings


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
