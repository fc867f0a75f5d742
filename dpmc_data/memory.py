"""Limits that follow the free memory of the machine, or of the container that the program is in."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

MEGABYTE = 1_000_000
# With so much free memory the usual limits hold. 86 million ratings need less than 9 GB.
REFERENCE = 4_000 * MEGABYTE


class MemoryLimit(int):
    """A limit in proportion to the free memory.

    Attributes:
        free: the free memory, in bytes.
    """

    free: int

    @classmethod
    def from_usual(cls, usual: int) -> MemoryLimit:
        """Return the limit that is `usual` where REFERENCE bytes are free."""
        free = measure_free_memory()
        limit = cls(max(usual * free // REFERENCE, 1))
        limit.free = free
        return limit


def explain_limit(limit: int) -> str:
    """Return where a limit comes from, to follow its number in a sentence."""
    if not isinstance(limit, MemoryLimit):
        return ""
    return f" with {limit.free / MEGABYTE:,.0f} MB of free memory"


def measure_free_memory(root: Path = Path("/")) -> int:
    """Return the bytes of memory that the program may still use; REFERENCE if nothing tells.

    Args:
        root: the folder in which `proc` and `sys` are.
    """
    amounts = []
    with suppress(OSError, ValueError):
        text = (root / "proc/meminfo").read_text()
        if available := re.search(r"^MemAvailable: *(\d+) kB", text, re.MULTILINE):
            amounts.append(1024 * int(available[1]))
    with suppress(OSError, ValueError):
        amounts += _read_cgroups(root)
    if amounts:
        return max(min(amounts), 1)
    with suppress(OSError, ValueError, AttributeError):  # macOS counts only what it has
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return REFERENCE


def _read_cgroups(root: Path) -> Iterator[int]:
    """Yield what each limited control group of the program leaves, of version 2 or 1."""
    for line in (root / "proc/self/cgroup").read_text().splitlines():
        _, controllers, name = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        mount = root / "sys/fs/cgroup" / controllers
        limit_name, used_name, cache_name = (
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            if controllers
            else ("memory.max", "memory.current", "inactive_file")
        )
        path = PurePosixPath(name)
        for group in (path, *path.parents):  # the limits of all groups around it hold, too
            folder = mount / group.relative_to("/")
            with suppress(OSError, ValueError):  # of no such file, or a limit "max"
                limit = int((folder / limit_name).read_text())
                used = int((folder / used_name).read_text())
                statistics = (folder / "memory.stat").read_text()
                cache = re.search(rf"^{cache_name} (\d+)", statistics, re.MULTILINE)
                yield limit - used + (int(cache[1]) if cache else 0)
