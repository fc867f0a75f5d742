"""Test every command of `dpmc` under adverse conditions: a table, and no traceback.

    python benchmarks/command_line.py [--only TEXT] [--installed DPMC]

The script builds the wheel, installs it into a fresh environment and runs each command there, each
time in a new folder: under normal conditions, under each of CONDITIONS, interrupted at eight
moments, and with absurd values. It prints the number of runs and what was wrong with them, and ends
with status 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from dpmc_core import registry
from dpmc_core.settings import list_settings
from dpmc_data import ReadOptions
from dpmc_lab.cli import build_parser, main

ROOT = Path(__file__).resolve().parent.parent
FILE, RELEASED = "caf\u00e9.csv", "items.npz"
RANGE = ("--range", "1:5")
ARGUMENTS: dict[tuple[str, ...], list[str]] = {  # of each command, chosen so that it is quick
    ("app",): ["--address", "203.0.113.1"],  # an address of no machine: the app does not start
    ("list",): [],
    ("data", "list"): [],
    ("data", "get"): ["no-such-set"],
    ("data", "describe"): [FILE, *RANGE],
    ("data", "check"): [FILE, *RANGE],
    ("data", "features"): [
        *("--from", FILE, "--items", "none.csv", "--out", "features.csv", "--public-donor", *RANGE),
    ],
    ("recommend",): [FILE, *RANGE],
    ("answer",): [FILE, *RANGE, "--no-curve", "--seeds", "1"],
    ("fit",): [FILE, "input-flip", "--epsilon", "1", *RANGE],
    ("release",): [
        *(FILE, "input-flip", "--epsilon", "1", "--catalogue", "from-data"),
        *("--out", "out.npz", *RANGE),
    ],
    ("verify",): [RELEASED],
    ("guarantees",): [],
    ("audit",): ["input-flip", "--epsilon", "1", "--method", "probe", "--runs", "2"],
    ("protocol",): ["2", FILE, *RANGE],
    ("papers",): [],
    ("sweep",): [
        *("--data", FILE, "--mechanisms", "input-flip", "--epsilons", "1", "--seeds", "1"),
        *("--jobs", "1", *RANGE),
    ],
    ("store", "list"): ["--store", "rows.sqlite"],
    ("store", "export"): ["-", "--store", "rows.sqlite"],
    ("store", "prune"): ["--dry-run", "--all", "--store", "rows.sqlite"],
    ("lessons",): ["--out", "sheets"],
    ("explorable",): ["movie-night", "--out", "what-if.html"],
}
SUCCEEDED, FAILED, USAGE, INTERRUPTED, UNREAD = 0, 1, 2, 130, 141
MOMENTS = 8  # evenly spaced moments at which a command is interrupted
# A user whom the system does not know, who may read everything and write nothing.
STRANGER = (
    *("setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups"),
    *("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"),
)


@dataclass(frozen=True)
class Condition:
    """A condition under which a command runs.

    Attributes:
        shell: shell code that runs the command in "$@".
        changes: environment variables to set, or to remove if None.
        reader_gone: whether the reader of its output has left.
        stranger: whether a user without rights runs it.
        status: exit status of a command that writes; None for the usual one.
        also: another accepted status.
        expected_text: text that the error message must contain.
    """

    shell: str = 'exec "$@"'
    changes: Mapping[str, str | None] = field(default_factory=dict)
    reader_gone: bool = False
    stranger: bool = False
    status: int | None = None
    also: int | None = None
    expected_text: str = ""


NORMAL = Condition()
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
CONDITIONS = {
    "nobody reads on": Condition(reader_gone=True, status=UNREAD),
    "standard output closed": Condition(
        'exec "$@" >&-', status=FAILED, expected_text="output is closed"
    ),
    "standard error closed": Condition('exec "$@" 2>&-'),
    "disk full": Condition('exec "$@" >/dev/full', status=FAILED, expected_text="no space left"),
    "C locale": Condition(changes=ASCII),
    "no home, unknown user": Condition(
        changes={"HOME": None, "DPMC_HOME": None}, stranger=True, also=FAILED
    ),
    "read-only folder": Condition(stranger=True, also=FAILED),
    "umask 077": Condition('umask 077; exec "$@"'),
}


@dataclass(frozen=True)
class CommandResult:
    """The result of a command: exit status, standard output and error, and seconds."""

    status: int
    out: str
    err: str
    seconds: float

    def list_faults(self, expected: set[int], expected_text: str = "") -> list[str]:
        """Return what is wrong with the result."""
        last_line = self.err.strip().rpartition("\n")[2]
        messages = [w for w in ("Traceback", "Exception ignored") if w in self.out + self.err]
        if self.status not in expected:
            messages.append(f"status {self.status}, not {' or '.join(map(str, sorted(expected)))}")
        elif self.status in (FAILED, USAGE) and expected_text and expected_text not in self.err:
            messages.append(f"it does not say '{expected_text}'")
        return [f"{fault}: {last_line[:200]}" for fault in messages]


def write_ratings(folder: Path) -> None:
    """Write the file of ratings that the commands read."""
    names = ("\u00e9", "\u738b", "u")
    rows = [
        f"{names[u % 3]}{u},i{i},{1 + (u * i) % 5}"
        for u in range(12)
        for i in range(8)
        if (u + i) % 3
    ]
    (folder / FILE).write_text("\n".join(["user,item,rating", *rows]) + "\n", encoding="utf-8")


def write_inputs(folder: Path, run: Sequence[str] = (sys.executable, "-m", "dpmc_lab")) -> None:
    """Write what the commands use: a file of ratings, a release of it and a store."""
    write_ratings(folder)
    sweep = [*run, "sweep", *ARGUMENTS[("sweep",)], "--store", "rows.sqlite"]
    for command in ([*run, "release", *ARGUMENTS[("release",)]], sweep):
        subprocess.run(
            command, cwd=folder, check=True, capture_output=True, env=build_environment(folder)
        )
    (folder / "out.npz").rename(folder / RELEASED)


def build_environment(folder: Path, condition: Condition = NORMAL) -> dict[str, str]:
    """Return the environment variables of a command."""
    fixed = {"DPMC_HOME": str(folder / "home"), "PYTHONUNBUFFERED": None}
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **fixed, **condition.changes}
    return {name: value for name, value in variables.items() if value is not None}


@contextlib.contextmanager
def copy_folder(pattern: Path) -> Iterator[Path]:
    """Make a new folder with the same files."""
    with tempfile.TemporaryDirectory(prefix="dpmc-") as name:
        folder = Path(name, "work")
        shutil.copytree(pattern, folder)
        Path(name).chmod(0o755)
        yield folder


def run_command(
    command: Sequence[str], pattern: Path, condition: Condition = NORMAL, after: float | None = None
) -> CommandResult:
    """Run a command under a condition; `after` is when to interrupt it, in seconds."""
    with copy_folder(pattern) as folder, contextlib.ExitStack() as stack:
        prefix = STRANGER if condition.stranger and os.geteuid() == 0 else ()
        if condition.stranger:
            folder.chmod(0o555)
        out: int = subprocess.PIPE
        if condition.reader_gone:
            read_end, out = os.pipe()
            os.close(read_end)
            stack.callback(os.close, out)
        start = time.perf_counter()
        process = subprocess.Popen(
            [*prefix, "sh", "-c", condition.shell, "sh", *command],
            cwd=folder,
            env=build_environment(folder, condition),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
        )
        if after is not None:
            time.sleep(after)
            process.send_signal(signal.SIGINT)
        output, err = process.communicate(timeout=300)
        folder.chmod(0o755)
        seconds = time.perf_counter() - start
    code = process.returncode
    return CommandResult(
        code if code >= 0 else 128 - code,  # as a shell reports a signal
        (output or b"").decode("utf-8", "replace"),
        err.decode("utf-8", "replace"),
        seconds,
    )


def check_under_condition(
    command: Sequence[str], pattern: Path, condition: Condition, plain: CommandResult
) -> list[str]:
    """Return what is wrong with a command under a condition."""
    if condition.stranger and os.geteuid() == 0 and shutil.which("setpriv") is None:
        return []
    wrote = plain.out or "closed" in condition.expected_text
    expected = {condition.status if condition.status is not None and wrote else plain.status}
    if condition.also is not None:
        expected.add(condition.also)
    return run_command(command, pattern, condition).list_faults(
        expected, condition.expected_text if wrote else ""
    )


def check_command(
    command: tuple[str, ...], dpmc: Path, pattern: Path
) -> tuple[CommandResult, list[tuple[str, list[str]]]]:
    """Run a command as it is, under each condition and interrupted.

    Args:
        command: its words.
        dpmc: the program.
        pattern: a folder with the files it uses, which is copied for each run.

    Returns:
        Its result as it is, and a pair for each run: the row of the table, and what was wrong.
    """
    command_line = [str(dpmc), *command, *ARGUMENTS[command]]
    plain = run_command(command_line, pattern)
    outcomes = [("as it is", plain.list_faults({SUCCEEDED, FAILED}))]
    for name, condition in CONDITIONS.items():
        outcomes.append((name, check_under_condition(command_line, pattern, condition, plain)))
    for k in range(1, MOMENTS + 1):
        result = run_command(command_line, pattern, after=k / MOMENTS * plain.seconds)
        outcomes.append(("Ctrl-C", result.list_faults({plain.status, INTERRUPTED})))
    return plain, outcomes


# Absurd values ------------------------------------------------------------------------------------

NUMBERS = ("1e400", "-inf", "nan", "-1", "9" * 5000, "1e300", "0x10", "\u00b2", "")
OPTION_PREFIXES = {
    "--set": [f"{s.name}=" for s in list_settings(registry.get_mechanism("input-flip"))],
    "--prepare": [
        *("binarise=", "implicit=", "top-items=", "cap=", "cap=2:", "rescale=", "rescale=1:"),
    ],
    "--read": [f"{name}=" for name in ReadOptions.__dataclass_fields__],
    "--range": ["", "1:", "-", "0:"],
    "--epsilons": ["", "1:", "1:2:", "0.1,"],
    "--seeds": ["", "1:", "1,"],
    "--often": [""],
    "--repeat": [""],
    "--keep": [""],
    "--reference": ["", "1,"],
}


def list_commands(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """List every command with its parser; a command with actions is replaced by these."""
    inner = [a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not inner:
        yield path, parser
    for name, child in inner[0].items() if inner else ():
        yield from list_commands(child, (*path, name))


@cache
def list_parsers() -> dict[tuple[str, ...], argparse.ArgumentParser]:
    """List the parser of every command."""
    return dict(list_commands(build_parser()))


def list_absurd_values(command: tuple[str, ...]) -> list[tuple[str, str]]:
    """List (option and text before the number, number) for all options that take a number."""
    option_texts = []
    for action in list_parsers()[command]._actions:
        if not action.option_strings or isinstance(action, argparse._StoreTrueAction):
            continue
        option = action.option_strings[-1]
        if getattr(action.type, "__name__", "") in ("number", "integer"):
            option_texts.append(f"{option}=")
        option_texts += [f"{option}={before}" for before in OPTION_PREFIXES.get(option, ())]
    return [(option, number) for option in option_texts for number in NUMBERS]


def check_refusal(command: tuple[str, ...], option: str, number: str) -> list[str]:
    """Return what is wrong with how a command, run in this process and folder, handles a value."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([*command, *ARGUMENTS[command], f"{option}{number}"])
    last = err.getvalue().strip().rpartition("\n")[2]
    fine = status == SUCCEEDED or (status in (FAILED, USAGE) and last.startswith("dpmc"))
    return [] if fine and len(last) < 500 else [f"{option}{number[:20]}: status {status}, {last}"]


# The table ----------------------------------------------------------------------------------------


def install_wheel(folder: Path) -> Path:
    """Install the wheel in a fresh environment with the packages it needs; return its `dpmc`."""
    source = folder / "source"
    for name in ("dpmc_core", "dpmc_data", "dpmc_lab", "sample_data", "pages", ".streamlit"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("app.py", "setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    install_command = [*pip, "--python", python, "install", "--no-deps", "--no-index", wheel]
    subprocess.run(install_command, check=True, capture_output=True)
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (site / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "venv" / "bin" / "dpmc"


def print_table() -> None:
    """Run all checks and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="commands that have it")
    parser.add_argument("--installed", metavar="DPMC", type=Path, help="this one, as it is")
    args = parser.parse_args()
    os.environ.pop("PYTHONPATH", None)  # so that only the installed program is found
    chosen = [command for command in ARGUMENTS if args.only in " ".join(command)]
    rows = {name: [0, 0] for name in ("as it is", *CONDITIONS, "Ctrl-C", "absurd values")}

    def count(name: str, command: Sequence[str], faults: Sequence[str]) -> None:
        """Count a run in the row of a condition, and print its faults."""
        rows[name][0] += 1
        rows[name][1] += bool(faults)
        for fault in faults:
            print(f"  WRONG: dpmc {' '.join(command)}, {name}: {fault}", flush=True)

    with tempfile.TemporaryDirectory(prefix="dpmc-") as home:
        Path(home).chmod(0o755)
        dpmc = args.installed or install_wheel(Path(home))
        pattern = Path(home, "pattern")
        pattern.mkdir()
        write_inputs(pattern, [str(dpmc)])
        # Absurd values come after the processes: what they print goes through this one's outputs.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            checks = pool.map(lambda command: check_command(command, dpmc, pattern), chosen)
            for command, (plain, outcomes) in zip(chosen, checks, strict=True):
                for name, faults in outcomes:
                    count(name, command, faults)
                print(
                    f"{' '.join(command):16} {plain.seconds:5.1f} s, status {plain.status}",
                    flush=True,
                )
        for command in chosen:
            with copy_folder(pattern) as folder, contextlib.chdir(folder):
                os.environ["DPMC_HOME"] = str(folder / "home")
                for option, number in list_absurd_values(command):
                    count("absurd values", command, check_refusal(command, option, number))
    print(f"\n{'':24}{'runs':>6} {'wrong':>6}")
    for name, (runs, wrong) in rows.items():
        print(f"{name:24}{runs:6,} {wrong:6,}")
    sys.exit(any(wrong for _, wrong in rows.values()))


if __name__ == "__main__":
    print_table()
