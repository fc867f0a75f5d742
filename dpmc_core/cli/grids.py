"""The options of a grid of runs, and the lists people type into them."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

from dpmc_core import registry
from dpmc_core.cli import arguments
from dpmc_core.data import parse_step
from dpmc_core.errors import InvalidSetting, check_number
from dpmc_core.problem import LeaveLast, RandomShare, Split
from dpmc_core.sweep import Grid, open_source, presets

MOST_VALUES = 10_000


def add_to(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--data",
        metavar="DATA",
        nargs="+",
        help=f"{arguments.DATA_HELP}, an official fold such as ml-100k/u1, or"
        " one-bit-lab:NAME=VALUE,... (seed=each: drawn anew for each seed)",
    )
    add("--mechanisms", metavar="ID", nargs="+", help="methods, separated by commas or spaces")
    add(
        "--epsilons",
        metavar="E",
        nargs="+",
        help="budgets: 0.5,1,2 or LO:HI:COUNT, evenly spaced in the logarithm",
    )
    add("--seeds", metavar="N", nargs="+", help="seeds: 1,2,3 or FIRST:LAST (default 1:5)")
    add(
        "--set",
        metavar="NAME=VALUE,...",
        action="append",
        default=[],
        help="a setting's values, for all mechanisms that have it or as MECHANISM.NAME"
        " (repeatable)",
    )
    add(
        "--prepare",
        metavar="STEP=VALUE",
        action="append",
        help="preparation, as for dpmc fit (repeatable, in order)",
    )
    split = parser.add_mutually_exclusive_group()
    split.add_argument(
        "--test", metavar="FILE", nargs="+", help="official test ratings, one file per DATA"
    )
    split.add_argument(
        "--holdout",
        metavar="SHARE",
        type=arguments.number,
        help="random share to test on (default 0.2)",
    )
    split.add_argument(
        "--leave-last",
        action="store_true",
        help="test on the latest rating of every user (default for ranking)",
    )
    arguments.add_reading(parser)


def check(args: argparse.Namespace) -> None:
    """Everything that can be wrong before any data is read. Raises InvalidSetting."""
    preset = _preset(args)
    for name, option in (("data", "--data"), ("mechanisms", "--mechanisms")):
        if not getattr(args, name) and preset is None:
            raise InvalidSetting(option, "given: the grid is empty", "none")
    for id in _mechanisms(args):
        registry.get(id)
    _epsilons(args), _seeds(args), _settings(args)
    for step in args.prepare or ():
        parse_step(step)
    if args.jobs is not None:
        check_number("--jobs", args.jobs, at_least=1, at_most=1024, integer=True)
    if args.test and len(args.test) != len(args.data or ()):
        raise InvalidSetting("--test", "one file for each DATA", f"{len(args.test)}")


def grid_of(args: argparse.Namespace) -> Grid:
    """The grid the options ask for, its data read. Raises DpmcError or OSError."""
    preset = _preset(args)
    data = args.data or (preset.data if preset else ())
    tests = args.test or [None] * len(data)
    sources = [
        open_source(text, test, **arguments.reading_of(args, text))
        for text, test in zip(data, tests, strict=True)
    ]
    steps = args.prepare if args.prepare is not None else (preset.prepare if preset else ())
    return Grid(
        sources=sources,
        mechanisms=_mechanisms(args),
        epsilons=_epsilons(args),
        seeds=_seeds(args),
        settings=_settings(args),
        steps=steps,
        split=_split(args),
    )


def epsilons(words: Sequence[str]) -> tuple[float, ...]:
    """0.5,1,2 or LO:HI:COUNT, spaced evenly in the logarithm and rounded to 3 digits."""
    found: list[float] = []
    for word in _pieces(words):
        if ":" in word:
            found += _log_spaced(word)
        else:
            found.append(_number(word))
            check_number("epsilon", found[-1], above=0)
    if not found:
        raise InvalidSetting("--epsilons", "at least one number", " ".join(words))
    return tuple(sorted(dict.fromkeys(found)))


def seeds(words: Sequence[str]) -> tuple[int, ...]:
    """1,2,3 or FIRST:LAST, both included."""
    found: list[int] = []
    for word in _pieces(words):
        first, colon, last = word.partition(":")
        low = _integer(first)
        high = _integer(last) if colon else low
        if not low <= high < low + MOST_VALUES:
            raise InvalidSetting(
                "--seeds", f"FIRST:LAST with FIRST <= LAST, {MOST_VALUES:,} at most", word
            )
        found += range(low, high + 1)
    if not found:
        raise InvalidSetting("--seeds", "at least one integer", " ".join(words))
    return tuple(dict.fromkeys(found))


def _log_spaced(word: str) -> list[float]:
    parts = word.split(":")
    if len(parts) != 3:
        raise InvalidSetting("--epsilons", "numbers or LO:HI:COUNT, for example 0.1:10:11", word)
    low, high, count = _number(parts[0]), _number(parts[1]), _integer(parts[2], "--epsilons")
    check_number("epsilon", low, above=0)
    check_number("epsilon", high, above=0)
    check_number("COUNT of --epsilons", count, at_least=2, at_most=MOST_VALUES, integer=True)
    if low >= high:
        raise InvalidSetting("--epsilons", "LO:HI:COUNT with LO < HI", word)
    step = math.log(high / low) / (count - 1)
    middle = [float(f"{low * math.exp(step * k):.3g}") for k in range(1, count - 1)]
    return [low, *middle, high]


def _pieces(words: Sequence[str]) -> list[str]:
    return [piece for word in words for piece in word.replace(",", " ").split()]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidSetting(
            "--epsilons", "numbers > 0 separated by commas, or LO:HI:COUNT", text
        ) from None


def _integer(text: str, option: str = "--seeds") -> int:
    try:
        return int(text)
    except ValueError:
        form = "LO:HI:COUNT" if option == "--epsilons" else "FIRST:LAST"
        raise InvalidSetting(option, f"integers separated by commas, or {form}", text) from None


def _preset(args: argparse.Namespace) -> presets.Preset | None:
    return None if args.preset is None else presets.get(args.preset)


def _mechanisms(args: argparse.Namespace) -> tuple[str, ...]:
    preset = _preset(args)
    if args.mechanisms:
        return tuple(dict.fromkeys(_pieces(args.mechanisms)))
    return preset.mechanisms if preset else ()


def _epsilons(args: argparse.Namespace) -> tuple[float, ...]:
    preset = _preset(args)
    if args.epsilons is not None:
        return epsilons(args.epsilons)
    return preset.epsilons if preset else ()


def _seeds(args: argparse.Namespace) -> tuple[int, ...]:
    preset = _preset(args)
    if args.seeds is not None:
        return seeds(args.seeds)
    return preset.seeds if preset else presets.SEEDS


def _settings(args: argparse.Namespace) -> dict[str, list[str]]:
    preset = _preset(args)
    found: dict[str, list[str]] = {}
    if preset:
        found = {name: list(texts) for name, texts in preset.settings.items()}
    for text in args.set:
        name, values = arguments.setting(text, "--epsilons")
        found[name] = [value.strip() for value in values.split(",") if value.strip()]
        if not found[name]:
            raise InvalidSetting("--set", "NAME=VALUE", text)
    return found


def _split(args: argparse.Namespace) -> Split | None:
    if args.leave_last:
        return LeaveLast()
    return None if args.holdout is None else RandomShare(args.holdout)
