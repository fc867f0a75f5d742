"""How time and memory grow with ratings, users and items, method by method, beside theory.

    python benchmarks/growth.py [--only ID,ID] [--write FOLDER]

Each fit runs in a process of its own at defaults and epsilon 1: from 100,000 to 10 million ratings,
a hundred a user, of 2,000 items; and a million ratings of 10,000 and 40,000 users, and of 1,000 and
4,000 items. Time is of one thread of the processor; memory is the peak beyond what the ratings and
the interpreter take. An exponent is the slope between the two largest sizes, on logarithmic axes:
growth settles only there. `--write docs` makes docs/growth.md and, where the *dev* extra and
Chromium are there, its picture.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from dpmc_core.ratings import Ratings

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 240  # seconds of the processor that a case may take
SIZES = {  # users, items, ratings
    "ratings": [(1_000, 2_000, 10**5), (10_000, 2_000, 10**6), (100_000, 2_000, 10**7)],
    "users": [(10_000, 2_000, 10**6), (40_000, 2_000, 10**6)],
    "items": [(20_000, 1_000, 10**6), (20_000, 4_000, 10**6)],
}
LAPTOP = 16e9, 600.0  # bytes, seconds


class Family(NamedTuple):
    """ids: of one kind. theory: largest exponents of time by ratings, users, items."""

    name: str
    ids: tuple[str, ...]
    theory: tuple[float, float, float]
    why: str


FAMILIES = (
    Family("one-bit completion", ("clear", "input-flip", "gradient"), (1, 1, 1),
           "products with a sparse matrix and thin factors"),
    Family("collection of every cell", ("randomised-response", "modified-laplace"), (1, 1, 1),
           "users x items reports"),
    Family("local rankings", ("local-popularity", "dplcf"), (1, 1, 1), "users x items bits"),
    Family("per-user ratings",
           ("private-effects", "private-frank-wolfe", "private-frank-wolfe-oja", "private-svd",
            "private-pgd", "svd-after-cleansing", "dpals"), (1, 1, 1),
           "products with sparse rows, noise along few directions"),
    Family("per-user rankings", ("private-popularity", "private-taste"), (1, 1, 1),
           "sums over users"),
    Family("factorization", ("dpmf", "ials"), (1, 1, 1), "small least squares a row"),
    Family("without privacy", ("als", "frank-wolfe", "reference-ratings"), (1, 1, 1),
           "products with sparse rows"),
    Family("DPIMF", ("dpimf-optimal",), (1, 1, 1), "rounds over clicks, noise an item"),
)  # fmt: skip


def fitted(id: str, users: int, items: int, count: int) -> dict[str, float]:
    """Seconds and bytes of a fit."""
    from dpmc_core import registry
    from dpmc_core.data.transforms import apply_steps, parse_step
    from dpmc_core.model import Task

    cls = registry.get(id)
    settings = {"epsilon": 1.0} if registry.adds_noise(cls) else {}
    method = registry.create(id, **settings)
    ratings = made(users, items, count)
    if cls.task is not Task.RATINGS:
        step = "implicit" if cls.task is Task.RANKING else "binarise=middle"
        ratings = apply_steps([parse_step(step)], ratings, None)[0]
    before = held()
    start = time.process_time()
    for _ in method.fit(ratings, np.random.default_rng(0)):
        pass
    return {"seconds": time.process_time() - start, "bytes": peak() - before}


def made(users: int, items: int, count: int) -> Ratings:
    """Generated ratings, each size once: kept in a file beside the program's own temporary ones."""
    from table import films

    from dpmc_core.ratings import PublicFacts, Ratings

    path = Path(tempfile.gettempdir()) / f"growth-{users}-{items}-{count}.npz"
    if not path.exists():
        found = films(users, items, count)
        part = path.with_suffix(".part.npz")
        np.savez(part, users=found.users, items=found.items, values=found.values)
        part.rename(path)
    public = PublicFacts(users=users, items=items, low=1, high=5)
    with np.load(path) as kept:
        return Ratings.build(kept["users"], kept["items"], kept["values"], public)


def held() -> float:
    """Bytes of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    return pages * resource.getpagesize()


def peak() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def alone(*case: object) -> dict[str, float] | str:
    """`fitted` in a process of its own, or why there is nothing."""
    words = [sys.executable, __file__, "--case", *map(str, case)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    limit = partial(resource.setrlimit, resource.RLIMIT_CPU, (LIMIT, LIMIT + 5))
    out = subprocess.run(words, capture_output=True, text=True, env=environment, preexec_fn=limit)
    if out.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"longer than {LIMIT} s" if out.returncode == -signal.SIGXCPU else "killed"
    if out.returncode:
        return (out.stderr.strip().splitlines() or ["killed"])[-1][:160]
    found: dict[str, float] = json.loads(out.stdout.splitlines()[-1])
    return found


def slope(sizes: list[int], values: list[float]) -> float:
    return math.log(values[-1] / values[-2]) / math.log(sizes[-1] / sizes[-2])


def measured(ids: set[str]) -> dict[str, dict[str, list]]:
    found: dict[str, dict[str, list]] = {}
    for family in FAMILIES:
        for id in family.ids:
            if ids and id not in ids:
                continue
            found[id] = {}
            for axis, sizes in SIZES.items():
                found[id][axis] = [alone(id, *size) for size in sizes]
                told = [
                    one
                    if isinstance(one, str)
                    else f"{one['seconds']:.2f} s, {one['bytes'] / 1e6:.0f} MB"
                    for one in found[id][axis]
                ]
                print(f"{id:26s} {axis:8s} {'; '.join(told)}", flush=True)
    return found


def table(found: dict[str, dict[str, list]]) -> list[str]:
    """A line a method: time and memory at ten million, exponents beside theory, what fits."""
    lines = [
        "| method | 10 M ratings | time grows with ratings, users, items as | theory, at most"
        " | ratings in ten minutes and 16 GB |",
        "|---|---|---|---|---|",
    ]
    for family in FAMILIES:
        for id in family.ids:
            if id not in found:
                continue
            axes, exponents = found[id], []
            for place, axis in enumerate(SIZES):
                sizes = [size[{"users": 0, "items": 1, "ratings": 2}[axis]] for size in SIZES[axis]]
                good = [one for one in axes[axis] if not isinstance(one, str)]
                if len(good) < len(sizes):
                    exponents.append("-")
                    continue
                power = slope(sizes, [one["seconds"] for one in good])
                mark = " (!)" if power > family.theory[place] + 0.15 else ""
                exponents.append(f"{power:.2f}{mark}")
            last = axes["ratings"][-1]
            if isinstance(last, str):
                lines.append(f"| {id} | {last} | {', '.join(exponents)} | | |")
                continue
            seconds, room = last["seconds"], last["bytes"] + 17e7  # the ratings themselves
            most = 1e7 * min(LAPTOP[1] / seconds, LAPTOP[0] / room)
            lines.append(
                f"| {id} | {seconds:.1f} s, {last['bytes'] / 1e9:.2f} GB | {', '.join(exponents)}"
                f" | {', '.join(f'{power:g}' for power in family.theory)}: {family.why}"
                f" | {rounded(most)} |"
            )
    return lines


def rounded(count: float) -> str:
    million = count / 1e6
    return f"{float(f'{million:.1g}'):,.0f} M" if million >= 1 else f"{million:.1g} M"


def picture(found: dict[str, dict[str, list]], path: Path) -> None:
    """Log-log lines of time, an axis a panel."""
    from playwright.sync_api import sync_playwright
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=1, cols=3, shared_yaxes=True, horizontal_spacing=0.03)
    colours = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000",
               "#8c6d31")  # fmt: skip
    dashes = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "3px,3px")
    for column, (axis, sizes) in enumerate(SIZES.items(), 1):
        place = {"users": 0, "items": 1, "ratings": 2}[axis]
        for colour, family in zip(colours, FAMILIES, strict=True):
            for dash, id in zip(dashes, family.ids, strict=False):
                points = [
                    (size[place], one["seconds"])
                    for size, one in zip(sizes, found.get(id, {}).get(axis, []), strict=False)
                    if not isinstance(one, str)
                ]
                figure.add_scatter(
                    x=[x for x, _ in points], y=[y for _, y in points], name=id, legendgroup=id,
                    showlegend=column == 1, line={"color": colour, "dash": dash, "width": 1.5},
                    marker={"size": 5}, mode="lines+markers", row=1, col=column,
                )  # fmt: skip
        ticks = [size[place] for size in sizes]
        figure.update_xaxes(type="log", tickvals=ticks, title=axis, row=1, col=column)
    figure.update_yaxes(type="log", dtick=1)
    figure.update_yaxes(title="seconds of one thread", row=1, col=1)
    figure.update_layout(
        template="plotly_white", width=1300, height=620, margin={"t": 20}, font={"size": 13},
        legend={"tracegroupgap": 0, "font": {"size": 11}},
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page_file = Path(folder) / "growth.html"
        figure.write_html(page_file, include_plotlyjs=True, config={"displayModeBar": False})
        browser = driver.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1320, "height": 640})
        page.goto(page_file.as_uri())
        page.wait_for_selector(".main-svg")
        page.screenshot(path=str(path))
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="ids of methods, separated by commas")
    parser.add_argument("--write", type=Path, help="a folder for growth.md and growth.png")
    parser.add_argument("--case", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        id, *sizes = options.case
        print(json.dumps(fitted(id, *map(int, sizes))))
        return
    found = measured({id for id in options.only.split(",") if id})
    lines = table(found)
    print("\n".join(lines))
    if options.write:
        text = [
            "# Growth",
            "",
            "How long a fit takes at its defaults and epsilon 1, by `python benchmarks/growth.py"
            " --write docs` (one thread; its first lines say what it measures). Exponents are the"
            " slopes between the two largest sizes. The last column goes on from ten million"
            " ratings in a straight line, and is a guess.",
            "",
            "![time against ratings, users and items](growth.png)",
            "",
            *lines,
            "",
            "(!): above its theory. A round of `clear` costs the rank of its estimate times the"
            " ratings, and where rows are short both rank and rounds grow: with half a million"
            " ratings rank 31 after 17 rounds for 5,000 users, 55 after 28 for 20,000.",
        ]
        (options.write / "growth.md").write_text("\n".join(text) + "\n", encoding="utf-8")
        picture(found, options.write / "growth.png")


if __name__ == "__main__":
    main()
