"""Sweeps: which units there are, the same rows however they run, and what no trouble loses."""

import itertools
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pytest

from dpmc_core import experiment, registry
from dpmc_core.errors import DpmcError, InvalidSetting
from dpmc_core.model import AddsNoiseLast, Constant, Step, Task
from dpmc_core.privacy import record_publications
from dpmc_core.problem import LeaveLast, build_problem
from dpmc_lab import locks, store, sweep
from dpmc_lab.store import Store, StoreError
from dpmc_lab.sweep import engine
from dpmc_lab.sweep import grid as grids
from dpmc_lab.sweep.engine import MAX_BREAKS, MAX_LOSSES_ALONE, MAX_LOSSES_TOGETHER
from tests.sweep_helpers import (
    ExecutorPool,
    InProcessPool,
    make_dataset,
    make_pair,
    make_plan,
    make_source,
    read_rows,
)

BASELINE, REFERENCE = "private-majority", "reference-binary"  # what stands beside one-bit methods


@pytest.fixture
def opened(tmp_path):
    with Store(tmp_path / "results.sqlite") as new_store:
        yield new_store


def run_units(plan, opened, units=None, threads=2, **options):
    units = plan.units if units is None else units
    with ThreadPoolExecutor(threads) as executor:
        pool = ExecutorPool(executor, plan.sources, threads)
        return sweep.run(units, opened, lambda: pool, **options)


@pytest.fixture(scope="module")
def plan():
    return make_plan()


@pytest.fixture(scope="module")
def undisturbed(plan, tmp_path_factory):
    with Store(tmp_path_factory.mktemp("undisturbed") / "results.sqlite") as opened:
        report = run_units(plan, opened)
        assert not report.failed
        return read_rows(opened)


# --- plans -----------------------------------------------------------------------------------


def test_every_combination_is_a_unit_once_with_its_guess_reference_and_twin(plan):
    noisy = [u for u in plan.units if u.epsilon is not None]
    combinations = {(u.mechanism.id, u.epsilon, u.seed) for u in noisy}
    # The guess beside the three is private too, so it has their epsilons.
    assert {id for id, *_ in combinations} == {"input-flip", "gradient", "output", BASELINE}
    assert len(noisy) == len(combinations) == 4 * 3 * 2
    without_epsilon = [(u.mechanism.id, u.seed) for u in plan.units if u.epsilon is None]
    # Gradient perturbation has no iterations to share, so its twin is the default one.
    assert sorted(without_epsilon) == sorted(
        2 * [("clear", 1), ("clear", 2)] + [(REFERENCE, 1), (REFERENCE, 2)]
    )
    assert len({u.key for u in plan.units}) == len(plan.units)
    assert len(plan.keys.curves) == 4 + 3


def test_the_curve_is_seen_early_and_then_filled():
    assert list(grids.order_coarse_to_fine([5, 1, 2, 4, 3, 3])) == [1, 5, 3, 2, 4]
    assert list(grids.order_coarse_to_fine([7])) == [7]
    assert list(grids.order_coarse_to_fine([])) == []
    for count in range(1, 30):
        assert sorted(grids.order_coarse_to_fine(range(count))) == list(range(count))
    plan = make_plan(epsilons=[1.0, 2.0, 3.0, 4.0])
    epsilons = [u.epsilon for u in plan.units if u.mechanism.id == "input-flip"]
    assert epsilons == [1.0, 4.0, 2.0, 3.0] * 2
    first = [u.mechanism.id for u in plan.units].index("input-flip")
    assert {u.mechanism.id for u in plan.units[:first]} == {BASELINE, REFERENCE, "clear"}


def test_settings_reach_the_mechanisms_that_have_them():
    settings = {"radius": ["0.5", "1"], "bound": ["none", "1"]}
    settings["output.bound"] = ["0.2"]  # none would not do
    plan = make_plan(settings=settings, epsilons=[1.0], seeds=[1])
    combined_settings = {
        (u.mechanism.id, u.mechanism.radius, u.mechanism.bound)
        for u in plan.units
        if u.epsilon is not None and u.mechanism.id != BASELINE
    }
    combinations = set(itertools.product(("input-flip", "gradient"), (0.5, 1.0), (None, 1.0)))
    assert combined_settings == combinations | {("output", 0.5, 0.2), ("output", 1.0, 0.2)}


def test_everything_that_decides_a_result_is_in_its_key():
    def key(**changes):
        options = {"mechanisms": ["input-flip"], "epsilons": [1.0], "seeds": [1], "settings": {}}
        options |= changes
        units = make_plan(**options).units
        (unit_key,) = [u.key for u in units if u.mechanism.id in options["mechanisms"]]
        return unit_key

    variants = [
        key(),
        key(sources=[make_source(seed=4)]),
        key(sources=[make_source(times=False)]),
        key(sources=[make_pair()]),
        key(steps=["binarise=3"]),
        key(split=LeaveLast()),
        key(mechanisms=["objective"]),
        key(settings={"radius": ["0.6"]}),
        key(settings={"estimator": ["published"]}),
        key(epsilons=[1.1]),
        key(seeds=[2]),
    ]
    assert len(set(variants)) == len(variants)
    assert key(settings={"radius": ["0.70"]}) == key(steps=["binarise=middle"]) == key()
    assert key(epsilons=[1]) == key()


def test_a_raised_revision_is_another_unit(monkeypatch):
    before = {u.key: u.mechanism.id for u in make_plan(mechanisms=["input-flip"]).units}
    monkeypatch.setattr(registry.get_mechanism("input-flip"), "revision", 99)
    after = {u.key: u.mechanism.id for u in make_plan(mechanisms=["input-flip"]).units}
    assert len(before) == len(after)
    assert {before[key] for key in before.keys() & after.keys()} == {BASELINE, REFERENCE, "clear"}
    assert {before[key] for key in before.keys() - after.keys()} == {"input-flip"}


# --- rows ------------------------------------------------------------------------------------


def test_a_row_is_what_a_run_of_its_own_gives(plan, undisturbed):
    for id in ("input-flip", "gradient", "output"):
        (unit,) = [u for u in plan.units if (u.mechanism.id, u.epsilon, u.seed) == (id, 4.0, 2)]
        problem = build_problem(make_dataset(), unit.mechanism.task, seed=2)
        single_run = experiment.run(unit.mechanism, problem, 2).as_dict()
        row = undisturbed[unit.key]
        for name in ("mechanism", "revision", "settings", "seed", "metrics", "rounds"):
            assert row[name] == single_run[name]
        assert single_run["guarantee"].items() <= row["guarantee"].items()
        del single_run["data"]["name"]
        assert single_run["data"].items() <= row["data"].items()


def test_what_is_certified_in_every_unit_is_stored(plan, undisturbed):
    for unit in plan.units:
        units = undisturbed[unit.key]["guarantee"]["units"]
        if unit.mechanism.id == "output":
            assert units["user_replace"] == units["value"] > unit.epsilon
        elif unit.epsilon is not None:
            assert units["value"] == pytest.approx(unit.epsilon)
            assert units["user_empty"] is None
            assert "public" in undisturbed[unit.key]["guarantee"]["reasons"]["user_empty"]
        else:
            assert set(units.values()) == {None}


def test_all_mechanisms_of_a_seed_share_its_split(undisturbed):
    by_seed = {}
    for row in undisturbed.values():
        by_seed.setdefault(row["seed"], set()).add(row["data"]["fingerprint"])
    assert sorted(map(len, by_seed.values())) == [1, 1]
    assert by_seed[1] != by_seed[2]


def test_rows_do_not_depend_on_order_threads_or_what_else_runs(undisturbed, opened):
    grown = make_plan(
        mechanisms=["objective", "output", "gradient", "input-flip"],
        epsilons=[0.5, 0.7, 1.0, 4.0],
        seeds=[3, 2, 1],
    )
    assert not run_units(grown, opened, units=grown.units[::-1], threads=3).failed
    rows = read_rows(opened)
    assert {key: rows[key] for key in undisturbed} == undisturbed
    assert len(rows) == len(grown.units) > len(undisturbed)


def test_rows_do_not_depend_on_the_executor(plan, undisturbed, opened):
    results = []
    options = {"on_progress": lambda r: results.append((r.done, r.total))}
    report = sweep.run(plan.units, opened, lambda: sweep.LocalPool(plan.sources, 2), **options)
    assert (report.done, report.failed, report.skipped) == (len(plan.units), {}, 0)
    assert read_rows(opened) == undisturbed
    assert results[0] == (0, len(plan.units))
    assert results == sorted(results)


def test_workers_read_the_same_memory_and_cannot_write_it():
    """Also of a pair; the memory has no name, so that nobody's ratings stay where one is killed."""
    sources = {source.fingerprint: source for source in (make_source(), make_pair())}
    shared_folders = {Path(tempfile.gettempdir()), Path("/dev/shm")} & set(Path("/").glob("*/*"))
    before = {path: set(path.iterdir()) for path in shared_folders}
    shared = engine.SharedSources(sources, engine._get_process_context())
    first, second = shared.open(), shared.open()
    for mark, source in sources.items():
        data = [sources[mark].for_seed(1) for sources in (first, second)]
        first_ratings, second_ratings = (d[0] if isinstance(d, tuple) else d.ratings for d in data)
        assert first[mark].fingerprint == source.fingerprint
        for name in ("users", "items", "values"):
            assert np.shares_memory(getattr(first_ratings, name), getattr(second_ratings, name))
            assert not getattr(first_ratings, name).flags.writeable
    for path, files_before in before.items():
        segment_files = {file for file in set(path.iterdir()) - files_before if "pym" in file.name}
        assert not {file for file in segment_files if file.is_file()}


def test_of_many_ratings_a_process_keeps_one_split(monkeypatch):
    monkeypatch.setattr(engine, "_LARGE", 10)
    monkeypatch.setattr(engine, "_problems", engine.RecentCache(4))
    source = make_source()
    plan = make_plan(sources=[source], seeds=[1, 2, 3])
    for unit in plan.units:
        sweep.run_unit_locally(unit, source)
        assert len(engine._problems._cached) == 1


def test_every_task_is_split_as_a_single_run_of_it(opened):
    plan = make_plan(mechanisms=["popularity", "majority"], epsilons=[], seeds=[1], settings={})
    assert not run_units(plan, opened).failed
    for row in read_rows(opened).values():
        task = Task(row["task"])
        single_problem = build_problem(make_dataset(), task, seed=1)
        assert row["data"]["split"] == single_problem.split
        assert row["data"]["fingerprint"] == single_problem.train.fingerprint
    assert {row["task"] for row in read_rows(opened).values()} == {"ranking", "binary"}


# --- what may be shared between units ----------------------------------------------------------


def test_output_perturbation_alone_may_share_its_solve():
    """A start from another's solution is an access to the raw ratings that no release covers."""
    sharing = [
        id
        for id, cls in registry.MECHANISMS.items()
        if isinstance(registry.create(id, epsilon=1.0, delta=1e-6), AddsNoiseLast)
        or hasattr(cls, "solve_without_noise")
    ]
    assert sharing == ["output"]


def test_a_poisoned_solve_reaches_output_perturbation_alone(plan, undisturbed, opened, monkeypatch):
    def poisoned(*_):
        return [(Step(1, 1, None, final=True), Constant(-1.0))]

    monkeypatch.setattr(engine, "share_solve", poisoned)
    run_units(plan, opened)
    rows = read_rows(opened)
    changed = {rows[key]["mechanism"] for key in rows if rows[key] != undisturbed[key]}
    assert changed == {"output"}


def test_one_solve_serves_every_epsilon_and_seed_of_a_split(opened, monkeypatch):
    cls, solves = registry.get_mechanism("output"), []
    solve = cls.solve_without_noise

    def counted(self, ratings):
        solves.append(ratings.fingerprint)
        yield from solve(self, ratings)

    monkeypatch.setattr(cls, "solve_without_noise", counted)
    pair = make_plan(sources=[make_pair()], mechanisms=["output"], settings={})
    run_units(pair, opened)
    assert len(solves) == 1
    split = make_plan(mechanisms=["output"], settings={}, seeds=[11, 12])
    run_units(split, opened)
    assert len(solves) == 1 + 2  # one for each split


def test_a_shared_solve_is_published_once_and_equals_a_solve_of_its_own():
    problem = build_problem(make_dataset(), registry.get_mechanism("output").task, seed=5)
    mechanism = registry.create("output", epsilon=2.0, iterations=6)
    with record_publications() as published:
        fitted = experiment.fit(mechanism, problem, 5, solve=engine.share_solve)
    assert [publication.release.query for publication in published] == ["completed matrix"]
    single_run = experiment.measure(experiment.fit(mechanism, problem, 5))
    assert experiment.measure(fitted).metrics == single_run.metrics
    assert fitted.trace == single_run.trace


def test_two_radii_of_a_sweep_have_a_solve_each(opened):
    """Planted bug: the solve kept without its settings, so the second radius gets the first's."""
    plan = make_plan(
        mechanisms=["output"], epsilons=[50.0], settings={"output.radius": ["0.1", "2"]}, seeds=[1]
    )
    run_units(plan, opened)
    rows = [row for row in read_rows(opened).values() if row["mechanism"] == "output"]
    assert len(rows) == 2
    rounds = {}
    for row in rows:
        radius = row["settings"]["radius"]
        mechanism = registry.create("output", epsilon=50.0, radius=radius)
        problem = build_problem(make_dataset(), mechanism.task, seed=1)
        single_run = experiment.measure(experiment.fit(mechanism, problem, 1))
        assert row["metrics"] == single_run.metrics
        assert row["rounds"] == single_run.rounds
        rounds[radius] = single_run.rounds
    assert len(set(rounds.values())) == 2  # a mixed-up solve would show


# --- trouble ---------------------------------------------------------------------------------


def test_what_is_there_is_not_run_again(plan, undisturbed, opened):
    run_units(plan, opened, units=plan.units[3:8])
    report = run_units(plan, opened)
    assert (report.skipped, report.done) == (5, len(plan.units) - 5)
    assert read_rows(opened) == undisturbed
    outcome = sweep.run(plan.units, opened, lambda: pytest.fail("there is nothing to do"))
    assert (outcome.skipped, outcome.done, outcome.failed) == (len(plan.units), 0, {})


def test_stopping_keeps_what_is_finished(plan, undisturbed, opened):
    finished = []
    options = {"on_progress": lambda r: finished.append(r.done)}
    report = run_units(plan, opened, stop=lambda: finished[-1:] >= [3], **options)
    assert report.stopped
    stored_rows = read_rows(opened)
    assert 3 <= len(stored_rows) < len(plan.units)
    assert not run_units(plan, opened).stopped
    assert read_rows(opened) == undisturbed


def test_a_unit_that_fails_takes_no_other_with_it(plan, undisturbed, opened, monkeypatch):
    real = experiment.fit

    def broken(mechanism, *args, **options):
        if mechanism.id == "gradient":
            raise InvalidSetting("clamp", "> 0", -1)
        if mechanism.id == "output" and mechanism.epsilon == 4.0:
            raise ZeroDivisionError("a fault")
        return real(mechanism, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(experiment, "fit", broken)
        report = run_units(plan, opened)
    reasons = {str(unit): reason for unit, reason in report.failed.items()}
    assert len(reasons) == 6 + 2
    assert reasons["gradient on tiny at epsilon 0.5, seed 1"] == "clamp must be > 0, got -1"
    assert reasons["output on tiny at epsilon 4, seed 2"].startswith("unexpected ZeroDivisionError")
    assert len(read_rows(opened)) == len(plan.units) - 8
    run_units(plan, opened)
    assert read_rows(opened) == undisturbed


class Fragile:
    """A pool that breaks whenever one of some units runs in it, like a worker out of memory.

    The others take a moment, so that a killer always strikes those that run beside it.
    """

    def __init__(self, plan, killers):
        self.plan, self.killers, self.size, self.broken = plan, killers, 2, False
        self.lock, self.running = threading.Lock(), {}

    def submit(self, unit):
        if self.broken:
            raise BrokenProcessPool("broken before")
        with self.lock:
            future = self.running[unit.key] = Future()
            if self.killers & self.running.keys():
                self.broken = True
                for running_future in self.running.values():
                    running_future.set_exception(BrokenProcessPool("a process ended abruptly"))
                self.running.clear()
            else:
                threading.Timer(0.02, self._finish, [unit]).start()
        return future

    def _finish(self, unit):
        with self.lock:
            if unit.key in self.running:
                outcome = engine.run_unit(unit, self.plan.sources[unit.source])
                self.running.pop(unit.key).set_result(outcome)

    def close(self, *, at_once):
        assert at_once or not self.running


def test_a_unit_that_kills_its_worker_is_given_up_alone(plan, undisturbed, opened):
    killer = plan.units[5]
    opening = []

    def open_pool():
        opening.append(Fragile(plan, {killer.key}))
        return opening[-1]

    report = sweep.run(plan.units, opened, open_pool)
    assert list(report.failed) == [killer]
    assert f"was killed {MAX_LOSSES_TOGETHER + MAX_LOSSES_ALONE} times" in report.failed[killer]
    assert len(opening) == MAX_LOSSES_TOGETHER + MAX_LOSSES_ALONE + 1
    rows = read_rows(opened)
    assert rows == {key: row for key, row in undisturbed.items() if key != killer.key}


def test_many_killers_are_given_up_one_by_one(plan, undisturbed, opened):
    killers = {unit.key for unit in plan.units[4:14]}
    report = sweep.run(plan.units, opened, lambda: Fragile(plan, killers))
    assert {unit.key for unit in report.failed} == killers
    assert read_rows(opened).keys() == undisturbed.keys() - killers


def test_a_pool_that_never_works_is_given_up(plan, opened):
    class Dead(Fragile):
        def submit(self, unit):  # noqa: ARG002
            raise BrokenExecutor("no process starts")

    with pytest.raises(DpmcError, match=f"ended {MAX_BREAKS} times before any unit was through"):
        sweep.run(plan.units, opened, lambda: Dead(plan, set()))


def test_a_lost_cluster_is_not_waited_for(plan, undisturbed, opened):
    """One unit is told that it was dropped; the one handed over after that never answers."""

    class CutOff(Fragile):
        def submit(self, unit):  # noqa: ARG002
            future = Future()
            if not self.running:
                self.running["first"] = future
                future.cancel()
                future.set_running_or_notify_cancel()
            return future

        def close(self, *, at_once):
            assert at_once

    pools = [CutOff(plan, set()), Fragile(plan, set())]
    report = sweep.run(plan.units, opened, lambda: pools.pop(0))
    assert not pools
    assert not report.failed
    assert read_rows(opened) == undisturbed


def test_rows_wait_while_the_store_is_locked(plan, undisturbed, opened):
    opened.connection.execute("PRAGMA busy_timeout = 20")
    connection = sqlite3.connect(opened.path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    notes = []

    def progress(report):
        notes.append(report.note)
        assert (report.done == 0) == connection.in_transaction
        if report.note.endswith(f"waiting with {len(plan.units)} finished rows"):
            connection.execute("COMMIT")

    report = run_units(plan, opened, on_progress=progress)
    connection.close()
    assert any("locked by another program; waiting with " in note for note in notes)
    assert report.note == ""
    assert read_rows(opened) == undisturbed


def test_a_store_that_stays_locked_is_a_sentence(plan, undisturbed, opened):
    run_units(plan, opened, units=plan.units[:4])
    opened.connection.execute("PRAGMA busy_timeout = 20")
    connection = sqlite3.connect(opened.path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    lost = len(plan.units) - 4
    message = f"stayed locked by another program, so {lost} finished rows could not be"
    with pytest.raises(StoreError, match=message):
        run_units(plan, opened, patience=0.2)
    connection.execute("ROLLBACK")
    connection.close()
    assert len(read_rows(opened)) == 4
    run_units(plan, opened)
    assert read_rows(opened) == undisturbed


def test_what_is_told_is_what_the_store_has(plan, undisturbed, opened, monkeypatch):
    """Also while another sweep writes, and in the moment of the stop."""
    monkeypatch.setattr(engine, "POLL_PAUSE_FACTOR", 0)
    other_records = [compute_single_record(plan, opened.path, unit) for unit in plan.units[8:20]]
    messages, stored_counts = [], []

    def progress(report):
        messages.append(report.done + report.skipped)
        stored_counts.append(len(read_rows(opened)))
        with Store(opened.path) as other_store:  # as another sweep does, between two looks
            other_store.add(other_records[:2])
            del other_records[:2]

    options = {"on_progress": progress, "stop": lambda: stored_counts[-1:] >= [12]}
    report = sweep.run(plan.units, opened, lambda: InProcessPool(plan.sources), **options)
    assert messages == stored_counts
    assert report.stopped
    assert (report.done > 2, report.skipped > 2) == (True, True)
    del other_records[:]
    pool = InProcessPool(plan.sources)
    report = sweep.run(plan.units, opened, lambda: pool, on_progress=progress)
    assert messages == stored_counts
    assert report.done + report.skipped == len(plan.units)
    assert read_rows(opened) == undisturbed


def compute_single_record(plan, path, unit):
    """Compute the row of one unit in a store of its own."""
    with Store(path.with_name(f"{unit.key}.sqlite")) as new_store:
        run_units(plan, new_store, units=[unit])
        return next(store.iterate_records(new_store))


def test_a_full_disk_stops_the_sweep_and_loses_nothing(plan, undisturbed, opened):
    run_units(plan, opened, units=plan.units[:4])
    pages = opened.connection.execute("PRAGMA page_count").fetchone()[0]
    opened.connection.execute(f"PRAGMA max_page_count = {pages}")
    # The free room of the pages there are takes a few more rows at most.
    with pytest.raises(StoreError, match=r"full disk.*finished row.* could not be written"):
        run_units(plan, opened)
    stored_rows = read_rows(opened)
    assert 4 <= len(stored_rows) < len(plan.units)
    assert stored_rows.items() <= undisturbed.items()
    opened.connection.execute("PRAGMA max_page_count = 100000")
    run_units(plan, opened)
    assert read_rows(opened) == undisturbed


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="asks for the cores it may use")
def test_there_are_as_many_processes_as_cores_that_may_be_used(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 5, 9})
    assert engine.resolve_jobs(None) == 3


def test_a_curve_has_its_first_point_before_the_floors_of_all_others():
    """With a floor that has an epsilon too: at every moment both reach equally far."""
    epsilons = [0.1, 0.3, 1.0, 3.0, 10.0]
    grid_options = {"data": ["restaurants"], "mechanisms": ["private-taste"], "seeds": [1, 2]}
    units = sweep.build_plan(sweep.Grid(**grid_options, epsilons=epsilons)).units
    noisy = [(unit.mechanism.id, unit.epsilon) for unit in units if unit.epsilon is not None]
    assert [epsilon for _, epsilon in noisy[:4]] == [0.1, 0.1, 10.0, 10.0]
    assert [id for id, _ in noisy[:4]] == ["private-popularity", "private-taste"] * 2
    assert len(noisy) == 2 * 2 * len(epsilons)


@pytest.mark.skipif(not locks.AVAILABLE, reason="needs file locks")
def test_what_another_process_has_claimed_is_waited_for_and_taken_over(plan, undisturbed, opened):
    code = (
        "import sys; from dpmc_lab.store import Store\n"
        "with Store(sys.argv[1]) as store, store.claims() as claims:\n"
        "    print(*map(claims.take, sys.argv[2:]), flush=True); sys.stdin.read()"
    )
    keys = [unit.key for unit in plan.units[:2]]
    other_process = subprocess.Popen(
        [sys.executable, "-c", code, str(opened.path), *keys],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other_process.stdout.readline() == "True True\n"
    notes = []

    def progress(report):
        notes.append((report.note, report.done))
        if report.note:
            other_process.kill()  # whatever way it ends

    report = run_units(plan, opened, on_progress=progress)
    other_process.communicate()
    waited = [n_done for note, n_done in notes if "another sweep" in note]
    assert set(waited) == {len(plan.units) - 2}
    assert (report.done, report.skipped, report.note) == (len(plan.units), 0, "")
    assert read_rows(opened) == undisturbed


def test_one_can_stop_waiting_for_another_sweep(plan, opened, monkeypatch):
    monkeypatch.setattr(locks.Claims, "take", lambda *_: False)
    notes = []
    options = {"on_progress": lambda r: notes.append(r.note), "stop": lambda: notes[1:]}
    assert run_units(plan, opened, **options).stopped
    assert not read_rows(opened)


def test_a_unit_that_fails_is_free_for_others(plan, opened, monkeypatch):
    """Two sweeps that each kept what has failed could wait for each other forever."""
    dropped = []
    monkeypatch.setattr(locks.Claims, "drop", lambda _, key: dropped.append(key))
    monkeypatch.setattr(experiment, "fit", lambda *_, **__: 1 / 0)
    assert len(run_units(plan, opened).failed) == len(plan.units)
    assert sorted(dropped) == sorted(unit.key for unit in plan.units)
