"""Compute exactly how often a class's 95 % intervals cover the true share.

    python benchmarks/intervals.py [--phones 10 30 100 300] [--epsilons .5 1 2 3 5 10]

Nothing is drawn: the chance of every outcome is computed, apart from the code that makes the
intervals, and the least coverage is printed. Of this class: over every number of true yes. Of
people like it: over every share, which is least just beyond the ends of the intervals. Once and in
two rounds, whose reports are linked; and of two questions the difference, whatever the answers to
them have to do with each other. Then the half widths that 30 phones give, 9 of which say yes.
"""

import argparse
from collections.abc import Iterable

import numpy as np
from scipy.stats import binom

from dpmc_lab.classroom.room import (
    Bounds,
    LinkedReports,
    Poll,
    build_phone_channel,
    compute_share_difference,
)

EPSILONS = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0)
PHONES = (10, 30, 100, 300)


def list_outcomes(phones: int, times: int, epsilon: float) -> list[Poll]:
    """List every number of yes among the reports."""
    yes = range(phones * times + 1)
    return [
        Poll.from_linked([LinkedReports(phones, times, k)], build_phone_channel(epsilon))
        for k in yes
    ]


def yes_count_distribution(n_yes: int, phones: int, times: int, epsilon: float) -> np.ndarray:
    """Return the distribution of reported yes if so many phones would say yes."""
    flip_probability, yes, no = (
        build_phone_channel(epsilon).matrix[0, 1],
        n_yes * times,
        (phones - n_yes) * times,
    )
    return np.convolve(
        binom.pmf(range(yes + 1), yes, 1 - flip_probability),
        binom.pmf(range(no + 1), no, flip_probability),
    )


def population_distribution(share: float, phones: int, times: int, epsilon: float) -> np.ndarray:
    """Return the same distribution where each phone says yes with a chance."""
    flip_probability, yes_counts = build_phone_channel(epsilon).matrix[0, 1], range(times + 1)
    power = share * binom.pmf(yes_counts, times, 1 - flip_probability) + (1 - share) * binom.pmf(
        yes_counts, times, flip_probability
    )
    distribution = np.ones(1)
    while phones:
        if phones % 2:
            distribution = np.convolve(distribution, power)
        power, phones = np.convolve(power, power), phones // 2
    return distribution


def covers(bounds: Iterable[Bounds | None], truth: float) -> np.ndarray:
    """Return which intervals cover a value; they end on whole phones."""
    return np.array([b is not None and b.low - 1e-12 <= truth <= b.high + 1e-12 for b in bounds])


def class_coverage(phones: int, times: int, epsilon: float) -> float:
    """Return the least coverage over what the phones would say."""
    intervals = [poll.of_class for poll in list_outcomes(phones, times, epsilon)]
    return min(
        yes_count_distribution(n_yes, phones, times, epsilon)[
            covers(intervals, n_yes / phones)
        ].sum()
        for n_yes in range(phones + 1)
    )


def population_coverage(phones: int, times: int, epsilon: float) -> float:
    """Return the least coverage over the shares of a population."""
    intervals = [poll.of_people for poll in list_outcomes(phones, times, epsilon)]
    ends = np.array([end for bounds in intervals for end in bounds[1:]])
    shares = np.clip(np.concatenate([ends - 1e-7, ends + 1e-7]), 0, 1)
    return min(
        population_distribution(share, phones, times, epsilon)[covers(intervals, share)].sum()
        for share in np.unique(shares)
    )


def difference_coverage(phones: int, epsilons: tuple[float, float]) -> float:
    """Return the least coverage over what the phones would say to two questions."""
    first_polls, second_polls = (list_outcomes(phones, 1, epsilon) for epsilon in epsilons)
    intervals = [[compute_share_difference(a, b) for b in second_polls] for a in first_polls]
    low, high = (np.array([[b[k] for b in row] for row in intervals]) for k in (1, 2))
    distributions = [
        np.array([yes_count_distribution(k, phones, 1, e) for k in range(phones + 1)])
        for e in epsilons
    ]
    min_coverage = 1.0
    for d in range(-phones, phones + 1):
        inside = (low - 1e-12 <= d / phones) & (d / phones <= high + 1e-12)
        chances = distributions[0] @ inside @ distributions[1].T
        min_coverage = min(min_coverage, np.diagonal(chances, -d).min())
    return min_coverage


def half_width(epsilon: float, times: int, kind: str, phones: int = 30, yes: int = 9) -> float:
    """Return half the interval, on average, in points."""
    intervals = [getattr(poll, kind) for poll in list_outcomes(phones, times, epsilon)]
    widths = np.array([b.high - b.low for b in intervals])
    return 50 * float(yes_count_distribution(yes, phones, times, epsilon) @ widths)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--phones", type=int, nargs="+", default=PHONES)
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    options = parser.parse_args()
    rows = []
    for times in (1, 2):
        for name, coverage in (
            ("this class", class_coverage),
            ("people like it", population_coverage),
        ):
            for phones in options.phones:
                row = [coverage(phones, times, epsilon) for epsilon in options.epsilons]
                rows.append((f"{name}, {phones} phones, {'twice' if times > 1 else 'once'}", row))
    for phones in (n for n in options.phones if n <= 30):
        row = [difference_coverage(phones, (epsilon, epsilon)) for epsilon in options.epsilons]
        rows.append((f"difference, {phones} phones", row))
    print(
        f"{'least coverage, exact, at epsilon':36}" + "".join(f"{e:8g}" for e in options.epsilons)
    )
    for name, row in rows:
        print(f"{name:36}" + "".join(f"{value:8.4f}" for value in row))
    print(f"least of all: {min(min(row) for _, row in rows):.6f}")
    print("\nhalf widths in points, 30 phones, 9 of them yes")
    for times in (1, 2):
        for kind in ("of_class", "of_people"):
            row = "".join(f"{half_width(e, times, kind):8.1f}" for e in options.epsilons)
            print(f"{kind + (', twice' if times > 1 else ', once'):36}{row}")


if __name__ == "__main__":
    main()
