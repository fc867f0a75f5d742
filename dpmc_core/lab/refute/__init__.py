"""Try to refute what a mechanism claims and what its releases certify: audits anybody can run.

Three methods, each from the noisy answers of the releases, from which all else follows:

- the sensitivity probe: how far the queries really move between neighbouring data sets. Exact for
  the pair it shows, so it needs no confidence;
- canaries: things of the mechanism's own unit, each planted by a fair coin in one run and guessed
  from what was published;
- the sampler: draws of each noise against its density, and the worst event, chosen on one half of
  the draws and counted on the other.

What an audit does not refute it does not confirm. The same seed gives the same numbers.
"""

from __future__ import annotations

from dpmc_core.lab.refute.report import (
    CONFIDENCE,
    FALSE_ALARM,
    ChangedRow,
    Measured,
    Method,
    Refuted,
    Report,
    Spent,
    Tell,
)
from dpmc_core.lab.refute.run import RUNS, refute, small_data

__all__ = [
    "CONFIDENCE",
    "FALSE_ALARM",
    "RUNS",
    "ChangedRow",
    "Measured",
    "Method",
    "Refuted",
    "Report",
    "Spent",
    "Tell",
    "refute",
    "small_data",
]
