"""Type aliases for arrays, for the random generator, and for plain JSON objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # SciPy's sparse arrays take long to import
    from scipy.sparse import csr_array

    Sparse: TypeAlias = csr_array
else:
    Sparse = Any

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Uint64s = NDArray[np.uint64]
Rng = np.random.Generator

JsonObject = dict[str, Any]  # JSON values by name
