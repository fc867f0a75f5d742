"""Opening rating data: samples, public sets, files and uploads, with a report in plain words.

The public rating range is never the smallest and largest rating of the data: it is the sample's or
the public set's own, or it is given.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dpmc_core.data import features, public_sets, synthetic
from dpmc_core.data.reading import (
    RANGE_ASKED,
    Table,
    build,
    check,
    clean,
    facts_of,
    layout_of,
    read_table,
)
from dpmc_core.data.source import NONE, Fault, LineCount, ReadOptions, Refused, Source, Tell
from dpmc_core.data.text import Layout
from dpmc_core.errors import (
    BadRatings,
    InvalidSetting,
    check_number,
    number_or_text,
    unknown_name,
)
from dpmc_core.links import parse_link
from dpmc_core.model import Factors
from dpmc_core.ratings import Catalogue, Origin, Ratings

_GENERATED, _PUBLIC = "the generated set {}", "the public set {}"  # sources of catalogues
_CHANGED = ", whose file here may have been changed"
EACH = "each"  # as a seed in NAME:seed=each: that of whoever runs on it


@dataclass(frozen=True, eq=False)
class Dataset:
    """Ratings with where they come from and what a reader should know about them.

    source: who made them, or how; licence: terms of use. facts: what is publicly known of the
    items; truth: the matrix behind generated ratings, None where there is none. report: findings,
    one sentence each. opened, reading: what `load` was given, name and options; of an upload the
    name of its file. count: what became of every line of a file.
    """

    ratings: Ratings
    name: str
    title: str
    source: str
    licence: str
    report: tuple[str, ...]
    truth: Factors | None = None
    facts: tuple[features.Fact, ...] = ()
    opened: str = ""
    reading: Mapping[str, Any] = field(default_factory=dict)
    count: LineCount | None = None


def public_sources() -> dict[str, tuple[int, int] | None]:
    """Every source that the catalogue of a public set may have, with its users and items where
    these are known."""
    found: dict[str, tuple[int, int] | None] = {
        _GENERATED.format(name): None for name in synthetic.ALL
    }
    for known in public_sets.SETS.values():
        source = _PUBLIC.format(known.title)
        found |= {source: known.catalogue, source + _CHANGED: None}
    return found


def load(data: str | Path, **options: Any) -> Dataset:
    """Open a sample by its id, a downloaded set by its name, a file, or a folder: of a known set,
    or of Parquet files.

    A sample of `synthetic.DRAWN` can be drawn anew: NAME:OPTION=VALUE,..., or by `options`: an
    integer `seed` and the settings of its generator. options otherwise: fields of `ReadOptions`.
    Raises BadRatings or InvalidSetting.
    """
    name = str(data)
    if (anew := drawn(name)) is not None:
        found = load(anew[0], **anew[1], **options)
        return dataclasses.replace(found, name=name, opened=name, reading=options)
    if name in synthetic.ALL:
        plain = {key: value for key, value in options.items() if key != "for_ranking"}
        return _load_sample(name, plain)
    return _load_source(Source.file(_located(name)), name, options)


def drawn(text: str) -> tuple[str, dict[str, Any]] | None:
    """Of NAME:OPTION=VALUE,... the sample and its options, None where that is no such text.

    Raises InvalidSetting.
    """
    name, colon, given = text.partition(":")
    if not colon or name not in synthetic.DRAWN:
        return None
    options: dict[str, Any] = {}
    for part in given.split(","):
        option, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not option:
            raise InvalidSetting(f"option of {name}", "NAME=VALUE", part)
        found = parse_link(value) if option == "link" else number_or_text(value)
        if isinstance(found, str) and (option, value) != ("seed", EACH):
            raise InvalidSetting(f"{option} of {name}", "a number", value)
        options[option] = found
    return name, options


def _located(name: str) -> Path:
    path = Path(name)
    if not path.exists() and name in {*public_sets.ARCHIVES, *public_sets.BY_HAND}:
        path = public_sets.downloaded(name)
    if not path.exists():
        hint = unknown_name("data", name, synthetic.SAMPLES).hint
        near = f" ({hint})" if hint else ""
        raise BadRatings(
            f"there is no file or folder '{name}'{near}; samples are {', '.join(synthetic.SAMPLES)}"
        )
    if path.is_dir():
        file = public_sets.find_in_folder(path)
        if file is None and not Source("", path=path).parts:
            raise BadRatings(
                f"the folder {path} holds no ratings of a known set: give the file itself, or a"
                f" folder of Parquet files or with one of {', '.join(public_sets.FOLDER_FILES)}"
            )
        path = file or path
    return path


def load_upload(content: bytes, filename: str, tell: Tell | None = None, **options: Any) -> Dataset:
    """Read uploaded bytes as `load` reads a file; `filename` helps to recognise the format.

    tell: told (bytes read, bytes in all) now and then; what it raises ends the reading.
    """
    source = Source.upload(content, filename)
    return _load_source(source, source.name, options, tell)


@dataclass(frozen=True)
class Examination:
    """A file looked through to its end, whatever is wrong with it.

    found: what the reader understood; faults: what keeps it from being read as it is; options:
    reading options under which it would be read, None where there are none; asks_range: that the
    public range must be given with them. count: what became of every line.
    """

    name: str
    found: tuple[str, ...]
    faults: tuple[Fault, ...]
    options: Mapping[str, Any] | None
    asks_range: bool = False
    count: LineCount | None = None


def examine(path: str | Path, **options: Any) -> Examination:
    """Everything the reader understands of a file and everything wrong with it.

    Each fault that an option answers is answered, so that those behind it come to light as well.
    """
    source = Source.file(path)
    faults: dict[Fault, None] = {}
    answered = dict(options)
    for _ in range(len(ReadOptions.__dataclass_fields__)):
        settings = ReadOptions(**answered)
        checked = None
        try:
            checked = check(read_table(source, settings, ask_range=False), settings)
            fresh = [fault for fault in checked.faults if fault not in faults]
        except Refused as error:
            fresh = [fault for fault in error.faults if fault not in faults]
        except BadRatings as error:
            fresh = [Fault(str(error))]
        faults |= dict.fromkeys(fresh)
        answers = [fault.answer for fault in fresh if fault is not RANGE_ASKED]
        if None in answers or (checked is None and not fresh):
            return Examination(source.name, (), tuple(faults), None)
        answered |= {name: value for answer in answers if answer for name, value in [answer]}
        if checked is not None and not answers:
            found = checked.report
            if len(checked.rows) and np.isfinite(checked.low):
                found += facts_of(build([checked])[0])
            return Examination(
                source.name, found, tuple(faults), answered, RANGE_ASKED in faults, checked.count
            )
    return Examination(source.name, (), tuple(faults), None)


def preview_upload(content: bytes, filename: str, **options: Any) -> Layout:
    """An upload's columns and first rows, before it is read."""
    return layout_of(Source.upload(content, filename), ReadOptions(**options))


def read_pair(train: str | Path, test: str | Path, **options: Any) -> tuple[Ratings, Ratings]:
    """Training and test ratings from two files, over one shared index space.

    Users and items that only one of the files has are in the index space of both. Raises
    BadRatings where a user-item pair is in both files.
    """
    settings = ReadOptions(**options)
    known = {*synthetic.ALL, *public_sets.ARCHIVES, *public_sets.BY_HAND}
    if str(train) in known and not Path(train).is_file():
        raise BadRatings(
            f"official test ratings belong to a file of training ratings, not to {train}: leave"
            " --test out, or give both files"
        )
    tables = [read_table(Source.file(path), settings) for path in (train, test)]
    (left, right), _ = clean(settings, *tables)
    cells, test_cells = (r.users.astype(np.int64) * r.public.items + r.items for r in (left, right))
    both = np.intersect1d(cells, test_cells, assume_unique=True)
    if len(both):
        user, item = divmod(int(both[0]), left.public.items)
        raise BadRatings(
            f"{len(both)} user-item pairs are in both files, first user"
            f" '{(left.user_ids or ())[user]}' with item '{(left.item_ids or ())[item]}':"
            " a model must not be tested on ratings it was trained on"
        )
    left, right = (_with_facts(side, tables[0], settings)[0] for side in (left, right))
    return left, right


def _load_sample(name: str, options: Mapping[str, Any]) -> Dataset:
    sample = synthetic.ALL[name]
    made = sample.made
    # A sample's range is its own; giving the same range again changes nothing.
    chosen = {key: value for key, value in options.items() if key not in ("low", "high")}
    if chosen and name not in synthetic.DRAWN:
        raise InvalidSetting("option of a sample", "left out: samples are as they are", [*chosen])
    if chosen:
        seed = chosen.pop("seed", synthetic.SEED)
        names = synthetic.options_of(name)
        if not set(chosen) <= set(names):
            raise InvalidSetting(f"option of {name}", f"one of {', '.join(names)}", [*chosen])
        check_number(f"seed of {name}", seed, at_least=0, integer=True)
        generated = synthetic.DRAWN[name](seed, **chosen)
        words = ", ".join(f"{key} = {value}" for key, value in chosen.items())
        made = f"generated like {name}, with {words or 'its settings'} and seed {seed}"
    else:
        generated = synthetic.read(name)
    ratings, facts = features.known_of(generated.ratings, generated.genres)
    for end in ("low", "high"):
        given = options.get(end)
        if given is not None and given != getattr(ratings.public, end):
            raise InvalidSetting(f"{end} of {name}", f"{getattr(ratings.public, end):g}", given)
    known = Catalogue(Origin.PUBLIC, _GENERATED.format(name))
    return Dataset(
        ratings=dataclasses.replace(ratings, catalogue=known),
        name=name,
        title=sample.title,
        source=made,
        licence=synthetic.LICENCE,
        report=(*facts_of(ratings), *map(str, facts), *[sample.facts] * bool(facts)),
        truth=generated.truth,
        facts=facts,
        opened=name,
        reading=dict(options),
    )


def _load_source(
    source: Source, opened: str, reading: Mapping[str, Any], tell: Tell | None = None
) -> Dataset:
    options = ReadOptions(**reading)
    table = read_table(source, options, tell)
    (ratings,), (checked,) = clean(options, table)
    ratings, facts = _with_facts(ratings, table, options)
    about = table.layout.known
    catalogue = Catalogue(Origin.READ)
    if about is not None:
        changed = "" if about.exact else _CHANGED
        catalogue = Catalogue(Origin.PUBLIC, _PUBLIC.format(about.title) + changed)
    return Dataset(
        ratings=dataclasses.replace(ratings, catalogue=catalogue),
        name=_name_of(table),
        title=about.title if about else source.name,
        source=about.source if about else "your file",
        licence=about.licence if about else "not stated in the file",
        report=(*checked.report, *facts_of(ratings), *map(str, facts)),
        facts=facts,
        opened=opened,
        reading={key: value for key, value in reading.items() if key != "for_ranking"}
        | ({"rating": NONE} if checked.clicks else {}),
        count=checked.count,
    )


def _name_of(table: Table) -> str:
    """A short name: the public set's, with the file where it is one fold of it; else the file's."""
    known = table.layout.known
    if known is None:
        return table.source.name
    return known.id if known.file == known.files[0] else f"{known.id}/{known.file}"


def _with_facts(
    ratings: Ratings, table: Table, options: ReadOptions
) -> tuple[Ratings, tuple[features.Fact, ...]]:
    """Ratings with the titles and facts that come with a known set, or a table of the items."""
    found = public_sets.titles(table.source) if table.layout.known else {}
    genres = None
    if found and ratings.item_ids is not None:
        titles = tuple(found[id][0] if id in found else id for id in ratings.item_ids)
        genres = [found[id][1] if id in found else () for id in ratings.item_ids]
        ratings = dataclasses.replace(ratings, titles=titles)
    if options.items is None:
        return features.known_of(ratings, genres)
    facts = features.read_items(Source.file(str(options.items)), ratings)
    return features.knowing(ratings, facts, told=True), facts
