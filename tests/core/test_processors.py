"""Numbers and errors are those of every processor: BLAS rounds otherwise on another one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What rounding has decided before: rows that are computed again, and problems at the limits.
SENSITIVE = (
    *("tests/lab/test_theory.py", "tests/core/test_contract.py", "tests/core/test_dpmf.py"),
    *("tests/core/test_implicit_solvers.py", "tests/core/test_user_level_solvers.py"),
)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["Prescott", "Haswell"])  # without AVX, and with it
def test_no_number_rests_on_the_processor(kernel):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SENSITIVE]
    environment = os.environ | {"OPENBLAS_CORETYPE": kernel}
    environment.pop("PYTEST_ADDOPTS", None)
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout[-3000:]
