"""`dpmc guarantees`: what every mechanism claims, and what its releases prove."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from dpmc_core import registry
from dpmc_core.data import datasets
from dpmc_core.errors import InvalidSetting
from dpmc_core.lab.cli import arguments, output
from dpmc_core.lab.refute.shipped import Shipped, shipped
from dpmc_core.lab.views import cards
from dpmc_core.privacy import Change, Guarantee
from dpmc_core.problem import prepared_facts
from dpmc_core.ratings import PublicFacts

DEFAULT_DATA = "movie-night"
HEADS = (
    "claimed and certified count the unit that the mechanism protects; the last three columns are"
    " certified too. per rating: one rating has another value. user: empty: everything of one"
    " person disappears. user: other: it becomes somebody else's, which never costs less."
    " Numbers of different columns cannot be compared: per rating may stand above user: empty,"
    " because a rating that changes is an exchange and not a disappearance."
)

MEASURED = (
    "measured: a lower bound that an audit of the default settings found on small data (`dpmc audit"
    " MECHANISM` runs it); above claimed it refutes the claim, below it confirms nothing. -: none"
    " at these settings."
)


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "guarantees",
        help="claimed and certified epsilon of every mechanism",
        description="What each mechanism claims and what its releases prove, from public facts"
        " alone (default: those of movie-night).",
    )
    add = parser.add_argument
    add(
        "--epsilon",
        metavar="E",
        type=arguments.number,
        default=1.0,
        help="claimed budget (default 1)",
    )
    add(
        "--delta",
        metavar="D",
        type=arguments.number,
        help="probability of failure, where one is used",
    )
    add("--data", metavar="DATA", help="take the public facts of " + arguments.DATA_HELP)
    add("--users", metavar="M", type=arguments.integer, help="number of users")
    add("--items", metavar="N", type=arguments.integer, help="number of items")
    add("--cap", metavar="K", type=arguments.integer, help="enforced cap on ratings per user")
    add(
        "--measured",
        action="store_true",
        help="also what an audit measured at default settings (dpmc audit measures others)",
    )
    arguments.add_plugin(parser)
    arguments.add_reading(parser)
    add("--json", action="store_true", help="one JSON document")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> None:
    public = public_facts(args)
    guarantees: dict[str, Guarantee] = {}
    found_by_audit: dict[str, Shipped | None] = {}
    refused: list[tuple[str, InvalidSetting]] = []  # these facts do not suit them, say why
    for id, cls in registry.MECHANISMS.items():
        if not registry.adds_noise(cls):
            continue
        try:
            mechanism = registry.create(id, epsilon=args.epsilon, delta=args.delta)
            guarantees[id] = mechanism.guarantee(prepared_facts(public, cls.task))
            found_by_audit[id] = shipped(mechanism) if args.measured else None
        except InvalidSetting as error:
            refused.append((id, error))
    if not guarantees:
        raise refused[0][1]
    if args.json:
        output.write_json(
            [
                describe(id, card)
                | ({"measured": _measured(found_by_audit[id])} if args.measured else {})
                for id, card in guarantees.items()
            ]
        )
        return
    cap = f", at most {public.cap} ratings per user" if public.cap else ""
    print(f"{public.users:,} users x {public.items:,} items{cap}, epsilon {args.epsilon:g}\n")
    more = ("measured",) if args.measured else ()
    rows: list[tuple[str, ...]] = [
        (
            *("mechanism", "protects", "trust", "claimed", "certified", *more),
            *("per rating", "user: empty", "user: other"),
        )
    ]
    found = [cards.card_row(id, card) for id, card in guarantees.items()]
    for row in found:
        units = (row.per_rating, row.per_user, row.per_user_other)
        claimed, certified, *others = map(cards.epsilon_text, (row.claimed, row.certified, *units))
        card, told = row.guarantee, found_by_audit[row.mechanism]
        ticks = [f">= {cards.epsilon_text(told.measured)}" if told else "-" for _ in more]
        head = (row.mechanism, card.change.label, card.trust.value)
        rows.append((*head, claimed, certified, *ticks, *others))
    print(output.table(rows) + "\n")
    print(output.paragraph(HEADS) + "\n")
    if args.measured:
        print(output.paragraph(MEASURED) + "\n")
    for row in found:
        why = row.why or "certified as claimed"
        print(output.paragraph(f"{row.mechanism}: {why}", "  ", ""))
    for id, reason in refused:
        print(output.paragraph(f"{id}: has no card here: {reason}", "  ", ""))


def public_facts(args: argparse.Namespace) -> PublicFacts:
    """Facts of --data, or those given one by one over the defaults."""
    given: dict[str, Any] = {
        name: getattr(args, name)
        for name in ("users", "items", "cap")
        if getattr(args, name) is not None
    }
    ends: dict[str, Any] = dict(arguments.range_of(args))
    if args.data is not None:
        if "users" in given or "items" in given:
            raise InvalidSetting("--data", "left out where --users or --items is given", args.data)
        data = datasets.load(args.data, **arguments.reading_of(args, args.data))
        return dataclasses.replace(data.ratings.public, **given)
    return dataclasses.replace(datasets.load(DEFAULT_DATA).ratings.public, **given, **ends)


def _measured(found: Shipped | None) -> dict[str, Any] | None:
    """A tick as plain JSON: the bound, how it was found, and what it contradicts."""
    if found is None:
        return None
    names = ("delta", "unit", "neighbours", "confidence", "method", "refuted", "given")
    return {"epsilon": found.measured, **{name: getattr(found, name) for name in names}}


def describe(id: str, card: Guarantee) -> dict[str, Any]:
    """A card as plain JSON, with the certified epsilon of every unit (null: infinite)."""
    units = []
    for change in Change:
        proved = card.certified(change)
        units.append(
            {
                "unit": change.unit,
                "neighbours": change.neighbours,
                "epsilon": proved.epsilon if proved.finite else None,
                "delta": proved.delta,
                "reason": proved.reason,
            }
        )
    return {"mechanism": id, **card.as_dict(), "units": units}
