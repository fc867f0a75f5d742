"""Run the federated flow of RYHH24 (Algorithm 1), message by message.

RYHH24: Ran, Ye, Huang, Hu, "Differentially Private Implicit Matrix Factorization" (2024). K parties
hold disjoint users (item profiles are exchanged) or disjoint items (user profiles are). In each
round every party runs local updates and sends its noisy profiles, and the server returns their
average over all parties. The paper averages a profile over the parties that have its item (or user)
in I(k), but a party that sends none tells that it has none. Finally each party refines its own
factors. The module also measures and counts a whole run
on a problem.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dpmc_core.arrays import Floats, Ints, JsonObject, Rng, Sparse
from dpmc_core.errors import InvalidSetting, check_number, unknown_name_error
from dpmc_core.experiment import build_baselines
from dpmc_core.mechanisms.dpimf import Coefficients, Dpimf, Profiles
from dpmc_core.model import Factors, Task
from dpmc_core.privacy import CELL, Change
from dpmc_core.problem import Problem, create_generator
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.registry import MECHANISMS, create
from dpmc_core.settings import check_settings, list_settings, setting
from dpmc_core.solvers.factorization import binary_matrix, solve_implicit_rows
from dpmc_lab.protocol import WORD_BYTES, Message, Traffic, Transcript, format_vector
from dpmc_lab.protocol.simulate import (
    collect_settings,
    describe_problem_data,
    evaluate_with_baselines,
    report_communication,
)

FLOW = "federated"
TITLE = "parties send noisy profiles, a server averages them"
SERVER = "server"
NOISY_PROFILES, AVERAGE_PROFILES = "noisy profiles", "average profiles"  # kinds of messages
VARIANTS = tuple(id for id, cls in MECHANISMS.items() if issubclass(cls, Dpimf))
PAPER_SETTINGS: JsonObject = {"parties": 10, "rounds": 100, "local": 20}  # RYHH24, section VI-A


@dataclass(frozen=True, kw_only=True)
class Federation:
    """Public settings of the flow.

    Attributes:
        mechanism: the local update. Its `profiles` says what is exchanged (items: the parties split
            the users; users: they split the items); its own rounds are not used.
        parties: number of parties.
        rounds: exchanges with the server.
        local: noisy solves of a party in each round.
    """

    mechanism: Dpimf
    parties: int = setting(10, "parties that share out the users (or items)", at_least=1)
    rounds: int = setting(5, "exchanges with the server", at_least=1, at_most=10_000)
    local: int = setting(1, "noisy solves of a party in each round", at_least=1, at_most=10_000)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.rounds * self.local > 10_000:
            raise InvalidSetting("rounds x local", "at most 10,000", self.rounds * self.local)

    @property
    def owned_axis(self) -> Profiles:
        """Return what the parties split, which is not what they exchange."""
        return Profiles.USERS if self.mechanism.profiles is Profiles.ITEMS else Profiles.ITEMS

    def predict_traffic(self, public: PublicFacts) -> Traffic:
        """Return by formula the traffic of the whole run: profiles up and their average down."""
        messages = 2 * self.parties * self.rounds
        profiles = count_profiles(public, self.mechanism.profiles)
        return Traffic(messages, messages * WORD_BYTES * self.mechanism.rank * profiles)

    def account_budget(self, public: PublicFacts) -> FederatedBudget:
        """Return what is claimed for one solve, and what the solves of all rounds add up to.

        Every cell belongs to one party, so the budgets of different parties do not add up; those of
        a party's solves do. The sum is what holds if the factors that a solve keeps fixed were
        public. As they are refitted from the same rows, the sum of several solves is not certified.
        User profiles are never certified: each party's item factors are fitted to all users' raw
        rows, and every user's scores use them. For a whole row, the sum counts the change of the
        mechanism's own guarantee.
        """
        solves = self.rounds * self.local
        guarantee = dataclasses.replace(self.mechanism, rounds=solves).guarantee(public)
        single_guarantee = dataclasses.replace(self.mechanism, rounds=1).guarantee(public)
        one_solve = dataclasses.replace(single_guarantee, unaccounted=())  # given the fixed factors
        all_solves = one_solve.repeat(solves)
        return FederatedBudget(
            claimed=self.mechanism.epsilon,
            solves=solves,
            cell=one_solve.certified(CELL).epsilon,
            cell_composed=all_solves.certified(CELL).epsilon,
            user_composed=all_solves.certified(guarantee.change).epsilon,
            certified=guarantee.certified().finite,
            change=guarantee.change,
        )

    def split(self, ratings: Ratings, rng: Rng) -> list[Ints]:
        """Return the users (or items) of each party, as a random even split.

        Raises:
            InvalidSetting: there are more parties than users (or items).
        """
        n_owned = count_profiles(ratings.public, self.owned_axis)
        if self.parties > n_owned:
            raise InvalidSetting(
                "parties",
                f"at most the {n_owned} {self.owned_axis.value} to share out",
                self.parties,
            )
        return [np.sort(share) for share in np.array_split(rng.permutation(n_owned), self.parties)]


class FederatedRun:
    """A run of the federated flow: the parties, and all their messages, counted.

    Args:
        flow: the settings.
        ratings: the clicks.
        rng: random numbers of all parties.
        watch: index of the profile that messages show in words; messages are kept only if given.

    Raises:
        InvalidSetting: there are too many parties.
    """

    def __init__(
        self,
        flow: Federation,
        ratings: Ratings,
        rng: Rng,
        *,
        watch: int | None = None,
    ) -> None:
        self.flow = flow
        self.public = ratings.public
        self.watch = watch
        if watch is not None:
            last_index = count_profiles(ratings.public, flow.mechanism.profiles) - 1
            check_number("watched profile", watch, at_least=0, at_most=last_index, integer=True)
        matrix = binary_matrix(ratings)
        if flow.owned_axis is Profiles.ITEMS:
            matrix = matrix.T.tocsr()
        self.parties = [
            _Party(
                f"party {k + 1}",
                owned_indices,
                matrix[owned_indices],
                rng.spawn(1)[0],
                flow.mechanism,
            )
            for k, owned_indices in enumerate(flow.split(ratings, rng))
        ]
        self.releases = flow.mechanism.build_releases(matrix.shape[1])
        self.transcript = Transcript()
        self.finished = 0  # rounds
        self.shared: Floats | None = None  # the profiles that the server returned last

    def play(self) -> Iterator[int]:
        """Exchange the messages, yielding the number of each finished round."""
        for round in range(1, self.flow.rounds + 1):
            sent = []
            for party in self.parties:
                sent.append(party.update(self.shared, self.releases, self.flow.local))
                self._send(party.name, SERVER, NOISY_PROFILES, sent[-1], round)
            self.shared = np.mean(sent, axis=0)
            for party in self.parties:
                self._send(SERVER, party.name, AVERAGE_PROFILES, self.shared, round)
            self.finished = round
            yield round

    def build_model(self) -> Factors:
        """Return the refined local factors of all parties, with the shared profiles.

        There must be at least one finished round. The model is only for evaluation; no party holds
        it.
        """
        assert self.shared is not None
        local_factors = np.zeros(
            (count_profiles(self.public, self.flow.owned_axis), self.flow.mechanism.rank)
        )
        for party in self.parties:
            local_factors[party.owned_indices] = party.refine(self.shared)
        if self.flow.owned_axis is Profiles.USERS:
            return Factors(local_factors, self.shared)
        return Factors(self.shared, local_factors)

    def _send(self, sender: str, receiver: str, kind: str, profiles: Floats, round: int) -> None:
        """Count a message with profiles, and keep it if a profile is watched.

        Args:
            sender, receiver: names of the parties.
            kind: of the message.
            profiles: array of shape (n_profiles, rank).
            round: number of the round.
        """
        n_bytes = WORD_BYTES * profiles.size
        self.transcript.count_messages(kind, Traffic(1, n_bytes))
        if self.watch is not None:
            summary = f"profile {self.watch}: {format_vector(profiles[self.watch], '.3g')}"
            self.transcript.append(
                Message(sender, receiver, kind, n_bytes, summary, round, {"profiles": profiles})
            )


def count_profiles(public: PublicFacts, axis: Profiles) -> int:
    """Return the number of users, or of items."""
    return public.users if axis is Profiles.USERS else public.items


class FederatedBudget(NamedTuple):
    """The budget of a federated run.

    Attributes:
        claimed: epsilon per solve, as published.
        solves: number of solves of a party.
        cell, cell_composed: epsilon per user-item cell of one solve and of all, given public fixed
            factors (infinite where the clip is read off the data).
        user_composed: epsilon of `change`, the change of a row in the mechanism's guarantee, for
            all solves.
        certified: whether the releases prove it.
        change: how the data sets differ.
    """

    claimed: float
    solves: int
    cell: float
    cell_composed: float
    user_composed: float
    certified: bool
    change: Change

    def as_dict(self) -> JsonObject:
        """Return plain JSON values, with null for what is infinite."""
        numbers = self._asdict()
        change = numbers.pop("change")
        values = {name: None if math.isinf(value) else value for name, value in numbers.items()}
        return values | {"neighbours": change.neighbours}


@dataclass(eq=False)
class _Party:
    """One party: its users (or items), their rows, and factors that never leave it.

    Attributes:
        name: of the party.
        owned_indices: array of shape (n_owned,), indices of its users (or items).
        rows: matrix of shape (n_owned, n_profiles), their clicks.
        rng: random numbers of the party.
        mechanism: the local update.
        factors: array of shape (n_owned, rank), which start at random.
        columns: the transpose of `rows`.
    """

    name: str
    owned_indices: Ints
    rows: Sparse
    rng: Rng
    mechanism: Dpimf
    factors: Floats = field(init=False)
    columns: Sparse = field(init=False)

    def __post_init__(self) -> None:
        self.columns = self.rows.T.tocsr()
        self.factors = self.rng.random((len(self.owned_indices), self.mechanism.rank))

    def update(self, shared: Floats | None, releases: Coefficients, local: int) -> Floats:
        """Fit factors and noisy profiles in turn `local` times, and return the last profiles.

        The first profiles of a run are fitted to random factors.

        Args:
            shared: array of shape (n_profiles, rank), the server's average; None in the first
                round.
            releases: the releases of the profiles' coefficients.
            local: number of noisy solves.
        """
        profiles = shared
        for _ in range(local):
            if profiles is not None:
                self.factors = self.refine(profiles)
            profiles = self.mechanism.solve_private_profiles(
                self.columns, self.factors, releases, self.rng
            )
        assert profiles is not None
        return profiles

    def refine(self, shared: Floats) -> Floats:
        """Return the party's factors, fitted to its rows without noise."""
        return solve_implicit_rows(self.rows, shared, self.mechanism.loss)


def build_federation(variant: str, epsilon: float, **settings: Any) -> Federation:
    """Build the flow with a variant of DPIMF, whose guarantee counts the solves of all rounds.

    Args:
        variant: id of the mechanism.
        epsilon: claimed budget per solve.
        **settings: of the flow and of the variant; `rounds` is that of the flow.

    Raises:
        InvalidSetting: a setting is not valid.
    """
    if variant not in VARIANTS:
        raise unknown_name_error("mechanism", variant, VARIANTS)
    names = [s.name for s in list_settings(Federation) if s.name in settings]
    flow_settings = {name: settings.pop(name) for name in names}
    mechanism = create(variant, epsilon=epsilon, **settings)
    assert isinstance(mechanism, Dpimf)
    flow = Federation(mechanism=mechanism, **flow_settings)
    accounted = dataclasses.replace(mechanism, rounds=flow.rounds * flow.local)
    return dataclasses.replace(flow, mechanism=accounted)


def start_federated_run(
    flow: Federation, problem: Problem, seed: int, *, watch: int | None = None
) -> FederatedRun:
    """Return a run on the training ratings, before its first message.

    Args:
        flow: the settings.
        problem: the training and test ratings.
        seed: of the run.
        watch: index of the profile that messages show in words, if any.

    Raises:
        DpmcError: the ratings do not fit the flow.
    """
    rng = create_generator(seed, f"federated flow on {problem.train.fingerprint}")
    return FederatedRun(flow, problem.train, rng, watch=watch)


def report_federated_run(run: FederatedRun, problem: Problem, seed: int) -> JsonObject:
    """Report a run as plain JSON values.

    Everything about raw ratings is for evaluation only.

    Args:
        run: a finished run.
        problem: what it ran on.
        seed: of the run.
    """
    mechanism = run.flow.mechanism
    public = run.public
    return {
        "scenario": FLOW,
        "title": TITLE,
        "mechanism": mechanism.id,
        "data": describe_problem_data(problem),
        "settings": collect_settings(mechanism, run.flow),
        "seed": seed,
        "guarantee": mechanism.guarantee(public).as_dict(),
        "budget": run.flow.account_budget(public).as_dict(),
        "rounds": run.finished,
        **evaluate_with_baselines(
            Task.RANKING, run.build_model(), problem, seed, build_baselines(mechanism)
        ),
        "communication": report_communication(run.transcript, run.flow.predict_traffic(public)),
    }
