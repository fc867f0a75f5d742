"""What papers prove beside what is measured on small generated instances, as rows of a table.

What a row is about stands in the paper's file; its numbers are computed when they are asked for,
the same every time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dpmc_core import facts
from dpmc_core.arrays import Floats
from dpmc_core.model import Mechanism
from dpmc_core.ratings import Ratings

DRAWABLE = 10.0  # a line is drawn for a bound below so many times what is measured
_ROUNDING = 1 + 1e-9  # where a bound is met exactly


@dataclass(frozen=True, kw_only=True)
class TheoryRow:
    """One statement beside one measurement.

    quantity: what is bounded, with its unit; setting: the instance. bound: the statement as we
    prove it, or as printed where we have none; printed: the paper's own, where that differs.
    open_constant: what is printed leaves a constant open, which is taken as 1. spread: standard
    error of `measured`, 0 where that is exact. trivial: what holds without any theorem. note: what
    is wrong with what is printed, as we read it, and why. mechanism: whose promise the statement
    is, for a promise.
    """

    theorem: str
    quantity: str
    setting: str
    bound: float
    measured: float
    printed: float | None = None
    spread: float = 0.0
    open_constant: bool = False
    trivial: float = math.inf
    note: str = ""
    mechanism: str = ""

    @property
    def factor(self) -> float:
        """How many times what was measured the bound is; infinite where that is not above 0."""
        return self.bound / self.measured if self.measured > 0 else math.inf

    @property
    def holds(self) -> bool:
        """Whether what was measured is within the bound, or within 4 standard errors of it."""
        return self._within(self.bound)

    @property
    def counterexample(self) -> bool:
        """Whether what was measured contradicts what is printed, whatever its constants."""
        printed = self.bound if self.printed is None else self.printed
        return not self.open_constant and not self._within(printed)

    @property
    def silence(self) -> str:
        """A sentence where the bound says nothing, else empty."""
        if self.bound < self.trivial:
            return ""
        return f"The bound says nothing here: {self.trivial:.3g} holds without it."

    def _within(self, limit: float) -> bool:
        return self.measured <= limit * _ROUNDING + 4 * self.spread


def rows_of(paper: str) -> Callable[..., TheoryRow]:
    """Makes rows of a paper from the name of a statement in its file, numbers, and what its words
    name {in braces}."""
    words = facts.load("dpmc_core.lab.papers", f"{paper}.toml")["theorems"]
    own = {field.name for field in fields(TheoryRow)}

    def row(name: str, /, **given: Any) -> TheoryRow:
        found = {
            key: text.format(**given) if isinstance(text, str) else text
            for key, text in words[name].items()
        }
        found |= {key: value for key, value in given.items() if key in own}
        return facts.into(TheoryRow, found, f"{paper}.toml: {name}")

    return row


def end_of(mechanism: Mechanism, ratings: Ratings, seed: int = 0) -> Floats:
    """What a mechanism ends with, users x items."""
    *_, last = mechanism.fit(ratings, np.random.default_rng(seed))
    assert last.model is not None
    return np.asarray(last.model.predict(*np.indices(ratings.shape)), dtype=float)


def mean_of(values: Sequence[float] | Floats) -> dict[str, float]:
    """What was measured, and its standard error, of independent draws."""
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    return {"measured": float(np.mean(values)), "spread": float(error)}
