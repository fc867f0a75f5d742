"""Notebooks without Jupyter: their cells run in order, and what they print.

python -m tests.notebooks docs/first-steps.ipynb   # writes what the cells print into the file
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Each cell's own output, one JSON list at the end: the child's standard output.
_RUN = """
import contextlib, io, json, sys
space = {"__name__": "__main__"}
printed = []
for number, source in enumerate(json.load(sys.stdin), start=1):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(source, f"cell {number}", "exec"), space)
    printed.append(out.getvalue())
json.dump(printed, sys.stdout)
"""


def read_notebook(path):
    return json.loads(Path(path).read_text(encoding="utf-8"))


def list_code_cells(book):
    """The cells with code."""
    return [cell for cell in book["cells"] if cell["cell_type"] == "code"]


def run_notebook(book):
    """What each cell with code prints, in a fresh process that must print nothing else."""
    sources = ["".join(cell["source"]) for cell in list_code_cells(book)]
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", _RUN],
        input=json.dumps(sources),
        cwd=ROOT,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # many threads wait for each other
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert not result.stderr
    return json.loads(result.stdout)


def read_stored_output(cell):
    """What a cell printed when its output was stored."""
    return "".join("".join(out["text"]) for out in cell["outputs"])


def store_outputs(path):
    """Run a notebook and keep what its cells print in it."""
    book = read_notebook(path)
    for number, (cell, text) in enumerate(
        zip(list_code_cells(book), run_notebook(book), strict=True), start=1
    ):
        lines = text.splitlines(keepends=True)
        cell["execution_count"] = number
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] * bool(text)
    text = json.dumps(book, indent=1, ensure_ascii=False)
    Path(path).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    store_outputs(sys.argv[1])
