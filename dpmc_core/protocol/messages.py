"""Messages between parties, and the transcript that keeps and counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Message:
    """One message; bytes is its size on the wire, summary its content in words.

    payload: the content itself, by name. round: 0 for the set-up.
    """

    sender: str
    receiver: str
    kind: str
    bytes: int
    summary: str = ""
    round: int = 0
    payload: Mapping[str, NDArray[Any]] = field(default_factory=dict)


@dataclass(eq=False)
class Transcript:
    """Every message counted, the kept ones in order: something to step through.

    A run of thousands of users keeps only what somebody watches; all of it is counted.
    """

    messages: list[Message] = field(default_factory=list)
    count: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)

    def add(self, message: Message) -> None:
        """Count a message and keep it."""
        self.add_many(message.kind, 1, message.bytes)
        self.messages.append(message)

    def add_many(self, kind: str, count: int, size: int) -> None:
        """Count `count` messages of one kind, `size` bytes in all, without keeping them."""
        self.count[kind] += count
        self.bytes[kind] += size

    def keep(self, message: Message) -> None:
        """Keep a message that `add_many` has counted."""
        self.messages.append(message)

    @property
    def total_count(self) -> int:
        return self.count.total()

    @property
    def total_bytes(self) -> int:
        return self.bytes.total()

    def parties(self) -> Sequence[str]:
        """Names of senders and receivers, in the order they first appear."""
        return list(dict.fromkeys(n for m in self.messages for n in (m.sender, m.receiver)))

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)
