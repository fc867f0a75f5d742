"""Describe what changes, and what it costs, to run a mechanism with the settings of its paper."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from dpmc_core import registry
from dpmc_core.arrays import JsonObject
from dpmc_core.errors import format_sentence
from dpmc_core.experiment import serialise_settings
from dpmc_core.privacy import Certified, Guarantee
from dpmc_core.ratings import PublicFacts
from dpmc_core.settings import format_setting, serialise_setting
from dpmc_lab.views import cards


class PublishedComparison(NamedTuple):
    """A mechanism with the user's settings and with those of its paper.

    Attributes:
        changes: by the name of each setting that differs, the user's value and the paper's.
        overridden: settings of the paper that the user gave another value, which therefore stay.
        user_guarantee: guarantee with the user's settings.
        published_guarantee: guarantee with the settings of the paper.
        note: what the registry says about the settings of the paper.
    """

    changes: Mapping[str, tuple[Any, Any]]
    overridden: Mapping[str, Any]
    user_guarantee: Guarantee
    published_guarantee: Guarantee
    note: str

    @property
    def certified(self) -> tuple[Certified, Certified]:
        """Return what is certified with the user's settings, and with those of the paper.

        Each is certified for the change of its own claim.
        """
        return self.user_guarantee.certified(), self.published_guarantee.certified()


def compare_with_published(
    id: str,
    user_settings: JsonObject,
    public: PublicFacts,
    *,
    epsilon: float | None,
    delta: float | None = None,
) -> PublishedComparison:
    """Compare a method to itself with its paper's settings wherever the user gave none.

    Args:
        id: of the mechanism.
        user_settings: settings that the user gave, by name; the others have their defaults.
        public: public facts of the ratings.
        epsilon, delta: the budget, which is the same for both.

    Raises:
        DpmcError: the settings are not valid.
    """

    def build(settings: JsonObject) -> tuple[JsonObject, Guarantee]:
        """Return all settings of the mechanism with these ones, and its guarantee."""
        mechanism = registry.create(id, epsilon=epsilon, delta=delta, **settings)
        return serialise_settings(mechanism), mechanism.guarantee(public)

    paper = registry.get_published_settings(id)
    user_values, user_guarantee = build(user_settings)
    published_values, published_guarantee = build(merge_published_settings(id, user_settings))
    overridden = {
        name: user_settings[name]
        for name, value in paper.settings.items()
        if name in user_settings and user_settings[name] != value
    }
    return PublishedComparison(
        {
            name: (user_values[name], value)
            for name, value in published_values.items()
            if user_values[name] != value
        },
        {name: serialise_setting(value) for name, value in overridden.items()},
        user_guarantee,
        published_guarantee,
        paper.note,
    )


def merge_published_settings(id: str, user_settings: Mapping[str, Any]) -> JsonObject:
    """Return the settings of the paper, overridden by those that the user gave."""
    return {**registry.get_published_settings(id).settings, **user_settings}


def describe_published_changes(comparison: PublishedComparison) -> tuple[str, ...]:
    """Return what changes, what that costs and what stays open, each in a sentence."""
    if not comparison.changes:
        sentences = [
            "as published nothing changes: it has the paper's settings, or it is no paper's"
        ]
    else:
        changes = [
            f"{name} {_format_setting(before)} → {_format_setting(after)}"
            for name, (before, after) in comparison.changes.items()
        ]
        sentences = [f"as published: {', '.join(changes)}", _describe_certified_change(comparison)]
    if comparison.overridden:
        overridden = (
            f"{name} = {_format_setting(value)}" for name, value in comparison.overridden.items()
        )
        sentences.append(f"not as published, because you set it: {', '.join(overridden)}")
    return tuple(format_sentence(text) for text in (*sentences, comparison.note) if text)


def _describe_certified_change(comparison: PublishedComparison) -> str:
    """Return a sentence on what is certified with both settings."""
    before, after = comparison.certified
    if (before.finite, before.epsilon) == (after.finite, after.epsilon):
        return f"what is certified stays, {_format_bound(after)}"
    return (
        f"certified before: {_format_bound(before)}; as published: {cards.format_certified(after)}"
    )


def _format_bound(proved: Certified) -> str:
    """Return what is certified without the reason, which the card states."""
    return cards.format_certified(proved) if proved.finite else f"no bound {proved.change.label}"


def _format_setting(value: Any) -> str:
    """Return a setting's value as text, a float with at most six digits."""
    if isinstance(value, float):
        return f"{value:g}"
    return format_setting(value)
