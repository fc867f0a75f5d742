"""Limits follow the free memory, and refusals say so."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from dpmc_core.errors import BadRatings
from dpmc_data import load, memory
from dpmc_data.source import ReadOptions

TEXT = "user,item,rating\n" + "".join(
    f"p{k},i{j},{k % 5 + 1}\n" for k in range(9) for j in range(9)
)


@pytest.mark.parametrize(
    ("free", "n_bytes", "n_rows"),
    [(2_000_000_000, 100_000_000, 20_000_000), (40_000_000_000, 2_000_000_000, 400_000_000)],
)
def test_limits_are_in_proportion_to_the_free_memory(
    free: int, n_bytes: int, n_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "measure_free_memory", lambda: free)
    assert (ReadOptions().max_bytes, ReadOptions().max_rows) == (n_bytes, n_rows)
    assert ReadOptions(max_bytes=5, max_rows=7).max_rows == 7  # what is given holds


def test_refusals_name_the_limit_and_the_free_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(TEXT)
    load(path, low=1, high=5)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(TEXT.encode()))
    monkeypatch.setattr(memory, "measure_free_memory", lambda: 4_000)  # 200 bytes, 40 rows
    reason = "with 0 MB of free memory"
    problems = {"a.csv": "the limit is 0.0002 MB", "a.csv.gz": "more than 200 bytes"}
    for name, problem in problems.items():
        with pytest.raises(BadRatings, match=f"{problem} {reason}"):
            load(tmp_path / name, low=1, high=5)
    with pytest.raises(BadRatings, match=f"more than 40 rows, the limit {reason}"):
        load(path, low=1, high=5, max_bytes=10_000)
    with pytest.raises(BadRatings, match="more than 2 rows, the limit: use"):
        load(path, low=1, high=5, max_bytes=10_000, max_rows=2)


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, None),
        ({"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:  5000 kB\n"}, 5_120_000),
        ({"proc/self/cgroup": "0::/a\n", "a/memory.max": "max", "proc/meminfo": ""}, None),
        (
            {
                "proc/meminfo": "MemAvailable:  5000 kB\n",
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/memory.max": "900000",  # around the group, whose own is no limit
                "sys/fs/cgroup/a/memory.current": "700000",
                "sys/fs/cgroup/a/memory.stat": "anon 5\ninactive_file 100000\n",
                "sys/fs/cgroup/a/b/memory.max": "max",
            },
            300_000,
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/x\n1:cpu:/x\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "900000",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "700000",
                "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 50000\n",
            },
            250_000,
        ),
    ],
)
def test_free_memory_is_that_of_the_machine_and_of_its_container(
    files: dict[str, str], free: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(memory.os, "sysconf", raising=False)
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert memory.measure_free_memory(tmp_path) == (memory.REFERENCE if free is None else free)


def test_whoever_reads_a_file_can_watch_it(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    path = tmp_path / "a.csv"
    path.write_text("user,item,rating\n" + "".join(f"u{k // 9},i{k % 9},3\n" for k in range(1800)))
    load(path, lambda *now: calls.append(now), low=1, high=5)
    assert calls[-1] == (path.stat().st_size, path.stat().st_size)
