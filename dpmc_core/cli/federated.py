"""`dpmc protocol federated`: the federated flow of DPIMF, counted and measured."""

from __future__ import annotations

import argparse
from typing import Any

from dpmc_core.cli import arguments, output
from dpmc_core.cli.progress import Progress
from dpmc_core.data import datasets
from dpmc_core.errors import InvalidSetting, check_number
from dpmc_core.model import Task
from dpmc_core.problem import RandomShare, build_problem
from dpmc_core.protocol import federated_report
from dpmc_core.protocol.federated import Federation
from dpmc_core.registry import get
from dpmc_core.settings import parse_setting, settings_of
from dpmc_core.views import cards, federated

_DEFAULT = "dpimf-optimal"


def run(args: argparse.Namespace) -> None:
    if args.attack:
        raise InvalidSetting("--attack", "left out: it belongs to scenarios 2 and 3", "given")
    flow = settings_from(args)
    name = args.data or "bookshop-clicks"
    data = datasets.load(name, **arguments.reading_of(args, name))
    split = None if args.holdout is None else RandomShare(args.holdout)
    problem = build_problem(data, Task.RANKING, split=split, seed=args.seed)
    if args.watch is not None:
        last = flow.exchanged(problem.train.public) - 1
        check_number("--watch", args.watch, at_least=0, at_most=last, integer=True)
    progress = Progress()
    try:
        played = federated_report.play(
            flow,
            problem,
            args.seed,
            keep=args.watch is not None,
            on_round=lambda t, total: progress.update("federated flow", t, total),
        )
    finally:
        progress.close()
    found = federated_report.report(flow, played, problem, args.seed)
    if args.watch is not None:
        found["transcript"] = federated_report.messages(played.transcript, args.watch)
    if args.json:
        output.write_json(found)
        return
    print("\n\n".join(_report(found, flow, problem.train.public)))


def settings_from(args: argparse.Namespace) -> Federation:
    """The flow from the options; `rounds` is its own, not the variant's. Raises InvalidSetting."""
    variant = args.mechanism or _DEFAULT
    if variant not in federated_report.VARIANTS:
        raise InvalidSetting(
            "--mechanism", f"one of {', '.join(federated_report.VARIANTS)}", variant
        )
    own = {s.name: s.default for s in settings_of(Federation)}
    chosen: dict[str, Any] = {}
    for text in args.set:
        name, value = arguments.setting(text, "--epsilon")
        try:
            chosen[name] = parse_setting(Federation if name in own else get(variant), name, value)
        except InvalidSetting as error:
            if error.field != "setting":
                raise
            limit = f"{error.limit}, {', '.join(n for n in own if n != 'rounds')}"
            raise InvalidSetting(
                "--set", f"a setting of the flow or of {variant}", name, limit
            ) from None
    return federated_report.build(variant, args.epsilon, **own | chosen)


def _report(found: dict[str, Any], flow: Federation, public: Any) -> list[str]:
    data, cost = found["data"], found["communication"]
    first = (
        f"Federated flow ({found['title']}) of {flow.mechanism.name} on {data['name']}:"
        f" {data['users']:,} users x {data['items']:,} items, {data['ratings']:,} clicks,"
        f" {flow.parties} parties, {flow.rounds} rounds of {flow.local} local solves"
    )
    names = ("hr@10", "ndcg@10", "hr@10_full", "ndcg@10_full")
    rows: list[tuple[str, ...]] = [("", *names)]
    lines = {"federated": found["metrics"]} | found["baselines"]
    rows += [(who, *(output.number(m[name]) for name in names)) for who, m in lines.items()]
    kinds = [("message", "messages", "bytes")]
    kinds += [
        (kind, f"{n['messages']:,}", f"{n['bytes']:,}") for kind, n in cost["by kind"].items()
    ]
    kinds.append(("together", f"{cost['messages']:,}", f"{cost['bytes']:,}"))
    by = cost["by formula"]
    kinds.append(("by formula", f"{by['messages']:,}", f"{by['bytes']:,}"))
    rows_of = federated.budget_rows(flow.budget(public))
    said = [(f"budget, {flow.rounds} x {flow.local} solves", "epsilon")]
    said += [(what, cards.epsilon_text(value)) for what, value in rows_of.items()]
    parts = [
        first,
        output.table(rows, indent="  ") + f"\n  {found['evaluation']}",
        output.table(kinds, indent="  "),
        output.table(said, indent="  ")
        + "".join(
            "\n" + output.paragraph(sentence, "  ")
            for sentence in federated.why_not_per_user(flow, public)
        ),
    ]
    if "transcript" in found:
        parts.append(
            "\n".join(
                f"  round {m['round']}: {m['sender']} -> {m['receiver']}, {m['kind']},"
                f" {m['bytes']:,} bytes: {m['payload']}"
                for m in found["transcript"][:40]
            )
            + (
                f"\n  ... {len(found['transcript']) - 40} more: --json has all"
                * (len(found["transcript"]) > 40)
            )
        )
    return parts
