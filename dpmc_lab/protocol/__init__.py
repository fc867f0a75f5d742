"""Learn without a trusted recommender: parties, the messages between them, and attacks.

This module defines messages and their transcript, the wire that carries them, and fixed-point
numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmc_core.arrays import Floats, Ints, Rng, Uint64s
from dpmc_core.errors import InvalidSetting, check_number

RECOMMENDER = "recommender"
THIRD_PARTY = "third party"
USERS = "users"
WORD_BYTES = 8  # bytes of a number: a float, a count or an integer mod P
HEADER_BYTES = 8  # bytes that say which item and which round a message on a wire is about


class Traffic(NamedTuple):
    """A number of messages and their total size in bytes."""

    messages: int
    bytes: int

    @classmethod
    def from_messages(cls, messages: int, n_words: int) -> Traffic:
        """Return the traffic of messages with `n_words` numbers each."""
        return cls(messages, messages * (HEADER_BYTES + WORD_BYTES * n_words))

    @classmethod
    def total(cls, traffic: Iterable[Traffic]) -> Traffic:
        """Return the sum of several amounts of traffic."""
        traffic = list(traffic)
        return cls(sum(t.messages for t in traffic), sum(t.bytes for t in traffic))


@dataclass(frozen=True, eq=False)
class Message:
    """One message.

    Attributes:
        sender, receiver: names of the parties.
        kind: of the message.
        bytes: its size on the wire.
        summary: its content in words.
        round: 0 for the set-up.
        payload: its content by name.
    """

    sender: str
    receiver: str
    kind: str
    bytes: int
    summary: str = ""
    round: int = 0
    payload: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the message as plain JSON values, with its content in words."""
        names = ("round", "sender", "receiver", "kind", "bytes")
        return {name: getattr(self, name) for name in names} | {"payload": self.summary}


class Transcript(list[Message]):
    """The watched messages in order, with the traffic of all messages by kind.

    A run of thousands of users keeps only the watched messages, but counts all of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.traffic: dict[str, Traffic] = {}

    def count_messages(self, kind: str, sent: Traffic) -> None:
        """Count messages of one kind."""
        self.traffic[kind] = Traffic.total((self.traffic.get(kind, Traffic(0, 0)), sent))

    @property
    def total(self) -> Traffic:
        """Return the traffic of all messages."""
        return Traffic.total(self.traffic.values())


@dataclass(eq=False)
class Wire:
    """The connection that carries batches of payloads between recommender, third party and users.

    It counts all messages and keeps those about one watched item.

    Attributes:
        users, items: arrays of shape (n_pairs,), user and item of each pair that takes part.
        watch: index of the watched item, if any.
        names: names of the users, if any.
        transcript: the messages.
    """

    users: Ints
    items: Ints
    watch: int | None = None
    names: Sequence[str] | None = None
    transcript: Transcript = field(default_factory=Transcript)

    def send(
        self,
        kind: str,
        sender: str,
        receiver: str,
        payload: Mapping[str, NDArray[Any]],
        indices: Ints,
        round: int,
    ) -> None:
        """Send one message for each entry of `indices`.

        Args:
            kind: of the messages.
            sender, receiver: names of the parties.
            payload: arrays by name, whose first axis runs along `indices`.
            indices: indices of pairs where a user sends or receives, else of items.
            round: number of the round; 0 for the set-up.
        """
        n_words = sum(int(np.prod(array.shape[1:])) for array in payload.values())
        self.transcript.count_messages(kind, Traffic.from_messages(len(indices), n_words))
        if self.watch is None:
            return
        with_user = USERS in (sender, receiver)
        subjects = self.items[indices] if with_user else indices
        for k in np.flatnonzero(subjects == self.watch):
            user_name = self.get_user_name(int(self.users[indices[k]])) if with_user else ""
            content = {name: np.array(array[k]) for name, array in payload.items()}
            self.transcript.append(
                Message(
                    sender=user_name if sender == USERS else sender,
                    receiver=user_name if receiver == USERS else receiver,
                    kind=kind,
                    bytes=Traffic.from_messages(1, n_words).bytes,
                    summary=_format_payload(content),
                    round=round,
                    payload=content,
                )
            )

    def get_user_name(self, user: int) -> str:
        """Return the name of a user in messages."""
        return self.names[user] if self.names is not None else f"user {user}"


def _format_payload(content: Mapping[str, NDArray[Any]]) -> str:
    """Describe a payload in words; integers mod P stay as they are sent."""
    texts = []
    for name, array in content.items():
        numbers = np.atleast_1d(array)
        is_integer = numbers.dtype == np.uint64
        numbers_text = format_vector(numbers, "d" if is_integer else ".4g")
        suffix = " mod P" if is_integer else ""
        texts.append(f"{name} {numbers_text if numbers.size > 1 else numbers_text[1:-1]}{suffix}")
    return "; ".join(texts)


def format_vector(numbers: NDArray[Any], form: str = ".4g") -> str:
    """Return a vector as text: (1, 2.5, -3)."""
    return "(" + ", ".join(f"{n:{form}}" for n in numbers.tolist()) + ")"


@dataclass(frozen=True, kw_only=True)
class FixedPoint:
    """Real numbers as integers mod P = 2^modulus_bits, so that masks can hide them perfectly.

    Numbers are multiples of 2^-fraction_bits; negative ones are in the upper half. P divides 2^64,
    so unsigned 64-bit arithmetic, which wraps around, is exact mod P.
    """

    modulus_bits: int
    fraction_bits: int

    def __post_init__(self) -> None:
        check_number("fraction_bits", self.fraction_bits, at_most=self.modulus_bits - 2)

    @property
    def step(self) -> float:
        """Return the distance between neighbouring numbers; rounding errs by at most half of it."""
        return 2.0**-self.fraction_bits

    @property
    def max_sum(self) -> float:
        """Return the largest sum that can be distinguished from a negative one: P/2 steps."""
        return 2.0 ** (self.modulus_bits - 1 - self.fraction_bits)

    def encode(self, values: ArrayLike, addends: ArrayLike, value_name: str) -> Uint64s:
        """Encode values as integers mod P whose sums do not wrap around.

        Args:
            values: numbers.
            addends: how many such numbers are going to be summed; broadcasts with `values`.
            value_name: what the values are, for the error.

        Raises:
            InvalidSetting: the sum of that many such values could wrap around.
        """
        array = np.asarray(values, dtype=float)
        # Rounding to a whole number of steps moves a value by less than one step.
        headroom = self.max_sum / np.asarray(addends, dtype=float) - self.step
        out_of_range = ~(np.abs(array) < headroom)
        if out_of_range.any():
            limit = np.broadcast_to(headroom, array.shape)[out_of_range][0]
            raise InvalidSetting(
                value_name,
                f"within +-{limit:.4g}, or sums would wrap around mod P",
                float(array[out_of_range][0]),
                "raise modulus_bits or lower fraction_bits",
            )
        return self.reduce(np.rint(array / self.step).astype(np.int64).astype(np.uint64))

    def decode(self, integers: Uint64s) -> Floats:
        """Decode integers mod P as the numbers of least absolute value."""
        unused_bits = np.uint64(64 - self.modulus_bits)
        signed = (integers << unused_bits).view(np.int64) >> unused_bits.astype(np.int64)
        return np.asarray(signed * self.step, dtype=np.float64)

    def reduce(self, integers: Uint64s) -> Uint64s:
        """Reduce 64-bit integers mod P."""
        return integers & np.uint64(2**self.modulus_bits - 1)

    def sample_uniform(self, shape: tuple[int, ...], rng: Rng) -> Uint64s:
        """Draw uniform integers mod P, which serve as a mask."""
        return self.reduce(rng.integers(0, 2**64 - 1, shape, dtype=np.uint64, endpoint=True))

    def sum_groups(self, integers: Uint64s, groups: Ints, count: int) -> Uint64s:
        """Sum the rows of each group, mod P.

        Args:
            integers: array of shape (n_rows, d).
            groups: array of shape (n_rows,), group of each row.
            count: number of groups.

        Returns:
            Array of shape (count, d).
        """
        totals = np.zeros((count, integers.shape[1]), dtype=np.uint64)
        np.add.at(totals, groups, integers)
        return self.reduce(totals)
