"""Scenarios 2 and 3 as a small play: a few users, one item, one message at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmc_core.errors import BadRatings
from dpmc_core.lab.protocol import attacks
from dpmc_core.lab.protocol.messages import RECOMMENDER, THIRD_PARTY, Traffic, vector_words
from dpmc_core.lab.protocol.scenarios import (
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
from dpmc_core.lab.protocol.simulate import SCENARIOS
from dpmc_core.lab.protocol.trusted import Gap, Spread
from dpmc_core.lab.views.data import title, user_name
from dpmc_core.lab.views.messages import BytesCurve, MessagePlay, doublings
from dpmc_core.model import Task
from dpmc_core.privacy import Shares
from dpmc_core.privacy.shares import fewest_sharing
from dpmc_core.problem import check_varied
from dpmc_core.ratings import Ratings

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
    raters = np.bincount(ratings.items, minlength=ratings.public.items)
    enough = np.flatnonzero(raters >= 2)
    if len(enough) == 0:
        raise BadRatings("no item has two raters, so nobody could hide behind another")
    nearest = enough[np.argsort(np.abs(raters[enough] - USERS_SHOWN), kind="stable")]
    return {
        int(i): f"{title(ratings, int(i))} ({raters[i]} ratings)" for i in nearest[:ITEMS_SHOWN]
    }


def cast(ratings: Ratings, item: int) -> Ratings:
    """A few raters of an item with all their ratings, as ratings of their own."""
    raters = ratings.users[ratings.items == item][:USERS_SHOWN]
    part = ratings.select(np.isin(ratings.users, raters))
    names = tuple(user_name(ratings, int(u)) for u in raters)
    return dataclasses.replace(
        part,
        users=np.searchsorted(raters, part.users).astype(np.int32),
        public=dataclasses.replace(part.public, users=len(raters)),
        user_ids=names,
    )


def demonstrate(
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
    part = cast(ratings, item)
    settings = SCENARIOS[scenario](
        epsilon=epsilon,
        rank=RANK,
        iterations=ROUNDS,
        phases=phases,
        shares=shares,
        leaves=Leaves(() if leaver is None else ((LEAVING_ROUND, leaver),)),
    )
    if isinstance(settings, StaticUsers):
        settings = dataclasses.replace(settings, masks=masks)
    if isinstance(settings, DynamicUsers):
        settings = dataclasses.replace(settings, picked=picked)
    run = ScenarioRun(settings, part, np.random.default_rng(seed), watch=item)
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
        opening=f"{len(users)} users who rated {title(ratings, item)}, a recommender and a third"
        " party",
        meanings=tuple(meanings[message.kind] for message in run.transcript),
        units=f"P is 2 to the {settings.modulus_bits}.",
        ending=aborted,
        run=run,
        part=part,
    )


def _meanings(settings: Scenario) -> dict[str, str]:
    """What each kind of message is for, in one sentence."""
    dynamic = isinstance(settings, DynamicUsers)
    masked = dynamic or (isinstance(settings, StaticUsers) and settings.masks)
    mixing = ", and the random H that sets its size" if settings.shares is Shares.GAUSSIAN else ""
    mask = ", with a fresh mask" if masked else ""
    piece = " and a piece of the hidden noise" if dynamic else ""
    own = "the piece of the hidden noise" if dynamic else "the own share of noise"
    hidden = own + (" and the mask" if masked else ", unmasked,")
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


def difference_table(play: ScenarioPlay) -> dict[str, list[Any]]:
    """The third party's difference attack on every user, as columns; empty without two rounds."""
    return _attack_table(attacks.difference_attack(play.run), "true difference of gradients")


def attendance_table(play: ScenarioPlay) -> dict[str, list[Any]]:
    """The recommender's attendance attack on every user of scenario 3, as columns.

    On a longer run of the same users in one phase, in which each one leaves in one round, or the
    recommender picks some in each. Empty in scenario 2, where everybody is in every sum, and where
    too few users are left without one.
    """
    settings, item = play.run.settings, play.run.wire.watch
    assert item is not None
    found: Sequence[attacks.Recovered] = ()
    if isinstance(settings, DynamicUsers):
        users = range(play.part.public.users)
        leaves = tuple((2 * user + 3, user) for user in users)
        longer = dataclasses.replace(
            settings,
            phases=1,
            iterations=PICKED_ROUNDS if settings.picked else ATTENDED_ROUNDS,
            leaves=Leaves(() if settings.picked else leaves),
        )
        run = ScenarioRun(longer, play.part, np.random.default_rng(0), watch=item)
        for _ in run.play():
            pass
        found = attacks.attendance_attack(run, item)
    return _attack_table(found, "true gradient")


def _attack_table(found: Sequence[attacks.Recovered], truth: str) -> dict[str, list[Any]]:
    return {
        "user": [f.user for f in found],
        "computed": [vector_words(f.found) for f in found],
        truth: [vector_words(f.truth) for f in found],
        "recovered": ["yes" if f.succeeds else "no" for f in found],
    }


def communication(
    along: str, ratings: Ratings, shares: Shares, phases: int = 1, picked: int = 0
) -> tuple[BytesCurve, ...]:
    """Bytes of both scenarios against 'users', 'items' or 'rounds', all else as in the data.

    At rank 3 and, where rounds stay the same, 20 of them in each phase.
    """
    users, items = ratings.public.users, ratings.public.items
    now = {"users": users, "items": items, "rounds": 20}
    density = len(ratings) / (users * items)
    xs = doublings(now[along], 2)
    curves = []
    for number, cls in SCENARIOS.items():
        ys = []
        for x in xs:
            size = now | {along: x}
            settings = cls(
                epsilon=1.0, rank=3, iterations=size["rounds"], shares=shares, phases=phases
            )
            if isinstance(settings, DynamicUsers):
                settings = dataclasses.replace(settings, picked=picked)
            raters = np.full(size["items"], max(2, round(size["users"] * density)))
            sent = settings.cost(raters, size["users"]).values()
            ys.append(Traffic.total(sent).bytes)
        curves.append(BytesCurve(f"scenario {number}", tuple(xs), tuple(ys)))
    return tuple(curves)


def gap_words(gap: Gap) -> str:
    """How far scenario 2 is from scenario 1 on test ratings, and why, in sentences."""
    more = Spread(gap.refit.mean + gap.split.mean, gap.distributed.error + gap.trusted.error)
    many = "one phase" if gap.phases == 1 else f"{gap.phases} phases"
    split = (
        f", and {_spread(gap.split)} because epsilon is divided over {many}"
        if gap.phases > 1
        else ", nothing because epsilon is divided: there is one phase"
    )
    if gap.held:
        causes = f"{_spread(gap.refit)} of it because gradient steps end, user factors being held"
    else:
        causes = (
            f"{_spread(gap.refit)} of it because users fit their factors to published item factors,"
            f" each alone{split}"
        )
    return (
        f"Test RMSE {_spread(gap.distributed)} in {many}, everybody online; a trusted server with"
        f" the same form of noise (scenario 1) has {_spread(gap.trusted)}. That is"
        f" {_spread(more)} more: {causes}. Means of {gap.draws} draws of start and noise, ± twice"
        " the standard error."
    )


def _spread(value: Spread) -> str:
    return f"{value.mean:.3f} ± {value.error:.3f}"


def picked_words(ratings: Ratings, settings: DynamicUsers) -> str:
    """What it does on these ratings that the recommender picks some of an item's raters."""
    picked = settings.picked
    raters = np.bincount(ratings.items, minlength=ratings.public.items)
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
