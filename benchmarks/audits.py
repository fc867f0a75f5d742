"""Check whether audits keep their confidence, and which planted faults they notice.

    python benchmarks/audits.py [RUNS]
    python benchmarks/audits.py --papers
    python benchmarks/audits.py --shipped

--papers writes the findings of audits of the papers' methods, with the published settings and the
unit of their experiments, to dpmc_lab/papers/audits.json. It takes seconds to minutes.

--shipped writes what audits of all mechanisms measured at epsilon 1 to dpmc_lab/measured.json.

RUNS (200) is the number of audits of each certified mechanism by canaries, at epsilon 1, on small
data. A valid 95 % bound exceeds the certified value in more than 21 of 200 audits with a chance
below 0.1 %. Each processor audits one mechanism at a time. The script takes about half an hour on
one processor, and ends with status 1 if anything fails.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import math
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dpmc_core import registry
from dpmc_core.model import Mechanism
from dpmc_core.privacy import RATING, Gaussian, Guarantee
from dpmc_core.privacy.accounting import gaussian_epsilon, gaussian_mu
from dpmc_lab import measured, papers
from dpmc_lab.audit import AuditMethod, Refuted, audit_mechanism, generate_small_ratings
from dpmc_lab.audit.canaries import CanaryAuditor
from dpmc_lab.audit.report import build_measured_bound
from dpmc_lab.audit_bounds import count_right_guesses, gaussian_canary_bound
from dpmc_lab.papers import verdicts
from dpmc_lab.sweep.grid import DEFAULT_SEED
from dpmc_lab.views import as_published, audits
from tests.flawed_mechanisms import list_faults, plant_fault
from tests.noise_law import find_misfits

CANARIES = 40  # where each takes a run to score
NOISY = [id for id, cls in registry.MECHANISMS.items() if registry.adds_noise(cls)]

failed: list[str] = []


def mark_failure(is_met: bool, message: str) -> str:
    """Record a failure, and return a mark for its line."""
    if not is_met:
        failed.append(message)
    return "" if is_met else "  <-- NOT AS IT MUST BE"


def build_guarantee(mechanism: Mechanism) -> Guarantee:
    """Build the guarantee of a mechanism on small ratings."""
    return mechanism.guarantee(generate_small_ratings(mechanism).public)


def create_auditor(id: str, epsilon: float, seed: int) -> CanaryAuditor:
    """Create the auditor of a mechanism on small ratings."""
    mechanism = registry.create(id, epsilon=epsilon)
    guarantee = build_guarantee(mechanism)
    return CanaryAuditor(mechanism, guarantee, guarantee.change, seed)


def audit_bounds(id: str, epsilon: float, runs: int, all_guessed: bool = False) -> list[float]:
    """Return the bounds of several audits with independent coins and noise."""
    first = create_auditor(id, epsilon, 10**6)
    ratings = generate_small_ratings(first.mechanism)
    rehearsal = first.rehearse(ratings, CANARIES)
    if all_guessed:
        rehearsal = rehearsal._replace(guesses=rehearsal.plan.count)
    seeds = range(10, 10 * runs + 10, 10)
    auditors = (dataclasses.replace(first, seed=seed) for seed in seeds)
    findings = [[*auditor.audit(ratings, CANARIES, rehearsal)][-1] for auditor in auditors]
    return [finding.epsilon or 0.0 for finding in findings]


def median_gaussian_bound(
    epsilon: float, runs: int, canaries: int = 10_000, guesses: int = 500
) -> float:
    """Return the median bound at delta 1e-5 for one Gaussian release of one number per canary."""
    delta, lower_bounds = 1e-5, []
    scale = 1 / gaussian_mu(epsilon, delta)
    release = Gaussian(query="bits", shape=(None,), sensitivity={RATING: 1}, scale=scale)
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        coins = rng.random(canaries) < 0.5
        released = release.publish(coins, rng)
        scores = release.log_likelihood(released, 1.0) - release.log_likelihood(released, 0.0)
        right = count_right_guesses(scores, coins, guesses)
        lower_bounds.append(
            gaussian_epsilon(gaussian_canary_bound(canaries, guesses, right), delta)
        )
    return float(np.median(lower_bounds))


def audit_papers() -> int:
    """Audit every promise of the papers that is not proved, with the command that repeats it."""
    entries = {}
    for _, paper_experiment in papers.list_experiments():
        for promise in paper_experiment.promises:
            command = verdicts.build_audit_command(promise)
            if command in entries:
                continue
            settings = as_published.merge_published_settings(promise.mechanism, promise.settings)
            options = {"epsilon": promise.epsilon, "delta": promise.delta, **settings}
            mechanism = registry.create(promise.mechanism, **options)
            guarantee = mechanism.guarantee(promise.public)
            if (
                guarantee.change is not promise.change
                or guarantee.certified().epsilon <= promise.epsilon
            ):
                continue
            report = audit_mechanism(mechanism, runs=12, methods=[AuditMethod.PROBE])
            if report.refuted is not Refuted.CLAIM or not (best := report.best) or not best.pair:
                continue
            pair = audits.describe_changed_row(best.pair)
            entries[command] = {
                "epsilon": report.measured,
                "revision": mechanism.revision,
                "pair": f"{pair}, {report.data}",
            }
            print(f"{report.measured:8.4g}  {command}", flush=True)
    lines = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in entries.items())
    path = Path(verdicts.__file__).with_name("audits.json")
    path.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    return 0


def shipped() -> int:
    """Measure every mechanism that adds noise, with its default settings."""
    lines = []
    for id in NOISY:
        mechanism = registry.create(id, epsilon=1.0)
        report = audit_mechanism(mechanism, seed=DEFAULT_SEED)
        if report.best is not None and report.best.method is AuditMethod.CANARIES:
            # Coins decide the bound: the one in the middle of five seeds.
            other_reports = [audit_mechanism(mechanism, seed=DEFAULT_SEED + k) for k in range(1, 5)]
            report = sorted([report, *other_reports], key=lambda candidate: candidate.measured)[2]
        lines.append(f"  {json.dumps(dataclasses.asdict(build_measured_bound(report)))}")
        print(f"{report.measured:8.4g}  {id}", flush=True)
    path = Path(measured.__file__).with_suffix(".json")
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    return 0


def audit_noise(id: str) -> int:
    """Return how many of 5 seeds accuse the noise of an honest mechanism, by its law."""
    guarantee = build_guarantee(registry.create(id, epsilon=1.0))
    return sum(bool(find_misfits(guarantee, guarantee, seed)) for seed in range(5))


def audit_planted(id: str) -> dict[str, list[str]]:
    """Return what detects each fault that can be planted in a mechanism."""
    mechanism = registry.create(id, epsilon=1.0)
    public = generate_small_ratings(mechanism).public
    detectors = {}
    for flaw in list_faults(mechanism, public):
        planted = plant_fault(mechanism, flaw, public)
        findings = audit_mechanism(planted, runs=CANARIES).findings
        found = [f.method.value for f in findings if f.refuted is Refuted.CERTIFICATE]
        misfits = find_misfits(mechanism.guarantee(public), planted.guarantee(public))
        detectors[flaw.value] = [*found, *["law of the noise"] * bool(misfits)]
    return detectors


def main(runs: int) -> int:
    """Check the audits, print what they found, and return the exit status."""
    start = time.perf_counter()
    with ProcessPoolExecutor() as pool:
        print("Randomised response, 1,000 canaries, all guessed: median bound over epsilon")
        epsilons = (1.0, 2.0, 4.0)
        all_guessed = functools.partial(audit_bounds, "dplcf", runs=runs, all_guessed=True)
        for epsilon, bounds in zip(epsilons, pool.map(all_guessed, epsilons), strict=True):
            share = float(np.median(bounds)) / epsilon
            mark = mark_failure(share >= 0.85, f"randomised response at {epsilon:g}: {share:.3f}")
            print(f"  epsilon {epsilon:g}: {share:.3f}{mark}", flush=True)

        print("One Gaussian release, 10,000 canaries, 500 guessed, delta 1e-5: median bound")
        epsilons = (1.0, 4.0, 8.0)
        find_median = functools.partial(median_gaussian_bound, runs=max(20, runs // 10))
        for epsilon, median in zip(epsilons, pool.map(find_median, epsilons), strict=True):
            mark = mark_failure(
                epsilon != 4 or median >= 2.4, f"Gaussian at {epsilon:g}: {median:.2f}"
            )
            print(f"  epsilon {epsilon:g}: {median:.2f}{mark}", flush=True)

        output = registry.create("output", epsilon=1.0)
        report = audit_mechanism(output, methods=[AuditMethod.PROBE])
        mark = mark_failure(report.measured >= 3, f"output perturbation: {report.measured:.3g}")
        print(f"Output perturbation at epsilon 1: at least {report.measured:.3g}{mark}")

        print("Noise of honest mechanisms against its law: accused, of 5 seeds each")
        accused = sum(pool.map(audit_noise, NOISY))
        mark = mark_failure(accused <= 2, f"law: {accused} accused")
        print(f"  {accused} of {5 * len(NOISY)}{mark}")

        print("Planted faults at epsilon 1, noticed by")
        for id, detectors in zip(NOISY, pool.map(audit_planted, NOISY), strict=True):
            for flaw, found in detectors.items():
                mark = mark_failure(bool(found), f"{id}, {flaw}: not noticed")
                print(f"  {id:<25}{flaw:<11}{', '.join(found)}{mark}", flush=True)

        print(f"Certified at epsilon 1: bound above certified, of {runs} audits by canaries")
        guarantees = {id: build_guarantee(registry.create(id, epsilon=1.0)) for id in NOISY}
        certified = {id: guarantee.certified().epsilon for id, guarantee in guarantees.items()}
        audited = [id for id, epsilon in certified.items() if math.isfinite(epsilon)]
        all_bounds = pool.map(functools.partial(audit_bounds, epsilon=1.0, runs=runs), audited)
        for id, bounds in zip(audited, all_bounds, strict=True):
            n_above = sum(bound > certified[id] for bound in bounds)
            mark = mark_failure(n_above <= 21 * runs // 200, f"{id}: {n_above} of {runs}")
            print(f"  {id:<25}{n_above:>4}   median {np.median(bounds):.3f}{mark}", flush=True)

    print(f"{(time.perf_counter() - start) / 60:.1f} minutes")
    for message in failed:
        print(f"NOT AS IT MUST BE: {message}")
    return 1 if failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", nargs="?", type=int, default=200, help="audits each (200)")
    parser.add_argument("--papers", action="store_true", help="write those of the papers")
    parser.add_argument("--shipped", action="store_true", help="write those that ship")
    args = parser.parse_args()
    if args.shipped:
        sys.exit(shipped())
    sys.exit(audit_papers() if args.papers else main(args.runs))
