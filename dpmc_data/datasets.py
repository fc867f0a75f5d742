"""Loading of rating data: samples, public sets, files and uploads, with a report in plain words.

The public rating range is never the smallest and largest rating of the data: it is that of the
sample or public set, or a person gives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpmc_core.dataset import Dataset
from dpmc_core.errors import (
    BadRatings,
    InvalidSetting,
    check_number,
    parse_number_or_text,
    unknown_name_error,
)
from dpmc_core.links import parse_link
from dpmc_core.ratings import Catalogue, Origin, Ratings
from dpmc_data import features, public_sets, synthetic
from dpmc_data.reading import (
    CHOSEN,
    RANGE_ASKED,
    Checked,
    Table,
    build,
    check,
    clean,
    count_words,
    facts_of,
    has_single_ratings,
    layout_of,
    rank_readings,
    read_table,
)
from dpmc_data.readings import OFFERS, Layout, list_offers
from dpmc_data.source import (
    NO_COLUMN,
    Fault,
    LineCount,
    ReadOptions,
    ReadProgress,
    Source,
    check_path,
)

# Sources of catalogues.
_GENERATED_SOURCE, _PUBLIC_SOURCE = "the generated set {}", "the public set {}"
_CHANGED_NOTE = ", whose file here may have been changed"
_USELESS_SHARE = 0.75  # of the entries: a reading that cannot use more is none
_PREVIEWED = 4  # columns of a matrix that are shown
_MAX_TRIALS = 6  # ways in which the rows of one reading are judged
_CHOSEN_OPTIONS = {"user", "item", "rating", "layout"}  # of another reading
_SETTLED = ("bad_rows", "duplicates", "encoding")  # options whose first answer is the usual one
EACH_SEED = "each"  # the seed in NAME:seed=each, which stands for the seed of the run


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LoadedDataset(Dataset):
    """A data set with its origin and what a reader should know about it.

    Attributes:
        source: who made the ratings, or how they were made.
        licence: terms of use.
        report: findings about the data, one sentence each.
        item_features: the public item features.
        loaded_name: what `load` was given; for an upload the name of its file.
        reading: the reading options that `load` was given.
        count: what became of every line of a file; None if there is no file.
    """

    source: str
    licence: str
    report: tuple[str, ...]
    item_features: tuple[features.ItemFeature, ...] = ()
    loaded_name: str = ""
    reading: Mapping[str, Any] = field(default_factory=dict)
    count: LineCount | None = None
    layout: str = ""

    def as_dict(self) -> dict[str, Any]:
        """What the data are, for a script. The mean is not private: for the person's eyes alone."""
        ratings = self.ratings
        return {
            **{name: getattr(self, name) for name in ("name", "title", "source", "licence")},
            **ratings.public.as_dict(),
            "ratings": len(ratings),
            "density": ratings.density,
            "fingerprint": ratings.fingerprint,
            "layout": self.layout,
            "columns": dict(ratings.columns.names),
            "guessed": list(ratings.columns.guessed),
            "mean": float(ratings.values.mean()),
            "report": list(self.report),
        }


def list_public_sources() -> dict[str, tuple[int, int] | None]:
    """Return every source that the catalogue of a public set may have.

    Returns:
        For each source the numbers of users and items, if they are known.
    """
    sources: dict[str, tuple[int, int] | None] = {
        _GENERATED_SOURCE.format(name): None for name in synthetic.ALL_SAMPLES
    }
    for public_set in public_sets.SETS.values():
        source = _PUBLIC_SOURCE.format(public_set.title)
        sources |= {source: public_set.catalogue, source + _CHANGED_NOTE: None}
    return sources


def load(data: str | Path, on_progress: Any = None, **options: Any) -> LoadedDataset:
    """Load a sample by its id, a downloaded set by its name, a file, or a folder.

    A folder holds a known set, or Parquet files. A sample of `synthetic.GENERATORS` can be drawn
    anew, as NAME:OPTION=VALUE,... or by options.

    >>> load("restaurants").ratings.shape
    (138, 130)

    Args:
        data: the id, name or path.
        on_progress: of a file, called now and then with (bytes read, all of them).
        options: fields of `ReadOptions`; for a sample that is drawn anew an integer `seed` and the
            settings of its generator.

    Raises:
        BadRatings: if there are no such data, or they cannot be read.
        InvalidSetting: if an option is invalid.
    """
    name = check_path(data)
    if (drawn_sample := parse_drawn_sample(name)) is not None:
        sample_name, settings = drawn_sample
        dataset = load(sample_name, **settings, **options)
        return replace(dataset, name=name, loaded_name=name, reading=options)
    if name in synthetic.ALL_SAMPLES:
        options.pop("for_ranking", None)
        return _load_sample(name, options)
    return read(name, on_progress, **options)


def read(data: str | Path, on_progress: Any = None, **options: Any) -> LoadedDataset:
    """Read ratings from a file, a folder or a downloaded set, as `load` does; never a sample.

    Args:
        data: the path, or the name of the set.
        on_progress: as of `load`.
        options: fields of `ReadOptions`.

    Raises:
        BadRatings: if there are no such data, or they cannot be read.
        InvalidSetting: if an option is invalid.
    """
    name = check_path(data)
    return _load_source(Source.from_file(_find_data_file(name)), name, options, on_progress)


def parse_drawn_sample(text: str) -> tuple[str, dict[str, Any]] | None:
    """Parse NAME:OPTION=VALUE,... into a sample and its options; return None for any other text.

    Raises:
        InvalidSetting: if an option is malformed.
    """
    name, colon, option_text = text.partition(":")
    if not colon or name not in synthetic.GENERATORS:
        return None
    options: dict[str, Any] = {}
    for assignment in option_text.split(","):
        option, equals, value = (token.strip() for token in assignment.partition("="))
        if not equals or not option:
            raise InvalidSetting(f"option of {name}", "NAME=VALUE", assignment)
        parsed = parse_link(value) if option == "link" else parse_number_or_text(value)
        if isinstance(parsed, str) and (option, value) != ("seed", EACH_SEED):
            raise InvalidSetting(f"{option} of {name}", "a number", value)
        options[option] = parsed
    return name, options


def _find_data_file(name: str) -> Path:
    """Return the path of a file, of a downloaded set by its name, or of the ratings in a folder.

    Raises:
        BadRatings: if there is none.
    """
    path = Path(name)
    if not path.exists() and name in {*public_sets.ARCHIVES, *public_sets.BY_HAND}:
        path = public_sets.find_downloaded_folder(name)
    if not path.exists():
        hint = unknown_name_error("data", name, synthetic.SAMPLES).hint
        raise BadRatings(
            f"there is no file or folder '{name}'{f' ({hint})' if hint else ''}; samples are"
            f" {', '.join(synthetic.SAMPLES)}"
        )
    if path.is_dir():
        file = public_sets.find_ratings_file(path)
        if file is None and not Source("", path=path).parts:
            raise BadRatings(
                f"the folder {path} holds no ratings of a known set: give the file itself, or a"
                " folder of Parquet or CSV files or with one of"
                f" {', '.join(public_sets.FOLDER_FILES)}"
            )
        path = file or path
    return path


def load_upload(
    content: bytes, filename: str, on_progress: ReadProgress | None = None, **options: Any
) -> LoadedDataset:
    """Load uploaded bytes as `load` loads a file.

    Args:
        content: the bytes.
        filename: the name of the upload, which helps to recognise the format.
        on_progress: called now and then with (bytes read, bytes in all); an error it raises ends
            the reading.
        options: fields of `ReadOptions`.

    Raises:
        BadRatings: if the upload cannot be read.
        InvalidSetting: if an option is invalid.
    """
    source = Source.from_upload(content, filename)
    return _load_source(source, source.name, options, on_progress)


@dataclass(frozen=True)
class Reading:
    """One way to read a file, which a person may choose.

    options: of reading, that lead to it; findings: what the reader understood; summary: what comes
    of it; left_out: the share of the entries that cannot be used, or are called missing; count: of
    lines.
    """

    options: Mapping[str, Any]
    findings: tuple[str, ...]
    summary: str
    layout: Layout
    left_out: float
    count: LineCount

    @property
    def losses(self) -> str:
        """What is left out, in numbers and in words."""
        kinds = [f"{count_words(n, 'row')} {kind}" for kind, n in self.count.left_out.items()]
        if self.layout.is_matrix:
            kinds = [f"{count_words(n, 'cell')} {kind}" for kind, n in self.count.left_out.items()]
        return ", ".join(kinds)

    @property
    def is_useless(self) -> bool:
        """Whether most of it cannot be used, or most pairs come again and again."""
        count = self.count
        unusable = sum(n for kind, n in count.left_out.items() if kind != CHOSEN)
        repeated = not self.layout.clicks and count.repeated > count.used
        return unusable > _USELESS_SHARE * count.entries or repeated

    @property
    def confirmed_options(self) -> dict[str, Any]:
        """Its options, with a guessed column of users as one that a person named."""
        layout = self.layout
        if "user" not in layout.guessed:
            return dict(self.options)
        return {**self.options, "user": layout.roles["user"] + 1}

    @property
    def preview(self) -> list[list[str]]:
        """Roles, names and three rows of the columns that are used; of many items the first."""
        layout = self.layout
        _, across = layout.axes
        roles = dict.fromkeys(layout.ratings[:_PREVIEWED], across)
        roles |= {k: role for role, k in layout.roles.items()}
        lines = [[roles.get(k, "") for k in range(len(layout.columns))], layout.columns]
        lines += layout.rows[:3]
        return [[line[k][:20] if k < len(line) else "" for k in sorted(roles)] for line in lines]

    def as_dict(self) -> dict[str, Any]:
        """Return what the command line prints of the reading, as plain JSON values."""
        names = ("summary", "left_out", "losses", "preview")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Examination:
    """The result of reading a file to its end, whatever is wrong with it.

    Attributes:
        name: the name of the file.
        faults: what keeps the file from being read as it is.
        readings: ways to read it, the most likely first.
        needs_range: whether the public range must be given as well.
    """

    name: str
    faults: tuple[Fault, ...]
    readings: tuple[Reading, ...] = ()
    needs_range: bool = False

    def as_dict(self) -> dict[str, Any]:
        """What was found, for a script."""
        return {
            "name": self.name,
            "readable": bool(self.readings) and not self.faults,
            "found": list(self.only.findings) if self.only else [],
            "faults": [asdict(fault) for fault in self.faults],
            "count": self.only and asdict(self.only.count),
        }

    @property
    def only(self) -> Reading | None:
        """The reading that is taken, with nothing left out and no word or column chosen for it."""
        is_taken = all(fault is RANGE_ASKED for fault in self.faults)
        return self.readings[0] if self.readings and is_taken else None


def examine_file(path: str | Path, **options: Any) -> Examination:
    """Examine a file: everything the reader understands of it and everything wrong with it.

    Each fault that an option answers is answered, so that the faults behind it are found as well.
    Each of several answers is a reading.
    """
    return _examine(Source.from_file(path), options)


def examine_upload(content: bytes, filename: str, **options: Any) -> Examination:
    """Examine uploaded bytes as `examine_file` examines a file."""
    return _examine(Source.from_upload(content, filename), options)


def _examine(source: Source, options: Mapping[str, Any]) -> Examination:
    """Find every fault of a source and the readings that mend it.

    A source that cannot be read as it is is examined again under each answer to its faults, and
    the readings are those of the answers that lead to one.
    """
    settings = ReadOptions(**options)
    try:
        layout, ranked = rank_readings(source, settings)
    except BadRatings as error:
        reasons: tuple[Fault, ...] = tuple(getattr(error, "faults", [Fault(str(error))]))
        trials = [{**options, **answer} for fault in reasons for answer in fault.answers]
        found = [_examine(source, trial) for trial in trials if trial != options]
        found = [examination for examination in found if examination.readings]
        offered = [reading for examination in found for reading in examination.readings]
        behind = found[0].faults if found else ()
        needs_range = bool(found) and found[0].needs_range
        return Examination(source.name, (*reasons, *behind), (*offered[:OFFERS],), needs_range)
    faults_found = dict.fromkeys(layout.faults)
    offers: list[dict[str, Any]] = [{}] if not layout.faults else list_offers(ranked, settings)
    readings: list[Reading] = []
    for k, offer in enumerate(offers):
        completed, faults = _complete(source, {**options, **offer}, is_offer=bool(offer))
        readings += completed
        if k == 0 or not readings:
            faults_found |= dict.fromkeys(faults)
        if not offer and not completed:  # what was taken does not hold for all rows
            offers += [other for other in list_offers(ranked, settings) if other]
        if len({reading.summary for reading in readings}) >= OFFERS:
            break
    # Of readings with the same result only the first, which is the likeliest, is shown.
    unique = {reading.summary: reading for reading in reversed(readings)}
    readings = [r for r in readings if unique[r.summary] is r][:OFFERS]
    needs_range = RANGE_ASKED in faults_found
    return Examination(source.name, tuple(faults_found), tuple(readings), needs_range)


def _complete(
    source: Source, options: Mapping[str, Any], *, is_offer: bool
) -> tuple[list[Reading], list[Fault]]:
    """Return what reading with some options gives, and what was wrong with the first of them.

    Each fault that an option answers is answered, so that the faults behind it are found as well.
    """
    found: list[Fault] = []  # on the way to the first reading, or of the first trial
    readings: list[Reading] = []
    trials: list[tuple[dict[str, Any], list[Fault]]] = [({**options}, [])]
    table = words = None
    for k, (trial, prior) in enumerate(trials):
        settings = ReadOptions(**trial)
        try:
            if table is None or settings.values != words:
                table, words = read_table(source, settings, ask_range=False), settings.values
            checked = check(table, settings)
            faults = list(checked.faults)
        except BadRatings as error:
            found += getattr(error, "faults", [Fault(str(error))]) if k == 0 else []
            continue
        way = [*prior, *(fault for fault in faults if fault not in prior)]
        wrong = [fault for fault in faults if fault is not RANGE_ASKED]
        if not wrong and len(checked.rows) < 2:
            way.append(Fault("fewer than two ratings can be used", "give a longer file"))
        # An offer must be worth a question; what a person asked for is read in any case.
        is_poor = len(checked.rows) < 2 or has_single_ratings(checked)
        if not wrong and len(checked.rows) > 1 and not (is_offer and is_poor):
            reading = _summarise_reading(checked, trial)
            found = found if readings else way
            readings += [reading] * (not reading.is_useless)
        elif k == 0:
            found = way
        answers: list[dict[str, Any]] = [{}]
        for fault in wrong:
            choices = [answer for answer in fault.answers if not {*answer} & _CHOSEN_OPTIONS]
            # A few choices for each fault, since their numbers multiply.
            choices = choices[: 1 if fault.option in _SETTLED else 3]
            answers = [answer | choice for answer in answers for choice in choices]
        new = [trial | answer for answer in answers if not answer.items() <= trial.items()]
        known = [other for other, _ in trials]
        trials += [(each, way) for each in new if each not in known][: _MAX_TRIALS - len(trials)]
    return readings, found


def _summarise_reading(checked: Checked, options: Mapping[str, Any]) -> Reading:
    """Return what a reading without faults gives."""
    # The range may not be known yet. One that holds all values is enough to count.
    low, high = checked.values.min(), checked.values.max()
    ratings = build([replace(checked, low=low, high=high + abs(high) + 1)])[0]
    span = f"ratings from {low:g} to {high:g}" if low < high else f"ratings of {low:g}"
    what = "clicks" if checked.clicks else span
    count, public = checked.count, ratings.public
    n_out = sum(count.left_out.values())
    if "event" in checked.table.layout.roles:  # rows of other events are no loss
        n_out -= count.left_out.get(CHOSEN, 0)
    return Reading(
        options,
        (*checked.report, *facts_of(ratings)),
        f"{public.users:,} {'person' if public.users == 1 else 'people'},"
        f" {count_words(public.items, 'item')}, {len(ratings):,} {what}",
        checked.table.layout,
        n_out / max(count.entries, 1),
        count,
    )


def preview_upload(content: bytes, filename: str, **options: Any) -> Layout:
    """Return the columns and first rows of an upload, before it is read."""
    return layout_of(Source.from_upload(content, filename), ReadOptions(**options))


def read_pair(train: str | Path, test: str | Path, **options: Any) -> tuple[Ratings, Ratings]:
    """Read training and test ratings from two files, over one shared index space.

    The index space holds the users and items of both files.

    Args:
        train: the file of training ratings.
        test: the file of test ratings.
        options: fields of `ReadOptions`.

    Raises:
        BadRatings: if a file cannot be read, or a user-item pair is in both files.
    """
    settings = ReadOptions(**options)
    named_sets = {*synthetic.ALL_SAMPLES, *public_sets.ARCHIVES, *public_sets.BY_HAND}
    if str(train) in named_sets and not Path(train).is_file():
        raise BadRatings(
            f"official test ratings belong to a file of training ratings, not to {train}: leave"
            " --test out, or give both files"
        )
    tables = [read_table(Source.from_file(path), settings) for path in (train, test)]
    (left, right), _ = clean(settings, *tables)
    cells, test_cells = (r.users.astype(np.int64) * r.public.items + r.items for r in (left, right))
    shared_cells = np.intersect1d(cells, test_cells, assume_unique=True)
    if len(shared_cells):
        user, item = divmod(int(shared_cells[0]), left.public.items)
        raise BadRatings(
            f"{len(shared_cells)} user-item pairs are in both files, first user"
            f" '{(left.user_ids or ())[user]}' with item '{(left.item_ids or ())[item]}':"
            " a model must not be tested on ratings it was trained on"
        )
    left, right = (_add_item_features(ratings, tables[0], settings)[0] for ratings in (left, right))
    return left, right


def _load_sample(name: str, options: Mapping[str, Any]) -> LoadedDataset:
    """Load a sample, or draw one anew if options of its generator are given.

    Raises:
        InvalidSetting: if the sample has no such option, or another range.
    """
    sample = synthetic.ALL_SAMPLES[name]
    description = sample.made
    # A sample's range is its own; giving the same range again changes nothing.
    chosen = {key: value for key, value in options.items() if key not in ("low", "high")}
    if chosen and name not in synthetic.GENERATORS:
        raise InvalidSetting("option of a sample", "left out: samples are as they are", [*chosen])
    if chosen:
        seed = chosen.pop("seed", synthetic.SAMPLE_SEED)
        names = synthetic.list_sample_options(name)
        if not set(chosen) <= set(names):
            raise InvalidSetting(f"option of {name}", f"one of {', '.join(names)}", [*chosen])
        check_number(f"seed of {name}", seed, at_least=0, integer=True)
        generated = synthetic.GENERATORS[name](seed, **chosen)
        option_text = ", ".join(f"{key} = {value}" for key, value in chosen.items())
        description = f"generated like {name}, with {option_text or 'its settings'} and seed {seed}"
    else:
        generated = synthetic.load_sample(name)
    ratings, item_features = features.add_public_features(generated.ratings, generated.genres)
    for end in ("low", "high"):
        requested = options.get(end)
        if requested is not None:
            check_number(f"{end} of {name}", requested)
        if requested not in (None, getattr(ratings.public, end)):
            raise InvalidSetting(f"{end} of {name}", f"{getattr(ratings.public, end):g}", requested)
    catalogue = Catalogue(Origin.PUBLIC, _GENERATED_SOURCE.format(name))
    return LoadedDataset(
        ratings=replace(ratings, catalogue=catalogue),
        name=name,
        title=sample.title,
        source=description,
        licence=synthetic.LICENCE,
        report=(
            *facts_of(ratings),
            *map(str, item_features),
            *[sample.facts] * bool(item_features),
        ),
        truth=generated.truth,
        item_features=item_features,
        loaded_name=name,
        reading=dict(options),
    )


def _load_source(
    source: Source,
    loaded_name: str,
    reading: Mapping[str, Any],
    on_progress: ReadProgress | None,
) -> LoadedDataset:
    """Read, validate and describe the ratings of a file or folder.

    Args:
        source: the file or folder.
        loaded_name: the name under which `load` finds the data again.
        reading: the fields of `ReadOptions`.
        on_progress: called several times a megabyte.
    """
    options = ReadOptions(**reading)
    table = read_table(source, options, on_progress)
    (ratings,), (checked,) = clean(options, table)
    ratings, item_features = _add_item_features(ratings, table, options)
    public_set = table.layout.known
    catalogue = Catalogue(Origin.READ)
    if public_set:
        changed = "" if public_set.exact else _CHANGED_NOTE
        catalogue = Catalogue(Origin.PUBLIC, _PUBLIC_SOURCE.format(public_set.title) + changed)
    return LoadedDataset(
        ratings=replace(ratings, catalogue=catalogue),
        name=public_set.name if public_set else source.name,
        title=public_set.title if public_set else source.name,
        source=public_set.source if public_set else "your file",
        licence=public_set.licence if public_set else "not stated in the file",
        report=(*checked.report, *facts_of(ratings), *map(str, item_features)),
        item_features=item_features,
        loaded_name=loaded_name,
        reading={key: value for key, value in reading.items() if key != "for_ranking"}
        | ({"rating": NO_COLUMN} if checked.clicks else {}),
        count=checked.count,
        layout=table.layout.shape.value,
    )


def _add_item_features(
    ratings: Ratings, table: Table, options: ReadOptions
) -> tuple[Ratings, tuple[features.ItemFeature, ...]]:
    """Return ratings with the titles and item features of a known set, or of a table of items."""
    titles_by_id = public_sets.read_titles(table.source) if table.layout.known else {}
    genres = None
    if titles_by_id and ratings.item_ids is not None:
        rows = [titles_by_id.get(id, (id, ())) for id in ratings.item_ids]
        genres = [item_genres for _, item_genres in rows]
        ratings = replace(ratings, titles=tuple(title for title, _ in rows))
    if options.items is None:
        return features.add_public_features(ratings, genres)
    item_features = features.read_items(Source.from_file(str(options.items)), ratings)
    return features.attach_features(ratings, item_features, with_digest=True), item_features
