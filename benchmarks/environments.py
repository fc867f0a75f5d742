"""Test the app with its lowest and highest dependencies, on the Pythons available.

    python benchmarks/environments.py [PYTHON ...]

PYTHON are commands (default: those of python3.11 to python3.14 that exist). The highest version of
each range in `pyproject.toml` is installed for each of them, and the lowest for the first one, each
in an environment of its own, where a set of tests runs. The script ends with status 1 if one fails.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMES = [f"python3.{minor}" for minor in range(11, 15)]
TESTS = [  # these need only the packages of the app
    *("tests/core/test_metrics.py", "tests/lab/test_store.py", "tests/lab/test_shipped.py"),
    *(
        "tests/pages/test_page_noise.py",
        "tests/pages/test_page_guarantees.py",
        "tests/pages/test_page_data.py",
    ),
    *(  # what uvicorn and Streamlit must go on calling
        "tests/pages/test_connections.py",
        "tests/pages/test_door.py::test_the_apps_own_server_closes_the_oldest_of_too_many_unfinished_headers",
    ),
]


def list_requirements(*, lowest: bool) -> list[str]:
    """List the requirements of the core and the app, as ranges or at their lower ends."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    ranges = project["dependencies"] + project["optional-dependencies"]["app"]
    return [re.sub(r">=([\d.]+).*", r"==\1", text) if lowest else text for text in ranges]


def get_version(python: str) -> str:
    """Return the version of an interpreter; "" if there is none."""
    code = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    result = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else ""


def test_environment(python: str, packages: list[str]) -> str:
    """Test one environment and return the outcome."""
    tests = (ROOT / "requirements.txt").read_text("utf-8").split("# tests\n")[1]
    pinned = [line.split()[0] for line in tests.splitlines()]
    with tempfile.TemporaryDirectory(prefix="dpmc-environment-") as name:
        interpreter = Path(name, "bin", "python")
        steps = {
            "no environment": [python, "-m", "venv", name],
            "cannot be installed": [
                *(
                    str(interpreter),
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                ),
                *(*packages, *pinned),
            ],
            "tests fail": [
                str(interpreter),
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                *TESTS,
            ],
        }
        for failure, command in steps.items():
            result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            if result.returncode:
                sys.stderr.write(f"{result.stdout}{result.stderr}"[-4000:])
                return failure
        return result.stdout.strip().splitlines()[-1].strip("= ")


def main() -> int:
    """Test all environments, print a line for each, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("python", nargs="*", help="commands (python3.11 to python3.14)")
    requested = parser.parse_args().python
    versions = {python: get_version(python) for python in requested or filter(shutil.which, NAMES)}
    missing = [name for name in NAMES if not requested and not versions.get(name)]
    if missing:
        print(f"not here: {', '.join(missing)}")
    pythons = [python for python, version_text in versions.items() if version_text]
    rows = [(python, "highest") for python in pythons]
    rows[:0] = [(python, "lowest") for python in pythons[:1]]
    bad = not rows
    for python, end in rows:
        start = time.perf_counter()
        outcome = test_environment(python, list_requirements(lowest=end == "lowest"))
        bad |= "passed" not in outcome
        seconds = time.perf_counter() - start
        print(f"Python {versions[python]:8} {end:8} {seconds:5.0f} s  {outcome}", flush=True)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
