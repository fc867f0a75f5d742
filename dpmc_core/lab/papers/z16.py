"""Z16: Zheng, "Two Differentially Private Rating Collection Mechanisms for Recommender Systems".

Theorem 3 and Equation 5 against practice, on generated ratings whose truth is known: 300 x 200 of
which 30 % are given. The bounds of Theorem 3 are settings of `dpmc_core.mechanisms.collection`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, cast

import numpy as np

from dpmc_core import metrics, registry
from dpmc_core.arrays import Bools, Floats
from dpmc_core.data.synthetic import known_truth
from dpmc_core.errors import InvalidSetting, sentence
from dpmc_core.lab.papers.frame import Piece, PieceRecipe, Point, Series
from dpmc_core.lab.papers.theory import DRAWABLE, TheoryRow, rows_of
from dpmc_core.mechanisms.collection import Collection
from dpmc_core.model import Factors
from dpmc_core.ratings import Ratings
from dpmc_core.solvers.recovery import Regress, Rule, on_unit_scale

NAMES = {"modified-laplace": "modified Laplace", "randomised-response": "randomised response"}


def recovery_error(rho: float, reported: float, constant: float = 1.0) -> float:
    """Equation 5: ||Theta^ - Theta||_F <= C0 p^(-1/2) rho, under restricted isometry.

    reported: p, the share of cells reported; constant: C0, which the paper leaves open. Its
    condition (Definition 4) asks that no matrix of low rank vanish on the reported cells. One that
    is zero but for a cell has rank one, so the condition fails as soon as a cell is not reported.
    """
    return constant * rho / math.sqrt(reported)


class RecoveryBounds(NamedTuple):
    """Against epsilon, on the scale -1..1: rho = ||P(Theta - Z)||_F at the truth, measured,
    bounded by Theorem 3 and told by the channel's moments; the error ||Theta^ - Theta||_F of both
    recoveries, and Equation 5's bound on it with C0 = 1.

    reported: ||P(Z)||_F of the reports. kept: norm of the paper's own recovery, the matrix of least
    nuclear norm within Theorem 3's bound of the reports; about 0 where that is ||P(Z)||_F or more,
    as the zero matrix is then within it; residual: its distance from the reports. tight: our bound
    on rho. size: ||Theta||_F. published: the error of the paper's own recovery.
    """

    epsilon: Floats
    rho: Floats
    theorem: Floats
    moments: Floats
    naive: Floats
    debiased: Floats
    equation_5: Floats
    reported: Floats
    kept: Floats
    residual: Floats
    tight: Floats
    size: Floats
    published: Floats


def _known(rng: np.random.Generator) -> tuple[Ratings, Floats, float]:
    """Ratings, their true matrix on the scale -1..1, and how far they are from it."""
    generated = known_truth(rng, density=0.3)
    ratings, truth = generated.ratings, generated.truth
    assert truth is not None
    scaled = on_unit_scale(truth.left @ truth.right.T, ratings.public)
    given = on_unit_scale(ratings.values, ratings.public)
    return ratings, scaled, metrics.rmse(given, scaled[ratings.users, ratings.items])


def _collection(id: str, **settings: Any) -> Collection:
    if not issubclass(registry.get(id), Collection):
        raise InvalidSetting("mechanism", "one that collects whole rows", id)
    return cast(Collection, registry.create(id, **settings))


def bounds(id: str, epsilons: Sequence[float], seed: int = 0) -> RecoveryBounds:
    """Collect, measure, recover at each epsilon. Raises InvalidSetting for another mechanism."""
    rng = np.random.default_rng(seed)
    ratings, scaled, misfit = _known(rng)
    public, norm = ratings.public, np.linalg.norm
    rows = []
    for epsilon in epsilons:
        create = partial(_collection, id, epsilon=epsilon, intrinsic=misfit / 2)
        mechanism = create()
        channel = mechanism.guarantee(public).releases.rows
        out = channel.publish(mechanism.rows(ratings, channel), rng)
        reports = mechanism.reports(out, channel, public)
        theorem = mechanism.rho(public, len(ratings))
        found = {}
        for recovery, rule, draws in (
            *((recovery, Rule.NOISE_LEVEL, rng) for recovery in Regress),
            (Regress.NAIVE, Rule.THEOREM, np.random.default_rng(0)),
        ):
            solver = create(recovery=recovery, rule=rule)
            *_, last = solver.recover(reports, public, draws, raw=False)
            assert isinstance(last.model, Factors)
            completed = on_unit_scale(last.model.left @ last.model.right.T, public)
            found[recovery, rule] = completed, last.trace["residual"]
        kept, residual = found[Regress.NAIVE, Rule.THEOREM]
        rows.append(
            (
                epsilon,
                norm(scaled[reports.pattern.users, reports.pattern.items] - reports.values),
                theorem,
                np.sqrt(reports.variance * out.nnz),
                *(norm(found[recovery, Rule.NOISE_LEVEL][0] - scaled) for recovery in Regress),
                recovery_error(theorem, out.nnz / scaled.size),
                norm(reports.values),
                norm(kept),
                residual,
                mechanism.rho(public, len(ratings), tight=True),
                norm(scaled),
                norm(kept - scaled),
            )
        )
    return RecoveryBounds(*np.array(rows, dtype=float).T)


def first_useful(id: str) -> float:
    """The epsilon per cell from which the paper's own recovery is expected to keep anything.

    Where Theorem 3's bound falls to the root of E||P(Z)||_F^2, by bisection up to 1e4.
    """
    ratings, scaled, misfit = _known(np.random.default_rng(0))
    given = on_unit_scale(ratings.values, ratings.public)
    square, density = float(np.mean(given**2)), len(ratings) / scaled.size

    def keeps(epsilon: float) -> bool:
        mechanism = _collection(id, epsilon=epsilon, intrinsic=misfit / 2)
        channel = mechanism.guarantee(ratings.public).releases.rows
        size = math.sqrt(channel.energy(square, density) * scaled.size)
        return mechanism.rho(ratings.public, len(ratings)) < size

    low, high = 1e-2, 1e4
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def beyond() -> tuple[float, float]:
    """The share of true ratings outside -1..1, which Theorem 3's proof excludes, and the mean of
    all their squares, of which it needs no more than that it is at most 1."""
    _, truth, _ = _known(np.random.default_rng(0))
    return float(np.mean(np.abs(truth) > 1)), float(np.mean(truth**2))


@cache
def theorems() -> tuple[TheoryRow, ...]:
    """Each statement beside a measurement, the same every time."""
    return tuple(_measured())


def _measured() -> Iterator[TheoryRow]:
    row, (share, square) = rows_of("z16"), beyond()
    for id in NAMES:
        useful, name = first_useful(id), registry.get(id).name.removesuffix(" collection")
        for at in zip(*bounds(id, (1.0, 4.0)), strict=True):
            v = RecoveryBounds(*map(float, at))  # type: ignore[arg-type]
            said = {"name": name, "epsilon": v.epsilon, "share": share, "square": square}
            said |= {"kept": v.kept, "size": v.size, "useful": useful}
            yield row("rho", bound=v.tight, printed=v.theorem, measured=v.rho, **said)
            yield row("rule", bound=v.theorem, measured=v.residual, trivial=v.reported, **said)
            yield row("error", bound=v.equation_5, measured=v.published, trivial=v.size, **said)


# --- in words ----------------------------------------------------------------------------------


def words(view: RecoveryBounds, epsilon: float) -> str:
    """The two charts as text, at the measured epsilon nearest to one."""
    k = int(np.argmin(np.abs(view.epsilon - epsilon)))
    return (
        f"At epsilon {view.epsilon[k]:g} per cell the reports lie {view.rho[k]:.0f} from the truth;"
        f" Theorem 3 allows {view.theorem[k]:.0f}. Taking reports as they come misses the truth by"
        f" {view.naive[k]:.0f}, allowing for spurious cells by {view.debiased[k]:.0f};"
        f" Equation 5 allows {view.equation_5[k]:.0f}, with 1 for the constant that it leaves open."
        + (" The paper's own rule returns the zero matrix." if rule_is_void(view)[k] else "")
    )


def near(bound: Floats, measured: Floats) -> Floats:
    """A bound where it may be drawn, below ten times what is measured; elsewhere no number."""
    return np.where(bound < DRAWABLE * measured, bound, np.nan)


def bounds_words(view: RecoveryBounds) -> str:
    """Where the bounds on the residual are drawn, and how far they are from what is measured."""

    def times(factor: float) -> str:
        return f"{factor:.0f}" if factor >= DRAWABLE else f"{factor:.1f}"

    said = []
    for name, bound in (("Theorem 3", view.theorem), ("our bound", view.tight)):
        factor = bound / view.rho
        shown = [f"{e:g}" for e in view.epsilon[factor < DRAWABLE]]
        where = f"at epsilon {', '.join(shown)}" if shown else "nowhere"
        said.append(
            sentence(
                f"{name} is {times(factor.min())} to {times(factor.max())} times what is measured,"
                f" under {DRAWABLE:g} times {'everywhere' if len(shown) == len(factor) else where}"
            )
        )
    return " ".join(said)


def rule_is_void(view: RecoveryBounds) -> Bools:
    """At which epsilons Theorem 3's bound is above the norm of the reports, so that the zero matrix
    is within it and is what the paper's rule returns."""
    return np.asarray(view.theorem >= view.reported)


_COLUMNS = (
    "epsilon per cell",
    "residual at the truth",
    "Theorem 3",
    "by the moments",
    "error, reports as they come",
    "error, allowing for spurious cells",
    "Equation 5",
    "norm of the reports",
    "norm, by the paper's rule",
    "distance from the reports, by the paper's rule",
    "our bound on the residual",
)


def table(view: RecoveryBounds) -> dict[str, list[Any]]:
    """The numbers as columns."""
    columns = zip(_COLUMNS, view, strict=False)
    return {name: [float(f"{v:.4g}") for v in column] for name, column in columns}


# --- as experiments ----------------------------------------------------------------------------

_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_ZERO = "the zero matrix"
_WHATS = {
    "measured": "rho",
    "Theorem 3": "theorem",
    "norm of the reports": "reported",
    "the paper's rule": "published",
    "allowing for spurious cells": "debiased",
    _ZERO: "size",
}


def recovered(whats: Sequence[str]) -> PieceRecipe:
    """What is recovered of both mechanisms' reports. whats: the curves of each."""

    def pieces(seeds: tuple[int, ...]) -> Iterator[Piece]:
        for seed in seeds:
            for id in NAMES:
                for epsilon in _EPSILONS:
                    yield Piece(f"{seed} {id} {epsilon:g}", partial(_piece, id, epsilon, seed))

    def series(found: Mapping[str, Mapping[str, float]]) -> tuple[Series, ...]:
        values: dict[tuple[str, str], dict[float, list[float]]] = defaultdict(dict)
        for key, row in found.items():
            _, id, epsilon = key.split()
            for what in whats:
                # the zero matrix is the same whatever is reported
                if what != _ZERO or id == next(iter(NAMES)):
                    curve = values["" if what == _ZERO else id, what]
                    curve.setdefault(float(epsilon), []).append(row[what])
        return tuple(
            Series.of(
                f"{NAMES[id]}, {what}" if id else what,
                {x: Point.of(one) for x, one in points.items()},
                id or None,
                level=not id,
            )
            for (id, what), points in values.items()
        )

    return PieceRecipe(
        pieces=pieces,
        series=series,
        settings={"data": "300 x 200 ratings 1..5 of rank 4, 30 % given", "gamma": "0.05"},
        mechanisms=tuple(NAMES),
        seeds=tuple(range(1, 11)),
    )


def _piece(id: str, epsilon: float, seed: int) -> dict[str, float]:
    found = bounds(id, [epsilon], seed)
    return {what: float(getattr(found, name)[0]) for what, name in _WHATS.items()}
