"""Make commands from plain functions: their options, their help, and their reports.

A parameter before the `*` is a positional argument, and one after it an option; it is required
unless it has a default. A parameter whose type is a record, a dataclass, stands for options that
are the fields of the record; those of an `ExclusiveOptions` exclude each other. The first line of
the docstring describes the command in the list of all commands, the paragraph below it does so in
the command's own help, and what follows `Args:` ends that help. A line of `Args:` is `name
(METAVAR): help`. It may be left out where the type is `Annotated` with an `Option` that has the
help.

The result of a command is written as JSON, or in blocks of text: paragraphs and aligned tables.
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
from dpmc_lab.views.cards import format_delta

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

typed_words: list[str] = []  # the command as it was typed, from its name on
INTERRUPTED, UNREAD = 130, 141  # exit status after Ctrl-C, and if the output's reader is gone


class CommandReport(NamedTuple):
    """The result of a command; a command that returns it has `--json`.

    Attributes:
        document: plain JSON values.
        text: the same for people, in blocks with an empty line between them.
        failure: raised after the report is written.
    """

    document: Any
    text: Iterable[str]
    failure: DpmcError | None = None


@dataclass(frozen=True, eq=False)
class Option:
    """How a parameter is given on the command line.

    Attributes:
        metavar: its placeholder in the help.
        help: its help; without it the option is not listed.
        parse: converts its text to a value.
        choices: values by the words that stand for them.
    """

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
    """The option of commands that `accept_plugins` marks."""

    plugin: Plugins = ()


@dataclass(frozen=True, kw_only=True)
class _JsonOption:
    """The option of commands that return a `CommandReport`."""

    json: Json = False


class ExclusiveOptions:
    """Base of a record whose options exclude each other."""


class CommandGroup(NamedTuple):
    """Commands below a command.

    Attributes:
        description: of the group.
        default: the command without an action; all actions have its options.
        actions: the commands by name.
    """

    description: str
    default: Callable[..., Any]
    actions: Mapping[str, Callable[..., Any]]


Command = Callable[..., Any] | CommandGroup


def build_reader(parse: Callable[[str], T], expected: str) -> Callable[[str], T]:
    """Return a reader for argparse whose error says that a text must be `expected`."""

    def read(text: str) -> T:
        """Return the parsed text, or raise argparse's error."""
        try:
            return parse(text)
        except (ValueError, KeyError):
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


def accept_plugins(function: F) -> F:
    """Give a command the option `--plugin`, whose files are loaded before it runs."""
    function.__dict__["plugin"] = True
    return function


class Parser(argparse.ArgumentParser):
    """A parser whose messages can safely quote any text."""

    def error(self, message: str) -> NoReturn:
        """Exit with a message, with its control characters escaped."""
        super().error(make_printable(message))


def add_commands(parser: argparse.ArgumentParser, command_table: Mapping[str, Command]) -> None:
    """Add all commands with their help to a parser."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command in command_table.items():
        if isinstance(command, CommandGroup):
            group = _add_command(commands, name, command.default, command.description)
            actions = group.add_subparsers(title="actions", metavar="ACTION")
            for action, function in command.actions.items():
                _add_command(actions, action, function)
        else:
            _add_command(commands, name, command)


def report_end(*options: str) -> Callable[[F], F]:
    """Let a command end with a JSON line, for programs, where all these options are given."""

    def mark(function: F) -> F:
        """Note the options."""
        function.__dict__["end_options"] = options
        return function

    return mark


def reports_end(namespace: argparse.Namespace) -> bool:
    """Return whether the chosen command ends with a JSON line."""
    options = getattr(namespace.command, "end_options", ("",))
    return all(getattr(namespace, option, False) for option in options)


def write_end(ended: str, **details: Any) -> None:
    """Write the last JSON line: whether work is "done", was "stopped" or has "failed"."""
    print(json.dumps({"ended": ended} | details), flush=True)


def run_command(namespace: argparse.Namespace) -> JsonObject:
    """Run the chosen command, and write its report; return what its last JSON line adds."""
    result = namespace.command(**collect_arguments(namespace))
    if not isinstance(result, CommandReport):
        return {}
    if reports_end(namespace):
        return dict(result.document)
    if getattr(namespace, "json", False):
        write_json(result.document)
    else:
        for k, block in enumerate(result.text):
            print("\n" * (k > 0) + block)
    if result.failure is not None:
        raise result.failure
    return {}


def collect_arguments(namespace: argparse.Namespace, owner: Any = None) -> JsonObject:
    """Return the arguments that were typed, by parameter of a command's function or a record.

    Args:
        namespace: what argparse parsed.
        owner: the function or the record (default: the function of the chosen command).
    """
    values: JsonObject = {}
    for name, parameter in _list_parameters(owner or namespace.command).items():
        record = parameter.annotation
        if dataclasses.is_dataclass(record):
            values[name] = typing.cast(Any, record)(**collect_arguments(namespace, record))
        elif hasattr(namespace, name):
            values[name] = getattr(namespace, name)
    return values


def _list_parameters(function: Any) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function or a record, with their types."""
    return inspect.signature(function, eval_str=True).parameters


def _add_command(
    commands: Any, name: str, function: Callable[..., Any], description: str = ""
) -> Any:
    """Add a parser for a function, with the options of its signature.

    Args:
        commands: argparse's subparsers.
        name: of the command.
        function: runs the command.
        description: replaces the function's own, for a group of commands.
    """
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
    # The annotation is a text or a type, possibly of an optional report.
    if "CommandReport" in str(function.__annotations__.get("return")):
        _add_options(parser, _JsonOption, argument_help)
    return parser


_ArgumentHelp = Mapping[str, tuple[str, str]]  # metavar and help by the name of the parameter


def _add_options(parser: Any, function: Any, argument_help: _ArgumentHelp) -> None:
    """Add an argument for each parameter of a function or a record that has none yet.

    Args:
        parser: where to add them.
        function: the function or record.
        argument_help: metavar and help by the name of the parameter.
    """
    for parameter in _list_parameters(function).values():
        record: Any = parameter.annotation
        if dataclasses.is_dataclass(record):
            docs = (_parse_docstring(cls)[1].items() for cls in record.__mro__)  # type: ignore[union-attr]
            is_exclusive = issubclass(record, ExclusiveOptions)  # type: ignore[arg-type]
            inner = parser.add_mutually_exclusive_group() if is_exclusive else parser
            _add_options(inner, record, dict(itertools.chain(*docs)))
        elif all(action.dest != parameter.name for action in parser._actions):
            _add_option(parser, parameter, *argument_help.get(parameter.name, ("", "")))


def _add_option(parser: Any, parameter: inspect.Parameter, metavar: str, help_text: str) -> None:
    """Add the argument of one parameter, from its type, its default and its kind.

    Args:
        parser: where to add it.
        parameter: the parameter.
        metavar: its placeholder from the docstring, or ''.
        help_text: its help from the docstring, or ''.
    """
    kind = parameter.annotation
    option = Option()
    # Unpack Annotated[type, Option] and type | None, in any order, down to the type itself.
    while (origin := typing.get_origin(kind)) in (Annotated, types.UnionType, typing.Union):
        kind, *metadata = typing.get_args(kind)
        option = metadata[0] if origin is Annotated else option
    # `origin` is now what was unpacked last: tuple or list of a repeated option, or None.
    help_text = help_text or option.help
    default = parameter.default
    keys: JsonObject = {"default": argparse.SUPPRESS, "action": "store_true"}
    if kind is not bool:  # a tuple is a repeatable option, a list an option with several values
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
            keys["type"] = build_reader(choices.__getitem__, f"one of {', '.join(choices)}")
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
    """Return a docstring's head, its arguments as (metavar, help) by name, and its epilog."""
    head, _, remainder = (inspect.getdoc(function) or "").partition("\n\nArgs:\n")
    arguments_text, _, epilog = remainder.partition("\n\n")
    argument_help = {
        argument: (metavar, " ".join(text.split()))
        for argument, metavar, text in _ARGUMENT.findall(arguments_text)
    }
    return head, argument_help, epilog


# --- what commands write ----------------------------------------------------------------------

LINE_WIDTH = 100  # characters
BAR_WIDTH = 24  # cells of a bar of progress
REDRAW_SECONDS = 0.1  # between redraws of a bar on a terminal
REPEAT_SECONDS = 10.0  # between plain lines elsewhere


class Printable:
    """A stream that escapes control characters in text that others wrote, except line ends."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write text with its control characters escaped."""
        self._stream.write(make_printable(text, keep_newlines=True))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def write_json(value: Any) -> None:
    """Write one JSON document to standard output, in ASCII, which every terminal can show."""
    json.dump(value, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def format_table(
    entries: Sequence[Sequence[str]] | Mapping[str, Sequence[str]], indent: str = ""
) -> str:
    """Return columns padded to their widest cell.

    Args:
        entries: rows, the first of which is the head, or columns by name.
        indent: text before every row.
    """
    if isinstance(entries, Mapping):
        entries = [tuple(entries), *zip(*entries.values(), strict=True)]
    rows = [[make_printable(cell) for cell in row] for row in entries]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join((indent + "  ".join(map(str.ljust, row, widths))).rstrip() for row in rows)


def format_document_table(
    documents: Iterable[Mapping[str, Any]], indent: str = "", **columns: str
) -> str:
    """Return documents as a table.

    Args:
        documents: one per row.
        indent: text before every row.
        **columns: the name of a value, by the head of its column.
    """

    def cell(value: Any) -> str:
        """Return a value as a cell; empty and missing values are a dash."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        return f"{value:,}" if isinstance(value, int) else value or "-"

    rows = ([cell(document[name]) for name in columns.values()] for document in documents)
    return format_table([tuple(columns), *rows], indent)


def has_packages(*packages: str) -> bool:
    """Return whether these packages of dpmc_lab are installed; the lab works without them."""
    return all(find_spec(f"dpmc_lab.{package}") for package in packages)


def paragraph(text: str, indent: str = "", first: str | None = None) -> str:
    """Return text wrapped to a readable width; `first` replaces the first line's indent.

    Args:
        text: the text.
        indent: before every line.
        first: before the first line (default: as before the others).
    """
    first = indent if first is None else first
    return textwrap.fill(
        text, LINE_WIDTH, initial_indent=first, subsequent_indent=indent, break_long_words=False
    )


def format_facts(entries: Iterable[tuple[str, str]]) -> str:
    """Return (name, text) pairs as paragraphs, with the names in a column at the left."""
    return "\n".join(paragraph(text, " " * 13, f"  {name:<10} ") for name, text in entries if text)


class Progress:
    """Progress with the remaining time, one task after another, on standard error.

    It is a bar on a terminal, and a plain line now and then elsewhere. Used as a context, it is
    erased at the end.
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
        """Show that `n_done` of `total` units of a task are finished.

        Args:
            task: name of the task.
            n_done: finished units.
            total: all units.
            amount: formats a number of units.
        """
        now = time.monotonic()
        pause = REDRAW_SECONDS if self._terminal else REPEAT_SECONDS
        if task != self._task:
            self.close()
            self._task = task
            self._start = now
            self._last = now - REDRAW_SECONDS
        if now - self._last < pause and not (self._terminal and n_done >= total):
            return
        self._last = now
        left = (now - self._start) / n_done * (total - n_done) if n_done else 0.0
        head = f"{task} {amount(n_done)}/{amount(total)}"
        tail = f"{_format_seconds(left)} left" * (n_done > 0)
        if self._terminal:
            filled = BAR_WIDTH * n_done // max(total, 1)
            text = f"{head} [{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {tail}"
            self._write("\r" + text.ljust(self._drawn_width))
            self._drawn_width = len(text)
        else:
            self._write(f"{head}  {tail}\n")

    def step(self, method: Mechanism, step: Step) -> None:
        """Show that a step of a method's fit is finished."""
        self.update(method.id, step.index, step.total)

    def read(self, n_done: int, total: int) -> None:
        """Show how much of a file is read."""
        self.update("reading", 100 * n_done // max(total, 1), 100, "{} %".format)

    def close(self) -> None:
        """Erase the bar, so that what follows starts on a clean line."""
        if self._drawn_width:
            self._write("\r" + " " * self._drawn_width + "\r")
            self._drawn_width = 0
        self._task = ""

    def _write(self, text: str) -> None:
        """Write text to standard error at once."""
        self._stream.write(text)
        self._stream.flush()


def _format_seconds(seconds: float) -> str:
    """Return a duration as minutes and seconds, '1:05', or in hours from one hour on: '1.2 h'."""
    rounded = round(seconds)
    return f"{rounded // 60}:{rounded % 60:02d}" if rounded < 3600 else f"{seconds / 3600:.1f} h"
