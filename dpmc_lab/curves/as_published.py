"""What it changes to set a mechanism as its paper has it, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from dpmc_core import registry
from dpmc_core.arrays import Plain
from dpmc_core.errors import sentence
from dpmc_core.experiment import settings_dict
from dpmc_core.privacy import Certified, Guarantee
from dpmc_core.ratings import PublicFacts
from dpmc_core.settings import setting_text, show_setting
from dpmc_lab.curves import cards


class Switched(NamedTuple):
    """A mechanism beside itself as published. changes: of each setting that differs, before and
    after; kept: settings of the paper's that were given otherwise, and so stay.
    """

    changes: Mapping[str, tuple[Any, Any]]
    kept: Mapping[str, Any]
    before: Guarantee
    after: Guarantee
    note: str

    @property
    def certified(self) -> tuple[Certified, Certified]:
        """Before and after, in the claim's own unit."""
        return self.before.certified(), self.after.certified()


def switched(
    id: str,
    user_settings: Plain,
    public: PublicFacts,
    *,
    epsilon: float | None,
    delta: float | None = None,
) -> Switched:
    """What the paper's settings change of a method with the settings given. Raises DpmcError."""

    def made(settings: Plain) -> tuple[Plain, Guarantee]:
        mechanism = registry.create(id, epsilon=epsilon, delta=delta, **settings)
        return settings_dict(mechanism), mechanism.guarantee(public)

    paper = registry.published(id)
    (before, guarantee), (after, published_guarantee) = (
        made(user_settings),
        made(with_published(id, user_settings)),
    )
    overridden = {
        n: user_settings[n]
        for n, v in paper.settings.items()
        if n in user_settings and user_settings[n] != v
    }
    return Switched(
        {name: (before[name], new) for name, new in after.items() if before[name] != new},
        {name: show_setting(value) for name, value in overridden.items()},
        guarantee,
        published_guarantee,
        paper.note,
    )


def with_published(id: str, user_settings: Mapping[str, Any]) -> Plain:
    """The settings given, and for the others those of the paper."""
    return {**registry.published(id).settings, **user_settings}


def words(comparison: Switched) -> tuple[str, ...]:
    """What changes; what it costs; what stays open: a sentence each, where there is one."""
    if not comparison.changes:
        sentences = [
            "as published nothing changes: it has the paper's settings, or it is no paper's"
        ]
    else:
        parts = [f"{name} {_text(a)} → {_text(b)}" for name, (a, b) in comparison.changes.items()]
        sentences = [f"as published: {', '.join(parts)}", _cost(comparison)]
    if comparison.kept:
        given = (f"{name} = {_text(value)}" for name, value in comparison.kept.items())
        sentences.append(f"not as published, because you set it: {', '.join(given)}")
    return tuple(sentence(text) for text in (*sentences, comparison.note) if text)


def _cost(comparison: Switched) -> str:
    before, after = comparison.certified
    if (before.finite, before.epsilon) == (after.finite, after.epsilon):
        return f"what is certified stays, {_short(after)}"
    return f"certified before: {_short(before)}; as published: {cards.certified(after)}"


def _short(proved: Certified) -> str:
    """Without the reason, which the card tells."""
    return cards.certified(proved).partition(": ")[0]


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return setting_text(value)
