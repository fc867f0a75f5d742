"""`dpmc verify`: what a released file promises, computed again from its card."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import Any

from dpmc_core.errors import InvalidSetting, NotVerified, sentence, shown
from dpmc_core.lab.cli import output
from dpmc_core.lab.study.release import deployment_card
from dpmc_core.lab.study.verify import Verified, sign_lines, signed, unnoticed
from dpmc_core.lab.study.verify import verify as verified
from dpmc_core.lab.views import cards
from dpmc_core.paths import check_new, whole_file

EPILOG = """examples:
  dpmc verify items.npz
  dpmc verify items.npz --deployment-card card.json
  dpmc verify items.npz --allowed-signers allowed_signers

Needs no ratings. From the mechanism, its settings and the public facts on the card it makes the
file again but for the numbers, and refuses what is more, less or worded otherwise. It says what it
cannot notice. With --allowed-signers the signature beside the file, FILE.npz.sig, is checked first,
by ssh-keygen: a digest notices an accident, only a key a forger."""


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
    add("--allowed-signers", metavar="FILE", type=Path, help="whose signature counts (ssh-keygen)")
    add("--signer", metavar="NAME", help="who of them has to have signed (default: any)")
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
    if args.signer is not None and args.allowed_signers is None:
        raise InvalidSetting("--signer", "given with --allowed-signers", args.signer)
    signer = None
    try:
        if args.allowed_signers is not None:
            signer = signed(args.file, args.allowed_signers, args.signer)
        found = verified(args.file)
    except NotVerified as error:
        if args.json:
            output.write_json({"verified": False, "faults": list(error.faults)})
        raise
    if args.deployment_card is not None:
        write_deployment_card(args.deployment_card, deployment_card(found.card, found.guarantee))
    if args.json:
        output.write_json(as_dict(found, signer))
    else:
        print("\n\n".join(report(found, args.file, signer)))


def as_dict(found: Verified, signer: str | None) -> dict[str, Any]:
    """What `--json` writes."""
    return {
        "verified": True,
        "signer": signer,
        "unnoticed": list(unnoticed(found)[signer is not None :]),
        "promise": cards.promise(found.guarantee),
        "notes": list(found.notes),
        "card": dict(found.card),
    }


def report(found: Verified, path: Path, signer: str | None) -> list[str]:
    """The promise in one sentence, what it rests on, notes, and what this cannot notice."""
    head = f"{path} is as its card says: {found.mechanism.name}, {found.guarantee.publishes.value}"
    notes = [*([] if signer is None else [f"Signed by {shown(signer)}."]), *found.notes]
    first = signer is not None  # it says: sign the file
    told = [output.paragraph(sentence(text), " " * 4, "  - ") for text in unnoticed(found)[first:]]
    lines = [] if first else [f"      {line}" for line in sign_lines(shlex.quote(str(path)))]
    return [
        output.paragraph(head),
        output.paragraph(cards.promise(found.guarantee)),
        *(output.paragraph(note) for note in notes),
        "\n".join(["What this cannot notice:", *told[: not first], *lines, *told[not first :]]),
    ]
