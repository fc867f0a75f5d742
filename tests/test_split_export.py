"""A split as files: the rows of `build_problem`, ids and ratings as in the source."""

import csv
import hashlib
import json
import shlex

import numpy as np
import pytest

from dpmc_core import metrics
from dpmc_core.data import datasets, parse_step, read_pair
from dpmc_core.errors import DpmcError
from dpmc_core.lab.cli import main
from dpmc_core.lab.study import split_files
from dpmc_core.model import Factors, Task
from dpmc_core.problem import LeaveLast, RandomShare, SharePerUser, build_problem

ODD = ["007", "7", "=1+1", "@you", "-5", "+x", "a,b", 'say "hi"', "Zoë", "'quoted'", "a;b", "1.0"]
NAMES = [*ODD, *(f"u{k}" for k in range(20))]


def read_csv(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def cells(ratings):
    return {
        (ratings.user_ids[u], ratings.item_ids[i]): float(v)
        for u, i, v in zip(ratings.users, ratings.items, ratings.values, strict=True)
    }


@pytest.fixture(params=[True, False], ids=["timed", "untimed"])
def file(tmp_path, request):
    """Ratings 1..5 in halves of 32 users and 32 items whose ids are hard to carry."""
    rng = np.random.default_rng(5)
    path = tmp_path / "source.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["user", "item", "rating", "time"][: 3 + request.param])
        for user in NAMES:
            for k in rng.choice(len(NAMES), size=12, replace=False):
                row = [user, NAMES[k], f"{rng.integers(2, 11) / 2:.1f}", rng.integers(10**6, 10**9)]
                writer.writerow(row[: 3 + request.param])
    return path


@pytest.mark.parametrize("task", Task)
@pytest.mark.parametrize(
    ("split", "words"),
    [
        (RandomShare(0.3), ["--holdout", "0.3"]),
        (SharePerUser(0.2), ["--holdout-per-user", "0.2"]),
        (LeaveLast(), ["--leave-last"]),
    ],
)
@pytest.mark.parametrize("steps", [[], ["top-items=20", "cap=5"]], ids=["as it is", "prepared"])
def test_the_files_hold_the_rows_of_the_problem(file, tmp_path, capsys, task, split, words, steps):
    folder = tmp_path / "deep" / "split"
    argv = ["split", str(file), "--range", "1:5", "--task", task.value, "--seed", "3", *words]
    for step in steps:
        argv += ["--prepare", step]
    assert main([*argv, "--export", str(folder), "--json"]) == 0
    note = json.loads(capsys.readouterr().out)
    assert note == json.loads((folder / split_files.NOTE).read_text(encoding="utf-8"))
    data = datasets.load(file, low=1, high=5)
    parsed = [parse_step(step) for step in steps]
    problem = build_problem(data, task, steps=parsed, split=split, seed=3)
    given = cells(data.ratings)
    for name, side in (("train.csv", problem.train), ("test.csv", problem.test)):
        rows = read_csv(folder / name)
        prepared = cells(side)
        assert [(row["user"], row["item"]) for row in rows] == list(prepared)
        for row in rows:
            cell = row["user"], row["item"]
            assert float(row["rating"]) == given[cell]
            if task is not Task.RANKING:
                assert float(row.get("target", row["rating"])) == prepared[cell]
        if side.times is not None:
            assert [int(row["time"]) for row in rows] == side.times.tolist()
        about = note["files"][name]
        assert (about["rows"], about["users"]) == (len(side), len(set(side.users.tolist())))
        assert about["sha256"] == hashlib.sha256((folder / name).read_bytes()).hexdigest()
    assert ("target" in rows[0]) == (task is Task.BINARY)
    assert note["source_sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert (note["seed"], note["split"], note["prepare"]) == (3, problem.split, list(problem.steps))
    if task is Task.RANKING:
        items = [row["item"] for row in read_csv(folder / "items.csv")]
        assert items == list(problem.train.item_ids)
    else:
        assert not (folder / "items.csv").exists()


def test_our_own_reader_takes_the_files_as_an_official_pair(file, tmp_path):
    data = datasets.load(file, low=1, high=5)
    split_files.export(data, Task.RATINGS, tmp_path, split=LeaveLast(), seed=1)
    problem = build_problem(data, Task.RATINGS, split=LeaveLast(), seed=1)
    train, test = read_pair(tmp_path / "train.csv", tmp_path / "test.csv", low=1, high=5)
    assert (cells(train), cells(test)) == (cells(problem.train), cells(problem.test))
    assert train.fingerprint == problem.train.fingerprint


def test_ids_with_line_breaks_and_clicks_come_back(tmp_path):
    lines = [json.dumps({"user": f"a\n{k % 9}", "item": f"b\r\n{k}"}) for k in range(60)]
    (tmp_path / "clicks.jsonl").write_text("\n".join(lines) + "\n")
    data = datasets.load(tmp_path / "clicks.jsonl")
    split_files.export(data, Task.RANKING, tmp_path, split=LeaveLast(), seed=1)
    rows = read_csv(tmp_path / "train.csv") + read_csv(tmp_path / "test.csv")
    assert list(rows[0]) == ["user", "item"]
    assert {(row["user"], row["item"]) for row in rows} == set(cells(data.ratings))


def test_a_model_scored_as_the_note_says_gets_the_program_s_own_number(tmp_path):
    """By hand from the files alone, against the metric of the same model."""
    data = datasets.load("bookshop-clicks")
    note = split_files.export(data, Task.RANKING, tmp_path, split=LeaveLast(), seed=1)
    problem = build_problem(data, Task.RANKING, split=LeaveLast(), seed=1)
    train, test = read_csv(tmp_path / "train.csv"), read_csv(tmp_path / "test.csv")
    catalogue = [row["item"] for row in read_csv(tmp_path / "items.csv")]
    counts = dict.fromkeys(catalogue, 0)
    seen: dict[str, set[str]] = {}
    for row in train:
        counts[row["item"]] += 1
    for row in train + test:
        seen.setdefault(row["user"], set()).add(row["item"])
    hits = 0
    for row in test:
        others = [item for item in catalogue if item not in seen[row["user"]]]
        hits += sum(counts[item] >= counts[row["item"]] for item in others) < 10
    popular = np.bincount(problem.train.items, minlength=problem.train.public.items).astype(float)
    model = Factors(np.ones((problem.train.public.users, 1)), popular[:, None])
    ours = metrics.ranking(
        model, problem.train, problem.test, np.random.default_rng(0), negatives=None
    )
    assert note["metric"] == "hr@10_full"
    assert hits / len(test) == pytest.approx(ours.hr)
    assert "all unseen items" in note["scored"]


def test_nothing_is_overwritten_unless_forced(file, tmp_path, capsys):
    folder = tmp_path / "split"
    argv = ["split", str(file), "--range", "1:5", "--export", str(folder)]
    assert main([*argv, "--task", "ranking"]) == 0
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    capsys.readouterr()
    assert main([*argv, "--seed", "2"]) == 1
    assert "overwrite with --force" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert main([*argv, "--seed", "2", "--force"]) == 0
    assert {path.name for path in folder.iterdir()} == {"train.csv", "test.csv", "split.json"}
    assert json.loads((folder / "split.json").read_text())["seed"] == 2
    blocked = tmp_path / "a file"
    blocked.write_text("")
    assert main([*argv[:-1], str(blocked)]) == 1
    assert "is a file: choose a folder" in capsys.readouterr().err


def test_what_fails_leaves_nothing(file, tmp_path, monkeypatch):
    data = datasets.load(file, low=1, high=5)

    def full(*_, **__):
        raise DpmcError("the disk is full")

    monkeypatch.setattr(split_files, "scored", full)
    with pytest.raises(DpmcError, match="full"):
        split_files.export(data, Task.RATINGS, tmp_path / "x", split=LeaveLast(), seed=1)
    assert not list((tmp_path / "x").iterdir())


def test_it_says_what_to_do_next(file, tmp_path, capsys):
    folder = tmp_path / "split"
    assert main(["split", str(file), "--range", "1:5", "--export", str(folder)]) == 0
    said = capsys.readouterr().out
    command = shlex.split(said.strip().splitlines()[-1])
    reference = ["--reference", "VALUE"]
    assert command[:3] == ["dpmc", "answer", str(file)]
    assert command[3:] == ["--task", "ratings", "--range=1:5", "--holdout", "0.2", *reference]
    assert "RMSE" in said
    assert "a random 20 % of the ratings, seed 1" in said
    assert "seeds 1 to 5" in " ".join(said.split())
