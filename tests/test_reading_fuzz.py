"""Every file is read as the oracle reads it, or refused in sentences: 2,000 generated files."""

from __future__ import annotations

import random

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.reading_files import File, disagreement, generate

PARTS, EACH = 8, 250


def check(file: File) -> None:
    for bad_rows in ("error", "leave-out"):
        problem = disagreement(file, bad_rows)
        assert not problem, f"{problem}\nbad_rows={bad_rows} {file.options}\n{file.content!r}"


@pytest.mark.parametrize("part", range(PARTS))
def test_generated_files(part: int) -> None:
    @hypothesis.seed(part)
    @hypothesis.settings(
        max_examples=EACH,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )
    @hypothesis.given(st.randoms(use_true_random=False))
    def one_file(r: random.Random) -> None:
        check(generate(r))

    one_file()
