"""What the perturbations of one-bit completion share: the task, the budget per rating, the card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dpmc_core.model import Task
from dpmc_core.privacy import (
    Budget,
    Guarantee,
    Neighbours,
    Notion,
    Release,
    Trust,
    Unaccounted,
    Unit,
)
from dpmc_core.ratings import PublicFacts
from dpmc_core.settings import setting


@dataclass(frozen=True, kw_only=True)
class OneBit:
    """A private one-bit method with its budget per rating."""

    task: ClassVar[Task] = Task.BINARY
    twin: ClassVar[str] = "clear"
    floor: ClassVar[str] = "majority"
    epsilon: float = setting(help="privacy budget per rating", above=0, at_most=1e6)

    def per_rating(
        self,
        public: PublicFacts,
        *,
        source: str,
        releases: Mapping[str, Release],
        trust: Trust = Trust.CURATOR,
        publishes: str = "completed matrix",
        unaccounted: tuple[Unaccounted, ...] = (),
        caveats: tuple[str, ...] = (),
    ) -> Guarantee:
        """The card of a pure claim of epsilon for the value of one rating."""
        return Guarantee(
            unit=Unit.VALUE,
            neighbours=Neighbours.REPLACE,
            notion=Notion.PURE,
            trust=trust,
            publishes=publishes,
            public=public,
            claimed=Budget(self.epsilon),
            source=source,
            releases=releases,
            unaccounted=unaccounted,
            caveats=caveats,
        )
