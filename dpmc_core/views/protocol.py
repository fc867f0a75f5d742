"""The distributed scenarios as a small play: a few users, one item, one message at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dpmc_core.errors import BadRatings
from dpmc_core.model import Task
from dpmc_core.privacy import Shares
from dpmc_core.problem import check_varied
from dpmc_core.protocol import attacks, costs
from dpmc_core.protocol.distributed import Distributed, Leaves, ProtocolAborted, Run
from dpmc_core.protocol.messages import Message
from dpmc_core.protocol.scenarios import (
    ANSWER,
    HIDDEN_NOISE,
    HIDDEN_SHARE,
    MODEL,
    ONLINE,
    RESTART,
    SETUP,
    SUM,
    DynamicUsers,
    StaticUsers,
)
from dpmc_core.protocol.simulate import SCENARIOS
from dpmc_core.protocol.wire import RECOMMENDER, THIRD_PARTY
from dpmc_core.ratings import Ratings
from dpmc_core.views.stage import Stage
from dpmc_core.views.training import title, user_name

USERS_SHOWN = 4  # what fits on a phone
ROUNDS, RANK = 3, 2
LEAVING_ROUND = 2
ATTENDED_ROUNDS = 12  # of the longer run in which each user misses one round

MEANING = {
    SETUP: "The recommender tells each user how many share an item's noise{mixing}.",
    MODEL: "The recommender sends the item's factors as they stand{mask}.",
    ANSWER: "The user computes the own gradient, adds {hidden} and sends it to the third party.",
    SUM: "The third party adds up all answers mod P{secret} and passes on nothing but the sum.",
    HIDDEN_SHARE: "The user draws a share of the noise and hides it behind the mask.",
    HIDDEN_NOISE: "The third party sends the shares' sum plus a secret: nobody holds the noise.",
    ONLINE: "The user says that it is there for this round.",
    RESTART: "An answer is missing: the third party drops the others and asks for a second try.",
}


class Play(NamedTuple):
    """One demonstration: its messages, who speaks, and how it ended."""

    run: Run
    messages: tuple[Message, ...]
    users: tuple[str, ...]
    item: str
    aborted: str  # a sentence where the run could not go on
    part: Ratings  # of the users on stage


class Line(NamedTuple):
    """The bytes of one way to learn against users, items or rounds."""

    name: str
    x: tuple[int, ...]
    bytes: tuple[int, ...]


def small_items(ratings: Ratings, count: int = 12) -> dict[int, str]:
    """Items whose raters fit on a screen, by index, with their titles. Raises BadRatings."""
    check_varied(Task.RATINGS, ratings)
    raters = np.bincount(ratings.items, minlength=ratings.public.items)
    enough = np.flatnonzero(raters >= 2)
    if len(enough) == 0:
        raise BadRatings("no item has two raters, so nobody could hide behind another")
    nearest = enough[np.argsort(np.abs(raters[enough] - USERS_SHOWN), kind="stable")]
    return {int(i): f"{title(ratings, int(i))} ({raters[i]} ratings)" for i in nearest[:count]}


def cast(ratings: Ratings, item: int, users: int = USERS_SHOWN) -> Ratings:
    """A few raters of an item with all their ratings, as ratings of their own."""
    raters = ratings.users[ratings.items == item][:users]
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
    masks: bool = True,
    leaver: int | None = None,
    seed: int = 0,
) -> Play:
    """Play a scenario with an item's first raters; leaver: which of them leaves in round 2."""
    part = cast(ratings, item)
    leaves = Leaves(() if leaver is None else ((LEAVING_ROUND, leaver),))
    settings: Distributed
    options: dict[str, Any] = {
        "epsilon": epsilon,
        "rank": RANK,
        "iterations": ROUNDS,
        "shares": shares,
        "leaves": leaves,
    }
    if SCENARIOS[scenario] is StaticUsers:
        settings = StaticUsers(**options, masks=masks)
    else:
        settings = DynamicUsers(**options)
    run = settings.start(part, np.random.default_rng(seed), watch=item)
    aborted = ""
    try:
        for _ in run.play():
            pass
    except ProtocolAborted as error:
        aborted = str(error)
    users = tuple(run.wire.name(int(u)) for u in run.who[run.what == item])
    return Play(run, tuple(run.transcript), users, title(ratings, item), aborted, part)


def meaning(play: Play, message: Message) -> str:
    """What a message is for, in one sentence."""
    settings = play.run.settings
    dynamic = isinstance(settings, DynamicUsers)
    masked = dynamic or (isinstance(settings, StaticUsers) and settings.masks)
    own = "the own share of noise" if not dynamic else "the piece of the hidden noise"
    gaussian = settings.shares is Shares.GAUSSIAN
    return MEANING[message.kind].format(
        mixing=", and the random H that sets its size" if gaussian else "",
        mask=(", with a fresh mask" if masked else "")
        + (" and a piece of the hidden noise" if dynamic else ""),
        hidden=own + (" and the mask" if masked else ", unmasked,"),
        secret=", takes off its secret" if dynamic else "",
    )


def stage(play: Play) -> Stage:
    """The play to step through."""
    return Stage(
        messages=play.messages,
        parties=(RECOMMENDER, THIRD_PARTY, *play.users),
        opening=f"{len(play.users)} users who rated {play.item}, a recommender and a third party",
        meanings=tuple(meaning(play, message) for message in play.messages),
        units=f"P is 2 to the {play.run.settings.modulus_bits}.",
        ending=play.aborted,
    )


def difference_table(play: Play) -> dict[str, list[Any]]:
    """The third party's difference attack on every user, as columns; empty without two rounds."""
    run, item = play.run, play.run.wire.watch
    found = []
    for user in run.who[run.what == item]:
        try:
            found.append(attacks.attack_user(run, int(user)))
        except ValueError:
            continue
    step = run.settings.fixed.step
    return {
        "user": [f.user for f in found],
        "computed": [_vector(f.found) for f in found],
        "true difference of gradients": [_vector(f.truth) for f in found],
        "recovered": ["yes" if f.succeeds(step) else "no" for f in found],
    }


def attendance_table(play: Play) -> dict[str, list[Any]]:
    """The recommender's attendance attack on every user of scenario 3, as columns.

    On a longer run of the same users in which each one leaves in one round. Empty in scenario 2,
    where everybody is in every sum, and where too few users are left without one.
    """
    item = play.run.wire.watch
    assert item is not None
    found = []
    if isinstance(play.run.settings, DynamicUsers):
        users = range(play.part.public.users)
        settings = dataclasses.replace(
            play.run.settings,
            iterations=ATTENDED_ROUNDS,
            leaves=Leaves(tuple((2 * user + 3, user) for user in users)),
        )
        run = settings.start(play.part, np.random.default_rng(0), watch=item)
        for _ in run.play():
            pass
        found = attacks.attack_attendance(run, item)
    return {
        "user": [f.user for f in found],
        "computed": [_vector(f.found) for f in found],
        "true gradient": [_vector(f.truth) for f in found],
        "recovered": ["yes" if f.succeeds else "no" for f in found],
    }


def sum_attacks(play: Play) -> tuple[float | None, float, float]:
    """Error of A from a normal run, from chosen factors, and A's largest entry."""
    run, item = play.run, play.run.wire.watch
    assert item is not None
    truth = attacks.true_squares(run, item)
    passive = None
    if len(run.sums) > 1:
        sums = [s[item] for s in run.sums]
        models = [v[item] for v in run.models[:-1]][: len(sums)]
        passive = float(np.abs(attacks.passive_squares(models, sums) - truth).max())
    reach = attacks.longest_reach(run, item)
    active = attacks.active_squares(attacks.asker(run, item), len(truth), reach)
    return passive, float(np.abs(active - truth).max()), float(np.abs(truth).max())


def communication(
    along: str, ratings: Ratings, shares: Shares, rank: int = 3, rounds: int = 20
) -> tuple[Line, ...]:
    """Bytes of both scenarios against 'users', 'items' or 'rounds', all else as in the data."""
    users, items = ratings.public.users, ratings.public.items
    now = {"users": users, "items": items, "rounds": rounds}
    density = len(ratings) / (users * items)
    lines = []
    for scenario, cls in SCENARIOS.items():
        xs = sorted({max(2, round(now[along] * 2.0**k)) for k in range(-4, 5)})
        ys = []
        for x in xs:
            size = now | {along: x}
            settings = cls(epsilon=1.0, rank=rank, iterations=size["rounds"], shares=shares)
            raters = np.full(size["items"], max(2, round(size["users"] * density)))
            ys.append(costs.total(costs.cost(settings, raters)).bytes)
        lines.append(Line(f"scenario {scenario}", tuple(xs), tuple(ys)))
    return tuple(lines)


def communication_table(along: str, lines: Sequence[Line]) -> dict[str, list[Any]]:
    """The lines as columns."""
    return {along: list(lines[0].x)} | {f"{line.name}, bytes": list(line.bytes) for line in lines}


def _vector(numbers: Any) -> str:
    return "(" + ", ".join(f"{n:.4g}" for n in numbers) + ")"


def communication_words(along: str, lines: Sequence[Line], now: int) -> str:
    """The chart of communication as text."""
    parts = []
    for line in lines:
        k = min(range(len(line.x)), key=lambda k: abs(line.x[k] - now))
        parts.append(f"{line.name}: {line.bytes[k]:,} bytes at {line.x[k]:,} {along}")
    return "; ".join(parts) + "."
