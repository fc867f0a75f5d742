"""Grids of runs over local processes or a cluster: the same rows whatever ran them, and when."""

from __future__ import annotations

from dpmc_core.sweep.grid import Grid, Plan, plan
from dpmc_core.sweep.pools import (
    ClusterPool,
    ExecutorPool,
    LocalPool,
    check_address,
    default_jobs,
    warm_up,
)
from dpmc_core.sweep.presets import PRESETS, Preset
from dpmc_core.sweep.private import PrivateFolder, command
from dpmc_core.sweep.run import Report, run
from dpmc_core.sweep.source import Drawn, Pair, Source, Whole, lean, open_source
from dpmc_core.sweep.unit import Unit

__all__ = [
    "PRESETS",
    "ClusterPool",
    "Drawn",
    "ExecutorPool",
    "Grid",
    "LocalPool",
    "Pair",
    "Plan",
    "Preset",
    "PrivateFolder",
    "Report",
    "Source",
    "Unit",
    "Whole",
    "check_address",
    "command",
    "default_jobs",
    "lean",
    "open_source",
    "plan",
    "run",
    "warm_up",
]
