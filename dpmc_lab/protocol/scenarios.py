"""Factorize a matrix without a trusted recommender: scenarios 2 and 3 of HXZ15.

HXZ15: Hua, Xia, Zhong, "Differentially Private Matrix Factorization" (2015). Scenario 1 is the
mechanism `DPMF`, with a trusted recommender. In scenario 2 the same users take part in every round.
In scenario 3 users come and go.

What is promised. Hold the user factors u of a phase constant, each of length at most 1. One rating
then moves, whatever u is, one item's linear term -2 sum r u by at most 2 width in l2, and by
sqrt(rank) times that in l1. It moves nothing else: A, the sum of u u', and the gradients 2 A v of
any v are functions of u. So all sums of a phase, of any number of rounds, follow from one noisy
linear term. The next phase has fresh noise, even where its u are chosen after seeing this phase's
item factors: epsilons of adaptive releases add up. The promise does not cover a u that is fitted to
the ratings: through u one rating moves A and the linear term of every item that its user rated
(`Unaccounted`).

The paper's message also carries a small fresh noise rho(t) per iteration, which is left out here.
Our source, a summary, does not say how large it is. With constant u it would protect nothing, since
the sums already follow from one noisy linear term. With fitted u it would have to hide A, and any
noise of a fixed size is negligible if the recommender sends a long v.

User factors are refitted in phases, or passed in. The paper's distributed scenarios need factors
that no server has fitted. In each phase, every user refits the user factors on the own device to
the item factors published last. Every phase publishes item factors anew with fresh noise. This is a
release of its own, paid for with a share of epsilon.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpmc_core.arrays import Bools, Floats, Ints, Rng, Uint64s
from dpmc_core.errors import BadRatings, DpmcError, InvalidSetting
from dpmc_core.mechanisms.factorization import DPMF, NoiseForm
from dpmc_core.model import Factors
from dpmc_core.privacy import Guarantee, Releases, SharedLaplace, Shares, Trust, Unaccounted
from dpmc_core.privacy.accounting import Loss
from dpmc_core.privacy.shares import min_group_size
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import check_settings, inherit_setting, setting
from dpmc_core.solvers.factorization import PublicUserFactors, RatingMatrices
from dpmc_core.solvers.rows import clip_dense_rows, factors_with_offsets
from dpmc_data.public_inputs import read_array
from dpmc_lab.protocol import (
    RECOMMENDER,
    THIRD_PARTY,
    USERS,
    FixedPoint,
    Traffic,
    Transcript,
    Wire,
)

SETUP = "noise set-up"
MODEL = "item factors"
ANSWER = "gradient"
SUM = "sum"
HIDDEN_SHARE = "hidden share"
HIDDEN_NOISE = "hidden noise"
ONLINE = "online"
RESTART = "restart"
PUBLISHED = "published factors"
# Why items and users take no part, as a report says it.
UNRATED_ITEMS = "items nobody rated"
RARE_ITEMS = "items with too few raters"  # to share noise or hide behind one another
NOISELESS_ITEMS = "items too few were there to make noise for"
SILENT_USERS = "users without ratings"


# --- phases -------------------------------------------------------------------------------------

# These constants were chosen on generated ratings, with knowledge of the errors on movie-night, and
# confirmed on shapes that had not been used before.
MAX_PHASES = 14  # phases by the rule
_ONE_PHASE_LIMIT = 1270.0  # epsilon x users / sqrt(rank) up to which one phase is best
_PHASES_PER_DOUBLING = 2.0  # phases for each doubling of it
GROWTH = 1.3  # a phase's share of epsilon, times that of the phase before


def choose_phase_count(epsilon: float, users: int, rank: int) -> int:
    """Return over how many phases the epsilon of a rating is best split, by a rule of thumb.

    Noise on an item's factors grows with sqrt(rank) / epsilon and counts less the more users rate
    the item, so the number of phases grows with epsilon * users / sqrt(rank).

    Args:
        epsilon: budget of one rating.
        users: number of users.
        rank: number of factors.
    """
    doublings = math.log2(epsilon * users / (_ONE_PHASE_LIMIT * math.sqrt(rank)))
    return min(max(1 + round(_PHASES_PER_DOUBLING * doublings), 1), MAX_PHASES)


@dataclass(frozen=True)
class HeldUserFactors:
    """User factors passed in and held for the whole run: 'pmf', 'random:SEED' or a .npy file.

    The factors of PMF are fitted to the same ratings, without noise, by a party that has all of
    them.
    """

    source: str

    def __str__(self) -> str:
        return self.source

    @classmethod
    def parse(cls, text: str) -> HeldUserFactors:
        """Parse the source of the factors.

        Raises:
            InvalidSetting: the text is none of the three.
        """
        if text != "pmf":
            try:
                PublicUserFactors.parse(text)
            except InvalidSetting as error:
                raise InvalidSetting("user_factors", f"pmf, {error.limit}", text) from None
        return cls(text)

    @property
    def public(self) -> PublicUserFactors | None:
        """Return the factors as scenario 1 has them; None for factors fitted to the ratings."""
        return None if self.source == "pmf" else PublicUserFactors(self.source)

    def load(
        self, mechanism: DPMF, rating_matrices: RatingMatrices, public: PublicFacts, rng: Rng
    ) -> Floats:
        """Load or fit the factors.

        Args:
            mechanism: scenario 1, which fits the factors of 'pmf'.
            rating_matrices: the ratings to fit.
            public: public facts of the ratings.
            rng: random numbers of the fit.

        Returns:
            Array of shape (n_users, rank), with rows of length at most 1.

        Raises:
            InvalidSetting: a file does not fit.
        """
        if self.public is not None:
            return read_array("user_factors", self.public).build(public.users, mechanism.rank)
        *_, (users, _) = mechanism.alternate(rating_matrices, rng)
        return users


# --- the parties, each with what no other party knows --------------------------------------------
#
# One object holds all users. Each user's row of every array stands for that user's own memory.


@dataclass(eq=False)
class Users:
    """Ratings, user factors and noise of all users; nobody else sees any of it.

    Attributes:
        factors: array of shape (n_pairs, rank), the user's factors for each (user, item) pair.
        deviations: array of shape (n_pairs,), ratings minus the middle of the range.
        fixed_point: encoding of numbers in messages.
        linear: array of shape (n_pairs, rank), the gradient's term without item factors, -2 r u; in
            scenario 2 with the user's share of noise.
    """

    factors: Floats
    deviations: Floats
    fixed_point: FixedPoint
    linear: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.linear = -2 * self.deviations[:, None] * self.factors

    def gradient(self, pairs: Ints, items: Floats) -> Floats:
        """Return the gradient 2 (u'v - r) u of each pair, with the user's share of noise if drawn.

        Here u are the user's factors, v the item's, and r is the rating's deviation.

        Args:
            pairs: array of shape (n,), indices of the pairs.
            items: array of shape (n, rank), the item factors sent.
        """
        user_factors = self.factors[pairs]
        slope: Floats = (
            2 * np.einsum("pd,pd->p", user_factors, items)[:, None] * user_factors
            + self.linear[pairs]
        )
        return slope

    def answer_gradients(
        self, pairs: Ints, items: Floats, addends: Ints, *masks: Uint64s
    ) -> Uint64s:
        """Return the gradients in fixed point plus masks or pieces of the noise, mod P.

        Args:
            pairs: array of shape (n,), indices of the pairs.
            items: array of shape (n, rank), the item factors sent.
            addends: array of shape (n,), how many numbers each pair's item sums.
            *masks: arrays of shape (n, rank), integers mod P that the recommender sent.

        Raises:
            InvalidSetting: a sum could wrap around.
        """
        message = self.fixed_point.encode(
            self.gradient(pairs, items), addends[:, None], "a user's gradient"
        )
        for mask in masks:
            message = self.fixed_point.reduce(message + mask)
        return message


@dataclass(eq=False)
class Recommender:
    """The party that holds the item factors, draws masks and removes them from the sums.

    Attributes:
        items: array of shape (n_items, rank), the item factors.
        raters: array of shape (n_items,), number of users who rated each item.
        fixed_point: encoding of numbers in messages.
        rng: random numbers of the recommender.
        penalty: ridge penalty on item factors in the current phase.
        noise: in scenario 3, array of shape (n_items, rank), noise plus the third party's secret,
            mod P.
    """

    items: Floats
    raters: Ints
    fixed_point: FixedPoint
    rng: Rng
    penalty: float = 0.0
    noise: Uint64s | None = None

    def sample_masks(self, count: int) -> Uint64s:
        """Draw uniform numbers mod P, one row for each of `count` users."""
        return self.fixed_point.sample_uniform((count, self.items.shape[1]), self.rng)

    def split_noise(self, groups: Ints) -> Uint64s:
        """Split the hidden noise of each item into random pieces that add up to it mod P.

        Args:
            groups: array of shape (n,), the item of each user who gets a piece.

        Returns:
            Array of shape (n, rank).
        """
        assert self.noise is not None
        noise_pieces = self.sample_masks(len(groups))
        # The first user of each item gets the noise minus the random pieces of the others.
        present, first = np.unique(groups, return_index=True)
        noise_pieces[first] = 0
        totals = self.fixed_point.sum_groups(noise_pieces, groups, len(self.items))
        noise_pieces[first] = self.fixed_point.reduce(self.noise[present] - totals[present])
        return noise_pieces

    def unmask(self, sums: Uint64s, masks: Uint64s, groups: Ints) -> Uint64s:
        """Return the sums without the masks that this party sent to the users, mod P.

        Args:
            sums: array of shape (n_items, rank).
            masks: array of shape (n, rank), the mask of each user in the sums.
            groups: array of shape (n,), the item of each of these users.
        """
        return self.fixed_point.reduce(
            sums - self.fixed_point.sum_groups(masks, groups, len(self.items))
        )

    def step(self, gradients: Floats, indices: Ints) -> None:
        """Make a gradient step on some items.

        The step size for k raters is 1 / (2 (k + penalty)), the reciprocal of a bound on the
        curvature.

        Args:
            gradients: array of shape (n, rank), without the term of the penalty.
            indices: array of shape (n,), the items.
        """
        factors = self.items[indices]
        gradient = gradients + 2 * self.penalty * factors
        self.items[indices] = (
            factors - gradient / (2 * (self.raters[indices] + self.penalty))[:, None]
        )


@dataclass(eq=False)
class ThirdParty:
    """The party that adds up what users send, and knows neither the masks nor the ratings.

    Attributes:
        secret: array of shape (n_items, rank), integers mod P; in scenario 3 the paper's alpha, in
            scenario 2 zeros.
        fixed_point: encoding of numbers in messages.
        rng: random numbers of the third party.
    """

    secret: Uint64s
    fixed_point: FixedPoint
    rng: Rng

    def add_answers(self, integers: Uint64s, groups: Ints) -> Uint64s:
        """Return the sum of the users' answers for each item, mod P.

        Args:
            integers: array of shape (n, rank), the answers.
            groups: array of shape (n,), the item of each answer.

        Returns:
            Array of shape (n_items, rank).
        """
        return self.fixed_point.sum_groups(integers, groups, len(self.secret))


# --- settings -----------------------------------------------------------------------------------


class ProtocolAborted(DpmcError):
    """A round cannot go on without breaking its promise."""


@dataclass(frozen=True)
class Departures:
    """Users who leave in the middle of a round, after receiving and before answering.

    Attributes:
        departures: pairs of a round and the index of a user; round 0 is the set-up.
    """

    departures: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        return ",".join(f"{round}:{user}" for round, user in self.departures) or "nobody"

    @classmethod
    def parse(cls, text: str) -> Departures:
        """Parse ROUND:USER,... or 'nobody'.

        Raises:
            InvalidSetting: the text is neither.
        """
        if text.strip().lower() in ("", "nobody"):
            return cls()
        departures = []
        for word in text.split(","):
            try:
                round, user = map(int, word.split(":"))
            except ValueError:
                round = user = -1
            if min(round, user) < 0:
                raise InvalidSetting("leaves", "ROUND:USER[,ROUND:USER...] or nobody", text)
            departures.append((round, user))
        return cls(tuple(departures))


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Public settings of a run, and the order of its messages.

    Attributes:
        number: of the scenario in the paper.
        title: of the scenario.
        addends: how many numbers of each user one sum has.
    """

    number: ClassVar[str]
    title: ClassVar[str]
    addends: ClassVar[int] = 1
    epsilon: float = inherit_setting(DPMF, "epsilon")
    rank: int = inherit_setting(DPMF, "rank")
    user_penalty: float = inherit_setting(DPMF, "user_penalty")
    item_penalty: float = inherit_setting(DPMF, "item_penalty")
    shrink: bool = inherit_setting(DPMF, "shrink")
    iterations: int = setting(20, "rounds of gradients in a phase", at_least=1, at_most=10_000)
    phases: int | None = setting(
        None,
        "how often item factors are published, users refitting theirs in between (none: by a rule"
        " from epsilon, users and rank)",
        at_least=1,
        at_most=50,
    )
    growth: float = setting(
        GROWTH, "a phase's part of epsilon, times that of the one before", at_least=0.1, at_most=10
    )
    user_factors: HeldUserFactors | None = setting(
        None,
        "hold these for one phase: pmf (fitted on the same ratings), or what you vouch is public,"
        " random:SEED or a .npy file of users x rank (none: refitted in phases)",
        parse=HeldUserFactors.parse,
    )
    shares: Shares = setting(
        Shares.GAUSSIAN, "shares of the noise: Gaussian (published) or Gamma (hardened)"
    )
    colluding: int = setting(
        0, "users per item who may collude or vanish (Gamma shares)", at_least=0, at_most=10_000
    )
    modulus_bits: int = setting(48, "P = 2^bits", at_least=8, at_most=64)
    fraction_bits: int = setting(20, "numbers are multiples of 2^-bits", at_least=0, at_most=62)
    leaves: Departures = setting(
        Departures(), "users who leave mid-round: ROUND:USER,... or nobody", parse=Departures.parse
    )

    def __post_init__(self) -> None:
        check_settings(self)
        self.shares.check_colluding(self.colluding)
        if self.user_factors is not None and self.phases not in (None, 1):
            raise InvalidSetting("phases", "1 where user factors are passed in", self.phases)
        _ = self.fixed_point  # raises an error if the bits do not fit

    @property
    def fixed_point(self) -> FixedPoint:
        """Return the encoding of numbers in messages."""
        return FixedPoint(modulus_bits=self.modulus_bits, fraction_bits=self.fraction_bits)

    @property
    def mechanism(self) -> DPMF:
        """Return the mechanism of scenario 1 that a run imitates.

        It has noise on each coordinate and all of epsilon.
        """
        return DPMF(
            epsilon=self.epsilon,
            rank=self.rank,
            user_penalty=self.user_penalty,
            item_penalty=self.item_penalty,
            shrink=self.shrink,
            noise=NoiseForm.COORDINATE,
            user_factors=None if self.user_factors is None else self.user_factors.public,
        )

    def count_phases(self, users: int) -> int:
        """Return the number of phases: the setting, or else by the rule of `choose_phase_count`."""
        if self.user_factors is not None:
            return 1
        return self.phases or choose_phase_count(self.epsilon, users, self.rank)

    def phase_mechanisms(self, users: int) -> tuple[DPMF, ...]:
        """Return the mechanism of scenario 1 for each phase, with the phase's share of epsilon."""
        weights = (self.growth**k for k in range(self.count_phases(users)))
        budgets = Loss(self.epsilon).split(*weights)
        return tuple(
            dataclasses.replace(self.mechanism, epsilon=budget.epsilon) for budget in budgets
        )

    def guarantee(self, public: PublicFacts) -> Guarantee:
        """Return the guarantee of a run: that of scenario 1, with a release for each phase.

        Its caveats state what the parties see.
        """
        base_guarantee: Guarantee = self.mechanism.guarantee(public)
        terms = self.releases(public)
        gaussian_caveat = (
            "the recommender draws how large the noise is, so what it sees is Gaussian noise of"
            " known size: the claim holds for outsiders, not against the recommender"
        )
        hardened_caveat = (
            "each user knows the own share only; one sum holds Laplace noise to all others"
        )
        combined = dataclasses.replace(
            base_guarantee,
            trust=Trust.AGGREGATOR,
            source=f"HXZ15, scenario {self.number}",
            releases=LinearTerms(terms),
            # The first entry of scenario 1 is about user factors that a server fits once.
            unaccounted=_REFITTED + base_guarantee.unaccounted[1:]
            if self.user_factors is None
            else base_guarantee.unaccounted,
            caveats=(
                *base_guarantee.caveats,
                gaussian_caveat if self.shares is Shares.GAUSSIAN else hardened_caveat,
                *((_A_CAVEAT,) if base_guarantee.unaccounted else ()),
                "recommender and third party must not collude",
            ),
        )
        return dataclasses.replace(
            combined, caveats=(*_describe_cost(combined, terms), *combined.caveats)
        )

    def releases(self, public: PublicFacts) -> tuple[SharedLaplace, ...]:
        """Return each phase's release: the one of `DPMF`, but users draw its Laplace noise."""
        base_terms = [
            phase_mechanism.guarantee(public).releases.linear_term
            for phase_mechanism in self.phase_mechanisms(public.users)
        ]
        return tuple(
            SharedLaplace(
                query=term.query + (f", phase {k}" if len(base_terms) > 1 else ""),
                shape=term.shape,
                sensitivity=term.sensitivity,
                scale=term.scale,
                shares=self.shares,
                colluding=self.colluding,
            )
            for k, term in enumerate(base_terms, 1)
        )

    def play_rounds(self, run: ScenarioRun) -> Iterator[int]:
        """Exchange the messages of the current phase, yielding the number of each finished round.

        A round may take several attempts, whose sums are over different items.

        Raises:
            ProtocolAborted: a round cannot go on.
        """
        members = self._make_noise(run)
        n_prior = run.phase.n_prior_rounds
        for t in range(n_prior + 1, n_prior + self.iterations + 1):
            pairs = self._select_attending(run, t, members)
            sums = np.zeros_like(run.items)
            summed = [pairs[:0]]
            for queried, is_gone, is_summed in self._iterate_attempts(run, pairs, t):
                group = run.item_of_pair[queried]
                payload = self._build_hiding_payload(run, group)
                answers = run.exchange(
                    t, queried, is_gone, self.addends * run.raters[group], payload
                )
                self._handle_departures(run, t, queried[is_gone])
                masks = payload.get("mask", np.zeros_like(answers))
                # In scenario 3 the pieces of noise hold the secret; -secret removes it, mod P.
                secret = -run.third_party.secret
                total = run.add_up(
                    SUM, t, group[is_summed], answers[is_summed], masks[is_summed], secret
                )
                sums += self.fixed_point.decode(total)
                summed.append(queried[is_summed])
            run.finish_round(sums, np.concatenate(summed))
            yield t

    def _make_noise(self, run: ScenarioRun) -> Ints:
        """Let the users draw the noise of a phase, and return the pairs that take part in it."""
        raise NotImplementedError

    def _select_attending(self, run: ScenarioRun, t: int, pairs: Ints) -> Ints:  # noqa: ARG002
        """Return the pairs that are queried in a round.

        Args:
            run: the run.
            t: number of the round.
            pairs: indices of the pairs that take part in the phase.
        """
        return pairs

    def _iterate_attempts(
        self, run: ScenarioRun, pairs: Ints, t: int
    ) -> Iterator[tuple[Ints, Bools, Bools]]:
        """Yield, for each attempt of a round, the queried pairs, who leaves, and who is summed.

        Args:
            run: the run.
            pairs: indices of the pairs to query.
            t: number of the round; 0 for the set-up.

        Yields:
            Indices of pairs; for each, whether its user leaves; and whether its answer is summed.
        """
        is_gone = run.find_leaving(pairs, t)
        yield pairs, is_gone, ~is_gone

    def _build_hiding_payload(self, run: ScenarioRun, groups: Ints) -> dict[str, Uint64s]:
        """Draw what users add to their gradients to hide them, by name.

        Args:
            run: the run.
            groups: array of shape (n,), the item of each user.

        Returns:
            Arrays of shape (n, rank).
        """
        raise NotImplementedError

    def _handle_departures(self, run: ScenarioRun, t: int, pairs: Ints) -> None:
        """React to users who left in the middle of a round; here nothing happens.

        Args:
            run: the run.
            t: number of the round; 0 for the set-up.
            pairs: indices of the pairs whose users left.
        """

    def predict_traffic(self, raters: Ints, users: int) -> dict[str, Traffic]:
        """Return the traffic of a whole run by kind of message, with everybody always present.

        Args:
            raters: number of users per item; items with too few of them cost nothing.
            users: number of all users.
        """
        shared_raters = raters[raters >= min_group_size(self.colluding)]
        pairs = int(shared_raters.sum())
        n_queried = int(self.count_queried(shared_raters).sum())
        items = len(shared_raters)
        phases = self.count_phases(users)
        rank = self.rank
        rounds = phases * self.iterations
        n_mixing = rank if self.shares is Shares.GAUSSIAN else 0
        n_setup, n_model = self._count_message_numbers()
        return {
            SETUP: Traffic.from_messages(phases * n_queried, n_setup + n_mixing),
            MODEL: Traffic.from_messages(rounds * n_queried, n_model),
            ANSWER: Traffic.from_messages(rounds * n_queried, rank),
            SUM: Traffic.from_messages(rounds * items, rank),
            PUBLISHED: Traffic.from_messages(phases * pairs, rank),
        }

    def count_queried(self, raters: Ints) -> Ints:
        """Return how many of each item's raters are queried in a round where all are online."""
        return raters

    def _count_message_numbers(self) -> tuple[int, int]:
        """Return how many numbers two kinds of messages hold.

        These are a set-up message, without the mixing variables H, and one with item factors.
        """
        raise NotImplementedError

    @property
    def has_full_attendance(self) -> bool:
        """Return whether everybody is always present, as `predict_traffic` assumes."""
        return not self.leaves.departures


@dataclass(frozen=True)
class LinearTerms(Releases):
    """The linear terms of all items, once for each phase."""

    linear_term: tuple[SharedLaplace, ...]


_REFITTED = (
    Unaccounted(
        "user factors, refitted at home to the own ratings",
        "the proof holds them constant; through them one rating moves every item its user rated",
    ),
)
_A_CAVEAT = (
    "the recommender sees the noisy sum of every round of a phase with the same noise, and"
    " differences of them give A, the sum of u u' over the factors u of an item's raters"
)


def _describe_cost(guarantee: Guarantee, terms: tuple[SharedLaplace, ...]) -> tuple[str, ...]:
    """Return a sentence on the epsilon of the phases, each and together, for the card.

    It is the epsilon with user factors held constant, which the guarantee itself does not certify
    where they are refitted. The result is empty where there is one phase and a proof.

    Args:
        guarantee: the guarantee of the whole run.
        terms: the release of each phase.
    """

    def certify_releases(*releases: SharedLaplace) -> float:
        """Return the certified epsilon of some phases, with user factors held constant."""
        partial_guarantee = dataclasses.replace(
            guarantee, unaccounted=(), releases=LinearTerms(releases)
        )
        return partial_guarantee.certified().epsilon

    template = "with user factors held constant, as the paper's proof has them, {} epsilon"
    if len(terms) > 1:
        epsilons = " + ".join(f"{certify_releases(term):.3g}" for term in terms)
        return (
            f"{len(terms)} phases publish item factors, each with fresh noise:"
            f" {template.format('they spend')} {epsilons} = {certify_releases(*terms):.4g}",
        )
    if guarantee.unaccounted:
        return (f"{template.format('the release spends')} {certify_releases(*terms):.4g}",)
    return ()


@dataclass(eq=False)
class Phase:
    """One phase of a run, as the simulation records it; no party holds all of this.

    Attributes:
        release: the noisy linear term.
        penalty: ridge penalty on item factors.
        user_factors: array of shape (n_users, rank), with rows of length at most 1.
        noise: array of shape (n_items, rank), the sum of the users' shares.
        active: indices of the items that take part.
        n_prior_rounds: number of rounds before the phase.
        models: item factors before each round, and finally those after all rounds.
        steps: the summed pairs and the stepped items of each round.
        sums: array of shape (n_items, rank) for each round, what the recommender decodes.
    """

    release: SharedLaplace
    penalty: float
    user_factors: Floats
    noise: Floats
    active: Ints
    n_prior_rounds: int
    models: list[Floats]
    steps: list[tuple[Ints, Ints]] = field(default_factory=list)
    sums: list[Floats] = field(default_factory=list)


class ScenarioRun:
    """A run: the parties, the wire, and a record of what no single party sees.

    It starts with item factors that the recommender draws without any data. Each user fits the user
    factors to them on the own device, and after every phase to the factors published then. Gradient
    steps continue from where the last phase ended.

    Args:
        settings: of the run.
        ratings: the ratings.
        rng: random numbers of all parties.
        watch: index of the item whose messages are kept.
    """

    def __init__(
        self,
        settings: Scenario,
        ratings: Ratings,
        rng: Rng,
        *,
        watch: int | None = None,
    ) -> None:
        public = ratings.public
        fixed_point = settings.fixed_point
        self.settings = settings
        self.public = public
        self.mechanism = settings.mechanism
        user_rng, self.rng, mask_rng, secret_rng = rng.spawn(4)
        self.rating_matrices: RatingMatrices = self.mechanism.build_matrices(ratings)
        first_items = self.mechanism.draw_item_factors(public.items, user_rng)
        held_factors = settings.user_factors
        self._held_factors = (
            None
            if held_factors is None
            else held_factors.load(self.mechanism, self.rating_matrices, public, user_rng)
        )
        self.phase_mechanisms = settings.phase_mechanisms(public.users)
        self.releases = settings.releases(public)
        self.raters = raters = np.bincount(ratings.items, minlength=public.items)
        min_raters = self.releases[0].min_sharing_users
        self._silent_users = np.flatnonzero(np.diff(ratings.indptr) == 0)
        is_included = raters[ratings.items] >= min_raters
        if not is_included.any():
            raise BadRatings(
                f"every item has fewer than {min_raters} raters, so nobody can hide: nothing is"
                " left to factorize"
            )
        last_round = settings.iterations * len(self.phase_mechanisms)
        for t, user in settings.leaves.departures:
            if t > last_round or user >= public.users:
                limit = f"ROUND:USER with rounds 0..{last_round} and users 0..{public.users - 1}"
                raise InvalidSetting("leaves", limit, str(settings.leaves))
        if watch is not None and (not 0 <= watch < len(raters) or raters[watch] < min_raters):
            raise InvalidSetting(
                "watched item", f"an item with at least {min_raters} raters", watch
            )
        # The user and the item of each pair that takes part.
        self.user_of_pair, self.item_of_pair = (
            ids[is_included].astype(np.int64) for ids in (ratings.users, ratings.items)
        )
        self._shared_items: Ints = np.flatnonzero(raters >= min_raters)
        ids = ratings.user_ids
        names = None if ids is None else [f"user {id}" for id in ids]
        self.wire = Wire(self.user_of_pair, self.item_of_pair, watch, names)
        self._deviations = ratings.values[is_included] - self.public.middle
        self.recommender = Recommender(first_items.copy(), raters, fixed_point, mask_rng)
        self.third_party = ThirdParty(
            np.zeros(first_items.shape, dtype=np.uint64), fixed_point, secret_rng
        )
        self.phases: list[Phase] = []
        self._begin_phase(first_items)

    @property
    def phase(self) -> Phase:
        """Return the current phase, or the last one."""
        return self.phases[-1]

    @property
    def rounds(self) -> int:
        """Return the number of finished rounds."""
        return self.phase.n_prior_rounds + len(self.phase.steps)

    @property
    def transcript(self) -> Transcript:
        """Return the watched messages and the traffic."""
        return self.wire.transcript

    @property
    def items(self) -> Floats:
        """Return the current item factors; skipped items keep the first, data-free ones."""
        return self.recommender.items

    @property
    def skipped(self) -> dict[str, Ints]:
        """Return the items and users that do not take part, by the reason."""
        rare = (self.raters > 0) & (self.raters < self.releases[0].min_sharing_users)
        return {
            UNRATED_ITEMS: np.flatnonzero(self.raters == 0),
            RARE_ITEMS: np.flatnonzero(rare),
            NOISELESS_ITEMS: np.setdiff1d(self._shared_items, self._items_with_noise),
            SILENT_USERS: self._silent_users,
        }

    @property
    def _items_with_noise(self) -> Ints:
        """Return the items that had noise in some phase."""
        return np.unique(np.concatenate([phase.active for phase in self.phases]))

    def play(self) -> Iterator[int]:
        """Exchange the messages of all phases, yielding the number of each finished round.

        Users fit their factors before a phase and hold them constant in it; after it the
        recommender sends the published item factors to them.
        """
        all_pairs = np.arange(len(self.user_of_pair))
        for k in range(len(self.phase_mechanisms)):
            if k:
                self._begin_phase(self.mask_unpublished(self.items))
            yield from self.settings.play_rounds(self)
            content = {"v": self.mask_unpublished(self.items)[self.item_of_pair]}
            self.wire.send(PUBLISHED, RECOMMENDER, USERS, content, all_pairs, self.rounds)

    def mask_unpublished(self, items: Floats) -> Floats:
        """Return item factors as published after a phase: zeros for items without noise."""
        factors = np.zeros_like(items)
        factors[self._items_with_noise] = items[self._items_with_noise]
        return factors

    def refit_users(self, items: Floats) -> Floats:
        """Return the user factors: those passed in, or else fitted to published item factors."""
        return (
            self._held_factors
            if self._held_factors is not None
            else self.mechanism.fit_users(self.rating_matrices, items)
        )

    def build_model(self) -> Factors:
        """Return the model of users: published item factors with user factors refitted to them."""
        items = self.mask_unpublished(self.items)
        return factors_with_offsets(
            self.mechanism.fit_users(self.rating_matrices, items), items, self.public.middle
        )

    def find_leaving(self, pairs: Ints, t: int) -> Bools:
        """Return which pairs leave in a round.

        Args:
            pairs: array of shape (n,), indices of the pairs.
            t: number of the round; 0 for the set-up, which users leave only in the first phase.

        Returns:
            Array of shape (n,).
        """
        leaving_users = [user for round, user in self.settings.leaves.departures if round == t]
        return np.isin(
            self.user_of_pair[pairs], leaving_users if t or not self.phase.n_prior_rounds else []
        )

    def set_up(self, pairs: Ints, payload: dict[str, NDArray[Any]]) -> Floats | None:
        """Send each user the number of users who share the item's noise, and draw and send H.

        Args:
            pairs: indices of the pairs that draw shares of noise.
            payload: what else the messages hold, by name.

        Returns:
            The mixing variables H, array of shape (n_items, rank); None for Gamma shares.
        """
        group = self.item_of_pair[pairs]
        sizes = np.bincount(group, minlength=len(self.items))[group]
        content: dict[str, NDArray[Any]] = {"users": sizes[:, None]}
        mixing = self.phase.release.draw_mixing(self.recommender.rng)
        if mixing is not None:
            content["H"] = mixing[group]
        self.wire.send(SETUP, RECOMMENDER, USERS, content | payload, pairs, 0)
        return mixing

    def exchange(
        self, t: int, queried: Ints, is_gone: Bools, addends: Ints, payload: dict[str, Uint64s]
    ) -> Uint64s:
        """Send item factors and masks to the queried users, and return their answers.

        Users who are gone compute an answer but do not send it.

        Args:
            t: number of the round.
            queried: array of shape (n,), indices of the queried pairs.
            is_gone: array of shape (n,), whether each pair's user leaves before answering.
            addends: array of shape (n,), how many numbers the sum of each pair's item has.
            payload: masks and pieces of the noise by name, arrays of shape (n, rank).

        Returns:
            Array of shape (n, rank), integers mod P.
        """
        items = self.items[self.item_of_pair[queried]]
        self.wire.send(MODEL, RECOMMENDER, USERS, {"v": items, **payload}, queried, t)
        answers = self.users.answer_gradients(queried, items, addends, *payload.values())
        self.wire.send(
            ANSWER, USERS, THIRD_PARTY, {"answer": answers[~is_gone]}, queried[~is_gone], t
        )
        return answers

    def add_up(
        self, kind: str, t: int, group: Ints, integers: Uint64s, masks: Uint64s, secret: Uint64s
    ) -> Uint64s:
        """Sum integers of users by item with the third party's secret, and remove the masks.

        Args:
            kind: of the messages with the sums.
            t: number of the round; 0 for the set-up.
            group: array of shape (n,), the item of each user.
            integers: array of shape (n, rank), what the users sent.
            masks: array of shape (n, rank), the masks in them.
            secret: array of shape (n_items, rank), what the third party adds.

        Returns:
            Array of shape (n_items, rank), 0 where nothing was summed.
        """
        summed_items = np.unique(group)
        total = self.settings.fixed_point.reduce(
            self.third_party.add_answers(integers, group) + secret
        )
        self.wire.send(
            kind, THIRD_PARTY, RECOMMENDER, {"sum": total[summed_items]}, summed_items, t
        )
        sums = np.zeros_like(total)
        sums[summed_items] = self.recommender.unmask(total, masks, group)[summed_items]
        return sums

    def finish_round(self, sums: Floats, pairs: Ints) -> None:
        """Let the recommender make its gradient step, and record the round.

        Args:
            sums: array of shape (n_items, rank), the decoded sums of the round.
            pairs: indices of the pairs in these sums.
        """
        steps = self.phase.steps
        summed_items = np.unique(self.item_of_pair[pairs])
        if steps and np.array_equal(steps[-1][0], pairs):
            pairs, summed_items = steps[-1]  # the same arrays once more, instead of copies
        steps.append((pairs, summed_items))
        self.phase.sums.append(sums)
        self.recommender.step(sums[summed_items], summed_items)
        self.phase.models.append(self.items.copy())

    def _begin_phase(self, items: Floats) -> None:
        """Begin the next phase, in which users fit their factors to these item factors.

        Args:
            items: array of shape (n_items, rank).
        """
        k = len(self.phases)
        user_factors, _ = clip_dense_rows(self.refit_users(items), 1.0)
        penalty = self.phase_mechanisms[k].noisy_penalty(self.public)
        n_prior_rounds = self.rounds if k else 0
        self.recommender.penalty = penalty
        self.users = Users(
            user_factors[self.user_of_pair], self._deviations, self.settings.fixed_point
        )
        self.phases.append(
            Phase(
                release=self.releases[k],
                penalty=penalty,
                user_factors=user_factors,
                noise=np.zeros_like(self.items),
                active=self._shared_items,
                n_prior_rounds=n_prior_rounds,
                models=[self.items.copy()],
            )
        )


@dataclass(frozen=True, kw_only=True)
class StaticUsers(Scenario):
    """Scenario 2: a third party adds up masked gradients of the same users in every round.

    Each user draws a share of noise once, for the whole run. Without masks, two rounds of one user
    would differ by the raw difference of gradients: the difference attack.
    """

    number = "2"
    title = "untrusted recommender, static users"
    masks: bool = setting(True, "hide each gradient from the third party by a mask")

    def _count_message_numbers(self) -> tuple[int, int]:
        """Return how many numbers a set-up message and one with item factors hold."""
        return 1, self.rank * (1 + self.masks)

    def _make_noise(self, run: ScenarioRun) -> Ints:
        """Add a share of noise to the gradient of every pair, and return all pairs."""
        pairs = np.arange(len(run.user_of_pair))
        phase = run.phase
        mixing = run.set_up(pairs, {})
        self._handle_departures(run, 0, pairs[run.find_leaving(pairs, 0)])
        noisy = phase.release.publish_shares(run.users.linear, run.item_of_pair, mixing, run.rng)
        np.add.at(phase.noise, run.item_of_pair, noisy - run.users.linear)
        run.users.linear = noisy
        return pairs

    def _build_hiding_payload(self, run: ScenarioRun, groups: Ints) -> dict[str, Uint64s]:
        """Draw fresh masks; nothing if users send their gradients without masks."""
        return {"mask": run.recommender.sample_masks(len(groups))} if self.masks else {}

    def _handle_departures(self, run: ScenarioRun, t: int, pairs: Ints) -> None:
        """Abort the run if somebody left.

        Without a user's share the noise is too small, and fresh shares would be another release.

        Raises:
            ProtocolAborted: somebody left.
        """
        if not len(pairs):
            return
        user, item = int(run.user_of_pair[pairs[0]]), int(run.item_of_pair[pairs[0]])
        k = int(run.raters[item])
        raise ProtocolAborted(
            (f"round {t} is aborted" if t else "the set-up is aborted")
            + f": {run.wire.get_user_name(user)} left before answering for item {item},"
            f" and with the own share of noise gone only ({k}-1)/{k} of its variance would be left;"
            " starting again with the users who stay draws fresh noise on the same ratings, "
            + (
                "which spends epsilon again"
                if t > 1 or (t and not self.masks)
                else "which costs nothing, for no sum has been sent"
            )
        )


@dataclass(frozen=True, kw_only=True)
class DynamicUsers(Scenario):
    """Scenario 3: the noise is made once, hidden from all, and distributed again in every round.

    The recommender holds noise + alpha mod P, the third party alpha. Whoever is online gets random
    pieces of it, so the noise in the sum is the same however many answer. Only users who are online
    contribute gradients to a round, as in a stochastic gradient step.

    The paper's recommender picks k of those online at random. `picked` does so among the raters of
    an item; otherwise all of them are queried. A sum over k of n raters holds the whole noise, so
    the noise counts n/k times as much compared with their gradients, a step goes k/n as far, and
    other people are summed in every round.

    Because the noise stays the same, the promise is broken. The summed people change from round to
    round and the noise does not, so differences of sums give single gradients to the recommender,
    who knows whom each sum is over (`attacks.run_attendance_attack`). The only repair is fresh
    noise for each set of people that is summed, every set paid for with epsilon. Neither the paper
    nor this program has that.
    """

    number = "3"
    title = "untrusted recommender, users come and go"
    addends = 2  # a gradient, and a piece of the noise
    online: float = setting(
        1.0, "chance that a user is online, drawn for each round", above=0, at_most=1
    )
    picked: int = setting(
        0,
        "raters of an item that the recommender picks at random of those online, for the noise and"
        " in every round (0: all of them)",
        at_least=0,
        at_most=1_000_000,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        min_raters = min_group_size(self.colluding)
        if 0 < self.picked < min_raters:
            raise InvalidSetting(
                "picked",
                f"0 (all who are online) or >= {min_raters}, to hide and share",
                self.picked,
            )

    @property
    def has_full_attendance(self) -> bool:
        """Return whether everybody is always present."""
        return super().has_full_attendance and self.online == 1

    def count_queried(self, raters: Ints) -> Ints:
        """Return how many of each item's raters the recommender picks."""
        return np.minimum(raters, self.picked) if self.picked else raters

    def _count_message_numbers(self) -> tuple[int, int]:
        """Return how many numbers a set-up message and one with item factors hold."""
        return 1 + self.rank, 3 * self.rank

    def predict_traffic(self, raters: Ints, users: int) -> dict[str, Traffic]:
        """Return the traffic of a whole run by kind of message, with everybody always present."""
        traffic = super().predict_traffic(raters, users)
        n_shares = traffic[ANSWER].messages // self.iterations  # once in each phase
        n_noises = traffic[SUM].messages // self.iterations
        return traffic | {
            HIDDEN_SHARE: Traffic.from_messages(n_shares, self.rank),
            HIDDEN_NOISE: Traffic.from_messages(n_noises, self.rank),
            ONLINE: Traffic.from_messages(traffic[PUBLISHED].messages * self.iterations, 0),
        }

    def guarantee(self, public: PublicFacts) -> Guarantee:
        """Return the guarantee with what the same noise reveals under changing attendance."""
        base_guarantee = super().guarantee(public)
        leak = Unaccounted(
            "gradients of single users",
            "differences of sums with different attendance cancel the noise",
        )
        caveat = (
            "noise hides a rating within one round only: the recommender knows who is there in each"
        )
        return dataclasses.replace(
            base_guarantee,
            unaccounted=(*base_guarantee.unaccounted, leak),
            caveats=(*base_guarantee.caveats, caveat),
        )

    def _select_attending(self, run: ScenarioRun, t: int, pairs: Ints) -> Ints:
        """Return the pairs that are online in a round and that the recommender picks."""
        online = self._select_online(run, pairs)
        run.wire.send(ONLINE, USERS, RECOMMENDER, {}, online, t)
        return self._pick_raters(run, online)

    def _build_hiding_payload(self, run: ScenarioRun, groups: Ints) -> dict[str, Uint64s]:
        """Draw fresh masks and pieces of the hidden noise."""
        recommender = run.recommender
        return {
            "mask": recommender.sample_masks(len(groups)),
            "piece": recommender.split_noise(groups),
        }

    def _make_noise(self, run: ScenarioRun) -> Ints:
        """Set up a phase, and return the pairs of items whose noise could be made."""
        phase = run.phase
        size = run.items.shape
        present = self._pick_raters(run, self._select_online(run, np.arange(len(run.user_of_pair))))
        run.third_party.secret = self.fixed_point.sample_uniform(size, run.third_party.rng)
        run.recommender.noise = np.zeros(size, dtype=np.uint64)
        has_noise = np.zeros(size[0], dtype=bool)
        for queried, is_gone, is_summed in self._iterate_attempts(run, present, 0):
            group = run.item_of_pair[queried]
            masks = run.recommender.sample_masks(len(queried))
            mixing = run.set_up(queried, {"mask": masks})
            shares = phase.release.publish_shares(
                np.zeros((len(queried), self.rank)), group, mixing, run.rng
            )
            members = np.bincount(group, minlength=size[0])[group]
            integers = self.fixed_point.encode(
                shares, 2 * members[:, None], "a user's share of noise"
            )
            masked_shares = self.fixed_point.reduce(integers + masks)
            payload = {"answer": masked_shares[~is_gone]}
            run.wire.send(HIDDEN_SHARE, USERS, THIRD_PARTY, payload, queried[~is_gone], 0)
            group = group[is_summed]
            secret = run.third_party.secret
            run.recommender.noise += run.add_up(
                HIDDEN_NOISE, 0, group, masked_shares[is_summed], masks[is_summed], secret
            )
            np.add.at(phase.noise, group, shares[is_summed])
            has_noise[group] = True
        phase.active = np.flatnonzero(has_noise)
        return np.flatnonzero(has_noise[run.item_of_pair])

    def _iterate_attempts(
        self, run: ScenarioRun, pairs: Ints, t: int
    ) -> Iterator[tuple[Ints, Bools, Bools]]:
        """Yield, for each attempt, the queried pairs, who leaves, and whose item nobody leaves.

        If a user leaves, the third party drops what it received for the item. The remaining
        users are queried again, for fresh shares of noise or with fresh masks and pieces of it.
        """
        is_gone = run.find_leaving(pairs, t)
        while len(pairs):
            group = run.item_of_pair[pairs]
            is_summed = ~np.isin(group, group[is_gone])
            yield pairs, is_gone, is_summed
            items = np.unique(group[is_gone])
            missing = {"missing": np.ones((len(items), 1))}
            run.wire.send(RESTART, THIRD_PARTY, RECOMMENDER, missing, items, t)
            pairs = self._drop_small_items(run, pairs[~is_summed & ~is_gone])
            is_gone = np.zeros(len(pairs), dtype=bool)

    def _select_online(self, run: ScenarioRun, pairs: Ints) -> Ints:
        """Return the pairs whose user is online now, of items with enough of them."""
        if self.online < 1:
            is_online = run.rng.random(run.public.users) < self.online
            pairs = pairs[is_online[run.user_of_pair[pairs]]]
        return self._drop_small_items(run, pairs)

    def _pick_raters(self, run: ScenarioRun, pairs: Ints) -> Ints:
        """Return at most `picked` pairs of each item, which the recommender picks at random."""
        if not self.picked:
            return pairs
        # Sort by item, and at random within an item; then count the pairs of each item from 0.
        order = pairs[np.lexsort((run.recommender.rng.random(len(pairs)), run.item_of_pair[pairs]))]
        group = run.item_of_pair[order]
        position = np.arange(len(order)) - np.searchsorted(group, group)
        return np.sort(order[position < self.picked])

    def _drop_small_items(self, run: ScenarioRun, pairs: Ints) -> Ints:
        """Return the pairs of items that have enough users to hide one another."""
        sizes = np.bincount(run.item_of_pair[pairs], minlength=len(run.items))
        return pairs[sizes[run.item_of_pair[pairs]] >= run.phase.release.min_sharing_users]
