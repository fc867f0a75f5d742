"""`dpmc verify`: what a released file promises, computed again from its card."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from dpmc_core.cli import output
from dpmc_core.deployment import deployment_card
from dpmc_core.errors import NotVerified
from dpmc_core.paths import check_new, whole_file
from dpmc_core.verify import Verified
from dpmc_core.verify import verify as verified
from dpmc_core.views import cards

EPILOG = """examples:
  dpmc verify items.npz
  dpmc verify items.npz --deployment-card card.json

Needs no ratings. It computes the certificate again from the mechanism, its settings and the public
facts on the card, and checks every release, the shapes and the values of the arrays. It cannot
know whether the numbers were drawn as the card says: that is the word of whoever ran it."""


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "verify",
        help="check a released file against its own card",
        description="Compute the certificate of a file that `dpmc release` wrote from its card"
        " alone, check its arrays, and say what it promises.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("file", metavar="FILE.npz", type=Path, help="a file that `dpmc release` wrote")
    add_deployment_card(parser)
    add("--json", action="store_true", help="one JSON object instead of the report")
    parser.set_defaults(command=verify)


def add_deployment_card(parser: argparse.ArgumentParser) -> None:
    """Where the sections of the registry go."""
    parser.add_argument(
        "--deployment-card",
        metavar="FILE.json",
        type=Path,
        help="write the card in the sections of the OpenDP deployments registry, null where only"
        " you can know",
    )


def write_deployment_card(path: Path, found: dict[str, Any]) -> None:
    """As JSON, whole or not at all. Raises DpmcError where there is such a file."""
    check_new(path)
    text = json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")


def verify(args: argparse.Namespace) -> None:
    if args.deployment_card is not None:
        check_new(args.deployment_card)
    try:
        found = verified(args.file)
    except NotVerified as error:
        if args.json:
            output.write_json({"verified": False, "faults": list(error.faults)})
        raise
    if args.deployment_card is not None:
        write_deployment_card(args.deployment_card, deployment_card(found.card, found.guarantee))
    if args.json:
        output.write_json(as_dict(found))
    else:
        print("\n\n".join(report(found, args.file)))


def as_dict(found: Verified) -> dict[str, Any]:
    """What `--json` writes."""
    return {
        "verified": True,
        "promise": cards.promise(found.guarantee),
        "notes": list(found.notes),
        "card": dict(found.card),
    }


def report(found: Verified, path: Path) -> list[str]:
    """The promise in one sentence, what it rests on, and notes."""
    head = f"{path} is as its card says: {found.mechanism.name}, {found.guarantee.publishes.value}"
    return [
        output.paragraph(head),
        output.paragraph(cards.promise(found.guarantee)),
        *(output.paragraph(note) for note in found.notes),
    ]
