"""`dpmc release`: exact noise, and a file of what the card says is published."""

from __future__ import annotations

import argparse
import dataclasses
import random
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from dpmc_core.data import (
    Outside,
    Transform,
    datasets,
    from_data,
    on_catalogue,
    parse_step,
    read_ids,
)
from dpmc_core.errors import InvalidSetting, parsed
from dpmc_core.lab.cli import arguments, output
from dpmc_core.lab.cli.fit import mechanism_of
from dpmc_core.lab.cli.output import Progress
from dpmc_core.lab.cli.verify import add_deployment_card, write_deployment_card
from dpmc_core.lab.study import ledger
from dpmc_core.lab.study.release import (
    Export,
    check,
    check_path,
    deployment_card,
    export,
    waiting,
    write,
)
from dpmc_core.lab.views import cards
from dpmc_core.lab.views import ledger as words
from dpmc_core.model import Mechanism
from dpmc_core.paths import check_new
from dpmc_core.privacy import DELTA, exact_noise
from dpmc_core.problem import prepare_all, prepared_facts
from dpmc_core.ratings import Ratings

EPILOG = """examples:
  dpmc release movie-night input-flip --epsilon 1 --prepare binarise=3.5 --out signs.npz
  dpmc release jokes private-item-mean --epsilon 1 --delta 1e-6 --out items.npz

All ratings are used and none held out: nothing measured on them would be private. The file has the
published arrays and the card (`card`, as JSON); numpy.load reads it. Refused, with the reason:
preparation that reads the ratings (binarise=mean, top-items), noise without an exact sampler, and
what has no finite certified epsilon. Needs the package opendp.

The shape of a release tells which users and items there are, so this must be known without the
ratings. Of samples and public sets it is. For a file of yours give --catalogue items.txt (one id a
line) with --users N or users.txt, or say --catalogue from-data: then they are read off the ratings,
and the card tells readers so. `dpmc verify FILE.npz` checks what was written."""

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
    add(
        "--catalogue",
        metavar="FILE|from-data",
        help="all items there are, one id a line; from-data: those with ratings, which tells what"
        " somebody rated",
    )
    add(
        "--users",
        metavar="N|FILE",
        help="with a catalogue: how many users there are, or a file of their ids",
    )
    add(
        "--outside",
        choices=[way.value for way in Outside],
        default=Outside.ERROR.value,
        help="ratings of users or items that a catalogue lacks: an error (default), or left out",
    )
    add_deployment_card(parser)
    add("--json", action="store_true", help="the card as one JSON object instead of the report")
    parser.set_defaults(command=release)


def release(args: argparse.Namespace) -> None:
    mechanism = mechanism_of(args)  # mistakes are told before a large file is read
    steps = [parse_step(text) for text in args.prepare]
    check_path(args.out)
    if args.deployment_card is not None:
        check_new(args.deployment_card)
    catalogue = catalogue_of(args)
    data = datasets.load(args.data, **arguments.reading_of(args, args.data, [mechanism.task]))
    listed = over(catalogue, data.ratings, mechanism, steps, Outside(args.outside))
    ratings, prepared = prepare_all(listed, mechanism.task, steps)
    check(mechanism, ratings, prepared)  # noise that nobody can sample exactly is told first
    exact_noise.opendp()
    seconds = waiting(mechanism, ratings)
    if seconds > _LONG:
        print(f"exact noise is slow: about {1 + seconds / 60:.0f} minutes", file=sys.stderr)
    with closing(Progress()) as progress:
        found = export(mechanism, ratings, prepared, on_step=progress.step)
    source = ledger.source_of(data)
    ledger.note(source, data.name, [ledger.release(mechanism, found.guarantee)])
    write(found, args.out)
    if args.deployment_card is not None:
        write_deployment_card(args.deployment_card, deployment_card(found.card, found.guarantee))
    proved = found.guarantee.certified()
    study = ledger.study(source, None, ledger.noted(source), proved.delta or DELTA)
    together = words.released(study, proved.change)
    if args.json:
        output.write_json(found.card)
        print(f"dpmc: {together}", file=sys.stderr)
    else:
        print("\n\n".join([*report(mechanism, found, args.out), output.paragraph(together)]))


FROM_DATA = "from-data"
Listed = tuple[Sequence[str], Sequence[str] | int]  # items; users, or how many


def catalogue_of(args: argparse.Namespace) -> Listed | str | None:
    """What --catalogue and --users ask for, the files read. Raises DpmcError."""
    if args.catalogue is None or args.catalogue == FROM_DATA:
        if args.users is not None:
            raise InvalidSetting("--users", "given with --catalogue items.txt", args.users)
        if args.outside != Outside.ERROR.value:
            raise InvalidSetting("--outside", "given with --catalogue items.txt", args.outside)
        return args.catalogue or None
    if args.users is None:
        raise InvalidSetting(
            "--users", "given with --catalogue: how many there are, or a file of their ids", None
        )
    items = read_ids(args.catalogue)
    users = args.users
    return items, parsed(int, users, "--users") if users.isdecimal() else read_ids(users)


def over(
    catalogue: Listed | str | None,
    ratings: Ratings,
    mechanism: Mechanism,
    steps: Sequence[Transform],
    outside: Outside,
) -> Ratings:
    """The ratings over the catalogue; what is left out is said on standard error alone."""
    if catalogue is None:
        return ratings
    if isinstance(catalogue, str):
        return from_data(ratings)
    items, users = catalogue
    count = users if isinstance(users, int) else len(users)
    facts = dataclasses.replace(ratings.public, users=count, items=len(items))
    change = mechanism.guarantee(prepared_facts(facts, mechanism.task, steps)).change
    # Only their number is known: who is where must not tell who has ratings.
    shuffle = random.SystemRandom() if change.covers_existence else None
    found, left_out = on_catalogue(ratings, items, users, outside, shuffle)
    if left_out:
        print(f"left out: {left_out} (for you alone: the file does not say so)", file=sys.stderr)
    return found


def report(mechanism: Mechanism, found: Export, path: Path) -> list[str]:
    """What was written, what it certifies and what it does not cover, as paragraphs."""
    rows = [
        (name, " x ".join(map(str, array.shape)), found.card["arrays"][name]["what"])
        for name, array in found.arrays.items()
    ]
    files = output.table([("array", "shape", "what it is"), *rows], indent="  ")
    promise = output.card(cards.card(found.guarantee, sampled=True))
    return [f"Wrote {path}: {mechanism.name}, {found.guarantee.publishes.value}\n{files}", promise]
