"""List and check data, and write files made of them: `dpmc data`, `store`, `lessons`."""

from __future__ import annotations

import csv
import dataclasses
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from dpmc_core import registry
from dpmc_core.errors import DpmcError, InvalidSetting
from dpmc_data import datasets, paths, public_sets, synthetic
from dpmc_data.source import MEGABYTE, Refused
from dpmc_data.synthetic import GENERATORS, ON_DEMAND, SAMPLES
from dpmc_lab import store as rows
from dpmc_lab.cli.interface import (
    CommandGroup,
    CommandReport,
    Json,
    Option,
    Progress,
    format_document_table,
    format_table,
    paragraph,
)
from dpmc_lab.cli.options import Data, ReadingOptions
from dpmc_lab.store import CurveInfo, Store
from dpmc_lab.sweep.grid import format_command_options
from dpmc_lab.views.text import format_count, format_split


def list_data_sets() -> CommandReport:
    """List samples and public sets (the default)."""
    entries: list[dict[str, Any]] = []
    rows = [("name", "title", "")]

    def add(name: str, kind: str, title: str, description: str, terms: str, **extra: Any) -> None:
        """Add a data set to the document and to the table."""
        available = kind == "sample" or public_sets.is_downloaded(name)
        entry = {"name": name, "kind": kind, "title": title, "available": available}
        entries.append(entry | {"about": description, "terms": terms} | extra)
        note = description.partition(" from")[0]
        if kind == "sample":
            note = ", drawn anew with ".join(filter(None, ["sample", ", ".join(extra["options"])]))
        elif available:
            note = "downloaded" if kind == "public" else "there"
        rows.append((name, title, note))

    for name, sample in {**SAMPLES, **ON_DEMAND}.items():
        options = list(synthetic.list_sample_options(name)) if name in GENERATORS else []
        add(name, "sample", sample.title, sample.made, synthetic.LICENCE, options=options)
    for name, archive in public_sets.ARCHIVES.items():
        location = f"{archive.megabytes:g} MB from {archive.url}"
        add(name, "public", archive.title, location, archive.licence)
    for name, public_set in public_sets.BY_HAND.items():
        location = f"your copy of {public_set.files[0]} in {public_sets.get_set_folder(name)}"
        add(name, "by-hand", public_set.title, location, public_set.licence)
    hint = (
        "More on one: dpmc data describe NAME. Download one: dpmc data get NAME. Draw one anew:\n"
        "NAME:OPTION=VALUE,..., for example rank-one:users=1000,items=50."
    )
    return CommandReport(entries, (format_table(rows), hint))


def download_data_set(
    name: Annotated[str, Option("NAME", f"one of {', '.join(public_sets.ARCHIVES)}")],
    *,
    json: Json = False,
) -> CommandReport:
    """Download a public set and check it."""
    archive = public_sets.ARCHIVES.get(name)
    if archive and not json:
        print(f"{archive.title}: {archive.megabytes:g} MB from {archive.url}")
        print(paragraph(archive.licence), flush=True)
    with Progress() as bar:

        def show_progress(n_bytes: int, total: int | None) -> None:
            """Show how much has been downloaded."""
            bar.update(name, n_bytes, total or n_bytes, lambda count: f"{count / MEGABYTE:.1f} MB")

        folder = public_sets.get_public_set(name, progress=show_progress)
    hint = f"; try: dpmc fit {name} input-flip --epsilon 2" if archive else ""
    terms = public_sets.SETS[name].licence
    document = {"name": name, "folder": str(folder), "terms": terms}
    return CommandReport(document, [f"ready in {folder}{hint}"])


def describe_data_set(data: Data, *, reading: ReadingOptions) -> CommandReport:
    """Describe a data set; of a file that cannot be read as it is, its likely readings."""
    try:
        dataset = reading.load(data)
    except Refused as error:
        return CommandReport(*_describe_readings(data, reading), error)
    ratings, public = dataset.ratings, dataset.ratings.public
    size = (
        f"{dataset.title} ({dataset.name})\n{format_count(public.users, 'user')} x"
        f" {format_count(public.items, 'item')}, {format_count(len(ratings), 'rating')}"
        f" ({100 * ratings.density:.3g} % of all cells), from {public.low:g} to {public.high:g}"
    )
    ends = paragraph(f"Source: {dataset.source}"), paragraph(f"Licence: {dataset.licence}")
    text = "\n".join([*map(_format_item, dataset.report), *ends])
    return CommandReport(dataset.as_dict(), (size, text))


def check_ratings_file(
    file: Annotated[str, Option("FILE", "a file of ratings")], *, reading: ReadingOptions
) -> CommandReport:
    """Describe a file, and list everything that is wrong with it."""
    document, text = _describe_readings(file, reading)
    failure = None
    if not document["readable"]:
        failure = DpmcError(f"{document['name']} cannot be read as it is")
    return CommandReport(document, text, failure)


def _describe_readings(file: str, reading: ReadingOptions) -> tuple[dict[str, Any], list[str]]:
    """Return what is wrong with a file, and each of its readings with its command, as a document
    and in words."""
    examination = datasets.examine_file(file, **reading.load_options(file))
    only = examination.only
    entries = []
    for candidate in examination.readings:
        options = format_command_options(candidate.options, (), None)
        command = shlex.join(["dpmc", "data", "describe", file, *options])
        command += " --range LOW:HIGH" * examination.needs_range
        entries.append(candidate.as_dict() | {"command": command})
    text = ["\n".join(map(_format_item, only.findings))] if only else []
    if examination.faults:
        text.append("\n".join(["Wrong:", *map(_format_item, map(str, examination.faults))]))
    for entry in entries:
        head = "This reads it" if only else f"If this is right, {entry['summary']}"
        head += f", {entry['losses']} left out" * bool(entry["losses"])
        table = format_table(entry["preview"], "  ") + "\n" * bool(entry["preview"][0])
        text.append(f"{head}:\n{table}  {entry['command']}")
    chosen = entries[0]["command"] if only else None
    return examination.as_dict() | {"command": chosen, "readings": entries}, text


def write_donor_features(
    *,
    from_: Annotated[str, Option("DONOR", "other ratings: a set, a file or a folder")],
    out: Path,
    by: Annotated[bool, Option(choices={"title": False, "id": True})] = False,
    public_donor: bool = False,
    reading: ReadingOptions,
) -> CommandReport:
    """Write item features from other, published ratings.

    Write a table of item features that a donor gives: other ratings of the same kind of items. For
    each item of the table --items it holds the donor's item effect, the log of its number of
    ratings, low-rank factors, and the donor's name of the item. Use it with --items FILE. It costs
    no epsilon, because the donor is no part of the ratings that are protected.

    Args:
        out (FILE): a new CSV file
        by: join items by title and year (default), or by id where both use the same ids
        public_donor: confirm that the donor is published and shares no people with your ratings

    examples:
      dpmc data features --from ml-100k --items films.csv --public-donor --out donor.csv
      dpmc fit ratings.csv private-effects --items donor.csv
    """
    from dpmc_data.features import DONOR_ITEM, read_item_table
    from dpmc_data.source import Source
    from dpmc_lab.study.donor import build_feature_table

    if not public_donor:
        raise DpmcError(
            "no noise covers a donor: whoever reads the result learns from all its ratings. Confirm"
            " with --public-donor that they are published and share no people with yours"
        )
    if reading.items is None:
        raise DpmcError("--items FILE is missing: a table of your items, with their ids first")
    paths.check_new_file(out)
    columns = read_item_table(Source.from_file(reading.items))
    donor = dataclasses.replace(reading, items=None).load(from_)
    column, table = build_feature_table(columns, donor.ratings, by)
    with (
        paths.write_atomically(out) as partial_path,
        partial_path.open("w", encoding="utf-8", newline="") as stream,
    ):
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
    n_items, n_matched = len(table[DONOR_ITEM]), sum(map(bool, table[DONOR_ITEM]))
    document = {"out": str(out), "joined_by": column, "items": n_items, "matched": n_matched}
    text = f"{n_matched:,} of {n_items:,} items are among the donor's, joined by {column}."
    return CommandReport(document | {"columns": [*table]}, [text, f"Wrote {out}."])


def _format_item(text: str) -> str:
    """Return a text as an entry of a list."""
    return paragraph(text, "  ", "- ")


DATA = CommandGroup(
    "List samples and public sets, download one, describe a file\n\nList, download or check data.",
    list_data_sets,
    {
        "list": list_data_sets,
        "get": download_data_set,
        "describe": describe_data_set,
        "check": check_ratings_file,
        "features": write_donor_features,
    },
)


@dataclass(frozen=True, kw_only=True)
class RowFilter:
    """Options that select rows, before or after the name of an action.

    Args:
        store (FILE): result store to use instead of the shared one
        data (NAME): only data of this name
        mechanism (ID): only this mechanism
        json: one JSON document (list)
    """

    store: Path | None = None
    data: str | None = None
    mechanism: str | None = None
    json: bool = False

    def open_store(self, read_only: bool = True) -> Store:
        """Open the result store."""
        return Store(self.store, read_only=read_only)

    def select_curves(self, store: Store) -> list[CurveInfo]:
        """Return the curves that the filter selects."""
        return rows.list_curves(store, data=self.data, mechanism=self.mechanism)


def list_stored_curves(*, chosen: RowFilter) -> CommandReport:
    """List the stored curves (the default)."""
    with chosen.open_store() as store:
        infos = chosen.select_curves(store)
    document = [
        {
            "data": info.name,
            "source": info.source,
            "users": info.public.users,
            "items": info.public.items,
            "prepare": list(info.prepare),
            "split": info.split,
            "mechanism": info.mechanism,
            "revision": info.revision,
            "current": not _format_revision_note(info),
            "settings": dict(info.settings),
            "rows": info.rows,
        }
        for info in infos
    ]
    if not infos:
        return CommandReport(document, [f"no rows in {store.path}"])
    lines = [
        (
            info.name,
            ", ".join(info.prepare) or "-",
            format_split(info.split),
            info.mechanism + _format_revision_note(info),
            ", ".join(f"{name}={str(value).lower()}" for name, value in changed.items()) or "-",
            f"{info.rows:,}",
        )
        for info in infos
        for changed in [registry.find_changed_settings(info.mechanism, info.settings)]
    ]
    count = sum(info.rows for info in infos)
    head = ("data", "prepared", "tested on", "mechanism", "settings", "rows")
    return CommandReport(
        document, (format_table([head, *lines]), f"{format_count(count, 'row')} in {store.path}")
    )


def _format_revision_note(info: CurveInfo) -> str:
    """Return a note where a curve's revision is not this program's, or its mechanism unknown.

    The note is empty otherwise.
    """
    cls = registry.MECHANISMS.get(info.mechanism)
    if cls is None:
        return " (not loaded)"
    return "" if cls.revision == info.revision else f" (revision {info.revision})"


def export_rows(
    file: Annotated[str, Option("FILE", "a new file, or - for CSV on standard output")],
    *,
    chosen: RowFilter,
) -> None:
    """Write the rows to a .csv file."""
    with chosen.open_store() as store:
        if file == "-":
            rows.write_csv(store, chosen.select_curves(store), sys.stdout)
        else:
            count = rows.write_file(store, chosen.select_curves(store), Path(file))
            print(f"{format_count(count, 'row')} in {file}")


def prune_rows(
    *,
    outdated: bool = False,
    all: bool = False,
    dry_run: bool = False,
    chosen: RowFilter,
) -> None:
    """Delete rows.

    Args:
        outdated: delete rows of mechanism revisions that this program no longer has
        all: delete every row that the other options select
        dry_run: only say how many rows would be deleted
    """
    if not (chosen.data or chosen.mechanism or outdated or all):
        raise InvalidSetting(
            "prune", "told what: --data, --mechanism, --outdated or --all", "nothing"
        )
    chosen.open_store().close()  # raises an error for a missing store, which is not created
    with chosen.open_store(read_only=dry_run) as store:
        selected = [
            info
            for info in chosen.select_curves(store)
            if not outdated or "revision" in _format_revision_note(info)
        ]
        n_deleted = store.prune([info.id for info in selected], dry=dry_run)
        print(f"{format_count(n_deleted, 'row')} {'would be ' * dry_run}deleted from {store.path}")


STORE = CommandGroup(
    "List, export or prune stored results\n\nList, export or prune the results of dpmc sweep.",
    list_stored_curves,
    {"list": list_stored_curves, "export": export_rows, "prune": prune_rows},
)


def write_lessons(
    *, out: Path | None = None, html: Path | None = None, force: bool = False
) -> CommandReport:
    """List the lessons, or write them as one page or as sheets to print.

    List the lessons, or write them. One HTML file of about 2 MB holds all lessons and needs no
    server and no network. Three HTML files to print are for classes of 10, 45 and 90 minutes, each
    with a plan, a worksheet and its answer key.

    Args:
        out (FOLDER): folder for the files to print
        html (FILE): write all lessons as one HTML file
        force: overwrite existing files

    examples:
      dpmc lessons
      dpmc lessons --html lessons.html
      dpmc lessons --out paper

    Open the files in a browser. In the app, the lessons are on the page Learn.
    """
    from dpmc_lab.lessons import LESSONS  # every other command starts without them
    from dpmc_lab.lessons.worksheets import SHEETS, render_lessons_page

    entries = [
        {
            "id": lesson.id,
            "title": lesson.title,
            "minutes": lesson.minutes,
            "take_home": lesson.take_home,
            "steps": [slide.title for slide in lesson.slides],
        }
        for lesson in LESSONS.values()
    ]
    files: dict[Path, Callable[[], str]] = {html: render_lessons_page} if html else {}
    if out is not None:
        if out.exists() and not out.is_dir():
            raise DpmcError(f"--out must be a folder, and {out} is a file")
        files |= {out / name: render for name, (_, render) in SHEETS.items()}
    for path in files:
        if path.is_dir():
            raise DpmcError(f"{path} is a folder: name a file")
        if path.exists() and not force:
            raise DpmcError(
                f"{path} is there already: name another place, or overwrite with --force"
            )
    for path, render in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with paths.write_atomically(path) as partial_path:
            partial_path.write_text(render(), encoding="utf-8")
    if files:
        lines = [f"Wrote {path}" for path in files]
        text = ["\n".join([*lines, "Open them in a browser."])]
    else:
        hint = "To do one: the page Learn of the app, or a page of your own, dpmc lessons --html"
        hint += " FILE. To print: dpmc lessons --out FOLDER."
        text = [format_document_table(entries, lesson="id", title="title", minutes="minutes"), hint]
    return CommandReport({"lessons": entries, "files": list(map(str, files))}, text)
