"""The background job of an audit. No Streamlit inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpmc_core.mechanisms.one_bit import Output
from dpmc_core.model import Mechanism
from dpmc_lab.audit import Report, refute
from dpmc_lab.curves.audits import Lights, known_instance, lights
from pages.ui.jobs import Tell, Work


@dataclass(frozen=True)
class Audited:
    """What an audit found; lights: what one rating moves, of output perturbation alone."""

    report: Report
    lights: Lights | None = None


def audit(mechanism: Mechanism, seed: int) -> Work:
    """Try to refute a mechanism on small invented ratings; what is there so far is shown."""

    def work(report: Tell, stopped: Callable[[], bool]) -> Audited:
        def tell(n_done: int, total: int, label: str, partial_report: Report) -> None:
            report(n_done, total, label, shown=Audited(partial_report))

        report(0, 0, "the first pair")
        result = refute(mechanism, seed=seed, tell=tell, stop=stopped)
        if result.stopped or not isinstance(mechanism, Output):
            return Audited(result)
        report(0, 0, "one rating turned to the other sign", shown=Audited(result))
        return Audited(result, lights(*known_instance(mechanism.epsilon)))

    return work
