"""RYHH24: Ran, Ye, Huang, Hu, "Differentially Private Implicit Matrix Factorization" (2024).

Rankings learnt by ten parties, and what figures 5 and 6 show of noise and of sampling.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from dpmc_core import registry
from dpmc_core.data import datasets
from dpmc_core.lab.papers.frame import Piece, PieceRecipe, Point, Series, curves, parsed
from dpmc_core.lab.papers.run import counted
from dpmc_core.lab.protocol import federated
from dpmc_core.lab.protocol.simulate import measured
from dpmc_core.lab.views import implicit
from dpmc_core.mechanisms.dpimf import Profiles
from dpmc_core.model import Model, Task
from dpmc_core.problem import LeaveLast, Problem, build_problem, generator
from dpmc_core.ratings import PublicFacts
from dpmc_core.settings import setting_text
from dpmc_core.stopping import look

__all__ = ["counted"]
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
PARTIES = federated.PAPER["parties"]
LOOKS = (1, 3, 10, 30, 100)  # rounds after which the ranking is measured
NO_NOISE = 1e6  # an epsilon at which noise is no longer seen
# What a run depends on beside its key: every figure and table takes a run that another one made.
_POOL = ("ryhh24", PARTIES, implicit.FIGURE_5, LOOKS)


@lru_cache(maxsize=2)
def problem_of(data: str, seed: int) -> Problem:
    """Clicks of a data set, everybody's last held out. Raises DpmcError."""
    found = datasets.load(data, for_ranking=True)
    return build_problem(found, Task.RANKING, split=LeaveLast(), seed=seed)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A curve's runs at one epsilon (None: of a method without one), a piece for each seed.

    ridge: lambda. size: exchanges with the server, and noisy solves of a party between two of them.
    alone: one party sees all clicks, and only `settings`, as text, differ from the program's own.
    """

    label: str
    data: str
    id: str
    rank: int
    ridge: float
    epsilon: float | None = None
    profiles: Profiles = Profiles.USERS
    size: Sequence[int] = (3, 2)
    alone: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> float | None:
        """Its epsilon, None where it holds at every one."""
        return None if self.epsilon is None or self.epsilon >= NO_NOISE else self.epsilon

    @property
    def key(self) -> str:
        at = "" if self.epsilon is None else f" epsilon {self.epsilon:g}"
        revision = f"revision {registry.get(self.id).revision}"
        if self.alone:
            texts = ",".join(f"{name}={text}" for name, text in self.settings.items())
            return " ".join(filter(None, (f"{self.data} {self.id}{at}", texts, revision)))
        rounds, local = self.size
        return (
            f"{self.data} {self.profiles.value} {self.id}{at} lambda {self.ridge:g}"
            f" rank {self.rank} rounds {rounds} x {local} {revision}"
        )

    def make(self, seed: int) -> dict[str, Any]:
        """Ranking metrics, among parties also on the way. Raises DpmcError."""
        problem = problem_of(self.data, seed)
        return self.by_one(problem, seed) if self.alone else self.among_parties(problem, seed)

    def by_one(self, problem: Problem, seed: int) -> dict[str, float]:
        """Ranking metrics of a mechanism that sees all clicks."""
        given = parsed(self.id, self.settings)
        mechanism = registry.create(self.id, epsilon=self.epsilon, **given)
        rng = generator(seed, f"{self.id} on {problem.train.fingerprint}")
        *_, last = mechanism.fit(problem.train, rng)
        assert last.model is not None
        return _metrics(last.model, problem, seed)

    def among_parties(self, problem: Problem, seed: int) -> dict[str, Any]:
        """Ranking metrics of a variant that ten parties learn, the norms read off the data.

        Beside them `after`: the same after each of LOOKS rounds, by number. Raises InvalidSetting,
        also where the factors shrink to zero.
        """
        rounds, local = self.size
        assert self.epsilon is not None
        flow = federated.build(
            self.id,
            self.epsilon,
            parties=PARTIES,
            rounds=rounds,
            local=local,
            profiles=self.profiles,
            clip=None,
            rank=self.rank,
            regularisation=self.ridge,
            # Alpha and the shares of the budget are printed for that figure only.
            **implicit.figure_5_settings(self.id),
        )
        run = federated.start(flow, problem, seed)
        after = {}
        for round in run.play():
            look()
            if round in LOOKS or round == rounds:
                after[str(round)] = _metrics(run.model(), problem, seed)
        return {**after[str(rounds)], "after": after}


def _metrics(model: Model, problem: Problem, seed: int) -> dict[str, float]:
    report = measured(Task.RANKING, model, problem, seed, ())
    return {name: float(value) for name, value in report["metrics"].items()}


def _trials(runs: Sequence[Mapping[str, Any]], usual: Trial) -> Iterator[Trial]:
    """One for each method and epsilon. published: the paper's settings, but for those given."""
    for table in runs:
        own = dict(table)
        ids, epsilons = own.pop("methods"), own.pop("epsilons", [None])
        suffix, published = own.pop("suffix", ""), own.pop("published", None)
        for id in ids:
            texts = {}
            if published is not None:
                paper = registry.published(id).settings
                texts = {name: setting_text(value) for name, value in paper.items()}
                texts |= {name: text for name, text in published.items() if name in texts}
            for epsilon in epsilons:
                of = {"label": NAMES[id] + suffix, "id": id, "epsilon": epsilon}
                yield replace(usual, settings=texts, **of, **own)


def ranked(
    metric: str,
    runs: Sequence[Mapping[str, Any]],
    profiles: str,
    over_solves: bool = False,
    **usual: Any,
) -> PieceRecipe:
    """Curves of one metric; the pieces hold all metrics and are the same for each of them.

    runs: `methods` at `epsilons`, and what of their trials is not `usual`. over_solves: curves over
    the noisy solves of a party, every point of one from the same runs.
    """
    first = Trial(label="", id="", profiles=Profiles(profiles), **usual)
    trials = list(_trials(runs, first))

    def pieces(seeds: tuple[int, ...]) -> Iterator[Piece]:
        for seed in seeds:
            for trial in trials:
                yield Piece(f"{trial.key} seed {seed}", partial(trial.make, seed))

    def series(found: Mapping[str, Any]) -> tuple[Series, ...]:
        made = defaultdict(list)
        for key, report in found.items():
            made[key.rpartition(" seed ")[0]].append(report)
        values: dict[tuple[str, str], dict[float | None, Point]] = defaultdict(dict)
        for trial in trials:
            curve, reports = values[trial.label, trial.id], made[trial.key]
            if over_solves:
                for rounds in reports[0]["after"]:
                    solves = float(rounds) * trial.size[1]
                    curve[solves] = Point.of([one["after"][rounds][metric] for one in reports])
            else:
                curve[trial.place] = Point.of([one[metric] for one in reports])
        return curves(values)

    return PieceRecipe(
        pieces=pieces,
        series=series,
        settings={"runs": [trial.key for trial in trials]},
        mechanisms=tuple(dict.fromkeys(trial.id for trial in trials)),
        seeds=(1, 2, 3),
        pool=_POOL,
    )


def noise(public: Mapping[str, Any]) -> PieceRecipe:
    """Figure 5: densities of the noise on the second moment."""

    def drawn() -> dict[str, Any]:
        return {
            one.mechanism: {"x": one.x[::5].tolist(), "density": one.density[::5].tolist()}
            for one in implicit.figure_5(PublicFacts(**public))
            if one.density is not None
        }

    def series(found: Mapping[str, Any]) -> tuple[Series, ...]:
        return tuple(
            Series.exact(NAMES[id], curve["x"], curve["density"], id)
            for id, curve in found["noise"].items()
        )

    return PieceRecipe(
        pieces=lambda seeds: [Piece("noise", drawn)],  # noqa: ARG005
        series=series,
        settings={"epsilon": implicit.FIGURE_5_EPSILON, **implicit.FIGURE_5},
        mechanisms=tuple(NAMES)[:3],
    )


def weights(sample: int, groups: int) -> PieceRecipe:
    """Figure 6: sampling weights, as means of groups of users with factors of like length."""

    def found() -> dict[str, Any]:
        ratings = problem_of("ml-100k", 1).train
        views = implicit.figure_6(implicit.user_factors(ratings))
        (view,) = (one for one in views if one.sample == sample)
        # Means of groups: no single person's factor is in a result.
        return {
            name: [float(group.mean()) for group in np.array_split(values, groups)]
            for name, values in {"norm": view.norm, **view.weights}.items()
        }

    def series(found: Mapping[str, Any]) -> tuple[Series, ...]:
        drawn = dict(found["weights"])
        norm = drawn.pop("norm")
        return tuple(Series.exact(name, norm, values) for name, values in drawn.items())

    return PieceRecipe(
        pieces=lambda seeds: [Piece("weights", found)],  # noqa: ARG005
        series=series,
        settings={
            "users": implicit.USERS,
            "rank": implicit.RANK,
            "sample": sample,
            "groups": groups,
        },
        mechanisms=("ials",),
    )
