"""Named grids: the curves that ship with the sample data, and the experiments of LWHM22.

LWHM22: Li, Wei, Huang, Mao, Wang, "One-Bit Matrix Completion with Differential Privacy" (2022).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dpmc_core import registry
from dpmc_core.data import SAMPLES
from dpmc_core.errors import unknown_name
from dpmc_core.model import Task

EPSILONS = (0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0)
SEEDS = (1, 2, 3, 4, 5)
FOUR = ("input-flip", "objective", "gradient", "output")


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A grid in the words of the command line; every part can be replaced there."""

    summary: str
    data: tuple[str, ...]
    mechanisms: tuple[str, ...]
    epsilons: tuple[float, ...] = EPSILONS
    seeds: tuple[int, ...] = SEEDS
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    prepare: tuple[str, ...] = ()


def get(name: str) -> Preset:
    """The preset of that name. Raises InvalidSetting with the nearest names."""
    if name not in PRESETS:
        raise unknown_name("preset", name, PRESETS)
    return PRESETS[name]


def noisy(task: Task) -> tuple[str, ...]:
    """Ids of the mechanisms with an epsilon for a task, in the registry's order."""
    return tuple(
        id
        for id, cls in registry.MECHANISMS.items()
        if cls.task is task and registry.has_setting(cls, "epsilon")
    )


def _synthetic(figure: str, link: str, ratios: tuple[float, ...], draws: int, words: str) -> Preset:
    # A fifth is held out, so that the share used for training is the paper's.
    data = (f"one-bit-lab:seed=each,observed={ratio / 0.8:g},link={link}" for ratio in ratios)
    return Preset(
        summary=f"LWHM22, figure {figure}: 100 x 100 matrices of rank 1, alpha = 1, {words},"
        f" {draws} draws",
        data=tuple(data),
        mechanisms=FOUR,
        epsilons=tuple(float(e) for e in range(1, 11)),
        seeds=tuple(range(1, draws + 1)),
        settings={
            "link": (link,),
            "radius": ("1",),
            "bound": ("1",),
            "output.within": ("solver",),
        },
    )


def _real(figure: str, link: str, data: str, words: str, prepare: tuple[str, ...] = ()) -> Preset:
    # The paper's radius and bound for real data are not printed: those of this program are used.
    # Objective perturbation has no noise scale for the probit link without a bound, which makes
    # its solver's points dense: on MovieLens each of its runs takes minutes.
    probit = {"link": ("probit",), "objective.bound": ("1",)}
    return Preset(
        summary=f"LWHM22, figure {figure}: {words}, 10 repetitions",
        data=(data,),
        mechanisms=FOUR,
        epsilons=tuple(float(e) for e in range(1, 11)),
        seeds=tuple(range(1, 11)),
        settings=probit if link == "probit" else {},
        prepare=prepare,
    )


_RATIOS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_ML = "MovieLens 100K, official split u1, cut at the mean"
_RC = "restaurants (the generated sample, or your copy with --data), 2 against 0 and 1"

PRESETS: Mapping[str, Preset] = {
    "samples": Preset(
        summary="the curves that ship with the sample data",
        data=tuple(id for id, sample in SAMPLES.items() if not sample.clicks),
        mechanisms=noisy(Task.BINARY),
    ),
    "samples-ratings": Preset(
        summary="the same for mechanisms that predict ratings",
        data=("jokes", "restaurants"),
        mechanisms=noisy(Task.RATINGS),
        epsilons=(0.1, 0.3, 1.0, 3.0, 10.0),
        seeds=(1, 2, 3),
    ),
    "movie-night-ratings": Preset(
        summary="the same for movie-night, on all epsilons",
        data=("movie-night",),
        mechanisms=noisy(Task.RATINGS),
        seeds=(1, 2, 3),
    ),
    "clicks": Preset(
        summary="the curves that ship with the sample data of clicks",
        data=tuple(id for id, sample in SAMPLES.items() if sample.clicks),
        mechanisms=noisy(Task.RANKING),
    ),
    "lwhm22-1a": _synthetic("1a", "probit", (0.15,), 40, "probit link, 15 % observed"),
    "lwhm22-1b": _synthetic("1b", "logistic", (0.15,), 40, "logistic link, 15 % observed"),
    "lwhm22-2a": _real("2a", "probit", "ml-100k/u1", f"{_ML}, probit link (hours)"),
    "lwhm22-2b": _real("2b", "logistic", "ml-100k/u1", f"{_ML}, logistic link"),
    "lwhm22-3a": _real("3a", "probit", "restaurants", f"{_RC}, probit link", ("binarise=2",)),
    "lwhm22-3b": _real("3b", "logistic", "restaurants", f"{_RC}, logistic link", ("binarise=2",)),
    "lwhm22-4": _synthetic("4", "probit", _RATIOS, 10, "probit link, 20 to 80 % observed"),
    "lwhm22-5": _synthetic("5", "logistic", _RATIOS, 10, "logistic link, 20 to 80 % observed"),
}
