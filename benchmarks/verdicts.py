"""Measure how often verdicts and intervals of *The answer* are wrong, on data with a known share.

    python benchmarks/verdicts.py [--sets 216] [--jobs N] [--kind few] [--max-users 600]
    python benchmarks/verdicts.py --data ml-100k ... [--epsilon 2]

A population of people rates the same items. Each set consists of some of these people, drawn once;
`dpmc answer` judges it on its own, with five seeds that no other set has: sets with the same noise
would be right or wrong together. There are verdicts at limits of 50, 80 and 90 %. A verdict is
wrong if the true share contradicts it, which is that of all sets of a population together; the goal
is at most 5 % wrong ones. A 95 % interval of a share is compared with a longer run, of 20 other
seeds and so other splits of the same set, and with the other sets of the population, which are
other people; the goal is that at least 93 % of the intervals cover the former. With --data, five
answers on a data set are compared with a longer run in the same way.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

from dpmc_core.dataset import Dataset
from dpmc_core.model import Task
from dpmc_core.problem import choose_default_task
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_data import load
from dpmc_lab import sweep
from dpmc_lab.study import answer
from dpmc_lab.study.answer import Finding, Inquiry, PrivacyUnit, UserScoreCache, Verdict
from dpmc_lab.study.paired import IntervalEstimate
from sample_data import generate

LIMITS = (0.5, 0.8, 0.9)
SETS_PER_POPULATION = 18  # sets of a population
N_SEEDS = 5  # with which a set is judged
N_LONG_SEEDS = 20  # of the longer run on the same set
N_ANSWERS = 5  # on a data set that is named


def generate_sparse(seed: int, users: int, items: int, ratings: int) -> Ratings:
    """Generate ratings of people who give few; half of them give fewer than 0.6 times the mean."""
    rng = np.random.default_rng(seed)
    counts = np.clip(np.rint(0.6 * ratings / users * rng.lognormal(0, 1, users)), 1, items // 2)
    rows = np.repeat(np.arange(users), counts.astype(int))
    popularity = 1 / (10 + np.arange(items))
    chances = popularity / popularity.sum()
    columns = np.concatenate(
        [rng.choice(items, int(count), replace=False, p=chances) for count in counts]
    )
    scores = 3.7 + 0.4 * rng.normal(size=users)[rows] + 0.5 * rng.normal(size=items)[columns]
    scores += 0.3 * np.einsum(
        "kd,kd->k", rng.normal(size=(users, 2))[rows], rng.normal(size=(items, 2))[columns]
    )
    values = np.clip(np.rint(scores + 0.8 * rng.normal(size=len(rows))), 1, 5)
    public = PublicFacts(users=users, items=items, low=1, high=5)
    return Ratings.build(rows, columns, values, public)


@dataclass(frozen=True)
class Population:
    """People who rate the same items.

    Attributes:
        kind: how their ratings are generated: films, tail, shop or few.
        users: number of users in each set.
        items: number of items.
        ratings: number of ratings in each set, about.
        epsilon: the requested epsilon.
        protect: the privacy unit.
    """

    kind: str
    users: int
    items: int
    ratings: int
    epsilon: float
    protect: PrivacyUnit = PrivacyUnit.PERSON

    @property
    def task(self) -> Task:
        """Return what is predicted."""
        return Task.RANKING if self.kind == "shop" else Task.RATINGS

    def generate(self, seed: int) -> Ratings:
        """Generate the ratings of a population."""
        users, ratings = SETS_PER_POPULATION * self.users, SETS_PER_POPULATION * self.ratings
        if self.kind == "shop":
            shape = generate.Shop(users=users, items=self.items, clicks=ratings)
            return generate.generate_clicks(seed, shape).ratings
        if self.kind == "few":
            return generate_sparse(seed, users, self.items, ratings)
        if self.kind == "tail":
            return generate.generate_long_tail(
                seed, users=users, items=self.items, ratings=ratings
            ).ratings
        levels = np.array(generate.MOVIE_NIGHT.histogram, dtype=float)
        counts = np.round(ratings * levels / levels.sum()).astype(int)
        shape = replace(
            generate.MOVIE_NIGHT, users=users, items=self.items, histogram=tuple(counts.tolist())
        )
        return generate.generate_films(seed, shape).ratings

    def split_into_sets(self, seed: int) -> Iterator[Ratings]:
        """Split the people at random into sets with indices of their own."""
        full = self.generate(seed)
        order = np.random.default_rng(seed).permutation(full.public.users)
        public = replace(full.public, users=self.users)
        for members in np.split(order, SETS_PER_POPULATION):
            positions = np.full(full.public.users, -1)
            positions[members] = np.arange(self.users)
            mask = positions[full.users] >= 0
            yield Ratings.build(
                positions[full.users[mask]], full.items[mask], full.values[mask], public
            )


POPULATIONS = (
    Population("films", 300, 120, 9_000, 1.0),
    Population("films", 300, 120, 9_000, 4.0),
    Population("films", 800, 150, 24_000, 2.0),
    Population("films", 800, 150, 24_000, 8.0),
    Population("tail", 600, 100, 15_000, 3.0),
    Population("tail", 600, 100, 15_000, 10.0),
    Population("shop", 600, 120, 9_000, 1.0),
    Population("shop", 600, 120, 9_000, 5.0),
    Population("shop", 1_500, 150, 22_500, 3.0),
    Population("films", 800, 150, 24_000, 6.0, PrivacyUnit.RATING),
    Population("few", 800, 100, 2_500, 3.0),
    Population("few", 800, 100, 6_000, 10.0),
)


def find_answer(question: Inquiry, ratings: Ratings, seeds: Sequence[int]) -> Finding:
    """Return the answer on one set."""
    advice = question.find_advice(ratings.public)
    source = sweep.SplitSource(Dataset(ratings, "drawn"))
    units = sweep.build_plan(question.build_grid(advice, "drawn", seeds=seeds), [source]).units
    cache = UserScoreCache()
    answer.run_missing_units(units, source, cache)
    finding = answer.compute_finding(question, advice, units, cache, ratings)
    assert finding is not None
    return finding


class Judgement(NamedTuple):
    """What is known of one set.

    Attributes:
        verdicts: the verdict at each limit.
        share: the share of the gain; None without a gain.
        values: the means of method, baseline and reference with the seeds that judge the set.
        long_values: the same of the longer run.
    """

    verdicts: Mapping[float, Verdict]
    share: IntervalEstimate | None
    values: list[float]
    long_values: list[float]


def judge_set(population: Population, ratings: Ratings, index: int) -> Judgement:
    """Judge one set, and run the same methods for longer."""
    question = Inquiry(
        task=population.task,
        privacy_unit=population.protect,
        epsilon=population.epsilon,
        keep=LIMITS[0],
    )
    first = 1 + (N_SEEDS + N_LONG_SEEDS) * index
    seeds = range(first, first + N_SEEDS + N_LONG_SEEDS)
    findings = [
        find_answer(question, ratings, chosen) for chosen in (seeds[:N_SEEDS], seeds[N_SEEDS:])
    ]
    share, is_beaten = findings[0].gain_share, findings[0].verdict is Verdict.BEATEN
    return Judgement(
        {limit: answer.decide_verdict(share, limit, beaten=is_beaten) for limit in LIMITS},
        share,
        *([f.method.value, f.baseline.value, f.reference.value] for f in findings),
    )


def judge_data(name: str, epsilon: float, pool: Executor) -> None:
    """Print five answers on a data set, each with seeds of its own, and the share of a longer run.

    Args:
        name: of the data set, as it is typed.
        epsilon: of one publication, for the whole person.
        pool: runs the answers.
    """
    ratings = load(name).ratings
    question = Inquiry(task=choose_default_task(ratings), epsilon=epsilon)
    starts = range(1, 1 + N_ANSWERS * N_SEEDS, N_SEEDS)
    ends = [*(start + N_SEEDS for start in starts), starts[-1] + N_SEEDS + N_LONG_SEEDS]
    jobs = [
        pool.submit(find_answer, question, ratings, range(start, end))
        for start, end in zip([*starts, ends[-2]], ends, strict=True)
    ]
    *answers, longer = (job.result() for job in jobs)
    truth = compute_share(
        np.array([[longer.method.value, longer.baseline.value, longer.reference.value]])
    )
    shares = [finding.gain_share for finding in answers if finding.gain_share]
    texts = [f"{share.value:.1%} ({share.low:.1%} to {share.high:.1%})" for share in shares]
    n_covering = sum(share.low <= truth <= share.high for share in shares)
    print(f"{name}, epsilon {epsilon:g}: {truth:.1%} in {N_LONG_SEEDS} seeds; {', '.join(texts)}")
    print(f"    {n_covering} of {len(shares)} intervals cover it", flush=True)


def compute_share(values: NDArray[np.float64]) -> float:
    """Return the share of the gain, from rows of the means of method, baseline and reference."""
    method, baseline, reference = values.mean(axis=0)
    return float((method - baseline) / (reference - baseline))


def main() -> None:
    """Judge the sets of all populations, and print how many verdicts are wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", type=int, default=SETS_PER_POPULATION * len(POPULATIONS))
    parser.add_argument("--kind", default="", help="populations whose kind has it")
    parser.add_argument("--max-users", type=int, default=10_000, help="of a set")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--data", nargs="+", default=[], help="data sets, as they are typed")
    parser.add_argument("--epsilon", type=float, default=2.0, help="with --data (default 2)")
    args = parser.parse_args()
    if args.data:
        with ProcessPoolExecutor(args.jobs) as pool:
            for name in args.data:
                judge_data(name, args.epsilon, pool)
        return
    right: Counter[tuple[float, str]] = Counter()
    covering: Counter[str] = Counter()
    chosen = [p for p in POPULATIONS if args.kind in p.kind and p.users <= args.max_users]
    with ProcessPoolExecutor(args.jobs) as pool:
        for k in range(-(-args.sets // SETS_PER_POPULATION)):
            population = chosen[k % len(chosen)]
            sets = list(population.split_into_sets(k))
            judgements = list(pool.map(judge_set, [population] * len(sets), sets, range(len(sets))))
            means = np.array([judgement.values for judgement in judgements])
            long_means = np.array([judgement.long_values for judgement in judgements])
            share = compute_share(long_means)
            covers: Counter[str] = Counter()
            for index, interval in enumerate(judgement.share for judgement in judgements):
                if interval is None:
                    continue
                shares = {
                    "the longer run": compute_share(long_means[index : index + 1]),
                    "other people": compute_share(np.delete(means, index, axis=0)),
                }
                covers["all"] += 1
                for truth, true_share in shares.items():
                    covers[truth] += interval.low <= true_share <= interval.high
            covering += covers
            limit_texts = []
            for limit in LIMITS:
                set_verdicts = [judgement.verdicts[limit] for judgement in judgements]
                correct = Verdict.AFFORDABLE if share >= limit else Verdict.NOT_AFFORDABLE
                decided = [
                    decision
                    for decision in set_verdicts
                    if decision in (Verdict.AFFORDABLE, Verdict.NOT_AFFORDABLE)
                ]
                wrong = sum(decision is not correct for decision in decided)
                right[limit, "wrong"] += wrong
                right[limit, "sure"] += len(decided)
                right[limit, "all"] += len(set_verdicts)
                limit_texts.append(
                    f"{limit:.0%}: {wrong} wrong, {len(set_verdicts) - len(decided)} cannot tell"
                )
            print(
                f"{population.kind:<6}{population.users:>6} x {population.items:<4} epsilon"
                f" {population.epsilon:<4g} {population.protect.value:<7} keeps {share:7.1%}"
                f"  {'; '.join(limit_texts)}; of {covers['all']} intervals"
                f" {covers['the longer run']} cover the longer run,"
                f" {covers['other people']} other people",
                flush=True,
            )
    n_intervals = covering.pop("all")
    for truth, n_covering in covering.items():
        print(
            f"95 % intervals: {n_covering} of {n_intervals} ({n_covering / n_intervals:.1%})"
            f" cover the share of {truth}"
        )
    for limit in LIMITS:
        wrong, decided, total = (
            right[limit, count_kind] for count_kind in ("wrong", "sure", "all")
        )
        print(
            f"limit {limit:.0%}: {wrong} of {total} wrong ({wrong / total:.1%}),"
            f" {total - decided} cannot tell ({1 - decided / total:.1%})"
        )


if __name__ == "__main__":
    main()
