"""What a sweep runs on: sources, snapshots, private folders, presets."""

import dataclasses
import errno
import json
import math
import os
import pickle
import signal
import stat
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dpmc_core import registry
from dpmc_core.errors import BadRatings
from dpmc_core.model import Factors
from dpmc_core.problem import LeaveLast, RandomShare, SharePerUser
from dpmc_lab import locks, papers, store, sweep
from dpmc_lab.cli import build_parser
from dpmc_lab.store import Store
from dpmc_lab.sweep import Grid, presets, sources
from dpmc_lab.sweep.sources import SNAPSHOT_SUFFIX, read_snapshot, write_snapshot
from tests.store_helpers import needs_modes
from tests.sweep_helpers import make_dataset, make_pair, make_source, parse_grid

ROOT = Path(__file__).resolve().parents[2]


def write_ratings(folder, ratings, name):
    path = folder / name
    rows = zip(ratings.users, ratings.items, ratings.values, strict=True)
    path.write_text("user,item,rating\n" + "".join(f"u{u},i{i},{v:g}\n" for u, i, v in rows))
    return path


# --- sources ---------------------------------------------------------------------------------


def test_a_source_opens_what_the_command_line_names(tmp_path):
    path = write_ratings(tmp_path, make_dataset().ratings, "stars.csv")
    opened = sweep.open_source(str(path), low=1, high=5)
    assert (opened.name, opened.per_seed) == ("stars.csv", False)
    assert len(opened.for_seed(3).ratings) == len(make_dataset().ratings)
    assert sweep.open_source("movie-night").name == "movie-night"
    assert sweep.open_source("movie-night").title == "Movie night"
    with pytest.raises(BadRatings, match="no file or folder"):
        sweep.open_source(str(tmp_path / "none.csv"))


def test_an_official_fold_is_named_by_its_stem(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    pair = make_pair()
    paths = [
        write_ratings(folder, ratings, f"u1.{end}")
        for ratings, end in ((pair.train, "base"), (pair.test, "test"))
    ]
    fold = sweep.open_source(str(folder / "u1"), low=1, high=5)
    source = sweep.open_source(str(paths[0]), str(paths[1]), low=1, high=5)
    assert fold.name == "mine/u1"
    assert source.name == "mine/u1.base"
    assert fold.fingerprint == source.fingerprint
    train, test = fold.for_seed(0)
    assert (len(train), len(test)) == (len(pair.train), len(pair.test))


def test_generated_data_is_one_matrix_or_a_new_one_for_each_seed():
    fixed = sweep.open_source("one-bit-lab:observed=0.3,link=probit,seed=4")
    source = sweep.open_source("one-bit-lab:seed=each,observed=0.3")
    assert (fixed.per_seed, source.per_seed) == (False, True)
    assert fixed.name == "one-bit-lab:observed=0.3,link=probit:1,seed=4"
    assert fixed.for_seed(1) is fixed.for_seed(2)
    first, second = source.for_seed(1), source.for_seed(2)
    assert len(first.ratings) == len(second.ratings) == 3000
    assert not np.array_equal(first.truth.left, second.truth.left)
    assert source.for_seed(1).ratings.fingerprint == first.ratings.fingerprint
    reopened = sweep.open_source("one-bit-lab:observed=0.3,seed=each")
    assert reopened.fingerprint == source.fingerprint
    assert sweep.open_source("one-bit-lab:seed=each").fingerprint != source.fingerprint


def test_the_fingerprint_knows_all_that_results_depend_on():
    base = make_dataset()
    truth = Factors(np.ones((30, 1)), np.ones((20, 1)))
    variants = [base, make_dataset(times=False), make_dataset(seed=4)]
    variants.append(dataclasses.replace(base, truth=truth))
    marks = {sweep.SplitSource(variant).fingerprint for variant in variants}
    assert len(marks) == len(variants)
    renamed = dataclasses.replace(base, name="other", title="Other")
    assert sweep.SplitSource(renamed).fingerprint == sweep.SplitSource(base).fingerprint
    swapped = make_pair()
    swapped_back = sources.PairSource(swapped.test, swapped.train, "x", "x")
    assert swapped.fingerprint != swapped_back.fingerprint


@pytest.mark.parametrize("source", [make_source(), make_pair()])
def test_no_names_travel_to_a_worker(source):
    assert b"film" not in pickle.dumps(source)
    assert b"film" in pickle.dumps(make_dataset())
    assert pickle.loads(pickle.dumps(source)).fingerprint == source.fingerprint


# --- snapshots and private folders -----------------------------------------------------------


@pytest.mark.parametrize("times", [True, False])
def test_a_snapshot_gives_the_same_ratings_back(tmp_path, times):
    ratings = make_dataset(times=times).ratings
    capped = dataclasses.replace(ratings.public, cap=ratings.public.items)
    dataset = dataclasses.replace(
        make_dataset(), ratings=dataclasses.replace(ratings, public=capped)
    )
    path = tmp_path / f"mine{SNAPSHOT_SUFFIX}"
    write_snapshot(dataset, path)
    restored = read_snapshot(path)
    assert restored.ratings.public == capped
    assert sweep.SplitSource(restored).fingerprint == sweep.SplitSource(dataset).fingerprint
    assert (restored.name, restored.title) == ("tiny", "Tiny")
    assert sweep.open_source(str(path)).fingerprint == sweep.SplitSource(dataset).fingerprint
    assert b"film" not in path.read_bytes()


@needs_modes
def test_a_snapshot_is_for_its_user_alone_and_never_replaces(tmp_path):
    path = tmp_path / f"mine{SNAPSHOT_SUFFIX}"
    write_snapshot(make_dataset(), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        write_snapshot(make_dataset(), path)


@pytest.mark.parametrize("content", [b"", b"junk", b"PK\x03\x04junk"])
def test_a_damaged_snapshot_is_a_sentence(tmp_path, content):
    path = tmp_path / f"mine{SNAPSHOT_SUFFIX}"
    path.write_bytes(content)
    with pytest.raises(BadRatings, match="is not a snapshot of ratings"):
        sweep.open_source(str(path))


@needs_modes
def test_a_private_folder_is_for_its_user_alone_and_goes():
    folder = sweep.PrivateFolder(make_dataset())
    assert not folder.path.exists()  # before it is wanted
    before = os.umask(0)
    try:
        folder.write()
    finally:
        os.umask(before)
    inside = [folder.path, *sorted(folder.path.iterdir())]
    names = ["owner.lock", "ratings.dpmc.npz", "results.sqlite"]
    assert [path.name for path in inside[1:]] == names
    assert [stat.S_IMODE(path.stat().st_mode) for path in inside] == [0o700, 0o600, 0o600, 0o600]
    with Store(folder.store) as opened, opened.claims():
        opened.connection.execute("BEGIN IMMEDIATE")
        opened.connection.execute("ROLLBACK")
        modes = [stat.S_IMODE(path.stat().st_mode) for path in folder.path.glob("results*")]
        assert modes == [0o600] * 4
    folder.write()  # once more does no harm
    folder.close()
    assert not folder.path.exists()
    folder.close()  # nor this


@pytest.mark.parametrize("where", ["locks.acquire_lock", "sweep.sources.write_snapshot"])
def test_a_private_folder_that_cannot_be_filled_is_not_left_behind(tmp_path, monkeypatch, where):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    full = OSError(errno.ENOSPC, "no space left on device")
    monkeypatch.setattr(f"dpmc_lab.{where}", lambda *_: (_ for _ in ()).throw(full))
    with pytest.raises(OSError, match="no space left"):
        sweep.PrivateFolder(make_dataset()).write()
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_private_sweep_leaves_nothing_in_the_shared_store(tmp_path, monkeypatch):
    monkeypatch.setenv("DPMC_HOME", str(tmp_path))
    folder = sweep.PrivateFolder(make_dataset())
    folder.write()
    try:
        grid = {"data": [str(folder.data)], "mechanisms": ["input-flip"], "epsilons": [1.0, 2.0]}
        grid |= {"seeds": [1, 2], "settings": {"iterations": ["5"]}, "split": RandomShare(0.3)}
        argv = [*sweep.build_sweep_command(Grid(**grid), store=folder.store), "--jobs", "1"]
        completed = subprocess.run(
            argv, cwd=ROOT, env=folder.environment, capture_output=True, text=True, check=True
        )
        assert completed.stderr == ""
        last = json.loads(completed.stdout.splitlines()[-1])
        assert (last["done"], last["total"], last["failed"], last["skipped"]) == (10, 10, 0, 0)
        with Store(folder.store, read_only=True) as opened:
            (name,) = {info.name for info in store.list_curves(opened)}
            assert name == "tiny"
    finally:
        folder.close()
    assert list(tmp_path.iterdir()) == []


def test_a_grid_on_ratings_in_memory_has_the_keys_of_their_snapshot(tmp_path):
    dataset, path = make_dataset(), tmp_path / f"mine{SNAPSHOT_SUFFIX}"
    grid = Grid(data=[str(path)], mechanisms=["output"], epsilons=[1.0], seeds=[1])
    before = sweep.build_plan(grid, [sweep.SplitSource(dataset)]).keys
    write_snapshot(dataset, path)
    assert sweep.build_plan(grid).keys == before


@pytest.mark.skipif(not locks.AVAILABLE, reason="needs file locks")
def test_folders_of_killed_programs_are_found_and_those_of_living_ones_left_alone(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(sources.tempfile, "tempdir", str(tmp_path))
    local_folder = sweep.PrivateFolder(make_dataset())
    local_folder.write()
    (tmp_path / "dpmc-private-notes").mkdir()
    code = (
        "import sys; from tests.sweep_helpers import make_dataset; from dpmc_lab import sweep;"
        "folder = sweep.PrivateFolder(make_dataset()); folder.write();"
        "print(folder.path.name, folder._watcher.pid);"
        "sys.stdout.flush(); sys.stdin.read()"
    )
    other_process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    name, watch = other_process.stdout.readline().split()
    other_folder = tmp_path / name
    assert other_folder.exists()
    assert sweep.PrivateFolder.claim_orphans() == []
    os.kill(int(watch), signal.SIGKILL)  # as where the whole machine stops
    other_process.kill()
    other_process.communicate()
    (orphan,) = sweep.PrivateFolder.claim_orphans()
    assert orphan.path == other_folder
    assert sweep.PrivateFolder.claim_orphans() == []  # this process has it now
    orphan.close()
    local_folder.close()
    assert [path.name for path in tmp_path.iterdir()] == ["dpmc-private-notes"]


# --- grids as they are typed ------------------------------------------------------------------

TYPED = [
    Grid(data=["movie-night"], mechanisms=["clear"]),
    Grid(
        data=["restaurants", "one-bit-lab:seed=each,observed=0.3"],
        mechanisms=["input-flip", "output"],
        epsilons=[0.1, 1 / 3, 4.0],
        seeds=[1, 2, 3],
        settings={"radius": ["0.5", "1"], "output.bound": ["0.2"]},
        steps=["cap=5", "binarise=2"],
        split=RandomShare(0.1),
    ),
    Grid(
        data=["mine.csv"],
        mechanisms=["popularity"],
        seeds=[7, 2],
        split=LeaveLast(),
        reading={"low": -10.0, "high": 10.0, "user": "who", "rating": 3},
    ),
    Grid(data=["mine.csv"], mechanisms=["clear"], split=SharePerUser(1 / 3), steps=["cap=5"]),
    Grid(data=["u1.base"], mechanisms=["clear"], tests=["u1.test"], seeds=[5]),
]


@pytest.mark.parametrize("grid", TYPED)
def test_a_grid_is_what_its_command_line_says(grid):
    assert parse_grid(build_parser().parse_args(["sweep", *grid.argv()])) == grid


NAMED = {**presets.PRESETS, **papers.list_presets()}
# For sets that have to be downloaded, or of which a person has a copy.
STAND_INS = dict.fromkeys(("ml-100k/u1", "ml-10m", "netflix", "yahoo-c15"), "movie-night")
STAND_INS |= {"restaurant": "restaurants", "jester": "jokes"}


# --- presets ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMED)
def test_a_preset_is_a_grid_that_works(name):
    args = build_parser().parse_args(["sweep", "--preset", name, "--seeds", "1"])
    preset = NAMED[name].grid
    if preset.data[0] in STAND_INS:
        args.data = [STAND_INS[preset.data[0]]]
    if name == "samples":
        args.data = ["restaurants", "one-bit-lab"]
    plan = sweep.build_plan(parse_grid(args))
    points = len(plan.sources) * len(preset.epsilons)
    counts = Counter(u.mechanism.id for u in plan.units if u.epsilon is not None)
    for id in filter(lambda id: registry.adds_noise(registry.get_mechanism(id)), preset.mechanisms):
        variants = math.prod(map(len, preset.parse_values(id).values()))
        assert counts.pop(id) == variants * points
    # Beside them the private guesses, where these are not asked for themselves.
    baselines = (
        registry.list_baselines(registry.get_mechanism(id), preset.steps)
        for id in preset.mechanisms
    )
    guesses = {id for ids in baselines for id in ids} - {*preset.mechanisms}
    noisy = [id for id in guesses if registry.adds_noise(registry.get_mechanism(id))]
    assert counts == dict.fromkeys(noisy, points)
