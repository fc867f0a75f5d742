"""Options that no person would give: one sentence and a failure, never a traceback."""

import argparse

import pytest

from dpmc_core import registry
from dpmc_core.cli import build_parser, main
from dpmc_core.data import ReadOptions
from dpmc_core.settings import settings_of

NUMBERS = ("1e400", "-inf", "nan", "-1", "9" * 5000, "1e300", "0x10", "\u00b2", "")
FILE = "ratings.csv"
RUN = {
    ("data", "describe"): [FILE],
    ("recommend",): [FILE],
    ("answer",): [FILE, "--no-curve", "--seeds", "1"],
    ("fit",): [FILE, "input-flip"],
    ("release",): [FILE, "input-flip", "--out", "out"],
    ("guarantees",): [],
    ("protocol",): ["2", FILE],
    ("sweep",): ["--data", FILE, "--mechanisms", "input-flip", "--epsilons", "1", "--seeds", "1"],
    ("choose",): [FILE, "--mechanisms", "input-flip", "--unit", "rating", "--runs", "1"],
    ("ledger",): [FILE, "--repeat", "12", "--mechanism", "input-flip"],
    ("store", "prune"): ["--dry-run"],
}
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


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    rows = [f"u{u},i{i},{1 + (u * i) % 5}" for u in range(12) for i in range(8) if (u + i) % 3]
    (tmp_path / FILE).write_text("\n".join(["user,item,rating", *rows]) + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPMC_HOME", str(tmp_path / "home"))


def parser_of(command):
    parser = build_parser()
    for word in command:
        choices = [a.choices for a in parser._actions if isinstance(a.choices, dict)]
        parser = choices[0][word]
    return parser


def asked(command):
    """Every option of a command that takes a number, with what goes before the number."""
    for action in parser_of(command)._actions:
        if not action.option_strings or isinstance(action, argparse._StoreTrueAction):
            continue
        option = action.option_strings[-1]
        if getattr(action.type, "__name__", "") in ("number", "integer"):
            yield option, ""
        yield from ((option, before) for before in WORDS.get(option, ()))


@pytest.mark.parametrize("command", RUN, ids=" ".join)
def test_absurd_numbers_are_refused_in_a_sentence(command, capsys):
    base = [*command, *RUN[command]]
    if FILE in base:
        base += ["--range", "1:5"]
    found = list(asked(command))
    assert found
    for option, before in found:
        for value in NUMBERS:
            status = main([*base, f"{option}={before}{value}"])
            said = capsys.readouterr().err
            assert status in (0, 1, 2), (option, before, value)
            last = said.strip().rpartition("\n")[2]
            assert status == 0 or last.startswith("dpmc"), (option, before, value, said)
            assert len(last) < 500, (option, before, value)


@pytest.mark.parametrize(
    "words",
    [
        "fit ratings.csv input-flip --range 1e400:2",
        "fit ratings.csv input-flip --range -1e300:1e300",
        "fit ratings.csv input-flip --range 1:5 --prepare cap=1e400",
        "fit ratings.csv input-flip --range 1:5 --read user=1e400",
        "guarantees --range 1:1e300",
        "sweep --data one-bit-lab --mechanisms input-flip --epsilons 1:inf:5",
        "sweep --data one-bit-lab --mechanisms input-flip --epsilons 1e-320:1e308:5",
        "sweep --data one-bit-lab --mechanisms input-flip --epsilons 1 --seeds 1:1e9",
        "sweep --data one-bit-lab --mechanisms input-flip --epsilons 1 --seeds 1:999999999",
    ],
)
def test_what_cannot_be_is_refused(words, capsys):
    assert main(words.split()) in (1, 2)
    assert "must be" in capsys.readouterr().err.strip().rpartition("\n")[2]
