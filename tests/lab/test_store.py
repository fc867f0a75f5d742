"""The result store: nothing stored is ever lost, and every trouble is a sentence."""

import csv
import errno
import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from dpmc_core import registry
from dpmc_core.errors import DpmcError, InvalidSetting
from dpmc_core.ratings import PublicFacts
from dpmc_lab import store
from dpmc_lab.store import Store, StoreError, StoreLocked
from dpmc_lab.sweep import Grid, build_plan
from tests.store_helpers import (
    drop_privileges,
    make_record,
    mount_small_disk,
    needs_modes,
    open_folder,
)
from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new" / "results.sqlite"


@pytest.fixture
def opened(path):
    with Store(path) as new_store:
        yield new_store


def read_records(opened):
    return list(store.iterate_records(opened))


def test_a_record_comes_back_as_it_went_in(opened):
    records = [make_record(), make_record("majority", None), make_record(epsilon=2.5, seed=7)]
    records[1]["guarantee"]["reasons"] = {"value": "no noise"}
    assert opened.add(records) == 3
    by_key = {record.pop("key"): record for record in read_records(opened)}
    for expected_record in records:
        stored_record = by_key[expected_record.pop("key")]
        assert stored_record.pop("finished").endswith("+00:00")
        assert stored_record == expected_record


def test_a_unit_that_is_there_stays_as_it_is(opened):
    first = make_record(accuracy=0.6)
    assert opened.add([first, make_record(seed=2)]) == 2
    assert opened.add([make_record(accuracy=0.1), make_record(seed=3)]) == 1
    assert opened.find_stored_keys([first["key"], "other"]) == {first["key"]}
    assert [r["metrics"]["accuracy"] for r in read_records(opened)] == [0.6, 0.6, 0.6]


def test_many_keys_are_looked_up_in_parts(opened):
    rows = [make_record(seed=seed) for seed in range(1, 1203)]
    opened.add(rows)
    keys = [row["key"] for row in rows]
    assert opened.find_stored_keys([*keys, "x", "y"]) == set(keys)


def test_rows_are_written_all_or_none(opened):
    wrong = make_record(seed=2)
    wrong["metrics"] = {"fame": 1.0}
    with pytest.raises(DpmcError, match="no column for the metric fame"):
        opened.add([make_record(seed=1), wrong])
    broken = make_record(seed=3)
    broken["rounds"] = None
    with pytest.raises(StoreError):
        opened.add([make_record(seed=4), broken])
    assert read_records(opened) == []
    assert opened.add([make_record(seed=5)]) == 1


def test_curves_collect_what_differs_in_epsilon_and_seed_only(opened):
    other_record = make_record(seed=2)
    other_record["settings"] = other_record["settings"] | {"radius": 0.5}
    revision = registry.get_mechanism("input-flip").revision
    newer = make_record(seed=3, revision=revision + 1)
    elsewhere = make_record(seed=4)
    elsewhere["data"] = elsewhere["data"] | {"source": "6" * 16, "name": "moons"}
    for k, row in enumerate((other_record, newer, elsewhere)):
        row["key"] = f"key {k}"
    opened.add([make_record(epsilon=e, seed=s) for e in (1.0, 2.0) for s in (1, 2, 3)])
    opened.add([other_record, newer, elsewhere])
    curves = store.list_curves(opened)
    assert [info.rows for info in curves] == [6, 1, 1, 1]
    assert "epsilon" not in curves[0].settings
    assert curves[0].public == PublicFacts(users=40, items=30, low=-1, high=1)
    assert [info.name for info in store.list_curves(opened, data="moons")] == ["moons"]
    assert len(store.list_curves(opened, mechanism="input-flip", source="5" * 16)) == 3
    assert store.list_curves(opened, keys=[curves[1].key])[0].settings["radius"] == 0.5
    data = "5" * 16, ["binarise=mean"], "a random 0.2 of the ratings"
    settings = store.drop_epsilon(make_record()["settings"])
    assert curves[0].key == store.unit_key(*data, "input-flip", revision, settings)


def test_points_are_the_values_of_the_lowest_seeds(opened):
    keys = [(e, s) for s in (5, 3, 1) for e in (2.0, 1.0)]
    opened.add([make_record(epsilon=e, seed=s, accuracy=s / 10) for e, s in keys])
    (info,) = store.list_curves(opened)
    points = store.load_points(opened, info.id, "accuracy", seeds=2)
    assert list(points.items()) == [((e, s), s / 10) for e in (1.0, 2.0) for s in (1, 3)]
    points = store.load_points(opened, info.id, "accuracy", seeds=[9, 5])
    assert points == {(1.0, 5): 0.5, (2.0, 5): 0.5}
    assert store.load_points(opened, info.id, "rmse") == {}
    with pytest.raises(InvalidSetting, match="did you mean accuracy"):
        store.load_points(opened, info.id, "acuracy")


def test_what_is_certified_comes_with_its_reasons(opened):
    opened.add([make_record(epsilon=e, seed=s) for e in (2.0, 1.0) for s in (1, 2)])
    (info,) = store.list_curves(opened)
    claims = store.load_claims(opened, info.id)
    first, second = claims.values()
    assert (list(claims), first.claimed, first.change.unit) == ([1.0, 2.0], 1.0, "value")
    units = [second.units[name] for name in ("value", "row_values", "entry")]
    assert units == [2.0, 60.0, None]
    assert second.reasons == {"entry": "the pattern is public"}


def test_prune_takes_rows_and_what_only_they_used(opened):
    opened.add([make_record(epsilon=e, seed=s) for e in (1.0, 2.0) for s in (1, 2)])
    opened.add([make_record("majority", None)])
    first, second = store.list_curves(opened)
    assert opened.prune([first.id], dry=True) == 4
    assert len(read_records(opened)) == 5
    assert opened.prune([first.id]) == 4
    assert [info.key for info in store.list_curves(opened)] == [second.key]
    cards = opened.connection.execute("SELECT COUNT(*) FROM card").fetchone()[0]
    assert cards == 1


# --- stores of earlier versions ----------------------------------------------------------------


@pytest.fixture
def old(tmp_path):
    """A store as version 1 of the tables was written."""
    path = tmp_path / "store-v1.sqlite"
    path.write_bytes((ROOT / "tests" / "fixtures" / path.name).read_bytes())
    return path


@pytest.mark.parametrize("read_only", [True, False])
def test_an_older_store_is_refused_in_a_sentence_and_never_altered(old, read_only):
    before = old.read_bytes()
    with pytest.raises(StoreError, match="is from an older version of this program"):
        Store(old, read_only=read_only)
    assert old.read_bytes() == before
    assert [path.name for path in old.parent.iterdir()] == [old.name]


def test_the_keys_of_units_are_those_of_an_older_store(old):
    """Planted bug: a key that depends on how a grid is written down.

    What stands beside a method has changed since, and so has the revision of input perturbation.
    """
    mechanism_ids = ("output", "clear", "majority")
    grid = {"data": ["movie-night"], "mechanisms": ["input-flip", *mechanism_ids]}
    grid |= {"epsilons": [1, 4], "seeds": [1, 2], "steps": ["binarise=mean"]}
    units = build_plan(Grid(**grid)).units
    selected = [unit for unit in units if unit.mechanism.id in mechanism_ids]
    assert len(selected) == 2 * 2 + 2 + 2
    with closing(sqlite3.connect(old)) as opened:
        rows, curves = (
            {key for (key,) in opened.execute(f"SELECT key FROM {table}")}
            for table in ("result", "curve")
        )
    assert rows & {unit.key for unit in units} == {unit.key for unit in selected}
    assert curves >= {unit.curve_key for unit in selected}


# --- files -----------------------------------------------------------------------------------


def test_an_export_holds_every_row(opened, tmp_path):
    opened.add([make_record(epsilon=e, seed=s) for e in (1.0, 2.0) for s in (1, 2)])
    data = make_record()["data"] | {"title": "=1+1", "name": "-5"}
    opened.add([make_record("majority", None, data=data)])
    curves = store.list_curves(opened)
    assert store.write_file(opened, curves, tmp_path / "rows.csv") == 5
    with (tmp_path / "rows.csv").open(newline="") as file:
        text = list(csv.DictReader(file))
    assert [float(row["metrics.accuracy"]) for row in text] == [
        row["metrics"]["accuracy"] for row in read_records(opened)
    ]
    assert [row["settings.epsilon"] for row in text] == ["1.0", "1.0", "2.0", "2.0", ""]
    assert text[0]["guarantee.units.row_values"] == "30.0"
    assert [row["data.title"] for row in text[3:]] == ["Stars", "'=1+1"]  # no spreadsheet runs it
    assert text[4]["data.name"] == "-5"  # a number, and no formula
    assert json.loads(text[0]["guarantee.caveats"]) == ["one", "two"]
    assert {path.name for path in tmp_path.iterdir()} == {"new", "rows.csv"}


def test_an_export_is_complete_or_not_there_also_on_a_full_disk(opened, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    opened.add([make_record()])
    old, curves = tmp_path / "rows.csv", store.list_curves(opened)
    old.write_text("what was here")
    for fault, expected, message in (
        (lambda *_: 1 / 0, ZeroDivisionError, None),
        (full, DpmcError, r"rows\.csv could not be written: no space"),
    ):
        monkeypatch.setattr("dpmc_lab.store.iterate_records", fault)
        with pytest.raises(expected, match=message):
            store.write_file(opened, curves, old)
        assert old.read_text() == "what was here"
        assert {path.name for path in tmp_path.iterdir()} == {"new", "rows.csv"}


# --- trouble ---------------------------------------------------------------------------------


def test_a_newer_store_is_left_alone(path):
    with Store(path) as opened:
        opened.add([make_record()])
        opened.connection.execute(f"PRAGMA user_version = {store.VERSION + 1}")
    for read_only in (False, True):
        with pytest.raises(StoreError, match="from a newer version of this program"):
            Store(path, read_only=read_only)


def test_a_file_of_another_kind_is_left_alone(tmp_path):
    path = tmp_path / "mine.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE mine (x)")
    for content in (path.read_bytes(), b"user,item,rating\n" * 100, b"x"):
        path.write_bytes(content)
        with pytest.raises(StoreError, match="is not a result store"):
            Store(path)
        assert path.read_bytes() == content


def test_a_damaged_store_says_so(path):
    with Store(path) as opened:
        opened.add([make_record(seed=s) for s in range(1, 400)])
    content = bytearray(path.read_bytes())
    content[8192:] = os.urandom(len(content) - 8192)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="is damaged"), Store(path) as opened:
        read_records(opened)


def export_text(path):
    with Store(path, read_only=True) as opened, io.StringIO() as stream:
        store.write_csv(opened, store.list_curves(opened, count=False), stream)
        return stream.getvalue()


@pytest.fixture
def filled(path):
    """A store of three curves with recommendation lists."""
    with Store(path) as opened:
        opened.add(
            make_record(id, epsilon, seed, accuracy=0.5 + seed / 1000) | {"lists": [[seed]]}
            for id in ("input-flip", "objective", "output")
            for epsilon in (1.0, 2.0, 4.0)
            for seed in range(1, 9)
        )
    return path


def test_a_damaged_store_exports_the_same_text_or_says_so(filled):
    content, expected = filled.read_bytes(), export_text(filled)
    refused = 0
    for seed in range(150):
        draw, damaged = Random(seed), bytearray(content)
        for _ in range(draw.choice((1, 1, 3, 10))):
            damaged[draw.randrange(100, len(damaged))] = draw.randrange(256)
        filled.write_bytes(damaged)
        try:
            assert export_text(filled) == expected, seed
        except StoreError:
            refused += 1
    assert 20 < refused < 130


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("damage", [b"\0", b"\xfc"], ids=["empty", "not UTF-8"])
def test_a_store_that_cannot_be_opened_leaves_no_connection(filled, read_only, damage, monkeypatch):
    """From Python 3.13 on, a connection that nobody closes is a warning."""
    content = filled.read_bytes()
    start = content.index(b"CREATE TABLE") + 7
    filled.write_bytes(content[:start] + 40 * damage + content[start + 40 :])
    connections = []

    def connect(*args, connect=sqlite3.connect, **options):
        connections.append(connect(*args, **options))
        return connections[-1]

    monkeypatch.setattr(sqlite3, "connect", connect)
    with pytest.raises(StoreError):
        Store(filled, read_only=read_only)
    assert connections
    for connection in connections:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")


def read_export(opened):
    return store.write_csv(opened, store.list_curves(opened, count=False), io.StringIO())


READERS = {
    "curve": (store.list_curves, read_export),
    "card": (lambda opened: store.load_claims(opened, 1), read_export),
    "result": (
        lambda opened: store.load_points(opened, 1, "accuracy"),
        lambda opened: store.load_claims(opened, 1),
        lambda opened: store.load_top_lists(opened, 1),
        read_export,
    ),
    "shown": (lambda opened: store.load_top_lists(opened, 1),),
}


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("curve", "title = 'Other'"),
        ("curve", "high = high + 1"),
        ("card", "text = replace(text, 'Theorem 1', 'Theorem 2')"),
        ("result", "seconds = seconds + 1"),
        ("result", "accuracy = 0.7"),
        ("result", "checksum = NULL"),
        ("shown", "lists = '[[9]]'"),
    ],
)
def test_no_reader_takes_a_changed_row(filled, table, change):
    """Planted bug: a checksum that does not cover a column, or that a reader does not compare."""
    with closing(sqlite3.connect(filled)) as connection, connection:
        connection.execute(f"UPDATE {table} SET {change}")
    for read in READERS[table]:
        with pytest.raises(StoreError, match="differs from its checksum"), Store(filled) as opened:
            read(opened)


def test_rows_that_an_index_hides_are_missed(filled):
    with closing(sqlite3.connect(filled)) as connection, connection:
        index = "FROM sqlite_schema WHERE name = 'result_of_curve'"
        entry = connection.execute(f"SELECT * {index}").fetchone()
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(f"DELETE {index}")
    with Store(filled) as opened:  # the index does not learn of this row
        opened.add([make_record(seed=99)])
    with closing(sqlite3.connect(filled)) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", entry)
    with pytest.raises(StoreError, match="rows are missing"):
        export_text(filled)


def test_an_older_store_is_read_and_sealed_at_its_next_write(filled):
    expected = export_text(filled)
    with closing(sqlite3.connect(filled, isolation_level=None)) as connection:
        for table in ("curve", "card", "result", "shown"):
            connection.execute(f"ALTER TABLE {table} DROP COLUMN checksum")
        connection.execute("PRAGMA user_version = 1")
    assert export_text(filled) == expected
    with Store(filled) as opened:
        assert len(read_records(opened)) == 72
        assert opened.prune([1], dry=True) == 24
    with closing(sqlite3.connect(filled)) as connection:  # none of this has written anything
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    with Store(filled) as opened:
        assert opened.add([make_record("clear", None)]) == 1
        assert opened.prune([info.id for info in store.list_curves(opened, mechanism="clear")]) == 1
    assert export_text(filled) == expected
    with closing(sqlite3.connect(filled)) as connection, connection:
        connection.execute("UPDATE result SET rounds = 18 WHERE id = 5")
    with pytest.raises(StoreError, match="differs from its checksum"):
        export_text(filled)


def test_a_missing_store_is_not_made_by_reading(path):
    with pytest.raises(StoreError, match="'dpmc sweep' makes one"):
        Store(path, read_only=True)
    assert not path.exists()
    path.parent.mkdir()
    path.touch()  # begun by another program
    with pytest.raises(StoreError, match="'dpmc sweep' makes one"):
        Store(path, read_only=True)


@needs_modes
def test_a_read_only_folder_can_be_read_and_not_written():
    with open_folder() as folder:
        path = folder / "results.sqlite"
        with Store(path) as opened:
            opened.add([make_record()])
        path.chmod(0o444)
        folder.chmod(0o555)
        with drop_privileges():
            with Store(path, read_only=True) as reader:
                assert len(read_records(reader)) == 1
            with pytest.raises(StoreError, match="read-only"), Store(path) as writer:
                writer.add([make_record(seed=2)])
            with pytest.raises(StoreError, match="read-only"):
                Store(folder / "another.sqlite")
            with pytest.raises(StoreError, match="read-only"):
                Store(folder / "below" / "another.sqlite")


@needs_modes
def test_rows_of_a_killed_program_in_a_read_only_folder_are_not_passed_over():
    with open_folder() as folder:
        path, contents = folder / "results.sqlite", {}
        with Store(path) as opened:
            opened.add([make_record()])
            for file in (path, folder / "results.sqlite-wal"):
                contents[file] = file.read_bytes()  # as it is before the last program closes it
        for file, content in contents.items():
            file.write_bytes(content)
            file.chmod(0o444)
        folder.chmod(0o555)
        message = "rows that a killed program left in"
        with drop_privileges(), pytest.raises(StoreError, match=message):
            Store(path, read_only=True)


def fill_disk(opened):
    """Add rows until that fails; return how many went in, and the sentence."""
    for seed in range(1, 10_000):
        try:
            opened.add([make_record(seed=seed)])
        except StoreError as error:
            return seed - 1, str(error)
    raise AssertionError("nothing was full")


def test_a_full_disk_keeps_every_row_before_it(path):
    with Store(path) as opened:
        opened.connection.execute("PRAGMA max_page_count = 60")
        stored, error = fill_disk(opened)
        assert re.search("on a full disk.*every row stored before is kept", error)
    with Store(path) as opened:
        assert len(read_records(opened)) == stored > 0
        assert opened.add([make_record(seed=stored + 1)]) == 1


@pytest.mark.slow
def test_a_full_file_system_keeps_every_row_before_it(tmp_path):
    with mount_small_disk(tmp_path, "500k") as small:
        path = small / "results.sqlite"
        with Store(path) as opened:
            stored, error = fill_disk(opened)
            assert "full" in error
        with Store(path, read_only=True) as opened:
            assert len(read_records(opened)) == stored > 0


def test_a_locked_store_says_so_and_takes_rows_again_later(path, monkeypatch):
    monkeypatch.setattr(store, "WAIT", 0.1)
    with Store(path) as opened:
        opened.add([make_record()])
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreLocked, match="locked by another program"):
            opened.add([make_record(seed=2)])
        assert len(read_records(opened)) == 1  # reading goes on
        connection.execute("COMMIT")
        connection.close()
        assert opened.add([make_record(seed=2)]) == 1


WRITER = """
import itertools, sys
from tests.store_helpers import make_record
from dpmc_lab.store import Store
with Store(sys.argv[1]) as opened:
    seeds = itertools.count(int(sys.argv[2]), int(sys.argv[3]))
    for seed in itertools.islice(seeds, int(sys.argv[4])):
        row = make_record(seed=seed)
        opened.add([row])
        print(row["key"], flush=True)
"""


def start_writer(path, start, step, rows=1_000_000):
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, *map(str, (path, start, step, rows))],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_programs_that_make_the_same_store_at_once_all_can(path):
    for k in range(2):
        store_path = path.with_name(f"{k} ? # %20.sqlite")
        children = [start_writer(store_path, start, 4, 3) for start in (1, 2, 3, 4)]
        for child in children:
            out, err = child.communicate(timeout=PATIENCE_SECONDS)
            assert (child.returncode, err, len(out.split())) == (0, "", 3)
        with Store(store_path, read_only=True) as opened:
            assert len(read_records(opened)) == 12


@pytest.mark.slow
def test_rows_of_killed_writers_are_kept(path):
    """Two programs write at the same time, and both are killed without warning."""
    children = [start_writer(path, start, 2) for start in (1, 2)]
    for child in children:
        assert child.stdout.readline()  # it is at work
    time.sleep(0.3)
    for child in children:
        child.send_signal(getattr(signal, "SIGKILL", signal.SIGTERM))
    lines = [line for child in children for line in child.communicate()[0].split("\n")]
    printed_keys = {line for line in lines if len(line) == 32}
    with Store(path) as opened:
        stored_keys = {row["key"] for row in read_records(opened)}
        assert printed_keys <= stored_keys
        assert len(printed_keys) >= 2
        check = opened.connection.execute("PRAGMA integrity_check").fetchone()[0]
    assert check == "ok"


def test_an_export_needs_a_known_kind_and_a_folder(opened, tmp_path):
    with pytest.raises(InvalidSetting, match=r"named \.csv"):
        store.write_file(opened, [], tmp_path / "rows.xls")
    with pytest.raises(DpmcError, match="there is no folder"):
        store.write_file(opened, [], tmp_path / "none" / "rows.csv")
