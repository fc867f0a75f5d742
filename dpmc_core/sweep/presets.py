"""Named grids: the curves that ship with the sample data, and the experiments of LWHM22.

LWHM22: Li, Wei, Huang, Mao, Wang, "One-Bit Matrix Completion with Differential Privacy" (2022).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dpmc_core import registry
from dpmc_core.data import SAMPLES
from dpmc_core.errors import unknown_name
from dpmc_core.model import Estimator, Task
from dpmc_core.sweep.grid import Grid

EPSILONS = (0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0)
_TEN = tuple(float(e) for e in range(1, 11))
BOTH = {"estimator": tuple(one.value for one in Estimator)}  # of methods that have two
FOUR = ("input-flip", "objective", "gradient", "output")
_PUBLISHED = {f"{id}.estimator": ("published",) for id in FOUR[:2]}


class Preset(NamedTuple):
    """A grid with a name, every part of which can be replaced on the command line."""

    summary: str
    grid: Grid


def get(name: str) -> Preset:
    """The preset of that name. Raises InvalidSetting with the nearest names."""
    if name not in PRESETS:
        raise unknown_name("preset", name, PRESETS)
    return PRESETS[name]


def _synthetic(figure: str, link: str, ratios: tuple[float, ...], draws: int, words: str) -> Preset:
    # A fifth is held out, so that the share used for training is the paper's.
    return Preset(
        f"LWHM22, figure {figure}: 100 x 100 matrices of rank 1, alpha = 1, {words}, {draws} draws",
        Grid(
            data=[f"one-bit-lab:seed=each,observed={r / 0.8:g},link={link}" for r in ratios],
            mechanisms=FOUR,
            epsilons=_TEN,
            seeds=range(1, draws + 1),
            settings={
                **_PUBLISHED,
                "link": (link,),
                "radius": ("1",),
                "bound": ("1",),
                "output.within": ("solver",),
            },
        ),
    )


def _real(figure: str, link: str, data: str, words: str, steps: tuple[str, ...] = ()) -> Preset:
    # The paper's radius and bound for real data are not printed: those of this program are used.
    # Objective perturbation has no noise scale for the probit link without a bound, which makes
    # its solver's points dense: on MovieLens each of its runs takes minutes.
    probit = {"link": ("probit",), "objective.bound": ("1",)}
    return Preset(
        f"LWHM22, figure {figure}: {words}, 10 repetitions",
        Grid(
            data=[data],
            mechanisms=FOUR,
            epsilons=_TEN,
            seeds=range(1, 11),
            settings=_PUBLISHED | (probit if link == "probit" else {}),
            steps=steps,
        ),
    )


_RATED = [id for id, sample in SAMPLES.items() if not sample.clicks]
_LARGE = "jokes"
_RATIOS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_ML = "MovieLens 100K, official split u1, cut at the mean"
_MEAN = ("binarise=mean",)
_RC = "restaurants (the generated sample, or your copy with --data), 2 against 0 and 1"

PRESETS: Mapping[str, Preset] = {
    "samples": Preset(
        "the curves that ship with the sample data",
        Grid(
            data=[id for id in _RATED if id != _LARGE],
            mechanisms=registry.noisy(Task.BINARY),
            epsilons=EPSILONS,
            settings=BOTH,
        ),
    ),
    "samples-ratings": Preset(
        "the same for mechanisms that predict ratings",
        Grid(
            data=[id for id in _RATED if id != _LARGE and not id.startswith("one-bit")],
            mechanisms=registry.noisy(Task.RATINGS),
            epsilons=EPSILONS,
            seeds=(1, 2, 3),
            settings=BOTH,
        ),
    ),
    _LARGE: Preset(
        "the same for the largest sample: fewer epsilons, default estimators",
        Grid(
            data=[_LARGE],
            mechanisms=registry.noisy(Task.BINARY) + registry.noisy(Task.RATINGS),
            epsilons=(0.1, 0.3, 1.0, 3.0, 10.0),
            seeds=(1, 2, 3),
        ),
    ),
    "clicks": Preset(
        "the curves that ship with the sample data of clicks",
        Grid(
            data=[id for id, sample in SAMPLES.items() if sample.clicks],
            mechanisms=registry.noisy(Task.RANKING),
            epsilons=EPSILONS,
            settings=BOTH,
        ),
    ),
    "lwhm22-1a": _synthetic("1a", "probit", (0.15,), 40, "probit link, 15 % observed"),
    "lwhm22-1b": _synthetic("1b", "logistic", (0.15,), 40, "logistic link, 15 % observed"),
    "lwhm22-2a": _real("2a", "probit", "ml-100k/u1", f"{_ML}, probit link (hours)", _MEAN),
    "lwhm22-2b": _real("2b", "logistic", "ml-100k/u1", f"{_ML}, logistic link", _MEAN),
    "lwhm22-3a": _real("3a", "probit", "restaurants", f"{_RC}, probit link", ("binarise=2",)),
    "lwhm22-3b": _real("3b", "logistic", "restaurants", f"{_RC}, logistic link", ("binarise=2",)),
    "lwhm22-4": _synthetic("4", "probit", _RATIOS, 10, "probit link, 20 to 80 % observed"),
    "lwhm22-5": _synthetic("5", "logistic", _RATIOS, 10, "logistic link, 20 to 80 % observed"),
}
