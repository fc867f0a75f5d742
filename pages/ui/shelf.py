"""Remember the training runs of a session, without Streamlit."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # every page has a shelf, only Train the machinery to fill it
    from dpmc_lab.views.run_card import RememberedRun


class RunHistory:
    """The runs that a session remembers, the oldest first, at most LIMIT.

    A further run removes the oldest one that is not pinned. Two ticked runs are compared.

    Attributes:
        runs: the runs.
        pinned: numbers of runs that stay.
        ticked: numbers of at most two ticked runs, the one ticked last at the end.
        number: returns the number of the next run.
    """

    LIMIT = 8

    def __init__(self) -> None:
        self.runs: list[RememberedRun] = []
        self.pinned: set[int] = set()
        self.ticked: list[int] = []
        self.number = count(1).__next__  # of the next run

    def add_run(self, run: RememberedRun) -> None:
        """Remember a run, or update it; a new run is ticked."""
        numbers = [remembered.number for remembered in self.runs]
        if run.number in numbers:
            self.runs[numbers.index(run.number)] = run
            return
        self.runs.append(run)
        self.tick(run.number)
        if len(self.runs) > self.LIMIT:
            oldest = next(
                remembered for remembered in self.runs if remembered.number not in self.pinned
            )
            self._drop({oldest.number})

    def __contains__(self, number: int) -> bool:
        return any(run.number == number for run in self.runs)

    @property
    def full(self) -> bool:
        """Return whether no more runs may be pinned, since a new run needs a place."""
        return len(self.pinned) >= self.LIMIT - 1

    def pin(self, number: int) -> None:
        """Pin a run, or unpin it."""
        if number in self.pinned or not self.full:
            self.pinned ^= {number}

    def tick(self, number: int) -> None:
        """Tick a run, or untick it; a third one replaces the first."""
        if number in self.ticked:
            self.ticked.remove(number)
        else:
            self.ticked = [*self.ticked[-1:], number]

    @property
    def pair(self) -> tuple[RememberedRun, RememberedRun] | None:
        """Return the two ticked runs, the older one first."""
        ticked_runs = [run for run in self.runs if run.number in self.ticked]
        return (ticked_runs[0], ticked_runs[1]) if len(ticked_runs) == 2 else None

    def forget_unpinned(self) -> None:
        """Forget all runs that are not pinned."""
        self._drop({run.number for run in self.runs} - self.pinned)

    def forget_data(self, data: str) -> None:
        """Forget the runs on a data set."""
        self._drop({run.number for run in self.runs if run.data_key == data})

    def _drop(self, numbers: set[int]) -> None:
        """Forget the runs with these numbers."""
        self.runs = [run for run in self.runs if run.number not in numbers]
        self.pinned -= numbers
        self.ticked = [number for number in self.ticked if number not in numbers]
