"""Quadratics, possibly indefinite, minimised over a ball: exact and batched."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpmc_core.stopping import look, waited

Floats = NDArray[np.float64]

_ITERATIONS = 100  # bisection alone would need about 60 to reach neighbouring floats


def minimise_in_ball(quadratic: Floats, linear: Floats, radius: float) -> Floats:
    """argmin x'A x - b'x over ||x||_2 <= radius, for each of n problems.

    quadratic: n x d x d, or d x d shared by all; only its symmetric part matters, and it may be
    indefinite. linear: n x d. Returns n x d. The minimiser solves (A + nu I) x = b/2 with
    nu >= max(0, -smallest eigenvalue) and nu > 0 only on the sphere (More, Sorensen, "Computing a
    trust region step", 1983); nu is the root of the secular equation ||x(nu)|| = radius.
    """
    symmetric = 0.5 * (quadratic + np.swapaxes(quadratic, -1, -2))
    values, vectors = waited(np.linalg.eigh, symmetric)
    if quadratic.ndim == 2:
        beta = 0.5 * (linear @ vectors)
        values = np.broadcast_to(values, beta.shape)
    else:
        beta = 0.5 * np.einsum("nji,nj->ni", vectors, linear)
    found = _in_eigenbasis(values, beta, radius)
    if quadratic.ndim == 2:
        rotated: Floats = found @ vectors.T
        return rotated
    product: Floats = np.einsum("nij,nj->ni", vectors, found)
    return product


def _in_eigenbasis(values: Floats, beta: Floats, radius: float) -> Floats:
    """The minimiser in the eigenbasis: values n x d ascending, beta = V'b/2 n x d.

    Where the smallest value is negative, values are counted from it and nu from its opposite: in
    the nearly hard case nu + smallest is too small to be left over from a difference.
    """
    indefinite = values[:, 0] < 0
    values = values - np.minimum(values[:, :1], 0.0)
    smallest = values[:, 0]
    size = np.linalg.norm(beta, axis=1)
    low = np.zeros(len(beta))

    def norm_at(nu: Floats, rows: NDArray[np.intp]) -> tuple[Floats, Floats]:
        gap = values[rows] + nu[:, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            x = np.where(beta[rows] == 0, 0.0, beta[rows] / gap)
            slope = np.sum(np.where(beta[rows] == 0, 0.0, x * x / gap), axis=1)
        return np.linalg.norm(x, axis=1), slope

    everything = np.arange(len(beta))
    at_low, _ = norm_at(low, everything)
    # Indefinite: the norm at 0 is infinite unless beta has no part along the first direction.
    inside = ~(at_low > radius)
    nu = low.copy()
    rows = np.flatnonzero(~inside)
    left, right = low[rows].copy(), np.maximum(low[rows], size[rows] / radius - smallest[rows])
    right *= 1 + 1e-15
    current = 0.5 * (left + right)
    for _ in range(_ITERATIONS):
        if not len(rows):
            break
        look()
        norm, slope = norm_at(current, rows)
        too_long = norm > radius
        left = np.where(too_long, current, left)
        right = np.where(too_long, right, current)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # Newton on 1/norm - 1/radius, which is nearly linear in nu.
            step = current + (norm / radius - 1.0) * norm * norm / slope
        middle = 0.5 * (left + right)
        following = np.where((step > left) & (step < right), step, middle)
        nu[rows] = current
        moving = (np.abs(norm - radius) > 1e-13 * radius) & (right - left > 1e-15 * right)
        rows, left, right = rows[moving], left[moving], right[moving]
        current = following[moving]
    gap = values + nu[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.where((beta == 0) | (gap <= 0), 0.0, beta / gap)
    # The hard case: on an indefinite quadratic the minimum is on the sphere; what is missing
    # goes along an eigenvector of the smallest value, where the quadratic is flat. So it does
    # where the root was too close to 0 to be reached.
    reached = ~inside & (np.linalg.norm(x, axis=1) >= radius * (1 - 1e-12))
    short = indefinite & ~reached
    if short.any():
        rest = np.sum(x[short, 1:] ** 2, axis=1)
        x[short, 0] = np.copysign(np.sqrt(np.maximum(radius**2 - rest, 0.0)), beta[short, 0])
    return x
