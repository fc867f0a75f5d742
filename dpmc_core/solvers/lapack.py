"""LAPACK routines that let other threads run: SciPy's own wrappers hold all of them up.

On 5,000 items that is a quarter of a minute in which nobody else is served. The routines and their
results are SciPy's.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmc_core.stopping import look, waited

Floats = NDArray[np.float64]


def top_eigenpairs(matrix: Floats, count: int) -> tuple[Floats, Floats]:
    """The `count` largest eigenvalues (ascending) of a symmetric matrix and their vectors.

    Raises LinAlgError where they are not found.
    """
    look()
    n = len(matrix)
    first, last, found = ctypes.c_int(n - count + 1), ctypes.c_int(n), ctypes.c_int()
    values, vectors = np.empty(n), np.empty((n, count), order="F")
    support = np.empty(2 * n, dtype=np.intc)

    def call(a: Floats, work: Floats, whole: NDArray[np.intc], asked: bool) -> None:
        sizes = (-1, -1) if asked else (len(work), len(whole))
        _call(
            *("dsyevr", b"V", b"I", b"L", n, a, n, 0.0, 0.0, first, last, 0.0, found),
            *(values, vectors, n, support, work, sizes[0], whole, sizes[1]),
        )

    work, whole = np.empty(1), np.empty(1, dtype=np.intc)
    call(np.empty((1, 1)), work, whole, True)  # how much scratch is best
    work, whole = np.empty(int(work[0])), np.empty(int(whole[0]), dtype=np.intc)
    waited(call, np.array(matrix, order="F"), work, whole, False)
    return values[:count], vectors


def inverse_triangle(matrix: Floats) -> Floats:
    """The upper triangle of the inverse of a positive definite matrix; below it, whatever.

    Raises LinAlgError where the matrix is not positive definite.
    """
    n, inverse = len(matrix), np.array(matrix, order="F")
    waited(_call, "dpotrf", b"U", n, inverse, n)
    waited(_call, "dpotri", b"U", n, inverse, n)
    return inverse


def _call(name: str, *arguments: Any) -> None:
    """A routine by its Fortran arguments but the last, which says whether it worked."""
    from scipy.linalg import cython_lapack

    api = ctypes.pythonapi
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    capsule = vars(cython_lapack)["__pyx_capi__"][name]
    address = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    info = ctypes.c_int()
    # ctypes lets go of the interpreter for as long as the routine runs.
    ctypes.CFUNCTYPE(None)(address)(*map(_pointer, arguments), ctypes.byref(info))
    if info.value:
        raise np.linalg.LinAlgError(f"{name} gave up ({info.value})")


def _pointer(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return ctypes.c_void_p(argument.ctypes.data)
    if isinstance(argument, bytes):
        return ctypes.c_char_p(argument)
    if isinstance(argument, int):
        argument = ctypes.c_int(argument)
    elif isinstance(argument, float):
        argument = ctypes.c_double(argument)
    return ctypes.byref(argument)
