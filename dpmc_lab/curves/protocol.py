"""Show protocols one message at a time, with what they send and what they promise."""

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
from dpmc_core.privacy.shares import min_group_size
from dpmc_core.problem import check_varied
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_lab.curves.cards import format_epsilon
from dpmc_lab.curves.data import count_ratings, format_item_title, format_user_name
from dpmc_lab.curves.noise import select_block
from dpmc_lab.curves.text import Table, build_table, format_count
from dpmc_lab.protocol import (
    RECOMMENDER,
    THIRD_PARTY,
    Message,
    Traffic,
    attacks,
    format_vector,
)
from dpmc_lab.protocol.federated import (
    AVERAGE_PROFILES,
    NOISY_PROFILES,
    PAPER_SETTINGS,
    SERVER,
    FederatedBudget,
    FederatedRun,
    Federation,
    count_profiles,
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
    Departures,
    DynamicUsers,
    ProtocolAborted,
    Scenario,
    ScenarioRun,
    StaticUsers,
)
from dpmc_lab.protocol.simulate import SCENARIOS, Gap, MeanWithError


@dataclass(frozen=True, kw_only=True, eq=False)
class MessagePlay:
    """Messages to step through: who sends each one, what it says and who receives it.

    Attributes:
        messages: the messages in order.
        parties: names of the parties.
        opening: who is present before the first message.
        meanings: one sentence for each message.
        units: what the numbers in the messages are.
        ending: why the protocol was aborted, where it was.
    """

    messages: tuple[Message, ...]
    parties: tuple[str, ...]
    opening: str
    meanings: tuple[str, ...]
    units: str
    ending: str = ""


def format_position(play: MessagePlay, position: int) -> str:
    """Return where the play is after `position` messages."""
    if position == 0:
        return f"{play.opening}: no message yet"
    message = play.messages[position - 1]
    when = "set-up" if message.round == 0 else f"round {message.round}"
    return (
        f"Message {position} of {len(play.messages)}, {when}: {message.kind}, {message.sender}"
        f" to {message.receiver}"
    )


def tabulate_received(play: MessagePlay, party: str, n_messages: int) -> Table:
    """Return what a party received among the first `n_messages` messages, as columns."""
    received = (m for m in play.messages[:n_messages] if m.receiver == party)
    rows = ((m.round, m.sender, m.kind, m.summary or "(nothing)") for m in received)
    return build_table(("round", "from", "message", "content"), rows)


def format_bytes(count: float) -> str:
    """Return an amount of data in units of a thousand: 512 bytes, 1.5 kB, 20 MB."""
    for unit, size in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= 0.9995 * size:
            return f"{float(f'{count / size:.3g}'):,g} {unit}"
    return format_count(round(count), "byte")


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
    """A scenario as a play, with its run and the ratings of its users."""

    run: ScenarioRun
    ratings: Ratings


def find_small_items(ratings: Ratings) -> dict[int, str]:
    """Find items whose raters fit on a screen, with their titles by index.

    Raises:
        BadRatings: no item has two raters, or all ratings are equal.
    """
    check_varied(Task.RATINGS, ratings)
    _, raters = count_ratings(ratings)
    enough = np.flatnonzero(raters >= 2)
    if len(enough) == 0:
        raise BadRatings("no item has two raters, so nobody could hide behind another")
    nearest = enough[np.argsort(np.abs(raters[enough] - USERS_SHOWN), kind="stable")]
    return {
        int(i): f"{format_item_title(ratings, int(i))} ({raters[i]})" for i in nearest[:ITEMS_SHOWN]
    }


def select_raters(ratings: Ratings, item: int) -> Ratings:
    """Select a few raters of an item with all their ratings, and index them anew."""
    raters = ratings.users[ratings.items == item][:USERS_SHOWN]
    selected = ratings.select(np.isin(ratings.users, raters))
    names = tuple(format_user_name(ratings, int(u)) for u in raters)
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
    """Play a scenario with the first raters of an item.

    Args:
        ratings: the ratings.
        item: the watched item.
        scenario: '2' or '3'.
        epsilon: privacy budget per rating.
        shares: how users share the noise.
        phases: number of phases that epsilon is divided over.
        masks: whether answers are masked, in scenario 2.
        picked: how many raters the recommender of scenario 3 picks in a round; 0 for all.
        leaver: which of the raters leaves in round 2, if any.
        seed: of the run.
    """
    player_ratings = select_raters(ratings, item)
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
        leaves=Departures(() if leaver is None else ((LEAVING_ROUND, leaver),)),
        **variant_settings,
    )
    run = ScenarioRun(settings, player_ratings, np.random.default_rng(seed), watch=item)
    aborted = ""
    try:
        for _ in run.play():
            pass
    except ProtocolAborted as error:
        aborted = str(error)
    users = [run.wire.get_user_name(int(u)) for u in run.user_of_pair[run.item_of_pair == item]]
    meanings = _explain_messages(settings)
    return ScenarioPlay(
        messages=tuple(run.transcript),
        parties=(RECOMMENDER, THIRD_PARTY, *users),
        opening=f"{format_count(len(users), 'user')} who rated"
        f" {format_item_title(ratings, item)}, a recommender and a"
        " third party",
        meanings=tuple(meanings[message.kind] for message in run.transcript),
        units=f"P is 2 to the {settings.modulus_bits}.",
        ending=aborted,
        run=run,
        ratings=player_ratings,
    )


def _explain_messages(settings: Scenario) -> dict[str, str]:
    """Return in one sentence what each kind of message is for."""
    dynamic = isinstance(settings, DynamicUsers)
    masked = dynamic or (isinstance(settings, StaticUsers) and settings.masks)
    mixing = ", and the random H that sets its size" if settings.shares is Shares.GAUSSIAN else ""
    mask = ", with a fresh mask" if masked else ""
    noise_note = " and a piece of the hidden noise" if dynamic else ""
    noise_phrase = "the piece of the hidden noise" if dynamic else "the own share of noise"
    hidden = noise_phrase + (" and the mask" if masked else ", unmasked,")
    secret = ", takes off its secret" if dynamic else ""
    return {
        SETUP: f"The recommender tells each user how many share an item's noise{mixing}.",
        MODEL: f"The recommender sends the item's factors as they stand{mask}{noise_note}.",
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


def tabulate_difference_attack(play: ScenarioPlay) -> Table:
    """Return the third party's difference attack on every user; empty without two rounds."""
    return _tabulate_attack(attacks.run_difference_attack(play.run), "true difference of gradients")


def tabulate_attendance_attack(play: ScenarioPlay) -> Table:
    """Return the recommender's attendance attack on every user of scenario 3, as columns.

    The attack uses a longer run of the same users in one phase, in which each user leaves in one
    round, or the recommender picks some in each. The table is empty in scenario 2, where everybody
    is in every sum, and where too few users remain without one.
    """
    settings = play.run.settings
    item = play.run.wire.watch
    assert item is not None
    recovered: Sequence[attacks.RecoveredGradient] = ()
    if isinstance(settings, DynamicUsers):
        leaves = tuple((2 * user + 3, user) for user in range(play.ratings.public.users))
        longer = dataclasses.replace(
            settings,
            phases=1,
            iterations=PICKED_ROUNDS if settings.picked else ATTENDED_ROUNDS,
            leaves=Departures(() if settings.picked else leaves),
        )
        run = ScenarioRun(longer, play.ratings, np.random.default_rng(0), watch=item)
        for _ in run.play():
            pass
        recovered = attacks.run_attendance_attack(run, item)
    return _tabulate_attack(recovered, "true gradient")


def _tabulate_attack(recovered: Sequence[attacks.RecoveredGradient], truth: str) -> Table:
    rows = (
        (
            attack.user,
            *map(format_vector, (attack.estimate, attack.truth)),
            "yes" if attack.succeeds else "no",
        )
        for attack in recovered
    )
    return build_table(("user", "computed", truth, "recovered"), rows)


def tabulate_scenario_traffic(
    ratings: Ratings, shares: Shares, phases: int = 1, picked: int = 0
) -> Table:
    """Return by formula what both scenarios send in a whole run on these ratings, as columns.

    Everybody is online, the rank is 3, and each phase has 20 rounds.
    """
    _, raters = count_ratings(ratings)
    rows = []
    for number, cls in SCENARIOS.items():
        variant_settings: dict[str, Any] = {"picked": picked} if cls is DynamicUsers else {}
        settings = cls(
            epsilon=1.0, rank=3, iterations=20, phases=phases, shares=shares, **variant_settings
        )
        sent = Traffic.total(settings.predict_traffic(raters, ratings.public.users).values())
        rows.append((f"scenario {number}", sent.messages, sent.bytes))
    return build_table(("protocol", "messages", "bytes"), rows)


def describe_gap(gap: Gap) -> str:
    """Explain in sentences how far scenario 2 is from scenario 1 on test ratings, and why."""
    total_gap = MeanWithError(
        gap.refit.mean + gap.split.mean, gap.distributed.error + gap.trusted.error
    )
    phases_text = "one phase" if gap.phases == 1 else f"{gap.phases} phases"
    causes = "gradient steps end, user factors being held"
    if not gap.held:
        causes = "users fit their factors to published item factors, each alone"
        causes += (
            f", and {_format_spread(gap.split)} because epsilon is divided over {phases_text}"
            if gap.phases > 1
            else ", nothing because epsilon is divided: there is one phase"
        )
    return (
        f"Test RMSE {_format_spread(gap.distributed)} in {phases_text}, everybody online; a"
        " trusted server with"
        f" the same form of noise (scenario 1) has {_format_spread(gap.trusted)}. That is"
        f" {_format_spread(total_gap)} more: {_format_spread(gap.refit)} of it because {causes}."
        f" Means of {gap.draws}"
        " draws of start and noise, ± twice the standard error."
    )


def _format_spread(value: MeanWithError) -> str:
    return f"{value.mean:.3f} ± {value.error:.3f}"


def describe_picking(ratings: Ratings, settings: DynamicUsers) -> str:
    """Explain what happens on these ratings if the recommender picks some of an item's raters."""
    picked = settings.picked
    _, raters = count_ratings(ratings)
    raters = raters[raters >= min_group_size(settings.colluding)]
    max_raters = int(raters.max())
    n_asked = np.minimum(raters, picked)
    share = raters.sum() / n_asked.sum()
    return (
        f"With {picked} picked of each item's raters, a round asks for {n_asked.sum():,} of"
        f" {raters.sum():,} gradients, so the same way takes about {share:.3g} times as many"
        " rounds. The noise is as large as before and the sums are smaller: for the most rated item"
        f" it counts {max_raters / min(max_raters, picked):.3g} times as much beside the"
        " gradients. At least"
        f" {min_group_size(settings.colluding)} must be picked, or masks hide nothing and noise is"
        " not shared. And other people are summed in every round, which the attendance attack lives"
        " on."
    )


# --- the federated flow --------------------------------------------------------------------------

CORNER_SHAPE = 400, 200  # of the corner that plays: every move of a slider plays it anew


@dataclass(frozen=True, kw_only=True, eq=False)
class FederatedPlay(MessagePlay):
    """The federated flow as a play, with the name of the watched profile."""

    run: FederatedRun
    name: str


def select_busiest_corner(ratings: Ratings) -> Ratings:
    """Return the busiest users and the most clicked items; all ratings have the value 1."""
    return select_block(ratings, *CORNER_SHAPE)


def play_federation(
    flow: Federation, ratings: Ratings, *, watched: int = 0, seed: int = 0
) -> FederatedPlay:
    """Play the federated flow on the data, or on a part of them.

    Raises:
        InvalidSetting: there are too many parties.
    """
    run = FederatedRun(flow, ratings, np.random.default_rng(seed), watch=watched)
    for _ in run.play():
        pass
    name = (format_item_title if flow.owned_axis is Profiles.USERS else format_user_name)(
        ratings, watched
    )
    users = count_profiles(ratings.public, flow.owned_axis)
    min_users = users // flow.parties
    max_users = -(-users // flow.parties)
    users_text = f"{min_users}" if min_users == max_users else f"{min_users} or {max_users}"
    messages = []
    for message in run.transcript:
        profiles = message.payload["profiles"]
        summary = f"profile of {name} {format_vector(profiles[watched], '.3g')}"
        summary += f", and {len(profiles) - 1:,} more"
        messages.append(dataclasses.replace(message, summary=summary))
    return FederatedPlay(
        messages=tuple(messages),
        parties=(SERVER, *(party.name for party in run.parties)),
        opening=f"a server and {format_count(flow.parties, 'party')} with {users_text}"
        f" {flow.owned_axis.value} each",
        meanings=tuple(
            _explain_federated_message(flow, sent_message.kind, sent_message.round)
            for sent_message in messages
        ),
        units="Each number takes 8 bytes.",
        run=run,
        name=name,
    )


def describe_traffic(run: FederatedRun) -> str:
    """Return the messages and bytes of a run in one sentence, as counted and by formula."""
    flow = run.flow
    total = run.transcript.total
    formula = flow.predict_traffic(run.public)
    profiles = count_profiles(run.public, flow.mechanism.profiles)
    return (
        f"Counted: {format_count(total.messages, 'message')}, {total.bytes:,} bytes. By formula: 2"
        f" x {format_count(flow.parties, 'party')} x {format_count(flow.rounds, 'round')} ="
        f" {formula.messages:,}"
        f" messages"
        f" of {profiles:,} profiles x {flow.mechanism.rank} numbers x 8 bytes ="
        f" {formula.bytes:,} bytes" + (": the same." if total == formula else ": NOT the same.")
    )


def list_budget_rows(budget: FederatedBudget) -> dict[str, float]:
    """Return the budget from what is claimed to what is certified; infinite where nothing is."""
    return {
        "claimed, per solve": budget.claimed,
        "one click, one solve": budget.cell,
        "one click, all solves": budget.cell_composed,
        "one user, all solves": budget.user_composed,
        "certified for one user": budget.user_composed if budget.certified else math.inf,
    }


def tabulate_budget(flow: Federation, public: PublicFacts) -> Table:
    """Return the budget of these rounds beside that of the paper's, as columns of text."""
    flows = {"here": flow, "in the paper": dataclasses.replace(flow, **PAPER_SETTINGS)}
    return {"what counts": list(list_budget_rows(flow.account_budget(public)))} | {
        f"epsilon {name}: {variant.rounds:,} x {variant.local:,} solves": [
            *map(format_epsilon, list_budget_rows(variant.account_budget(public)).values())
        ]
        for name, variant in flows.items()
    }


def explain_missing_user_bound(flow: Federation, public: PublicFacts) -> tuple[str, ...]:
    """Explain in sentences why the flow does not give the claimed epsilon per user."""
    cap = min(public.cap or public.items, public.items)
    limit = f"a cap keeps k at {cap:,}" if public.cap else f"nothing caps k below all {cap:,} items"
    budget = flow.account_budget(public)
    cells = sensitivity_at({CELL: 1}, budget.change, public)
    changed_phrase = (
        "k item profiles" if flow.mechanism.profiles is Profiles.ITEMS else "k cells of a profile"
    )
    sentences = [
        "The noise of one solve hides one click: whether one user chose one item.",
        f"A user with k clicks moves {changed_phrase}, and any other row moves as many again: the"
        " budget"
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


def tabulate_federation_traffic(flow: Federation, public: PublicFacts) -> Table:
    """Return by formula what the flow sends in a whole run, for either kind of profile."""
    rows = []
    for profiles in Profiles:
        mechanism = dataclasses.replace(flow.mechanism, profiles=profiles)
        sent = dataclasses.replace(flow, mechanism=mechanism).predict_traffic(public)
        rows.append((f"{profiles.value} sent", sent.messages, sent.bytes))
    return build_table(("protocol", "messages", "bytes"), rows)


def _explain_federated_message(flow: Federation, kind: str, round: int) -> str:
    private_kind = flow.owned_axis.value[:-1]
    shared_kind = flow.mechanism.profiles.value[:-1]
    times = "once" if flow.local == 1 else f"{flow.local} times in turn"
    if kind == NOISY_PROFILES:
        first = f"starts from random {private_kind} factors"
        start = first if round == 1 else f"refits its {private_kind} factors to the average"
        return (
            f"The party {start}, then solves the {shared_kind} profiles with noise on their loss"
            f" ({times}). Only the last profiles leave; clicks and {private_kind} factors stay."
        )
    assert kind == AVERAGE_PROFILES
    last = (
        f" Each party refines its {private_kind} factors once more, without noise, and sends"
        " nothing."
        if round == flow.rounds
        else ""
    )
    return f"The server averages what all parties sent, and sees no click.{last}"
