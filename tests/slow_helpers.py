"""Cases by the dozen: some for `make test`, the others for `make slow`."""

import pytest


def mark_rest_slow(cases, first=1):
    """The first cases as they are, the others marked slow."""
    cases = list(cases)
    slow_cases = [case if isinstance(case, tuple) else (case,) for case in cases[first:]]
    return [*cases[:first], *(pytest.param(*case, marks=pytest.mark.slow) for case in slow_cases)]


def pair_by_turns(cases, variants):
    """Every case with one of the kinds, taken by turns; with the other kinds it is slow."""
    variants = list(variants)
    return [
        pytest.param(case, variant, marks=[pytest.mark.slow] * (k % len(variants) != position))
        for k, case in enumerate(cases)
        for position, variant in enumerate(variants)
    ]
