"""Real numbers as integers mod P, so that masks can hide them perfectly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmc_core.errors import InvalidSetting, check_number

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True)
class FixedPoint:
    """Multiples of 2^-fraction_bits mod P = 2^modulus_bits, negative ones in the upper half.

    P divides 2^64, so unsigned 64-bit arithmetic, which wraps by itself, is exact mod P.
    """

    modulus_bits: int = 48
    fraction_bits: int = 20

    def __post_init__(self) -> None:
        check_number("modulus_bits", self.modulus_bits, at_least=8, at_most=64, integer=True)
        check_number(
            "fraction_bits",
            self.fraction_bits,
            at_least=0,
            at_most=self.modulus_bits - 2,
            integer=True,
        )

    @property
    def step(self) -> float:
        """Distance of two neighbouring numbers; rounding moves a number by half of it at most."""
        return 2.0**-self.fraction_bits

    @property
    def largest(self) -> float:
        """The largest sum that is told apart from a negative one: P/2 steps."""
        return 2.0 ** (self.modulus_bits - 1 - self.fraction_bits)

    def encode(self, values: ArrayLike, addends: ArrayLike, what: str) -> Words:
        """Values as integers mod P, each one of `addends` numbers to be summed.

        Raises InvalidSetting where the sum of that many such values could wrap around.
        """
        array = np.asarray(values, dtype=float)
        room = self.largest / np.asarray(addends, dtype=float) - self.step
        wrong = ~(np.abs(array) < room)
        if wrong.any():
            limit = np.broadcast_to(room, array.shape)[wrong][0]
            raise InvalidSetting(
                what,
                f"within +-{limit:.4g}, or sums would wrap around mod P",
                float(array[wrong][0]),
                "raise modulus_bits or lower fraction_bits",
            )
        return self.reduce(np.rint(array / self.step).astype(np.int64).astype(np.uint64))

    def decode(self, words: Words) -> Floats:
        """Integers mod P as the numbers of least absolute value they stand for."""
        spare = np.uint64(64 - self.modulus_bits)
        signed = (words << spare).view(np.int64) >> spare.astype(np.int64)
        return np.asarray(signed * self.step, dtype=np.float64)

    def reduce(self, words: Words) -> Words:
        """Any 64-bit integers mod P."""
        reduced: Words = words & np.uint64(2**self.modulus_bits - 1)
        return reduced

    def uniform(self, shape: tuple[int, ...], rng: np.random.Generator) -> Words:
        """Uniform integers mod P: a mask."""
        return self.reduce(rng.integers(0, 2**64 - 1, shape, dtype=np.uint64, endpoint=True))

    def sums(self, words: Words, groups: NDArray[np.int64], count: int) -> Words:
        """Sum of the rows of each group, mod P; rows x d -> count x d."""
        totals = np.zeros((count, words.shape[1]), dtype=np.uint64)
        np.add.at(totals, groups, words)
        return self.reduce(totals)
