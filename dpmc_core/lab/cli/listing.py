"""`dpmc list`: the methods and their settings."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import Any

from dpmc_core import registry
from dpmc_core.errors import limit_words
from dpmc_core.lab.cli import arguments, output
from dpmc_core.model import Mechanism
from dpmc_core.settings import Setting, settings_of, show_setting


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "list",
        help="the methods, or the settings of one",
        description="The methods with their ids, or the settings of one with their limits.",
    )
    parser.add_argument("mechanism", nargs="?", metavar="MECHANISM", help="show its settings")
    arguments.add_plugin(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> None:
    if args.mechanism is not None:
        chosen = registry.get(args.mechanism)
        if args.json:
            output.write_json(describe(chosen))
        else:
            _print_one(chosen)
    elif args.json:
        output.write_json([describe(cls) for cls in registry.MECHANISMS.values()])
    else:
        rows = [("id", "name", "predicts", "noise")]
        rows += [
            (cls.id, cls.name, cls.task.value, "yes" if registry.adds_noise(cls) else "no")
            for cls in registry.MECHANISMS.values()
        ]
        print(output.table(rows))
        print("\nSettings of one: dpmc list MECHANISM")
    for sentence in registry.MECHANISMS.broken:
        print(f"dpmc: {sentence}", file=sys.stderr)


def describe(cls: type[Mechanism]) -> dict[str, Any]:
    """A method's facts and settings as plain JSON values."""
    return {
        "id": cls.id,
        "name": cls.name,
        "task": cls.task.value,
        "private": registry.adds_noise(cls),
        "twin": cls.twin,
        "floor": cls.floor,
        "revision": cls.revision,
        "summary": summary(cls),
        "settings": [
            {
                "name": s.name,
                "help": s.info.help,
                "required": s.default is dataclasses.MISSING,
                "default": None if s.default is dataclasses.MISSING else show_setting(s.default),
                "accepts": accepts(s),
            }
            for s in settings_of(cls)
        ],
    }


def accepts(s: Setting) -> str:
    """The values a setting takes, in words: 'one of a, b', 'integer >= 1 or none'."""
    if s.info.choices:
        words = f"one of {', '.join(s.info.choices)}"
    else:
        kind = {int: "integer", float: "number"}.get(s.type, "text")
        i = s.info
        words = f"{kind} {limit_words(i.above, i.at_least, i.below, i.at_most)}".strip()
    return words + (" or none" if s.optional else "")


def settings_table(cls: type[Mechanism]) -> str:
    """Name, default, accepted values and help of each setting."""
    rows = [("setting", "default", "accepts", "what it is")]
    for s in settings_of(cls):
        missing = s.default is dataclasses.MISSING
        default = "required" if missing else str(show_setting(s.default)).lower()
        rows.append((s.name, default, accepts(s), s.info.help))
    return output.table(rows, indent="  ")


def summary(cls: type[Mechanism]) -> str:
    """The first line of the class's docstring."""
    return (cls.__doc__ or "").strip().partition("\n")[0]


def _print_one(cls: type[Mechanism]) -> None:
    print(f"{cls.id}: {cls.name}\n{summary(cls)}")
    print(f"predicts: {cls.task.value}; without privacy: {cls.twin}; floor: {cls.floor}\n")
    if settings_of(cls):
        print(settings_table(cls))
        print("\nSet them with --set NAME=VALUE; epsilon and delta have options of their own.")
    else:
        print("It has no settings.")
