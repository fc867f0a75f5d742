"""The sample data of the package: generated, stored, read back.

`python -m dpmc_core.samples` writes every file of sample_data/ again, byte for byte.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core import bookshop, synthetic
from dpmc_core.errors import BadRatings
from dpmc_core.model import Factors
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.synthetic import Generated

FOLDER = Path(__file__).resolve().parent.parent / "sample_data"  # the same in a wheel
LICENCE = "CC0 1.0: generated, free for any use"
SEED = 20_240_501


@dataclass(frozen=True)
class Sample:
    """A generated data set. decimals: digits after the point that its ratings keep in the file.

    clicks: interactions without a value, for ranking.
    """

    title: str
    made: str
    generate: Callable[[int], Generated]
    decimals: int = 0
    clicks: bool = False


def _one_bit_lab(seed: int) -> Generated:
    return synthetic.one_bit_lab(rng=np.random.default_rng(seed))


SAMPLES: Mapping[str, Sample] = {
    "movie-night": Sample(
        "Movie night",
        "generated: a score is the sum of the user's kindness, the film's quality, taste (rank 4)"
        " times the film's place among its genres, and noise that differs between users; scores"
        " are cut into 1..5 with MovieLens 100K's numbers of users, films and ratings of each"
        " level; titles are invented",
        synthetic.movie_night,
    ),
    "restaurants": Sample(
        "Neighbourhood restaurants",
        "generated like movie night, smaller: 0, 1 or 2 for 130 invented restaurants, with the"
        " numbers of ratings of each level of the UCI restaurant data; guests differ much in"
        " kindness, taste has rank 2",
        synthetic.restaurants,
    ),
    "jokes": Sample(
        "Jokes",
        "generated: 12,000 people rate most of 100 jokes from -10 to 10; they differ in mean and"
        " in spread, jokes in mean, taste has rank 3, and most of the rest is noise, as in Jester",
        synthetic.jokes,
        decimals=2,
    ),
    "one-bit-lab": Sample(
        "One-bit lab",
        "generated after LWHM22, section 5: signs of a 100 x 100 matrix of rank 1 with entries up"
        " to 1, 15 % observed through the logistic link; the true matrix is known",
        _one_bit_lab,
    ),
    "bookshop-clicks": Sample(
        "Bookshop clicks",
        "generated: 2500 readers click on 1200 invented books in proportion to exp(popularity +"
        " taste (rank 8) times the book's place among its shelves); activity and popularity are"
        " log-normal, clicks fall on a few days of one year",
        bookshop.bookshop_clicks,
        clicks=True,
    ),
}


def read(name: str) -> Generated:
    """A sample as stored. Raises BadRatings where its file is missing."""
    path = FOLDER / f"{name}.npz"
    if not path.exists():
        raise BadRatings(
            f"the sample '{name}' is not at {path}: write it with 'python -m dpmc_core.samples'"
        )
    with np.load(path, allow_pickle=False) as stored:
        parts = dict(stored)
    titles, genres = _read_items(FOLDER / f"{name}-items.csv")
    users, items, low, high = parts["facts"].tolist()
    scale = 10 ** SAMPLES[name].decimals
    named = titles is not None
    ratings = Ratings.build(
        np.repeat(np.arange(users, dtype=np.int32), parts["counts"]),
        parts["items"].astype(np.int32),
        parts["values"] / scale,
        PublicFacts(users=users, items=items, low=low, high=high),
        times=parts.get("times"),
        user_ids=synthetic.names(users) if named else None,
        item_ids=synthetic.names(items) if named else None,
        titles=titles,
    )
    truth = Factors(parts["left"], parts["right"]) if "left" in parts else None
    return Generated(ratings, genres, truth)


def write(folder: Path) -> list[Path]:
    """Generate every sample into a folder; returns the files, whose bytes depend on SEED only."""
    return [path for name in SAMPLES for path in _write_one(folder, name)]


def _write_one(folder: Path, name: str) -> list[Path]:
    sample = SAMPLES[name]
    ratings, genres, truth = sample.generate(SEED)
    public = ratings.public
    parts: dict[str, NDArray[Any]] = {
        "facts": np.array([public.users, public.items, public.low, public.high], dtype=np.int64),
        "counts": np.diff(ratings.indptr).astype(np.uint16),
        "items": _small(ratings.items),
        "values": _small(np.rint(ratings.values * 10**sample.decimals)),
    }
    if ratings.times is not None:
        parts["times"] = ratings.times.astype(np.uint32)
    if truth is not None:
        parts |= {"left": truth.left, "right": truth.right}
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}.npz"]
    # Not compressed: the bytes of a compressed file would depend on the zlib at hand.
    np.savez(files[0], allow_pickle=False, **parts)
    if ratings.titles is not None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["title", "genres"])
        for k, title in enumerate(ratings.titles):
            writer.writerow([title, "|".join(genres[k]) if genres else ""])
        files.append(folder / f"{name}-items.csv")
        files[1].write_bytes(text.getvalue().encode())
    return files


def _read_items(path: Path) -> tuple[tuple[str, ...] | None, list[tuple[str, ...]] | None]:
    if not path.exists():
        return None, None
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    genres = [tuple(row[1].split("|")) for row in rows] if any(row[1] for row in rows) else None
    return tuple(row[0] for row in rows), genres


def _small(values: NDArray[Any]) -> NDArray[Any]:
    """The same integers in the smallest signed type that holds them."""
    for kind in (np.int8, np.int16):
        limits = np.iinfo(kind)
        if values.min() >= limits.min and values.max() <= limits.max:
            return values.astype(kind)
    return values.astype(np.int32)


if __name__ == "__main__":
    for written in write(FOLDER):
        sys.stdout.write(f"{written}  {written.stat().st_size:,} bytes\n")
