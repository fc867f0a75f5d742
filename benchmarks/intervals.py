"""Compute exactly how often a class's 95 % intervals cover the true share.

    python benchmarks/intervals.py [--phones 10 30 100 300] [--epsilons .5 1 2 3 5 10]

The script draws nothing. It computes the chance of every outcome without the code of the intervals,
and prints the least coverage. For this class, that is over every number of true yes. For people
like it, it is over every share; the coverage is least just beyond the ends of intervals. There are
one round and two rounds, whose reports are linked, and the difference of two questions, however
their answers are related. Then follow the half widths that 30 phones give, 9 of which say yes.
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
    """Return the poll for every possible number of reported yes."""
    return [
        Poll.from_linked([LinkedReports(phones, times, n_yes)], build_phone_channel(epsilon))
        for n_yes in range(phones * times + 1)
    ]


def yes_count_distribution(n_yes: int, phones: int, times: int, epsilon: float) -> np.ndarray:
    """Return the distribution of the number of reported yes if `n_yes` phones have the answer yes.

    Args:
        n_yes: number of phones with the answer yes.
        phones: number of phones.
        times: reports of each phone.
        epsilon: of one report.
    """
    flip_probability = build_phone_channel(epsilon).matrix[0, 1]
    yes, no = n_yes * times, (phones - n_yes) * times  # reports of either answer
    return np.convolve(
        binom.pmf(range(yes + 1), yes, 1 - flip_probability),
        binom.pmf(range(no + 1), no, flip_probability),
    )


def population_distribution(share: float, phones: int, times: int, epsilon: float) -> np.ndarray:
    """Return the distribution of the number of reported yes of a random sample of a population.

    Args:
        share: share of the population with the answer yes.
        phones: number of phones.
        times: reports of each phone.
        epsilon: of one report.
    """
    flip_probability = build_phone_channel(epsilon).matrix[0, 1]
    yes_counts = range(times + 1)
    # The distribution of one phone, convolved with itself by repeated squaring.
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
    """Return which intervals cover a value, up to rounding."""
    return np.array([b is not None and b.low - 1e-12 <= truth <= b.high + 1e-12 for b in bounds])


def class_coverage(phones: int, times: int, epsilon: float) -> float:
    """Return the least coverage of the class's interval over all numbers of true yes."""
    intervals = [poll.of_class for poll in list_outcomes(phones, times, epsilon)]
    return min(
        yes_count_distribution(n_yes, phones, times, epsilon)[
            covers(intervals, n_yes / phones)
        ].sum()
        for n_yes in range(phones + 1)
    )


def population_coverage(phones: int, times: int, epsilon: float) -> float:
    """Return the least coverage of the population's interval over all shares.

    Coverage is least just beyond the ends of intervals, so only these shares are tried.
    """
    intervals = [poll.of_people for poll in list_outcomes(phones, times, epsilon)]
    ends = np.array([end for bounds in intervals for end in bounds[1:]])
    shares = np.clip(np.concatenate([ends - 1e-7, ends + 1e-7]), 0, 1)
    return min(
        population_distribution(share, phones, times, epsilon)[covers(intervals, share)].sum()
        for share in np.unique(shares)
    )


def difference_coverage(phones: int, epsilons: tuple[float, float]) -> float:
    """Return the least coverage of a difference over all numbers of true yes to two questions."""
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
    """Return the mean half width of an interval, in percentage points.

    Args:
        epsilon: of one report.
        times: reports of each phone.
        kind: `of_class` or `of_people`.
        phones: number of phones.
        yes: number of phones with the answer yes.
    """
    intervals = [getattr(poll, kind) for poll in list_outcomes(phones, times, epsilon)]
    widths = np.array([b.high - b.low for b in intervals])
    return 50 * float(yes_count_distribution(yes, phones, times, epsilon) @ widths)


def main() -> None:
    """Compute all coverages and half widths, and print them."""
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
