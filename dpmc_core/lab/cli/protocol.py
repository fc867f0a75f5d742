"""`dpmc protocol`: an untrusted recommender or a federation of parties, message by message."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np

from dpmc_core.data import datasets
from dpmc_core.errors import InvalidSetting, check_number, unknown_name
from dpmc_core.lab.cli import options, output
from dpmc_core.lab.cli.interface import CommandReport, Option
from dpmc_core.lab.cli.options import Data, Epsilon, Given, Published, Reading, Seed
from dpmc_core.lab.protocol import federated, simulate
from dpmc_core.lab.protocol.federated import FederatedRun, Federation
from dpmc_core.lab.protocol.scenarios import DynamicUsers, Scenario, ScenarioRun
from dpmc_core.lab.views import as_published, cards
from dpmc_core.lab.views import protocol as words
from dpmc_core.lab.views.as_published import Switched
from dpmc_core.model import Task
from dpmc_core.privacy import Guarantee
from dpmc_core.problem import SEED, Problem, RandomShare, build_problem
from dpmc_core.registry import get
from dpmc_core.settings import settings_of

_SHOWN = 40  # messages of a report


@dataclass(frozen=True, kw_only=True)
class PlayOptions:
    """What of a run is chosen.

    Args:
        epsilon: budget per rating, federated: per solve
        mechanism (ID): federated: the variant (default dpimf-optimal)
        holdout (SHARE): share to test on (default 0.2, federated: everybody's latest click, without
            times a random one)
        watch (ITEM): keep this item's messages (counted from 0)
        attack: attack the watched item (default: the busiest)
    """

    epsilon: Epsilon = 1.0
    mechanism: str | None = None
    set: Given = ()
    holdout: float | None = None
    watch: int | None = None
    attack: bool = False
    as_published: Published = False
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
      dpmc protocol 2 movie-night --epsilon 1 --as-published

    Scenario 1, with a trusted recommender, is `dpmc fit DATA dpmf`.
    """
    if scenario == federated.FLOW:
        return _federated(data or "bookshop-clicks", asked)
    return _scenario(scenario, data or "movie-night", asked)


def _scenario(scenario: str, data: str, asked: PlayOptions) -> CommandReport:
    settings, given = scenario_from(scenario, asked)
    share = RandomShare() if asked.holdout is None else RandomShare(asked.holdout)
    problem = _problem(data, Task.RATINGS, share, asked)
    watch = asked.watch
    if asked.attack and watch is None:
        watch = int(np.bincount(problem.train.items).argmax())
    run = simulate.start(settings, problem, asked.seed, watch=watch)
    _play(run, f"scenario {scenario}", settings.iterations * len(run.parts))
    with closing(output.Progress()) as progress:
        gap = simulate.gap(
            settings, problem, asked.seed, partial(progress.update, "beside scenario 1")
        )
    found = simulate.report(run, problem, asked.seed, gap)
    switch = None
    if asked.as_published:
        switch = as_published.scenario(type(settings), asked.epsilon, given, run.public)
        found["as_published"] = switch.as_dict()
    if asked.attack:
        found["attacks"] = simulate.attack(run)
    if watch is not None:
        found["transcript"] = [message.as_dict() for message in run.transcript]
    more = [words.gap_words(gap)]
    if isinstance(settings, DynamicUsers) and settings.picked:
        more.append(words.picked_words(problem.train, settings))
    told = _scenario_report(found, settings.guarantee(run.public), more)
    return CommandReport(found, told + _switched(switch))


def _federated(data: str, asked: PlayOptions) -> CommandReport:
    if asked.attack:
        raise InvalidSetting("--attack", "left out: it belongs to scenarios 2 and 3", "given")
    flow, given = federation_from(asked)
    split = None if asked.holdout is None else RandomShare(asked.holdout)
    problem = _problem(data, Task.RANKING, split, asked)
    if asked.watch is not None:
        last = federated.count(problem.train.public, flow.mechanism.profiles) - 1
        check_number("--watch", asked.watch, at_least=0, at_most=last, integer=True)
    run = federated.start(flow, problem, asked.seed, watch=asked.watch)
    _play(run, "federated flow", flow.rounds)
    found = federated.report(run, problem, asked.seed)
    switch = None
    if asked.as_published:
        variant, public = flow.mechanism.id, problem.train.public
        switch = as_published.federation(variant, asked.epsilon, given, public)
        found["as_published"] = switch.as_dict()
    if asked.watch is not None:
        found["transcript"] = [message.as_dict() for message in run.transcript]
    return CommandReport(found, _federated_report(found, run) + _switched(switch))


def _switched(found: Switched | None) -> list[str]:
    """What the papers' settings changed, as a paragraph."""
    return [] if found is None else [output.paragraph(" ".join(as_published.words(found)))]


def _problem(data: str, task: Task, split: RandomShare | None, asked: PlayOptions) -> Problem:
    loaded = datasets.load(data, **asked.reading.of(data))
    return build_problem(loaded, task, split=split, seed=asked.seed)


def _play(run: ScenarioRun | FederatedRun, name: str, rounds: int) -> None:
    with closing(output.Progress()) as progress:
        for t in run.play():
            progress.update(name, t, rounds)


def scenario_from(scenario: str, asked: PlayOptions) -> tuple[Scenario, dict[str, Any]]:
    """The scenario's settings from the options, and those that --set gives.

    Raises InvalidSetting.
    """
    if asked.mechanism is not None:
        raise InvalidSetting(
            "--mechanism", f"left out: it belongs to the {federated.FLOW} flow", asked.mechanism
        )
    cls = simulate.SCENARIOS[scenario]
    owners = f"scenario {scenario}"
    given = options.settings(asked.set, ("--epsilon",), lambda _: cls, owners, str)
    whole = as_published.with_published_scenario(cls, given) if asked.as_published else given
    return cls(epsilon=asked.epsilon, **whole), given


def federation_from(asked: PlayOptions) -> tuple[Federation, dict[str, Any]]:
    """The flow from the options, and the settings that --set gives; `rounds` is the flow's own.

    Raises InvalidSetting.
    """
    variant = asked.mechanism or "dpimf-optimal"
    if variant not in federated.VARIANTS:
        raise unknown_name("--mechanism", variant, federated.VARIANTS)
    own = {s.name: s.default for s in settings_of(Federation)}
    more = "".join(f", {name}" for name in own if name != "rounds")
    given = options.settings(
        asked.set,
        ("--epsilon",),
        lambda name: Federation if name in own else get(variant),
        f"the flow or of {variant}",
        lambda known: known + more,
    )
    paper = dict(federated.published(variant).settings) if asked.as_published else {}
    return federated.build(variant, asked.epsilon, **own | paper | given), given


def _scenario_report(found: dict[str, Any], card: Guarantee, more: Sequence[str]) -> list[str]:
    data = found["data"]
    skipped = "; ".join(f"{n} {what}" for what, n in found["skipped"].items())
    return [
        f"Scenario {found['scenario']} ({found['title']}) on {data['name']}: {data['users']:,}"
        f" users x {data['items']:,} items, {data['ratings']:,} ratings, {found['rounds']} rounds"
        f" in {found['phases']} phase{'' if found['phases'] == 1 else 's'}"
        f"\ntakes no part: {skipped}",
        output.metrics({f"scenario {found['scenario']}": found["metrics"]} | found["baselines"]),
        _traffic(found["communication"]),
        *(output.paragraph(text) for text in more),
        output.paragraph(
            "Largest difference from item factors that a trusted server gets in floating point with"
            " the same phases, gradient steps, attendance and noise:"
            f" {found['difference from scenario 1']:.2g} rating points; from the exact minimum of"
            f" the last noisy objective: {found['difference from the exact minimum']:.2g}."
        ),
        output.card(cards.card(card)),
        *([_attacks(found["attacks"])] if "attacks" in found else []),
        *_transcript(found),
    ]


def _federated_report(found: dict[str, Any], run: FederatedRun) -> list[str]:
    data, flow = found["data"], run.flow
    rows = [(f"budget, {flow.rounds} x {flow.local} solves", "epsilon")]
    budget = words.budget_rows(flow.budget(run.public))
    rows += [(what, cards.epsilon_text(value)) for what, value in budget.items()]
    why = [output.paragraph(text, "  ") for text in words.why_not_per_user(flow, run.public)]
    return [
        f"Federated flow ({found['title']}) of {flow.mechanism.name} on {data['name']}:"
        f" {data['users']:,} users x {data['items']:,} items, {data['ratings']:,} clicks,"
        f" {flow.parties} parties, {flow.rounds} rounds of {flow.local} local solves",
        output.metrics({"federated": found["metrics"]} | found["baselines"]),
        _traffic(found["communication"]),
        "\n".join((output.table(rows, indent="  "), *why)),
        *_transcript(found),
    ]


def _traffic(sent: dict[str, Any]) -> str:
    """Counted messages and bytes by kind and together, and by formula where there is one."""
    kinds = sent["by kind"] | {"together": sent}
    if sent["by formula"] is not None:
        kinds["by formula"] = sent["by formula"]
    rows = [(kind, f"{n['messages']:,}", f"{n['bytes']:,}") for kind, n in kinds.items()]
    return output.table([("message", "messages", "bytes"), *rows], indent="  ")


def _transcript(found: dict[str, Any]) -> list[str]:
    """The first messages of the watched item or profile as one paragraph, or none."""
    if "transcript" not in found:
        return []
    messages = found["transcript"]
    lines = [
        f"  round {m['round']}: {m['sender']} -> {m['receiver']}, {m['kind']},"
        f" {m['bytes']:,} bytes: {m['payload']}"
        for m in messages[:_SHOWN]
    ]
    if len(messages) > _SHOWN:
        lines.append(f"  ... {len(messages) - _SHOWN} more: --json has all")
    return ["\n".join(lines)]


def _attacks(found: dict[str, Any]) -> str:
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
