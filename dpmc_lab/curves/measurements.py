"""What audits measured beforehand, in words: beside cards, on curves and in groups."""

from __future__ import annotations

from typing import NamedTuple

from dpmc_core import registry
from dpmc_core.experiment import settings_dict
from dpmc_lab.curves import cards
from dpmc_lab.curves.lines import Line
from dpmc_lab.measured import Method, Refuted, Shipped, shipped

METHODS = {
    Method.PROBE: "One change traced",
    Method.CANARIES: "Planted ratings",
}


def tick(found: Shipped) -> str:
    """What was measured beforehand, as it stands beside claimed and certified."""
    how = "exact" if found.confidence is None else f"{100 * found.confidence:g} %"
    least = cards.epsilon_text(found.measured, least=True)
    return f"at least {least} ({METHODS[Method(found.method)]}, {how})"


def refuted(bound: Shipped | None) -> bool:
    """Whether an attack found more than is promised."""
    return bound is not None and bound.refuted != Refuted.NOTHING.value


def counterexample(found: Shipped) -> str:
    """How much an attack found, and the command that shows it."""
    promised = "certified" if found.refuted == Refuted.CERTIFICATE.value else "claimed"
    return (
        f"an attack found an epsilon of at least {cards.epsilon_text(found.measured, least=True)}"
        f" where {found.epsilon:g} is {promised}: dpmc audit {found.mechanism}"
        f" --epsilon {found.epsilon:g} --seed {found.seed}"
    )


class Tick(NamedTuple):
    """What was measured at one setting of epsilon: at least so much; words: and how."""

    epsilon: float
    measured: float
    counts: str
    words: str


def tick_of(line: Line) -> Tick | None:
    """What ships of a curve; None where nothing was measured at its settings."""
    bound = shipped_of(line.mechanism)
    if bound is None or line.at(bound.epsilon) is None:
        return None
    default_settings = settings_dict(registry.create(line.mechanism, epsilon=bound.epsilon))
    if any(default_settings.get(name) != value for name, value in line.info.settings.items()):
        return None
    return as_tick(bound)


def as_tick(found: Shipped) -> Tick:
    """The same of what was measured."""
    label = f"set to {found.epsilon:g}, measured {tick(found)}"
    return Tick(found.epsilon, found.measured, found.change.label, label)


def shipped_of(id: str) -> Shipped | None:
    """What ships of a mechanism with its default settings at epsilon 1."""
    private = id in registry.MECHANISMS and registry.adds_noise(registry.get(id))
    return shipped(registry.create(id, epsilon=1.0)) if private else None
