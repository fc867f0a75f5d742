"""Every script of benchmarks/ is a program of today, and `make slow` goes on where it stopped."""

import os
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py"))
# Imports a script, looks up every name that it takes of another module, and starts it.
CHECK = """
import ast, importlib, runpy, sys, types

failed = []
for name in sys.argv[1:]:
    try:
        module = importlib.import_module(name)
        for node in ast.walk(ast.parse(open(module.__file__, encoding="utf-8").read())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                owner = getattr(module, node.value.id, None)
                if isinstance(owner, types.ModuleType) and not hasattr(owner, node.attr):
                    failed.append(f"{name}: {node.value.id}.{node.attr}")
        sys.argv = [module.__file__, "--help"]
        runpy.run_path(module.__file__, run_name="__main__")
    except SystemExit as end:
        if end.code:
            failed.append(f"{name}: ends with {end.code}")
    except Exception as error:
        failed.append(f"{name}: {type(error).__name__}: {error}")
sys.exit("\\n".join(failed) or 0)
"""


@pytest.mark.slow
def test_every_script_starts_and_names_what_is_there():
    for needed in ("playwright", "opendp", "implicit"):
        pytest.importorskip(needed)
    result = subprocess.run(
        [sys.executable, "-c", CHECK, *SCRIPTS],
        cwd=FOLDER.parent,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (FOLDER, FOLDER.parent)))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("usage:") == len(SCRIPTS) - 1  # one only holds data for others


def test_every_test_file_is_in_one_group_of_make_slow():
    makefile = (FOLDER.parent / "Makefile").read_text(encoding="utf-8")
    groups = makefile.partition("SLOW_GROUPS := ")[2].partition("\n\n")[0].replace("\\", "").split()
    tests = FOLDER.parent / "tests"
    names = {path.relative_to(tests).as_posix() for path in tests.rglob("test_*.py")}
    for name in names - {"faults/test_mutants.py"}:  # which is quick
        assert sum(fnmatchcase(name, f"{group}*") for group in groups) == 1, name


@pytest.fixture
def checkout(tmp_path):
    """A folder under git, all committed."""
    (tmp_path / ".gitignore").write_text(".slow/\n")
    options = ["-c", "user.name=x", "-c", "user.email=x@x.example", "-c", "commit.gpgsign=false"]
    for arguments in (("init", "-q"), ("add", "-A"), (*options, "commit", "-qm", "x")):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    return tmp_path


def test_a_step_that_has_passed_on_this_tree_is_not_run_again(checkout):
    """A failed one is, and so is every step with other words or while files differ."""

    def step(*arguments):
        step = FOLDER.parent / ".ci" / "step"
        result = subprocess.run(
            [step, "one", *arguments], cwd=checkout, capture_output=True, text=True
        )
        return result.returncode, result.stdout

    def ran(word):
        assert (checkout / ".slow" / "one.log").read_text() == f"{word}\n"
        return 0, f"{word}\n"

    assert step("sh", "-c", "echo no; exit 3") == (1, "no\n")
    assert step("echo", "a") == ran("a")
    assert step("echo", "a") == (0, "    passed on this tree before: .slow/one.log\n")
    assert step("echo", "b") == ran("b")
    (checkout / "new").write_text("")
    assert step("echo", "b") == step("echo", "b") == ran("b")
