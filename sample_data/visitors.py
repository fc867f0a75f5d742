"""Compute what a visitor's lists are made from, and measure how good such lists are.

A visitor is a user whose ratings no run has used. Before any answer the visitor's scores are those
of the mean user. Answers move them along the directions in which users differ, by ridge regression
whose prior is how far users differ. The results are in the files of lists that ship with the
samples (see compute.py).
"""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dpmc_core import experiment, registry
from dpmc_core.arrays import Floats, Ints, Rng
from dpmc_core.dataset import Dataset
from dpmc_core.errors import DpmcError
from dpmc_core.model import Mechanism, Model
from dpmc_core.problem import build_problem, prepare_all_ratings
from dpmc_core.ratings import Ratings
from dpmc_lab.curves.data import count_ratings, format_item_title
from dpmc_lab.curves.lines import LEVEL, compute_interval
from dpmc_lab.curves.people import (
    MIN_JUDGES,
    N_PROMPTS,
    FlipChances,
    ListQuality,
    VisitorLists,
    choose_dissimilar_items,
    choose_prompts,
    load_item_categories,
)
from dpmc_lab.sweep import LISTS_SEED, toplists

_N_LISTED = 300  # most rated items that lists are made of
_N_FOLDS = 3  # groups of users; each judges lists of runs without its ratings
_MIN_OTHER_RATINGS = 10  # ratings of a judge besides those of the six prompts
_N_REPORTS = 3  # times that each judge's answers are randomised
_MIN_VARIANCE = 0.05  # variance of a sign about its score


class VisitorModel(NamedTuple):
    """What a run predicts for a user who was not in it.

    The scores of users are modelled as a Gaussian whose mean and covariance are those of the run's
    users. A visitor's scores are its conditional mean given the visitor's answers.

    Attributes:
        base: array of shape (n_items,), scores before any answer.
        projections: array of shape (n_items, rank), change of the scores per standard deviation in
            each direction in which users differ.
        residual_variance: variance of a sign about its score.
    """

    base: Floats
    projections: Floats
    residual_variance: float

    @classmethod
    def from_model(cls, model: Model, train: Ratings) -> VisitorModel:
        """Build the model of a new user from the factors of a run.

        Args:
            model: the run's model.
            train: its training ratings, as signs.

        Raises:
            DpmcError: the model has no factors.
        """
        if model.factors is None:
            raise DpmcError("answers fold into item factors, which this method does not have")
        user_factors = model.factors.left[np.unique(train.users)]
        item_factors = model.factors.right
        mean = user_factors.mean(axis=0)
        _, sizes, directions = np.linalg.svd(user_factors - mean, full_matrices=False)
        projections = item_factors @ (directions.T * (sizes / math.sqrt(len(user_factors))))
        explained = float(np.mean(model.predict(train.users, train.items) ** 2))
        return cls(item_factors @ mean, projections, max(1 - explained, _MIN_VARIANCE))

    def score_items(self, items: Ints, prompt_items: Ints, values: Floats, noise: float) -> Floats:
        """Score items, given answers about the six prompts.

        Args:
            items: indices of the items to score.
            prompt_items: indices of the six prompts.
            values: array of shape (6,), unbiased reports of the signs.
            noise: variance of the noise in `values`.
        """
        prompt_projections = self.projections[prompt_items]
        gram = prompt_projections @ prompt_projections.T + (
            self.residual_variance + noise
        ) * np.eye(len(prompt_items))
        weights = np.linalg.solve(gram, values - self.base[prompt_items])
        return self.base[items] + self.projections[items] @ (prompt_projections.T @ weights)


def build_visitor_lists(
    mechanisms: Sequence[Mechanism], data: Dataset, report_progress: Callable[[int, int, str], None]
) -> VisitorLists:
    """Build what a visitor's lists are computed from, and measure how good such lists are.

    The runs have the first seed of the curve. Users stand in for visitors: each third of them
    judges the lists of runs without its ratings. Fold 0 holds out nobody; its runs give the scores
    that visitors get.

    Args:
        mechanisms: the method at every epsilon of the slider.
        data: the data set.
        report_progress: called with the number of runs done, their total and a label.

    Raises:
        DpmcError: a method has no item factors.
    """
    task = mechanisms[0].task
    counts = count_ratings(data.ratings)[1]
    methods = [*mechanisms, registry.create(registry.NONPRIVATE_REFERENCES[task])]
    problem = build_problem(data, task, seed=LISTS_SEED)
    prepared = prepare_all_ratings(data.ratings, task)[0]
    listed = np.argsort(-counts, kind="stable")[:_N_LISTED]
    prompt_items = np.array([prompt.item for prompt in choose_prompts(mechanisms[0], data)])
    users = np.arange(problem.train.public.users)
    score_tables: list[Floats] = []
    residual_variances: list[float] = []
    liked: list[list[Floats]] = [[] for _ in methods]  # by method: the three shares of each judge
    for fold in range(_N_FOLDS + 1):
        held_out_users = users[users % _N_FOLDS == fold - 1]
        train = problem.train.select(~np.isin(problem.train.users, held_out_users))
        judges = [
            _Judge.from_ratings(prepared, user, listed, load_item_categories(data)[1])
            for user in held_out_users.tolist()
        ]
        for k, method in enumerate(methods):
            report_progress(
                fold * len(methods) + k, (_N_FOLDS + 1) * len(methods), "lists from six answers"
            )
            reduced_problem = dataclasses.replace(problem, train=train)
            run = experiment.run(method, reduced_problem, LISTS_SEED, with_baselines=False)
            visitor = VisitorModel.from_model(run.model, train)
            rng = np.random.default_rng(fold)
            if fold == 0:
                products = visitor.projections @ visitor.projections[prompt_items].T
                score_tables.append(np.column_stack([visitor.base, products])[listed])
                residual_variances.append(visitor.residual_variance)
            flips = FlipChances.from_guarantee(run.guarantee)
            liked[k] += [
                judge.judge_lists(visitor, counts, flips, rng) for judge in judges if judge
            ]
    unit = float(np.abs(score_tables).max()) / (2**15 - 1)
    return VisitorLists(
        tuple(format_item_title(prepared, item) for item in listed.tolist()),
        tuple(listed.tolist().index(item) for item in prompt_items.tolist()),
        base64.b64encode(np.rint(np.array(score_tables) / unit).astype("<i2").tobytes()).decode(
            "ascii"
        ),
        unit,
        tuple(residual_variances),
        tuple(
            summarise_list_quality(np.reshape(shares, (-1, 3)), len(methods)) for shares in liked
        ),
    )


def summarise_list_quality(liked: Floats, n_epsilons: int) -> ListQuality:
    """Summarise how judges liked their lists.

    Args:
        liked: array of shape (n_people, 3), the three shares of `ListQuality`.
        n_epsilons: number of comparisons that the interval has to hold for at once.
    """
    if len(liked) < MIN_JUDGES:
        return ListQuality(len(liked), personal=0.0, common=0.0, most_rated=0.0, lead=-1.0)
    level = 1 - (1 - LEVEL) / n_epsilons
    leads = [compute_interval(liked[:, 0] - rival, level) for rival in liked[:, 1:].T]
    personal, common, most_rated = liked.mean(axis=0).tolist()
    return ListQuality(
        len(liked), personal, common, most_rated, min(lead.mean - lead.half_width for lead in leads)
    )


class _Judge(NamedTuple):
    """A user who answers prompts about six rated items and judges lists of the other rated ones.

    Attributes:
        prompt_items: array of shape (6,), indices of the six items.
        signs: array of shape (6,), their ratings, -1 or 1.
        other_items: array of shape (n_other,), indices of the other rated items.
        other_signs: array of shape (n_other,), their ratings, -1 or 1.
    """

    prompt_items: Ints
    signs: Floats
    other_items: Ints
    other_signs: Floats

    @classmethod
    def from_ratings(
        cls, ratings: Ratings, user: int, listed: Ints, categories: Floats
    ) -> _Judge | None:
        """Choose six of a user's rated items for the prompts; None if too few others remain.

        Args:
            ratings: all ratings, as signs.
            user: index of the user.
            listed: the items that lists are made of, the most rated first.
            categories: array of shape (n_items, n_categories).
        """
        row = slice(ratings.indptr[user], ratings.indptr[user + 1])
        signs = np.zeros(len(categories))
        signs[ratings.items[row]] = ratings.values[row]
        rated = listed[signs[listed] != 0]
        prompt_items = choose_dissimilar_items(rated, categories)
        other_items = rated[~np.isin(rated, prompt_items)]
        if len(prompt_items) == 0 or len(other_items) < _MIN_OTHER_RATINGS:
            return None
        return cls(prompt_items, signs[prompt_items], other_items, signs[other_items])

    def judge_lists(
        self, visitor: VisitorModel, counts: Ints, flips: FlipChances, rng: Rng
    ) -> Floats:
        """Return which share of each of three lists the judge likes.

        Args:
            visitor: the model that makes lists from reports.
            counts: array of shape (n_items,), number of ratings of each item.
            flips: how reports are randomised.
            rng: random numbers of the reports.

        Returns:
            Array of shape (3,): for lists from reports of the six answers, for the list common to
            all, and for the most rated items.
        """
        no, yes, debias_factor, noise = flips

        def share_liked(scores: Floats | Ints) -> float:
            """Return the liked share of the list that these scores of the other items give."""
            best = np.argsort(-scores, kind="stable")[: toplists.LIST_LENGTH]
            return float(np.mean(self.other_signs[best] > 0))

        def share_liked_after(uniforms: Floats) -> float:
            """Return the liked share of the list after reports that these numbers randomise."""
            flipped = uniforms < np.where(self.signs > 0, yes, no)
            # A true sign s is reported as s debias_factor - yes + no on average.
            values = (np.where(flipped, -self.signs, self.signs) + yes - no) / debias_factor
            return share_liked(
                visitor.score_items(self.other_items, self.prompt_items, values, noise)
            )

        personal = np.mean(
            [share_liked_after(uniforms) for uniforms in rng.random((_N_REPORTS, N_PROMPTS))]
        )
        common = share_liked(visitor.base[self.other_items])
        return np.array([personal, common, share_liked(counts[self.other_items])])
