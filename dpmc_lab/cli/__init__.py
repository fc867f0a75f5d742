"""Run the command line `dpmc`: one file per command, each a thin layer over the core."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, cast

import dpmc_core
from dpmc_core.errors import DpmcError, make_printable
from dpmc_lab import plugins
from dpmc_lab.cli import app, data, interface, methods, promises, sweep
from dpmc_lab.cli.interface import INTERRUPTED, UNREAD, Printable


def _load_optional_command(
    name: str, function: str, *packages: str
) -> dict[str, interface.Command]:
    """Return a command by its name; empty if a package of the lab that it needs is missing.

    Args:
        name: of the command and of its module.
        function: name of the function in this module.
        *packages: names of the packages.
    """
    if not interface.has_packages(*packages):
        return {}
    return {name: getattr(import_module(f"dpmc_lab.cli.{name}"), function)}


COMMANDS: dict[str, interface.Command] = {
    "app": app.start_app,
    "list": methods.list_methods,
    "data": data.DATA,
    "recommend": methods.recommend_command,
    "answer": promises.answer_question,
    "fit": methods.fit,
    "release": promises.make_release,
    "verify": promises.check_release_file,
    "guarantees": methods.compare_guarantees,
    **_load_optional_command("audit", "run_audit", "audit"),
    **_load_optional_command("protocol", "play_protocol", "protocol"),
    **_load_optional_command("papers", "show", "papers", "protocol"),
    "sweep": sweep.run_sweep,
    "store": data.STORE,
    "lessons": data.write_lessons,
    "explorable": app.write_explorable,
}
EXIT_DONE, EXIT_FAILED = 0, 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    The status is 0 when done, 1 for a DpmcError, 2 for wrong usage, 130 when interrupted, and 141
    when the reader of the output is gone.
    """
    if sys.stderr is None:  # Python sets closed streams to None
        sys.stderr = io.StringIO()
    if sys.stdout is None:
        print(
            "dpmc: standard output is closed: send it to a file, or to /dev/null", file=sys.stderr
        )
        return EXIT_FAILED
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal may not have all letters
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader (head, less) has seen enough
        status = UNREAD
    except OSError as error:
        print(f"dpmc: {_format_error(error)}", file=sys.stderr)
        status = EXIT_FAILED
    # What cannot be written now must not be written again when Python ends.
    if status in (UNREAD, EXIT_FAILED):
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return status


def _run(argv: Sequence[str]) -> int:
    """Run a command, print what went wrong, and return the exit status."""
    try:
        args = build_parser().parse_args(_join_range_values(argv))
    except SystemExit as stop:  # argparse has printed the reason
        return stop.code if isinstance(stop.code, int) else EXIT_FAILED
    interface.typed_words[:] = argv
    files = [*plugins.list_environment_files(), *getattr(args, "plugin", ())]
    ended, status = {"ended": "failed"}, EXIT_FAILED
    try:
        for file in files:
            plugins.load_plugin(file)
        with contextlib.redirect_stdout(cast(Any, Printable(sys.stdout))):
            ended = {"ended": "done"} | interface.run_command(args)
        status = EXIT_DONE
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        print("dpmc: interrupted", file=sys.stderr)
        ended, status = {"ended": "stopped"}, INTERRUPTED
    except (DpmcError, OSError) as error:
        ended["message"] = _format_error(error)
    except MemoryError:
        ended["message"] = "not enough memory; take smaller data or another method"
    except Exception as error:
        if not files:
            # A fault of this program, which ends with a traceback.
            if interface.reports_end(args):
                interface.write_end(**ended)
            raise
        message = make_printable(plugins.format_error(error))
        ended["message"] = f"with {make_printable(', '.join(files))}: {message}"
    if status == EXIT_FAILED:
        print(f"dpmc: {ended['message']}", file=sys.stderr)
    if interface.reports_end(args):
        interface.write_end(**ended)
    return status


def _join_range_values(argv: Sequence[str]) -> list[str]:
    """Turn `--range -10:10` into `--range=-10:10`, since argparse takes -10:10 for an option."""
    joined: list[str] = []
    for word in argv:
        if joined and joined[-1] == "--range" and re.match(r"-[\d.]", word):
            joined[-1] += "=" + word
        else:
            joined.append(word)
    return joined


def _format_error(error: DpmcError | OSError) -> str:
    """Return the sentence of one of our errors, or the file and the reason of a system error."""
    if isinstance(error, DpmcError):
        return str(error)
    reason = (error.strerror or str(error)).lower()
    path = error.filename2 or error.filename
    return make_printable(reason if path is None else f"{path}: {reason}")


def build_parser() -> argparse.ArgumentParser:
    """Build a parser of all commands with their help."""
    parser = interface.Parser(
        prog="dpmc",
        description="Differentially private matrix completion: train, compare, check the claims.",
        epilog="Try: dpmc fit movie-night input-flip --epsilon 2",
    )
    version = f"dpmc {dpmc_core.__version__}"
    parser.add_argument(
        "--version", action="version", version=version, help="say which version this is"
    )
    interface.add_commands(parser, COMMANDS)
    return parser
