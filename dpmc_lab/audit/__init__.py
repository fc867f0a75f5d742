"""Audit a mechanism: try to refute what it claims and what its releases certify.

There are two methods. Each uses only the noisy answers of the releases, from which everything else
follows:

- The sensitivity probe measures how far the queries really move between neighbouring data sets. Its
  bound is exact for the pair that it shows, so it needs no confidence level.
- Canaries are planted in one run by a fair coin each, in the mechanism's own unit, and guessed from
  what was published.

An audit that refutes nothing confirms nothing. The same seed gives the same numbers.
"""

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from dpmc_core.errors import InvalidSetting, check_number
from dpmc_core.mechanisms.one_bit import Output
from dpmc_core.model import Mechanism, Task
from dpmc_core.privacy import Change
from dpmc_core.ratings import PublicFacts, Ratings
from dpmc_core.stopping import StopCheck, Stopped, check_cancelled, stop_when
from dpmc_lab.audit.canaries import CanaryAuditor
from dpmc_lab.audit.probe import ProbeAuditor
from dpmc_lab.audit.report import (
    AuditFinding,
    AuditProgress,
    AuditReport,
    ChangedRow,
    Inapplicable,
    ReleaseFinding,
)
from dpmc_lab.measured import AuditMethod, Refuted

RUNS = 100  # pairs that the probe tries, and canaries that take a run each
_MAX_CELLS = 4_000_000  # users x items
_PROGRESS_STEPS = 1000  # steps in which the progress of one method is reported
_METHODS: dict[AuditMethod, type[ProbeAuditor | CanaryAuditor]] = {
    AuditMethod.PROBE: ProbeAuditor,
    AuditMethod.CANARIES: CanaryAuditor,
}


def audit_mechanism(
    mechanism: Mechanism,
    ratings: Ratings | None = None,
    *,
    data: str = "",
    change: Change | None = None,
    runs: int = RUNS,
    methods: Collection[AuditMethod] = tuple(AuditMethod),
    seed: int = 1,
    on_progress: AuditProgress | None = None,
    stop: StopCheck | None = None,
) -> AuditReport:
    """Audit a mechanism on ratings prepared for its task.

    Args:
        mechanism: the mechanism.
        ratings: prepared ratings (default: `generate_small_ratings`).
        data: name of the ratings in the report.
        change: how neighbouring data sets differ (default: as in the claim).
        runs: how many pairs the probe tries, and how many canaries there are where each takes a run
            to score.
        methods: the methods to use.
        seed: of the audit.
        on_progress: called whenever a method has a new finding, see `AuditProgress`.
        stop: returns whether to stop.

    Returns:
        The report; if stopped, the report so far with `stopped` set, in which an unfinished finding
        is not valid.

    Raises:
        InvalidSetting: the data are too large, or the mechanism adds no noise.
    """
    check_number("runs", runs, at_least=2, integer=True)
    check_number("seed", seed, at_least=0, integer=True)
    if ratings is None:
        ratings = generate_small_ratings(mechanism)
        data = data or "small invented ratings"
    public = ratings.public
    if (n_cells := public.users * public.items) > _MAX_CELLS:
        raise InvalidSetting("users x items", f"at most {_MAX_CELLS:,} for an audit", n_cells)
    check_number("users with ratings", int(np.unique(ratings.users).size), at_least=2)
    guarantee = mechanism.guarantee(public).with_preparation(ratings.prepared)
    if not list(guarantee.releases):
        raise InvalidSetting("the mechanism", "one that adds noise", mechanism.id)
    change = change or guarantee.change
    report = AuditReport(mechanism, guarantee, change, seed, data, runs)
    ordered_methods = [method for method in _METHODS if method in methods]
    with stop_when(stop):
        for position, method in enumerate(ordered_methods):
            prior_report = report
            try:
                for finding in _METHODS[method](mechanism, guarantee, change, seed).audit(
                    ratings, runs
                ):
                    report = replace(prior_report, findings=(*prior_report.findings, finding))
                    if on_progress is not None:
                        progress = (
                            position + finding.done / max(finding.total, 1)
                        ) * _PROGRESS_STEPS
                        on_progress(
                            int(progress),
                            len(ordered_methods) * _PROGRESS_STEPS,
                            method.value,
                            report,
                        )
                    check_cancelled()
            except Inapplicable as reason:
                report = replace(
                    prior_report, skipped=(*prior_report.skipped, (method, str(reason)))
                )
            except Stopped:
                return replace(report, stopped=True)
    return report


def generate_small_ratings(mechanism: Mechanism) -> Ratings:
    """Generate ratings for a mechanism's task, so few that it can run hundreds of times.

    Output perturbation gets the example in which one rating moves the whole matrix.
    """
    if isinstance(mechanism, Output):
        ratings, _ = generate_one_rating_example()
        return ratings
    rng = np.random.default_rng(0)
    users, items, share = (60, 50, 0.3) if mechanism.task is Task.BINARY else (200, 24, 0.35)
    low, high = {Task.BINARY: (-1, 1), Task.RATINGS: (1, 5), Task.RANKING: (0, 1)}[mechanism.task]
    rated_pairs = np.argwhere(rng.random((users, items)) < share)
    user_indices = rated_pairs[:, 0]
    item_indices = rated_pairs[:, 1]
    scores = rng.normal(size=users)[user_indices] * rng.normal(size=items)[item_indices]
    values = {
        Task.BINARY: np.where(scores > 0, 1.0, -1.0),
        Task.RATINGS: np.clip(np.rint(3.3 + scores), 1, 5),  # people mostly rate above the middle
        Task.RANKING: np.ones(len(scores)),
    }[mechanism.task]
    public = PublicFacts(users=users, items=items, low=low, high=high)
    return Ratings.build(user_indices, item_indices, values, public)


def generate_one_rating_example() -> tuple[Ratings, int]:
    """Return 40 x 400 signs, one in ten observed, and the position of one user's only rating.

    Item j has the same sign from every user. With radius 1.2 and bound 1, that rating moves the
    whole matrix of output perturbation.
    """
    rng = np.random.default_rng(0)
    observed = rng.random((40, 400)) < 0.1
    observed[0] = False
    observed[0, 0] = True
    item_signs = np.where(rng.random(400) < 0.5, 1.0, -1.0)
    users, items = np.nonzero(observed)
    public = PublicFacts(users=40, items=400, low=-1, high=1)
    return Ratings.build(users, items, item_signs[items], public), 0


__all__ = [
    "RUNS",
    "AuditFinding",
    "AuditMethod",
    "AuditReport",
    "ChangedRow",
    "Refuted",
    "ReleaseFinding",
    "audit_mechanism",
    "generate_one_rating_example",
    "generate_small_ratings",
]
