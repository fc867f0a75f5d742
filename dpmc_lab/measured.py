"""Read lower bounds on epsilon that audits measured and that ship with the program.

The file holds only numbers; `python benchmarks/audits.py --shipped` writes it. A record is valid
for the revision and the epsilon that it was measured at. Reading the records runs no audit.
"""

import enum
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from dpmc_core import registry
from dpmc_core.model import Mechanism
from dpmc_core.privacy import Change


class AuditMethod(enum.Enum):
    """The method that found a lower bound."""

    PROBE = "probe"
    CANARIES = "canaries"


class Refuted(enum.Enum):
    """What a finding contradicts, in increasing order of severity."""

    NOTHING = "nothing"  # which confirms nothing
    CLAIM = "claim"  # measured above what is claimed: a finding about the paper
    CERTIFICATE = "certificate"  # above what is certified: a bug of this program


@dataclass(frozen=True)
class MeasuredBound:
    """A lower bound on epsilon.

    The names of the fields are those in measured.json.

    Attributes:
        mechanism, revision: id and revision of the audited mechanism.
        epsilon: its setting of epsilon.
        delta: at which the bound holds.
        unit, neighbours: of the change.
        measured: the bound.
        confidence: None where the bound is exact.
        method: how it was found.
        refuted: what it contradicts.
        given: what the audit assumes to be known.
        seed: of the audit.
        runs: number of runs.
    """

    mechanism: str
    revision: int
    epsilon: float
    delta: float
    unit: str
    neighbours: str
    measured: float
    confidence: float | None
    method: str
    refuted: str
    given: str
    seed: int
    runs: int

    @property
    def change(self) -> Change:
        """Return the change that the bound is about."""
        return Change.from_json(self.unit, self.neighbours)


@cache
def _load_records() -> dict[str, MeasuredBound]:
    """Return the shipped bounds by the id of their mechanism."""
    text = files("dpmc_lab").joinpath("measured.json").read_text(encoding="utf-8")
    return {record["mechanism"]: MeasuredBound(**record) for record in json.loads(text)}


def find_measured_bound(mechanism: Mechanism) -> MeasuredBound | None:
    """Return the shipped bound for a mechanism with exactly these settings, if there is one."""
    bound = _load_records().get(mechanism.id)
    if bound is None or bound.revision != mechanism.revision:
        return None
    delta_setting = {} if bound.delta == 0 else {"delta": bound.delta}
    default_mechanism = registry.create(mechanism.id, epsilon=bound.epsilon, **delta_setting)
    return (
        bound
        if type(mechanism) is type(default_mechanism) and mechanism == default_mechanism
        else None
    )
