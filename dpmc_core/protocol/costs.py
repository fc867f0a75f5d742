"""Messages and bytes of a run, by formula: the paper's communication overhead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core.privacy import Shares
from dpmc_core.protocol.distributed import Distributed
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
from dpmc_core.protocol.wire import size


class Cost(NamedTuple):
    """Messages and bytes of one kind."""

    messages: int
    bytes: int


class Attempt(NamedTuple):
    """One try at a round or at the set-up of scenario 3, over all items.

    asked: users sent a message; answered: those of them who answered; done: items summed up;
    broken: items to be tried again.
    """

    asked: int
    answered: int
    done: int
    broken: int = 0


def cost(
    settings: Distributed,
    raters: NDArray[np.int64],
    *,
    set_up: Sequence[Attempt] | None = None,
    rounds: Sequence[tuple[int, Sequence[Attempt]]] | None = None,
) -> dict[str, Cost]:
    """The cost of a whole run by kind of message; items with too few raters cost nothing.

    raters: users per item. set_up, rounds: scenario 3's attempts, and per round the users who said
    they were online; left out, everybody is online all the time and nobody leaves.
    """
    fewest = max(2, settings.colluding + 1)
    part = raters[raters >= fewest]
    pairs, items, d = int(part.sum()), len(part), settings.rank
    mixing = d if settings.shares is Shares.GAUSSIAN else 0
    t = settings.iterations
    if isinstance(settings, StaticUsers):
        mask = d if settings.masks else 0
        return {
            SETUP: _cost(pairs, 1 + mixing),
            MODEL: _cost(t * pairs, d + mask),
            ANSWER: _cost(t * pairs, d),
            SUM: _cost(t * items, d),
        }
    assert isinstance(settings, DynamicUsers)
    whole = (Attempt(pairs, pairs, items),)
    first = whole if set_up is None else tuple(set_up)
    later = [(pairs, whole)] * t if rounds is None else list(rounds)
    tries = [attempt for _, attempts in later for attempt in attempts]
    return {
        SETUP: _cost(sum(a.asked for a in first), 1 + d + mixing),
        HIDDEN_SHARE: _cost(sum(a.answered for a in first), d),
        HIDDEN_NOISE: _cost(sum(a.done for a in first), d),
        ONLINE: _cost(sum(online for online, _ in later), 0),
        MODEL: _cost(sum(a.asked for a in tries), 3 * d),
        ANSWER: _cost(sum(a.answered for a in tries), d),
        RESTART: _cost(sum(a.broken for a in (*first, *tries)), 1),
        SUM: _cost(sum(a.done for a in tries), d),
    }


def total(costs: dict[str, Cost]) -> Cost:
    """All kinds together."""
    return Cost(sum(c.messages for c in costs.values()), sum(c.bytes for c in costs.values()))


def _cost(messages: int, words: int) -> Cost:
    return Cost(messages, messages * size(words))
