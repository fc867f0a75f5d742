"""Generated ratings with a known structure: the samples of the package, and sets drawn on demand.

The samples are files of sample_data/, which `python sample_data/generate.py` writes again. Those of
`GENERATORS` can also be drawn anew here, by pure functions of keyword options and of `rng`: a seed,
or a generator as `np.random.default_rng` takes it.

JTT18: Jain, Thakkar, Thakurta, "Differentially Private Matrix Completion Revisited" (2018).
LWHM22: Li, Wei, Huang, Mao, Wang, "One-Bit Matrix Completion with Differential Privacy" (2022).
"""

from __future__ import annotations

import csv
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpmc_core.arrays import Rng
from dpmc_core.errors import BadRatings, check_number
from dpmc_core.links import LOGISTIC, Link
from dpmc_core.model import Factors
from dpmc_core.ratings import PublicFacts, Ratings, number_ids
from dpmc_data import archives, facts

Genres = list[tuple[str, ...]]
Titles = tuple[str, ...] | None

SAMPLE_FOLDER = Path(__file__).resolve().parents[1] / "sample_data"  # the same in a wheel
LICENCE = "CC0 1.0: generated, free for any use"
SAMPLE_SEED = 20_240_501
USERS_PER_BLOCK = 4096  # users drawn at once: bounds memory at BLOCK x items


class Generated(NamedTuple):
    """Generated ratings with what is known about them.

    Attributes:
        ratings: the ratings.
        genres: the genres of each item; None if there are none.
        truth: factors of the true matrix; None if there is none.
    """

    ratings: Ratings
    genres: Genres | None = None
    truth: Factors | None = None


def generate_one_bit_lab(
    rng: int | Rng,
    *,
    d1: int = 100,
    d2: int = 100,
    rank: int = 1,
    alpha: float = 1.0,
    observed: float = 0.15,
    link: Link = LOGISTIC,
) -> Generated:
    """Generate ratings from the one-bit model of LWHM22 (section 5): signs of a low-rank matrix.

    M = M1 M2' with entries of M1 (d1 x rank) and M2 (d2 x rank) uniform on [-1/2, 1/2], scaled to
    max |M| = alpha; round(observed d1 d2) cells, chosen uniformly, are +1 with probability link(M),
    else -1. With the defaults, which are the paper's, recovery is worse than answering 0 (too few
    observations for so small an alpha); with observed = 0.8 and alpha = 5 it works.

    Args:
        rng: a seed or a generator.
        d1: number of users.
        d2: number of items.
        rank: rank of the matrix.
        alpha: largest absolute entry of the matrix.
        observed: share of the cells that are observed, above 0.
        link: the probability of +1 as a function of an entry.
    """
    check_number("d1", d1, at_least=1, integer=True)
    check_number("d2", d2, at_least=1, integer=True)
    check_number("rank", rank, at_least=1, at_most=min(d1, d2), integer=True)
    check_number("alpha", alpha, above=0)
    check_number("observed", observed, above=0, at_most=1)
    rng = np.random.default_rng(rng)
    left, right = rng.uniform(-0.5, 0.5, (d1, rank)), rng.uniform(-0.5, 0.5, (d2, rank))
    left *= alpha / np.abs(left @ right.T).max()
    count = max(1, round(observed * d1 * d2))
    users, items = np.divmod(np.sort(rng.choice(d1 * d2, size=count, replace=False)), d2)
    truth = Factors(left, right)
    probability = link.probability(truth.predict(users, items))
    signs = np.where(rng.random(count) < probability, 1.0, -1.0)
    public = PublicFacts(users=d1, items=d2, low=-1, high=1)
    return Generated(Ratings.build(users, items, signs, public), truth=truth)


def generate_rank_one(
    rng: int | Rng,
    *,
    users: int = 300,
    items: int = 100,
    per_user: int = 30,
) -> Generated:
    """Generate ratings that are the entries of a matrix of rank 1, `per_user` of every row.

    Y = u v' with entries in -1..1 (unit infinity norm; u and v uniform on -1..1, then scaled),
    observed without noise. These are the synthetic data of JTT18, section 4, which leaves the
    distribution of u and v open. Rows are drawn in blocks, so that only the observed cells are held
    in memory, 16 bytes each.

    Args:
        rng: a seed or a generator.
        users: number of users.
        items: number of items.
        per_user: number of ratings of each user.
    """
    check_number("users", users, at_least=1, integer=True)
    check_number("items", items, at_least=1, integer=True)
    check_number("ratings per user", per_user, at_least=1, at_most=items, integer=True)
    rng = np.random.default_rng(rng)
    left, right = rng.uniform(-1, 1, users), rng.uniform(-1, 1, items)
    left, right = left / np.abs(left).max(), right / np.abs(right).max()
    item_indices = np.empty(users * per_user, dtype=np.int32)
    values = np.empty(users * per_user)
    for start in range(0, users, USERS_PER_BLOCK):
        stop = min(start + USERS_PER_BLOCK, users)
        keys = rng.random((stop - start, items), dtype=np.float32)
        chosen = np.sort(np.argpartition(keys, per_user - 1, axis=1)[:, :per_user], axis=1)
        block = slice(start * per_user, stop * per_user)
        item_indices[block] = chosen.ravel()
        values[block] = (left[start:stop, None] * right[chosen]).ravel()
    public = PublicFacts(users=users, items=items, low=-1, high=1, cap=per_user)
    user_indices = np.repeat(np.arange(users, dtype=np.int32), per_user)
    # They are drawn sorted and valid; `Ratings.build` would hold three more columns to check that.
    ratings = Ratings(users=user_indices, items=item_indices, values=values, public=public)
    return Generated(ratings, truth=Factors(left[:, None], right[:, None]))


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A generated data set, as samples.toml describes it.

    Attributes:
        title: the name for display.
        made: how it was drawn, in words.
        stored: whether it is a file of `SAMPLE_FOLDER`; otherwise it is drawn when it is opened.
        decimals: digits after the point that its ratings keep in the file.
        clicks: whether its ratings are interactions without a value, for ranking.
        facts: what the genres say about the true matrix; empty if there are none, or they say
            nothing.
        items: what is rated, in a word.
    """

    title: str
    made: str
    stored: bool = True
    decimals: int = 0
    clicks: bool = False
    facts: str = ""
    items: str = "titles"


ALL_SAMPLES: Mapping[str, Sample] = {
    name: facts.build_from_table(Sample, table, name)
    for name, table in facts.load_toml("dpmc_data", "samples.toml").items()
}
SAMPLES = {name: sample for name, sample in ALL_SAMPLES.items() if sample.stored}
ON_DEMAND = {name: sample for name, sample in ALL_SAMPLES.items() if not sample.stored}
# Samples that can be drawn anew as NAME:OPTION=VALUE,..., with the options of their generators.
GENERATORS: Mapping[str, Callable[..., Generated]] = {
    "one-bit-lab": generate_one_bit_lab,
    "rank-one": generate_rank_one,
    "jtt18-synthetic": partial(generate_rank_one, users=500_000, items=400, per_user=80),
}


def _list_defaults(name: str) -> dict[str, Any]:
    """Return the options of a generator with their defaults; its first parameter is the seed."""
    _, *parameters = inspect.signature(GENERATORS[name]).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters}


def list_sample_options(name: str) -> tuple[str, ...]:
    """Return the options with which one of `GENERATORS` can be drawn anew."""
    return *_list_defaults(name), "seed"


def count_sample_cells(name: str, options: Mapping[str, Any]) -> float:
    """Return users x items of one of `GENERATORS` drawn with these options."""
    chosen = _list_defaults(name) | dict(options)
    return math.prod(float(chosen[key]) for key in ("users", "items", "d1", "d2") if key in chosen)


def load_sample(name: str) -> Generated:
    """Load a sample from its file, or generate one that is not stored.

    Raises:
        BadRatings: if its file is missing.
    """
    if name in ON_DEMAND:
        return GENERATORS[name](SAMPLE_SEED)
    path = SAMPLE_FOLDER / f"{name}.npz"
    if not path.exists():
        raise BadRatings(
            f"the sample '{name}' is not at {path}: write it with 'python sample_data/generate.py'"
        )
    arrays = archives.read_npz(path)
    titles, genres = _read_items(SAMPLE_FOLDER / f"{name}-items.csv")
    users, items, low, high = arrays["facts"].tolist()
    ratings = Ratings.build(
        np.repeat(np.arange(users, dtype=np.int32), arrays["counts"]),
        arrays["items"].astype(np.int32),
        # Whole numbers are stored, since they compress better.
        arrays["values"] / 10 ** SAMPLES[name].decimals,
        PublicFacts(users=users, items=items, low=low, high=high),
        times=arrays.get("times"),
        user_ids=titles and number_ids(users),
        item_ids=titles and number_ids(items),
        titles=titles,
    )
    truth = Factors(arrays["left"], arrays["right"]) if "left" in arrays else None
    return Generated(ratings, genres, truth)


def _read_items(path: Path) -> tuple[Titles, Genres | None]:
    """Return titles, and genres if any item has one; both None without a file."""
    if not path.exists():
        return None, None
    with path.open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    titles, joined = zip(*rows, strict=True)
    return titles, [tuple(text.split("|")) for text in joined] if any(joined) else None
