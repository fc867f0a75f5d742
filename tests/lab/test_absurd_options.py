"""What befalls a command line: absurd values, lost readers, odd terminals; never a traceback.

The table is that of benchmarks/command_line.py, which goes through all of it.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.command_line import (
    ARGUMENTS,
    CONDITIONS,
    FAILED,
    FILE,
    RANGE,
    check_refusal,
    check_under_condition,
    list_absurd_values,
    list_parsers,
    run_command,
    write_inputs,
    write_ratings,
)
from dpmc_lab.cli import main

DPMC = (sys.executable, "-m", "dpmc_lab")
SHORT = [*DPMC, "data", "check", FILE, *RANGE]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    write_ratings(folder)
    return folder


@pytest.fixture(scope="module")
def outputs(files):
    """Also a release and a store, which take two commands to make."""
    pytest.importorskip("opendp")
    write_inputs(files, DPMC)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch, files):
    for file in files.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPMC_HOME", str(tmp_path / "home"))


def test_the_table_holds_every_command():
    assert list_parsers().keys() == ARGUMENTS.keys()


@pytest.mark.slow
@pytest.mark.usefixtures("outputs")
@pytest.mark.parametrize("command", [" ".join(c) for c in ARGUMENTS if list_absurd_values(c)])
def test_absurd_numbers_are_refused_in_a_sentence(command):
    argv = tuple(command.split())
    faults = [
        fault
        for option, number in list_absurd_values(argv)
        for fault in check_refusal(argv, option, number)
    ]
    assert not faults


@pytest.mark.slow_unless_planted
@pytest.mark.parametrize("condition", CONDITIONS)
def test_whatever_befalls_a_command_ends_in_its_status(condition, files):
    assert not check_under_condition(SHORT, files, CONDITIONS[condition], run_command(SHORT, files))


@pytest.mark.slow
def test_ctrl_c_that_a_callback_swallows_is_asked_for_again():
    code = """
import time, weakref
from dpmc_core import __main__
from dpmc_lab import cli

class Thing:
    pass

def swallow(_):
    raise KeyboardInterrupt

def main():
    thing = Thing()
    kept = weakref.ref(thing, swallow)
    del thing
    time.sleep(20)
    return 0

cli.main = main
__main__.entry()
"""
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (completed.returncode, completed.stderr) == (130, "dpmc: interrupted\n")


@pytest.mark.slow
def test_ctrl_c_at_the_very_end_changes_nothing():
    """As the last line is reached, and when Python clears up after it."""
    code = (
        "import atexit, os, signal, sys; sys.argv = ['dpmc', 'list']; leave = sys.exit;"
        "press = lambda *_: os.kill(os.getpid(), signal.SIGINT); atexit.register(press);"
        "sys.exit = lambda status: press() or leave(status);"
        "from dpmc_lab.__main__ import entry; entry()"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (completed.returncode, completed.stderr) == (0, "")


def test_without_a_home_folder_one_is_asked_for(dpmc, monkeypatch):
    def unknown():
        raise RuntimeError("Could not determine home directory.")

    for name in ("DPMC_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", unknown)
    status, _, err = dpmc("store", "list")
    assert (status, "DPMC_HOME" in err) == (FAILED, True)


def test_what_others_wrote_is_shown_and_not_obeyed(dpmc, tmp_path):
    """File names, columns and ids may hold what a terminal obeys."""
    evil = "\x1b[31m\x9b2J\r\x07\u202e\udcff"
    name = f"a{evil}.csv"
    rows = [f"a{k},b\x1b{k % 3},{1 + k % 5}\n" for k in range(20)]
    text = "".join(["user,item,ra\x1b[31m\x9b\u202e\n", *rows, rows[0]])
    (tmp_path / name).write_text(text, encoding="utf-8")
    outputs = [
        dpmc(*argv)
        for argv in (
            ("data", "check", name, *RANGE),
            ("data", "check", name, *RANGE, "--json"),
            ("data", "describe", name, *RANGE, "--read", "duplicates=last"),
            ("data", "describe", f"no{evil}"),
            ("data", "describe", "jokes", evil),
            ("fit", name, "item-mean", *RANGE, "--read", "duplicates=last"),
            ("fit", "movie-night", f"x{evil}"),
            (f"fit{evil}",),
        )
    ]
    assert {status for status, _, _ in outputs} == {0, 1, 2}
    for _, out, err in outputs:
        assert not re.search("[\0-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", out + err)
        assert re.search(r"\\(u00|x)1b\[31m", out + err)
    assert err.count("\n") == 2  # usage, and the sentence


def test_a_name_in_two_lines_is_one_line_of_a_sentence(dpmc):
    assert dpmc("data", "describe", "no\ndpmc: all is well")[2].count("\n") == 1


def test_a_command_without_standard_output_says_so(monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        assert main(["list"]) == FAILED
    assert "standard output is closed" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [
        "fit café.csv input-flip --range 1e400:2",
        "fit café.csv input-flip --range 1:5 --prepare cap=1e400",
        "fit café.csv input-flip --range 1:5 --read user=1e400",
        "guarantees --range 1:1e300",
        "sweep --data one-bit-lab --mechanisms input-flip --epsilons 1:inf:5",
        "sweep --data one-bit-lab --mechanisms input-flip --epsilons 1e-320:1e308:5",
        "sweep --data one-bit-lab --mechanisms input-flip --epsilons 1 --seeds 1:999999999",
    ],
)
def test_what_cannot_be_is_refused(argv, capsys):
    assert main(argv.split()) in (1, 2)
    assert "must be" in capsys.readouterr().err.strip().rpartition("\n")[2]
