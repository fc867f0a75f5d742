"""`dpmc data`: what there is to work on, public downloads, a description of any data."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
from contextlib import closing
from typing import Any

from dpmc_core.data import MEGABYTE, datasets, download, samples
from dpmc_core.errors import DpmcError, unknown_name
from dpmc_core.lab.cli import arguments, output
from dpmc_core.lab.cli.output import Progress
from dpmc_core.problem import options_text


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "data",
        help="list samples and public sets, download one, describe a file",
        description="The data there is to work on.",
    )
    _finish(parser, listing)
    actions = parser.add_subparsers(title="actions", metavar="ACTION")
    _finish(actions.add_parser("list", help="samples and public sets (the default)"), listing)
    get = actions.add_parser("get", help="download a public set and check it")
    get.add_argument("name", metavar="NAME", help=f"one of {', '.join(download.ARCHIVES)}")
    _finish(get, fetch)
    about = actions.add_parser("describe", help="what a data set holds")
    about.add_argument("data", metavar="DATA", help=arguments.DATA_HELP)
    arguments.add_reading(about)
    _finish(about, describe)
    look = actions.add_parser("check", help="what a file holds, and all that is wrong with it")
    look.add_argument("file", metavar="FILE", help="a file of ratings")
    arguments.add_reading(look)
    _finish(look, check)


def listing(args: argparse.Namespace) -> None:
    entries: list[dict[str, Any]] = [
        {
            "name": name,
            "kind": "sample",
            "title": sample.title,
            "available": True,
            "about": sample.made,
            "terms": samples.LICENCE,
            "options": list(samples.options_of(name)) if name in samples.DRAWN else [],
        }
        for name, sample in {**samples.SAMPLES, **samples.ON_DEMAND}.items()
    ]
    entries += [
        {
            "name": name,
            "kind": "public",
            "title": archive.title,
            "available": download.available(name),
            "about": f"{archive.megabytes:g} MB from {archive.url}",
            "terms": archive.terms,
        }
        for name, archive in download.ARCHIVES.items()
    ]
    entries += [
        {
            "name": name,
            "kind": "by-hand",
            "title": known.title,
            "available": download.available(name),
            "about": f"your copy of {known.files[0]} in {download.folder_of(name)}",
            "terms": known.licence,
        }
        for name, known in download.BY_HAND.items()
    ]
    if args.json:
        output.write_json(entries)
        return
    rows = [("name", "title", "")]
    for entry in entries:
        note = entry["about"].partition(" from")[0]
        if entry["kind"] == "sample":
            options = entry["options"]
            note = f"sample, drawn anew with {', '.join(options)}" if options else "sample"
        elif entry["available"]:
            note = "downloaded" if entry["kind"] == "public" else "there"
        rows.append((entry["name"], entry["title"], note))
    print(output.table(rows))
    print(
        "\nMore on one: dpmc data describe NAME. Download one: dpmc data get NAME. Draw one anew:"
        "\nNAME:OPTION=VALUE,..., for example rank-one:users=1000,items=50."
    )


def fetch(args: argparse.Namespace) -> None:
    if args.name in download.BY_HAND:
        folder = download.downloaded(args.name)
        terms = download.BY_HAND[args.name].licence
        if args.json:
            output.write_json({"name": args.name, "folder": str(folder), "terms": terms})
        else:
            print(f"ready in {folder}")
        return
    if args.name not in download.ARCHIVES:
        raise unknown_name("public set", args.name, download.ARCHIVES)
    archive = download.ARCHIVES[args.name]
    if not args.json:
        print(f"{archive.title}: {archive.megabytes:g} MB from {archive.url}")
        print(output.paragraph(archive.terms), flush=True)
    with closing(Progress()) as bar:

        def show(done: int, total: int | None) -> None:
            bar.update(args.name, done, total or done, lambda count: f"{count / MEGABYTE:.1f} MB")

        folder = download.get(args.name, progress=show)
    if args.json:
        output.write_json({"name": args.name, "folder": str(folder), "terms": archive.terms})
    else:
        print(f"ready in {folder}; try: dpmc fit {args.name} input-flip --epsilon 2")


def describe(args: argparse.Namespace) -> None:
    data = datasets.load(args.data, **arguments.reading_of(args, args.data))
    public = data.ratings.public
    if args.json:
        output.write_json(
            {
                "name": data.name,
                "title": data.title,
                "source": data.source,
                "licence": data.licence,
                "users": public.users,
                "items": public.items,
                "low": public.low,
                "high": public.high,
                "cap": public.cap,
                "ratings": len(data.ratings),
                "density": data.ratings.density,
                "fingerprint": data.ratings.fingerprint,
                "report": list(data.report),
            }
        )
        return
    print(f"{data.title} ({data.name})")
    print(
        f"{public.users:,} users x {public.items:,} items, {len(data.ratings):,} ratings"
        f" ({100 * data.ratings.density:.2g} % of all cells), from {public.low:g} to"
        f" {public.high:g}\n"
    )
    for sentence in data.report:
        print(output.paragraph(sentence, "  ", "- "))
    print(output.paragraph(f"Source: {data.source}"))
    print(output.paragraph(f"Licence: {data.licence}"))


def check(args: argparse.Namespace) -> None:
    found = datasets.examine(args.file, **arguments.reading_of(args, args.file))
    command = None
    if found.options is not None:
        words = ["dpmc", "data", "describe", args.file, *options_text(found.options, (), None)]
        command = " ".join(map(shlex.quote, words)) + " --range LOW:HIGH" * found.asks_range
    if args.json:
        output.write_json(
            {
                "name": found.name,
                "readable": not found.faults,
                "found": list(found.found),
                "faults": [dataclasses.asdict(fault) for fault in found.faults],
                "count": found.count and dataclasses.asdict(found.count),
                "command": command,
            }
        )
    else:
        for sentence in found.found:
            print(output.paragraph(sentence, "  ", "- "))
        if found.faults:
            print("\nWrong:" if found.found else "Wrong:")
        for fault in found.faults:
            print(output.paragraph(str(fault), "  ", "- "))
        if command:
            print(f"\nThis reads it:\n  {command}")
    if found.faults:
        raise DpmcError(f"{found.name} cannot be read as it is")


def _finish(parser: argparse.ArgumentParser, command: Any) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(command=command)
