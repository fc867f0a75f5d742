"""Every script of benchmarks/ is a program of today: it starts, and what it names is there."""

import os
import subprocess
import sys
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


def test_every_script_starts_and_names_what_is_there():
    for needed in ("playwright", "opendp", "implicit"):
        pytest.importorskip(needed)
    done = subprocess.run(
        [sys.executable, "-c", CHECK, *SCRIPTS],
        cwd=FOLDER.parent,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (FOLDER, FOLDER.parent)))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("usage:") == len(SCRIPTS) - 1  # one only holds data for others
