"""Types of arrays, of their axes, of the random generator and of JSON objects; late imports."""

from __future__ import annotations

from importlib import import_module
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
Integers = NDArray[np.integer]  # of any size
AnyArray = NDArray[Any]
Rng = np.random.Generator
SMALLEST = float(np.finfo(float).tiny)  # in place of zero, before a division

JsonObject = dict[str, Any]  # JSON values by name


class UserAxis(int):
    """The length of an axis that runs over the users."""


class ItemAxis(int):
    """The length of an axis that runs over the items, or over the most rated of them."""


class FactorAxis(int):
    """The length of an axis that runs over the factors of a user or an item."""


class LateModule:
    """A module that is imported when it is first used, because that takes long.

    Args:
        name: the full name of the module.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)
