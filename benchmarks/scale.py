"""Peak memory and time of completion without privacy at MovieLens 1M's size.

    python benchmarks/scale.py

Generates 6040 users x 3706 items with 1,000,000 ratings, fits `clear` and prints a line per round.
"""

from __future__ import annotations

import argparse
import resource
import time

import generated
import numpy as np

from dpmc_core.data.transforms import apply_steps, parse_step
from dpmc_core.mechanisms.plain import Clear


def main() -> None:
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    start = time.perf_counter()
    ratings = generated.ml1m_like(seed=0)
    signs, _ = apply_steps([parse_step("binarise=mean")], ratings, None)
    print(f"{len(signs):,} ratings of {signs.shape} in {time.perf_counter() - start:.1f} s")
    start = time.perf_counter()
    for step in Clear().fit(signs, np.random.default_rng(0)):
        spent = time.perf_counter() - start
        print(f"round {step.index}: objective {step.trace['objective']:.1f} after {spent:.1f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak resident memory {peak:.2f} GiB")


if __name__ == "__main__":
    main()
