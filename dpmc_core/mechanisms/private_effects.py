"""Private item effects and taste, per user: our own estimator for ratings under joint privacy.

Item effects come first (see `per_user`); rounds then refine them and, where the released counts
say that it would stand out of the noise, add directions of taste. A user's own side is free under
the joint notion: every user regresses the own row on what was published.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpmc_core.arrays import Floats, Rng
from dpmc_core.mechanisms.per_user import (
    EffectsReleases,
    PerUser,
    effects_clip,
    effects_releases,
    own_model,
    published_effects,
    regression_side,
    user_gaussian,
)
from dpmc_core.mechanisms.plain import Plain
from dpmc_core.metrics import rmse
from dpmc_core.model import Factors, Model, OwnSide, Step, Steps, Wanted
from dpmc_core.privacy import Gaussian, Guarantee, Releases, Trust, witness
from dpmc_core.ratings import PublicFacts, Ratings, most_rated
from dpmc_core.settings import mechanism, setting
from dpmc_core.solvers.als import random_factors
from dpmc_core.solvers.effects import (
    believed_gain,
    first_taste,
    refined,
    round_statistics,
    taste_from,
    taste_share,
)
from dpmc_core.solvers.linalg import Pattern, top_eigenpairs
from dpmc_core.solvers.noisy_reports import effects_and_taste
from dpmc_core.solvers.ranking import uncorrelated
from dpmc_core.solvers.rows import gram, item_sums, spread_out, with_offsets
from dpmc_core.solvers.sizes import GRAM_LIMIT
from dpmc_core.style import ORANGE, Style

_SHARES = (0.005, 0.12, 0.20, 0.005, 0.02)  # of the budget; the rest is for the rounds, equally
_MOMENTS_SHARE = 0.02  # of a round


@dataclass(frozen=True)
class RoundReleases(Releases):
    """Of each round."""

    residuals: Gaussian
    moments: Gaussian


@dataclass(frozen=True)
class PrivateEffectsReleases(Releases):
    effects: EffectsReleases
    rounds: RoundReleases


@mechanism
class PrivateEffects(PerUser):
    """Item effects, then rounds of effects and taste whose noise is known and taken into account.

    A round: the users' residuals of ratings, each against a regression on the own other ratings,
    weighted to l2 norm sqrt(1 - phi) C for the effects and, times a unit vector of the user's taste
    on the other items, sqrt(phi) C for taste; together a row of norm C. Also the users' squared
    unit vectors and two gains of at most 1: sqrt(3) where a row becomes empty, 2 where it becomes
    another. phi is decided from the released counts; shapes and scales do not depend on it.
    """

    id = "private-effects"
    place = -1
    name = "Private effects and taste"
    short = "Private effects"
    style = Style(ORANGE, "diamond-tall")
    twin = "reference-ratings"
    revision = 1
    rank: int = setting(5, "directions of taste, at most", at_least=1, at_most=50)
    rounds: int = setting(3, "rounds that share the rest of the budget", at_least=1, at_most=50)

    @classmethod
    def recommended(cls, wanted: Wanted) -> str | None:
        if wanted.trust is Trust.LOCAL:
            return None
        return "item effects and taste from sums over many users, each user's own side for free"

    def guarantee(self, public: PublicFacts) -> Guarantee[PrivateEffectsReleases]:
        first, rest = self.budget().split(sum(_SHARES), 1 - sum(_SHARES))
        residuals, moments = (rest / self.rounds).split(1 - _MOMENTS_SHARE, _MOMENTS_SHARE)
        n, r, clip = public.items, self.rank, effects_clip(public)
        rounds = RoundReleases(
            user_gaussian(
                "weighted residuals of each item, alone and times the users' unit vectors of taste",
                *((n, r + 1), residuals, clip, 2 * clip, self.rounds),
            ),
            user_gaussian(
                "products of the users' unit vectors of taste, and two gains",
                *((r * r + 2,), moments, math.sqrt(3), 2.0, self.rounds),
            ),
        )
        releases = PrivateEffectsReleases(effects_releases(public, first, _SHARES), rounds)
        return self.card(public, releases, "exact Gaussian curve")

    def own_side(self, public: PublicFacts, columns: int) -> OwnSide:
        return regression_side(public, columns, (0, self.rank))

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        public, total = ratings.public, self.rounds + 1
        releases = self.guarantee(public).releases
        noise, r = releases.rounds.residuals.scale, self.rank
        items = published_effects(releases.effects, ratings, rng, noise / math.sqrt(self.rounds))
        random = random_factors(public.items, r, rng)
        share = taste_share(items, effects_clip(public), self.budget().mu)
        taste = first_taste(items, random) if share > 0 else None
        yield Step(1, total, own_model(ratings, items), {"share of taste": share})
        for index in range(2, total + 1):
            residuals = ratings.values - items.mean - items.effects[ratings.items]
            sums, moments = round_statistics(
                *(Pattern.of(ratings), residuals, items.design(taste), items.weights),
                *(r, share, effects_clip(public)),
            )
            sums = releases.rounds.residuals.publish(sums, rng)
            moments = releases.rounds.moments.publish(moments, rng)
            off = releases.rounds.moments.scale
            gains = [believed_gain(float(g), off, public) for g in moments[-2:]]
            if taste is not None:
                root = math.sqrt(share)
                second = moments[:-2].reshape(r, r) / public.users
                taste = taste_from(items, sums[:, 1:] / root, noise / root, gains[1], second)
            items = refined(items, sums[:, 0], noise, gains[0], 1 - share)
            model = own_model(ratings, items, taste)
            yield Step(index, total, model, {"share of taste": share}, final=index == total)


# What privacy is measured by -----------------------------------------------------------------

_HELD, _JUDGES = 0.1, 50  # share of ratings that judge a reference, and how many must
_TAKEN = 20  # directions of who rated what


@mechanism
class ReferenceRatings(Plain):
    """Several plain methods, weighed by how they do on ratings held out of the training ratings.

    User and item effects and low-rank taste by variational Bayes (Lim and Teh 2007); and what the
    private estimator finds without noise, once more with the main directions of who rated what as
    a fact about the items, as SVD++ has them (Koren 2008).
    """

    uses_facts = True
    id = "reference-ratings"
    name = "Best ratings without privacy"
    revision = 2
    rank: int = setting(10, "most directions of taste", at_least=0, at_most=200)
    rounds: int = setting(30, "most rounds over users and items", at_least=1, at_most=1_000)

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        held, seed = rng.random(len(ratings)) < _HELD, int(rng.integers(2**63))
        weights = np.array([1.0, 0.0, 0.0])
        if held.sum() >= _JUDGES:
            weights = self._weights(ratings.select(~held), ratings.select(held), seed)
        total = self.rounds + 1
        for step in self._bayes(ratings):
            yield replace(step, total=total, final=False)
        models = [step.model, *_without_noise(ratings, seed)]
        trace = {**step.trace, "share of variational Bayes": float(weights[0] / weights.sum())}
        model = _blend(models, weights, ratings.public)
        yield Step.of(step.index + 1, total, model, trace, enough=True)

    def _weights(self, train: Ratings, test: Ratings, seed: int) -> Floats:
        """Of the models, in the sum that predicts test ratings best in squares; at least 0."""
        from scipy.optimize import nnls

        *_, last = self._bayes(train)
        models = [last.model, *_without_noise(train, seed)]
        middle = train.public.middle
        found = np.column_stack([m.predict(test.users, test.items) for m in models if m])
        weights: Floats = nnls(found - middle, test.values - middle)[0]
        return weights

    def _bayes(self, ratings: Ratings) -> Steps:
        cells, half = Pattern.of(ratings), ratings.public.half_width
        mean = float(ratings.values.mean())
        values = (ratings.values - mean) / half
        found = effects_and_taste(
            cells, values, users_differ=True, rank=self.rank, rounds=self.rounds
        )
        for index, now in enumerate(found, start=1):
            trace = {
                "training rmse": half * rmse(now.predict(cells), values),
                "noise left": half * math.sqrt(now.noise),
                "directions of taste": float(len(now.taste)),
            }
            model = with_offsets(
                half * now.left, now.right, mean + half * now.user, half * now.item
            )
            yield Step.of(index, self.rounds, model, trace, enough=now.final)


def _without_noise(ratings: Ratings, seed: int) -> list[Factors]:
    """The private estimator without noise, and with who rated what as a fact beside it."""
    place = most_rated(ratings, GRAM_LIMIT)
    inside = ratings.on_items(place)
    each = 1.0 / np.sqrt(np.diff(inside.indptr))[inside.users]
    vectors = top_eigenpairs(gram(Pattern.of(inside), each), min(_TAKEN, len(place) - 1))[1]
    columns = spread_out(vectors, np.flatnonzero(place >= 0), len(place))
    counts = 1.0 + item_sums(Pattern.of(ratings), np.ones(len(ratings)))
    taken = {"who rated what": uncorrelated(columns / np.sqrt(counts)[:, None], counts)}
    method, found = PrivateEffects(epsilon=1e6), []
    for facts in ({}, taken):
        used = ratings.knowing({**ratings.known, **facts}).using([*ratings.used, *facts])
        with witness():  # nothing that this publishes is anybody's release
            *_, last = method.fit(used, np.random.default_rng(seed))
        assert isinstance(last.model, Factors)
        found.append(last.model)
    return found


def _blend(models: Sequence[Model | None], weights: Floats, public: PublicFacts) -> Factors:
    """The middle of the range, and so much of how far each model is from it."""
    found = [model for model in models if isinstance(model, Factors)]
    left = np.hstack([weight * model.left for weight, model in zip(weights, found, strict=True)])
    right = np.hstack([model.right for model in found])
    return with_offsets(left, right, public.middle * (1 - float(weights.sum())))
