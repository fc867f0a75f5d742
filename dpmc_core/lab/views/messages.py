"""Any exchange of messages as something to step through, and what it costs to send."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dpmc_core.lab.protocol.messages import Message


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


class BytesCurve(NamedTuple):
    """The bytes of one way to learn against users, items, rounds or parties."""

    name: str
    x: tuple[int, ...]
    bytes: tuple[int, ...]


def words(play: MessagePlay, at: int) -> str:
    """Where the play stands after `at` messages."""
    if at == 0:
        return f"{play.opening}: no message yet"
    m = play.messages[at - 1]
    when = "set-up" if m.round == 0 else f"round {m.round}"
    return f"Message {at} of {len(play.messages)}, {when}: {m.kind}, {m.sender} to {m.receiver}"


def seen(play: MessagePlay, party: str, upto: int) -> dict[str, list[Any]]:
    """What a party has received among the first `upto` messages, as columns."""
    got = [m for m in play.messages[:upto] if m.receiver == party]
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


def doublings(now: int, least: int) -> list[int]:
    """Sizes around one, from a sixteenth of it to sixteen times it, none below `least`."""
    return sorted({max(least, round(now * 2.0**k)) for k in range(-4, 5)})


def communication_table(along: str, curves: Sequence[BytesCurve]) -> dict[str, list[Any]]:
    """The curves as columns."""
    return {along: list(curves[0].x)} | {f"{c.name}, bytes": list(c.bytes) for c in curves}


def communication_words(along: str, curves: Sequence[BytesCurve], now: int) -> str:
    """The chart of communication as text."""
    parts = []
    for curve in curves:
        k = min(range(len(curve.x)), key=lambda k: abs(curve.x[k] - now))
        parts.append(f"{curve.name}: {curve.bytes[k]:,} bytes at {curve.x[k]:,} {along}")
    return "; ".join(parts) + "."
