"""Run an audit in the background, without Streamlit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpmc_core.mechanisms.one_bit import Output
from dpmc_core.model import Mechanism
from dpmc_lab.audit import AuditReport, audit_mechanism
from dpmc_lab.curves.audits import RatingInfluence, build_known_instance, measure_rating_influence
from pages.ui.jobs import ProgressReporter, Work


@dataclass(frozen=True)
class Audited:
    """What an audit has found so far.

    Attributes:
        report: the report.
        lights: what one rating moves, only for output perturbation.
    """

    report: AuditReport
    lights: RatingInfluence | None = None


def make_audit_work(mechanism: Mechanism, seed: int) -> Work:
    """Return the work that audits a mechanism on small generated ratings."""

    def work(report: ProgressReporter, stopped: Callable[[], bool]) -> Audited:
        def tell(n_done: int, total: int, label: str, partial_report: AuditReport) -> None:
            report(n_done, total, label, display=Audited(partial_report))

        report(0, 0, "the first pair")
        result = audit_mechanism(mechanism, seed=seed, on_progress=tell, stop=stopped)
        if result.stopped or not isinstance(mechanism, Output):
            return Audited(result)
        report(0, 0, "one rating turned to the other sign", display=Audited(result))
        return Audited(result, measure_rating_influence(*build_known_instance(mechanism.epsilon)))

    return work
