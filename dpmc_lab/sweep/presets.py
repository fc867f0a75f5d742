"""Define named grids for the curves that ship with the sample data.

Those of papers are in `papers`.
"""

from collections.abc import Mapping
from typing import NamedTuple

from dpmc_core import registry
from dpmc_core.model import Estimator, Task
from dpmc_data.synthetic import SAMPLES
from dpmc_lab.sweep.grid import Grid

# After a change run `make rows`: until then the shipped curves have no point at a new epsilon.
EPSILONS = (0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0)
# The setting that runs both estimators of mechanisms that have two.
BOTH_ESTIMATORS = {"estimator": tuple(estimator.value for estimator in Estimator)}


class Preset(NamedTuple):
    """A grid with a name; options of the command line can replace every part of it."""

    summary: str
    grid: Grid


def _list_feature_mechanisms(task: Task) -> list[str]:
    """Return the ids of the mechanisms of a task that use public item features."""
    return [
        id
        for id in registry.list_private_mechanisms(task)
        if registry.get_mechanism(id).uses_item_features
    ]


_RATING_SAMPLES = [id for id, sample in SAMPLES.items() if not sample.clicks]
_CLICK_SAMPLES = [id for id, sample in SAMPLES.items() if sample.clicks]
_LARGE_SAMPLE = "jokes"
PRESETS: Mapping[str, Preset] = {
    "samples": Preset(
        "the curves that ship with the sample data",
        Grid(
            [id for id in _RATING_SAMPLES if id != _LARGE_SAMPLE],
            registry.list_private_mechanisms(Task.BINARY),
            EPSILONS,
            settings=BOTH_ESTIMATORS,
        ),
    ),
    "samples-ratings": Preset(
        "the same for mechanisms that predict ratings",
        Grid(
            [id for id in _RATING_SAMPLES if id != _LARGE_SAMPLE and not id.startswith("one-bit")],
            registry.list_private_mechanisms(Task.RATINGS),
            EPSILONS,
            (1, 2, 3),
            settings=BOTH_ESTIMATORS,
        ),
    ),
    _LARGE_SAMPLE: Preset(
        "the same for the largest sample: fewer epsilons, default estimators",
        Grid(
            [_LARGE_SAMPLE],
            registry.list_private_mechanisms(Task.BINARY)
            + registry.list_private_mechanisms(Task.RATINGS),
            (0.1, 0.3, 1.0, 3.0, 10.0),
            (1, 2, 3),
        ),
    ),
    "facts": Preset(
        "the same for those that use public facts about items, with these",
        Grid(
            [id for id in _RATING_SAMPLES if SAMPLES[id].facts],
            _list_feature_mechanisms(Task.RATINGS),
            EPSILONS,
            (1, 2, 3),
            steps=["features"],
        ),
    ),
    "clicks-facts": Preset(
        "the same for clicks",
        Grid(
            _CLICK_SAMPLES,
            _list_feature_mechanisms(Task.RANKING),
            EPSILONS,
            steps=["features"],
        ),
    ),
    "clicks": Preset(
        "the curves that ship with the sample data of clicks",
        Grid(
            _CLICK_SAMPLES,
            registry.list_private_mechanisms(Task.RANKING),
            EPSILONS,
            settings=BOTH_ESTIMATORS,
        ),
    ),
}
