"""What README.md and docs/ show works as shown."""

import pkgutil
import re
import shlex
from pathlib import Path

import pytest

from dpmc_core import registry
from dpmc_lab.cli import build_parser

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
COMMANDS = [
    command
    for text in (TEXT, *DOCS.values())
    for command in re.findall(r"^dpmc .*?(?=\s*#|$)", text, flags=re.MULTILINE)
]
LIBRARY = TEXT.partition("## Library")[2].partition("\n## ")[0]
EXAMPLE = "".join(re.findall(r"```python\n(.*?)```", LIBRARY, flags=re.DOTALL))


def test_there_are_examples():
    assert len(COMMANDS) >= 5


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_understood(command):
    assert callable(build_parser().parse_args(shlex.split(command)[1:]).command)


def test_the_library_example_runs(capsys):
    exec(compile(EXAMPLE, "README.md", "exec"), {})
    assert "accuracy" in capsys.readouterr().out


def test_every_library_name_exists():
    names = re.findall(r"`(dpmc_core[\w.]*\.\w+)`", LIBRARY)
    assert "dpmc_core.data.read_pair" in names
    for name in names:
        assert pkgutil.resolve_name(name)


def test_every_make_target_named_exists():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"make (\w+)", TEXT))
    assert {"app", "test"} <= targets
    assert all(f"\n{target}:" in makefile for target in targets)


def test_every_pinned_requirement_is_explained():
    pins = re.findall(r"^([a-z-]+)==", (ROOT / "requirements.txt").read_text(), flags=re.MULTILINE)
    assert pins
    assert all(pin in TEXT for pin in pins)


def test_every_place_in_the_layout_exists():
    table = TEXT.partition("## Layout")[2].partition("\n## ")[0]
    places = [
        p
        for row in table.splitlines()[4:]
        for p in re.findall(r"`([\w/.]+)`", row.split("|")[1] if "|" in row else "")
    ]
    assert "app.py" in places
    for place in places:
        assert (ROOT / place).exists() or (ROOT / "dpmc_core" / place).exists(), place


def test_every_private_mechanism_is_in_the_table():
    table = TEXT.partition("## Mechanisms")[2].partition("\n## ")[0]
    ids = re.findall(r"^\| `([\w-]+)` \|", table, flags=re.MULTILINE)
    private = {id for id, cls in registry.MECHANISMS.items() if registry.adds_noise(cls)}
    assert len(ids) == len(set(ids))
    assert set(ids) == private


def test_what_each_mechanism_predicts_is_in_the_table():
    for id, task in re.findall(r"^\| `([\w-]+)` \| (\w+) \|", TEXT, flags=re.MULTILINE):
        assert registry.get(id).task.value == task


def test_every_picture_and_file_linked_exists():
    links = re.findall(r"\]\((?!https?:)([^)]+)\)", TEXT)
    assert "docs/what-if.png" in links
    assert all((ROOT / link).is_file() for link in links)
    for path, text in DOCS.items():
        assert str(path.relative_to(ROOT)) in links
        for link in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
            assert (path.parent / link).is_file(), link
