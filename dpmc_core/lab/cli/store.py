"""`dpmc store`: what has been computed, as a table, a file, or less of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dpmc_core import registry
from dpmc_core.errors import InvalidSetting, check_number
from dpmc_core.lab import store as core
from dpmc_core.lab.cli import arguments, output
from dpmc_core.lab.store import CurveInfo, Store
from dpmc_core.problem import split_words


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "store",
        help="list, export or prune stored results",
        description="The results that dpmc sweep has stored.",
    )
    _finish(parser, listing)
    parser.set_defaults(store=None, data=None, mechanism=None, json=False)
    actions = parser.add_subparsers(title="actions", metavar="ACTION")
    _finish(actions.add_parser("list", help="the stored curves (the default)"), listing)
    out = actions.add_parser("export", help="write the rows to a .csv or .parquet file")
    out.add_argument("file", metavar="FILE", help="a new file, or - for CSV on standard output")
    _finish(out, export)
    less = actions.add_parser("prune", help="delete rows")
    less.add_argument(
        "--outdated",
        action="store_true",
        help="of revisions of mechanisms that this program no longer has",
    )
    less.add_argument(
        "--older-than", metavar="DAYS", type=arguments.number, help="finished before that"
    )
    less.add_argument("--all", action="store_true", help="every row that the other options leave")
    less.add_argument("--dry-run", action="store_true", help="say how many, delete none")
    _finish(less, prune)


def listing(args: argparse.Namespace) -> None:
    with _opened(args) as store:
        found = _chosen(store, args)
        if args.json:
            output.write_json([describe(info) for info in found])
            return
        if not found:
            print(f"no rows in {store.path}")
            return
        rows = [("data", "prepared", "tested on", "mechanism", "settings", "rows")]
        rows += [
            (
                info.name,
                ", ".join(info.prepare) or "-",
                split_words(info.split),
                info.mechanism + _standing(info),
                differing(info) or "-",
                f"{info.rows:,}",
            )
            for info in found
        ]
        print(output.table(rows))
        print(f"\n{sum(info.rows for info in found):,} rows in {store.path}")


def export(args: argparse.Namespace) -> None:
    with _opened(args) as store:
        found = _chosen(store, args)
        if args.file == "-":
            core.write_csv(store, found, sys.stdout)
        else:
            count = core.write_file(store, found, Path(args.file))
            print(f"{count:,} rows in {args.file}")


def prune(args: argparse.Namespace) -> None:
    narrowed = args.data or args.mechanism or args.outdated or args.older_than is not None
    if not (narrowed or args.all):
        raise InvalidSetting(
            "prune", "told what: --data, --mechanism, --outdated, --older-than or --all", "nothing"
        )
    before = None
    if args.older_than is not None:
        check_number("--older-than", args.older_than, at_least=0, at_most=1e5)
        limit = datetime.now(UTC) - timedelta(days=args.older_than)
        before = limit.isoformat(timespec="seconds")
    _opened(args).close()  # one that is not there is not made
    with _opened(args, read_only=args.dry_run) as store:
        found = [i for i in _chosen(store, args) if not args.outdated or _outdated(i)]
        gone = store.prune([info.id for info in found], before, dry=args.dry_run)
        print(f"{gone:,} rows {'would be ' if args.dry_run else ''}deleted from {store.path}")


def describe(info: CurveInfo) -> dict[str, Any]:
    """A curve as plain JSON values."""
    public = info.public
    return {
        "data": info.name,
        "source": info.source,
        "users": public.users,
        "items": public.items,
        "prepare": list(info.prepare),
        "split": info.split,
        "mechanism": info.mechanism,
        "revision": info.revision,
        "current": _current(info),
        "settings": dict(info.settings),
        "rows": info.rows,
    }


def differing(info: CurveInfo) -> str:
    """The settings that are not the mechanism's defaults, as NAME=VALUE."""
    changed = registry.changed_settings(info.mechanism, info.settings)
    return ", ".join(f"{name}={str(value).lower()}" for name, value in changed.items())


def _current(info: CurveInfo) -> bool:
    cls = registry.MECHANISMS.get(info.mechanism)
    return cls is not None and cls.revision == info.revision


def _outdated(info: CurveInfo) -> bool:
    """Of a mechanism that is not loaded, a plugin's say, nobody knows."""
    return info.mechanism in registry.MECHANISMS and not _current(info)


def _standing(info: CurveInfo) -> str:
    if _outdated(info):
        return f" (revision {info.revision})"
    return "" if _current(info) else " (not loaded)"


def _chosen(store: Store, args: argparse.Namespace) -> list[CurveInfo]:
    return core.curves(store, data=args.data, mechanism=args.mechanism)


def _opened(args: argparse.Namespace, read_only: bool = True) -> Store:
    return Store(args.store, read_only=read_only)


def _finish(parser: argparse.ArgumentParser, command: Callable[[argparse.Namespace], None]) -> None:
    """Options of every action, before or after its name: hence no defaults here."""
    add = parser.add_argument
    absent = argparse.SUPPRESS
    add("--store", metavar="FILE", type=Path, default=absent, help="instead of the shared one")
    add("--data", metavar="NAME", default=absent, help="only data of this name")
    add("--mechanism", metavar="ID", default=absent, help="only this mechanism")
    add("--json", action="store_true", default=absent, help="one JSON document (list)")
    parser.set_defaults(command=command)
