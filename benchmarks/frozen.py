"""Freeze what the program computes before a change, and compare it afterwards.

    python benchmarks/frozen.py write FILE.json       # before, by the program in this folder
    python benchmarks/frozen.py check FILE.json       # after; an error where anything differs

Each row is the result of a command: every method with every value of every setting that is a
choice, all guarantees, protocols, a sweep, two answers, a quick experiment of each paper, all
theorems, the lessons' numbers, and releases (one with a fixed stream of entropy). Numbers may
differ by one millionth, relatively, since the order of a sum may change. Times, versions and paths
are left out. Two rows run at a time; `--only TEXT` selects rows whose name contains TEXT.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = {"binary": "movie-night", "ratings": "jokes", "ranking": "bookshop-clicks"}
QUICK = ("lwhm22-table-1", "z16-generated", "ryhh24-5b", "hxz15-cdf", "jtt18-table-1")
PAPERS = ("lwhm22", "z16", "ryhh24", "hxz15", "jtt18")
CHOICE = re.compile(r"one of (.*)")
IGNORED_FIELDS = {
    "seconds",
    "version",
    "versions",
    "time",
    "when",
    "made",
    "path",
    "file",
    "store",
    "platform",
    "finished",
}
# The samplers' only source is replaced: the same stream in every process.
FIXED_ENTROPY = (
    "import hashlib, itertools, os, sys\n"
    "count = itertools.count()\n"
    "os.urandom = lambda n: hashlib.shake_128(b'%d' % next(count)).digest(n)\n"
    "from dpmc_lab.__main__ import entry\n"
    "entry()\n"
)
Row = Callable[[], Any]


def run_command(*arguments: str, fixed: bool = False) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    with tempfile.TemporaryDirectory() as home:
        prefix = ["-c", FIXED_ENTROPY] if fixed else ["-m", "dpmc_lab"]
        result = subprocess.run(
            [sys.executable, *prefix, *arguments],
            cwd=ROOT,
            env=os.environ | {"DPMC_HOME": home, "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert result.returncode in (0, 1), result.stderr[-2000:]
    assert "Traceback" not in result.stderr, result.stderr[-2000:]
    return result


def call_json(*arguments: str, fixed: bool = False) -> Any:
    """Return the JSON of a command, or its error message."""
    result = run_command(*arguments, "--json", fixed=fixed)
    return json.loads(result.stdout) if result.returncode == 0 else result.stderr.strip()


def list_fits() -> Iterator[tuple[str, Row]]:
    """List every method with its defaults, and with every other value of a choice."""
    for method in call_json("list"):
        id = method["id"]
        settings = {setting["name"]: setting for setting in method["settings"]}
        arguments = ["fit", SAMPLE[method["task"]], id, "--seed", "1"]
        arguments += ["--epsilon", "1"] if "epsilon" in settings else []
        yield f"fit {id}", lambda arguments=arguments: call_json(*arguments)
        published = "published" in settings.get("estimator", {}).get("accepts", "")
        for name, setting in settings.items():
            match = CHOICE.fullmatch(setting["accepts"])
            for value in match.group(1).split(", ") if match else ():
                if value == str(setting["default"]).lower():
                    continue
                value = value.replace("SIGMA", "0.5")
                extended = [*arguments, "--set", f"{name}={value}"]
                if published and name != "estimator":
                    extended += ["--set", "estimator=published"]
                yield (
                    f"fit {id} {' '.join(extended[5:])}",
                    lambda extended=extended: call_json(*extended),
                )


def run_sweep() -> Any:
    """Run a small sweep and return its rows, without times."""
    with tempfile.TemporaryDirectory() as folder:
        store, table = str(Path(folder, "s.sqlite")), Path(folder, "rows.csv")
        grid = ["--mechanisms", "private-effects,dpals", "--epsilons", "0.5,2", "--seeds", "1:2"]
        run_command("sweep", "--data", "jokes", *grid, "--store", store, "--jobs", "1")
        run_command("store", "--store", store, "export", str(table))
        rows = [line.split(",") for line in table.read_text(encoding="utf-8").splitlines()]
        kept_columns = [
            k for k, name in enumerate(rows[0]) if not IGNORED_FIELDS & set(name.split("_"))
        ]
        return sorted([row[k] for k in kept_columns if k < len(row)] for row in rows)


def run_experiment(name: str) -> Any:
    """Run an experiment of a paper and return its results."""
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder, "s.sqlite"))
        run_command("papers", name, "--run", "--seeds", "1", "--write", folder, "--store", store)
        return [json.loads(path.read_bytes()) for path in sorted(Path(folder).glob("*.json"))]


def extract_lesson_numbers() -> Any:
    """Return every number of what is printed, in order; words may change."""
    with tempfile.TemporaryDirectory() as folder:
        run_command("lessons", "--out", folder)
        texts = {path.name: path.read_text("utf-8") for path in sorted(Path(folder).iterdir())}
    drawing = re.compile(
        r'<style>.*?</style>|class="drawing"[^>]*aria-label="([^"]*)".*?(?=<p)', re.S
    )
    number = re.compile(r"(?<![\w#.-])\d+(?:[.,]\d+)*(?![\w;-])")
    return {name: number.findall(drawing.sub(r"\1", text)) for name, text in texts.items()}


def run_release(sample: str, *arguments: str, exact: bool = True) -> Any:
    """Run a release; if `exact`, noise comes from the fixed stream, except opendp's Gaussian."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "r.npz")
        guarantee = call_json(
            "release", sample, *arguments, "--epsilon", "1", "--out", str(path), fixed=True
        )
        # In another process, so that this one needs no NumPy.
        code = (
            "import sys, json, hashlib, numpy as np\nf = np.load(sys.argv[1])\n"
            "print(json.dumps({k: hashlib.sha256(f[k].tobytes()).hexdigest()"
            " for k in f if k != 'card'}))"
        )
        arrays = subprocess.check_output([sys.executable, "-c", code, str(path)], text=True)
        document = {
            "card": guarantee,
            "arrays": json.loads(arrays),
            "verify": call_json("verify", str(path)),
        }
        return document if exact else without_noise(document)


def without_noise(document: Any) -> Any:
    """Keep only the names of arrays, since digests of random numbers show nothing."""
    if isinstance(document, dict):
        reduced = {key: without_noise(value) for key, value in document.items() if key != "sha256"}
        return reduced | {"arrays": sorted(reduced["arrays"])} if "arrays" in reduced else reduced
    return (
        [without_noise(element) for element in document] if isinstance(document, list) else document
    )


def list_rows() -> dict[str, Row]:
    """Return everything that is frozen, by name."""
    rows_by_name = dict(list_fits())
    for epsilon in ("0.1", "1", "10"):
        for data in ("movie-night", "bookshop-clicks"):
            arguments = ("guarantees", "--epsilon", epsilon, "--data", data)
            rows_by_name[" ".join(arguments)] = lambda arguments=arguments: call_json(*arguments)
    for unit in ("rating", "cell", "user", "user-replaced"):
        for data in ("restaurants", "bookshop-clicks"):
            arguments = ("recommend", data, "--unit", unit)
            rows_by_name[" ".join(arguments)] = lambda arguments=arguments: call_json(*arguments)
    for arguments in (
        ("protocol", "2", "restaurants", "--epsilon", "1", "--attack"),
        ("protocol", "3", "restaurants", "--epsilon", "1", "--set", "leaves=2:5"),
        ("protocol", "3", "restaurants", "--epsilon", "10", "--set", "picked=5", "--attack"),
        ("protocol", "federated", "--epsilon", "1", "--set", "rounds=2"),
        ("answer", "restaurants", "--seeds", "1:3", "--no-curve"),
        ("answer", "bookshop-clicks", "--seeds", "1:2", "--no-curve", "--protect", "rating"),
        ("audit", "randomised-response", "--epsilon", "1"),
        ("audit", "output", "--epsilon", "1"),
        ("data", "describe", "movie-night"),
    ):
        rows_by_name[" ".join(arguments)] = lambda arguments=arguments: call_json(*arguments)
    rows_by_name |= {
        f"theory {paper}": lambda p=paper: call_json("papers", p, "--theory") for paper in PAPERS
    }
    rows_by_name |= {f"experiment {name}": lambda n=name: run_experiment(n) for name in QUICK}
    rows_by_name |= {"sweep": run_sweep, "lessons": extract_lesson_numbers}
    rows_by_name["release signs"] = lambda: run_release(
        "movie-night", "input-flip", "--prepare", "binarise=3.5"
    )
    for name, id in (("items", "private-item-mean"), ("effects", "private-effects")):
        rows_by_name[f"release {name}"] = lambda id=id: run_release(
            "jokes", id, "--delta", "1e-6", exact=False
        )
    return rows_by_name


def list_differences(first: Any, second: Any, position: str = "") -> Iterator[str]:
    """List where two documents differ."""
    if isinstance(first, dict) and isinstance(second, dict):
        for key in sorted((first.keys() | second.keys()) - IGNORED_FIELDS):
            if (key in first) != (key in second):
                yield f"{position}/{key}: {'gone' if key in first else 'new'}"
            else:
                yield from list_differences(first[key], second[key], f"{position}/{key}")
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for k, (a, b) in enumerate(zip(first, second, strict=True)):
            yield from list_differences(a, b, f"{position}/{k}")
    elif not _is_same(first, second):
        yield f"{position}: {str(first)[:80]} -> {str(second)[:80]}"


def _is_same(first: Any, second: Any) -> bool:
    """Return whether two values are equal, or are numbers that differ by rounding."""
    try:
        is_close = math.isclose(float(first), float(second), rel_tol=1e-6, abs_tol=1e-9)
    except (TypeError, ValueError):
        is_close = False
    return is_close or first == second


def main() -> None:
    """Write, check or list the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("write", "check", "list"))
    parser.add_argument("file", type=Path, nargs="?", default=Path("frozen.json"))
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name has it")
    args = parser.parse_args()
    chosen = {name: row for name, row in list_rows().items() if args.only in name}
    if args.what == "list":
        print("\n".join(chosen))
        return
    prior = json.loads(args.file.read_bytes()) if args.what == "check" else {}
    results: dict[str, Any] = {}
    bad = 0
    with ThreadPoolExecutor(2) as pool:
        for name, result in zip(chosen, pool.map(lambda row: row(), chosen.values()), strict=True):
            results[name] = json.loads(json.dumps(result))
            messages = list(list_differences(prior.get(name), results[name])) if prior else []
            bad += bool(messages)
            print(
                f"{'DIFFERS' if messages else 'ok':8} {name}",
                *messages[:5],
                sep="\n    ",
                flush=True,
            )
    if args.what == "write":
        args.file.write_text(json.dumps(results, indent=0, sort_keys=True), encoding="utf-8")
    missing = [name for name in prior if args.only in name and name not in results]
    print(f"{len(results)} rows, {bad} differ" + "".join(f"\ngone: {name}" for name in missing))
    sys.exit(bool(bad or missing))


if __name__ == "__main__":
    main()
