"""What it changes to set a mechanism as its paper has it, and what that costs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from dpmc_core import registry
from dpmc_core.errors import DpmcError, sentence
from dpmc_core.experiment import settings_dict
from dpmc_core.lab.protocol import federated
from dpmc_core.lab.protocol.federated import Federation
from dpmc_core.lab.protocol.scenarios import Scenario
from dpmc_core.lab.protocol.simulate import shown_settings
from dpmc_core.lab.views import cards
from dpmc_core.privacy import Certified, Guarantee
from dpmc_core.ratings import PublicFacts
from dpmc_core.settings import AsPublished, setting_text, settings_of, show_setting


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
    ours = registry.create(id, epsilon=epsilon, delta=delta, **given)
    theirs = registry.create(id, epsilon=epsilon, delta=delta, **with_published(id, given))
    return _switched(
        registry.published(id),
        given,
        (settings_dict(ours), settings_dict(theirs)),
        (ours.guarantee(public), theirs.guarantee(public)),
    )


def scenario(
    cls: type[Scenario], epsilon: float, given: Mapping[str, Any], public: PublicFacts
) -> Switched:
    """The same of a scenario without a trusted recommender. Raises InvalidSetting."""
    whole = with_published_scenario(cls, given)
    ours, theirs = (cls(epsilon=epsilon, **settings) for settings in (given, whole))
    return _switched(
        cls.published,
        given,
        (shown_settings(ours), shown_settings(theirs)),
        (ours.guarantee(public), theirs.guarantee(public)),
    )


def federation(
    variant: str, epsilon: float, given: Mapping[str, Any], public: PublicFacts
) -> Switched:
    """The same of the federated flow with a variant. Raises InvalidSetting."""
    paper = federated.published(variant)
    own = {s.name: s.default for s in settings_of(Federation)}
    ours, theirs = (
        federated.build(variant, epsilon, **{**own, **settings})
        for settings in (given, {**paper.settings, **given})
    )
    return _switched(
        paper,
        given,
        (shown_settings(ours.mechanism, ours), shown_settings(theirs.mechanism, theirs)),
        (ours.mechanism.guarantee(public), theirs.mechanism.guarantee(public)),
    )


def _switched(
    paper: AsPublished,
    given: Mapping[str, Any],
    settings: tuple[Mapping[str, Any], Mapping[str, Any]],
    cards: tuple[Guarantee, Guarantee],
) -> Switched:
    before, after = settings
    return Switched(
        {name: (before[name], new) for name, new in after.items() if before[name] != new},
        {
            name: show_setting(given[name])
            for name, value in paper.settings.items()
            if name in given and given[name] != value
        },
        *cards,
        paper.note,
    )


def with_published(id: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings given, and for the others those of the paper."""
    return {**registry.published(id).settings, **given}


def with_published_scenario(cls: type[Scenario], given: Mapping[str, Any]) -> dict[str, Any]:
    """The same of a scenario; several phases, which refit user factors, leave none to hold."""
    paper = dict(cls.published.settings)
    if given.get("phases") not in (None, 1):
        del paper["user_factors"]
    return {**paper, **given}


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
