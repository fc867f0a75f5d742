"""Every command of `dpmc` under whatever befalls a command line: a table, and no traceback.

    python benchmarks/command_line.py [--only TEXT] [--installed DPMC]

Builds the wheel, installs it into a fresh environment and runs each command there, each time in a
new folder: as it is, under every one of WAYS, interrupted at eight moments, and with values that
nobody would give. Prints how many runs there were of each and what was wrong with one; ends with 1
where something was.
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
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from dpmc_core import registry
from dpmc_core.data import ReadOptions
from dpmc_core.settings import settings_of
from dpmc_lab.cli import build_parser, main

ROOT = Path(__file__).resolve().parent.parent
FILE, RELEASED = "caf\u00e9.csv", "items.npz"
RANGE = ("--range", "1:5")
RUN: dict[tuple[str, ...], list[str]] = {  # each command with what makes it short
    ("app",): ["--address", "203.0.113.1"],  # an address of no machine: the app does not start
    ("list",): [],
    ("data", "list"): [],
    ("data", "get"): ["no-such-set"],
    ("data", "describe"): [FILE, *RANGE],
    ("data", "check"): [FILE, *RANGE],
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
DONE, FAILED, USAGE, INTERRUPTED, UNREAD = 0, 1, 2, 130, 141
MOMENTS = 8  # of a command's time, at which it is interrupted
# A user whom the system does not know, who may read everything and write nothing.
STRANGER = (
    *("setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups"),
    *("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"),
)


@dataclass(frozen=True)
class Way:
    """What befalls a command. shell: what it is run as, the command in "$@"; gone: who would read
    has left; status: of a command that writes, None for what it is otherwise; also: another that it
    may have; said: what it must say then."""

    shell: str = 'exec "$@"'
    changes: Mapping[str, str | None] = field(default_factory=dict)
    gone: bool = False
    stranger: bool = False
    status: int | None = None
    also: int | None = None
    said: str = ""


PLAIN = Way()
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
WAYS = {
    "nobody reads on": Way(gone=True, status=UNREAD),
    "standard output closed": Way('exec "$@" >&-', status=FAILED, said="output is closed"),
    "standard error closed": Way('exec "$@" 2>&-'),
    "disk full": Way('exec "$@" >/dev/full', status=FAILED, said="no space left"),
    "C locale": Way(changes=ASCII),
    "no home, unknown user": Way(
        changes={"HOME": None, "DPMC_HOME": None}, stranger=True, also=FAILED
    ),
    "read-only folder": Way(stranger=True, also=FAILED),
    "umask 077": Way('umask 077; exec "$@"'),
}


@dataclass(frozen=True)
class Done:
    """How a run ended, and after how many seconds."""

    status: int
    out: str
    err: str
    seconds: float

    def faults(self, wanted: set[int], said: str = "") -> list[str]:
        """What is wrong with it."""
        told = self.err.strip().rpartition("\n")[2]
        messages = [w for w in ("Traceback", "Exception ignored") if w in self.out + self.err]
        if self.status not in wanted:
            messages.append(f"status {self.status}, not {' or '.join(map(str, sorted(wanted)))}")
        elif self.status in (FAILED, USAGE) and said and said not in self.err:
            messages.append(f"it does not say '{said}'")
        return [f"{fault}: {told[:200]}" for fault in messages]


def prepare(folder: Path, run: Sequence[str] = (sys.executable, "-m", "dpmc_lab")) -> None:
    """What the commands work on: a file of ratings, a release of it and a store."""
    names = ("\u00e9", "\u738b", "u")
    rows = [
        f"{names[u % 3]}{u},i{i},{1 + (u * i) % 5}"
        for u in range(12)
        for i in range(8)
        if (u + i) % 3
    ]
    (folder / FILE).write_text("\n".join(["user,item,rating", *rows]) + "\n", encoding="utf-8")
    sweep = [*run, "sweep", *RUN[("sweep",)], "--store", "rows.sqlite"]
    for command in ([*run, "release", *RUN[("release",)]], sweep):
        subprocess.run(
            command, cwd=folder, check=True, capture_output=True, env=environment(folder)
        )
    (folder / "out.npz").rename(folder / RELEASED)


def environment(folder: Path, condition: Way = PLAIN) -> dict[str, str]:
    fixed = {"DPMC_HOME": str(folder / "home"), "PYTHONUNBUFFERED": None}
    variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **fixed, **condition.changes}
    return {name: value for name, value in variables.items() if value is not None}


@contextlib.contextmanager
def somewhere(pattern: Path) -> Iterator[Path]:
    """A new folder that holds the same files."""
    with tempfile.TemporaryDirectory(prefix="dpmc-") as name:
        folder = Path(name, "work")
        shutil.copytree(pattern, folder)
        Path(name).chmod(0o755)
        yield folder


def run(
    command: Sequence[str], pattern: Path, condition: Way = PLAIN, after: float | None = None
) -> Done:
    """A command under what befalls it; after: seconds until it is interrupted."""
    with somewhere(pattern) as folder, contextlib.ExitStack() as stack:
        prefix = STRANGER if condition.stranger and os.geteuid() == 0 else ()
        if condition.stranger:
            folder.chmod(0o555)
        out: int = subprocess.PIPE
        if condition.gone:
            read_end, out = os.pipe()
            os.close(read_end)
            stack.callback(os.close, out)
        start = time.perf_counter()
        process = subprocess.Popen(
            [*prefix, "sh", "-c", condition.shell, "sh", *command],
            cwd=folder,
            env=environment(folder, condition),
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
    return Done(
        code if code >= 0 else 128 - code,  # as a shell tells of a signal
        (output or b"").decode("utf-8", "replace"),
        err.decode("utf-8", "replace"),
        seconds,
    )


def befallen(command: Sequence[str], pattern: Path, condition: Way, plain: Done) -> list[str]:
    """What is wrong with a command under what befalls it."""
    if condition.stranger and os.geteuid() == 0 and shutil.which("setpriv") is None:
        return []
    wrote = plain.out or "closed" in condition.said
    expected = {condition.status if condition.status is not None and wrote else plain.status}
    if condition.also is not None:
        expected.add(condition.also)
    return run(command, pattern, condition).faults(expected, condition.said if wrote else "")


# Values that nobody would give --------------------------------------------------------------------

NUMBERS = ("1e400", "-inf", "nan", "-1", "9" * 5000, "1e300", "0x10", "\u00b2", "")
WORDS = {
    "--set": [f"{s.name}=" for s in settings_of(registry.get("input-flip"))],
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
}


def commands(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Every command with its parser; one with actions of its own is these."""
    inner = [a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not inner:
        yield path, parser
    for name, child in inner[0].items() if inner else ():
        yield from commands(child, (*path, name))


@cache
def parsers() -> dict[tuple[str, ...], argparse.ArgumentParser]:
    """Every command's parser."""
    return dict(commands(build_parser()))


def absurd(command: tuple[str, ...]) -> list[tuple[str, str]]:
    """(option and what goes before the number, number) for all options that take one."""
    option_texts = []
    for action in parsers()[command]._actions:
        if not action.option_strings or isinstance(action, argparse._StoreTrueAction):
            continue
        option = action.option_strings[-1]
        if getattr(action.type, "__name__", "") in ("number", "integer"):
            option_texts.append(f"{option}=")
        option_texts += [f"{option}={before}" for before in WORDS.get(option, ())]
    return [(option, number) for option in option_texts for number in NUMBERS]


def refused(command: tuple[str, ...], option: str, number: str) -> list[str]:
    """What is wrong with how a command in this process and folder takes a value."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([*command, *RUN[command], f"{option}{number}"])
    last = err.getvalue().strip().rpartition("\n")[2]
    fine = status == DONE or (status in (FAILED, USAGE) and last.startswith("dpmc"))
    return [] if fine and len(last) < 500 else [f"{option}{number[:20]}: status {status}, {last}"]


# The table ----------------------------------------------------------------------------------------


def install(folder: Path) -> Path:
    """The wheel in a fresh environment beside the packages it needs; its `dpmc`."""
    source = folder / "source"
    for name in ("dpmc_core", "dpmc_lab", "sample_data", "pages", ".streamlit"):
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


def table() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="commands that have it")
    parser.add_argument("--installed", metavar="DPMC", type=Path, help="this one, as it is")
    args = parser.parse_args()
    os.environ.pop("PYTHONPATH", None)  # what is installed, and nothing else
    chosen = [command for command in RUN if args.only in " ".join(command)]
    rows = {name: [0, 0] for name in ("as it is", *WAYS, "Ctrl-C", "absurd values")}

    def count(name: str, command: Sequence[str], faults: Sequence[str]) -> None:
        rows[name][0] += 1
        rows[name][1] += bool(faults)
        for fault in faults:
            print(f"  WRONG: dpmc {' '.join(command)}, {name}: {fault}", flush=True)

    with tempfile.TemporaryDirectory(prefix="dpmc-") as name:
        Path(name).chmod(0o755)
        dpmc = args.installed or install(Path(name))
        pattern = Path(name, "pattern")
        pattern.mkdir()
        prepare(pattern, [str(dpmc)])
        for command in chosen:
            command_line = [str(dpmc), *command, *RUN[command]]
            plain = run(command_line, pattern)
            count("as it is", command, plain.faults({DONE, FAILED}))
            for condition in WAYS:
                count(condition, command, befallen(command_line, pattern, WAYS[condition], plain))
            for k in range(1, MOMENTS + 1):
                result = run(command_line, pattern, after=k / MOMENTS * plain.seconds)
                count("Ctrl-C", command, result.faults({plain.status, INTERRUPTED}))
            with somewhere(pattern) as folder, contextlib.chdir(folder):
                os.environ["DPMC_HOME"] = str(folder / "home")
                for option, number in absurd(command):
                    count("absurd values", command, refused(command, option, number))
            print(
                f"{' '.join(command):16} {plain.seconds:5.1f} s, status {plain.status}", flush=True
            )
    print(f"\n{'':24}{'runs':>6} {'wrong':>6}")
    for name, (runs, wrong) in rows.items():
        print(f"{name:24}{runs:6,} {wrong:6,}")
    sys.exit(any(wrong for _, wrong in rows.values()))


if __name__ == "__main__":
    table()
