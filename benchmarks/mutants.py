"""Plant faults, one at a time, in a copy of the program and run the tests that must notice them.

    python benchmarks/mutants.py [--only TEXT] [--family NAME] [--jobs N] [--list] [--resume FILE]

Faults and tests are in tests/faults. First all these tests run without a fault. The script prints a
line for each fault, then those that no test noticed. It ends with an error if there is one, if the
program breaks instead of misbehaving, or if a test fails without a fault. FILE lists faults that
were noticed on exactly this tree: they are left out, and those noticed now are added.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.faults import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parent.parent
COPIED = (
    *("dpmc_core", "dpmc_data", "dpmc_lab", "pages", "tests", "benchmarks"),
    *("sample_data", "docs", ".streamlit", "pyproject.toml", "app.py"),
)
SECONDS = 300  # for the tests of one fault
BROKEN = ("NameError", "ImportError", "ModuleNotFoundError", "SyntaxError", "UnboundLocalError")
KILLED, SURVIVED, ERROR = "killed", "SURVIVED", "ERROR"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a fault.

    Attributes:
        mutant: the fault.
        result: KILLED, SURVIVED or ERROR.
        seconds: how long its tests took.
        cause: the test that failed first and how, or what went wrong.
    """

    mutant: Mutant
    result: str
    seconds: float
    cause: str = ""


def main() -> None:
    """Run the tests of all chosen faults, and print the outcomes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="faults whose name has it")
    parser.add_argument("--family", metavar="NAME", default="", help="faults of one family")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (2)")
    parser.add_argument("--list", action="store_true", help="only list the faults")
    parser.add_argument("--resume", metavar="FILE", type=Path, help="leave out what FILE lists")
    args = parser.parse_args()
    chosen = [
        mutant
        for mutant in MUTANTS
        if args.only in mutant.name and args.family in ("", mutant.family)
    ]
    tree = _get_tree_name() if args.resume else ""
    if tree and args.resume.exists():
        killed = set(args.resume.read_text(encoding="utf-8").splitlines())
        remaining = [mutant for mutant in chosen if _format_entry(tree, mutant) not in killed]
        print(f"{len(chosen) - len(remaining)} faults were noticed on this tree before")
        if chosen and not remaining:
            return
        chosen = remaining
    if args.list or not chosen:
        for mutant in chosen:
            print(f"{mutant.family:15} {mutant.operator.value:15} {mutant.name}: {mutant.file}")
        sys.exit(not chosen)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="dpmc-mutants-") as folder:
        copies = [Copy(Path(folder, f"copy{k}")) for k in range(args.jobs)]
        outcomes = _run_all(chosen, copies, args.resume if tree else None, tree)
        for copy in copies:
            copy.close()
    counts = Counter(outcome.result for outcome in outcomes)
    print(f"\n{'family':15} {'faults':>6} {'killed':>6}")
    for family in dict.fromkeys(mutant.family for mutant in chosen):
        family_outcomes = [outcome for outcome in outcomes if outcome.mutant.family == family]
        print(
            f"{family:15} {len(family_outcomes):6}"
            f" {sum(family_outcome.result == KILLED for family_outcome in family_outcomes):6}"
        )
    minutes = (time.perf_counter() - start) / 60
    print(f"{len(outcomes)} faults in {minutes:.1f} minutes: {counts[KILLED]} killed,", end=" ")
    print(f"{counts[SURVIVED]} survived, {counts[ERROR]} errors")
    for outcome in outcomes:
        if outcome.result != KILLED:
            print(
                f"{outcome.result}: {outcome.mutant.family}: {outcome.mutant.name}"
                f" ({outcome.cause})"
            )
    sys.exit(counts[KILLED] < len(outcomes))


def _get_tree_name() -> str:
    """Return git's name for these files; empty where they differ from the last commit."""
    commands = (["git", "status", "--porcelain"], ["git", "rev-parse", "HEAD^{tree}"])
    changes, tree = (
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True) for command in commands
    )
    return "" if changes.returncode or changes.stdout else tree.stdout.strip()


def _format_entry(tree: str, mutant: Mutant) -> str:
    """Return the line of a noticed fault in the file of --resume."""
    return f"{tree} {mutant.family}: {mutant.name}"


def _run_all(
    mutants: Sequence[Mutant], copies: Sequence[Copy], killed: Path | None = None, tree: str = ""
) -> list[Outcome]:
    """Run all faults and return their outcomes.

    Args:
        mutants: the faults.
        copies: of the program, one for each fault at a time.
        killed: file that gets a line for each fault as soon as it is noticed, if any.
        tree: git's name for the program's files.
    """
    free: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        free.put(copy)
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    print(f"{len(mutants)} faults; {len(tests)} tests without one:", end=" ", flush=True)
    chunks = [chunk for k in range(len(copies)) if (chunk := tests[k :: len(copies)])]
    begin = time.perf_counter()

    def run_mutant(mutant: Mutant) -> Outcome:
        """Run one fault in a free copy."""
        copy = free.get()
        try:
            outcome = _run_planted(mutant, copy, failing)
        finally:
            free.put(copy)
        print(_format_line(outcome), flush=True)
        if killed and outcome.result == KILLED:
            with killed.open("a", encoding="utf-8") as file:
                file.write(_format_entry(tree, mutant) + "\n")
        return outcome

    with ThreadPoolExecutor(len(copies)) as pool:
        # All tests, without a fault.
        failing = set().union(*pool.map(_list_failing, chunks, copies))
        print(f"{len(failing)} fail, {time.perf_counter() - begin:.0f} s")
        for test in sorted(failing):
            print(f"  {test}")
        return list(pool.map(run_mutant, mutants))


def _run_planted(mutant: Mutant, copy: Copy, failing: set[str]) -> Outcome:
    """Plant the fault in the copy, run its tests, and restore the source."""
    start = time.perf_counter()
    failing_before = [
        test for test in failing for prefix in mutant.tests if test.startswith(prefix)
    ]
    if failing_before:
        return Outcome(mutant, ERROR, 0.0, f"fails without a fault: {failing_before[0]}")
    path = copy.folder / mutant.path
    source = path.read_text(encoding="utf-8")
    if source.count(mutant.before) != 1:
        return Outcome(
            mutant, ERROR, 0.0, f"the list is out of date: text not once in {mutant.file}"
        )
    try:
        path.write_text(source.replace(mutant.before, mutant.after), encoding="utf-8")
        status, output = copy.run_tests(mutant.tests, "-x", "-rfE", seconds=SECONDS)
    finally:
        path.write_text(source, encoding="utf-8")
    seconds, last = time.perf_counter() - start, _first_failure(output)
    if status is None:
        return Outcome(mutant, KILLED, seconds, "out of time")
    if status == 0:
        return Outcome(mutant, SURVIVED, seconds, ", ".join(mutant.tests))
    if status != 1 or last.partition(" - ")[2].startswith(BROKEN):
        return Outcome(mutant, ERROR, seconds, last or output[-500:])
    return Outcome(mutant, KILLED, seconds, last)


class Copy:
    """A copy of the program, and a process that runs its tests (`tests/forked.py`)."""

    def __init__(self, folder: Path) -> None:
        """Copy the program with its tests and data, and start the process.

        Bytecode is checked by content, so that a fault of the same length as the last one, planted
        within the same second, is compiled too.
        """
        self.folder = folder
        folder.mkdir()
        skip = shutil.ignore_patterns("__pycache__", "*.pyc", ".pytest_cache")
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, ignore=skip)
            else:
                shutil.copy(ROOT / name, folder / name)
        arguments = ("-m", "compileall", "-q", "--invalidation-mode", "checked-hash")
        arguments += ("dpmc_core", "dpmc_data", "dpmc_lab", "pages")
        subprocess.run([sys.executable, *arguments], cwd=folder, check=True)
        environment = os.environ | {"PYTHONPATH": str(folder), "OPENBLAS_NUM_THREADS": "1"}
        environment |= {"COLUMNS": "1000"}  # otherwise the summary cuts off how a test failed
        self._tester = subprocess.Popen(
            [sys.executable, "tests/forked.py"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run_tests(
        self, tests: Sequence[str], *options: str, seconds: float = math.inf
    ) -> tuple[int | None, str]:
        """Return the exit status of pytest, None if it was stopped, and what it printed.

        Args:
            tests: node ids.
            *options: of pytest.
            seconds: after which the run is stopped.
        """
        output = self.folder / "output.txt"
        # Plugins that were imported before the fork are not rewritten, which no test of ours needs.
        arguments = ("-q", "-p", "no:cacheprovider", "-W", "ignore:Module already imported")
        arguments += ("--tb=line", *options, *tests)
        assert self._tester.stdin
        assert self._tester.stdout
        self._tester.stdin.write(json.dumps([str(output), seconds, *arguments]) + "\n")
        self._tester.stdin.flush()
        status = json.loads(self._tester.stdout.readline())
        return status, output.read_text(encoding="utf-8", errors="replace")

    def close(self) -> None:
        """End the process."""
        self._tester.communicate()


_SUMMARY = re.compile(r"^(?:FAILED|ERROR) (tests/.+)$", re.MULTILINE)
_MISSING = re.compile(r"not found: (?:.*/)?(tests/\S+|.*::.*)$", re.MULTILINE)


def _first_failure(output: str) -> str:
    """Return the first failure in pytest's summary; empty if there is none."""
    match = _SUMMARY.search(output)
    return match.group(1) if match else ""


def _list_failing(tests: Sequence[str], copy: Copy) -> set[str]:
    """List the tests that fail in the unchanged copy, or do not exist."""
    missing: set[str] = set()
    while True:
        remaining = [test for test in tests if test not in missing]
        status, output = copy.run_tests(remaining, "-rfE")
        if status in (0, 1):
            return missing | {line.partition(" - ")[0] for line in _SUMMARY.findall(output)}
        lost = {test for test in remaining for text in _MISSING.findall(output)
                if test.endswith(text)}  # fmt: skip
        if not lost:
            print(output[-3000:])
            sys.exit("the named tests cannot be run")
        missing |= lost


def _format_line(outcome: Outcome) -> str:
    """Return the line that is printed for an outcome."""
    mutant, (test, _, failure) = outcome.mutant, outcome.cause.partition(" - ")
    kind = f"{mutant.family:15} {mutant.operator.value:15}"
    cause = f"{test.rpartition('/test_')[2][:120]} ({failure[:50]})"
    return f"{outcome.result:8} {outcome.seconds:5.1f} s  {kind} {mutant.name}  <- {cause}"


if __name__ == "__main__":
    main()
