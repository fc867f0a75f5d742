"""Matrix factorization without a trusted recommender: what scenarios 2 and 3 of HXZ15 share.

HXZ15: Hua, Xia, Zhong, "Differentially Private Matrix Factorization" (2015). The paper's message
also carries a small fresh noise term per iteration. It is left out: the masks already hide single
gradients, the term is covered by no guarantee, and with it the result would no longer be that of
scenario 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmc_core.errors import BadRatings, DpmcError, InvalidSetting
from dpmc_core.mechanisms.factorization import DPMF, LinearTerm, NoiseForm
from dpmc_core.model import Factors
from dpmc_core.privacy import Guarantee, SharedLaplace, Shares, Trust
from dpmc_core.protocol.fixed_point import FixedPoint
from dpmc_core.protocol.messages import Transcript
from dpmc_core.protocol.parties import Recommender, ThirdParty, Users
from dpmc_core.protocol.wire import Wire
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import check_settings, setting
from dpmc_core.solvers.least_squares_mf import Sides, in_ball, in_points

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class ProtocolAborted(DpmcError):
    """A round that cannot go on without breaking its promise."""


@dataclass(frozen=True)
class Leaves:
    """Who leaves in the middle of which round, after receiving and before answering."""

    who: tuple[tuple[int, int], ...] = ()  # (round, user)

    def __str__(self) -> str:
        return ",".join(f"{round}:{user}" for round, user in self.who) or "nobody"

    @classmethod
    def parse(cls, text: str) -> Leaves:
        """ROUND:USER,... or 'nobody'. Raises InvalidSetting."""
        if text.strip().lower() in ("", "nobody"):
            return cls()
        try:
            pairs = [tuple(int(part) for part in word.split(":")) for word in text.split(",")]
        except ValueError:
            pairs = []
        if not pairs or any(len(p) != 2 or min(p) < 0 for p in pairs):
            raise InvalidSetting("leaves", "ROUND:USER[,ROUND:USER...] or nobody", text)
        return cls(tuple((p[0], p[1]) for p in pairs))

    def at(self, round: int) -> set[int]:
        """The users who leave in that round."""
        return {user for r, user in self.who if r == round}


class Skipped(NamedTuple):
    """Who and what takes no part, and why."""

    unrated: Ints  # items without a rating
    too_few: Ints  # items with too few raters to share noise or hide behind one another
    silent: Ints  # users without a rating
    unmade: Ints  # items for which too few users were there to make noise


@dataclass(frozen=True, kw_only=True)
class Distributed:
    """Public settings of a run."""

    scenario: ClassVar[str]
    title: ClassVar[str]
    epsilon: float = setting(help="privacy budget per rating", above=0, at_most=1e6)
    rank: int = setting(3, "length of a factor", at_least=1, at_most=200)
    user_penalty: float = setting(4.0, "ridge penalty on user factors", above=0, at_most=1e6)
    item_penalty: float = setting(4.0, "ridge penalty on item factors", above=0, at_most=1e6)
    shrink: bool = setting(True, "raise the item penalty with the noise (reads no data)")
    iterations: int = setting(20, "rounds of gradients", at_least=1, at_most=10_000)
    shares: Shares = setting(
        Shares.GAUSSIAN,
        "shares of the noise: Gaussian (published) or Gamma (hardened)",
        choices=tuple(m.value for m in Shares),
    )
    colluding: int = setting(
        0, "users per item who may collude or vanish (Gamma shares)", at_least=0, at_most=10_000
    )
    modulus_bits: int = setting(48, "P = 2^bits", at_least=8, at_most=64)
    fraction_bits: int = setting(20, "numbers are multiples of 2^-bits", at_least=0, at_most=62)
    leaves: Leaves = setting(
        Leaves(), "users who leave mid-round: ROUND:USER,... or nobody", parse=Leaves.parse
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if self.colluding and self.shares is Shares.GAUSSIAN:
            raise InvalidSetting("colluding", "0 with Gaussian shares: use gamma", self.colluding)
        _ = self.fixed

    @property
    def fixed(self) -> FixedPoint:
        return FixedPoint(modulus_bits=self.modulus_bits, fraction_bits=self.fraction_bits)

    @property
    def mechanism(self) -> DPMF:
        """Scenario 1 in its coordinate form, which a run imitates."""
        return DPMF(
            epsilon=self.epsilon,
            rank=self.rank,
            user_penalty=self.user_penalty,
            item_penalty=self.item_penalty,
            shrink=self.shrink,
            noise=NoiseForm.COORDINATE,
        )

    def guarantee(self, public: PublicFacts) -> Guarantee:
        """Scenario 1's card with the parties' trust and what each of them still sees."""
        card = self.mechanism.guarantee(public)
        known = (
            "the recommender draws how large the noise is, so what it sees is Gaussian noise of"
            " known size: the claim holds for outsiders, not against the recommender"
        )
        hardened = "each user knows the own share only; one sum holds Laplace noise to all others"
        return dataclasses.replace(
            card,
            trust=Trust.AGGREGATOR,
            source=f"HXZ15, scenario {self.scenario}",
            releases=LinearTerm(self.release(public)),
            caveats=(
                known if self.shares is Shares.GAUSSIAN else hardened,
                "the recommender sees the noisy sum of every round with the same noise, and"
                " differences of them give A, the sum of u u' over the factors u of an item's"
                " raters",
                "recommender and third party must not collude",
            ),
        )

    def release(self, public: PublicFacts) -> SharedLaplace:
        """Scenario 1's Laplace release, drawn by the users."""
        own = self.mechanism.guarantee(public).releases.linear_term
        return SharedLaplace(
            query=own.query,
            shape=own.shape,
            sensitivity=own.sensitivity,
            scale=own.scale,
            shares=self.shares,
            colluding=self.colluding,
        )

    def start(
        self,
        ratings: Ratings,
        rng: np.random.Generator,
        *,
        user_factors: Floats | None = None,
        watch: int | None = None,
    ) -> Run:
        """The parties before the first message.

        user_factors: users x rank, frozen for the run. Left out, the recommender draws the first
        item factors without looking at any data and each user fits the own factors to them at
        home; these first factors are also where the gradient steps begin.
        """
        return Run(self, ratings, rng, user_factors, watch)

    def messages(self, run: Run) -> Iterator[int]:
        """Play the protocol, yielding each finished round; subclasses say how."""
        raise NotImplementedError


class Run:
    """The parties, the wire, and what a simulation may look at but no party does."""

    def __init__(
        self,
        settings: Distributed,
        ratings: Ratings,
        rng: np.random.Generator,
        user_factors: Floats | None,
        watch: int | None,
    ) -> None:
        self.settings, self.public, fixed = settings, ratings.public, settings.fixed
        own, self.rng, masks, secrets = rng.spawn(4)
        mechanism = settings.mechanism
        self.sides: Sides = mechanism.sides(ratings)
        first = mechanism.first_items(ratings.public.items, own)
        if user_factors is None:
            user_factors = mechanism.fit_users(self.sides, first)
        elif user_factors.shape != (ratings.public.users, settings.rank):
            raise InvalidSetting(
                "shape of user_factors",
                f"({ratings.public.users}, {settings.rank})",
                user_factors.shape,
            )
        self.user_factors = in_ball(user_factors)
        self.release = settings.release(ratings.public)
        raters = np.bincount(ratings.items, minlength=ratings.public.items)
        self.skipped = Skipped(
            np.flatnonzero(raters == 0),
            np.flatnonzero((raters > 0) & (raters < self.release.fewest)),
            np.flatnonzero(np.diff(ratings.indptr) == 0),
            np.empty(0, dtype=np.int64),
        )
        part = raters[ratings.items] >= self.release.fewest
        if not part.any():
            raise BadRatings(
                f"every item has fewer than {self.release.fewest} raters, so nobody can hide:"
                " nothing is left to factorize"
            )
        for t, user in settings.leaves.who:
            if t > settings.iterations or user >= ratings.public.users:
                raise InvalidSetting(
                    "leaves",
                    f"ROUND:USER with rounds 0..{settings.iterations} and users"
                    f" 0..{ratings.public.users - 1}",
                    str(settings.leaves),
                )
        if watch is not None and (
            not 0 <= watch < len(raters) or raters[watch] < self.release.fewest
        ):
            raise InvalidSetting(
                "watched item", f"an item with at least {self.release.fewest} raters", watch
            )
        self.who = ratings.users[part].astype(np.int64)
        self.what = ratings.items[part].astype(np.int64)
        self.raters = raters
        self.active: Ints = np.flatnonzero(raters >= self.release.fewest)
        names = ratings.user_ids
        self.wire = Wire(
            self.who,
            self.what,
            fixed,
            watch,
            None if names is None else [f"user {name}" for name in names],
        )
        middle = (ratings.public.low + ratings.public.high) / 2
        self.users = Users(self.user_factors[self.who], ratings.values[part] - middle, fixed)
        self.recommender = Recommender(
            first.copy(), raters, mechanism.noisy_penalty(ratings.public), fixed, masks
        )
        self.third_party = ThirdParty(fixed, secrets)
        self.first = first
        self.noise = np.zeros_like(first)  # the noise the users' shares add up to
        self.steps: list[tuple[Ints, Ints]] = []  # of each round: pairs summed, items stepped
        self.sums: list[Floats] = []  # what the recommender reads off each round, items x d
        self.models: list[Floats] = [first.copy()]  # item factors before the round

    @property
    def transcript(self) -> Transcript:
        return self.wire.transcript

    @property
    def items(self) -> Floats:
        """The item factors as they stand; skipped items keep the first, data-free ones."""
        return self.recommender.items

    def play(self) -> Iterator[int]:
        """Exchange the messages, yielding the number of each finished round."""
        yield from self.settings.messages(self)

    def model(self) -> Factors:
        """What users predict with: the published item factors and own factors refitted to them."""
        items = self.items.copy()
        items[np.setdiff1d(np.arange(len(items)), self.active)] = 0.0
        users = self.settings.mechanism.fit_users(self.sides, items)
        return in_points(users, items, self.public)

    def finish_round(self, sums: Floats, pairs: Ints, where: Ints) -> None:
        """The recommender reads the sums and steps; the simulation remembers."""
        self.sums.append(sums)
        self.steps.append((pairs, where))
        self.recommender.step(sums[where], where)
        self.models.append(self.items.copy())


def reference_items(run: Run) -> Floats:
    """Scenario 1 by the same gradient steps in floating point: same noise, same attendance."""
    items = run.first.copy()
    penalty = run.recommender.penalty
    deviations = run.users.deviations
    for pairs, where in run.steps:
        own, group = run.users.factors[pairs], run.what[pairs]
        errors = np.einsum("pd,pd->p", own, items[group]) - deviations[pairs]
        slope = np.zeros_like(items)
        np.add.at(slope, group, 2 * errors[:, None] * own)
        slope += run.noise + 2 * penalty * items
        items[where] -= slope[where] / (2 * (run.raters[where] + penalty))[:, None]
    return items
