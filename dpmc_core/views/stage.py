"""Any exchange of messages as something to step through: who speaks, what it says, who saw it."""

from __future__ import annotations

from typing import Any, NamedTuple

from dpmc_core.protocol.messages import Message


class Stage(NamedTuple):
    """A play of messages. opening: who is there before the first; meanings: a sentence for each.

    units: what the numbers on the wire are. ending: where the play could not go on, why.
    """

    messages: tuple[Message, ...]
    parties: tuple[str, ...]
    opening: str
    meanings: tuple[str, ...]
    units: str = ""
    ending: str = ""


def words(stage: Stage, at: int) -> str:
    """Where the play stands after `at` messages."""
    if at == 0:
        return f"{stage.opening}: no message yet"
    m = stage.messages[at - 1]
    when = "set-up" if m.round == 0 else f"round {m.round}"
    return f"Message {at} of {len(stage.messages)}, {when}: {m.kind}, {m.sender} to {m.receiver}"


def seen(stage: Stage, party: str, upto: int) -> dict[str, list[Any]]:
    """What a party has received among the first `upto` messages, as columns."""
    got = [m for m in stage.messages[:upto] if m.receiver == party]
    return {
        "round": [m.round for m in got],
        "from": [m.sender for m in got],
        "message": [m.kind for m in got],
        "content": [m.summary or "(nothing)" for m in got],
    }


def bytes_text(count: float) -> str:
    """An amount of data in units of a thousand: 512 bytes, 1.5 kB, 20 MB."""
    for unit, size in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= 0.9995 * size:
            return f"{float(f'{count / size:.3g}'):,g} {unit}"
    return f"{count:,.0f} byte{'' if count == 1 else 's'}"
