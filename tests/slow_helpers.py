"""Cases by the dozen: some for `make test`, the others for `make slow`."""

import pytest


def rest_slow(cases, first=1):
    """The first cases as they are, the others marked slow."""
    cases = list(cases)
    late = [case if isinstance(case, tuple) else (case,) for case in cases[first:]]
    return [*cases[:first], *(pytest.param(*case, marks=pytest.mark.slow) for case in late)]


def by_turns(cases, kinds):
    """Every case with one of the kinds, taken by turns; with the other kinds it is slow."""
    kinds = list(kinds)
    return [
        pytest.param(case, kind, marks=[pytest.mark.slow] * (k % len(kinds) != at))
        for k, case in enumerate(cases)
        for at, kind in enumerate(kinds)
    ]
