"""Play protocols, message by message: `dpmc protocol`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np

from dpmc_core import registry
from dpmc_core.arrays import JsonObject
from dpmc_core.errors import InvalidSetting, check_number, unknown_name_error
from dpmc_core.model import Task
from dpmc_core.problem import Problem, build_problem
from dpmc_core.settings import list_settings
from dpmc_lab.cli import options
from dpmc_lab.cli.interface import (
    CommandReport,
    Option,
    Progress,
    format_document_table,
    format_table,
    paragraph,
)
from dpmc_lab.cli.methods import format_guarantee, format_metrics
from dpmc_lab.cli.options import Data, Epsilon, ReadingOptions, Seed, SettingTexts
from dpmc_lab.protocol import Transcript, federated, simulate
from dpmc_lab.protocol.federated import Federation
from dpmc_lab.protocol.scenarios import DynamicUsers, Scenario
from dpmc_lab.sweep.grid import DEFAULT_SEED
from dpmc_lab.views import cards
from dpmc_lab.views import protocol as protocol_text
from dpmc_lab.views.text import format_count

_MAX_MESSAGES = 40  # messages of a report


@dataclass(frozen=True, kw_only=True)
class PlayOptions:
    """Options of a run.

    Args:
        epsilon: privacy budget per rating; in the federated flow, per solve
        mechanism (ID): variant of the federated flow (default dpimf-optimal)
        watch (ITEM): show the messages about this item (items count from 0)
        attack: run the attacks on the watched item (default: the item with most ratings)
    """

    epsilon: Epsilon = 1.0
    mechanism: str | None = None
    set: SettingTexts = ()
    watch: int | None = None
    attack: bool = False
    reading: ReadingOptions
    seed: Seed = DEFAULT_SEED


def play_protocol(
    scenario: Annotated[
        str,
        Option(
            "SCENARIO",
            "2, 3 or federated",
            choices={name: name for name in (*simulate.SCENARIOS, federated.FLOW)},
        ),
    ],
    data: Data | None = None,
    *,
    play_options: PlayOptions,
) -> CommandReport:
    """Run a protocol without a trusted server, message by message.

    Run scenario 2 or 3 of private matrix factorization, or the federated flow for clicks. The
    report counts messages, measures the accuracy and can attack the scenarios.

    Args:
        json: one JSON object instead of the report

    scenarios:
      2  in every round, a third party adds up masked gradients of the same users
      3  users may leave; the hidden noise is drawn once and sent in pieces to those online
      federated  parties send noisy profiles, and a server averages them

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
    return (_play_federation if scenario == federated.FLOW else _play_scenario)(
        scenario, data, play_options
    )


def _play_scenario(scenario: str, data: str | None, play_options: PlayOptions) -> CommandReport:
    """Play scenario 2 or 3, and report it."""
    settings = build_scenario(scenario, play_options)
    problem = _build_problem(data or "movie-night", Task.RATINGS, play_options)
    watch = play_options.watch
    if play_options.attack and watch is None:
        watch = int(np.bincount(problem.train.items).argmax())
    run = simulate.start_scenario_run(settings, problem, play_options.seed, watch=watch)
    with Progress() as progress:
        for t in run.play():
            progress.update(
                f"scenario {scenario}", t, settings.iterations * len(run.phase_mechanisms)
            )
        show_draws = partial(progress.update, "beside scenario 1")
        gap = simulate.measure_gap(settings, problem, play_options.seed, show_draws)
    document = simulate.report_scenario_run(run, problem, play_options.seed, gap)
    skipped = "; ".join(f"{n} {reason}" for reason, n in document["skipped"].items())
    notes = [protocol_text.describe_gap(gap)]
    if isinstance(settings, DynamicUsers) and settings.picked:
        notes.append(protocol_text.describe_picking(problem.train, settings))
    text = [
        f"Scenario {scenario} ({document['title']}) on {_format_size(document)} ratings,"
        f" {format_count(document['rounds'], 'round')} in"
        f" {format_count(document['phases'], 'phase')}\ntakes no part: {skipped}",
        format_metrics({f"scenario {scenario}": document["metrics"]} | document["baselines"]),
        _format_traffic(document["communication"]),
        *map(paragraph, notes),
        format_guarantee(cards.build_privacy_card(settings.guarantee(run.public))),
    ]
    if play_options.attack:
        document["attacks"] = simulate.run_attacks(run)
        text.append(_format_attacks(document["attacks"]))
    return _add_messages(document, text, run.transcript)


def _play_federation(scenario: str, data: str | None, play_options: PlayOptions) -> CommandReport:
    """Play the federated flow, and report it."""
    if play_options.attack:
        raise InvalidSetting("--attack", "left out: it belongs to scenarios 2 and 3", "given")
    flow = build_flow(play_options)
    problem = _build_problem(data or "bookshop-clicks", Task.RANKING, play_options)
    public = problem.train.public
    if play_options.watch is not None:
        last = federated.count_profiles(public, flow.mechanism.profiles) - 1
        check_number("--watch", play_options.watch, at_least=0, at_most=last, integer=True)
    run = federated.start_federated_run(flow, problem, play_options.seed, watch=play_options.watch)
    with Progress() as progress:
        for t in run.play():
            progress.update("federated flow", t, flow.rounds)
    document = federated.report_federated_run(run, problem, play_options.seed)
    budget = protocol_text.list_budget_rows(flow.account_budget(public))
    rows = [(label, cards.format_epsilon(value)) for label, value in budget.items()]
    budget_table = format_table(
        [(f"budget, {flow.rounds} x {flow.local} solves", "epsilon"), *rows], "  "
    )
    explanations = (
        paragraph(text, "  ") for text in protocol_text.explain_missing_user_bound(flow, public)
    )
    text = [
        f"Federated flow ({document['title']}) of {flow.mechanism.name} on {_format_size(document)}"
        f" clicks, {flow.parties} parties, {flow.rounds} rounds of {flow.local} local solves",
        format_metrics({scenario: document["metrics"]} | document["baselines"]),
        _format_traffic(document["communication"]),
        "\n".join((budget_table, *explanations)),
    ]
    return _add_messages(document, text, run.transcript)


def _build_problem(data: str, task: Task, play_options: PlayOptions) -> Problem:
    """Build the problem of a protocol from its data, with the task's own preparation and split."""
    return build_problem(play_options.reading.load(data), task, seed=play_options.seed)


def _format_size(document: JsonObject) -> str:
    """Return the name and size of a report's data, ending with the number of ratings."""
    data = document["data"]
    size = f"{format_count(data['users'], 'user')} x {format_count(data['items'], 'item')}"
    return f"{data['name']}: {size}, {data['ratings']:,}"


def build_scenario(scenario: str, play_options: PlayOptions) -> Scenario:
    """Build the settings of scenario 2 or 3 from the options.

    Raises:
        InvalidSetting: an option is not valid.
    """
    if play_options.mechanism is not None:
        raise InvalidSetting(
            "--mechanism",
            f"left out: it belongs to the {federated.FLOW} flow",
            play_options.mechanism,
        )
    cls = simulate.SCENARIOS[scenario]
    settings = options.parse_settings(
        play_options.set, ("--epsilon",), lambda _: cls, f"scenario {scenario}", str
    )
    return cls(epsilon=play_options.epsilon, **settings)


def build_flow(play_options: PlayOptions) -> Federation:
    """Build the settings of the federated flow from the options.

    The setting `rounds`, which the mechanism has too, is that of the flow.

    Raises:
        InvalidSetting: an option is not valid.
    """
    variant = play_options.mechanism or "dpimf-optimal"
    if variant not in federated.VARIANTS:
        raise unknown_name_error("--mechanism", variant, federated.VARIANTS)
    flow_settings = [s.name for s in list_settings(Federation)]
    flow_hint = "".join(f", {name}" for name in flow_settings if name != "rounds")
    settings = options.parse_settings(
        play_options.set,
        ("--epsilon",),
        lambda name: Federation if name in flow_settings else registry.get_mechanism(variant),
        f"the flow or of {variant}",
        lambda variant_hint: variant_hint + flow_hint,
    )
    return federated.build_federation(variant, play_options.epsilon, **settings)


def _format_traffic(traffic: JsonObject) -> str:
    """Return counted messages and bytes by kind and in total, and by formula if there is one."""
    traffic_by_kind = traffic["by kind"] | {
        "together": traffic,
        "by formula": traffic["by formula"],
    }
    rows = [{"message": kind} | count for kind, count in traffic_by_kind.items() if count]
    return format_document_table(rows, "  ", message="message", messages="messages", bytes="bytes")


def _add_messages(document: JsonObject, text: list[str], transcript: Transcript) -> CommandReport:
    """Return the report, with the messages of the watched item or profile if there are any.

    Args:
        document: the report as JSON values, which gets the messages.
        text: the report as blocks of text, which get the first messages.
        transcript: of the run.
    """
    if len(transcript):
        messages = document["transcript"] = [message.as_dict() for message in transcript]
        lines = [
            f"  round {m['round']}: {m['sender']} -> {m['receiver']}, {m['kind']},"
            f" {m['bytes']:,} bytes: {m['payload']}"
            for m in messages[:_MAX_MESSAGES]
        ]
        if len(messages) > _MAX_MESSAGES:
            lines.append(f"  ... {len(messages) - _MAX_MESSAGES} more: --json has all")
        text.append("\n".join(lines))
    return CommandReport(document, text)


def _format_attacks(attacks: JsonObject) -> str:
    """Return the results of all attacks, one line each."""
    difference = attacks["difference"]
    attendance = attacks["attendance"]
    passive = "too few rounds" if attacks["passive"] is None else f"{attacks['passive']:.2g}"
    return "\n".join(
        (
            f"difference attack by the third party: {difference['recovered']} of"
            f" {difference['users']} users' gradient differences recovered",
            f"attendance attack by the recommender: the gradients of {attendance['recovered']} of"
            f" the {attendance['users']} users who missed rounds of their own recovered"
            + (", up to one vector common to all" if attendance["centred"] else ""),
            f"passive recommender: A = sum u u' off by {passive} (largest entry"
            f" {attacks['largest entry of A']:.3g})",
            f"active recommender, choosing what it sends: A off by {attacks['active']:.2g}",
        )
    )
