"""The command line `dpmc`: one file per command, each thin over the core."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from dpmc_core import plugins
from dpmc_core.cli import (
    answer,
    audit,
    choose,
    data,
    explorable,
    fit,
    guarantees,
    ledger,
    lessons,
    listing,
    papers,
    protocol,
    recommend,
    release,
    split,
    store,
    sweep,
    verify,
)
from dpmc_core.cli.arguments import join_negative_ranges
from dpmc_core.cli.output import INTERRUPTED
from dpmc_core.errors import DpmcError

DONE, FAILED = 0, 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Exit status: 0 done, 1 a DpmcError, 2 usage, 130 interrupted."""
    try:
        words = join_negative_ranges(sys.argv[1:] if argv is None else argv)
        args = build_parser().parse_args(words)
    except SystemExit as stop:  # argparse has already said why
        return stop.code if isinstance(stop.code, int) else FAILED
    files: Sequence[str] = getattr(args, "plugin", ())
    try:
        for file in files:
            plugins.load(file)
        args.command(args)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print("dpmc: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (DpmcError, OSError) as error:
        print(f"dpmc: {_words(error)}", file=sys.stderr)
        return FAILED
    except MemoryError:
        print("dpmc: not enough memory; take smaller data or another method", file=sys.stderr)
        return FAILED
    except Exception as error:
        if not files:
            raise  # a fault of ours; of a plugin its author needs no more than the line
        print(f"dpmc: with {', '.join(files)}: {plugins.words(error)}", file=sys.stderr)
        return FAILED
    return DONE


def _words(error: DpmcError | OSError) -> str:
    """The sentence of an error of ours; the file and what is wrong with it, of the system's."""
    if isinstance(error, DpmcError) or not isinstance(error.filename, str) or not error.strerror:
        return str(error)
    return f"{error.filename2 or error.filename}: {error.strerror.lower()}"


class _Version(argparse.Action):
    """Looked up when asked: reading it takes longer than starting."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        from dpmc_core.version import version

        print(f"dpmc {version()}")
        parser.exit()


def build_parser() -> argparse.ArgumentParser:
    """All commands with their help."""
    parser = argparse.ArgumentParser(
        prog="dpmc",
        description="Differentially private matrix completion: train, compare, check the claims.",
        epilog="Try: dpmc fit movie-night input-flip --epsilon 2",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="say which version this is")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    groups = (
        *(listing, data, recommend, answer, fit, split, choose, release, verify),
        *(guarantees, audit, ledger, protocol, papers, sweep, store, lessons, explorable),
    )
    for group in groups:
        group.add_to(commands)
    return parser
