"""RYHH24: Ran, Ye, Huang, Hu, "Differentially Private Implicit Matrix Factorization" (2024).

The noise of figure 5, the sampling weights of figure 6, and the rankings learnt by ten parties.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import product
from operator import itemgetter
from types import MappingProxyType
from typing import Any

import numpy as np

from dpmc_core import registry
from dpmc_core.arrays import Floats, Ints
from dpmc_core.errors import check_number
from dpmc_core.mechanisms.dpimf import Profiles
from dpmc_core.model import Factors, Model, Task
from dpmc_core.privacy import Change
from dpmc_core.privacy.accounting import bisect
from dpmc_core.privacy.sampled import importance_weights
from dpmc_core.problem import LeaveLast, Problem, build_problem, create_generator
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.settings import format_setting
from dpmc_core.stopping import check_cancelled
from dpmc_data import datasets
from dpmc_lab.papers.engine import Trial, TrialRecipe, make_exact_recipe, parse_texts
from dpmc_lab.protocol import federated
from dpmc_lab.protocol.simulate import evaluate_with_baselines

# --- figures 5 and 6 ---------------------------------------------------------------------------

# Section VI-B: the setting of figure 5, and of figure 6.
FIGURE_5 = {"alpha": 0.8, "beta1": 0.1, "beta2": 0.8, "beta3": 0.1}
NOISY_VARIANTS = ("dpimf-strawman", "dpimf-complementary", "dpimf-symmetric")
USERS, RANK = 2000, 20
_ROUNDS = 5  # of the fit behind figure 6: the norms hardly move after it


def select_settings(id: str, settings: Mapping[str, float] = FIGURE_5) -> dict[str, float]:
    """Return those of some settings, by default of figure 5, that a variant has, by name."""
    cls = registry.get_mechanism(id)
    return {name: value for name, value in settings.items() if registry.has_setting(cls, name)}


def compute_figure_5(
    public: PublicFacts, epsilon: float, settings: Mapping[str, float]
) -> dict[str, tuple[Floats, Floats]]:
    """Compute the density of the noise on one number of the second moment, for each variant.

    Args:
        public: the public facts of the data.
        epsilon: the budget of one solve.
        settings: of the variants that have them.

    Returns:
        A grid, which reaches six scales of the second-largest noise, and the density on it, by
        variant. The optimal variant adds no such noise.
    """
    releases: dict[str, Any] = {}
    for id in NOISY_VARIANTS:
        mechanism = registry.create(id, epsilon=epsilon, **select_settings(id, settings))
        releases[id] = dict(mechanism.guarantee(public).releases)["second"]
    _, middle, _ = sorted(release.scale for release in releases.values())
    x = np.linspace(-6 * middle, 6 * middle, 401)
    return {id: (x, release.density(x)) for id, release in releases.items()}


def fit_user_factors(ratings: Ratings) -> Floats:
    """Fit factors of the first 2000 users without privacy: an array of shape (users, 20)."""
    chosen = ratings.select(ratings.users < USERS)
    nonprivate = registry.create("ials", rank=RANK, rounds=_ROUNDS)
    *_, last = nonprivate.fit(chosen, np.random.default_rng(0))
    assert isinstance(last.model, Factors)
    return np.asarray(last.model.left[:USERS], dtype=float)


def compute_figure_6(factors: Floats, sample: float) -> tuple[Floats, dict[str, Floats]]:
    """Return sampling weights of one item's first-order terms at an expected sample size.

    A term's loss at weight 1 is its l1 norm over the longest; importance weights keep the smallest
    loss with that sample. Utility-optimal ones minimise the variance sum ||p||_2^2 (w - 1) of the
    sampled sum: their chance 1/w is min(1, ||p||_2 / level).

    Args:
        factors: of shape (users, d).
        sample: the expected sample size, sum 1/w.

    Returns:
        The l1 norms, rising, and the weights in their order by strategy.

    Raises:
        InvalidSetting: the sample is larger than the number of users.
    """
    lengths = np.abs(factors).sum(axis=1)
    order = np.argsort(lengths, kind="stable")
    norm, l2 = lengths[order], np.linalg.norm(factors[order], axis=1)
    check_number("sample size", sample, above=0, at_most=int(np.count_nonzero(norm)))
    losses = norm / norm.max()

    def weigh_by_utility(level: float) -> Floats:
        with np.errstate(divide="ignore"):
            weights: Floats = np.maximum(1.0, level / l2)
        return weights

    def match_sample(weigh: Callable[[float], Floats], high: float) -> Floats:
        """Return weights, which rise with a level, at the level of the expected sample size."""

        def is_too_large(level: float) -> bool:
            return bool((1.0 / weigh(level)).sum() > sample)

        while is_too_large(high):
            high *= 2.0
        # The end at which the sample is not too large.
        return weigh(bisect(is_too_large, 0.0, high, relative=1e-15)[1])

    return norm, {
        "importance": match_sample(partial(importance_weights, losses), 1.0),
        "utility-optimal": match_sample(weigh_by_utility, float(l2.max())),
        "uniform": np.full(len(norm), len(norm) / sample),
    }


# --- rankings learnt by ten parties --------------------------------------------------------------

NAMES = {  # as the paper calls them
    "dpimf-strawman": "str",
    "dpimf-complementary": "com",
    "dpimf-symmetric": "sym",
    "dpimf-optimal": "opt",
    "dpimf-sampled": "IS",
    "dpmf-clicks": "DPMF",
    "dplcf": "DPLCF",
    "ldpicf": "LDPICF",
    "ials": "GT",
    "popularity": "most popular",
}
PARTIES = federated.PAPER_SETTINGS["parties"]
MEASURED_ROUNDS = (1, 3, 10, 30, 100)  # rounds after which the ranking is measured
NO_NOISE = 1e6  # an epsilon at which noise is no longer seen
# What a run depends on beside its key: every figure and table takes a run that another one made.
_POOL = ("ryhh24", PARTIES, FIGURE_5, MEASURED_ROUNDS)


RANDOM = "at random"
TIE_RULES: Mapping[str, Callable[[Ratings, Ints], Any]] = {  # what is held out has the largest
    "lowest film number": lambda ratings, _: -ratings.items,
    "highest film number": lambda ratings, _: ratings.items,
    "most rated film": lambda ratings, counts: counts[ratings.items],
    "least rated film": lambda ratings, counts: -counts[ratings.items],
}


@lru_cache(maxsize=2)
def load_problem(data: str, seed: int, ties: str = RANDOM) -> Problem:
    """Load the clicks of a data set, with each user's last held out; raises DpmcError.

    Of several with the same latest time the rule `ties` decides.
    """
    dataset = datasets.load(data, for_ranking=True)
    ratings = dataset.ratings
    if ties != RANDOM:
        assert ratings.times is not None
        counts = np.bincount(ratings.items, minlength=ratings.public.items)
        order = TIE_RULES[ties](ratings, counts)
        # Times stay in their order, and no two of them are less apart than the orders within one.
        times = ratings.times * (2 * len(ratings)) + order
        dataset = replace(dataset, ratings=replace(ratings, times=times))
    return build_problem(dataset, Task.RANKING, split=LeaveLast(), seed=seed)


def share_tied_users(data: str, seed: int) -> float:  # noqa: ARG001
    """Return the share of users with several ratings at their latest time."""
    ratings = datasets.load(data, for_ranking=True).ratings
    assert ratings.times is not None
    latest = np.maximum.reduceat(ratings.times, ratings.indptr[:-1])
    at_latest = ratings.times == latest[ratings.users]
    return float((np.bincount(ratings.users[at_latest]) > 1).mean())


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Runs of a method, one for each seed, that rank the items that were held out.

    Attributes:
        ridge: lambda.
        size: number of exchanges with the server, and of noisy solves of a party between two.
        parties: number of parties that share the clicks.
        alone: whether one party sees all clicks; only `settings`, as text, differ from ours then.
        ties: the rule for ratings of a user with the same latest time.
    """

    id: str
    data: str
    rank: int
    ridge: float
    epsilon: float | None = None
    profiles: Profiles = Profiles.USERS
    size: Sequence[int] = (3, 2)
    parties: int = PARTIES
    alone: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    ties: str = RANDOM

    @property
    def key(self) -> str:
        """Return the name of the run, under which its output is stored; defaults are left out."""
        epsilon = "" if self.epsilon is None else f" epsilon {self.epsilon:g}"
        revision = f"revision {registry.get_mechanism(self.id).revision}"
        revision += "" if self.ties == RANDOM else f" ties {self.ties}"
        if self.alone:
            texts = ",".join(f"{name}={text}" for name, text in self.settings.items())
            return " ".join(filter(None, (f"{self.data} {self.id}{epsilon}", texts, revision)))
        rounds, local = self.size
        among = "" if self.parties == PARTIES else f" parties {self.parties}"
        return (
            f"{self.data} {self.profiles.value} {self.id}{epsilon} lambda {self.ridge:g}"
            f" rank {self.rank} rounds {rounds} x {local}{among} {revision}"
        )

    def run(self, seed: int) -> dict[str, Any]:
        """Return ranking metrics, with several parties also after some rounds; raises DpmcError."""
        problem = load_problem(self.data, seed, self.ties)
        if not self.alone:
            return self.run_federation(problem, seed)
        settings = parse_texts(self.id, self.settings)
        mechanism = registry.create(self.id, epsilon=self.epsilon, **settings)
        rng = create_generator(seed, f"{self.id} on {problem.train.fingerprint}")
        *_, last = mechanism.fit(problem.train, rng)
        assert last.model is not None
        return _measure_ranking(last.model, problem, seed)

    def run_federation(self, problem: Problem, seed: int) -> dict[str, Any]:
        """Return ranking metrics of a variant that parties learn, the norms read off the data.

        `after` has them after each of MEASURED_ROUNDS. Raises InvalidSetting, also where the
        factors shrink to zero.
        """
        rounds, local = self.size
        assert self.epsilon is not None
        flow = federated.build_federation(
            self.id,
            self.epsilon,
            parties=self.parties,
            rounds=rounds,
            local=local,
            profiles=self.profiles,
            clip=None,
            rank=self.rank,
            regularisation=self.ridge,
            # Alpha and the shares of the budget are printed for that figure only.
            **select_settings(self.id),
        )
        run = federated.start_federated_run(flow, problem, seed)
        after = {}
        for round in run.play():
            check_cancelled()
            if round in MEASURED_ROUNDS or round == rounds:
                after[str(round)] = _measure_ranking(run.build_model(), problem, seed)
        return {**after[str(rounds)], "after": after}


def _measure_ranking(model: Model, problem: Problem, seed: int) -> dict[str, float]:
    report = evaluate_with_baselines(Task.RANKING, model, problem, seed, ())
    return {name: float(value) for name, value in report["metrics"].items()}


def _build_trials(
    value: Callable[[Ranking], Callable[[Any], Any]],
    methods: Sequence[str],
    epsilons: Sequence[float | None] = (None,),
    suffix: str = "",
    published: Mapping[str, str] | None = None,
    **options: Any,
) -> Iterator[Trial]:
    """Yield the runs of some methods.

    Args:
        value: returns, for a run, what takes the plotted value out of its output.
        methods: ids of the methods.
        epsilons: the epsilons of each.
        suffix: of the label.
        published: settings that differ from the paper's; None: our own settings.
        **options: further fields of `Ranking`.
    """
    for id, epsilon in product(methods, epsilons):
        defaults = {} if published is None else registry.get_published_settings(id).settings
        texts = {name: format_setting(default) for name, default in defaults.items()}
        settings = {name: (published or {}).get(name, text) for name, text in texts.items()}
        run = Ranking(id=id, epsilon=epsilon, settings=settings, **options)
        # A run without noise is the same at every epsilon.
        x = None if epsilon is None or epsilon >= NO_NOISE else epsilon
        yield Trial(NAMES[id] + suffix, id, x, run.key, run.run, value(run))


def rank_items(
    metric: str,
    runs: Sequence[Mapping[str, Any]],
    profiles: str,
    over_solves: bool = False,
    **defaults: Any,
) -> TrialRecipe:
    """Return the recipe of curves of one metric; the same runs serve all metrics.

    Args:
        metric: of those that a run measures.
        runs: arguments of `_build_trials`; what they leave out is as in `defaults`.
        profiles: which profiles the parties learn.
        over_solves: whether the x is the number of noisy solves, instead of epsilon.
    """

    def get_value(run: Ranking) -> Callable[[Any], Any]:
        if not over_solves:
            return itemgetter(metric)
        return lambda output: {
            float(rounds) * run.size[1]: metrics[metric]
            for rounds, metrics in output["after"].items()
        }

    shared = {"profiles": Profiles(profiles), **defaults}
    return _build_ranking_recipe(
        [trial for run in runs for trial in _build_trials(get_value, **{**shared, **run})]
    )


def _build_ranking_recipe(trials: Sequence[Trial]) -> TrialRecipe:
    """Return the recipe of rankings, whose outputs all figures of the paper share."""
    return TrialRecipe(
        trials,
        {"runs": [trial.key for trial in trials]},
        tuple(dict.fromkeys(t.mechanism for t in trials if t.mechanism)),
        seeds=(1, 2, 3),
        pool=_POOL,
    )


def break_ties(
    data: str, profiles: str, runs: Sequence[Mapping[str, Any]], **shared: Any
) -> TrialRecipe:
    """Return the recipe of HR@10 by the rule for a user's ratings with the same latest time."""
    shared |= {"data": data, "profiles": Profiles(profiles)}
    label = "share of users with a tie"
    trials = [
        trial._replace(x=float(index))
        for index, ties in enumerate((RANDOM, *TIE_RULES))
        for run in runs
        for trial in _build_trials(lambda _: itemgetter("hr@10"), ties=ties, **shared, **run)
    ]
    share = Trial(label, None, 0.0, f"{data} {label}", partial(share_tied_users, data))
    return _build_ranking_recipe([share, *trials])


def plot_noise(public: Mapping[str, Any], epsilon: float, **settings: float) -> TrialRecipe:
    """Return the recipe of figure 5: densities of the noise on the second moment."""

    def compute() -> dict[str, tuple[list[float], list[float]]]:
        curves = compute_figure_5(PublicFacts(**public), epsilon, settings)
        # Every fifth point is enough for a smooth curve.
        return {NAMES[id]: (x[::5].tolist(), y[::5].tolist()) for id, (x, y) in curves.items()}

    return make_exact_recipe(
        compute,
        {NAMES[id]: id for id in NOISY_VARIANTS},
        settings={"epsilon": epsilon, **settings},
        mechanisms=NOISY_VARIANTS,
    )


def weigh_samples(sample: int, groups: int) -> TrialRecipe:
    """Return the recipe of figure 6: mean sampling weights of users with factors of like length."""

    def average(values: Floats) -> list[float]:
        """Average over groups, so that no single person's factor is in a result."""
        return [float(group.mean()) for group in np.array_split(values, groups)]

    def compute() -> dict[str, tuple[list[float], list[float]]]:
        factors = fit_user_factors(load_problem("ml-100k", 1).train)
        norm, weights = compute_figure_6(factors, float(sample))
        return {name: (average(norm), average(values)) for name, values in weights.items()}

    return make_exact_recipe(
        compute,
        dict.fromkeys(("importance", "utility-optimal", "uniform")),
        settings={"users": USERS, "rank": RANK, "sample": sample, "groups": groups},
        mechanisms=("ials",),
    )


UNITS = (Change.RATING, Change.CELL, Change.USER_EMPTIED)


def certify_units(methods: Mapping[str, Mapping[str, Any]]) -> TrialRecipe:
    """Return the recipe of table I: whether epsilon 1 is proved for each unit, and with delta 0."""

    def certify(
        id: str,
        public: Mapping[str, Any],
        delta: float | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> list[float]:
        chosen = {**registry.get_published_settings(id).settings, **parse_texts(id, settings)}
        mechanism = registry.create(id, epsilon=1.0, delta=delta, **chosen)
        guarantee = mechanism.guarantee(PublicFacts(**public))
        proved = [guarantee.certified(unit, delta or 0.0).epsilon for unit in UNITS]
        is_pure = guarantee.certified(Change.RATING, 0.0).finite
        # Whether epsilon 1, the claim, is proved for each unit; and whether delta is 0.
        return [*(float(epsilon <= 1 + 1e-9) for epsilon in proved), float(is_pure)]

    ids = {label: str(method["id"]) for label, method in methods.items()}
    return make_exact_recipe(
        lambda: {label: (range(4), certify(**method)) for label, method in methods.items()},
        ids,
        settings={"methods": {label: dict(method) for label, method in methods.items()}},
        mechanisms=tuple(ids.values()),
    )
