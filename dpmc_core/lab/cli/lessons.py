"""`dpmc lessons`: the lessons, and what a class needs of them on paper."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dpmc_core.errors import DpmcError
from dpmc_core.lab.cli import output
from dpmc_core.paths import whole_file

EPILOG = """examples:
  dpmc lessons
  dpmc lessons --out paper

Print the files from a browser. The lessons themselves are in the app, on the page Learn."""


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "lessons",
        help="the lessons; worksheet, answer key and plans to print",
        description="List the lessons, or write four HTML files to print: a worksheet, its answer"
        " key, and plans for 45 and for 90 minutes.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--out", metavar="FOLDER", type=Path, help="write the files there")
    add("--force", action="store_true", help="overwrite files that are there")
    add("--json", action="store_true", help="one JSON document")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> None:
    from dpmc_core.lab.teach.lessons import LESSONS  # every other command starts without them

    written = [] if args.out is None else write(args.out, force=args.force)
    if args.json:
        lessons = [
            {
                "id": lesson.id,
                "title": lesson.title,
                "minutes": lesson.minutes,
                "take_home": lesson.take_home,
                "steps": [slide.title for slide in lesson.slides],
            }
            for lesson in LESSONS.values()
        ]
        output.write_json({"lessons": lessons, "files": [str(path) for path in written]})
        return
    if written:
        print("\n".join(f"Wrote {path}" for path in written))
        print("Open them in a browser to print.")
        return
    rows = [("lesson", "title", "minutes")]
    rows += [(one.id, one.title, str(one.minutes)) for one in LESSONS.values()]
    print(output.table(rows))
    print("\nTo print: dpmc lessons --out FOLDER. To do one: the page Learn of the app.")


def write(folder: Path, *, force: bool = False) -> list[Path]:
    """The files in a folder, which is made where it is not there. Raises DpmcError before any is
    written."""
    from dpmc_core.lab.teach.paper import SHEETS

    if folder.exists() and not folder.is_dir():
        raise DpmcError(f"--out must be a folder, and {folder} is a file")
    paths = [folder / name for name in SHEETS]
    there = [path for path in paths if path.exists()]
    if there and not force:
        raise DpmcError(
            f"{there[0]} is there already: name another folder with --out, or overwrite with"
            " --force"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for path, sheet in zip(paths, SHEETS.values(), strict=True):
        with whole_file(path) as part:
            part.write_text(sheet.make(), encoding="utf-8")
    return paths
