"""The federated flow of DPIMF as a small play, with its budget and what it costs to send."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from dpmc_core.mechanisms.dpimf import Profiles
from dpmc_core.protocol.federated import AVERAGE, NOISY, SERVER, BudgetLine, Federation, cost
from dpmc_core.protocol.federated_report import PAPER, numbers
from dpmc_core.protocol.messages import Transcript
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.views.cards import epsilon_text
from dpmc_core.views.noise import block
from dpmc_core.views.protocol import Line
from dpmc_core.views.stage import Stage
from dpmc_core.views.training import title, user_name

USERS, ITEMS = 400, 200  # of the corner that plays: every move of a slider plays it anew
NAMES = {Profiles.ITEMS: "item profiles sent", Profiles.USERS: "user profiles sent"}


class Play(NamedTuple):
    """One demonstration: the flow, the part of the data that played, and every message.

    watched: the profile whose numbers are shown, and its name.
    """

    flow: Federation
    public: PublicFacts
    transcript: Transcript
    watched: int
    name: str


def corner(ratings: Ratings) -> Ratings:
    """The busiest users and the most clicked items; ratings: all of value 1."""
    return block(ratings, USERS, ITEMS)


def demonstrate(flow: Federation, part: Ratings, *, watched: int = 0, seed: int = 0) -> Play:
    """Play the flow on (a part of) the data. Raises InvalidSetting for too many parties."""
    *_, last = flow.run(part, np.random.default_rng(seed))
    by_items = flow.mechanism.profiles is Profiles.ITEMS
    name = title(part, watched) if by_items else user_name(part, watched)
    return Play(flow, part.public, last.transcript, watched, name)


def stage(play: Play) -> Stage:
    """The play to step through; of each message the profile that is watched."""
    flow, public = play.flow, play.public
    owned, sent = _sides(flow)
    kept = tuple(play.transcript)
    parties = (SERVER, *(f"party {k + 1}" for k in range(flow.parties)))
    count = {"users": public.users, "items": public.items}[owned]
    few, many = count // flow.parties, -(-count // flow.parties)
    each = f"{few}" if few == many else f"{few} or {many}"
    shown = tuple(
        dataclasses.replace(
            m,
            summary=f"profile of {play.name} {numbers(m, play.watched)}, and"
            f" {len(m.payload['profiles']) - 1:,} more",
        )
        for m in kept
    )
    return Stage(
        messages=shown,
        parties=parties,
        opening=f"a server and {flow.parties} parties with {each} {owned} each",
        meanings=tuple(_meaning(flow, m.kind, m.round, owned, sent) for m in kept),
        units="Each number takes 8 bytes.",
    )


def counted_words(play: Play) -> str:
    """Messages and bytes of the play, counted and by formula, in one sentence."""
    formula, found = play.flow.cost(play.public), play.transcript
    same = (found.total_count, found.total_bytes) == formula
    _, sent = _sides(play.flow)
    profiles = {"items": play.public.items, "users": play.public.users}[sent]
    return (
        f"Counted: {found.total_count:,} messages, {found.total_bytes:,} bytes. By formula: 2 x"
        f" {play.flow.parties} parties x {play.flow.rounds} rounds = {formula.messages:,} messages"
        f" of {profiles:,} profiles x {play.flow.mechanism.rank} numbers x 8 bytes ="
        f" {formula.bytes:,} bytes" + (": the same." if same else ": NOT the same.")
    )


def budget_rows(line: BudgetLine) -> dict[str, float]:
    """The budget from what is claimed to what is certified; infinite where nothing is."""
    return {
        "claimed, per solve": line.claimed,
        "one click, one solve": line.cell,
        "one click, all solves": line.cell_composed,
        "one user, all solves": line.user_composed,
        "certified for one user": line.user_composed if line.certified else math.inf,
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
    moved = (
        "k item profiles" if flow.mechanism.profiles is Profiles.ITEMS else "k cells of a profile"
    )
    line = flow.budget(public)
    found = [
        "The noise of one solve hides one click: whether one user chose one item.",
        f"A user with k clicks moves {moved}, so the budget counts k times; {limit}.",
    ]
    if line.solves > 1:
        found += [
            f"Each party solves {line.solves:,} times on the same clicks, so the budgets of all"
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
    if math.isinf(line.cell):
        found.append(
            "The largest factor is read off the data to set the noise: nothing is certified."
        )
    return tuple(found)


def communication(along: str, flow: Federation, public: PublicFacts) -> tuple[Line, ...]:
    """Bytes by formula against 'users', 'items', 'rounds' or 'parties', for either profiles."""
    now = sizes(flow, public)
    xs = sorted({max(1, round(now[along] * 2.0**k)) for k in range(-4, 5)})
    lines, rank = [], flow.mechanism.rank
    for profiles, name in NAMES.items():
        ys = []
        for x in xs:
            at = now | {along: x}
            ys.append(cost(at["parties"], at["rounds"], rank, at[profiles.value]).bytes)
        lines.append(Line(name, tuple(xs), tuple(ys)))
    return tuple(lines)


def sizes(flow: Federation, public: PublicFacts) -> dict[str, int]:
    """What the bytes depend on, by name."""
    return {
        "users": public.users,
        "items": public.items,
        "rounds": flow.rounds,
        "parties": flow.parties,
    }


def _sides(flow: Federation) -> tuple[str, str]:
    """(what the parties share out, what they send profiles of)."""
    if flow.mechanism.profiles is Profiles.ITEMS:
        return "users", "items"
    return "items", "users"


def _meaning(flow: Federation, kind: str, round: int, owned: str, sent: str) -> str:
    own, theirs = owned[:-1], sent[:-1]
    times = "once" if flow.local == 1 else f"{flow.local} times in turn"
    if kind == NOISY:
        start = "starts from random" if round == 1 else f"refits its {own} factors to the average"
        start = f"{start} {own} factors" if round == 1 else start
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
