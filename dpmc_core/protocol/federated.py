"""The federated flow of RYHH24 (Algorithm 1), message by message.

RYHH24: Ran, Ye, Huang, Hu, "Differentially Private Implicit Matrix Factorization" (2024). K parties
hold disjoint users (item profiles are exchanged) or disjoint items (user profiles are). In each
round every party runs local updates, sends its noisy profiles, and the server returns the average;
at last each party refines its own factors.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import InvalidSetting
from dpmc_core.mechanisms.dpimf import Coefficients, Dpimf, Profiles
from dpmc_core.model import Factors
from dpmc_core.privacy import CELL, Loss, Releases
from dpmc_core.protocol.costs import Cost
from dpmc_core.protocol.messages import Message, Transcript
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import check_settings, setting
from dpmc_core.solvers.implicit import binary_matrix, solve_rows, transposed

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SERVER = "server"
NOISY, AVERAGE = "noisy profiles", "average profiles"  # kinds of messages
_NUMBER = 8  # bytes of one number on the wire


@dataclass(frozen=True, kw_only=True)
class Federation:
    """Public settings of the flow.

    mechanism: the local update; its `profiles` says what is exchanged (items: the parties split
    the users; users: they split the items), its own rounds are not used. local: noisy solves a
    party runs in each round.
    """

    mechanism: Dpimf
    parties: int = setting(10, "parties that share out the users (or items)", at_least=1)
    rounds: int = setting(5, "exchanges with the server", at_least=1, at_most=10_000)
    local: int = setting(1, "noisy solves of a party in each round", at_least=1, at_most=10_000)

    def __post_init__(self) -> None:
        check_settings(self)

    def cost(self, public: PublicFacts) -> Cost:
        """Messages and bytes of the whole run by formula: profiles up and their average down."""
        return cost(self.parties, self.rounds, self.mechanism.rank, self.exchanged(public))

    def exchanged(self, public: PublicFacts) -> int:
        """How many profiles a message holds."""
        return public.items if self._by_users else public.users

    def budget(self, public: PublicFacts) -> BudgetLine:
        """What is claimed for one solve, and what the solves of all rounds add up to.

        Every cell is with one party, so the parties run side by side, and its solves add up. The
        sum takes the fixed factors as public in every solve; as they are refitted from the same
        rows, even that much is not certified once there is more than one solve. User profiles are
        never certified: each party's item factors are fitted to all users' raw rows, and every
        user's scores use them.
        """
        solves = self.rounds * self.local
        card = self.mechanism.guarantee(public)
        one = _solves(card.releases, 1)
        all_ = _solves(card.releases, solves)
        return BudgetLine(
            claimed=self.mechanism.epsilon,
            solves=solves,
            cell=one,
            cell_composed=all_,
            user_composed=all_ * min(public.cap or public.items, public.items),
            certified=solves == 1 and self._by_users and math.isfinite(one),
        )

    def split(self, ratings: Ratings, rng: np.random.Generator) -> list[Ints]:
        """The users (or items) of each party: a random even split."""
        owned = self._owned(ratings.public)
        if self.parties > owned:
            what = "users" if self._by_users else "items"
            raise InvalidSetting(
                "parties", f"at most the {owned} {what} to share out", self.parties
            )
        return [np.sort(part) for part in np.array_split(rng.permutation(owned), self.parties)]

    def run(
        self, ratings: Ratings, rng: np.random.Generator, *, keep: bool = True
    ) -> Iterator[Round]:
        """Play the flow, yielding after each round; the transcript grows along.

        keep: the messages with their profiles; without it they are only counted.
        """
        matrix = binary_matrix(ratings)
        if not self._by_users:
            matrix = transposed(matrix)
        parties = [
            _Party(f"party {k + 1}", owned, matrix[owned], rng.spawn(1)[0], self.mechanism)
            for k, owned in enumerate(self.split(ratings, rng))
        ]
        releases = self.mechanism.releases(matrix.shape[1])
        transcript = Transcript()
        shared: Floats | None = None

        def tell(sender: str, receiver: str, kind: str, profiles: Floats, round: int) -> None:
            message = _profiles(sender, receiver, kind, profiles, round)
            transcript.add_many(kind, 1, message.bytes)
            if keep:
                transcript.keep(message)

        for round in range(1, self.rounds + 1):
            sent = []
            for party in parties:
                sent.append(party.update(shared, releases, self.local))
                tell(party.name, SERVER, NOISY, sent[-1], round)
            shared = np.mean(sent, axis=0)
            for party in parties:
                tell(SERVER, party.name, AVERAGE, shared, round)
            yield Round(round, self._model(parties, shared, matrix.shape[0]), transcript)

    @property
    def _by_users(self) -> bool:
        return self.mechanism.profiles is Profiles.ITEMS

    def _owned(self, public: PublicFacts) -> int:
        return public.users if self._by_users else public.items

    def _model(self, parties: list[_Party], shared: Floats, rows: int) -> Factors:
        """Everybody's refined own factors beside the shared profiles."""
        own = np.zeros((rows, self.mechanism.rank))
        for party in parties:
            own[party.owned] = party.refine(shared)
        return Factors(own, shared) if self._by_users else Factors(shared, own)


def cost(parties: int, rounds: int, rank: int, profiles: int) -> Cost:
    """Messages and bytes when each party sends and receives so many profiles in every round."""
    messages = 2 * parties * rounds
    return Cost(messages, messages * _NUMBER * rank * profiles)


class Round(NamedTuple):
    """The state after a round: its number, the model after local refinement, all messages so far.

    The model joins the parties' own factors for evaluation; nobody holds it.
    """

    number: int
    model: Factors
    transcript: Transcript


class BudgetLine(NamedTuple):
    """The honest budget of a federated run.

    claimed: per solve, as published. cell, cell_composed: epsilon per user-item cell of one solve
    and of all, given public fixed factors (infinite where the clip is read off the data);
    user_composed: of a whole row. certified: whether the releases prove it.
    """

    claimed: float
    solves: int
    cell: float
    cell_composed: float
    user_composed: float
    certified: bool


@dataclass(eq=False)
class _Party:
    """One party: its own users (or items), their rows, and factors that never leave it."""

    name: str
    owned: Ints
    rows: csr_array
    rng: np.random.Generator
    mechanism: Dpimf
    factors: Floats = field(init=False)
    columns: csr_array = field(init=False)

    def __post_init__(self) -> None:
        self.columns = transposed(self.rows)
        self.factors = self.rng.random((len(self.owned), self.mechanism.rank))

    def update(self, shared: Floats | None, releases: Coefficients, local: int) -> Floats:
        """Local rounds of the party's own factors and noisy profiles; the last profiles leave."""
        profiles = shared
        for _ in range(local):
            if profiles is not None:
                self.factors = self.refine(profiles)
            profiles = self.mechanism.private_profiles(
                self.columns, self.factors, releases, self.rng
            )
        assert profiles is not None
        return profiles

    def refine(self, shared: Floats) -> Floats:
        """The party's own factors, fitted to its rows without noise."""
        return solve_rows(self.rows, shared, self.mechanism.loss)


def _solves(releases: Releases, count: int) -> float:
    """Epsilon per user-item cell of so many solves, taking the fixed factors as public."""
    each = (dataclasses.replace(release, times=count) for _, release in releases)
    return sum((r.loss(r.sensitivity.get(CELL, math.inf)) for r in each), Loss()).epsilon


def _profiles(sender: str, receiver: str, kind: str, profiles: Floats, round: int) -> Message:
    rows, d = profiles.shape
    return Message(
        sender=sender,
        receiver=receiver,
        kind=kind,
        bytes=_NUMBER * profiles.size,
        summary=f"{rows:,} profiles of length {d}, mean length {_mean_norm(profiles):.3g}",
        round=round,
        payload={"profiles": profiles},
    )


def _mean_norm(profiles: Floats) -> float:
    return float(np.linalg.norm(profiles, axis=1).mean())
