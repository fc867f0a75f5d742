"""Short texts of objects for Python's prompt and tables of them for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, Context
from html import escape

# Four digits that never state less than the value, apart from the rounding of floats.
_UPWARDS = Context(prec=4, rounding=ROUND_CEILING)


def format_bound(epsilon: float) -> str:
    """Format an upper bound with at most four digits, rounded up."""
    return f"{float(_UPWARDS.create_decimal_from_float(epsilon * (1 - 1e-12))):g}"


def format_metrics(values: Mapping[str, float]) -> str:
    """Format some metrics with four digits, as in 'rmse 0.9123, mae 0.7'."""
    return ", ".join(f"{name} {value:.4g}" for name, value in values.items())


class Summarised:
    """An object that is shown by a few facts instead of its arrays.

    A dataclass that inherits it needs `repr=False`.
    """

    def summarise(self) -> Mapping[str, object]:
        """Return the facts, by label."""
        raise NotImplementedError

    def __repr__(self) -> str:
        facts = ", ".join(f"{label}: {fact}" for label, fact in self.summarise().items())
        return f"{type(self).__name__}({facts})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(label)}</th><td>{escape(str(fact))}</td></tr>"
            for label, fact in self.summarise().items()
        )
        return f"<table><caption>{type(self).__name__}</caption>{rows}</table>"
