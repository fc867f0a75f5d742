"""Show protocols one message at a time, with what they send and what they promise."""

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
from dpmc_lab.views.cards import format_epsilon
from dpmc_lab.views.data import count_ratings, format_item_title, format_user_name
from dpmc_lab.views.noise import select_block
from dpmc_lab.views.text import Table, build_table, format_count


@dataclass(frozen=True, kw_only=True, eq=False)
class MessagePlay:
    """A finished run of a protocol, as messages to step through.

    Attributes:
        messages: the messages in order.
        parties: names of the parties.
        opening: who is present before the first message, in words.
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
    """Describe the play after `position` messages: its opening, or the last of these messages."""
    if position == 0:
        return f"{play.opening}. Press Next to see the first of {len(play.messages)} messages."
    message = play.messages[position - 1]
    when = "set-up" if message.round == 0 else f"round {message.round}"
    return (
        f"Message {position} of {len(play.messages)} ({when}): {message.kind}, from"
        f" {message.sender} to {message.receiver}"
    )


def tabulate_received(play: MessagePlay, party: str, n_messages: int) -> Table:
    """Return what a party received among the first `n_messages` messages of the run, as columns.

    Args:
        play: the run.
        party: name of the party.
        n_messages: how many messages have been sent so far, to any party.
    """
    received = (m for m in play.messages[:n_messages] if m.receiver == party)
    rows = ((m.round, m.sender, m.kind, m.summary or "(nothing)") for m in received)
    return build_table(("round", "from", "message", "content"), rows)


def format_bytes(count: float) -> str:
    """Return an amount of data in units of a thousand: 512 bytes, 1.5 kB, 20 MB."""
    for unit, size in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= 0.9995 * size:  # which three digits round up to the unit
            return f"{float(f'{count / size:.3g}'):,g} {unit}"
    return format_count(round(count), "byte")


# --- scenarios 2 and 3 ---------------------------------------------------------------------------

USERS_SHOWN = 4  # users in a play, as many as fit on a phone
ITEMS_SHOWN = 12  # items that a visitor can choose from
ROUNDS, RANK = 3, 2  # of a phase of the play
LEAVING_ROUND = 2  # in which a user may leave
ATTENDED_ROUNDS = 12  # of the attacked run in which each user misses one round
PICKED_ROUNDS = 40  # of the attacked run in which the recommender picks users
NO_RHO = (
    "In the paper, each user also adds a small fresh noise rho(t) in every round. We leave it out,"
    " because our source, a summary, does not state its size, and because it would not help. If"
    " user factors are public, one noisy vector per item already determines all sums. If users fit"
    " their factors, the recommender can send vectors so long that any fixed noise is negligible."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class ScenarioPlay(MessagePlay):
    """A run of scenario 2 or 3 as messages to step through, with the ratings of its users."""

    run: ScenarioRun
    ratings: Ratings


def find_small_items(ratings: Ratings) -> dict[int, str]:
    """Find items with about as many raters as fit on a screen.

    Args:
        ratings: the ratings.

    Returns:
        The title of each item with its number of raters, by the item's index; the number of raters
        that is closest to USERS_SHOWN comes first.

    Raises:
        BadRatings: no item has two raters, or all ratings are equal.
    """
    check_varied(Task.RATINGS, ratings)
    _, raters = count_ratings(ratings)
    candidates = np.flatnonzero(raters >= 2)
    if len(candidates) == 0:
        raise BadRatings("no item has two raters, so nobody could hide behind another")
    nearest = candidates[np.argsort(np.abs(raters[candidates] - USERS_SHOWN), kind="stable")]
    return {
        int(i): f"{format_item_title(ratings, int(i))} ({raters[i]})" for i in nearest[:ITEMS_SHOWN]
    }


def select_raters(ratings: Ratings, item: int) -> Ratings:
    """Return the first raters of an item with all their ratings, as users 0, 1, ..."""
    raters = ratings.users[ratings.items == item][:USERS_SHOWN]
    selected = ratings.select(np.isin(ratings.users, raters))
    return dataclasses.replace(
        selected,
        users=np.searchsorted(raters, selected.users).astype(np.int32),
        public=dataclasses.replace(selected.public, users=len(raters)),
        user_ids=tuple(format_user_name(ratings, int(u)) for u in raters),
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
        opening=f"Here {format_count(len(users), 'user')} rated {format_item_title(ratings, item)}",
        meanings=tuple(meanings[message.kind] for message in run.transcript),
        units=f"Numbers count up to P = 2^{settings.modulus_bits} and start again at 0 (mod P).",
        ending=aborted,
        run=run,
        ratings=player_ratings,
    )


def _explain_messages(settings: Scenario) -> dict[str, str]:
    """Return what each kind of message is for, in a sentence by kind.

    In scenario 3 (`DynamicUsers`) users come and go, so the noise is made in advance, hidden, and
    sent in pieces.
    """
    dynamic = isinstance(settings, DynamicUsers)
    masked = dynamic or (isinstance(settings, StaticUsers) and settings.masks)
    setup_note = (
        ", and a random number H that sets its size" if settings.shares is Shares.GAUSSIAN else ""
    )
    mask_note = ", a fresh mask" if dynamic else " and a fresh mask" * masked
    noise_note = " and a piece of the hidden noise" if dynamic else ""
    noise_phrase = "the piece of the hidden noise" if dynamic else "a share of the noise"
    added_terms = noise_phrase + (" and the mask" if masked else ", but no mask")
    secret_note = ", subtracts its secret" if dynamic else ""
    return {
        SETUP: f"The recommender tells each user how many users share the noise{setup_note}.",
        MODEL: f"The recommender sends the item's current factors (v){mask_note}{noise_note}.",
        ANSWER: "The user computes a correction of the factors (the gradient) and adds"
        f" {added_terms} to it.",
        SUM: f"The third party adds up all answers{secret_note} and passes on only the sum.",
        HIDDEN_SHARE: "The user draws a share of the noise and hides it behind the mask.",
        HIDDEN_NOISE: "The third party adds a secret to the sum of shares. Nobody knows the noise.",
        PUBLISHED: "The phase is over, and its item factors are public. Each user fits own factors"
        " at home and sends nothing back.",
        ONLINE: "The user reports being online in this round.",
        RESTART: "An answer is missing. The third party drops the others and asks again.",
    }


def tabulate_difference_attack(play: ScenarioPlay) -> Table:
    """Return the result of the third party's difference attack on every user, as columns.

    The attack subtracts a user's answers of two rounds, so the table is empty without two rounds.
    """
    return _tabulate_attack(attacks.run_difference_attack(play.run), "true difference")


def tabulate_attendance_attack(play: ScenarioPlay) -> Table:
    """Return the result of the recommender's attendance attack on every user, as columns.

    The attack uses a longer run of the same users in one phase, in which each user leaves in one
    round, or the recommender picks some in each. The table is empty in scenario 2, where everybody
    is in every sum, and where an item loses too many users if one is missing.
    """
    settings = play.run.settings
    item = play.run.wire.watch
    assert item is not None
    recovered: Sequence[attacks.RecoveredGradient] = ()
    if isinstance(settings, DynamicUsers):
        # Users leave in different rounds, with a round of full attendance in between.
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
    """Return the result of an attack on each user as columns.

    Args:
        recovered: the attacked users.
        truth: heading of the column of true vectors.
    """
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

    Args:
        ratings: the ratings.
        shares: how users share the noise.
        phases: number of phases.
        picked: how many raters the recommender of scenario 3 picks in a round; 0 for all.
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
    causes = "the gradient steps end early, with fixed user factors"
    if not gap.held:
        causes = "users fit their factors to published item factors, each alone"
        causes += (
            f", and {_format_mean(gap.split)} because epsilon is divided over {phases_text}"
            if gap.phases > 1
            else ", and nothing because epsilon is divided: there is one phase"
        )
    return (
        f"The test RMSE is {_format_mean(gap.distributed)} in {phases_text} with everybody"
        " online. A trusted server with the same form of noise (scenario 1) reaches"
        f" {_format_mean(gap.trusted)}. The difference is {_format_mean(total_gap)}:"
        f" {_format_mean(gap.refit)} because {causes}. These are means of {gap.draws} draws of"
        " start and noise, ± twice the standard error."
    )


def _format_mean(value: MeanWithError) -> str:
    """Return a mean with twice its standard error: '0.912 ± 0.003'."""
    return f"{value.mean:.3f} ± {value.error:.3f}"


def describe_picking(ratings: Ratings, settings: DynamicUsers) -> str:
    """Explain what happens on these ratings if the recommender picks some of an item's raters.

    Items with too few raters to hide behind are left out, as in the protocol.
    """
    picked = settings.picked
    _, raters = count_ratings(ratings)
    raters = raters[raters >= min_group_size(settings.colluding)]
    max_raters = int(raters.max())
    n_picked = np.minimum(raters, picked)
    slowdown = raters.sum() / n_picked.sum()
    return (
        f"If {picked} raters of each item are picked, a round asks for {n_picked.sum():,} of"
        f" {raters.sum():,} gradients. The same progress takes about {slowdown:.3g} times as many"
        " rounds. The noise stays as large while the sums shrink. For the most rated item it"
        f" weighs {max_raters / min(max_raters, picked):.3g} times as much. At least"
        f" {min_group_size(settings.colluding)} must be picked, or masks hide nothing and nobody"
        " shares the noise. Each round sums up other people, which the attendance attack uses."
    )


# --- the federated flow --------------------------------------------------------------------------

# Users and items of the play: few, since it runs again after every move of a slider.
CORNER_SHAPE = (400, 200)


@dataclass(frozen=True, kw_only=True, eq=False)
class FederatedPlay(MessagePlay):
    """A run of the federated flow as messages to step through, with the watched profile's name."""

    run: FederatedRun


def select_busiest_corner(ratings: Ratings) -> Ratings:
    """Return the busiest users and the most clicked items; all ratings have the value 1."""
    return select_block(ratings, *CORNER_SHAPE)


def play_federation(flow: Federation, ratings: Ratings, *, watched: int = 0) -> FederatedPlay:
    """Play the federated flow on some ratings.

    Args:
        flow: the settings.
        ratings: the clicks.
        watched: index of the profile that the messages show.

    Raises:
        InvalidSetting: there are too many parties.
    """
    run = FederatedRun(flow, ratings, np.random.default_rng(0), watch=watched)
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
        opening=f"Here a server works with {format_count(flow.parties, 'party')}, each with"
        f" {users_text} {flow.owned_axis.value}",
        meanings=tuple(
            _explain_federated_message(flow, sent_message.kind, sent_message.round)
            for sent_message in messages
        ),
        units="Each number takes 8 bytes.",
        run=run,
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
        f" {formula.messages:,} messages of {profiles:,} profiles x {flow.mechanism.rank} numbers x"
        " 8 bytes ="
        f" {formula.bytes:,} bytes" + (": the same." if total == formula else ": NOT the same.")
    )


def list_budget_rows(budget: FederatedBudget) -> dict[str, float]:
    """Return the epsilons of a budget by what they protect, from the claimed to the certified one.

    An epsilon is infinite where nothing is certified.
    """
    return {
        "claimed, per solve": budget.claimed,
        "one click, one solve": budget.cell,
        "one click, all solves": budget.cell_composed,
        "one user, all solves": budget.user_composed,
        "proved for one user": budget.user_composed if budget.certified else math.inf,
    }


def tabulate_budget(flow: Federation, public: PublicFacts) -> Table:
    """Return the budget of these rounds and that of the paper's rounds, as columns of text."""
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
        f"A user with k clicks changes {changed_phrase}, and a replaced row changes as many again."
        f" So the budget counts up to {cells:,.0f} times ({limit}).",
    ]
    if budget.solves > 1:
        sentences += [
            f"Each party solves {budget.solves:,} times on the same clicks, so the budgets of all"
            " solves add up. Every click belongs to one party only.",
            "Even these sums assume that a party's own factors are public. The party fits them to"
            " the same clicks between two solves without noise. Beyond one solve nothing is"
            " proved.",
        ]
    if flow.mechanism.profiles is Profiles.USERS:
        sentences.append(
            "Each party fits its item factors to all users' raw clicks, and everybody's scores use"
            " them without noise. So nothing is proved, not even for one solve."
        )
    if math.isinf(budget.cell):
        sentences.append(
            "The noise is set by the largest factor in the data, so nothing is proved."
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
    """Return what a message of this kind is for in a round, in words.

    Args:
        flow: the settings.
        kind: NOISY_PROFILES or AVERAGE_PROFILES.
        round: number of the round.
    """
    private_kind = flow.owned_axis.value[:-1]  # the singular: user or item
    shared_kind = flow.mechanism.profiles.value[:-1]
    times = "once" if flow.local == 1 else f"{flow.local} times in turn"
    if kind == NOISY_PROFILES:
        action = (
            f"starts from random {private_kind} factors"
            if round == 1
            else f"refits its {private_kind} factors to the average"
        )
        return (
            f"The party {action}. It then computes noisy {shared_kind} profiles ({times}) and sends"
            f" the last ones. Clicks and {private_kind} factors stay."
        )
    assert kind == AVERAGE_PROFILES
    ending = (
        f" Each party refines its {private_kind} factors once more, without noise, and sends"
        " nothing."
        if round == flow.rounds
        else ""
    )
    return f"The server averages the profiles of all parties. It never sees a click.{ending}"
