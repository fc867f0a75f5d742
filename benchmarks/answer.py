"""Measure the answer on large data: seconds until a verdict, until all seeds, and megabytes.

    python benchmarks/answer.py [--only TEXT]

The script runs `dpmc answer FILE --no-curve` on generated clicks and ratings. The popularity of
items falls as 1/(10 + rank), and every user likes two of twenty genres. The first verdict is
provisional if more seeds follow. The peak is the largest memory of all processes together, measured
twice a second; memory that they share counts once (PSS, on Linux).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SHAPES = {  # users, items, ratings, whether of 1..5
    "clicks, 1,892 x 17,632": (1_892, 17_632, 92_834, False),
    "clicks, 200,000 x 18,000": (200_000, 18_000, 3_000_000, False),
    "ratings, 200,000 x 18,000": (200_000, 18_000, 3_000_000, True),
}
N_GENRES = 20


def write_ratings(path: Path, users: int, items: int, count: int, stars: bool) -> None:
    """Write generated ratings, from effects and three directions of preference, as a CSV file.

    Args:
        path: the file.
        users, items: numbers of users and of items.
        count: number of ratings at most.
        stars: whether the ratings have values in 1..5; otherwise they are clicks.
    """
    rng = np.random.default_rng(0)
    popularity = 1 / (10 + np.arange(items))
    genres = rng.integers(N_GENRES, size=items)
    liked_genres = rng.integers(N_GENRES, size=(users, 2))
    activity = np.maximum(2, rng.lognormal(0, 1, users))
    # More cells than needed, since some are drawn twice.
    n_cells = np.clip(np.round(1.4 * activity * count / activity.sum()), 2, items // 4).astype(int)
    u = np.repeat(np.arange(users), n_cells)
    i = np.searchsorted(np.cumsum(popularity / popularity.sum()), rng.random(len(u)))
    chosen_genres = np.where(
        rng.random(len(u)) < 0.6, liked_genres[u, rng.integers(2, size=len(u))], -1
    )
    for k in range(N_GENRES):  # six of ten ratings are of an item of a genre that the user likes
        chosen_rows = np.flatnonzero(chosen_genres == k)
        genre_items = np.flatnonzero(genres == k)
        cumulative = np.cumsum(popularity[genre_items]) / popularity[genre_items].sum()
        i[chosen_rows] = genre_items[np.searchsorted(cumulative, rng.random(len(chosen_rows)))]
    cells = np.unique(u * items + np.minimum(i, items - 1))
    u, i = np.divmod(np.sort(rng.permutation(cells)[:count]), items)
    columns = [u, i]
    if stars:
        user_factors, item_factors = rng.normal(size=(users, 3)), rng.normal(size=(items, 3))
        low_rank = 0.35 * np.einsum("kd,kd->k", user_factors[u], item_factors[i])
        effects = 0.4 * rng.normal(size=users)[u] + 0.5 * rng.normal(size=items)[i]
        scores = 3.4 + effects + low_rank + 0.8 * rng.normal(size=len(u))
        columns.append(np.clip(np.round(scores), 1, 5).astype(int))
    names = "user,item,rating" if stars else "user,item"
    np.savetxt(path, np.column_stack(columns), "%d", ",", header=names, comments="")


def list_process_tree(root: int) -> list[int]:
    """List a process and its descendants."""
    parents = {}
    for stat_path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat_path.parent.name)] = int(
                stat_path.read_text().rpartition(")")[2].split()[1]
            )
        except OSError:  # it has ended
            continue
    process_ids = [root]
    for process_id in process_ids:  # the list grows by the children of each entry
        process_ids += [child for child, parent in parents.items() if parent == process_id]
    return process_ids


def measure_shared_memory(pids: list[int]) -> float:
    """Return the proportional set size of processes in megabytes; 0 where it is unknown."""
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def main() -> None:
    """Measure the answer on every data set, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="data whose name has it")
    args = parser.parse_args()
    print("| data | first verdict | of all seeds | peak |\n|---|---|---|---|", flush=True)
    for name, (*shape, stars) in SHAPES.items():
        if args.only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "ratings.csv")
            write_ratings(file, *shape, stars)
            command = [sys.executable, "-m", "dpmc_lab", "answer", str(file), "--no-curve"]
            command += ["--range", "1:5"] * stars
            environment = os.environ | {"DPMC_HOME": folder, "PYTHONPATH": str(ROOT)}
            start, verdict_times, peak = time.perf_counter(), [], [0.0]
            child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

            def poll_memory(process_id: int = child.pid, peak: list[float] = peak) -> None:
                """Append the memory of the process and its descendants until it ends."""
                while Path(f"/proc/{process_id}").exists():
                    peak.append(measure_shared_memory(list_process_tree(process_id)))
                    time.sleep(0.5)

            threading.Thread(target=poll_memory, daemon=True).start()
            for line in child.stdout or ():
                if "at your limit" in line or "We cannot tell" in line:
                    verdict_times.append(time.perf_counter() - start)
            if child.wait():
                raise SystemExit("there was no answer")
        full_time = f"{verdict_times[-1]:.0f} s (load {os.getloadavg()[0]:.1f})"
        print(
            f"| {name} | {verdict_times[0]:.0f} s | {full_time} | {max(peak):.0f} MB |", flush=True
        )


if __name__ == "__main__":
    main()
