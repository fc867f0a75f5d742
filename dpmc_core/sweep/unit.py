"""One unit of work: a mechanism, with all its settings, on prepared and split data, with a seed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dpmc_core.experiment import settings_dict
from dpmc_core.model import Mechanism
from dpmc_core.problem import Split
from dpmc_core.store import curve_key, digest

GIVEN = "the given test ratings"  # as a problem calls the split of an official pair


@dataclass(frozen=True, eq=False)
class Unit:
    """What a worker needs to know beside the data; `key` decides the result, times aside.

    source: fingerprint of the data; name: what it is called. steps: the whole preparation as
    command-line text. split: None where the test ratings are given.
    """

    source: str
    name: str
    steps: tuple[str, ...]
    split: Split | None
    mechanism: Mechanism
    seed: int

    @cached_property
    def key(self) -> str:
        """Content hash: data, preparation, split, mechanism, revision, settings and seed."""
        return digest(*self._fixed, self.settings, self.seed)

    @cached_property
    def curve(self) -> str:
        """Key of the curve it is a point of: the same without epsilon and seed."""
        return curve_key(*self._fixed, self.settings)

    @property
    def settings(self) -> dict[str, Any]:
        return settings_dict(self.mechanism)

    @property
    def epsilon(self) -> float | None:
        return getattr(self.mechanism, "epsilon", None)

    @property
    def _fixed(self) -> tuple[str, list[str], str, str, int]:
        words = GIVEN if self.split is None else str(self.split)
        return self.source, list(self.steps), words, self.mechanism.id, self.mechanism.revision

    def __str__(self) -> str:
        at = "" if self.epsilon is None else f" at epsilon {self.epsilon:g}"
        return f"{self.mechanism.id} on {self.name}{at}, seed {self.seed}"
