"""Compare the nonprivate references with well-known libraries.

A reference that one of them beats would make every private method look better than it is.

    python benchmarks/references.py [--splits 2] [--tail]

For ratings, `reference-ratings` is compared with SVD++ and BaselineOnly of Surprise, by RMSE on a
random fifth. For clicks, `reference-ranking` is compared with ALS of `implicit` and with EASE,
which is written out here, by HR@10 among all unseen items on each user's latest click. All get the
same splits of every sample and of the public sets in ../shared/data. The reference is "beaten" if a
rival is better by more than two standard errors of the paired difference over the test ratings.
Each line also has the time of each method, and of the slowest private fit at its default settings.
With --tail, the script only prints the ratio of the reference's processor time to that of the
private fit if 20,000 users have one rating each of 10,000 items.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import implicit
import numpy as np

from dpmc_core import registry
from dpmc_core.errors import DpmcError
from dpmc_core.metrics import score_test_ratings
from dpmc_core.model import Factors, Model, Task
from dpmc_core.preparation import UseItemFeatures
from dpmc_core.problem import Problem, build_problem
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_data import datasets, synthetic

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
FILES = ("ml-100k/u.data", "jester", "restaurant", "amazon-instant-video")
SLOWEST = {Task.RATINGS: "private-frank-wolfe", Task.RANKING: "private-taste"}
ErrorFunction = Callable[[Problem, int], np.ndarray]


def local_method(id: str, *, with_features: bool = False) -> ErrorFunction:
    """Return a function that fits a method of this program and computes its errors.

    Args:
        id: of the method.
        with_features: whether to use all item features.
    """

    def run(problem: Problem, seed: int) -> np.ndarray:
        """Fit the method and return its errors."""
        train = problem.train
        train = UseItemFeatures().apply(train, train) if with_features else train
        *_, last = registry.create(id).fit(train, np.random.default_rng(seed))
        return compute_errors(last.model, problem)

    return run


def compute_errors(model: Model, problem: Problem) -> np.ndarray:
    """Return the squared error of each test rating, or whether each ranked test click is a hit."""
    train = problem.train
    task = Task.RANKING if train.has_only_clicks else Task.RATINGS
    scores = score_test_ratings(task, model, train, problem.test)
    return scores[~np.isnan(scores)]


def surprise_method(name: str) -> ErrorFunction:
    """Return a function that fits a method of Surprise with its defaults."""

    def run(problem: Problem, seed: int) -> np.ndarray:
        """Fit the method and return the squared error of each test rating."""
        import surprise

        train, test = problem.train, problem.test
        np.random.seed(seed)  # noqa: NPY002 - the library uses the global generator
        reader = surprise.Reader(rating_scale=(train.public.low, train.public.high))
        rows = zip(train.users.tolist(), train.items.tolist(), train.values.tolist(), strict=True)
        trainset = surprise.Dataset(reader=reader).construct_trainset(
            [(*row, None) for row in rows]
        )
        method = getattr(surprise, name)(verbose=False).fit(trainset)
        cells = zip(test.users.tolist(), test.items.tolist(), strict=True)
        return (np.array([method.predict(*cell).est for cell in cells]) - test.values) ** 2

    return run


def fit_als(problem: Problem, seed: int) -> np.ndarray:
    """Fit ALS of `implicit` and return its errors."""
    best = implicit.als.AlternatingLeastSquares(
        factors=32, regularization=0.05, alpha=5.0, iterations=15, random_state=seed
    )
    best.fit(problem.train.matrix.astype(np.float32), show_progress=False)
    return compute_errors(Factors(best.user_factors, best.item_factors), problem)


def fit_ease(problem: Problem, _seed: int) -> np.ndarray:
    """Fit EASE as printed: Steck, "Embarrassingly shallow autoencoders for sparse data" (2019)."""
    rows = problem.train.matrix.toarray()
    gram = rows.T @ rows + 500.0 * np.eye(rows.shape[1])
    inverse = np.linalg.inv(gram)
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return compute_errors(Factors(rows, weights.T), problem)


RIVALS: dict[Task, dict[str, ErrorFunction]] = {
    Task.RATINGS: {
        "reference": local_method("reference-ratings"),
        "with facts": local_method("reference-ratings", with_features=True),
        "SVD++": surprise_method("SVDpp"),
        "BaselineOnly": surprise_method("BaselineOnly"),
    },
    Task.RANKING: {
        "reference": local_method("reference-ranking"),
        "with facts": local_method("reference-ranking", with_features=True),
        "implicit ALS": fit_als,
        "EASE": fit_ease,
    },
}


def build_problems(splits: int) -> Iterator[tuple[str, Task, Problem, int]]:
    """Yield the name, task, problem and seed of every split of every data set."""
    names = [*synthetic.SAMPLES, *(str(DATA / file) for file in FILES)]
    for name in names:
        data = datasets.load(name)
        for task in (Task.RATINGS, Task.RANKING):
            if task is Task.RATINGS and data.ratings.has_only_clicks:
                continue
            for seed in range(splits):
                try:
                    yield data.name, task, build_problem(data, task, seed=seed), seed
                except DpmcError as error:
                    print(f"{data.name:<22} {task.value:<8} left out: {error}")
                    break


def time_long_tail() -> None:
    """Measure the cost of the reference on a long tail, with each fit repeated after the first."""
    rng = np.random.default_rng(0)
    users, items = 20_000, 10_000
    popularity = 1 / (10 + np.arange(items))
    rated_items = rng.choice(items, users, p=popularity / popularity.sum())
    values = np.clip(
        np.rint(3.5 + 0.5 * rng.normal(size=items)[rated_items] + rng.normal(size=users)), 1, 5
    )
    public = PublicFacts(users=users, items=items, low=1, high=5)
    ratings = Ratings.build(np.arange(users), rated_items, values, public)
    seconds = {}
    for id in 2 * ("private-effects", "reference-ratings"):  # the second times replace the first
        noise = {"epsilon": 1.0} if id == "private-effects" else {}
        start = time.process_time()
        list(registry.create(id, **noise).fit(ratings, np.random.default_rng(0)))
        seconds[id] = time.process_time() - start
    private, reference = seconds.values()
    print(f"reference {reference:.2f} s, private {private:.2f} s: {reference / private:.0f} times")


def main() -> None:
    """Compare all methods on all problems, and print a line for each problem."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--tail", action="store_true")
    args = parser.parse_args()
    if args.tail:
        time_long_tail()
        return
    for name, task, problem, seed in build_problems(args.splits):
        text = ""
        errors = {}
        for rival, run in RIVALS[task].items():
            if rival == "with facts" and not problem.train.item_features:
                continue
            start = time.perf_counter()
            errors[rival] = run(problem, seed)
            seconds = time.perf_counter() - start
            value = errors[rival].mean()
            value = np.sqrt(value) if task is Task.RATINGS else value
            text += f"  {rival} {value:.4f} ({seconds:.1f} s)"
        for rival in list(errors)[1:]:
            improvement = errors["reference"] - errors[rival]
            improvement = improvement if task is Task.RATINGS else -improvement
            if rival != "with facts" and improvement.mean() > 2 * improvement.std() / np.sqrt(
                len(improvement)
            ):
                text += f"  beaten by {rival}"
        start = time.perf_counter()
        private = registry.create(SLOWEST[task], epsilon=1.0)
        for _ in private.fit(problem.train, np.random.default_rng(seed)):
            pass
        text += f"  {private.id} {time.perf_counter() - start:.1f} s"
        print(f"{name:<22} {task.value:<8} {seed}{text}", flush=True)


if __name__ == "__main__":
    main()
