"""Cases by the dozen: some for `make test`, the others for `make slow`."""

import pytest


def mark_rest_slow(cases, first=1):
    """The first cases as they are, the others marked slow."""
    cases = list(cases)
    slow_cases = [case if isinstance(case, tuple) else (case,) for case in cases[first:]]
    return [*cases[:first], *(pytest.param(*case, marks=pytest.mark.slow) for case in slow_cases)]
