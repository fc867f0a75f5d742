"""Commands from plain functions: options from signature and docstring, text and JSON from reports.

A parameter before the `*` is a positional argument, one behind it an option; without a default it
has to be given. A parameter whose type is a record, a dataclass, stands for the options that its
fields are; those of a `OneOf` exclude each other. The first line of the docstring is told of the
command in the list of all, the paragraph below it in its own help, and what follows `Args:` at the
end of that. A line of `Args:` is `name (METAVAR): what it is`; it may be left out where the type is
`Annotated` with an `Option` that says it.
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import inspect
import itertools
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn, TypeVar

from dpmc_core.errors import DpmcError, printable, shown
from dpmc_core.lab.cli import output
from dpmc_core.lab.views.cards import delta_text

F = TypeVar("F", bound=Callable[..., Any])


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
    words: Mapping[str, Any] | None = None


Json = Annotated[bool, Option(help="one JSON document")]
Plugins = Annotated[
    tuple[str, ...], Option("FILE.py", "a Python file with mechanisms of your own (repeatable)")
]


class OneOf:
    """Base of a record whose options exclude each other."""


class CommandGroup(NamedTuple):
    """Commands below a command; default: what it does alone, whose options all of them know."""

    about: str
    default: Callable[..., Any]
    actions: Mapping[str, Callable[..., Any]]


Command = Callable[..., Any] | CommandGroup


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


def _one_of(words: Mapping[str, Any]) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        if text not in words:
            known = ", ".join(map(repr, words))
            raise argparse.ArgumentTypeError(f"invalid choice: {text!r} (choose from {known})")
        return words[text]

    return parse


_PARSERS: Mapping[Any, Callable[[str], Any]] = {float: number, int: integer, Path: Path}


def extensible(function: F) -> F:
    """The command knows `--plugin`: whoever runs it loads these files first."""
    function.__dict__["plugin"] = True
    return function


class Parser(argparse.ArgumentParser):
    """What it says of a word shows the word, whatever is in it."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def add_commands(
    parser: argparse.ArgumentParser, known: Mapping[str, Command], hidden: Collection[str] = ()
) -> None:
    """All commands with their help; hidden: names that the list leaves out."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command in known.items():
        if not isinstance(command, CommandGroup):
            _add(commands, name, command, listed=name not in hidden)
            continue
        group = _add(commands, name, command.default, command.about)
        actions = group.add_subparsers(title="actions", metavar="ACTION")
        for action, function in command.actions.items():
            _add(actions, action, function)


def call(given: argparse.Namespace) -> None:
    """Run the command that was asked for, and write its report."""
    found = given.command(**arguments(given))
    if isinstance(found, CommandReport):
        if getattr(given, "json", False):
            output.write_json(found.document)
        else:
            for k, block in enumerate(found.text):
                print("\n" * (k > 0) + block)
        if found.failure is not None:
            raise found.failure


def arguments(given: argparse.Namespace, of: Any = None) -> dict[str, Any]:
    """What the function of the command, or a record, is made with: what was typed, no defaults."""
    found: dict[str, Any] = {}
    for name, one in _parameters(of or given.command).items():
        record = one.annotation
        if dataclasses.is_dataclass(record):
            found[name] = typing.cast(Any, record)(**arguments(given, record))
        elif hasattr(given, name):
            found[name] = getattr(given, name)
    return found


def _parameters(function: Any) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function, eval_str=True).parameters


def _add(
    commands: Any, name: str, function: Callable[..., Any], about: str = "", listed: bool = True
) -> Any:
    """A parser for a function, with the options of its signature."""
    head, told, epilog = _docs(function)
    head, _, more = (about or head).partition("\n\n")
    parser = commands.add_parser(
        name,
        **({"help": f"{head[:1].lower()}{head[1:].rstrip('.')}"} if listed else {}),
        description=more or head,
        epilog="" if about else epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=function)
    _add_options(parser, function, told)
    if hasattr(function, "plugin"):
        _add_option(parser, _option("plugin", Plugins), told)
    if "CommandReport" in str(function.__annotations__.get("return")):
        _add_option(parser, _option("json", Json), told)
    return parser


def _option(name: str, hint: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=None, annotation=hint)


_Told = Mapping[str, tuple[str, str]]


def _add_options(parser: Any, function: Any, told: _Told) -> None:
    for one in _parameters(function).values():
        record: Any = one.annotation
        if dataclasses.is_dataclass(record):
            alone = issubclass(record, OneOf)  # type: ignore[arg-type]
            docs = (_docs(cls)[1].items() for cls in record.__mro__)  # type: ignore[union-attr]
            inner = parser.add_mutually_exclusive_group() if alone else parser
            _add_options(inner, record, dict(itertools.chain(*docs)))
        else:
            _add_option(parser, one, told)


def _add_option(parser: Any, one: inspect.Parameter, told: _Told) -> None:
    if any(action.dest == one.name for action in parser._actions):
        return  # a parameter of the function itself
    kind, option = one.annotation, Option()
    while (origin := typing.get_origin(kind)) in (Annotated, types.UnionType, typing.Union):
        kind, *more = typing.get_args(kind)
        option = more[0] if origin is Annotated else option
    metavar, words = told.get(one.name, ("", ""))
    keys: dict[str, Any] = {"default": argparse.SUPPRESS, "action": "store_true"}
    shown_as: Mapping[str, Any] = {}
    if kind is not bool:
        keys["action"] = "append" if origin is tuple and not option.parse else "store"
        if origin is list:
            keys["nargs"] = "+"
        if origin in (list, tuple):
            kind = typing.get_args(kind)[0]
        members: Iterable[Any] = kind if isinstance(kind, enum.EnumMeta) else ()
        shown_as = option.words or {member.value: member for member in members}
        keys["type"] = option.parse or _PARSERS.get(kind, str)
        keys["metavar"] = metavar or option.metavar
        if shown_as:
            keys["type"] = _one_of(shown_as)
            keys["metavar"] = keys["metavar"] or f"{{{','.join(shown_as)}}}"
    words = words or option.help
    required = one.default is one.empty
    usual = next((word for word, value in shown_as.items() if value == one.default), one.default)
    if (
        words
        and "default" not in words
        and isinstance(usual, str | int | float)
        and kind is not bool
    ):
        usual = delta_text(usual) if isinstance(usual, float) else usual
        words += f" (default {usual})"
    keys["help"] = words.replace("%", "%%") if words else argparse.SUPPRESS
    if one.kind is one.KEYWORD_ONLY:
        parser.add_argument(f"--{one.name.replace('_', '-')}", required=required, **keys)
    elif required:
        parser.add_argument(one.name, **keys)
    else:
        parser.add_argument(one.name, **keys | {"nargs": "?", "default": one.default})


_ARGUMENT = re.compile(r"^    (\w+)(?: \((.+?)\))?: (.*(?:\n     .*)*)", re.MULTILINE)


def _docs(function: Any) -> tuple[str, dict[str, tuple[str, str]], str]:
    """A docstring's head, its arguments as (metavar, help) by name, and what stands below."""
    head, _, rest = (inspect.getdoc(function) or "").partition("\n\nArgs:\n")
    told, _, epilog = rest.partition("\n\n")
    known = {
        one: (metavar, " ".join(text.split())) for one, metavar, text in _ARGUMENT.findall(told)
    }
    return head, known, epilog
