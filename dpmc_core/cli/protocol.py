"""`dpmc protocol`: factorization with an untrusted recommender, message by message."""

from __future__ import annotations

import argparse
from typing import Any

from dpmc_core.cli import arguments, federated, output
from dpmc_core.cli.progress import Progress
from dpmc_core.data import datasets
from dpmc_core.errors import InvalidSetting
from dpmc_core.model import Task
from dpmc_core.problem import RandomShare, build_problem
from dpmc_core.protocol import simulate
from dpmc_core.protocol.distributed import Distributed
from dpmc_core.protocol.federated_report import FLOW
from dpmc_core.settings import parse_setting
from dpmc_core.views import cards

EPILOG = """scenarios:
  2  a third party adds up masked gradients of the same users in every round
  3  the noise is made once and handed out in pieces to whoever is online
  federated  parties send noisy profiles of implicit factorization, a server averages them

examples:
  dpmc protocol 2 movie-night --epsilon 1
  dpmc protocol 2 restaurants --epsilon 1 --set shares=gamma --watch 3 --attack
  dpmc protocol 3 restaurants --epsilon 1 --set leaves=2:5 --json
  dpmc protocol federated --epsilon 1 --set parties=4 --set rounds=3 --set local=2
  dpmc protocol federated --mechanism dpimf-symmetric --set alpha=0.9

Scenario 1, with a trusted recommender, is `dpmc fit DATA dpmf`."""


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "protocol",
        help="factorization with an untrusted recommender, message by message",
        description="Play scenario 2 or 3 of private matrix factorization, or the federated flow"
        " of its implicit kind: count the messages, measure the result, look at one item's"
        " messages, attack the scenarios.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "scenario",
        metavar="SCENARIO",
        choices=[*simulate.SCENARIOS, FLOW],
        help="2, 3 or federated",
    )
    add("data", metavar="DATA", nargs="?", help=arguments.DATA_HELP)
    add(
        "--epsilon",
        metavar="E",
        type=arguments.number,
        default=1.0,
        help="budget per rating, federated: per solve (default 1)",
    )
    add("--mechanism", metavar="ID", help="federated: the variant (default dpimf-optimal)")
    add("--set", metavar="NAME=VALUE", action="append", default=[], help="a setting (repeatable)")
    add(
        "--holdout",
        metavar="SHARE",
        type=arguments.number,
        help="share to test on (default 0.2, federated: everybody's latest click)",
    )
    add(
        "--watch",
        metavar="ITEM",
        type=arguments.integer,
        help="keep this item's messages (counted from 0)",
    )
    add("--attack", action="store_true", help="attack the watched item (default: the busiest)")
    arguments.add_reading(parser)
    add(
        "--seed",
        metavar="N",
        type=arguments.integer,
        default=0,
        help="repeat a run exactly (default 0)",
    )
    add("--json", action="store_true", help="one JSON object instead of the report")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> None:
    if args.scenario == FLOW:
        federated.run(args)
        return
    settings = settings_from(args)
    name = args.data or "movie-night"
    data = datasets.load(name, **arguments.reading_of(args, name))
    share = RandomShare() if args.holdout is None else RandomShare(args.holdout)
    problem = build_problem(data, Task.RATINGS, split=share, seed=args.seed)
    watch = args.watch
    if args.attack and watch is None:
        watch = max(range(problem.train.public.items), key=_counts(problem).__getitem__)
    progress = Progress()
    try:
        played = simulate.play(
            settings,
            problem,
            args.seed,
            watch=watch,
            on_round=lambda t, total: progress.update(f"scenario {args.scenario}", t, total),
        )
    finally:
        progress.close()
    found = simulate.report(played, problem, args.seed)
    if args.attack:
        found["attacks"] = simulate.attack(played)
    if watch is not None:
        found["transcript"] = simulate.messages(played.transcript)
    if args.json:
        output.write_json(found)
        return
    print("\n\n".join(_report(found, settings, played.public)))


def settings_from(args: argparse.Namespace) -> Distributed:
    """The scenario's settings from the options. Raises InvalidSetting."""
    if args.mechanism is not None:
        raise InvalidSetting(
            "--mechanism", f"left out: it belongs to the {FLOW} flow", args.mechanism
        )
    cls = simulate.SCENARIOS[args.scenario]
    values: dict[str, Any] = {"epsilon": args.epsilon}
    for text in args.set:
        name, value = arguments.setting(text, "--epsilon")
        try:
            values[name] = parse_setting(cls, name, value)
        except InvalidSetting as error:
            if error.field != "setting":
                raise
            raise InvalidSetting(
                "--set", f"a setting of scenario {args.scenario}", name, error.limit
            ) from None
    return cls(**values)


def _counts(problem: Any) -> list[int]:
    counts = [0] * problem.train.public.items
    for item in problem.train.items:
        counts[item] += 1
    return counts


def _report(found: dict[str, Any], settings: Distributed, public: Any) -> list[str]:
    data, cost = found["data"], found["communication"]
    first = (
        f"Scenario {found['scenario']} ({found['title']}) on {data['name']}: {data['users']:,}"
        f" users x {data['items']:,} items, {data['ratings']:,} ratings, {found['rounds']} rounds"
    )
    skipped = "; ".join(f"{n} {what}" for what, n in found["skipped"].items())
    rows = [("", "rmse", "mae")]
    lines = {f"scenario {found['scenario']}": found["metrics"]} | found["baselines"]
    rows += [(name, output.number(m["rmse"]), output.number(m["mae"])) for name, m in lines.items()]
    kinds = [("message", "messages", "bytes")]
    kinds += [
        (kind, f"{n['messages']:,}", f"{n['bytes']:,}") for kind, n in cost["by kind"].items()
    ]
    kinds.append(("together", f"{cost['messages']:,}", f"{cost['bytes']:,}"))
    if cost["by formula"] is not None:
        by = cost["by formula"]
        kinds.append(("by formula", f"{by['messages']:,}", f"{by['bytes']:,}"))
    card = settings.guarantee(public)
    own = card.certified()
    claim = [output.paragraph(cards.protects(card))]
    claim.append(output.paragraph(f"certified {output.certified(own)}", "  "))
    claim += [output.paragraph(f"mind: {caveat}", "  ") for caveat in card.caveats]
    parts = [
        f"{first}\ntakes no part: {skipped}",
        output.table(rows, indent="  ") + f"\n  {found['evaluation']}",
        output.table(kinds, indent="  "),
        "largest difference from scenario 1 with the same noise:"
        f" {found['difference from scenario 1']:.2g} rating points",
        "\n".join(claim),
    ]
    if "attacks" in found:
        parts.append(_attacks(found["attacks"]))
    if "transcript" in found:
        parts.append(
            "\n".join(
                f"  round {m['round']}: {m['sender']} -> {m['receiver']}, {m['kind']},"
                f" {m['bytes']} bytes: {m['payload']}"
                for m in found["transcript"][:40]
            )
            + (
                f"\n  ... {len(found['transcript']) - 40} more: --json has all"
                * (len(found["transcript"]) > 40)
            )
        )
    return parts


def _attacks(found: dict[str, Any]) -> str:
    d, a = found["difference"], found["attendance"]
    passive = "too few rounds" if found["passive"] is None else f"{found['passive']:.2g}"
    return "\n".join(
        (
            f"difference attack by the third party: {d['recovered']} of {d['users']} users'"
            " gradient differences recovered",
            f"attendance attack by the recommender: the gradients of {a['recovered']} of the"
            f" {a['users']} users who missed rounds of their own recovered",
            f"passive recommender: A = sum u u' off by {passive} (largest entry"
            f" {found['largest entry of A']:.3g})",
            f"active recommender, choosing what it sends: A off by {found['active']:.2g}",
        )
    )
