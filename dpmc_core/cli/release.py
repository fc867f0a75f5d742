"""`dpmc release`: exact noise, and a file of what the card says is published."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from dpmc_core import ledger
from dpmc_core.cli import arguments, output
from dpmc_core.cli.fit import mechanism_of
from dpmc_core.cli.output import Progress
from dpmc_core.data import datasets, parse_step
from dpmc_core.model import Mechanism
from dpmc_core.privacy import exact_noise
from dpmc_core.problem import prepare_all
from dpmc_core.release import Export, check, check_path, export, waiting, write
from dpmc_core.views import cards
from dpmc_core.views import ledger as words

EPILOG = """examples:
  dpmc release movie-night input-flip --epsilon 1 --prepare binarise=3.5 --out signs.npz
  dpmc release jokes private-item-mean --epsilon 1 --delta 1e-6 --out items.npz

All ratings are used and none held out: nothing measured on them would be private. The file has the
published arrays and the card (`card`, as JSON); numpy.load reads it. Refused, with the reason:
preparation that reads the ratings (binarise=mean, top-items), noise without an exact sampler, and
what has no finite certified epsilon. Needs the package opendp."""

_LONG = 20.0  # seconds of drawing that are worth a word


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "release",
        help="train with exact noise and write what may be published",
        description="Train on all ratings with exact noise from operating-system entropy, and"
        " write what the mechanism's card says is published, with that card.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arguments.add_method(parser)
    add = parser.add_argument
    add("--out", metavar="FILE.npz", type=Path, required=True, help="a new file")
    arguments.add_reading(parser)
    add("--json", action="store_true", help="the card as one JSON object instead of the report")
    parser.set_defaults(command=release)


def release(args: argparse.Namespace) -> None:
    mechanism = mechanism_of(args)  # mistakes are told before a large file is read
    steps = [parse_step(text) for text in args.prepare]
    check_path(args.out)
    data = datasets.load(args.data, **arguments.reading_of(args, args.data, [mechanism.task]))
    ratings, prepared = prepare_all(data.ratings, mechanism.task, steps)
    check(mechanism, ratings)  # the noise that nobody can sample exactly is told first
    exact_noise.opendp()
    seconds = waiting(mechanism, ratings)
    if seconds > _LONG:
        print(f"exact noise is slow: about {1 + seconds / 60:.0f} minutes", file=sys.stderr)
    with closing(Progress()) as progress:
        found = export(mechanism, ratings, prepared, on_step=progress.step)
    source = ledger.source_of(data)
    ledger.note(source, data.name, [ledger.release(mechanism, found.guarantee)])
    write(found, args.out)
    proved = found.guarantee.certified()
    study = ledger.study(source, None, ledger.noted(source), proved.delta or ledger.DELTA)
    together = words.released(study, proved.change)
    if args.json:
        output.write_json(found.card)
        print(f"dpmc: {together}", file=sys.stderr)
    else:
        print("\n\n".join([*report(mechanism, found, args.out), output.paragraph(together)]))


def report(mechanism: Mechanism, found: Export, path: Path) -> list[str]:
    """What was written, what it certifies and what it does not cover, as paragraphs."""
    rows = [
        (name, " x ".join(map(str, array.shape)), what)
        for name, (array, what) in found.arrays.items()
    ]
    files = output.table([("array", "shape", "what it is"), *rows], indent="  ")
    promise = output.card(cards.card(found.guarantee, sampled=True))
    return [f"Wrote {path}: {mechanism.name}, {found.guarantee.publishes.value}\n{files}", promise]
