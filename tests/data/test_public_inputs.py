"""Public inputs beside the ratings: a setting that names a file gets what the file holds."""

import json

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.errors import InvalidSetting
from dpmc_core.experiment import run
from dpmc_core.mechanisms.factorization import DPMF
from dpmc_core.settings import format_setting
from dpmc_core.solvers.factorization import PublicUserFactors
from dpmc_data import load
from dpmc_data.public_inputs import read_setting
from dpmc_lab.cli import main


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "users.npy"
    np.save(path, np.random.default_rng(2).normal(size=(80, 3)))
    return path


def test_a_setting_that_names_a_file_gets_its_array(file):
    factors = read_setting(DPMF, "user_factors", str(file))
    assert (factors.array == np.load(file)).all()
    assert format_setting(factors) == str(file)
    assert read_setting(DPMF, "user_factors", "random:3") == PublicUserFactors("random:3")
    assert read_setting(DPMF, "user_factors", "none") is None
    assert read_setting(DPMF, "rank", "4") == 4


@pytest.mark.parametrize("content", [None, b"", b"no array"])
def test_a_file_that_cannot_be_read_is_refused_where_it_is_named(tmp_path, content):
    path = tmp_path / "users.npy"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidSetting, match=r"user_factors must be a readable \.npy file"):
        read_setting(DPMF, "user_factors", str(path))
    with pytest.raises(InvalidSetting, match=r"random:SEED or a \.npy file"):
        read_setting(DPMF, "user_factors", "users.csv")


def test_the_command_line_reads_the_file_and_a_script_gives_the_array(file, capsys):
    data = load("one-bit-lab")
    rank = 3
    np.save(file, np.random.default_rng(2).normal(size=(data.ratings.public.users, rank)))
    options = ["--epsilon", "1", "--set", f"rank={rank}", "--set", f"user_factors={file}"]
    assert main(["fit", "one-bit-lab", "dpmf", *options, "--seed", "4", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    factors = PublicUserFactors(str(file), np.load(file))
    mechanism = registry.create("dpmf", epsilon=1.0, rank=rank, user_factors=factors)
    assert printed["metrics"] == dict(run(mechanism, data, seed=4).metrics)
    assert printed["settings"]["user_factors"] == str(file)
