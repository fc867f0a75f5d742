"""Options that several commands share: the data, its public range, values as people type them."""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dpmc_core.data import ReadOptions
from dpmc_core.data.samples import DRAWN
from dpmc_core.errors import InvalidSetting, number_or_text, shown, unknown_name
from dpmc_core.lab.views import answer
from dpmc_core.model import Task
from dpmc_core.problem import SEED, LeaveLast, RandomShare, SharePerUser, Split, ranks_only
from dpmc_core.settings import parse_setting

# Options of reading that are text whatever they look like; a column's number is one, 007 a name.
_TEXTS, _COLUMNS = ("separator", "encoding"), ("user", "item", "rating", "time")
OFTEN = ", ".join(answer.OFTEN.values())
DATA_HELP = "a sample's id, a downloaded set's name, a file, or a folder of a known set"


def add_method(parser: argparse.ArgumentParser) -> None:
    """The data, a mechanism with its settings, and the preparation."""
    add = parser.add_argument
    add("data", metavar="DATA", help=DATA_HELP)
    add("mechanism", metavar="MECHANISM", help="a method's id")
    add_budget(parser)
    add_prepare(parser)


def add_budget(parser: argparse.ArgumentParser) -> None:
    """The budget and the other settings of a mechanism."""
    add = parser.add_argument
    add("--epsilon", metavar="E", type=number, help="privacy budget, > 0")
    add("--delta", metavar="D", type=number, help="probability of failure, in 0..1")
    add("--set", metavar="NAME=VALUE", action="append", default=[], help="a setting (repeatable)")


def add_published(parser: argparse.ArgumentParser) -> None:
    """The switch to the papers' settings."""
    parser.add_argument(
        "--as-published",
        action="store_true",
        help="every setting as in the method's paper; what --set gives stays",
    )


def add_prepare(parser: argparse.ArgumentParser) -> None:
    """The preparation, step by step."""
    parser.add_argument(
        "--prepare",
        metavar="STEP=VALUE",
        action="append",
        default=[],
        help="binarise=middle|mean|VALUE, implicit=all|VALUE, top-items=N, cap=N, rescale=LO:HI"
        " (repeatable, in order; binary mechanisms default to binarise=middle, ranking ones to"
        " implicit=all)",
    )


def add_values_to_try(parser: argparse.ArgumentParser) -> None:
    """Values of settings, each of which is tried."""
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE,...",
        action="append",
        default=[],
        help="a setting's values, for all mechanisms that have it or as MECHANISM.NAME"
        " (repeatable)",
    )


def add_plugin(parser: argparse.ArgumentParser) -> None:
    """Mechanisms of one's own, which `main` loads before the command runs."""
    parser.add_argument(
        "--plugin",
        metavar="FILE.py",
        action="append",
        default=[],
        help="a Python file with mechanisms of your own (repeatable)",
    )


def add_reading(parser: argparse.ArgumentParser) -> None:
    """The public rating range and how a file is read."""
    parser.add_argument(
        "--range",
        metavar="LO:HI",
        type=_range,
        help="public rating range, known before any rating is read (as --low LO --high HI)",
    )
    parser.add_argument("--low", metavar="LO", type=number, help=argparse.SUPPRESS)
    parser.add_argument("--high", metavar="HI", type=number, help=argparse.SUPPRESS)
    parser.add_argument(
        "--read",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="how a file is read: user, item, rating, time = a column's name or number (rating or"
        " time = none), duplicates = last|mean, bad_rows = leave-out, header = yes|no, layout ="
        " rows|wide, separator, encoding (repeatable)",
    )


def add_split(parser: argparse.ArgumentParser) -> Any:
    """What to test on; the group, for options that go with none of these."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--holdout", metavar="SHARE", type=number, help="random share to test on (default 0.2)"
    )
    group.add_argument(
        "--holdout-per-user", metavar="SHARE", type=number, help="the same share of every user"
    )
    group.add_argument(
        "--leave-last",
        action="store_true",
        help="test on the latest rating of every user, without times on a random one (default for"
        " ranking)",
    )
    return group


def split_of(args: argparse.Namespace) -> Split | None:
    """The split that these options ask for. Raises InvalidSetting."""
    if args.leave_last:
        return LeaveLast()
    if args.holdout_per_user is not None:
        return SharePerUser(args.holdout_per_user)
    return None if args.holdout is None else RandomShare(args.holdout)


def add_run(parser: argparse.ArgumentParser) -> None:
    """The seed of a run, and how its report is written."""
    add = parser.add_argument
    add_seed(parser)
    add("--json", action="store_true", help="one JSON object instead of the report")


def add_seed(parser: argparse.ArgumentParser) -> None:
    seed = f"repeat a run exactly (default {SEED}, as in the app)"
    parser.add_argument("--seed", metavar="N", type=integer, default=SEED, help=seed)


def number(text: str) -> float:
    """For argparse, which would say 'invalid float value'."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, got {shown(text)}") from None


def integer(text: str) -> int:
    """The same for whole numbers."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer, got {shown(text)}") from None


def times_a_year(option: str, text: str) -> int:
    """A word for how often one publishes, or a number. Raises InvalidSetting."""
    named = {name: times for times, name in answer.OFTEN.items()}
    if text in named:
        return named[text]
    try:
        return int(text)
    except ValueError:
        raise InvalidSetting(option, f"one of {OFTEN}, or a number of times a year", text) from None


def range_of(args: argparse.Namespace) -> dict[str, float]:
    """The ends of the range that were given, as {'low': ..., 'high': ...}."""
    ends = {"low": args.low, "high": args.high}
    if args.range is not None:
        ends = {"low": args.range[0], "high": args.range[1]}
    return {name: end for name, end in ends.items() if end is not None}


def reading_of(args: argparse.Namespace, data: str, tasks: Iterable[Task] = ()) -> dict[str, Any]:
    """Everything `datasets.load` is asked for beside the data. Raises InvalidSetting.

    tasks: what the data are for.
    """
    options: dict[str, Any] = dict(range_of(args))
    if ranks_only(tasks, getattr(args, "prepare", None) or ()):
        options["for_ranking"] = True
    fields = [f.name for f in dataclasses.fields(ReadOptions) if f.name != "for_ranking"]
    for text in args.read:
        name, value = assignment("--read", text)
        if name not in fields and data not in DRAWN:
            raise unknown_name("--read", name, fields)
        plain = name in _TEXTS or (name in _COLUMNS and not re.fullmatch(r"[1-9][0-9]{0,8}", value))
        options[name] = value if plain else number_or_text(value)
    return options


def join_negative_ranges(argv: Sequence[str]) -> list[str]:
    """`--range -10:10` as `--range=-10:10`: argparse would take the value for an option."""
    joined: list[str] = []
    for word in argv:
        if joined and joined[-1] == "--range" and re.match(r"-[\d.]", word):
            joined[-1] += "=" + word
        else:
            joined.append(word)
    return joined


def assignment(option: str, text: str) -> tuple[str, str]:
    """NAME=VALUE as (NAME, VALUE). Raises InvalidSetting."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidSetting(option, "NAME=VALUE", text)
    return name.strip(), value.strip()


def setting(text: str, *options: str) -> tuple[str, str]:
    """NAME=VALUE of --set as (NAME, VALUE). Raises InvalidSetting.

    options: those that give a setting of their own, --epsilon say. Its name is refused here: of
    two budgets one would win in silence.
    """
    name, value = assignment("--set", text)
    for option in options:
        own = option.strip("-").removesuffix("s")
        if name.rpartition(".")[2] == own:
            raise InvalidSetting("--set", f"another setting: {own} is given with {option}", text)
    return name, value


def values_to_try(texts: Sequence[str], *options: str) -> dict[str, list[str]]:
    """The texts of --set NAME=VALUE,... by name; options: as for `setting`."""
    found: dict[str, list[str]] = {}
    for text in texts:
        name, values = setting(text, *options)
        found[name] = [value.strip() for value in values.split(",") if value.strip()]
        if not found[name]:
            raise InvalidSetting("--set", "NAME=VALUE", text)
    return found


def settings(
    texts: Sequence[str],
    options: Sequence[str],
    owner: Callable[[str], type],
    owners: str,
    hint: Callable[[str], str],
) -> dict[str, Any]:
    """The values of --set NAME=VALUE by name. Raises InvalidSetting.

    options: as for `setting`. owner: the class that has a setting, by its name; owners: who may
    have one, in words. hint: which names there are, from what the owner's class says of it.
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, value = setting(text, *options)
        try:
            found[name] = parse_setting(owner(name), name, value)
        except InvalidSetting as error:
            if error.field != "setting":
                raise
            wanted = f"a setting of {owners}"
            raise InvalidSetting("--set", wanted, name, hint(error.limit)) from None
    return found


def _range(text: str) -> tuple[float, float]:
    low, colon, high = text.partition(":")
    try:
        if colon:
            return float(low), float(high)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"must be LO:HI, for example 1:5, got {shown(text)}")
