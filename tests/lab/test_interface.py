"""Commands from plain functions: what is typed is what the function gets."""

import argparse
import enum
from dataclasses import dataclass
from typing import Annotated

import pytest

from dpmc_core.errors import DpmcError
from dpmc_lab.cli import COMMANDS, build_parser
from dpmc_lab.cli.interface import (
    CommandGroup,
    CommandReport,
    ExclusiveOptions,
    Option,
    add_commands,
    collect_arguments,
    run_command,
)


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass(frozen=True, kw_only=True)
class Way(ExclusiveOptions):
    """How to go.

    Args:
        walk: on foot
        ride (ANIMAL): on one
    """

    walk: bool = False
    ride: str | None = None


def travel(
    place: str,
    again: int | None = None,
    *,
    way: Way,
    size: Size = Size.SMALL,
    tags: tuple[str, ...] = (),
    stops: list[float] | None = None,
    speed: Annotated[float, Option("KMH", "how fast", {"slow": 1.0}.__getitem__)] = 2.0,
    secret: int = 3,
    to: str,
) -> CommandReport:
    """Go somewhere.

    Go to a place, 100 % by hand.

    Args:
        place (PLACE): where
        size: of the luggage
        to (NAME): whom to see

    examples:
      travel home
    """
    values = (place, again, way, size, tags, stops, speed, secret, to)
    return CommandReport(
        [str(value) for value in values], ["gone", "back"], DpmcError("late") if again else None
    )


def rest(*, quietly: bool = False) -> CommandReport:
    """Stay."""
    return CommandReport("quiet" if quietly else "stayed", ["stayed"])


def build_test_parser():
    built = argparse.ArgumentParser(prog="dpmc")
    group = CommandGroup("Many\n\nAll of them.", rest, {"go": travel, "rest": rest})
    add_commands(built, {"travel": travel, "all": group})
    return built


def parse_arguments(*argv):
    return collect_arguments(build_test_parser().parse_args(["travel", *argv]))


def test_what_is_not_typed_is_the_function_s_own_default():
    parsed = parse_arguments("home", "--to", "Ada")
    assert parsed == {"place": "home", "again": None, "to": "Ada", "way": Way()}


def test_texts_become_what_the_annotation_says():
    parsed = parse_arguments(
        *("home", "2", "--to=Ada", "--ride", "mule", "--size", "large", "--tags", "a", "--tags"),
        *("b", "--stops", "1", "2.5", "--speed", "slow", "--secret", "7"),
    )
    assert parsed["way"] == Way(ride="mule")
    assert (parsed["again"], parsed["size"], parsed["tags"]) == (2, Size.LARGE, ["a", "b"])
    assert (parsed["stops"], parsed["speed"], parsed["secret"]) == ([1.0, 2.5], 1.0, 7)


def test_a_report_is_written_as_asked_and_its_failure_comes_last(capsys):
    run_command(build_test_parser().parse_args(["travel", "home", "--to", "x"]))
    assert capsys.readouterr().out == "gone\n\nback\n"
    with pytest.raises(DpmcError, match="late"):
        run_command(
            build_test_parser().parse_args(["all", "--json", "go", "home", "1", "--to", "x"])
        )
    assert capsys.readouterr().out.startswith('[\n  "home"')
    for argv in (["all", "--quietly", "--json"], ["all", "--quietly", "rest", "--json"]):
        run_command(build_test_parser().parse_args(argv))
        assert capsys.readouterr().out == '"quiet"\n'


def list_functions():
    for command in COMMANDS.values():
        group = isinstance(command, CommandGroup)
        yield from command.actions.values() if group else [command]


@pytest.mark.parametrize("function", list(list_functions()), ids=lambda function: function.__name__)
def test_every_option_has_its_words(function):
    """Only the two ends of the range, which --range is for, are not told of."""

    def leaves(node):
        inner = [a.choices for a in node._actions if isinstance(a, argparse._SubParsersAction)]
        return [leaf for child in inner[0].values() for leaf in leaves(child)] if inner else [node]

    (leaf,) = (p for p in leaves(build_parser()) if p.get_default("command") is function)
    assert leaf.description, "every command says what it does"
    untold = {a.dest for a in leaf._actions if a.help == argparse.SUPPRESS}
    assert untold <= {"low", "high"}
