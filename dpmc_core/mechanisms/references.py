"""The references that privacy is measured against: the best of several methods without privacy.

The methods are chosen or weighed within the training data. Among them are the private estimators
without noise. Nothing here is private.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpmc_core.arrays import Bools, Floats, Rng
from dpmc_core.errors import BadRatings
from dpmc_core.mechanisms.plain import (
    Ease,
    Ials,
    ItemNeighbours,
    NonprivateMechanism,
    Popularity,
    Similarity,
)
from dpmc_core.mechanisms.private_effects import PrivateEffects
from dpmc_core.mechanisms.user_ranking import PrivateTaste
from dpmc_core.metrics import evaluate_ranking, rmse
from dpmc_core.model import Factors, Mechanism, Model, Step, Steps, Task
from dpmc_core.privacy import Publishes, record_publications
from dpmc_core.ratings import PublicFacts, Ratings, rank_within_user
from dpmc_core.settings import mechanism, setting
from dpmc_core.solvers.factorization import check_interactions
from dpmc_core.solvers.linalg import Pattern, leading_eigenpairs
from dpmc_core.solvers.one_bit import SignReports, positive_labels
from dpmc_core.solvers.ranking import decorrelate_columns
from dpmc_core.solvers.rows import factors_with_offsets, gram_products, item_sums

_FOLDS = 10  # folds of the ratings, which are held out in turn
_MIN_HELD_OUT = 2_000  # ratings that are held out in all folds together, if there are as many
_MAX_WEIGHING_RATINGS = 1_000_000  # ratings that the weights of the models are fitted to
_PRIOR_RATINGS = 100.0  # ratings that the prior on the weights counts for
_MIN_RATINGS = 200  # fewest ratings of which some can be held out
_N_DIRECTIONS = 20  # main directions of who rated what
_LARGE_CELLS = 10_000_000  # users x items above which not all candidates are tried
_CANDIDATES: tuple[Mechanism, ...] = (
    *(Ials(regularisation=weight, rounds=8) for weight in (0.03, 0.01, 0.003)),
    *(Ease(ridge=ridge) for ridge in (300.0, 1e3, 3e3, 1e4)),
    ItemNeighbours(neighbours=100),
    ItemNeighbours(neighbours=400),
    ItemNeighbours(neighbours=400, similarity=Similarity.COSINE),
    Popularity(),
    PrivateTaste(epsilon=1e6),
)


@mechanism
class ReferenceBinary(NonprivateMechanism):
    """Effects and low-rank factors from the signs themselves and from who rated what.

    It is the estimator of the private methods, given reports without noise: the reference that
    privacy is measured against.
    """

    id = "reference-binary"
    name = "Best likes without privacy"
    task = Task.BINARY
    baseline = "majority"
    publishes = Publishes.MATRIX

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:  # noqa: ARG002
        """Yield the rounds of the noise-aware estimator on the raw signs."""
        from dpmc_core.solvers.noisy_reports import complete_signs

        signs = 2 * positive_labels(ratings) - 1
        yield from complete_signs(Pattern.from_ratings(ratings), SignReports(signs, 1.0), raw=True)


@mechanism
class ReferenceRatings(NonprivateMechanism):
    """Several methods without privacy, weighed by their errors on held-out training ratings.

    There are three: user and item effects with low-rank factors by variational Bayes (Lim and Teh
    2007); the private estimator without noise; and the same with the main directions of who rated
    what as item features, as in SVD++ (Koren 2008).
    """

    uses_item_features = True
    id = "reference-ratings"
    name = "Best ratings without privacy"
    revision = 7
    rank: int = setting(10, "most directions of taste", at_least=0, at_most=200)
    rounds: int = setting(30, "most rounds over users and items", at_least=1, at_most=1_000)

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield the rounds of variational Bayes, and last the weighted sum of the three models."""
        weights = self._fit_weights(ratings, rng)  # in the order of `models` below
        # Both private fits below draw the same numbers, so that only their features differ.
        seed = int(rng.integers(2**63))
        total = self.rounds + 1
        for step in self._fit_variational_bayes(ratings):
            yield replace(step, total=total, final=False)
        models = [step.model, *_fit_private_without_noise(ratings, seed)]
        trace = {**step.trace, "weight of variational Bayes": weights[0]}
        model = _blend_models(models, weights, ratings.public)
        yield Step.from_trace(step.index + 1, total, model, trace, converged=True)

    def _fit_weights(self, ratings: Ratings, rng: Rng) -> Floats:
        """Fit the weights with which the models' sum predicts held-out ratings best.

        They minimise the squared error, are at least 0, and are shrunk towards (1, 0, 0), which is
        the first model alone, by a prior worth `_PRIOR_RATINGS` ratings. If there are more than two
        million ratings, those of a random subset of users are used, about one million.

        Returns:
            Array of shape (3,).
        """
        from scipy.optimize import nnls

        if len(ratings) > 2 * _MAX_WEIGHING_RATINGS:
            is_sampled = rng.random(ratings.public.users) < _MAX_WEIGHING_RATINGS / len(ratings)
            positions = np.where(is_sampled, np.cumsum(is_sampled) - 1, -1).astype(np.int32)
            ratings = ratings.select_users(positions)
        fold = rng.integers(_FOLDS, size=len(ratings))
        if len(ratings) < _MIN_RATINGS or len(np.unique(fold)) < _FOLDS:
            return np.array([1.0, 0.0, 0.0])
        n_folds = min(_FOLDS, math.ceil(_FOLDS * _MIN_HELD_OUT / len(ratings)))
        middle = ratings.public.middle
        predictions = []
        for k in range(n_folds):
            is_held_out = fold == k
            train, test = ratings.select(~is_held_out), ratings.select(is_held_out)
            *_, last = self._fit_variational_bayes(train)
            models = [last.model, *_fit_private_without_noise(train, int(rng.integers(2**63)))]
            fold_predictions = [model.predict(test.users, test.items) for model in models if model]
            predictions.append(np.column_stack([*fold_predictions, test.values]) - middle)
        *model_columns, values = np.concatenate(predictions).T
        design = np.column_stack(model_columns)
        # The prior is a further row of the least-squares problem for each weight.
        prior_weights = np.eye(len(model_columns))[0]
        prior_scale = np.sqrt(_PRIOR_RATINGS * (design**2).mean(axis=0))
        rows = np.vstack([design, np.diag(prior_scale)])
        return nnls(rows, np.append(values, prior_scale * prior_weights))[0]

    def _fit_variational_bayes(self, ratings: Ratings) -> Steps:
        """Fit effects and factors by variational Bayes, and yield a step for each round."""
        from dpmc_core.solvers.noisy_reports import fit_effects_and_taste

        entries = Pattern.from_ratings(ratings)
        half_width = ratings.public.half_width
        mean = ratings.values.mean()
        values = (ratings.values - mean) / half_width
        posteriors = fit_effects_and_taste(
            entries, values, noise_by_user=True, rank=self.rank, rounds=self.rounds
        )
        for index, posterior in enumerate(posteriors, 1):
            trace = {
                "training rmse": half_width * rmse(posterior.predict(entries), values),
                "noise left": half_width * math.sqrt(posterior.noise),
                "directions of taste": posterior.left.shape[1],
            }
            model = posterior.build_model(half_width, mean)
            yield Step.from_trace(index, self.rounds, model, trace, converged=posterior.final)


def _fit_private_without_noise(ratings: Ratings, seed: int) -> list[Factors]:
    """Fit the private estimator without noise, and again with who rated what as an item feature.

    Args:
        ratings: the users' ratings.
        seed: seeds both fits.

    Returns:
        The two models.
    """
    entries = Pattern.from_ratings(ratings)
    n = ratings.public.items
    # The main directions of who rated what, each user's row scaled to length 1.
    rated_products = gram_products(
        entries.build_matrix(np.ones(len(ratings))), 1.0 / np.sqrt(np.maximum(entries.counts, 1))
    )
    _, vectors = leading_eigenpairs(rated_products, n, min(_N_DIRECTIONS, n - 1))
    counts = 1.0 + item_sums(entries)
    rated_features = {
        "who rated what": decorrelate_columns(vectors / np.sqrt(counts)[:, None], counts)
    }
    method = PrivateEffects(epsilon=1e6)  # its noise is negligible
    fitted = []
    for extra_features in ({}, rated_features):
        extended = ratings.with_item_features(
            {**ratings.item_features, **extra_features}
        ).use_features([*ratings.used_feature_names, *extra_features])
        with record_publications():  # what this publishes is not a release of the run
            *_, last = method.fit(extended, np.random.default_rng(seed))
        assert isinstance(last.model, Factors)
        fitted.append(last.model)
    return fitted


def _blend_models(models: Sequence[Model | None], weights: Floats, public: PublicFacts) -> Factors:
    """Return the middle of the range plus the weighted sum of the models' deviations from it.

    Args:
        models: the models, all of which are factors.
        weights: array of shape (n_models,).
        public: the public facts, which state the middle of the range.
    """
    factor_models = [model for model in models if isinstance(model, Factors)]
    # Each model's factors contain the middle of the range, too: the offset is what the weights
    # leave of it.
    left = np.hstack(
        [weight * model.left for weight, model in zip(weights, factor_models, strict=True)]
    )
    right = np.hstack([model.right for model in factor_models])
    return factors_with_offsets(left, right, public.middle * (1 - weights.sum()))


@mechanism
class ReferenceRanking(NonprivateMechanism):
    """The best of iALS, EASE, item neighbours and popularity, its settings chosen for the data.

    Interactions of the training data, users' latest where times are known, are held out of it; what
    ranks most of them among the first ten then learns from all of the training data. Above ten
    million cells one of each kind is tried, then the other settings of the best kind alone.
    """

    uses_item_features = True
    id = "reference-ranking"
    name = "Best ranking without privacy"
    task = Task.RANKING
    baseline = "popularity"
    revision = 4
    judges: int = setting(
        5_000, "most held-out interactions that choose", at_least=1, at_most=1_000_000
    )
    rounds: int = setting(15, "rounds of iALS once it is chosen", at_least=1, at_most=10_000)

    def fit(self, ratings: Ratings, rng: Rng) -> Steps:
        """Yield a step without a model for each candidate, and last the best one, fitted to all."""
        check_interactions(ratings)
        is_held_out = self._choose_held_out(ratings, rng)
        seed = int(rng.integers(2**63))  # both private fits below start from the same draws
        total = len(_CANDIDATES) + 1
        candidates = list(_CANDIDATES)
        hit_ratios = {candidate.name: 0.0 for candidate in candidates}  # the best of each kind
        if math.prod(ratings.shape) > _LARGE_CELLS:
            candidates_by_type = [
                [method for method in _CANDIDATES if type(method) is method_type]
                for method_type in dict.fromkeys(map(type, _CANDIDATES))
            ]
            candidates = [same_type[len(same_type) // 2] for same_type in candidates_by_type]
        best = candidates[0]
        for index, candidate in enumerate(candidates, 1):
            hit_ratio = _measure_hit_ratio(candidate, ratings, is_held_out, seed)
            if hit_ratio > max(hit_ratios.values()):
                best = candidate
            hit_ratios[candidate.name] = max(hit_ratios[candidate.name], hit_ratio)
            trace = {f"validation HR@10, {name}": value for name, value in hit_ratios.items()}
            yield Step.from_trace(index, total, None, trace)
            if candidate is candidates[-1]:  # of the best kind, all other settings are tried, too
                same_type = (peer for peer in _CANDIDATES if type(peer) is type(best))
                candidates += [peer for peer in same_type if peer not in candidates]
        final = replace(best, rounds=self.rounds) if isinstance(best, Ials) else best
        with record_publications():
            *_, last = final.fit(ratings, np.random.default_rng(seed))
        yield Step.from_trace(total, total, last.model, trace)

    def _choose_held_out(self, ratings: Ratings, rng: Rng) -> Bools:
        """Choose which interactions are held out, about `judges` in all: the latest of each user.

        If there are fewer than `judges` users with two interactions or more, each of them has
        several held out, but at most a fifth (one at least); otherwise `judges` random users have
        one each.

        Returns:
            Mask of shape (n_ratings,).
        """
        counts = np.diff(ratings.indptr)
        eligible_users = rng.permutation(np.flatnonzero(counts > 1))[: self.judges]
        quota = np.zeros(len(counts), dtype=np.int64)
        quota_per_user = self.judges // max(len(eligible_users), 1)
        quota[eligible_users] = np.clip(counts[eligible_users] // 5, 1, max(quota_per_user, 1))
        latest = () if ratings.times is None else (-ratings.times,)
        return rank_within_user(ratings, rng.random(len(ratings)), *latest) < quota[ratings.users]


def _measure_hit_ratio(method: Mechanism, ratings: Ratings, is_held_out: Bools, seed: int) -> float:
    """Return HR@10 of the held-out interactions for a method that is fitted to the others.

    It is 0 for every method if no interaction is held out, or none can be ranked.

    Args:
        method: the method to fit.
        ratings: the interactions.
        is_held_out: mask of shape (n_ratings,).
        seed: seeds the fit and the ranking candidates.
    """
    if not is_held_out.any():
        return 0.0
    train, test = ratings.select(~is_held_out), ratings.select(is_held_out)
    with record_publications():  # what this publishes is not a release of the run
        *_, last = method.fit(train, np.random.default_rng(seed))
    assert last.model is not None  # no noise to wait for
    try:
        return evaluate_ranking(last.model, train, test, np.random.default_rng(seed)).hr
    except BadRatings:
        return 0.0
