"""Protocols as small plays, one message at a time, with what they send and promise."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmc_core.errors import BadRatings
from dpmc_core.mechanisms.dpimf import Profiles
from dpmc_core.model import Task
from dpmc_core.privacy import CELL, Shares, sensitivity_at
from dpmc_core.privacy.shares import fewest_sharing
from dpmc_core.problem import check_varied
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_lab.curves.cards import epsilon_text
from dpmc_lab.curves.data import counts, title, user_name
from dpmc_lab.curves.noise import block
from dpmc_lab.curves.text import Table, columns, many
from dpmc_lab.protocol import (
    RECOMMENDER,
    THIRD_PARTY,
    Message,
    Traffic,
    attacks,
    vector_words,
)
from dpmc_lab.protocol.federated import (
    AVERAGE,
    NOISY,
    PAPER,
    SERVER,
    FederatedBudget,
    FederatedRun,
    Federation,
    count,
)
from dpmc_lab.protocol.scenarios import (
    ANSWER,
    HIDDEN_NOISE,
    HIDDEN_SHARE,
    MODEL,
    ONLINE,
    PUBLISHED,
    RESTART,
    SETUP,
    SUM,
    DynamicUsers,
    Leaves,
    ProtocolAborted,
    Scenario,
    ScenarioRun,
    StaticUsers,
)
from dpmc_lab.protocol.simulate import SCENARIOS, Gap, Spread


@dataclass(frozen=True, kw_only=True, eq=False)
class MessagePlay:
    """Messages to step through: who speaks, what it says, who saw it.

    opening: who is there before the first message; meanings: a sentence for each. units: what the
    numbers on the wire are. ending: where the play could not go on, why.
    """

    messages: tuple[Message, ...]
    parties: tuple[str, ...]
    opening: str
    meanings: tuple[str, ...]
    units: str
    ending: str = ""


def place_words(play: MessagePlay, at: int) -> str:
    """Where the play stands after `at` messages."""
    if at == 0:
        return f"{play.opening}: no message yet"
    m = play.messages[at - 1]
    when = "set-up" if m.round == 0 else f"round {m.round}"
    return f"Message {at} of {len(play.messages)}, {when}: {m.kind}, {m.sender} to {m.receiver}"


def seen(play: MessagePlay, party: str, n_messages: int) -> Table:
    """What a party has received among the first `n_messages` messages, as columns."""
    received = (m for m in play.messages[:n_messages] if m.receiver == party)
    rows = ((m.round, m.sender, m.kind, m.summary or "(nothing)") for m in received)
    return columns(("round", "from", "message", "content"), rows)


def bytes_text(count: float) -> str:
    """An amount of data in units of a thousand: 512 bytes, 1.5 kB, 20 MB."""
    for unit, size in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= 0.9995 * size:
            return f"{float(f'{count / size:.3g}'):,g} {unit}"
    return many(round(count), "byte")


# --- scenarios 2 and 3 ---------------------------------------------------------------------------

USERS_SHOWN = 4  # what fits on a phone
ITEMS_SHOWN = 12  # to choose from
ROUNDS, RANK = 3, 2  # in a phase of the play
LEAVING_ROUND = 2
ATTENDED_ROUNDS = 12  # of the longer run in which each user misses one round
PICKED_ROUNDS = 40  # of the longer run in which the recommender picks users
NO_RHO = (
    "The paper has each user add a small fresh noise rho(t) in every round as well. It is left out:"
    " our source, a summary, does not say how large it is, and it would help nobody. Where user"
    " factors are public, the sums of all rounds follow from one noisy vector per item, so nothing"
    " is left to hide. Where users fit them, A is left to hide, and a recommender that sends long"
    " vectors drowns any noise of a fixed size."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class ScenarioPlay(MessagePlay):
    """One demonstration: the run, and the ratings of the users who play."""

    run: ScenarioRun
    part: Ratings


def small_items(ratings: Ratings) -> dict[int, str]:
    """Items whose raters fit on a screen, by index, with their titles. Raises BadRatings."""
    check_varied(Task.RATINGS, ratings)
    _, raters = counts(ratings)
    enough = np.flatnonzero(raters >= 2)
    if len(enough) == 0:
        raise BadRatings("no item has two raters, so nobody could hide behind another")
    nearest = enough[np.argsort(np.abs(raters[enough] - USERS_SHOWN), kind="stable")]
    return {int(i): f"{title(ratings, int(i))} ({raters[i]})" for i in nearest[:ITEMS_SHOWN]}


def cast(ratings: Ratings, item: int) -> Ratings:
    """A few raters of an item with all their ratings, as ratings of their own."""
    raters = ratings.users[ratings.items == item][:USERS_SHOWN]
    selected = ratings.select(np.isin(ratings.users, raters))
    names = tuple(user_name(ratings, int(u)) for u in raters)
    return dataclasses.replace(
        selected,
        users=np.searchsorted(raters, selected.users).astype(np.int32),
        public=dataclasses.replace(selected.public, users=len(raters)),
        user_ids=names,
    )


def play_scenario(
    ratings: Ratings,
    item: int,
    *,
    scenario: str,
    epsilon: float,
    shares: Shares = Shares.GAUSSIAN,
    phases: int = 1,
    masks: bool = True,
    picked: int = 0,
    leaver: int | None = None,
    seed: int = 0,
) -> ScenarioPlay:
    """Play a scenario with an item's first raters; leaver: which of them leaves in round 2.

    masks: of scenario 2; picked: how many raters the recommender of scenario 3 picks, 0: all.
    """
    player_ratings = cast(ratings, item)
    cls = SCENARIOS[scenario]
    variant_settings: dict[str, Any] = (
        {"masks": masks} if cls is StaticUsers else {"picked": picked}
    )
    settings = cls(
        epsilon=epsilon,
        rank=RANK,
        iterations=ROUNDS,
        phases=phases,
        shares=shares,
        leaves=Leaves(() if leaver is None else ((LEAVING_ROUND, leaver),)),
        **variant_settings,
    )
    run = ScenarioRun(settings, player_ratings, np.random.default_rng(seed), watch=item)
    aborted = ""
    try:
        for _ in run.play():
            pass
    except ProtocolAborted as error:
        aborted = str(error)
    users = [run.wire.name(int(u)) for u in run.who[run.what == item]]
    meanings = _meanings(settings)
    return ScenarioPlay(
        messages=tuple(run.transcript),
        parties=(RECOMMENDER, THIRD_PARTY, *users),
        opening=f"{many(len(users), 'user')} who rated {title(ratings, item)}, a recommender and a"
        " third party",
        meanings=tuple(meanings[message.kind] for message in run.transcript),
        units=f"P is 2 to the {settings.modulus_bits}.",
        ending=aborted,
        run=run,
        part=player_ratings,
    )


def _meanings(settings: Scenario) -> dict[str, str]:
    """What each kind of message is for, in one sentence."""
    dynamic = isinstance(settings, DynamicUsers)
    masked = dynamic or (isinstance(settings, StaticUsers) and settings.masks)
    mixing = ", and the random H that sets its size" if settings.shares is Shares.GAUSSIAN else ""
    mask = ", with a fresh mask" if masked else ""
    piece = " and a piece of the hidden noise" if dynamic else ""
    noise_phrase = "the piece of the hidden noise" if dynamic else "the own share of noise"
    hidden = noise_phrase + (" and the mask" if masked else ", unmasked,")
    secret = ", takes off its secret" if dynamic else ""
    return {
        SETUP: f"The recommender tells each user how many share an item's noise{mixing}.",
        MODEL: f"The recommender sends the item's factors as they stand{mask}{piece}.",
        ANSWER: f"The user computes the own gradient, adds {hidden} and sends it to the third"
        " party.",
        SUM: f"The third party adds up all answers mod P{secret} and passes on nothing but the"
        " sum.",
        HIDDEN_SHARE: "The user draws a share of the noise and hides it behind the mask.",
        HIDDEN_NOISE: "The third party sends the shares' sum plus a secret: nobody holds the"
        " noise.",
        PUBLISHED: "The phase is over: its item factors are public. Each user fits the own factors"
        " to them and the own ratings, on the own device; nothing goes back.",
        ONLINE: "The user says that it is there for this round.",
        RESTART: "An answer is missing: the third party drops the others and asks for a second"
        " try.",
    }


def difference_table(play: ScenarioPlay) -> Table:
    """The third party's difference attack on every user, as columns; empty without two rounds."""
    return _attack_table(attacks.difference_attack(play.run), "true difference of gradients")


def attendance_table(play: ScenarioPlay) -> Table:
    """The recommender's attendance attack on every user of scenario 3, as columns.

    On a longer run of the same users in one phase, in which each one leaves in one round, or the
    recommender picks some in each. Empty in scenario 2, where everybody is in every sum, and where
    too few users are left without one.
    """
    settings, item = play.run.settings, play.run.wire.watch
    assert item is not None
    recovered: Sequence[attacks.Recovered] = ()
    if isinstance(settings, DynamicUsers):
        leaves = tuple((2 * user + 3, user) for user in range(play.part.public.users))
        longer = dataclasses.replace(
            settings,
            phases=1,
            iterations=PICKED_ROUNDS if settings.picked else ATTENDED_ROUNDS,
            leaves=Leaves(() if settings.picked else leaves),
        )
        run = ScenarioRun(longer, play.part, np.random.default_rng(0), watch=item)
        for _ in run.play():
            pass
        recovered = attacks.attendance_attack(run, item)
    return _attack_table(recovered, "true gradient")


def _attack_table(recovered: Sequence[attacks.Recovered], truth: str) -> Table:
    rows = (
        (
            attack.user,
            *map(vector_words, (attack.found, attack.truth)),
            "yes" if attack.succeeds else "no",
        )
        for attack in recovered
    )
    return columns(("user", "computed", truth, "recovered"), rows)


def scenario_traffic(ratings: Ratings, shares: Shares, phases: int = 1, picked: int = 0) -> Table:
    """What both scenarios send in a whole run on these ratings, by formula, as columns.

    Everybody is online; rank 3, 20 rounds in each phase.
    """
    _, raters = counts(ratings)
    rows = []
    for number, cls in SCENARIOS.items():
        variant_settings: dict[str, Any] = {"picked": picked} if cls is DynamicUsers else {}
        settings = cls(
            epsilon=1.0, rank=3, iterations=20, phases=phases, shares=shares, **variant_settings
        )
        sent = Traffic.total(settings.cost(raters, ratings.public.users).values())
        rows.append((f"scenario {number}", sent.messages, sent.bytes))
    return columns(("protocol", "messages", "bytes"), rows)


def gap_words(gap: Gap) -> str:
    """How far scenario 2 is from scenario 1 on test ratings, and why, in sentences."""
    more = Spread(gap.refit.mean + gap.split.mean, gap.distributed.error + gap.trusted.error)
    many = "one phase" if gap.phases == 1 else f"{gap.phases} phases"
    causes = "gradient steps end, user factors being held"
    if not gap.held:
        causes = "users fit their factors to published item factors, each alone"
        causes += (
            f", and {_spread(gap.split)} because epsilon is divided over {many}"
            if gap.phases > 1
            else ", nothing because epsilon is divided: there is one phase"
        )
    return (
        f"Test RMSE {_spread(gap.distributed)} in {many}, everybody online; a trusted server with"
        f" the same form of noise (scenario 1) has {_spread(gap.trusted)}. That is"
        f" {_spread(more)} more: {_spread(gap.refit)} of it because {causes}. Means of {gap.draws}"
        " draws of start and noise, ± twice the standard error."
    )


def _spread(value: Spread) -> str:
    return f"{value.mean:.3f} ± {value.error:.3f}"


def picked_words(ratings: Ratings, settings: DynamicUsers) -> str:
    """What it does on these ratings that the recommender picks some of an item's raters."""
    picked = settings.picked
    _, raters = counts(ratings)
    raters = raters[raters >= fewest_sharing(settings.colluding)]
    most, asked = int(raters.max()), np.minimum(raters, picked)
    share = raters.sum() / asked.sum()
    return (
        f"With {picked} picked of each item's raters, a round asks for {asked.sum():,} of"
        f" {raters.sum():,} gradients, so the same way takes about {share:.3g} times as many"
        " rounds. The noise is as large as before and the sums are smaller: for the most rated item"
        f" it counts {most / min(most, picked):.3g} times as much beside the gradients. At least"
        f" {fewest_sharing(settings.colluding)} must be picked, or masks hide nothing and noise is"
        " not shared. And other people are summed in every round, which the attendance attack lives"
        " on."
    )


# --- the federated flow --------------------------------------------------------------------------

CORNER = 400, 200  # of the corner that plays: every move of a slider plays it anew


@dataclass(frozen=True, kw_only=True, eq=False)
class FederatedPlay(MessagePlay):
    """One demonstration: of each message the profile that is watched is shown, by its name."""

    run: FederatedRun
    name: str


def corner(ratings: Ratings) -> Ratings:
    """The busiest users and the most clicked items; ratings: all of value 1."""
    return block(ratings, *CORNER)


def play_federation(
    flow: Federation, ratings: Ratings, *, watched: int = 0, seed: int = 0
) -> FederatedPlay:
    """Play the flow on (a part of) the data. Raises InvalidSetting for too many parties."""
    run = FederatedRun(flow, ratings, np.random.default_rng(seed), watch=watched)
    for _ in run.play():
        pass
    name = (title if flow.owned is Profiles.USERS else user_name)(ratings, watched)
    users = count(ratings.public, flow.owned)
    few, most = users // flow.parties, -(-users // flow.parties)
    each = f"{few}" if few == most else f"{few} or {most}"
    messages = []
    for message in run.transcript:
        profiles = message.payload["profiles"]
        summary = f"profile of {name} {vector_words(profiles[watched], '.3g')}"
        summary += f", and {len(profiles) - 1:,} more"
        messages.append(dataclasses.replace(message, summary=summary))
    return FederatedPlay(
        messages=tuple(messages),
        parties=(SERVER, *(party.name for party in run.parties)),
        opening=f"a server and {many(flow.parties, 'party')} with {each} {flow.owned.value} each",
        meanings=tuple(
            _meaning(flow, sent_message.kind, sent_message.round) for sent_message in messages
        ),
        units="Each number takes 8 bytes.",
        run=run,
        name=name,
    )


def counted_words(run: FederatedRun) -> str:
    """Messages and bytes of a run, counted and by formula, in one sentence."""
    flow, found = run.flow, run.transcript.total
    formula, profiles = flow.cost(run.public), count(run.public, flow.mechanism.profiles)
    return (
        f"Counted: {many(found.messages, 'message')}, {found.bytes:,} bytes. By formula: 2"
        f" x {many(flow.parties, 'party')} x {many(flow.rounds, 'round')} = {formula.messages:,}"
        f" messages"
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


def budget_table(flow: Federation, public: PublicFacts) -> Table:
    """The budget of these rounds beside that of the paper's, as columns of text."""
    flows = {"here": flow, "in the paper": dataclasses.replace(flow, **PAPER)}
    return {"what counts": list(budget_rows(flow.budget(public)))} | {
        f"epsilon {name}: {one.rounds:,} x {one.local:,} solves": [
            *map(epsilon_text, budget_rows(one.budget(public)).values())
        ]
        for name, one in flows.items()
    }


def why_not_per_user(flow: Federation, public: PublicFacts) -> tuple[str, ...]:
    """Why a claim of epsilon per user is not what the flow gives, in sentences."""
    cap = min(public.cap or public.items, public.items)
    limit = f"a cap keeps k at {cap:,}" if public.cap else f"nothing caps k below all {cap:,} items"
    budget = flow.budget(public)
    cells = sensitivity_at({CELL: 1}, budget.change, public)
    moved = (
        "k item profiles" if flow.mechanism.profiles is Profiles.ITEMS else "k cells of a profile"
    )
    sentences = [
        "The noise of one solve hides one click: whether one user chose one item.",
        f"A user with k clicks moves {moved}, and any other row moves as many again: the budget"
        f" counts up to {cells:,.0f} times ({limit}).",
    ]
    if budget.solves > 1:
        sentences += [
            f"Each party solves {budget.solves:,} times on the same clicks, so the budgets of all"
            " solves add up. Parties work side by side: every click is with one party only.",
            "Even these sums take a party's own factors for public. They are refitted to the same"
            " clicks between two solves, and no noise covers that: beyond one solve nothing is"
            " certified.",
        ]
    if flow.mechanism.profiles is Profiles.USERS:
        sentences.append(
            "Each party fits its item factors to all users' raw clicks, and everybody's scores use"
            " them without noise: nothing is certified, not even for one solve."
        )
    if math.isinf(budget.cell):
        sentences.append(
            "The largest factor is read off the data to set the noise: nothing is certified."
        )
    return tuple(sentences)


def federation_traffic(flow: Federation, public: PublicFacts) -> Table:
    """What the flow sends in a whole run on data of this size, by formula, for either profiles."""
    rows = []
    for profiles in Profiles:
        mechanism = dataclasses.replace(flow.mechanism, profiles=profiles)
        sent = dataclasses.replace(flow, mechanism=mechanism).cost(public)
        rows.append((f"{profiles.value} sent", sent.messages, sent.bytes))
    return columns(("protocol", "messages", "bytes"), rows)


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
