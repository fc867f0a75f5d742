"""Protocols, message by message: `dpmc protocol`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np

from dpmc_core import registry
from dpmc_core.arrays import Plain
from dpmc_core.errors import InvalidSetting, check_number, unknown_name
from dpmc_core.model import Task
from dpmc_core.problem import SEED, Problem, build_problem
from dpmc_core.settings import settings_of
from dpmc_lab.cli import options
from dpmc_lab.cli.interface import CommandReport, Option, Progress, listed, paragraph, table
from dpmc_lab.cli.methods import card_text, metrics_text
from dpmc_lab.cli.options import Data, Epsilon, Given, Reading, Seed
from dpmc_lab.curves import cards
from dpmc_lab.curves import protocol as words
from dpmc_lab.protocol import Transcript, federated, simulate
from dpmc_lab.protocol.federated import Federation
from dpmc_lab.protocol.scenarios import DynamicUsers, Scenario

_SHOWN = 40  # messages of a report


@dataclass(frozen=True, kw_only=True)
class PlayOptions:
    """What of a run is chosen.

    Args:
        epsilon: budget per rating, federated: per solve
        mechanism (ID): federated: the variant (default dpimf-optimal)
        watch (ITEM): keep this item's messages (counted from 0)
        attack: attack the watched item (default: the busiest)
    """

    epsilon: Epsilon = 1.0
    mechanism: str | None = None
    set: Given = ()
    watch: int | None = None
    attack: bool = False
    reading: Reading
    seed: Seed = SEED


def protocol(
    scenario: Annotated[
        str,
        Option(
            "SCENARIO",
            "2, 3 or federated",
            words={name: name for name in (*simulate.SCENARIOS, federated.FLOW)},
        ),
    ],
    data: Data | None = None,
    *,
    asked: PlayOptions,
) -> CommandReport:
    """Factorization with an untrusted recommender, message by message.

    Play scenario 2 or 3 of private matrix factorization, or the federated flow of its implicit
    kind: count the messages, measure the result, look at one item's messages, attack the scenarios.

    Args:
        json: one JSON object instead of the report

    scenarios:
      2  a third party adds up masked gradients of the same users in every round
      3  the noise is made once and handed out in pieces to whoever is online
      federated  parties send noisy profiles of implicit factorization, a server averages them

    examples:
      dpmc protocol 2 movie-night --epsilon 1
      dpmc protocol 2 restaurants --epsilon 1 --set shares=gamma --watch 3 --attack
      dpmc protocol 2 movie-night --epsilon 10 --set phases=4 --set growth=1.3
      dpmc protocol 2 movie-night --epsilon 1 --set user_factors=pmf
      dpmc protocol 3 restaurants --epsilon 1 --set leaves=2:5 --json
      dpmc protocol 3 restaurants --epsilon 10 --set picked=5 --attack
      dpmc protocol federated --epsilon 1 --set parties=4 --set rounds=3 --set local=2
      dpmc protocol federated --mechanism dpimf-symmetric --set alpha=0.9

    Scenario 1, with a trusted recommender, is `dpmc fit DATA dpmf`.
    """
    return (_federated if scenario == federated.FLOW else _scenario)(scenario, data, asked)


def _scenario(scenario: str, data: str | None, asked: PlayOptions) -> CommandReport:
    settings = scenario_from(scenario, asked)
    problem = _problem(data or "movie-night", Task.RATINGS, asked)
    watch = asked.watch
    if asked.attack and watch is None:
        watch = int(np.bincount(problem.train.items).argmax())
    run = simulate.start(settings, problem, asked.seed, watch=watch)
    with Progress() as progress:
        for t in run.play():
            progress.update(f"scenario {scenario}", t, settings.iterations * len(run.parts))
        tell = partial(progress.update, "beside scenario 1")
        gap = simulate.gap(settings, problem, asked.seed, tell)
    found = simulate.report(run, problem, asked.seed, gap)
    skipped = "; ".join(f"{n} {what}" for what, n in found["skipped"].items())
    more = [words.gap_words(gap)]
    if isinstance(settings, DynamicUsers) and settings.picked:
        more.append(words.picked_words(problem.train, settings))
    text = [
        f"Scenario {scenario} ({found['title']}) on {_size(found)} ratings,"
        f" {found['rounds']} rounds in {found['phases']} phase{'' if found['phases'] == 1 else 's'}"
        f"\ntakes no part: {skipped}",
        metrics_text({f"scenario {scenario}": found["metrics"]} | found["baselines"]),
        _traffic(found["communication"]),
        *map(paragraph, more),
        card_text(cards.card(settings.guarantee(run.public))),
    ]
    if asked.attack:
        found["attacks"] = simulate.attack(run)
        text.append(_attacks(found["attacks"]))
    return _with_messages(found, text, run.transcript)


def _federated(scenario: str, data: str | None, asked: PlayOptions) -> CommandReport:
    if asked.attack:
        raise InvalidSetting("--attack", "left out: it belongs to scenarios 2 and 3", "given")
    flow = federation_from(asked)
    problem = _problem(data or "bookshop-clicks", Task.RANKING, asked)
    public = problem.train.public
    if asked.watch is not None:
        last = federated.count(public, flow.mechanism.profiles) - 1
        check_number("--watch", asked.watch, at_least=0, at_most=last, integer=True)
    run = federated.start(flow, problem, asked.seed, watch=asked.watch)
    with Progress() as progress:
        for t in run.play():
            progress.update("federated flow", t, flow.rounds)
    found = federated.report(run, problem, asked.seed)
    budget = words.budget_rows(flow.budget(public))
    rows = [(what, cards.epsilon_text(value)) for what, value in budget.items()]
    budget_table = table([(f"budget, {flow.rounds} x {flow.local} solves", "epsilon"), *rows], "  ")
    why = (paragraph(text, "  ") for text in words.why_not_per_user(flow, public))
    text = [
        f"Federated flow ({found['title']}) of {flow.mechanism.name} on {_size(found)} clicks,"
        f" {flow.parties} parties, {flow.rounds} rounds of {flow.local} local solves",
        metrics_text({scenario: found["metrics"]} | found["baselines"]),
        _traffic(found["communication"]),
        "\n".join((budget_table, *why)),
    ]
    return _with_messages(found, text, run.transcript)


def _problem(data: str, task: Task, asked: PlayOptions) -> Problem:
    return build_problem(asked.reading.load(data), task, seed=asked.seed)


def _size(found: Plain) -> str:
    data = found["data"]
    users, items, ratings = data["users"], data["items"], data["ratings"]
    return f"{data['name']}: {users:,} users x {items:,} items, {ratings:,}"


def scenario_from(scenario: str, asked: PlayOptions) -> Scenario:
    """The scenario's settings from the options. Raises InvalidSetting."""
    if asked.mechanism is not None:
        raise InvalidSetting(
            "--mechanism", f"left out: it belongs to the {federated.FLOW} flow", asked.mechanism
        )
    cls = simulate.SCENARIOS[scenario]
    given = options.settings(asked.set, ("--epsilon",), lambda _: cls, f"scenario {scenario}", str)
    return cls(epsilon=asked.epsilon, **given)


def federation_from(asked: PlayOptions) -> Federation:
    """The flow from the options; `rounds` is its own setting. Raises InvalidSetting."""
    variant = asked.mechanism or "dpimf-optimal"
    if variant not in federated.VARIANTS:
        raise unknown_name("--mechanism", variant, federated.VARIANTS)
    own = [s.name for s in settings_of(Federation)]
    more = "".join(f", {name}" for name in own if name != "rounds")
    given = options.settings(
        asked.set,
        ("--epsilon",),
        lambda name: Federation if name in own else registry.get(variant),
        f"the flow or of {variant}",
        lambda known: known + more,
    )
    return federated.build(variant, asked.epsilon, **given)


def _traffic(sent: Plain) -> str:
    """Counted messages and bytes by kind and together, and by formula where there is one."""
    kinds = sent["by kind"] | {"together": sent, "by formula": sent["by formula"]}
    rows = [{"message": kind} | count for kind, count in kinds.items() if count]
    return listed(rows, "  ", message="message", messages="messages", bytes="bytes")


def _with_messages(found: Plain, text: list[str], transcript: Transcript) -> CommandReport:
    """The report with the first messages of the watched item or profile."""
    if len(transcript):
        messages = found["transcript"] = [message.as_dict() for message in transcript]
        lines = [
            f"  round {m['round']}: {m['sender']} -> {m['receiver']}, {m['kind']},"
            f" {m['bytes']:,} bytes: {m['payload']}"
            for m in messages[:_SHOWN]
        ]
        if len(messages) > _SHOWN:
            lines.append(f"  ... {len(messages) - _SHOWN} more: --json has all")
        text.append("\n".join(lines))
    return CommandReport(found, text)


def _attacks(found: Plain) -> str:
    d, a = found["difference"], found["attendance"]
    passive = "too few rounds" if found["passive"] is None else f"{found['passive']:.2g}"
    return "\n".join(
        (
            f"difference attack by the third party: {d['recovered']} of {d['users']} users'"
            " gradient differences recovered",
            f"attendance attack by the recommender: the gradients of {a['recovered']} of the"
            f" {a['users']} users who missed rounds of their own recovered"
            + (", up to one vector common to all" if a["centred"] else ""),
            f"passive recommender: A = sum u u' off by {passive} (largest entry"
            f" {found['largest entry of A']:.3g})",
            f"active recommender, choosing what it sends: A off by {found['active']:.2g}",
        )
    )
