"""Choose privately: the best of a random number of runs, by a score that is private itself.

To try settings on one's ratings and publish the best is a release of its own, which costs what all
runs cost together. Here the number of runs is drawn from a distribution that is declared
beforehand, each run draws its candidate, and only the best comes out: its settings, its model and
its noisy score (see `privacy.selection`). How many runs there were is part of what hides: nobody is
told.

A run is private as a whole, training and score. One rating of every user is held out, drawn by a
hash within that user's row, also where it is the only one: so a changed cell of a row changes one
cell of the training ratings at most, and no other user's. A user adds 0 to 1 to the score, and one
user moves it by 1 at most, given what was published.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpmc_core import metrics
from dpmc_core.data import Dataset, Transform
from dpmc_core.errors import InvalidSetting, check_number
from dpmc_core.experiment import settings_dict
from dpmc_core.lab.study.ledger import Cost, Kind, LedgerEntry, compose, costs_of
from dpmc_core.lab.study.recommend import typed
from dpmc_core.model import Mechanism, Model, Task
from dpmc_core.privacy import (
    USER_REPLACED,
    Budget,
    Certified,
    Change,
    Gaussian,
    Guarantee,
    Laplace,
    Loss,
    Releases,
    calibrate,
)
from dpmc_core.privacy.accounting import gaussian_mu
from dpmc_core.privacy.selection import RandomRuns, Selection
from dpmc_core.problem import Problem, build_problem, generator
from dpmc_core.ratings import PublicFacts, kept_at_random
from dpmc_core.stopping import look

SHARE = 0.2  # of a run's budget that its score takes
SPLIT = "one rating of every user, drawn by a hash"
_MOVES = {USER_REPLACED: 1.0}  # of the score: it bounds every smaller change too


@dataclass(frozen=True)
class Scored(Releases):
    """What training releases, and then the score of its model."""

    training: Releases
    score: Laplace | Gaussian


class Candidate(NamedTuple):
    """A method at the setting where its run with its score costs what was asked; card: of both."""

    mechanism: Mechanism
    card: Guarantee[Scored]


@dataclass(frozen=True, kw_only=True)
class Contest:
    """What is tried, and how often: fixed before any rating is read.

    budget: of one run, for the change; runs: how many of them.
    """

    candidates: tuple[Candidate, ...]
    change: Change
    budget: Budget
    runs: RandomRuns

    @property
    def task(self) -> Task:
        return self.candidates[0].mechanism.task

    def costs(self) -> dict[Change, Cost]:
        """What the best run costs where it alone is published, by change."""
        each = [costs_of(candidate.card) for candidate in self.candidates]
        found = dict[Change, Cost]()
        for change in Change:
            costs = [one[change] for one in each]
            reasons = [cost for cost in costs if isinstance(cost, str)]
            losses = tuple(dict.fromkeys(cost for cost in costs if isinstance(cost, Loss)))
            found[change] = reasons[0] if reasons else Selection(self.runs, losses)
        return found

    def price(self) -> Certified:
        """What it costs to publish the best run alone, at the delta of the budget."""
        return compose([self.entry()], self.change, self.budget.delta)

    def naive(self) -> Certified:
        """What it would cost to publish as many runs as are expected."""
        cards = (one.card.repeated(math.ceil(self.runs.mean)) for one in self.candidates)
        found = [card.certified(self.change, self.budget.delta) for card in cards]
        return max(found, key=lambda one: one.epsilon)

    def entry(self) -> LedgerEntry:
        """The line in the ledger."""
        ids = dict.fromkeys(candidate.mechanism.id for candidate in self.candidates)
        return LedgerEntry(
            kind=Kind.CHOICE,
            mechanism=" or ".join(ids),
            epsilon=self.budget.epsilon,
            costs=self.costs(),
        )


class Winner(NamedTuple):
    """What came out: no other run is told. score: noisy, of at most `users`."""

    candidate: Candidate
    score: float
    users: int
    model: Model


def contest(
    mechanisms: Sequence[Mechanism],
    public: PublicFacts,
    budget: Budget,
    change: Change,
    runs: RandomRuns,
    share: float = SHARE,
) -> Contest:
    """The candidates at the settings of epsilon where each run certifies the budget, score and all.

    mechanisms: with any epsilon; public: facts of the prepared ratings; share: of the budget, for
    the score. Raises InvalidSetting where a method certifies nothing finite.
    """
    if not mechanisms:
        raise InvalidSetting("candidates", "at least one", "none")
    check_number("epsilon of a run", budget.epsilon, above=0)
    check_number("share of the score", share, above=0, below=1)
    tasks = {mechanism.task: mechanism.id for mechanism in mechanisms}
    if len(tasks) > 1:
        one, other = list(tasks.values())[:2]
        raise InvalidSetting("candidates", f"of one task, as {one} is", other)
    found = tuple(_candidate(one, public, budget, change, share) for one in mechanisms)
    return Contest(candidates=found, change=change, budget=budget, runs=runs)


def _candidate(
    mechanism: Mechanism, public: PublicFacts, budget: Budget, change: Change, share: float
) -> Candidate:
    settings = settings_dict(mechanism)
    if "epsilon" not in settings:
        raise InvalidSetting("candidate", "a method with an epsilon", mechanism.id)
    own = mechanism.guarantee(public).certified(change, budget.delta)
    if not own.finite:
        certified = f"certified {change.label} with a finite epsilon"
        raise InvalidSetting("candidate", certified, mechanism.id, own.reason)
    score = _score(mechanism.guarantee(public).loss(change), budget, share)

    def at(epsilon: float) -> Candidate:
        budgeted: Any = mechanism  # a frozen dataclass of its settings
        delta = {"delta": budget.delta} if "delta" in settings else {}
        here: Mechanism = dataclasses.replace(budgeted, epsilon=epsilon, **delta)
        card: Any = here.guarantee(public)
        scored = Scored(card.releases, score)
        return Candidate(here, dataclasses.replace(card, claimed=None, releases=scored))

    return at(typed(calibrate(lambda epsilon: at(epsilon).card, budget, change)))


def _score(training: Loss, budget: Budget, share: float) -> Laplace | Gaussian:
    """The release of the score: with noise of the kind that composes best with the training's."""
    what = "how well one held-out rating of each user is predicted, 0 to 1 each, summed"
    if training.mu > 0 and budget.delta > 0:
        (spent, _) = Loss(mu=gaussian_mu(budget.epsilon, budget.delta)).split(share, 1 - share)
        return Gaussian(query=what, shape=(), sensitivity=_MOVES, scale=1 / spent.mu)
    scale = 1 / (share * budget.epsilon)
    return Laplace(query=what, shape=(), sensitivity=_MOVES, scale=scale)


def held_out(
    dataset: Dataset, task: Task, steps: Sequence[Transform] = (), seed: int = 0
) -> Problem:
    """All ratings but one of each user to train on, and these to be scored on."""
    check_number("seed", seed, at_least=0, integer=True)
    ratings = dataset.ratings
    held = kept_at_random(ratings, 1, seed)
    pair = ratings.select(~held), ratings.select(held)
    found = build_problem(pair, task, steps=steps, seed=seed, name=dataset.name)
    return dataclasses.replace(found, split=SPLIT)


def score(task: Task, model: Model, problem: Problem) -> float:
    """The sum over users of how well the held-out rating is predicted, 0 to 1 each: not private.

    Likes: 1 where the sign is right. Ratings: 1 less the square of the error, in units of half the
    public range, and 0 beyond it. Rankings: 1 where the item is among ten of all unseen ones.
    """
    found = metrics.each(task, model, problem.train, problem.test)
    if task is Task.RATINGS:
        found = 1 - np.minimum(found / problem.test.public.half_width**2, 1)
    return float(np.nansum(found))  # a prediction that is no number is worth nothing


def choose(
    rules: Contest,
    problem: Problem,
    seed: int = 0,
    on_run: Callable[[], None] = lambda: None,
) -> Winner:
    """Make the runs and keep the best; with seeded textbook noise, so for one's own eyes.

    on_run: told of every run as it begins, and nothing about it.
    """
    rng = generator(seed, f"choose on {problem.train.fingerprint}")
    best: Winner | None = None
    for _ in range(rules.runs.draw(rng)):
        on_run()
        look()
        candidate = rules.candidates[int(rng.integers(len(rules.candidates)))]
        (own,) = rng.spawn(1)
        model: Model | None = None
        for step in candidate.mechanism.fit(problem.train, own):
            look()
            model = step.model or model
        assert model is not None  # a completed fit publishes
        value = score(rules.task, model, problem)
        noisy = float(candidate.card.releases.score.publish(value, own))
        if best is None or noisy > best.score:
            best = Winner(candidate, noisy, problem.train.public.users, model)
    assert best is not None  # there is one run at least
    return best
