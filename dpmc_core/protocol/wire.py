"""The wire between recommender, third party and users: whole batches sent at once, all counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core.protocol.fixed_point import FixedPoint
from dpmc_core.protocol.messages import Message, Transcript

RECOMMENDER, THIRD_PARTY, USERS = "recommender", "third party", "users"
WORD = 8  # bytes of a number: a float, a count or an integer mod P
HEADER = 8  # bytes that say which item and which round a message is about

Ints = NDArray[np.int64]


def size(words: int) -> int:
    """Bytes of a message of that many numbers."""
    return HEADER + WORD * words


@dataclass(eq=False)
class Wire:
    """Carries payloads between the parties; keeps the messages about one watched item.

    users, items: of each (user, item) pair that takes part.
    """

    users: Ints
    items: Ints
    fixed: FixedPoint
    watch: int | None = None
    names: Sequence[str] | None = None
    transcript: Transcript = field(default_factory=Transcript)

    def send(
        self,
        kind: str,
        sender: str,
        receiver: str,
        payload: Mapping[str, NDArray[Any]],
        where: Ints,
        round: int,
    ) -> None:
        """One message for each entry of `where`: pairs where a user is at one end, else items.

        payload: arrays whose first axis runs along `where`, by name.
        """
        words = sum(int(np.prod(array.shape[1:])) for array in payload.values())
        self.transcript.add_many(kind, len(where), len(where) * size(words))
        if self.watch is None:
            return
        with_user = USERS in (sender, receiver)
        about = self.items[where] if with_user else where
        for k in np.flatnonzero(about == self.watch):
            person = self.name(int(self.users[where[k]])) if with_user else ""
            content = {name: np.array(array[k]) for name, array in payload.items()}
            self.transcript.keep(
                Message(
                    sender=person if sender == USERS else sender,
                    receiver=person if receiver == USERS else receiver,
                    kind=kind,
                    bytes=size(words),
                    summary=self.words(content),
                    round=round,
                    payload=content,
                )
            )

    def name(self, user: int) -> str:
        """A user's name in messages."""
        return self.names[user] if self.names is not None else f"user {user}"

    def words(self, content: Mapping[str, NDArray[Any]]) -> str:
        """A payload in words; integers mod P as they travel."""
        parts = []
        for name, array in content.items():
            numbers = np.atleast_1d(array)
            if numbers.dtype == np.uint64:
                shown, end = ", ".join(f"{int(n)}" for n in numbers), " mod P"
            else:
                shown, end = ", ".join(f"{n:.4g}" for n in numbers.tolist()), ""
            parts.append(f"{name} ({shown}){end}" if numbers.size > 1 else f"{name} {shown}{end}")
        return "; ".join(parts)
