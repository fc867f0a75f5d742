"""What it changes to set a mechanism as its paper has it, and what that costs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from dpmc_core import registry
from dpmc_core.errors import DpmcError, sentence
from dpmc_core.experiment import settings_dict
from dpmc_core.privacy import Certified, Guarantee
from dpmc_core.ratings import PublicFacts
from dpmc_core.settings import setting_text, show_setting
from dpmc_core.views import cards


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

    def as_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        before, after = (self.before.as_dict(), self.after.as_dict())
        return {
            "settings": {
                name: {"before": old, "published": new} for name, (old, new) in self.changes.items()
            },
            "kept": dict(self.kept),
            "certified": {"before": before["certified"], "published": after["certified"]},
            "reason": after["reason"],
            "note": self.note,
        }


def switched(
    id: str,
    given: Mapping[str, Any],
    public: PublicFacts,
    *,
    epsilon: float | None,
    delta: float | None = None,
) -> Switched:
    """What the paper's settings change of a method with the settings given. Raises DpmcError."""
    paper = registry.published(id)
    ours = registry.create(id, epsilon=epsilon, delta=delta, **given)
    theirs = registry.create(id, epsilon=epsilon, delta=delta, **with_published(id, given))
    before, after = settings_dict(ours), settings_dict(theirs)
    return Switched(
        {name: (before[name], new) for name, new in after.items() if before[name] != new},
        {
            name: show_setting(given[name])
            for name, value in paper.settings.items()
            if name in given and given[name] != value
        },
        ours.guarantee(public),
        theirs.guarantee(public),
        paper.note,
    )


def with_published(id: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings given, and for the others those of the paper."""
    return {**registry.published(id).settings, **given}


def words(found: Switched) -> tuple[str, ...]:
    """What changes; what it costs; what stays open: a sentence each, where there is one."""
    if not found.changes:
        told = ["as published nothing changes: it has the paper's settings, or it is no paper's"]
    else:
        parts = [f"{name} {_text(a)} → {_text(b)}" for name, (a, b) in found.changes.items()]
        told = [f"as published: {', '.join(parts)}", _cost(found)]
    if found.kept:
        given = (f"{name} = {_text(value)}" for name, value in found.kept.items())
        told.append(f"not as published, because you set it: {', '.join(given)}")
    return tuple(sentence(text) for text in (*told, found.note) if text)


def table(ids: Collection[str], public: PublicFacts, epsilon: float) -> dict[str, list[str]]:
    """What changes and what it costs, for many methods at once; unchanged ones are left out."""
    found = {}
    for id in ids:
        try:
            one = switched(id, {}, public, epsilon=epsilon)
        except DpmcError:  # settings for other data: a run of it says why
            continue
        if one.changes:
            found[registry.get(id).name] = one
    sides = [one.certified for one in found.values()]
    return {
        "mechanism": list(found),
        "as published": [
            ", ".join(f"{name} = {_text(new)}" for name, (_, new) in one.changes.items())
            for one in found.values()
        ],
        f"certified at epsilon {epsilon:g}, before": [_short(one) for one, _ in sides],
        "as published, certified": [_short(one) for _, one in sides],
    }


def _cost(found: Switched) -> str:
    before, after = found.certified
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
