"""Why a private method may stand above the line of the same method without privacy."""

from __future__ import annotations

from collections.abc import Sequence

from dpmc_core import registry
from dpmc_core.metrics import Metric, headline
from dpmc_core.settings import settings_of, show_setting
from dpmc_core.views.curves import Interval

# Measured, and held by a test: the same method without privacy at the private one's rank.
_MEASURED = {
    ("bookshop-clicks", "ials"): "On so few clicks a high rank fits chance: at rank 8 iALS, too,"
    " stands above these curves everywhere.",
}


def is_above(metric: Metric, low: Sequence[float], high: Sequence[float], twin: Interval) -> bool:
    """Whether a curve's band is somewhere clearly better than that of its twin."""
    if metric.lower:
        return min(high) < twin.mean - twin.half_width
    return max(low) > twin.mean + twin.half_width


def why_above(mechanisms: Sequence[str], data: str) -> str:
    """What differs between methods of one twin and that twin, all at their defaults."""
    twin = registry.get(registry.get(mechanisms[0]).twin)
    found = [_differences(id) for id in mechanisms]
    shared = [words for words in found[0] if all(words in other for other in found)]
    settings = f" ({', '.join(shared)})" if shared else ""
    *first, last = [registry.get(id).name for id in mechanisms]
    who = f"{'; '.join(first)} and {last} stand" if first else f"{last} stands"
    side = "below" if headline(twin.task).lower else "above"  # the better one
    line = f"the line is {twin.name.removesuffix(', no privacy')}"
    if (data, twin.id) not in _MEASURED:
        return (
            f"{who} {side} the line without privacy here: {line} at its own settings"
            f"{settings}, which may fit too closely where noise or an early stop holds back."
        )
    return (
        f"{who} {side} the line without privacy, but not because noise helps: {line}"
        f" at its own settings{settings}. {_MEASURED[data, twin.id]}"
    )


def _differences(id: str) -> list[str]:
    cls = registry.get(id)
    own = {s.name: s.default for s in settings_of(cls)}
    return [
        f"{s.name} {show_setting(s.default)} instead of {show_setting(own[s.name])}"
        for s in settings_of(registry.get(cls.twin))
        if s.name in own and own[s.name] != s.default and s.name != "rounds"
    ]
