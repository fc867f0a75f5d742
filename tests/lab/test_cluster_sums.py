"""Sums over users in partitions are those of one machine, and noise is drawn once in the sum."""

import json
import os
import pickle
import signal
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from dpmc_core import registry
from dpmc_core.errors import BadRatings, DpmcError
from dpmc_core.experiment import run
from dpmc_core.mechanisms.dpals import ItemBudget
from dpmc_core.model import Estimator, Factors, Task
from dpmc_core.privacy import record_publications
from dpmc_core.problem import RandomShare, prepare_all_ratings
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_data import ReadOptions, load
from dpmc_lab.cli import main
from dpmc_lab.sweep import cluster as clusters
from dpmc_lab.sweep import partitions
from dpmc_lab.sweep.cluster import open_partitioned_problem

METHODS = [
    ("private-item-mean", {}),
    ("private-effects", {"rounds": 2}),
    ("private-effects", {"epsilon": 60.0, "rounds": 2, "rank": 3}),  # with taste
    ("private-svd", {"cap": 20}),
    ("private-svd", {"cap": 20, "estimator": Estimator.PUBLISHED}),
    ("dpals", {"rounds": 2, "cap": 20}),
    ("dpals", {"rounds": 2, "cap": 20, "estimator": Estimator.PUBLISHED}),
    ("dpals", {"rounds": 2, "cap": 20, "items": ItemBudget.TAIL}),
    ("dp-sgd", {"rounds": 3, "rank": 2}),
    ("private-popularity", {}),
    ("private-popularity", {"delta": 0.0}),
    ("private-taste", {}),
    ("private-taste", {"epsilon": 1e4, "rank": 3}),  # where taste is heard
]
IDS = [f"{id}-{k}" for k, (id, _) in enumerate(METHODS)]
COUNTS, COLUMNS = (1, 2, 3, 7), ("user", "item", "rating")


class Immediate:
    """Runs what is submitted at once, `times` times over, as where a worker is lost with its
    results; the last ones count. Everything travels as between processes."""

    def __init__(self, times=1):
        self.times = times

    def submit(self, function, *arguments, pure):
        assert pure is False
        answer = Future()
        try:
            plain = [a.result() if isinstance(a, Future) else a for a in arguments]
            for _ in range(self.times):
                result = function(*pickle.loads(pickle.dumps(plain)))
            answer.set_result(result)
        except Exception as error:
            answer.set_exception(error)
        return answer

    def close(self):
        pass


def draw_rows(users=90, items=25):
    """Draw rows with ids that natural order and the order of files put differently."""
    rng = np.random.default_rng(4)
    rows = []
    for user in range(users):
        count = int(rng.integers(2, items + 1))  # of one alone taste is rounding, made a unit
        for item in rng.choice(items, count, replace=False):
            like = (user + item) % 3 == 0
            rows.append(
                (f"{user}", f"i{item}", float(np.clip(rng.integers(1, 4) + 2 * like, 1, 5)))
            )
    return rows


def write_partitions(folder, rows, count, assign=lambda _, row: int(row[0]) * 7 % 11):
    folder.mkdir(parents=True)
    for k in range(count):
        file_rows = [row for number, row in enumerate(rows) if assign(number, row) % count == k]
        table = pa.table([list(column) for column in zip(*file_rows, strict=True)], COLUMNS)
        parquet.write_table(table, folder / f"part-{k}.parquet")
    return folder


def load_partitions(folder, task, client=None):
    files = sorted(folder.glob("*.parquet"))
    return clusters.load_partitions(client or Immediate(), files, task, {"low": 1, "high": 5})


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("partitions")
    return {count: write_partitions(folder / str(count), draw_rows(), count) for count in COUNTS}


def create_mechanism(id, settings):
    return registry.create(id, **{"epsilon": 2.0} | settings)


def fit_recorded(mechanism, ratings, answers=None):
    with record_publications(replayed=answers) as publications:
        *_, last = mechanism.fit(ratings, np.random.default_rng(8))
    return publications, last


@pytest.mark.parametrize(("id", "settings"), METHODS, ids=IDS)
def test_sums_over_partitions_are_those_of_one_machine(id, settings, folders):
    mechanism = create_mechanism(id, settings)
    full_ratings, _ = prepare_all_ratings(load(folders[3], low=1, high=5).ratings, mechanism.task)
    releases = [release for _, release in mechanism.guarantee(full_ratings.public).releases]
    expected, step = fit_recorded(mechanism, full_ratings)
    for count, folder in folders.items():
        partitions = load_partitions(folder, mechanism.task)
        assert len(partitions.partitions) == count
        assert partitions.public == full_ratings.public
        guarantees = (mechanism.guarantee(r.public).as_dict() for r in (partitions, full_ratings))
        assert next(guarantees) == next(guarantees)
        # Under one history of answers the private sums are equal before noise ...
        publications, _ = fit_recorded(mechanism, partitions, answers=expected)
        assert len(publications) == len(expected) == sum(release.times for release in releases)
        for p, q in zip(publications, expected, strict=True):
            distance = np.linalg.norm(p.private - q.private)
            assert distance <= 1e-12 * np.linalg.norm(q.private), (count, q.release.query)
        # ... and with one seed so is what comes of it, the noise being drawn once.
        publications, last = fit_recorded(mechanism, partitions)
        for p, q in zip(publications, expected, strict=True):
            distance = np.linalg.norm(p.published - q.published)
            assert distance <= 1e-9 * np.linalg.norm(q.published), (count, q.release.query)
        model, left = step.model.factors, np.full(step.model.factors.left.shape, np.nan)
        for future, ratings in zip(
            last.model.partitions.partitions, partitions.partitions, strict=True
        ):
            partial_sum = last.model.function(future.result(), *last.model.state)
            left[ratings.result().user_positions] = partial_sum.left
            assert np.allclose(partial_sum.right, model.right, rtol=1e-7, atol=1e-8)
        assert np.allclose(left, model.left, rtol=1e-7, atol=1e-8)


def assert_published_alike(publications, expected):
    for p, q in zip(publications, expected, strict=True):
        assert np.array_equal(p.private, q.private)
        assert np.array_equal(p.published, q.published)


@pytest.mark.parametrize(("id", "settings"), METHODS, ids=IDS)
def test_what_is_run_again_changes_nothing_and_draws_nothing(id, settings, folders):
    mechanism = create_mechanism(id, settings)
    first, repeated_run = (
        fit_recorded(mechanism, load_partitions(folders[3], mechanism.task, Immediate(times)))[0]
        for times in (1, 2)
    )
    assert len(first) == len(repeated_run)
    assert_published_alike(first, repeated_run)


@pytest.mark.parametrize("task", [Task.RATINGS, Task.RANKING])
def test_what_is_held_out_and_the_fingerprint_do_not_depend_on_partitions(task, folders):
    fingerprints = set()
    for folder in folders.values():
        partitions = load_partitions(folder, task)
        problem = clusters.build_partitioned_problem(partitions, "here", task, None, 3)
        train, test = problem.train, problem.test
        assert len(train) + len(test) == len(partitions) == len(draw_rows())
        for partition in test.partitions:
            left, held_out = partition.result()
            assert (np.diff(left.indptr) > 0).all()  # one rating stays with every user
            if task is Task.RANKING:
                assert np.bincount(held_out.users, minlength=1).max() == 1
        if task is Task.RATINGS:
            assert 0.15 < len(test) / len(partitions) < 0.25
        model = train.build_model(_build_item_model)
        metric = problem.evaluate(task, model, np.random.default_rng(0))
        fingerprints.add((train.fingerprint, len(test), *(round(v, 12) for v in metric.values())))
    assert len(fingerprints) == 1


def test_the_latest_rating_is_held_out_in_a_partition():
    public = PublicFacts(users=2, items=3, low=1, high=5)
    times = np.array([5, 9, 1, 7, 2])
    ratings = Ratings.build([0, 0, 0, 1, 1], [0, 1, 2, 0, 2], np.full(5, 3.0), public, times=times)
    train, test = partitions.split_ratings(ratings, None, 1)
    assert (test.users.tolist(), test.items.tolist()) == ([0, 1], [1, 0])
    assert len(train) == 3
    train, _ = partitions.split_ratings(ratings, 1.0, 1)  # all but one of each user
    assert train.users.tolist() == [0, 1]
    assert partitions.summarise_content(None)[0] == 0
    assert partitions.summarise_content(train)[0] == 2


def _build_item_model(ratings):
    items = np.arange(ratings.public.items, dtype=float)[:, None]
    return Factors(np.ones((ratings.public.users, 1)), 1 + items % 5)


def test_the_error_of_partitions_is_that_of_all_their_test_ratings(folders):
    users = load_partitions(folders[7], Task.RATINGS)
    problem = clusters.build_partitioned_problem(users, "here", Task.RATINGS, None, 3)
    model = problem.train.build_model(_build_item_model)
    metrics = problem.evaluate(Task.RATINGS, model, np.random.default_rng(0))
    test_sets = [partition.result()[1] for partition in problem.test.partitions]
    errors = np.concatenate(
        [1 + test_set.items % 5 - test_set.values for test_set in test_sets if test_set is not None]
    )
    assert metrics["rmse"] == pytest.approx(float(np.sqrt(np.mean(errors**2))), rel=1e-12)


def test_a_user_of_two_files_is_refused_on_a_cluster_alone(tmp_path):
    folder = write_partitions(tmp_path / "across", draw_rows(), 3, assign=lambda number, _: number)
    with pytest.raises(BadRatings, match=r"user '0' is in part-0\.parquet and part-1\.parquet"):
        load_partitions(folder, Task.RATINGS)
    ratings = load(folder, low=1, high=5).ratings
    single = load(write_partitions(tmp_path / "one", draw_rows(), 1), low=1, high=5).ratings
    assert ratings.fingerprint == single.fingerprint
    assert ratings.user_ids == single.user_ids


@pytest.mark.parametrize("other", [(1, 10), (0, 5)])
def test_files_with_other_ranges_are_refused_by_name(other, folders, monkeypatch):
    honest = partitions.read_file

    def read(path, options, stamp):
        low, high = other if path.endswith("part-1.parquet") else (1, 5)
        return honest(path, replace(options, low=low, high=high), stamp)

    monkeypatch.setattr(partitions, "read_file", read)
    files = sorted(folders[2].glob("*.parquet"))
    with pytest.raises(BadRatings, match=r"part-0\.parquet and part-1\.parquet .* ranges"):
        clusters.load_partitions(Immediate(), files, Task.RATINGS, {})


def test_a_folder_is_read_as_one_file_would_be(tmp_path, folders, capsys):
    from_file = load(folders[1] / "part-0.parquet", low=1, high=5)
    for folder in folders.values():
        from_folder = load(folder, low=1, high=5)
        assert from_folder.ratings.fingerprint == from_file.ratings.fingerprint
        assert from_folder.count == from_file.count
    folder = write_partitions(tmp_path / "data", draw_rows(), 2)
    (folder / "_metadata.parquet").write_bytes(b"no file of ratings")
    assert load(folder, low=1, high=5).ratings.fingerprint == from_file.ratings.fingerprint
    assert main(["data", "check", str(folder), "--range", "1:5"]) == 0
    assert "90 users, 25 items" in capsys.readouterr().out
    with pytest.raises(
        BadRatings, match=r"no ratings of a known set: .* folder of Parquet or CSV files"
    ):
        load(tmp_path)


def test_a_pair_of_two_files_is_refused_with_both_named_or_settled(tmp_path):
    folder = tmp_path / "twice"
    folder.mkdir()
    for k, value in enumerate((2.0, 4.0)):
        table = pa.table({"user": ["a", f"b{k}"], "item": ["x", "y"], "rating": [value, 1.0]})
        parquet.write_table(table, folder / f"part-{k}.parquet")
    with pytest.raises(BadRatings, match=r"row 1 of part-0\.parquet and row 1 of part-1\.parquet"):
        load(folder, low=1, high=5)
    for rule, value in (("last", 4.0), ("mean", 3.0)):
        assert load(folder, low=1, high=5, duplicates=rule).ratings.values[0] == value


def test_files_with_other_columns_are_refused_by_name(tmp_path):
    folder = write_partitions(tmp_path / "columns", draw_rows(), 2)
    table = pa.table({"user": ["a"], "item": ["x"], "stars": [1.0]})
    parquet.write_table(table, folder / "part-2.parquet")
    message = r"part-2\.parquet and part-0\.parquet .* different columns"
    with pytest.raises(BadRatings, match=message):
        load(folder, low=1, high=5, for_ranking=True)


def test_a_file_that_changed_is_not_read_again(tmp_path):
    folder = write_partitions(tmp_path / "data", draw_rows(), 1)
    path, options = folder / "part-0.parquet", ReadOptions(low=1, high=5)
    stamp = partitions.read_file_stamp(path)
    assert len(partitions.read_file(str(path), options, stamp)) == len(draw_rows())
    write_partitions(tmp_path / "other", draw_rows()[:-1], 1)
    (tmp_path / "other" / "part-0.parquet").replace(path)
    with pytest.raises(BadRatings, match=r"part-0\.parquet has changed while it was used"):
        partitions.read_file(str(path), options, stamp)
    stamp = partitions.read_file_stamp(path)
    os.utime(path, ns=(0, stamp[1] + 1))  # as large as before
    assert partitions.read_file_stamp(path) != stamp


def test_what_cannot_be_finished_is_one_sentence(folders):
    partitions = load_partitions(folders[3], Task.RATINGS)
    with pytest.raises(DpmcError, match="the cluster could not finish: division by zero"):
        partitions.sum_over_users(_fail)


def _fail(_):
    return 1 / 0


def test_every_method_for_partitions_is_tested_here():
    supported = {id for id, cls in registry.MECHANISMS.items() if cls.supports_partitions}
    assert supported == {id for id, _ in METHODS}


# A real scheduler with two workers.


def _kill_worker_once(partition, marker, function, state):
    """Kill the worker that runs this for the first time."""
    if not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return function(partition, *state)


class Deadly(clusters.PartitionedUsers):
    """Each sum loses a worker once."""

    def sum_over_users(self, function, *state):
        Deadly.asked += 1
        marker = str(Deadly.folder / f"{Deadly.asked}")
        users = clusters.PartitionedUsers(self.client, self.partitions, self.public)
        return users.sum_over_users(_kill_worker_once, marker, function, state)


@pytest.mark.slow
@pytest.mark.parametrize("id", ["private-item-mean", "private-popularity"])
def test_a_killed_worker_changes_nothing_of_what_is_published(id, cluster, tmp_path, monkeypatch):
    pytest.importorskip("distributed", reason="needs the extra 'cluster'")
    tests = Path(__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", f"{tests.parent}{os.pathsep}{tests}")
    two, folder = cluster(), write_partitions(tmp_path / "data", draw_rows(), 3)
    mechanism = registry.create(id, epsilon=2.0)
    expected, _ = fit_recorded(mechanism, load_partitions(folder, mechanism.task))
    client = clusters.connect_to_cluster(two.address)
    try:
        partitions = load_partitions(folder, mechanism.task, client)
        Deadly.folder, Deadly.asked = tmp_path, 0
        publications, _ = fit_recorded(
            mechanism, Deadly(client, partitions.partitions, partitions.public)
        )
    finally:
        client.close()
        for process in two.processes[1:]:
            process.kill()  # busy with a worker to replace, they would not listen for a minute
    assert Deadly.asked > 0
    assert all((tmp_path / str(k)).exists() for k in range(1, Deadly.asked + 1))
    releases = [release for _, release in mechanism.guarantee(partitions.public).releases]
    assert len(publications) == len(expected) == sum(release.times for release in releases)
    assert_published_alike(publications, expected)


@pytest.mark.slow
def test_a_fit_outlives_a_worker_between_its_rounds(cluster, tmp_path):
    pytest.importorskip("distributed", reason="needs the extra 'cluster'")
    two, folder = cluster(), write_partitions(tmp_path / "data", draw_rows(), 3)
    mechanism = registry.create("dpals", epsilon=2.0, rounds=3)
    reading = {"low": 1, "high": 5}
    results = []
    for lost in (False, True):

        def lose(_, step, lost=lost):
            if lost and step.index == 1:
                two.processes[-1].kill()

        with open_partitioned_problem(
            two.address, str(folder), mechanism, reading, RandomShare(0.2), 1
        ) as local_cluster:
            results.append(run(mechanism, local_cluster, 1, on_step=lose, with_baselines=False))
    assert results[0].metrics == pytest.approx(results[1].metrics, rel=1e-12)
    assert results[0].as_dict()["data"] == results[1].as_dict()["data"]


@pytest.mark.slow
def test_the_command_line_fits_a_folder_where_it_lies(cluster, tmp_path, capsys):
    pytest.importorskip("distributed", reason="needs the extra 'cluster'")
    two, folder = cluster(), write_partitions(tmp_path / "data", draw_rows(), 3)
    argv = ["fit", str(folder), "private-effects", "--epsilon", "2", "--range", "1:5", "--json"]
    assert main([*argv, "--cluster", two.address]) == 0
    cluster_report = json.loads(capsys.readouterr().out)
    assert main(argv) == 0
    local_report = json.loads(capsys.readouterr().out)
    assert cluster_report["guarantee"] == local_report["guarantee"]
    assert cluster_report["settings"] == local_report["settings"]
    assert {*cluster_report["metrics"]} == {"rmse"}
    for name in ("users", "items"):
        assert cluster_report["data"][name] == local_report["data"][name]
