"""Two ways to collect ratings under local privacy: every user randomises the whole row first.

Z16: Zheng, "Two Differentially Private Rating Collection Mechanisms for Recommender Systems".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpmc_core.arrays import Floats, Rng, Sparse
from dpmc_core.model import Constant, Estimator, Mechanism, PrivacyRequest, Step, Steps, Task
from dpmc_core.privacy import (
    CELL,
    Guarantee,
    ModifiedLaplace,
    Publishes,
    Releases,
    SymbolChannel,
    Trust,
)
from dpmc_core.privacy.channels import flip_probability
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import PublishedSettings, inherit_setting, mechanism, setting
from dpmc_core.solvers.linalg import Pattern
from dpmc_core.solvers.recovery import Recovery, Regress, Reports, Rule, scale_to_unit_range
from dpmc_core.solvers.sizes import check_report_count
from dpmc_core.style import BLUE, SKY, VERMILION, Style

if TYPE_CHECKING:
    from dpmc_core.solvers.noisy_reports import NoiseModel

_PUBLISHED_ONLY = "published estimator only"
_GAMMA = 0.05  # Theorem 3's bound holds with probability 1 - gamma
# The epsilon per cell from which rounded ratings give better models than noisy ones, and from which
# randomised rows of few users give better models than noisy sums over users.
_RESPONSE_MIN_EPSILON = 2.0
_COLLECTION_MIN_EPSILON = 3.0


def _prefers_collection(request: PrivacyRequest) -> bool:
    """Return whether randomised rows suit a request better than noisy sums over users.

    They do where nobody may see raw ratings, or where there are few users and a large epsilon.
    """
    if request.change.per_user:
        return False
    has_few_users = request.public.users < request.public.items
    has_large_epsilon = request.epsilon >= _COLLECTION_MIN_EPSILON
    return request.trust is Trust.LOCAL or (has_few_users and has_large_epsilon)


Channel = ModifiedLaplace | SymbolChannel


@dataclass(frozen=True)
class RandomisedRows(Releases):
    """The release of all rows.

    Attributes:
        rows: the channel that randomises every cell.
    """

    rows: Channel


@mechanism
class CollectionMechanism(Mechanism):
    """A mechanism in which each user reports the whole row, randomised cell by cell."""

    change = CELL
    trust = Trust.LOCAL
    publishes = Publishes.RANDOMISED_ROWS
    task = Task.RATINGS
    nonprivate_counterpart = "soft-impute"
    baseline = "local-mean"
    revision = 3
    source = "Z16, Theorem 2: epsilon per cell, items x epsilon for a row"
    epsilon: float = setting(help="privacy budget per user-item cell", above=0, at_most=1e6)

    def channel(self, public: PublicFacts) -> Channel:
        """Return the local channel that every cell passes, rated or not.

        The channel's sensitivity counts changed cells, not rating points: its epsilon already
        covers any change of one cell.
        """
        raise NotImplementedError

    def encode_rows(self, ratings: Ratings, channel: Channel) -> Sparse:
        """Return the ratings in the form that the channel takes.

        Args:
            ratings: the users' ratings.
            channel: takes ratings on the scale -1..1, or symbols from 1 on.

        Returns:
            Sparse array of shape (users, items).
        """
        values = np.clip(scale_to_unit_range(ratings.values, ratings.public), -1, 1)
        if isinstance(channel, SymbolChannel):
            relative = (ratings.values - ratings.public.low) / ratings.public.width
            values = 1 + np.rint(relative * (len(channel.levels) - 1))
        return Pattern.from_ratings(ratings).build_matrix(values)

    def build_noise_model(self, channel: Channel) -> NoiseModel:
        """Return the noise model of the channel, from which an estimator works."""
        from dpmc_core.solvers.noisy_reports import model_laplace_noise, model_symbol_noise

        if isinstance(channel, ModifiedLaplace):
            return model_laplace_noise(channel.flip, channel.scale)
        return model_symbol_noise(
            channel.reported_if_missing, channel.debias_factor, np.array(channel.levels)
        )

    def guarantee(self, public: PublicFacts) -> Guarantee[RandomisedRows]:
        """Return the guarantee: every cell of every row passes the channel."""
        return self.pure_guarantee(public, RandomisedRows(self.channel(public)))


@mechanism
class Collection(CollectionMechanism, Recovery):
    """A collection mechanism whose server estimates a model from the reports."""

    published_settings = PublishedSettings(
        {"estimator": Estimator.PUBLISHED, "recovery": Regress.NAIVE, "rule": Rule.EQUATION_3},
        "rho of Equation 3 takes the truth: what the channel's moments tell of it stands for it;"
        " rho_0, how far ratings lie from any low-rank matrix, is no number of the paper's: the"
        " setting intrinsic stays what it is",
    )
    estimator: Estimator = setting(
        Estimator.NOISE_AWARE,
        "counts, means, effects and taste by what noise reports carry, or nuclear-norm recovery",
    )
    recovery: Regress = inherit_setting(Recovery, "recovery", _PUBLISHED_ONLY, Regress.NAIVE)
    rule: Rule = inherit_setting(Recovery, "rule", _PUBLISHED_ONLY)
    intrinsic: float = inherit_setting(Recovery, "intrinsic", _PUBLISHED_ONLY)
    steps: int = inherit_setting(Recovery, "steps", _PUBLISHED_ONLY)

    def decode_reports(self, reported: Floats, channel: Channel) -> Floats:
        """Map published reports to the scale -1..1.

        Args:
            reported: shape (n_reports,), as the channel publishes them.
            channel: the channel that published them.

        Returns:
            Array of shape (n_reports,).
        """
        if isinstance(channel, ModifiedLaplace):
            return reported.astype(float)
        return np.array(channel.levels)[reported.astype(np.int64) - 1]

    def bound_residual(self, public: PublicFacts, n_rated: float, *, tight: bool = False) -> float:
        """Return rho of Theorem 3, a bound on the l2 norm of reports less the true matrix.

        The norm is over the reported cells, on the scale -1..1. The bound holds with probability 1
        - gamma for true values in -1..1. It grows with rho0, which is `misfit`: the root mean
        square distance of a rating from the true matrix, which has low rank.

        Args:
            public: the public facts.
            n_rated: s, the number of rated cells; it is private, so an estimate is passed.
            tight: whether to return a tighter bound than the paper's.
        """
        raise NotImplementedError

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield the rounds of the published estimator or of the noise-aware one."""
        from dpmc_core.solvers.noisy_reports import estimate_from_reports

        public = ratings.public
        is_published = self.estimator is Estimator.PUBLISHED
        channel = self.guarantee(public).releases.rows
        check_report_count(public, channel.reported_if_missing, for_regression=is_published)
        # What is published gets no name here, so that the estimator can free it.
        if is_published:
            reports = self.build_reports(
                channel.publish(self.encode_rows(ratings, channel), rng), channel, public
            )
            yield from self.recover(reports, public, rng, raw=False)
        else:
            yield from estimate_from_reports(
                channel.publish(self.encode_rows(ratings, channel), rng),
                self.build_noise_model(channel),
                public,
            )

    def build_reports(self, reported: Sparse, channel: Channel, public: PublicFacts) -> Reports:
        """Return the reports with the moments of their noise, for nuclear-norm recovery.

        The density of ratings, on which the moments depend, is estimated from the number of
        reports. It is clipped to at most 1 and at least its standard error, below which it cannot
        be distinguished from 0.

        Args:
            reported: shape (users, items), the published reports.
            channel: the channel that published them.
            public: the public facts.
        """
        cells = public.users * public.items
        # The expected share of reported cells is linear in the density.
        reported_share = max(reported.nnz, 1) / cells
        probability_gap = channel.reported_if_rated - channel.reported_if_missing
        standard_error = (
            math.sqrt(max(reported_share * (1 - reported_share), 1 / cells) / cells)
            / probability_gap
        )
        density = (reported_share - channel.reported_if_missing) / probability_gap
        density = float(np.clip(density, min(standard_error, 1.0), 1.0))
        # The moments of a reported cell are those of any cell over the share of reported cells. A
        # report has the mean `debias_factor` times the true value.
        debias_factor = channel.debias_factor * density / reported_share
        # The second term is the variance of ratings about any low-rank matrix.
        variance = channel.noise_square(density) / reported_share + debias_factor * self.misfit**2
        pattern = Pattern.from_matrix(reported)
        values = self.decode_reports(reported.data, channel)
        rho = self.bound_residual(public, density * cells)
        return Reports(pattern, values, min(debias_factor, 1.0), variance, rho)


@mechanism
class LaplaceCollection(Collection):
    """Modified Laplace: ratings get Laplace(2/eps) noise, and any cell may be reported or not.

    Ratings are scaled to -1..1. With q = e^(eps/2) / (e^(eps/2) + 1) a rated cell is reported with
    probability q, as rating + Laplace(2/eps); a missing one with probability 1 - q, as
    Laplace(2/eps) alone (Z16, Definition 2).
    """

    id = "modified-laplace"
    name = "Modified Laplace collection"
    short = "Modified Laplace"
    style = Style(BLUE, "hourglass", "dot")
    source = "Z16, Theorem 1: epsilon per cell, items x epsilon for a row"

    @classmethod
    def recommendation_reason(cls, request: PrivacyRequest) -> str | None:
        """Return why this mechanism suits the request, None where it does not."""
        if not _prefers_collection(request) or request.epsilon >= _RESPONSE_MIN_EPSILON:
            return None
        return (
            f"nobody is trusted, and below epsilon {_RESPONSE_MIN_EPSILON:g} noisy ratings tell a"
            " little more than rounded ones"
        )

    def channel(self, public: PublicFacts) -> ModifiedLaplace:
        """Return the release: every cell of every row, with modified Laplace noise."""
        return ModifiedLaplace.from_epsilon(
            self.epsilon,
            query=f"every cell of a row, {public.low:g}..{public.high:g} scaled to -1..1",
            shape=public.axes,
            sensitivity={CELL: 1},  # changed cells, not rating points
        )

    def bound_residual(self, public: PublicFacts, n_rated: float, *, tight: bool = False) -> float:
        """Return rho = rho0 sqrt(s) + (4/eps) sqrt(s/gamma) + a term for reported missing cells.

        Args:
            public: the public facts.
            n_rated: s, the number of rated cells.
            tight: whether to take the expected squares of both kinds of reports under one root,
                each counted no more often than it is reported.
        """
        n_cells = public.users * public.items
        noise_variance = 8 / self.epsilon**2  # of Laplace(2/eps); eps/2 goes to each of two steps
        spurious_probability = flip_probability(self.epsilon / 2)
        intrinsic_term = self.misfit * math.sqrt(n_rated)
        if tight:
            n_missing = n_cells - n_rated
            rated_squares = (1 - spurious_probability) * n_rated * noise_variance
            missing_squares = spurious_probability * n_missing * (1 + noise_variance)
            return intrinsic_term + math.sqrt((rated_squares + missing_squares) / _GAMMA)
        rated_term = 4 / self.epsilon * math.sqrt(n_rated / _GAMMA)
        return (
            intrinsic_term
            + rated_term
            + math.sqrt(2 * n_cells * spurious_probability / _GAMMA * (1 + noise_variance))
        )


def count_levels(levels: int | None, public: PublicFacts) -> int:
    """Return the number d of rating levels.

    It is the setting `levels` if that is given. Otherwise it is the number of integers in the
    range, if its ends are integers and there are at most ten; else 5.
    """
    if levels is not None:
        return levels
    is_integer_range = public.low.is_integer() and public.high.is_integer()
    return int(public.width) + 1 if is_integer_range and public.width < 10 else 5


def _build_symbol_channel(epsilon: float, levels: int | None, public: PublicFacts) -> SymbolChannel:
    """Return the channel of the symbols 0 (a missing cell) and 1..d (a rating)."""
    n_levels = count_levels(levels, public)
    return SymbolChannel.symmetric(
        epsilon,
        tuple(np.linspace(-1, 1, n_levels).tolist()),
        query=f"every cell of a row, as a symbol from 1 ({public.low:g}) to {n_levels}"
        f" ({public.high:g})",
        shape=public.axes,
        sensitivity={CELL: 1},  # changed cells, not rating points
    )


@mechanism
class ResponseCollection(Collection):
    """Randomised response over 0 (missing) and 1..d: keep the symbol, or take any other at random.

    A symbol is kept with probability e^eps / (e^eps + d) (Z16, Definition 3). The d levels are
    spread evenly over the public range and each user rounds to the nearest.
    """

    id = "randomised-response"
    name = "Randomised-response collection"
    short = "Random. response"
    style = Style(SKY, "pentagon", "longdash")

    levels: int | None = setting(
        None,
        "number of different ratings (none: one per point of a whole-numbered range, at most 10)",
        at_least=2,
        at_most=100,
    )

    @classmethod
    def recommendation_reason(cls, request: PrivacyRequest) -> str | None:
        """Return why this mechanism suits the request, None where it does not."""
        if not _prefers_collection(request) or request.epsilon < _RESPONSE_MIN_EPSILON:
            return None
        reason = "nobody is trusted" if request.trust is Trust.LOCAL else "few users for many items"
        return (
            f"{reason}, and from epsilon {_RESPONSE_MIN_EPSILON:g} on rounded ratings tell"
            " more than noisy ones"
        )

    def channel(self, public: PublicFacts) -> SymbolChannel:
        """Return the release: every cell of every row, by randomised response."""
        return _build_symbol_channel(self.epsilon, self.levels, public)

    def bound_residual(self, public: PublicFacts, n_rated: float, *, tight: bool = False) -> float:
        """Return rho, which is rho0 sqrt(s) + 2 (d-1) sqrt(2 m n d / ((e^eps + d) gamma)).

        The second term is printed here, as in the paper, in symbols of 1..d; the result is on the
        scale -1..1, where the distance of two symbols is 2/(d-1).

        Args:
            public: the public facts.
            n_rated: s, the number of rated cells.
            tight: whether to use that a rating differs by at most d-1, in at most one report of a
                cell.
        """
        d = count_levels(self.levels, public)
        n_cells = public.users * public.items
        weight = math.exp(min(self.epsilon, 700.0)) + d
        expected_change = 8.0 * n_cells * d
        if tight:
            expected_change = (d - 1) * n_rated + d * (n_cells - n_rated)
        return self.misfit * math.sqrt(n_rated) + 2 * math.sqrt(expected_change / (weight * _GAMMA))


@mechanism
class LocalMean(CollectionMechanism):
    """The mean rating from rows collected by randomised response: a baseline under local privacy.

    Reports are as in `ResponseCollection`; their number and their sum give the mean, shrunk towards
    the middle of the range where they are noise.
    """

    id = "local-mean"
    name = "Local mean"
    style = Style(VERMILION, "bowtie", "dot")
    list_order = 2
    nonprivate_counterpart = "global-mean"
    revision = 2

    levels: int | None = inherit_setting(ResponseCollection, "levels")

    def channel(self, public: PublicFacts) -> SymbolChannel:
        """Return the release: every cell of every row, by randomised response."""
        return _build_symbol_channel(self.epsilon, self.levels, public)

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield one step, the mean rating that the number and the sum of reports give."""
        from dpmc_core.solvers.noisy_reports import estimate_mean_rating

        public = ratings.public
        channel = self.guarantee(public).releases.rows
        check_report_count(public, channel.reported_if_missing, for_regression=False)
        noisy_rows = channel.publish(self.encode_rows(ratings, channel), rng)
        noise_model = self.build_noise_model(channel)
        n_cells = public.users * public.items
        estimate = estimate_mean_rating(
            noisy_rows.nnz, noise_model.sum_scores(noisy_rows.data), n_cells, noise_model
        )
        mean = public.middle + public.half_width * estimate.rating
        trace = {"ratings, estimated": estimate.n_ratings, "mean rating": mean}
        yield Step(1, 1, Constant(mean), trace, final=True)
