"""What README.md and docs/ show works as shown."""

import os
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dpmc_core import registry
from dpmc_lab.cli import build_parser

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
MECHANISMS = DOCS[ROOT / "docs" / "mechanisms.md"]
HOW_TOS = [ROOT / "docs" / f"{name}.md" for name in ("own-data", "release", "cluster")]
LINK = r"\]\((?!https?:)([^)#]+)[^)]*\)"  # to a file, without its anchor
COMMANDS = [
    command
    for text in (TEXT, *DOCS.values())
    for command in re.findall(r"^dpmc .*?(?=\s*#|$)", text, flags=re.MULTILINE)
]
LIBRARY = TEXT.partition("## Ten lines of library")[2].partition("\n## ")[0]
EXAMPLE = "".join(re.findall(r"```python\n(.*?)```", LIBRARY, flags=re.DOTALL))


def test_commands_are_understood():
    assert len(COMMANDS) >= 5
    for command in COMMANDS:
        assert callable(build_parser().parse_args(shlex.split(command)[1:]).command), command


def test_the_library_example_runs(capsys):
    exec(compile(EXAMPLE, "README.md", "exec"), {})
    assert "accuracy" in capsys.readouterr().out


def test_every_library_name_exists():
    names = re.findall(r"`(dpmc_(?:core|data)[\w.]*\.\w+)`", LIBRARY)
    names += re.findall(r"\b(dpmc_data\.\w+)\(", LIBRARY)
    names += [f"dpmc_core.{name}" for name in re.findall(r"\bdpmc\.([\w.]+)\(", LIBRARY)]
    assert {"dpmc_data.load", "dpmc_data.read_pair", "dpmc_core.Ratings.from_frame"} <= {*names}
    for name in names:
        assert pkgutil.resolve_name(name)


def test_every_make_target_named_exists():
    makefile = (ROOT / "Makefile").read_text()
    texts = TEXT, (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), *DOCS.values()
    targets = set(re.findall(r"`make (\w+)", "".join(texts)))
    assert {"app", "test", "docs"} <= targets
    assert all(f"\n{target}:" in makefile for target in targets)


def test_the_readme_is_short():
    assert len(TEXT.splitlines()) <= 120
    assert (ROOT / "docs" / "what-if.webp").stat().st_size <= 2 * 2**20
    assert (ROOT / "docs" / "what-if.html").stat().st_size <= 3 * 2**20


def test_every_pinned_requirement_is_explained():
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert pins
    assert all(re.fullmatch(r"[a-z-]+==[\d.]+ +# .+", pin) for pin in pins)


def test_every_file_that_the_architecture_names_exists():
    text = DOCS[ROOT / "docs" / "architecture.md"]
    names = re.findall(r"`([\w./-]+/|[\w./-]+\.(?:py|md|toml|json|txt))`", text)
    assert "app.py" in names
    for name in names:
        assert (ROOT / name).exists(), name


def test_every_private_mechanism_is_in_the_table_with_what_it_predicts():
    rows = re.findall(r"^\| `([\w-]+)` \| (\w+) \|", MECHANISMS, flags=re.MULTILINE)
    private = [cls for cls in registry.MECHANISMS.values() if registry.adds_noise(cls)]
    assert sorted(rows) == sorted((cls.id, cls.task.value) for cls in private)


def test_every_picture_and_file_linked_exists():
    index = ROOT / "docs" / "index.md"
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *DOCS):
        links = re.findall(LINK, path.read_text(encoding="utf-8"))
        assert links or path in DOCS
        for link in links:
            assert (path.parent / link).is_file(), f"{path.name}: {link}"
    assert {path.name for path in DOCS} <= {*re.findall(LINK, DOCS[index]), "index.md"}
    assert "docs/index.md" in re.findall(LINK, TEXT)


def test_a_how_to_is_short():
    for path in HOW_TOS:
        assert len(DOCS[path].splitlines()) <= 60, path.name


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("path", HOW_TOS, ids=lambda path: path.stem)
def test_a_how_to_runs_in_its_order(path, tmp_path):
    """Its Python and its commands, in one empty folder."""
    blocks = re.findall(r"```(python)?\n(.*?)```", DOCS[path], flags=re.DOTALL)
    lines = [line for kind, block in blocks if not kind for line in block.splitlines()]
    assert any(line.startswith("dpmc") for line in lines)
    environment = {"DPMC_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    for kind, block in blocks:
        program = [[sys.executable, "-c", block]]
        if not kind:
            program = [
                [sys.executable, "-m", "dpmc_lab", *shlex.split(line)[1:]]
                for line in block.splitlines()
                if line.startswith("dpmc") and "--cluster" not in line  # tested with the cluster
            ]
        for argv in program:
            subprocess.run(argv, cwd=tmp_path, env=os.environ | environment, check=True)
