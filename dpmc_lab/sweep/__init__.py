"""Run grids over local processes or a cluster; the rows do not depend on where they ran."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # `__getattr__` loads a name when it is used, since pages need no engine
    from dpmc_lab.sweep.engine import (
        LocalPool,
        Pool,
        SweepReport,
        build_unit_problem,
        count_cores,
        resolve_jobs,
        run,
        run_unit_locally,
        warm_up,
    )
    from dpmc_lab.sweep.grid import (
        Grid,
        Plan,
        PlanKeys,
        Unit,
        build_plan,
        build_sweep_command,
        format_seeds,
        parse_epsilons,
        parse_seeds,
        split_values,
    )
    from dpmc_lab.sweep.sources import (
        PrivateFolder,
        SplitSource,
        SweepData,
        drop_names,
        load_training_ratings,
        open_source,
    )
    from dpmc_lab.sweep.toplists import LISTS_SEED

__all__ = [
    "LISTS_SEED",
    "Grid",
    "LocalPool",
    "Plan",
    "PlanKeys",
    "Pool",
    "PrivateFolder",
    "SplitSource",
    "SweepData",
    "SweepReport",
    "Unit",
    "build_plan",
    "build_sweep_command",
    "build_unit_problem",
    "count_cores",
    "drop_names",
    "format_seeds",
    "load_training_ratings",
    "open_source",
    "parse_epsilons",
    "parse_seeds",
    "resolve_jobs",
    "run",
    "run_unit_locally",
    "split_values",
    "warm_up",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its module when it is used first."""
    if name in __all__:
        for home in ("grid", "sources", "toplists", "engine"):
            module = import_module(f"{__name__}.{home}")
            if name in vars(module):
                return vars(module)[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
