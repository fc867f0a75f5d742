"""Describe lower bounds that audits measured beforehand, for cards, curves and groups."""

from dpmc_core import registry
from dpmc_core.experiment import serialise_settings
from dpmc_lab.measured import AuditMethod, MeasuredBound, Refuted, find_measured_bound
from dpmc_lab.views import cards
from dpmc_lab.views.lines import Curve

METHOD_LABELS = {
    AuditMethod.PROBE: "Tracing one change",
    AuditMethod.CANARIES: "Guessing planted ratings",
}


def format_measured_bound(bound: MeasuredBound) -> str:
    """Return a bound measured beforehand as text: 'at least 0.79 (Tracing one change, exact)'."""
    confidence = "exact" if bound.confidence is None else f"{100 * bound.confidence:g} %"
    bound_text = cards.format_epsilon(bound.measured, round_down=True)
    method = METHOD_LABELS[AuditMethod(bound.method)]
    return f"an attack shows that epsilon is at least {bound_text} ({method}, {confidence})"


def is_refuted(bound: MeasuredBound | None) -> bool:
    """Return whether an attack found more than is promised."""
    return bound is not None and bound.refuted != Refuted.NOTHING.value


def describe_counterexample(bound: MeasuredBound) -> str:
    """Return how much an attack found, and the command that shows it.

    Args:
        bound: one that refutes a claim or a certificate.
    """
    promised = "proved" if bound.refuted == Refuted.CERTIFICATE.value else "claimed"
    return (
        "an attack measured an epsilon of at least"
        f" {cards.format_epsilon(bound.measured, round_down=True)}"
        f" where {bound.epsilon:g} is {promised}; repeat it with dpmc audit {bound.mechanism}"
        f" --epsilon {bound.epsilon:g} --seed {bound.seed}"
    )


def describe_measured_bound(bound: MeasuredBound) -> str:
    """Return a bound as text, with the setting of epsilon that it was measured at."""
    return f"measured at epsilon {bound.epsilon:g}: {format_measured_bound(bound)}"


def find_line_bound(line: Curve) -> MeasuredBound | None:
    """Return the shipped bound of a curve; None where nothing was measured at its settings."""
    bound = find_default_measured_bound(line.mechanism)
    if bound is None or line.interval_at(bound.epsilon) is None:
        return None
    default_settings = serialise_settings(registry.create(line.mechanism, epsilon=bound.epsilon))
    has_defaults = all(
        default_settings.get(name) == value for name, value in line.info.settings.items()
    )
    return bound if has_defaults else None


def find_default_measured_bound(id: str) -> MeasuredBound | None:
    """Return the shipped bound of a mechanism with its default settings at epsilon 1."""
    private = id in registry.MECHANISMS and registry.adds_noise(registry.get_mechanism(id))
    return find_measured_bound(registry.create(id, epsilon=1.0)) if private else None
