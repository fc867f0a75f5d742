"""Commands from plain functions: options from signature and docstring, text and JSON from reports.

A parameter before the `*` is a positional argument, one behind it an option; without a default it
has to be given. A parameter whose type is a record, a dataclass, stands for the options that its
fields are; those of a `OneOf` exclude each other. The first line of the docstring is told of the
command in the list of all, the paragraph below it in its own help, and what follows `Args:` at the
end of that. A line of `Args:` is `name (METAVAR): what it is`; it may be left out where the type is
`Annotated` with an `Option` that says it.

What a command found is written as JSON, or in blocks of text: paragraphs and aligned tables.
Progress goes to standard error.
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import inspect
import itertools
import json
import re
import sys
import textwrap
import time
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn, TypeVar

from dpmc_core.arrays import JsonObject
from dpmc_core.errors import DpmcError, format_value, make_printable
from dpmc_core.model import Mechanism, Step
from dpmc_lab.curves.cards import format_delta

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

INTERRUPTED, UNREAD = 130, 141  # exit status after Ctrl-C, and where nobody reads on


class CommandReport(NamedTuple):
    """What a command found; one that returns it has `--json`.

    Args:
        document: plain JSON values.
        text: the same for people, in blocks with an empty line between them.
        failure: raised when all is told.
    """

    document: Any
    text: Iterable[str]
    failure: DpmcError | None = None


@dataclass(frozen=True, eq=False)
class Option:
    """How a parameter is typed: its stand-in, its help (none: it is not told of), and how its text
    is read: by a function, or as one of some words."""

    metavar: str | None = None
    help: str = ""
    parse: Callable[[str], Any] | None = None
    choices: Mapping[str, Any] | None = None


Json = Annotated[bool, Option(help="one JSON document")]
Plugins = Annotated[
    tuple[str, ...], Option("FILE.py", "a Python file with mechanisms of your own (repeatable)")
]


@dataclass(frozen=True, kw_only=True)
class _PluginOption:
    plugin: Plugins = ()


@dataclass(frozen=True, kw_only=True)
class _JsonOption:
    json: Json = False


class ExclusiveOptions:
    """Base of a record whose options exclude each other."""


class CommandGroup(NamedTuple):
    """Commands below a command; default: what it does alone, whose options all of them know."""

    description: str
    default: Callable[..., Any]
    actions: Mapping[str, Callable[..., Any]]


Command = Callable[..., Any] | CommandGroup


def build_reader(parse: Callable[[str], T], expected: str) -> Callable[[str], T]:
    """For argparse, which would say 'invalid float value': a wrong text must be `expected`."""

    def read(text: str) -> T:
        try:
            return parse(text)
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"must be {expected}, got {format_value(text)}"
            ) from None

    return read


read_number = build_reader(float, "a number")
_READERS: Mapping[Any, Callable[[str], Any]] = {
    float: read_number,
    int: build_reader(int, "an integer"),
    Path: Path,
}


def _build_choice_reader(choices: Mapping[str, Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        if text not in choices:
            choice_names = ", ".join(map(repr, choices))
            raise argparse.ArgumentTypeError(
                f"invalid choice: {text!r} (choose from {choice_names})"
            )
        return choices[text]

    return read


def accept_plugins(function: F) -> F:
    """The command knows `--plugin`: whoever runs it loads these files first."""
    function.__dict__["plugin"] = True
    return function


class Parser(argparse.ArgumentParser):
    """What it says of a word shows the word, whatever is in it."""

    def error(self, message: str) -> NoReturn:
        super().error(make_printable(message))


def add_commands(parser: argparse.ArgumentParser, command_table: Mapping[str, Command]) -> None:
    """All commands with their help."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command in command_table.items():
        if isinstance(command, CommandGroup):
            group = _add_command(commands, name, command.default, command.description)
            actions = group.add_subparsers(title="actions", metavar="ACTION")
            for action, function in command.actions.items():
                _add_command(actions, action, function)
        else:
            _add_command(commands, name, command)


def run_command(namespace: argparse.Namespace) -> None:
    """Run the command that was asked for, and write its report."""
    result = namespace.command(**collect_arguments(namespace))
    if isinstance(result, CommandReport):
        if getattr(namespace, "json", False):
            write_json(result.document)
        else:
            for k, block in enumerate(result.text):
                print("\n" * (k > 0) + block)
        if result.failure is not None:
            raise result.failure


def collect_arguments(namespace: argparse.Namespace, owner: Any = None) -> JsonObject:
    """What the function of the command, or a record, is made with: what was typed, no defaults."""
    values: JsonObject = {}
    for name, parameter in _parameters(owner or namespace.command).items():
        record = parameter.annotation
        if dataclasses.is_dataclass(record):
            values[name] = typing.cast(Any, record)(**collect_arguments(namespace, record))
        elif hasattr(namespace, name):
            values[name] = getattr(namespace, name)
    return values


def _parameters(function: Any) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function, eval_str=True).parameters


def _add_command(
    commands: Any, name: str, function: Callable[..., Any], description: str = ""
) -> Any:
    """A parser for a function, with the options of its signature."""
    head, argument_help, epilog = _parse_docstring(function)
    head, _, details = (description or head).partition("\n\n")
    parser = commands.add_parser(
        name,
        help=f"{head[:1].lower()}{head[1:].rstrip('.')}",
        description=details or head,
        epilog="" if description else epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=function)
    _add_options(parser, function, argument_help)
    if hasattr(function, "plugin"):
        _add_options(parser, _PluginOption, argument_help)
    if "CommandReport" in str(function.__annotations__.get("return")):
        _add_options(parser, _JsonOption, argument_help)
    return parser


_ArgumentHelp = Mapping[str, tuple[str, str]]


def _add_options(parser: Any, function: Any, argument_help: _ArgumentHelp) -> None:
    for parameter in _parameters(function).values():
        record: Any = parameter.annotation
        if dataclasses.is_dataclass(record):
            docs = (_parse_docstring(cls)[1].items() for cls in record.__mro__)  # type: ignore[union-attr]
            is_exclusive = issubclass(record, ExclusiveOptions)  # type: ignore[arg-type]
            inner = parser.add_mutually_exclusive_group() if is_exclusive else parser
            _add_options(inner, record, dict(itertools.chain(*docs)))
        elif all(action.dest != parameter.name for action in parser._actions):
            _add_option(parser, parameter, *argument_help.get(parameter.name, ("", "")))


def _add_option(parser: Any, parameter: inspect.Parameter, metavar: str, help_text: str) -> None:
    kind, option = parameter.annotation, Option()
    while (origin := typing.get_origin(kind)) in (Annotated, types.UnionType, typing.Union):
        kind, *metadata = typing.get_args(kind)
        option = metadata[0] if origin is Annotated else option
    help_text, default = help_text or option.help, parameter.default
    keys: JsonObject = {"default": argparse.SUPPRESS, "action": "store_true"}
    if kind is not bool:
        keys["action"] = "append" if origin is tuple and not option.parse else "store"
        if origin is list:
            keys["nargs"] = "+"
        if origin in (list, tuple):
            kind = typing.get_args(kind)[0]
        choices = option.choices
        if isinstance(kind, enum.EnumMeta):
            choices = choices or {member.value: member for member in list[Any](kind)}
        metavar = metavar or option.metavar or ""
        if choices:
            metavar = metavar or f"{{{','.join(choices)}}}"
            default = next((word for word, value in choices.items() if value == default), default)
            keys["type"] = _build_choice_reader(choices)
        else:
            keys["type"] = option.parse or _READERS.get(kind, str)
        keys["metavar"] = metavar or None
        if help_text and "default" not in help_text and isinstance(default, str | int | float):
            help_text += (
                f" (default {format_delta(default) if isinstance(default, float) else default})"
            )
    keys["help"] = help_text.replace("%", "%%") if help_text else argparse.SUPPRESS
    required = parameter.default is parameter.empty
    if parameter.kind is parameter.KEYWORD_ONLY:
        flag = parameter.name.rstrip("_").replace("_", "-")  # class_ is --class
        parser.add_argument(f"--{flag}", dest=parameter.name, required=required, **keys)
    elif required:
        parser.add_argument(parameter.name, **keys)
    else:
        parser.add_argument(parameter.name, **keys | {"nargs": "?", "default": parameter.default})


_ARGUMENT = re.compile(r"^    (\w+)(?: \((.+?)\))?: (.*(?:\n     .*)*)", re.MULTILINE)


def _parse_docstring(function: Any) -> tuple[str, dict[str, tuple[str, str]], str]:
    """A docstring's head, its arguments as (metavar, help) by name, and what stands below."""
    head, _, below = (inspect.getdoc(function) or "").partition("\n\nArgs:\n")
    arguments_text, _, epilog = below.partition("\n\n")
    argument_help = {
        argument: (metavar, " ".join(text.split()))
        for argument, metavar, text in _ARGUMENT.findall(arguments_text)
    }
    return head, argument_help, epilog


# --- what commands write ----------------------------------------------------------------------

LINE_WIDTH = 100  # characters
BAR_WIDTH = 24  # cells of a bar of progress
REDRAW_SECONDS = 0.1  # seconds between redraws on a terminal
REPEAT_SECONDS = 10.0  # seconds between plain lines elsewhere


class Printable:
    """A stream on which what others wrote is shown and never obeyed; lines end where they end."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        self._stream.write(make_printable(text, keep_newlines=True))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def write_json(value: Any) -> None:
    """One JSON document on standard output, in ASCII: it is the same on any terminal."""
    json.dump(value, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def format_table(
    entries: Sequence[Sequence[str]] | Mapping[str, Sequence[str]], indent: str = ""
) -> str:
    """Columns padded to their widest cell: of rows, the first of which is the head, or by name."""
    if isinstance(entries, Mapping):
        entries = [tuple(entries), *zip(*entries.values(), strict=True)]
    rows = [[make_printable(cell) for cell in row] for row in entries]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join((indent + "  ".join(map(str.ljust, row, widths))).rstrip() for row in rows)


def format_document_table(
    documents: Iterable[Mapping[str, Any]], indent: str = "", **columns: str
) -> str:
    """A document as a table. columns: the name of a value, by the head of its column."""

    def cell(value: Any) -> str:
        if isinstance(value, bool):
            return "yes" if value else "no"
        return f"{value:,}" if isinstance(value, int) else value or "-"

    rows = ([cell(document[name]) for name in columns.values()] for document in documents)
    return format_table([tuple(columns), *rows], indent)


def has_packages(*packages: str) -> bool:
    """Whether these packages of the lab are there: the others work where one is taken out."""
    return all(find_spec(f"dpmc_lab.{package}") for package in packages)


def paragraph(text: str, indent: str = "", first: str | None = None) -> str:
    """Text wrapped to a readable width; `first` replaces the first line's indent."""
    first = indent if first is None else first
    return textwrap.fill(
        text, LINE_WIDTH, initial_indent=first, subsequent_indent=indent, break_long_words=False
    )


def format_facts(entries: Iterable[tuple[str, str]]) -> str:
    """What is known by name, each in a paragraph beside its name."""
    return "\n".join(paragraph(text, " " * 13, f"  {name:<10} ") for name, text in entries if text)


class Progress:
    """Progress with time left, one task after another, on standard error.

    A bar on a terminal, now and then a plain line elsewhere. As a context it is wiped at the end.
    """

    def __init__(self) -> None:
        self._stream = sys.stderr
        self._terminal = self._stream.isatty()
        self._task = ""
        self._start = self._last = 0.0
        self._drawn_width = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def update(
        self, task: str, n_done: int, total: int, amount: Callable[[int], str] = str
    ) -> None:
        """`n_done` of `total` parts of the named task are over; `amount` writes a count of
        parts."""
        now, pause = time.monotonic(), REDRAW_SECONDS if self._terminal else REPEAT_SECONDS
        if task != self._task:
            self.close()
            self._task, self._start, self._last = task, now, now - REDRAW_SECONDS
        if now - self._last < pause and not (self._terminal and n_done >= total):
            return
        self._last = now
        left = (now - self._start) / n_done * (total - n_done) if n_done else 0.0
        head, tail = (
            f"{task} {amount(n_done)}/{amount(total)}",
            f"{_format_seconds(left)} left" * (n_done > 0),
        )
        if self._terminal:
            filled = BAR_WIDTH * n_done // max(total, 1)
            text = f"{head} [{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {tail}"
            self._write("\r" + text.ljust(self._drawn_width))
            self._drawn_width = len(text)
        else:
            self._write(f"{head}  {tail}\n")

    def step(self, method: Mechanism, step: Step) -> None:
        """A step of a method's fit is over."""
        self.update(method.id, step.index, step.total)

    def close(self) -> None:
        """Wipe the bar, so that what follows starts on a clean line."""
        if self._drawn_width:
            self._write("\r" + " " * self._drawn_width + "\r")
            self._drawn_width = 0
        self._task = ""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _format_seconds(seconds: float) -> str:
    rounded = round(seconds)
    return f"{rounded // 60}:{rounded % 60:02d}" if rounded < 3600 else f"{seconds / 3600:.1f} h"
