"""Time of one exact alternation of iALS against the package `implicit`, and the loss of both.

    OPENBLAS_NUM_THREADS=1 python benchmarks/ials.py [--repeats N]

MovieLens 1M's size (generated: 6040 x 3706, 1,000,000 interactions), 16 and 64 factors, two threads
each, alternating in one process. Both solve the same least squares: ours over missing cells with a
constant ridge, implicit's with weight 1/alpha on interactions and ridge lambda/alpha. `implicit`
works in single precision throughout, ours gathers and solves in single or double.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

import generated
import numpy as np

from dpmc_core.data.transforms import Implicit
from dpmc_core.solvers import factorization as ours

ALPHA, RIDGE = 0.2, 20.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from implicit.cpu import _als
    from scipy.sparse import csr_matrix

    ratings = generated.ml1m_like(seed=0)
    matrix = ours.binary_matrix(Implicit().apply(ratings, ratings))
    columns = matrix.T.tocsr()
    loss = ours.ImplicitLoss(ALPHA, RIDGE, ours.Over.MISSING, frequency=False)
    weights = csr_matrix(
        (np.full(matrix.nnz, 1 / ALPHA, np.float32), matrix.indices, matrix.indptr),
        shape=matrix.shape,
    )
    turned = weights.T.tocsr()
    for rank in (16, 64):
        rng = np.random.default_rng(0)
        left = rng.normal(0, 0.1, (matrix.shape[0], rank))
        right = rng.normal(0, 0.1, (matrix.shape[1], rank))
        x, y = left.astype(np.float32), right.astype(np.float32)
        sides = dict.fromkeys((True, False), (left, right))
        times: dict[str, list[float]] = {"single": [], "double": [], "implicit": []}
        for _ in range(repeats):
            for single, name in ((True, "single"), (False, "double")):
                start = time.perf_counter()
                p = ours.solve_rows(matrix, sides[single][1], loss, single=single)
                q = ours.solve_rows(columns, p, loss, single=single)
                times[name].append(time.perf_counter() - start)
                sides[single] = p, q
            start = time.perf_counter()
            _als.least_squares(weights, x, y, RIDGE / ALPHA, num_threads=2)
            _als.least_squares(turned, y, x, RIDGE / ALPHA, num_threads=2)
            times["implicit"].append(time.perf_counter() - start)
        theirs = loss.value(matrix, x.astype(float), y.astype(float))
        peer = statistics.median(times["implicit"])
        print(f"{rank} factors: implicit {peer:.3f} s, loss {theirs:.2f}")
        for name, (p, q) in zip(("single", "double"), sides.values(), strict=True):
            mine, value = statistics.median(times[name]), loss.value(matrix, p, q)
            print(
                f"    {name}: {mine:.3f} s, ratio {mine / peer:.2f},"
                f" loss differs by {abs(value / theirs - 1):.1e}"
            )


if __name__ == "__main__":
    main()
