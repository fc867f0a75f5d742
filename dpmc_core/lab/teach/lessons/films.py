"""The film ratings that some lessons look at: curves that came with the program, and cards."""

from __future__ import annotations

from functools import cache

from dpmc_core import registry
from dpmc_core.errors import DpmcError
from dpmc_core.lab.sweep.presets import EPSILONS
from dpmc_core.lab.views import comparison, lines
from dpmc_core.lab.views.comparison import KeptShare
from dpmc_core.lab.views.lines import Picture
from dpmc_core.mechanisms.one_bit import InputFlip
from dpmc_core.mechanisms.private_effects import PrivateEffects
from dpmc_core.privacy import Guarantee

DATA = "movie-night"
RATED = 20  # ratings of the person whose values are asked about together
PER_RATING, PER_PERSON = InputFlip.id, PrivateEffects.id


@cache
def curve(mechanism: str) -> Picture:
    """The shipped curve of a mechanism. Raises DpmcError where it did not come along."""
    found = lines.shipped(DATA, mechanism)
    if found is None:
        raise DpmcError(f"the curve of {mechanism} on {DATA} did not come with this program")
    return found[0]


def kept(mechanism: str, epsilon: float) -> float:
    """The share of the gain over guessing that is left at a stop of epsilon."""
    return _kept(mechanism, epsilon).share


def kept_words(mechanism: str, epsilon: float) -> str:
    """'keeps 30 % of the gain over guessing', or 'is not clearly better than guessing'."""
    found = _kept(mechanism, epsilon)
    return found.words if found.clear else f"is {found.words}"


def _kept(mechanism: str, epsilon: float) -> KeptShare:
    picture = curve(mechanism)
    found = comparison.kept(picture, picture.lines[0], epsilon)
    if found is None:
        raise DpmcError(f"the curve of {mechanism} on {DATA} has no gain at epsilon {epsilon:g}")
    return found


def keeps(mechanism: str) -> tuple[float, ...]:
    """The same at every stop."""
    return tuple(kept(mechanism, epsilon) for epsilon in EPSILONS)


def card(mechanism: str, epsilon: float) -> Guarantee:
    """The mechanism's card on the ratings that its curve was measured on."""
    public = curve(mechanism).lines[0].info.public
    return registry.create(mechanism, epsilon=epsilon).guarantee(public)


def right(mechanism: str, epsilon: float, rated: int | None = None) -> float:
    """How often the best attacker is right about one protected unit; rated: about all values of a
    person with so many ratings."""
    guarantee = card(mechanism, epsilon)
    if rated is None:
        return guarantee.attacker()
    task = registry.get(mechanism).task
    return comparison.questions(guarantee, task, rated)[1].right(guarantee)
