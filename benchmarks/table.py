"""Compare the speed with peers and with an earlier state of the program, in a table.

    python benchmarks/table.py [--only TEXT] [--repeats N] [--write FILE]

Every row compares some work of this program with that of a peer: a package, a textbook program, or
this program at an earlier commit. Both are prepared and run in processes of their own that take
turns. The table has the processor time of the work alone, as the median of the repeats, with one
thread of linear algebra. `make bench` writes benchmarks/RESULTS.md, which also has the output of
other scripts.

A round on many ratings is compared with a pass over their bytes, which reads and sums row starts,
items and values once. The table also has the time of the round's sparse products alone, at the pace
of a product with a vector, since no round can be faster. A process of its own generates these
ratings, which are then loaded, so the peak memory is that of the interpreter, the ratings and the
fit. The growth of memory by the fit is printed too.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
EARLIER = "91fe334"
PACKAGES = ("numpy", "scipy", "pandas", "implicit", "scikit-surprise", "dp-accounting")
PreparedWork = Callable[[], object]  # prepared; what it returns is printed as JSON beside the time


def generate_films(users, items, count, *, seed=0):
    """Generate ratings 1..5 whose items differ in popularity, with NumPy only, for any state."""
    from dpmc_core.ratings import PublicFacts, Ratings

    rng = np.random.default_rng(seed)
    weights = 1 / (10.0 + np.arange(items))
    cells = np.empty(0, dtype=np.int64)
    while len(cells) < count:
        drawn_items = rng.choice(items, 2 * count - len(cells), p=weights / weights.sum())
        users_of = rng.integers(0, users, len(drawn_items))
        cells = np.unique(np.concatenate([cells, users_of * items + drawn_items]))
    u, i = np.divmod(np.sort(rng.permutation(cells)[:count]), items)
    low_rank = (rng.normal(size=(users, 3))[u] * rng.normal(size=(items, 3))[i]).sum(axis=1)
    scores = 3.4 + 0.4 * rng.normal(size=items)[i] + 0.35 * low_rank + 0.8 * rng.normal(size=count)
    values = np.clip(np.round(scores), 1, 5)
    public = PublicFacts(users=users, items=items, low=1, high=5)
    return Ratings.build(u, i, values, public)


def save_ratings(users, items, count, folder):
    """Save ratings like those of `generate_films`, some users at a time, in their order.

    Args:
        users, items, count: numbers of users, items and ratings.
        folder: a new folder for the arrays.
    """
    rng, size, n_written = np.random.default_rng(0), 5_000, 0
    ends = np.cumsum(1 / (10.0 + np.arange(items)))
    directions, effects = rng.normal(size=(items, 3)), 0.4 * rng.normal(size=items)
    u, i, values = np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count)
    for start in range(0, users, size):
        n_users = min(size, users - start)
        n_wanted = count * (start + n_users) // users - n_written
        cells = np.empty(0, dtype=np.int64)
        while len(cells) < n_wanted:
            draws = 2 * (n_wanted - len(cells))
            items_of = np.searchsorted(ends, ends[-1] * rng.random(draws))
            drawn_cells = rng.integers(0, n_users, draws) * items + np.minimum(items_of, items - 1)
            cells = np.unique(np.concatenate([cells, drawn_cells]))
        rows, columns = np.divmod(np.sort(rng.permutation(cells)[:n_wanted]), items)
        low_rank = np.einsum("kr,kr->k", rng.normal(size=(n_users, 3))[rows], directions[columns])
        scores = 3.4 + effects[columns] + 0.35 * low_rank + 0.8 * rng.normal(size=n_wanted)
        k = slice(n_written, n_written + n_wanted)
        u[k], i[k], values[k] = rows + start, columns, np.clip(np.round(scores), 1, 5)
        n_written += n_wanted
    Path(folder).mkdir()
    for name, array in (("users", u), ("items", i), ("values", values)):
        np.save(Path(folder) / f"{name}.npy", array)


def load_ratings(users, items, count):
    """Load the ratings that `save_ratings` saved."""
    from dpmc_core.ratings import PublicFacts, Ratings

    folder = Path(tempfile.gettempdir()) / f"ratings-{users}-{items}-{count}"
    if not folder.is_dir():
        command = [sys.executable, __file__, "--make", *map(str, (users, items, count, folder))]
        subprocess.run(command, check=True)
    arrays = {name: np.load(folder / f"{name}.npy") for name in ("users", "items", "values")}
    public = PublicFacts(users=users, items=items, low=1, high=5)
    return Ratings(**arrays, public=public)


SIZES = {"35 k": (1508, 2071, 35_000), "1 M": (6040, 3706, 1_000_000)}


def prepare_fit(id: str, size: str) -> PreparedWork:
    """Prepare a fit of a mechanism on ratings of a size."""
    from dpmc_core import registry

    method = registry.create(id, epsilon=1.0)

    def work(ratings: object) -> None:
        """Fit the ratings."""
        for _ in method.fit(ratings, np.random.default_rng(0)):
            pass

    work(generate_films(400, 100, 4_000))  # once, so that no import is counted
    return partial(work, generate_films(*SIZES[size]))


def prepare_one_bit(users: int, items: int, count: int, solver: str) -> PreparedWork:
    """Prepare a fit to a thousandth of the optimum, by `solver`."""
    from dpmc_core.links import LOGISTIC
    from dpmc_core.solvers.linalg import Pattern
    from dpmc_core.solvers.one_bit import NuclearBall, likelihood_loss, minimise_loss

    ratings = generate_films(users, items, count)
    loss = likelihood_loss(LOGISTIC, (ratings.values >= ratings.values.mean()).astype(float))
    radius = 0.7 * np.sqrt(users * items)
    loss(np.zeros(len(ratings)))  # once, so that no import is counted

    def run(tolerance: float, target: float) -> float:
        """Minimise the loss until it reaches the target, and return it."""
        if solver == "dense":
            dense_spg(loss, ratings, radius, target)
            return target
        feasible = NuclearBall(Pattern.from_ratings(ratings), radius, np.random.default_rng(0))
        for step in minimise_loss(loss, feasible, iterations=1000, tolerance=tolerance):
            if step.objective <= target:
                break
        return float(step.objective)

    cache_path = Path(tempfile.gettempdir()) / f"optimum-{users}-{items}-{count}.json"
    if cache_path.exists():
        best = json.loads(cache_path.read_text())
    else:
        best = run(1e-5, -np.inf)
        cache_path.write_text(json.dumps(best))
    return lambda: run(1e-9, best * (1 + 1e-3))


def dense_spg(loss, ratings, radius, target):
    """Run textbook non-monotone spectral projected gradient, with one full SVD per projection."""
    cells = ratings.users, ratings.items
    x = np.zeros(ratings.shape)
    objective, gradient = loss(x[cells])
    history, step = [objective], 1.0
    while objective > target:
        shifted = x.copy()
        shifted[cells] -= step * gradient
        u, s, vt = np.linalg.svd(shifted, full_matrices=False)
        if s.sum() > radius:
            thresholds = (np.cumsum(s) - radius) / np.arange(1, len(s) + 1)
            s = np.maximum(s - thresholds[np.flatnonzero(s > thresholds)[-1]], 0)
        direction = (u * s) @ vt - x
        slope, share = float(gradient @ direction[cells]), 1.0
        while True:
            trial, trial_gradient = loss((x + share * direction)[cells])
            if trial <= max(history[-10:]) + 1e-4 * share * slope:
                break
            share /= 2
        change = share * direction
        curvature = float(change[cells] @ (trial_gradient - gradient))
        step = float(np.clip(np.vdot(change, change) / curvature, 1e-3, 1e3))
        x, objective, gradient = x + change, trial, trial_gradient
        history.append(objective)


def prepare_alternation(rank: int, contender: str) -> PreparedWork:
    """Prepare one alternation of iALS on a million clicks, after three; it also prints the loss."""
    from dpmc_core.ratings import PublicFacts, Ratings
    from dpmc_core.solvers import factorization as ours

    films_ = generate_films(*SIZES["1 M"])
    public = PublicFacts(users=films_.shape[0], items=films_.shape[1], low=0, high=1)
    clicks = Ratings.build(films_.users, films_.items, np.ones(len(films_)), public)
    matrix = ours.binary_matrix(clicks)
    columns, (alpha, ridge) = matrix.T.tocsr(), (0.2, 20.0)
    loss = ours.ImplicitLoss(alpha, ridge, ours.PenalisedCells.MISSING, frequency=False)
    rng = np.random.default_rng(0)
    left, right = (rng.normal(0, 0.1, (size, rank)) for size in matrix.shape)
    if contender == "ours":
        state = [left, right]

        def alternate() -> None:
            """Solve for the rows, then for the columns."""
            for k, rows in enumerate((matrix, columns)):
                start, others = state[k], state[1 - k]
                state[k] = ours.solve_implicit_rows(rows, others, loss, single=True, start=start)

    else:
        from implicit.cpu import _als
        from scipy.sparse import csr_matrix

        weights = csr_matrix(
            (np.full(matrix.nnz, 1 / alpha, np.float32), matrix.indices, matrix.indptr),
            shape=matrix.shape,
        )
        transposed = weights.T.tocsr()
        state = [left.astype(np.float32), right.astype(np.float32)]
        solve = _als.least_squares if contender == "exact" else _als.least_squares_cg

        def alternate() -> None:
            """Solve for the rows, then for the columns."""
            solve(weights, *state, ridge / alpha, num_threads=1)
            solve(transposed, *state[::-1], ridge / alpha, num_threads=1)

    for _ in range(3):
        alternate()

    def work() -> float:
        """Alternate three times, and return the loss."""
        for _ in range(3):
            alternate()
        return float(loss.value(matrix, *(factor.astype(float) for factor in state)))

    return work


def prepare_completion(contender: str) -> PreparedWork:
    """Prepare a fit of 80 % of MovieLens 100K, ours until it is as good as the peer.

    The test RMSE is printed too; computing it is not counted.
    """
    from dpmc_core import registry
    from dpmc_core.metrics import rmse
    from dpmc_data import datasets

    folder = ROOT.parent / "shared" / "data" / "ml-100k"
    ratings = (
        datasets.load(folder).ratings if folder.is_dir() else generate_films(943, 1682, 100_000)
    )
    test = np.random.default_rng(0).random(len(ratings)) < 0.2
    train, held_out = ratings.select(~test), ratings.select(test)

    def prepare_surprise(name: str) -> tuple[PreparedWork, Callable[[], float]]:
        """Return functions that fit a method of Surprise, and compute its test RMSE."""
        import surprise

        rows = zip(train.users.tolist(), train.items.tolist(), train.values.tolist(), strict=True)
        raw = surprise.Dataset.load_from_df
        import pandas as pd

        frame = pd.DataFrame(list(rows), columns=["user", "item", "rating"])
        trainset = raw(frame, surprise.Reader(rating_scale=(1, 5))).build_full_trainset()
        method = getattr(surprise, name)(random_state=0)
        cells = list(zip(held_out.users.tolist(), held_out.items.tolist(), strict=True))
        return lambda: method.fit(trainset), lambda: rmse(
            np.array([method.predict(u, i).est for u, i in cells]), held_out.values
        )

    fit, error = prepare_surprise(contender.removeprefix("than "))
    ours_by = "als" if contender.endswith("SVD") else "reference-ratings"

    def peer() -> object:
        """Fit the peer, and return its seconds and its test RMSE."""
        start = time.process_time()
        fit()
        return {"seconds": time.process_time() - start, "rmse": round(error(), 4)}

    def ours() -> object:
        """Fit our method until it is as good as the peer, and return its seconds."""
        spent, start = 0.0, time.process_time()
        for step in registry.create(ours_by).fit(train, np.random.default_rng(0)):
            spent += time.process_time() - start
            error_reached = rmse(
                np.clip(step.model.predict(held_out.users, held_out.items), 1, 5), held_out.values
            )
            if error_reached <= goal:
                break
            start = time.process_time()
        return {"seconds": spent, "rmse": round(error_reached, 4), "rounds": step.index}

    if not contender.startswith("than "):
        return peer
    fit()
    goal = error()
    ours()  # once, so that no import is counted
    return ours


def prepare_reports(users: int, items: int, contender: str) -> PreparedWork:
    """Prepare randomised response of every cell at epsilon 1, with its memory."""
    from dpmc_core import registry

    ratings = generate_films(users, items, 20 * users)
    if contender == "ours":
        method = registry.create("local-popularity", epsilon=1.0)
        from dpmc_core.preparation import Implicit

        clicks = Implicit().apply(ratings, ratings)
        return lambda: next(None for _ in method.fit(clicks, np.random.default_rng(0)))
    rng, keep = np.random.default_rng(0), np.e / (1 + np.e)
    cells = ratings.users, ratings.items

    def dense() -> None:
        """Randomise a dense matrix of bits."""
        bits = np.zeros((users, items), dtype=bool)
        bits[cells] = True
        reported = bits ^ (rng.random(bits.shape) > keep)
        reported.sum(axis=0)

    return dense


def prepare_calibration(contender: str) -> PreparedWork:
    """Prepare sigmas for ten promises, with the error of delta at them, to fifty digits."""
    pairs = [(e, d) for e in (0.1, 0.5, 1.0, 3.0, 10.0) for d in (1e-5, 1e-7)]
    sigma = _create_calibrator(contender)
    sigma(2.0, 1e-6)

    def work() -> object:
        """Compute all sigmas, and return the seconds and the largest error of delta."""
        from mpmath import mp, ncdf

        start = time.process_time()
        sigmas = [sigma(e, d) for e, d in pairs]
        spent, off = time.process_time() - start, 0.0
        with mp.workdps(50):
            for (e, d), s in zip(pairs, sigmas, strict=True):
                mu = 1 / mp.mpf(s)
                delta = ncdf(mu / 2 - e / mu) - mp.exp(e) * ncdf(-mu / 2 - e / mu)
                off = max(off, abs(float(delta / d - 1)))
        return {"seconds": spent, "largest relative error of delta": float(f"{off:.1e}")}

    return work


def _create_calibrator(contender: str) -> Callable[[float, float], float]:
    """Return a function that gives the sigma of Gaussian noise for an epsilon and a delta."""
    if contender == "ours":
        from dpmc_core.privacy.accounting import gaussian_mu

        return lambda e, d: 1 / gaussian_mu(e, d)
    from dp_accounting import dp_event
    from dp_accounting.mechanism_calibration import calibrate_dp_mechanism
    from dp_accounting.pld import PLDAccountant

    del dp_event, calibrate_dp_mechanism, PLDAccountant
    from dp_accounting.pld.common import DifferentialPrivacyParameters
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss

    from_guarantee = GaussianPrivacyLoss.from_privacy_guarantee
    return lambda e, d: from_guarantee(DifferentialPrivacyParameters(e, d)).standard_deviation


def prepare_import(lines: str) -> PreparedWork:
    """Prepare an import in a new process."""
    command = [sys.executable, "-c", lines]

    def work() -> object:
        """Run the import, and return its processor seconds."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {"seconds": spent, "modules of ours": int(out)}

    return work


COUNT = "import sys; print(sum(name.split('.')[0] == 'dpmc_core' for name in sys.modules))"
OURS = f"import dpmc_core; dpmc_core.create('output', epsilon=1.0); {COUNT}"


def prepare_passes(users: int, items: int, count: int, contender: str) -> PreparedWork:
    """Prepare a round of a method on many ratings, or one pass over their bytes."""
    from dpmc_core import registry

    ratings = load_ratings(users, items, count)
    arrays = ratings.indptr, ratings.items, ratings.values
    if contender == "pass":
        return lambda: {
            "seconds": min(time_work(lambda: [a.sum() for a in arrays]) for _ in range(5))
        }
    from dpmc_core.solvers.linalg import Pattern

    matrix, vector = Pattern.from_ratings(ratings).build_matrix(ratings.values), np.ones(items)
    pace = min(time_work(lambda: matrix @ vector) for _ in range(5)) / count  # of a multiplication
    n_done = count_multiplications()
    method, rounds, prior_memory = (
        registry.create(contender, epsilon=1.0),
        [(time.process_time(), 0)],
        get_peak_memory(),
    )

    def work() -> object:
        """Fit, and return the median seconds of a round and what it cost."""
        rounds[0] = time.process_time(), n_done[0]
        for step in method.fit(ratings, np.random.default_rng(0)):
            rounds.append((time.process_time(), n_done[0]))
            total = step.total
        spent = np.diff(rounds, axis=0)
        each, products = np.median(spent[1:], axis=0) if total > 1 else spent[0]
        return {
            "seconds": float(each),
            "its products": f"{products * pace:.2g} s",
            "rounds": total,
            "whole fit": f"{spent[:, 0].sum():.1f} s",
            "memory of the fit": f"{get_peak_memory() - prior_memory:.0f} MB",
        }

    return work


def time_work(work: Callable[[], object]) -> float:
    """Return the processor seconds of some work."""
    start = time.process_time()
    work()
    return time.process_time() - start


def count_multiplications() -> list[int]:
    """Count the multiplications of sparse products from now on, in a list that is updated."""
    from scipy.sparse import csc_array, csr_array

    n_done = [0]

    def add_counting(multiply):
        """Return a product that also counts its multiplications."""

        def product(self, other):
            """Count the multiplications and return the product."""
            n_done[0] += self.nnz * (other.shape[1] if np.ndim(other) == 2 else 1)
            return multiply(self, other)

        return product

    for matrix_type in (csc_array, csr_array):
        matrix_type.__matmul__ = add_counting(matrix_type.__matmul__)
    return n_done


def get_peak_memory() -> float:
    """Return the largest resident memory so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        work: what is measured, in words.
        against: what it is compared with, in words.
        goal: the ratio that it should reach, in words.
        ours, peer: prepare some work; `peer` is None for the same work at the earlier commit.
    """

    work: str
    against: str
    goal: str
    ours: Callable[[], PreparedWork]
    peer: Callable[[], PreparedWork] | None = None


FAMILY = ("private-frank-wolfe", "private-frank-wolfe-oja", "private-pgd", "private-svd",
          "svd-after-cleansing", "dpals", "private-effects")  # fmt: skip
LARGE = (
    ("10 M", (100_000, 2_000, 10_000_000), "<= 12, or its products"),
    ("40 M", (400_000, 2_000, 40_000_000), "<= 12, or its products; <= 1,500 MB"),
)
SOLVER = (("100 k", (943, 1682, 100_000)), ("1 M", (6040, 3706, 1_000_000)))
ROWS = [
    *(
        Row(f"{id}, {size} ratings", f"itself at {EARLIER}", goal, partial(prepare_fit, id, size))
        for size, goal in (("35 k", "<= 1 s"), ("1 M", "<= 8 s"))
        for id in FAMILY
    ),
    *(
        Row(f"one-bit completion, {size}", f"itself at {EARLIER}", goal,
            partial(prepare_one_bit, *shape, "ours"))
        for (size, shape), goal in zip(SOLVER, ("-", "<= .2"), strict=True)
    ),
    Row("one-bit completion, 100 k", "dense SPG", "-",
        partial(prepare_one_bit, *SOLVER[0][1], "ours"),
        partial(prepare_one_bit, *SOLVER[0][1], "dense")),
    *(
        Row(f"iALS, {rank} factors, 1 M clicks", f"implicit, {contender}", goal,
            partial(prepare_alternation, rank, "ours"),
            partial(prepare_alternation, rank, contender))
        for rank, exact in ((16, "<= .35"), (64, "<= .6"))
        for contender, goal in (("exact", exact), ("conjugate gradient", "<= 1"))
    ),
    *(
        Row(f"ratings without privacy, {ours}", f"Surprise {model}", "<= .1",
            partial(prepare_completion, f"than {model}"), partial(prepare_completion, model))
        for model, ours in (("SVD", "als"), ("SVDpp", "reference-ratings"))
    ),
    *(
        Row(f"local reports, {users:,} x {items:,}", "a dense draw", "<= .5, < 300 MB",
            partial(prepare_reports, users, items, "ours"),
            partial(prepare_reports, users, items, "dense"))
        for users, items in ((6040, 3706), (50_000, 10_000))
    ),
    Row("calibration of a Gaussian budget", "dp-accounting", "<= 1/30",
        partial(prepare_calibration, "ours"), partial(prepare_calibration, "peer")),
    Row("import dpmc_core and create", "import numpy, scipy.sparse", "<= 1.5, <= 25 modules",
        partial(prepare_import, OURS), partial(prepare_import, "import numpy, scipy.sparse;"
        f" {COUNT}")),
    *(
        Row(f"{id}: a round on {size} ratings", "one pass over their bytes", goal,
            partial(prepare_passes, *shape, id), partial(prepare_passes, *shape, "pass"))
        for size, shape, goal in LARGE
        for id in FAMILY
    ),
]  # fmt: skip


OTHER_SCRIPTS = {  # heading: script and arguments
    "Reading": ("reading.py",),
    "The answer": ("answer.py",),
}


def run_child(index: int, contender: str) -> None:
    """Do one side of a row and print seconds, megabytes and its message."""
    row = ROWS[index]
    prepare = row.ours if contender == "ours" or row.peer is None else row.peer
    work = prepare()
    start = time.process_time()
    outcome = work()
    seconds = time.process_time() - start
    if isinstance(outcome, dict):
        seconds = outcome.pop("seconds")
    print(json.dumps({"seconds": seconds, "MB": get_peak_memory(), "said": outcome or None}))


def measure_side(index: int, contender: str, root: Path) -> dict:
    """Measure one side of a row in a process of its own."""
    command = [sys.executable, __file__, "--child", str(index), contender]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
                                "PYTHONPATH": str(root)}  # fmt: skip
    out = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=root)
    if out.returncode:
        return {"seconds": float("nan"), "MB": float("nan"), "said": out.stderr.strip()[-80:]}
    return json.loads(out.stdout.splitlines()[-1])


def format_row(row: Row, index: int, earlier: Path | None, repeats: int) -> str:
    """Measure both sides of a row and format it."""
    if row.peer is None and earlier is None:
        return f"| {row.work} | {row.against} | history is not here | | | {row.goal} |"
    other = ROOT if row.peer else earlier
    results: dict[str, list[dict]] = {"ours": [], "peer": []}
    for repeat in range(repeats):
        for contender, root in (("ours", ROOT), ("peer", other)):
            slow = results[contender] and results[contender][0]["seconds"] > 20
            if repeat == 0 or not slow:  # of half a minute's work once is enough
                results[contender].append(measure_side(index, contender, root))
    our_seconds, peer_seconds = (
        statistics.median(f["seconds"] for f in results[s]) for s in results
    )
    messages = [
        str(results[contender][0]["said"])
        for contender in results
        if results[contender][0]["said"] is not None
    ]
    extra = f" ({'; '.join(messages)})" if messages else ""
    max_memory = max(f["MB"] for f in results["ours"])
    return (
        f"| {row.work} | {row.against} | {our_seconds:.3g} s, {peer_seconds:.3g} s{extra} |"
        f" {our_seconds / peer_seconds:.2g}"
        f" | {max_memory:.0f} MB | {row.goal} |"
    )


def main() -> None:
    """Measure the rows, print the table and write it if requested."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="rows whose work or peer has it")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--write", type=Path, help="a file for the table")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--make", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        run_child(int(options.child[0]), options.child[1])
        return
    if options.make:
        save_ratings(*map(int, options.make[:3]), options.make[3])
        return
    versions = []
    for name in PACKAGES:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"{name} absent")
    lines = [
        "# Speed",
        "",
        f"`python benchmarks/table.py`, {datetime.date.today()}: {os.cpu_count()} cores"
        f" ({platform.machine()}), Python {platform.python_version()}, {', '.join(versions)}."
        f" Processor seconds, one thread, median of {options.repeats}.",
        "",
        "| work | against | ours, theirs | ratio | ours, peak | goal |",
        "|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        earlier: Path | None = Path(folder)
        archive = subprocess.run(
            ["git", "archive", EARLIER, "dpmc_core"], cwd=ROOT, capture_output=True
        )
        if archive.returncode:
            earlier = None
        else:
            subprocess.run(["tar", "-x"], input=archive.stdout, cwd=folder, check=True)
        for index, row in enumerate(ROWS):
            if options.only in f"{row.work} {row.against}":
                lines.append(format_row(row, index, earlier, options.repeats))
                print(lines[-1], flush=True)
    for heading, (script, *arguments) in (
        OTHER_SCRIPTS.items() if options.write and not options.only else ()
    ):
        print(f"==> {script}", flush=True)
        process = subprocess.run(
            [sys.executable, str(Path(__file__).with_name(script)), *arguments],
            capture_output=True,
            text=True,
        )
        output = (
            process.stdout.rstrip() if process.returncode == 0 else process.stderr.strip()[-400:]
        )
        command = " ".join(["python", f"benchmarks/{script}", *arguments])
        lines += ["", f"## {heading}", "", f"`{command}`", "", "```", output, "```"]
    if options.write:
        options.write.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
