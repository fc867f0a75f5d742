"""RYHH24: Ran, Ye, Huang, Hu, "Differentially Private Implicit Matrix Factorization" (2024).

The noise of figure 5, the sampling weights of figure 6, and the rankings learnt by ten parties.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import product
from operator import itemgetter
from types import MappingProxyType
from typing import Any

import numpy as np

from dpmc_core import registry
from dpmc_core.arrays import Floats
from dpmc_core.data import datasets
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
from dpmc_lab.papers.engine import Trial, TrialRecipe, make_exact_recipe, parse_texts
from dpmc_lab.protocol import federated
from dpmc_lab.protocol.simulate import evaluate_with_baselines

# --- figures 5 and 6 ---------------------------------------------------------------------------

# Section VI-B: the setting of figure 5, and of figure 6.
FIGURE_5 = {"alpha": 0.8, "beta1": 0.1, "beta2": 0.8, "beta3": 0.1}
FIGURE_5_EPSILON = 0.1
NOISY_VARIANTS = ("dpimf-strawman", "dpimf-complementary", "dpimf-symmetric")
USERS, RANK = 2000, 20
_ROUNDS = 5  # of the fit behind figure 6: the norms hardly move after it


def get_figure_5_settings(id: str) -> dict[str, float]:
    """What figure 5 sets of a variant, by name."""
    cls = registry.get_mechanism(id)
    return {name: value for name, value in FIGURE_5.items() if registry.has_setting(cls, name)}


def compute_figure_5(public: PublicFacts) -> dict[str, tuple[Floats, Floats]]:
    """The noise in one number of the second moment, exactly, from each variant's releases.

    Returns a grid, which reaches six scales of the second-largest noise, and the density on it, by
    variant. The optimal variant adds no such noise.
    """
    releases: dict[str, Any] = {}
    for id in NOISY_VARIANTS:
        mechanism = registry.create(id, epsilon=FIGURE_5_EPSILON, **get_figure_5_settings(id))
        releases[id] = dict(mechanism.guarantee(public).releases)["second"]
    _, middle, _ = sorted(release.scale for release in releases.values())
    x = np.linspace(-6 * middle, 6 * middle, 401)
    return {id: (x, release.density(x)) for id, release in releases.items()}


def fit_user_factors(ratings: Ratings) -> Floats:
    """Factors of the first 2000 users, fitted without privacy: users x 20, for looking at only."""
    chosen = ratings.select(ratings.users < USERS)
    nonprivate = registry.create("ials", rank=RANK, rounds=_ROUNDS)
    *_, last = nonprivate.fit(chosen, np.random.default_rng(0))
    assert isinstance(last.model, Factors)
    return np.asarray(last.model.left[:USERS], dtype=float)


def weights_of_sample(losses: Floats, sample: float) -> Floats:
    """Return the importance weights with an expected sample of that size.

    A larger epsilon lets weights grow, so the sample shrinks: found by bisection.
    """
    check_number("sample size", sample, above=0, at_most=int(np.count_nonzero(losses)))

    def too_many(epsilon: float) -> bool:
        return bool((1.0 / importance_weights(losses, epsilon)).sum() > sample)

    low, high = float(losses[losses > 0].min()) * 1e-6, float(losses.max())
    while too_many(high):
        low, high = high, 2.0 * high
    high = bisect(too_many, low, high, relative=1e-14)[1]
    return importance_weights(losses, high)


def utility_weights(norms: Floats, sample: float) -> Floats:
    """The weights w >= 1 that minimise the variance sum norm^2 (w - 1) of a sampled sum of vectors.

    At an expected sample sum 1/w of the given size: 1/w is min(1, norm / level).
    """
    check_number("sample size", sample, above=0, at_most=int(np.count_nonzero(norms)))
    high = float(norms.sum() / sample) + float(norms.max())

    def too_many(level: float) -> bool:
        return bool(np.minimum(1.0, norms / level).sum() > sample)

    high = bisect(too_many, float(norms[norms > 0].min()), high, relative=1e-15)[1]
    with np.errstate(divide="ignore"):
        return np.maximum(1.0, high / norms)


def compute_figure_6(factors: Floats, sample: float) -> tuple[Floats, dict[str, Floats]]:
    """Sampling weights of one item's first-order terms at an expected sample size.

    factors: users x d. A term's loss at weight 1 is its l1 norm over the longest; importance
    weights keep the smallest loss with that sample. Utility-optimal ones minimise the variance
    sum ||p||_2^2 (w - 1). Returns the l1 norms, rising, and the weights in their order by strategy.
    Raises InvalidSetting where the sample is larger than the users.
    """
    lengths = np.abs(factors).sum(axis=1)
    order = np.argsort(lengths, kind="stable")
    norm, l2 = lengths[order], np.linalg.norm(factors[order], axis=1)
    return norm, {
        "importance": weights_of_sample(norm / norm.max(), sample),
        "utility-optimal": utility_weights(l2, sample),
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


@lru_cache(maxsize=2)
def load_problem(data: str, seed: int) -> Problem:
    """Clicks of a data set, everybody's last held out. Raises DpmcError."""
    dataset = datasets.load(data, for_ranking=True)
    return build_problem(dataset, Task.RANKING, split=LeaveLast(), seed=seed)


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Runs of a method, a seed each, that rank what was held out.

    ridge: lambda. size: exchanges with the server, and noisy solves of a party between two of them.
    parties: who share out the clicks. alone: one party sees all clicks, and only `settings`, as
    text, differ from the program's own.
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

    @property
    def key(self) -> str:
        at = "" if self.epsilon is None else f" epsilon {self.epsilon:g}"
        revision = f"revision {registry.get_mechanism(self.id).revision}"
        if self.alone:
            texts = ",".join(f"{name}={text}" for name, text in self.settings.items())
            return " ".join(filter(None, (f"{self.data} {self.id}{at}", texts, revision)))
        rounds, local = self.size
        among = "" if self.parties == PARTIES else f" parties {self.parties}"
        return (
            f"{self.data} {self.profiles.value} {self.id}{at} lambda {self.ridge:g}"
            f" rank {self.rank} rounds {rounds} x {local}{among} {revision}"
        )

    def run(self, seed: int) -> dict[str, Any]:
        """Ranking metrics, among parties also on the way. Raises DpmcError."""
        problem = load_problem(self.data, seed)
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
            **get_figure_5_settings(self.id),
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


def rank_items(
    metric: str,
    runs: Sequence[Mapping[str, Any]],
    profiles: str,
    over_solves: bool = False,
    **defaults: Any,
) -> TrialRecipe:
    """Curves of one metric; the pieces hold all metrics and are the same for each of them.

    runs: `methods` at `epsilons`, and what of their runs is not `defaults`; `published`: at the
    paper's settings but for those given. over_solves: curves over the noisy solves of a party,
    every point of one from the same runs.
    """

    def get_curve(local: int, output: Mapping[str, Any]) -> Mapping[float, float]:
        return {float(at) * local: metrics[metric] for at, metrics in output["after"].items()}

    trials = []
    for run_table in runs:
        own_names = {"epsilons", "methods", "suffix", "published"}
        options = {
            **defaults,
            **{name: value for name, value in run_table.items() if name not in own_names},
        }
        for id, epsilon in product(run_table["methods"], run_table.get("epsilons", [None])):
            published = (
                registry.get_published_settings(id).settings if "published" in run_table else {}
            )
            texts = {
                n: run_table["published"].get(n, format_setting(v)) for n, v in published.items()
            }
            run = Ranking(
                id=id, epsilon=epsilon, profiles=Profiles(profiles), settings=texts, **options
            )
            x = None if epsilon is None or epsilon >= NO_NOISE else epsilon
            value = partial(get_curve, run.size[1]) if over_solves else itemgetter(metric)
            label = NAMES[id] + run_table.get("suffix", "")
            trials.append(Trial(label, id, x, run.key, run.run, value))
    return TrialRecipe(
        trials=trials,
        settings={"runs": [trial.key for trial in trials]},
        mechanisms=tuple(dict.fromkeys(str(trial.mechanism) for trial in trials)),
        seeds=(1, 2, 3),
        pool=_POOL,
    )


def plot_noise(public: Mapping[str, Any]) -> TrialRecipe:
    """Figure 5: densities of the noise on the second moment."""
    return make_exact_recipe(
        lambda: {
            NAMES[id]: (x[::5].tolist(), density[::5].tolist())
            for id, (x, density) in compute_figure_5(PublicFacts(**public)).items()
        },
        {NAMES[id]: id for id in NOISY_VARIANTS},
        settings={"epsilon": FIGURE_5_EPSILON, **FIGURE_5},
        mechanisms=NOISY_VARIANTS,
    )


def weigh_samples(sample: int, groups: int) -> TrialRecipe:
    """Figure 6: sampling weights, as means of groups of users with factors of like length."""

    def means(values: Floats) -> list[float]:
        """Of groups: no single person's factor is in a result."""
        return [float(group.mean()) for group in np.array_split(values, groups)]

    def compute() -> dict[str, tuple[list[float], list[float]]]:
        norm, samples = compute_figure_6(
            fit_user_factors(load_problem("ml-100k", 1).train), float(sample)
        )
        return {name: (means(norm), means(w)) for name, w in samples.items()}

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
        return [*(float(epsilon <= 1 + 1e-9) for epsilon in proved), float(is_pure)]

    ids = {label: str(method["id"]) for label, method in methods.items()}
    return make_exact_recipe(
        lambda: {label: (range(4), certify(**method)) for label, method in methods.items()},
        ids,
        settings={"methods": {label: dict(method) for label, method in methods.items()}},
        mechanisms=tuple(ids.values()),
    )
