"""The federated flow of DPIMF as a small play, with its budget and what it costs to send."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from dpmc_core.lab.protocol.federated import (
    AVERAGE,
    NOISY,
    PAPER,
    SERVER,
    FederatedBudget,
    FederatedRun,
    Federation,
    count,
)
from dpmc_core.lab.protocol.messages import vector_words
from dpmc_core.lab.views.cards import epsilon_text
from dpmc_core.lab.views.data import title, user_name
from dpmc_core.lab.views.messages import BytesCurve, MessagePlay, doublings
from dpmc_core.lab.views.noise import block
from dpmc_core.mechanisms.dpimf import Profiles
from dpmc_core.privacy import CELL, sensitivity_at
from dpmc_core.ratings import PublicFacts, Ratings

USERS, ITEMS = 400, 200  # of the corner that plays: every move of a slider plays it anew
NAMES = {Profiles.ITEMS: "item profiles sent", Profiles.USERS: "user profiles sent"}


@dataclass(frozen=True, kw_only=True, eq=False)
class FederatedPlay(MessagePlay):
    """One demonstration: of each message the profile that is watched is shown, by its name."""

    run: FederatedRun
    name: str


def corner(ratings: Ratings) -> Ratings:
    """The busiest users and the most clicked items; ratings: all of value 1."""
    return block(ratings, USERS, ITEMS)


def demonstrate(
    flow: Federation, part: Ratings, *, watched: int = 0, seed: int = 0
) -> FederatedPlay:
    """Play the flow on (a part of) the data. Raises InvalidSetting for too many parties."""
    run = FederatedRun(flow, part, np.random.default_rng(seed), watch=watched)
    for _ in run.play():
        pass
    name = (title if flow.owned is Profiles.USERS else user_name)(part, watched)
    users = count(part.public, flow.owned)
    few, many = users // flow.parties, -(-users // flow.parties)
    each = f"{few}" if few == many else f"{few} or {many}"
    shown = []
    for message in run.transcript:
        profiles = message.payload["profiles"]
        words = f"profile of {name} {vector_words(profiles[watched], '.3g')}"
        words += f", and {len(profiles) - 1:,} more"
        shown.append(dataclasses.replace(message, summary=words))
    return FederatedPlay(
        messages=tuple(shown),
        parties=(SERVER, *(party.name for party in run.parties)),
        opening=f"a server and {flow.parties} parties with {each} {flow.owned.value} each",
        meanings=tuple(_meaning(flow, m.kind, m.round) for m in shown),
        units="Each number takes 8 bytes.",
        run=run,
        name=name,
    )


def counted_words(run: FederatedRun) -> str:
    """Messages and bytes of a run, counted and by formula, in one sentence."""
    flow, found = run.flow, run.transcript.total
    formula, profiles = flow.cost(run.public), count(run.public, flow.mechanism.profiles)
    return (
        f"Counted: {found.messages:,} messages, {found.bytes:,} bytes. By formula: 2 x"
        f" {flow.parties} parties x {flow.rounds} rounds = {formula.messages:,} messages"
        f" of {profiles:,} profiles x {flow.mechanism.rank} numbers x 8 bytes ="
        f" {formula.bytes:,} bytes" + (": the same." if found == formula else ": NOT the same.")
    )


def budget_rows(budget: FederatedBudget) -> dict[str, float]:
    """The budget from what is claimed to what is certified; infinite where nothing is."""
    return {
        "claimed, per solve": budget.claimed,
        "one click, one solve": budget.cell,
        "one click, all solves": budget.cell_composed,
        "one user, all solves": budget.user_composed,
        "certified for one user": budget.user_composed if budget.certified else math.inf,
    }


def budget_table(flow: Federation, public: PublicFacts) -> dict[str, list[str]]:
    """The budget of these rounds beside that of the paper's, as columns of text."""
    paper = dataclasses.replace(
        flow, parties=PAPER["parties"], rounds=PAPER["rounds"], local=PAPER["local"]
    )
    table: dict[str, list[str]] = {"what counts": list(budget_rows(flow.budget(public)))}
    for name, one in (("here", flow), ("in the paper", paper)):
        epsilons = budget_rows(one.budget(public)).values()
        table[f"epsilon {name}: {one.rounds:,} x {one.local:,} solves"] = [
            epsilon_text(epsilon) for epsilon in epsilons
        ]
    return table


def why_not_per_user(flow: Federation, public: PublicFacts) -> tuple[str, ...]:
    """Why a claim of epsilon per user is not what the flow gives, in sentences."""
    cap = min(public.cap or public.items, public.items)
    limit = f"a cap keeps k at {cap:,}" if public.cap else f"nothing caps k below all {cap:,} items"
    budget = flow.budget(public)
    cells = sensitivity_at({CELL: 1}, budget.change, public)
    moved = (
        "k item profiles" if flow.mechanism.profiles is Profiles.ITEMS else "k cells of a profile"
    )
    found = [
        "The noise of one solve hides one click: whether one user chose one item.",
        f"A user with k clicks moves {moved}, and any other row moves as many again: the budget"
        f" counts up to {cells:,.0f} times ({limit}).",
    ]
    if budget.solves > 1:
        found += [
            f"Each party solves {budget.solves:,} times on the same clicks, so the budgets of all"
            " solves add up. Parties work side by side: every click is with one party only.",
            "Even these sums take a party's own factors for public. They are refitted to the same"
            " clicks between two solves, and no noise covers that: beyond one solve nothing is"
            " certified.",
        ]
    if flow.mechanism.profiles is Profiles.USERS:
        found.append(
            "Each party fits its item factors to all users' raw clicks, and everybody's scores use"
            " them without noise: nothing is certified, not even for one solve."
        )
    if math.isinf(budget.cell):
        found.append(
            "The largest factor is read off the data to set the noise: nothing is certified."
        )
    return tuple(found)


def communication(along: str, flow: Federation, public: PublicFacts) -> tuple[BytesCurve, ...]:
    """Bytes by formula against 'users', 'items', 'rounds' or 'parties', for either profiles."""
    now = sizes(flow, public)
    xs = doublings(now[along], 1)
    curves = []
    for profiles, name in NAMES.items():
        mechanism, ys = dataclasses.replace(flow.mechanism, profiles=profiles), []
        for x in xs:
            at = now | {along: x}
            other = Federation(mechanism=mechanism, parties=at["parties"], rounds=at["rounds"])
            ys.append(
                other.cost(PublicFacts(users=at["users"], items=at["items"], low=0, high=1)).bytes
            )
        curves.append(BytesCurve(name, tuple(xs), tuple(ys)))
    return tuple(curves)


def sizes(flow: Federation, public: PublicFacts) -> dict[str, int]:
    """What the bytes depend on, by name."""
    return {
        "users": public.users,
        "items": public.items,
        "rounds": flow.rounds,
        "parties": flow.parties,
    }


def _meaning(flow: Federation, kind: str, round: int) -> str:
    own, theirs = flow.owned.value[:-1], flow.mechanism.profiles.value[:-1]
    times = "once" if flow.local == 1 else f"{flow.local} times in turn"
    if kind == NOISY:
        first = f"starts from random {own} factors"
        start = first if round == 1 else f"refits its {own} factors to the average"
        return (
            f"The party {start}, then solves the {theirs} profiles with noise on their loss"
            f" ({times}). Only the last profiles leave; clicks and {own} factors stay."
        )
    assert kind == AVERAGE
    last = (
        f" Each party refines its {own} factors once more, without noise, and sends nothing."
        if round == flow.rounds
        else ""
    )
    return f"The server averages what all parties sent, and sees no click.{last}"
