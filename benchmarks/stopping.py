"""How long a run can be deaf to Stop: the longest time between two looks at the stop signal.

    python benchmarks/stopping.py [--seconds 5] [--only ID,ID] [--data NAME,NAME]

Every method of the registry on a million ratings, in a process of its own. Gaps are in seconds of
processor time, which other programs on the machine disturb little. Each run is asked to stop after
so many of them; the last column says how long it then took to end. A run that has not ended two
minutes later is killed.
"""

import argparse
import multiprocessing
import os
import sys
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from dpmc_core import experiment, registry
from dpmc_core.data import load
from dpmc_core.errors import DpmcError
from dpmc_core.model import Mechanism, Task
from dpmc_core.problem import Problem, build_problem

sys.path.insert(0, str(Path(__file__).parent))
from generated import large_bookshop, netflix_like

PATIENCE = 120.0  # seconds by the clock
DATA = {
    "long-tail-full": lambda: load("long-tail-full"),
    "many-users": lambda: replace(load("movie-night"), ratings=netflix_like(0), truth=None),
    "bookshop-large": lambda: replace(load("bookshop-clicks"), ratings=large_bookshop(0)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="when a run is asked to stop")
    parser.add_argument("--only", default="", help="ids of methods, separated by commas")
    parser.add_argument("--data", default="", help="parts of the names of data, likewise")
    chosen = parser.parse_args()
    ids = chosen.only.split(",") if chosen.only else list(registry.MECHANISMS)
    for name, make in DATA.items():
        if not any(part in name for part in chosen.data.split(",")):
            continue
        data, problems = make(), {}
        users, items = data.ratings.shape
        print(f"\n{name}: {len(data.ratings):,} ratings, {users:,} x {items:,}")
        print(f"{'method':28s} {'longest gap':>12s} {'looks':>8s} {'ended after':>12s}", flush=True)
        for id in ids:
            mechanism = registry.create(id, epsilon=1.0, delta=1e-6)
            if data.ratings.clicks and mechanism.task is not Task.RANKING:
                continue
            try:
                if mechanism.task not in problems:
                    problems[mechanism.task] = build_problem(data, mechanism.task, seed=1)
                print(f"{id:28s} {case(mechanism, problems[mechanism.task], chosen.seconds)}")
            except DpmcError as error:
                print(f"{id:28s} {error}")
            sys.stdout.flush()


def case(mechanism: Mechanism, problem: Problem, seconds: float) -> str:
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe()
    process = fork.Process(target=run, args=(mechanism, problem, seconds, there))
    process.start()
    there.close()
    try:
        told = here.recv() if here.poll(3 * seconds + PATIENCE) else f"{'killed':>12s}"
    except EOFError:
        told = "died"
    process.kill()
    process.join()
    return str(told)


def run(mechanism: Mechanism, problem: Problem, seconds: float, tell: Connection) -> None:
    start = time.process_time()
    looks = [start]

    def stop() -> bool:
        looks.append(time.process_time())
        return looks[-1] > start + seconds

    note = ""
    try:
        experiment.run(mechanism, problem, 1, stop=stop, with_baselines=False)
    except DpmcError as error:
        note = f"  {error}"
    end = time.process_time()
    gaps = [later - before for before, later in zip(looks, [*looks[1:], end], strict=True)]
    asked = end - start - seconds
    ended = f"{asked:10.2f} s" if asked > 0 else f"{'(before)':>12s}"
    tell.send(f"{max(gaps):10.2f} s {len(looks) - 1:8d} {ended}{note}")


if __name__ == "__main__":
    main()
