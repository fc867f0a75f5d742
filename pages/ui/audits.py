"""Run an audit in the background, without Streamlit."""

from collections.abc import Callable

from dpmc_core.model import Mechanism
from dpmc_lab.audit import AuditReport, audit_mechanism
from dpmc_lab.sweep.grid import DEFAULT_SEED
from pages.ui.jobs import ProgressReporter, Work


def make_audit_work(mechanism: Mechanism) -> Work:
    """Return the work that audits a mechanism on small generated ratings."""

    def work(report: ProgressReporter, stopped: Callable[[], bool]) -> AuditReport:
        def tell(n_done: int, total: int, label: str, partial_report: AuditReport) -> None:
            report(n_done, total, label, display=partial_report)

        report(0, 0, "the first pair")
        return audit_mechanism(mechanism, seed=DEFAULT_SEED, on_progress=tell, stop=stopped)

    return work
