"""Privacy faults to plant one at a time, each with the tests that must notice it.

`benchmarks/mutants.py` plants them in a copy of the program; `test_mutants.py` keeps the list up to
date. A fault is an edit of one place in the source, whose text must occur there exactly once.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Operator(enum.Enum):
    """What kind of fault."""

    SCALE = "scale 3 % off"
    SKIPPED = "skipped publish"
    UNIT = "wrong unit"
    CLIP = "clip"
    REUSED = "reused draw"
    OTHER = "other"


SCALE, SKIPPED, UNIT, CLIP, REUSED, OTHER = Operator


@dataclass(frozen=True)
class Mutant:
    """A fault: in `file` of dpmc_core or of pages, `before` becomes `after`; `tests`: pytest node
    ids."""

    name: str
    family: str
    operator: Operator
    file: str
    before: str
    after: str
    tests: tuple[str, ...]

    @property
    def path(self) -> str:
        """Of the source, from the project's folder."""
        return self.file if self.file.startswith("pages/") else f"dpmc_core/{self.file}"


def _contract(test: str, *ids: str) -> tuple[str, ...]:
    return tuple(f"tests/test_contract.py::{test}[{id}]" for id in ids)


def records(*ids: str) -> tuple[str, ...]:
    """What is published are the records of the card."""
    name = "test_what_is_published_are_the_records_of_the_card_as_often_as_they_say"
    return _contract(name, *ids)


def fresh(*ids: str) -> tuple[str, ...]:
    """Noise serves once."""
    return _contract("test_no_two_cells_rounds_or_runs_share_their_noise", *ids)


def other_seed(*ids: str) -> tuple[str, ...]:
    return _contract("test_another_seed_gives_other_noise", *ids)


def floor(id: str) -> tuple[str, ...]:
    """The floor of a method keeps its promise."""
    return _contract("test_a_private_floor_keeps_the_promise_that_the_method_claims", id)


def moves(*ids: str) -> tuple[str, ...]:
    """Sensitivities of the methods per user, e.g. dpals-5-EMPTIED."""
    name = "tests/test_user_level.py::test_no_row_moves_a_release_further_than_its_card_says"
    parts = (id.rpartition("-") for id in ids)
    return tuple(f"{name}[{id}-Change.USER_{change}]" for id, _, change in parts)


def spends(*ids: str) -> tuple[str, ...]:
    """Calibration of the methods per user."""
    name = "tests/test_user_level.py::test_tight_calibration_spends_the_budget_and_no_more"
    return tuple(f"{name}[{id}]" for id in ids)


def named(file: str, *names: str) -> tuple[str, ...]:
    return tuple(f"tests/test_{file}.py::{name}" for name in names)


Row = tuple[str, Operator, str, str, tuple[str, ...]]


def _family(family: str, file: str, *rows: Row) -> list[Mutant]:
    """Faults of one file; a row: name, operator, before, after, tests."""
    return [
        Mutant(name, family, operator, file, *edit, tests) for name, operator, *edit, tests in rows
    ]


_SEEDED = "np.random.default_rng(0)"
_QUIETER = 'lambda r: __import__("dataclasses").replace(r, scale=0.97 * r.scale)'
_ALIAS = "from dpmc_core.privacy import (\n    "  # a unit that stands for another one, in one file

_CLAIMED = "test_claimed_is_certified_per_rating_and_nothing_per_user"
_CLAMPED = "test_gradients_are_clamped_before_the_noise"
_DIAMETER = "test_output_certificate_is_the_diameter_of_what_it_publishes"
_OUTSIDE = "test_output_publishes_nothing_outside_its_diameter"

_TRACES = "test_what_a_trace_of_signs_does_not_mark_as_raw_follows_from_the_answers"

ONE_BIT = _family(
    "one_bit",
    "mechanisms/one_bit.py",
    (
        "objective: scale",
        SCALE,
        "scale=self.delta_h / self.epsilon,",
        "scale=0.97 * self.delta_h / self.epsilon,",
        named("one_bit", f"{_CLAIMED}[objective]"),
    ),
    (
        "signs at less than the card's scale",
        SCALE,
        "noisy = releases.signs.publish(positive(ratings), rng)\n            ",
        f"noisy = releases.each({_QUIETER}).signs.publish(positive(ratings), rng)\n            ",
        records("objective"),
    ),
    (
        "objective-statistic: scale",
        SCALE,
        "scale=1 / self.epsilon,",
        "scale=0.97 / self.epsilon,",
        named("one_bit", f"{_CLAIMED}[objective-statistic]"),
    ),
    (
        "gradient: scale",
        SCALE,
        "scale=self.rounds_taken * moves / self.epsilon,",
        "scale=0.97 * self.rounds_taken * moves / self.epsilon,",
        named("one_bit", f"{_CLAIMED}[gradient]"),
    ),
    (
        "output: scale",
        SCALE,
        "scale=2 * self.bound / self.epsilon,",
        "scale=1.94 * self.bound / self.epsilon,",
        named("one_bit", _DIAMETER),
    ),
    (
        "input-flip: flips too rare",
        SCALE,
        "p = flip_chance(self.epsilon)\n            return p",
        "p = 0.97 * flip_chance(self.epsilon)\n            return p",
        named("one_bit", f"{_CLAIMED}[input-flip]"),
    ),
    (
        "private-majority: flips too rare",
        SCALE,
        "p = flip_chance(self.epsilon)\n        return self.per_rating(",
        "p = 0.97 * flip_chance(self.epsilon)\n        return self.per_rating(",
        floor("input-flip"),
    ),
    (
        "flips left out",
        SKIPPED,
        "self.signs.publish(positive(ratings), rng).astype(float)",
        "positive(ratings)",
        records("input-flip", "private-majority"),
    ),
    (
        "output: published without noise",
        SKIPPED,
        "Dense(releases.matrix.publish(clipped, rng))",
        "Dense(clipped)",
        records("output"),
    ),
    (
        "gradient: one round without noise",
        SKIPPED,
        "noisy = releases.gradient.publish(np.clip(gradient, -self.clamp, self.clamp), rng)",
        "noisy = np.clip(gradient, -self.clamp, self.clamp)\n"
        "            if k != 2:\n"
        "                noisy = releases.gradient.publish(noisy, rng)",
        records("gradient"),
    ),
    (
        "a rating's epsilon for a user's",
        UNIT,
        f"{_ALIAS}RATING,",
        f"{_ALIAS}ROW_VALUES as RATING,",
        named("one_bit", f"{_CLAIMED}[objective]"),
    ),
    (
        "gradient: not clamped",
        CLIP,
        "np.clip(gradient, -self.clamp, self.clamp)",
        "gradient",
        named("one_bit", _CLAMPED),
    ),
    (
        "gradient: clamped 3 % too wide",
        CLIP,
        "np.clip(gradient, -self.clamp, self.clamp)",
        "np.clip(gradient, -1.03 * self.clamp, 1.03 * self.clamp)",
        named("one_bit", _CLAMPED),
    ),
    (
        "output: not clipped",
        CLIP,
        "clipped = np.clip(matrix, -self.bound, self.bound)",
        "clipped = matrix.copy()",
        named("one_bit", _OUTSIDE),
    ),
    (
        "output: clipped 3 % too wide",
        CLIP,
        "np.clip(matrix, -self.bound, self.bound)",
        "np.clip(matrix, -1.03 * self.bound, 1.03 * self.bound)",
        named("one_bit", _OUTSIDE),
    ),
    (
        "output: sum not bounded",
        CLIP,
        "clipped *= largest / total",
        "clipped *= 1.0",
        named("one_bit", _OUTSIDE),
    ),
    (
        "gradient: the same noise in every round",
        REUSED,
        "np.clip(gradient, -self.clamp, self.clamp), rng)",
        f"np.clip(gradient, -self.clamp, self.clamp), {_SEEDED})",
        fresh("gradient"),
    ),
    (
        "output: the same noise in every run",
        REUSED,
        "matrix.publish(clipped, rng)",
        f"matrix.publish(clipped, {_SEEDED})",
        fresh("output"),
    ),
    (
        "flips: the same in every run",
        REUSED,
        "publish(positive(ratings), rng).astype(float)",
        f"publish(positive(ratings), {_SEEDED}).astype(float)",
        other_seed("input-flip", "private-majority"),
    ),
    (
        "a raw sign goes on after its release",
        OTHER,
        "reports = SignReports.of_laplace(noisy, 1 / releases.signs.scale)\n            yield from",
        "reports = SignReports.of_laplace(positive(ratings), 1 / releases.signs.scale)\n"
        "            yield from",
        named("releases_only", "test_no_value_reaches_the_model_past_its_releases[objective]"),
    ),
    (
        "gradient: the objective's trace is not marked raw",
        OTHER,
        'raw=frozenset({"objective"}),',
        "raw=frozenset(),",
        named("coins", _TRACES),
    ),
) + _family(
    "one_bit",
    "solvers/one_bit.py",
    (
        "output: the solver's trace is not marked raw",
        OTHER,
        "raw=frozenset(trace) if raw else frozenset(),",
        "raw=frozenset(),",
        named("coins", _TRACES),
    ),
)

_PER_CELL = "test_certified_is_claimed_per_cell_and_n_times_that_per_user"

COLLECTION = _family(
    "collection",
    "privacy/channels.py",
    (
        "modified Laplace: scale",
        SCALE,
        "scale=2 / epsilon, **release)",
        "scale=1.94 / epsilon, **release)",
        named("local", _PER_CELL),
    ),
    (
        "modified Laplace: flips too rare",
        SCALE,
        "flip=flip_chance(epsilon / 2), ",
        "flip=0.97 * flip_chance(epsilon / 2), ",
        named("local", _PER_CELL),
    ),
    (
        "randomised response: other symbols too rare",
        SCALE,
        "other = flip_chance(epsilon, d)",
        "other = 0.97 * flip_chance(epsilon, d)",
        named("local", _PER_CELL),
    ),
    (
        "noise of rated cells is short",
        SCALE,
        "noise.laplace(self.scale, (int(kept.sum()),), rng)",
        "noise.laplace(0.97 * self.scale, (int(kept.sum()),), rng)",
        named("local", "test_the_scale_of_reports_is_exact"),
    ),
    (
        "noise of missing cells is short",
        SCALE,
        "noise.laplace(self.scale, (len(cells),), rng)",
        "noise.laplace(0.97 * self.scale, (len(cells),), rng)",
        named("local", "test_the_scale_of_reports_is_exact"),
    ),
    (
        "missing cells speak too rarely",
        SCALE,
        "noise.hits(given, total, self.flip, rng)",
        "noise.hits(given, total, 0.97 * self.flip, rng)",
        named("local", "test_modified_laplace_meets_its_law_for_every_input"),
    ),
    (
        "values outside the range pass",
        CLIP,
        "wrong = ~(np.abs(values) <= 1)",
        "wrong = np.abs(values) < 0",
        named("local", "test_values_outside_the_scale_are_refused"),
    ),
    (
        "symbols outside the alphabet pass",
        CLIP,
        "wrong = ~np.isin(values, np.arange(1, len(self.levels) + 1))",
        "wrong = values < 0",
        named("local", "test_symbols_that_are_none_are_refused"),
    ),
    (
        "one draw for all rated cells",
        REUSED,
        "noise.laplace(self.scale, (int(kept.sum()),), rng)",
        "noise.laplace(self.scale, (1,), rng)",
        named("local", "test_modified_laplace_meets_its_law_for_every_input"),
    ),
    (
        "missing cells never speak",
        SKIPPED,
        "cells = noise.hits(given, total, self.flip, rng)",
        "cells = given[:0]",
        named("local", "test_modified_laplace_meets_its_law_for_every_input"),
    ),
    (
        "a missing cell costs nothing",
        UNIT,
        "max(2 / self.scale, odds + 1 / self.scale)",
        "2 / self.scale",
        named("local", "test_a_channel_with_too_little_noise_is_certified_as_such"),
    ),
) + _family(
    "collection",
    "mechanisms/collection.py",
    (
        "rows reported as they are",
        SKIPPED,
        "channel.publish(self.rows(ratings, channel), rng), self.law(channel), public",
        "self.rows(ratings, channel), self.law(channel), public",
        records("modified-laplace", "randomised-response"),
    ),
    (
        "rows reported as they are (published estimator)",
        SKIPPED,
        "channel.publish(self.rows(ratings, channel), rng), channel, public",
        "self.rows(ratings, channel), channel, public",
        records("modified-laplace-estimator", "randomised-response-estimator"),
    ),
    (
        "a cell's epsilon for a user's",
        UNIT,
        f"{_ALIAS}CELL,",
        f"{_ALIAS}USER_EMPTIED as CELL,",
        named("local", _PER_CELL),
    ),
    (
        "local mean: the same reports in every run",
        REUSED,
        "reported, law = channel.publish(self.rows(ratings, channel), rng)",
        f"reported, law = channel.publish(self.rows(ratings, channel), {_SEEDED})",
        other_seed("local-mean"),
    ),
)

_FACTORS = "test_certified_with_public_factors_and_infinite_as_published"
_CLICK = "test_a_click_that_comes_or_goes_moves_the_linear_term_within_the_card"

FACTORIZATION = _family(
    "factorization",
    "mechanisms/factorization.py",
    (
        "dpmf: scale",
        SCALE,
        "scale = 2 * self.spread(public) / self.epsilon",
        "scale = 1.94 * self.spread(public) / self.epsilon",
        (*named("dpmf", _FACTORS), *named("dpmf_clicks", _CLICK)),
    ),
    (
        "private-mean: scale",
        SCALE,
        "scale=public.width / self.epsilon,",
        "scale=0.97 * public.width / self.epsilon,",
        floor("dpmf"),
    ),
    (
        "dpmf: no noise",
        SKIPPED,
        "releases.linear_term.publish(-2 * moments, rng)",
        "-2 * moments",
        records("dpmf"),
    ),
    (
        "dpmf: less than the card's scale",
        SCALE,
        "releases = self.guarantee(public).releases\n",
        f"releases = self.guarantee(public).releases.each({_QUIETER})\n",
        records("dpmf"),
    ),
    (
        "private-mean: no noise",
        SKIPPED,
        "float(self.guarantee(public).releases.total.publish(total, rng))",
        "total",
        records("private-mean"),
    ),
    (
        "a rating's epsilon for a user's",
        UNIT,
        "    RATING,\n    Budget,",
        "    USER_EMPTIED as RATING,\n    Budget,",
        named("dpmf", _FACTORS),
    ),
    (
        "a click's epsilon for a user's",
        UNIT,
        f"{_ALIAS}CELL,",
        f"{_ALIAS}USER_EMPTIED as CELL,",
        named("dpmf_clicks", _CLICK),
    ),
    (
        "a click moves its range, not 1",
        SCALE,
        '"""A cell is 0 or 1."""\n        return 1.0',
        '"""A cell is 0 or 1."""\n        return public.width',
        named("dpmf_clicks", "test_the_scale_does_not_follow_a_range_that_clicks_came_with"),
    ),
    (
        "clicks: no noise",
        SKIPPED,
        "self.guarantee(public).releases.linear_term.publish(\n"
        "            -2 * (sides.by_item @ users), rng\n        )",
        "-2 * (sides.by_item @ users)",
        records("dpmf-clicks"),
    ),
    (
        "clicks: the same noise in every run",
        REUSED,
        "-2 * (sides.by_item @ users), rng\n",
        f"-2 * (sides.by_item @ users), {_SEEDED}\n",
        fresh("dpmf-clicks"),
    ),
    (
        "clicks: an item that nobody chose tells it",
        OTHER,
        "return np.asarray(np.linalg.solve(quadratic, -noisy.T / 2).T)",
        "return np.linalg.solve(quadratic, -noisy.T / 2).T"
        " * (np.diff(sides.by_item.indptr) > 0)[:, None]",
        named("dpmf_clicks", "test_an_item_that_nobody_chose_gets_noise_as_the_others_do"),
    ),
    (
        "user factors fitted to the ratings are no access",
        OTHER,
        "unaccounted=self.fitted if self.user_factors is None else (),",
        "unaccounted=(),",
        (
            *named("dpmf", _FACTORS),
            *named("dpmf_clicks", "test_the_card_says_what_is_and_what_is_not_proved"),
        ),
    ),
    (
        "no bound without the ball",
        CLIP,
        "bounded = self.unit_ball or self.user_factors is not None",
        "bounded = True",
        named("dpmf", _FACTORS),
    ),
    (
        "dpmf: the same noise in every run",
        REUSED,
        "publish(-2 * moments, rng)",
        f"publish(-2 * moments, {_SEEDED})",
        fresh("dpmf"),
    ),
    (
        "private-mean: the same noise in every run",
        REUSED,
        "total.publish(total, rng)",
        f"total.publish(total, {_SEEDED})",
        fresh("private-mean"),
    ),
) + _family(
    "factorization",
    "solvers/least_squares_mf.py",
    (
        "public factors are not cut to the ball",
        CLIP,
        "return clip_dense_rows(factors.astype(float), 1.0)[0]",
        "return factors.astype(float)",
        named("dpmf", "test_public_factors_are_cut_to_the_unit_ball"),
    ),
)

_ONE_SOLVE = "test_certified_per_cell_for_one_solve_with_a_public_clip_only"
_ONE_CELL = "test_one_cell_moves_no_release_further_than_stated_and_reaches_it"

_WEIGHED = "test_the_mechanism_weighs_each_cell_by_twice_its_factor"

DPIMF = _family(
    "dpimf",
    "mechanisms/dpimf.py",
    (
        "optimal: scale",
        SCALE,
        "shape, moves, moves / self.epsilon))",
        "shape, moves, 0.97 * moves / self.epsilon))",
        named("dpimf", _ONE_SOLVE),
    ),
    (
        "strawman: scale",
        SCALE,
        "scale = (2.0 * norms.l1 + norms.full + 1.0) / self.epsilon",
        "scale = 0.97 * (2.0 * norms.l1 + norms.full + 1.0) / self.epsilon",
        named("dpimf", _ONE_SOLVE),
    ),
    (
        "complementary: scale of the ridge",
        SCALE,
        "rest / (self.beta3 * epsilon)",
        "0.97 * rest / (self.beta3 * epsilon)",
        named("dpimf", _ONE_SOLVE),
    ),
    (
        "ridge without noise",
        SKIPPED,
        "self.regularisation * releases.ridge.publish(ridge, rng)",
        "self.regularisation * ridge",
        records("dpimf-strawman"),
    ),
    (
        "all rounds at less than the card's scale",
        SCALE,
        "releases = self.guarantee(ratings.public).releases\n",
        f"releases = self.guarantee(ratings.public).releases.each({_QUIETER})\n",
        records("dpimf-optimal"),
    ),
    (
        "second moments without noise",
        SKIPPED,
        "return release.publish(moments, rng)",
        "return moments",
        records("dpimf-complementary"),
    ),
    (
        "a cell's epsilon for a user's",
        UNIT,
        f"{_ALIAS}CELL,",
        f"{_ALIAS}USER_EMPTIED as CELL,",
        named("dpimf", _ONE_SOLVE),
    ),
    (
        "fixed factors are not clipped",
        CLIP,
        "fixed = self.clipped(factors)",
        "fixed = factors",
        named("dpimf", f"{_ONE_CELL}[optimal]"),
    ),
    (
        "fixed factors are clipped 3 % too wide",
        CLIP,
        "fixed = self.clipped(factors)",
        "fixed = 1.03 * self.clipped(factors)",
        named("dpimf", f"{_ONE_CELL}[optimal]"),
    ),
    (
        "a clip read off the data certifies",
        CLIP,
        "return release if self.clip is not None else release.at_scale(scale)",
        "return release",
        named("dpimf", _ONE_SOLVE),
    ),
    (
        "the same noise in every round",
        REUSED,
        "return self.solve(columns, fixed, releases, rng)",
        f"return self.solve(columns, fixed, releases, {_SEEDED})",
        fresh("dpimf-optimal"),
    ),
    (
        "mirrored noise counted as its own triangle",
        OTHER,
        "return (self.rank * (self.rank + 1) // 2,), norms.upper",
        "return (self.rank * (self.rank + 1) // 2,), norms.upper / 2",
        named("dpimf", f"{_ONE_CELL}[symmetric]"),
    ),
    (
        "sampled: the longest cell without its factor 2",
        OTHER,
        "longest=2.0 * norms.l1,",
        "longest=norms.l1,",
        named("coins", _WEIGHED),
    ),
) + _family(
    "dpimf",
    "privacy/sampled.py",
    (
        "sampled: losses without their factor 2",
        OTHER,
        "return importance_weights(lengths / self.scale, self.budget)",
        "return importance_weights(0.5 * lengths / self.scale, self.budget)",
        named("coins", _WEIGHED),
    ),
    (
        "sampled: the same coins in every run",
        REUSED,
        "noise.coins(each, rng)",
        f"noise.coins(each, {_SEEDED})",
        named("dpimf", "test_sampled_sums_are_unbiased"),
    ),
    (
        "sampled: every cell counts its weight",
        SKIPPED,
        "np.where(noise.coins(each, rng), each, 0.0)",
        "np.where(np.isfinite(each), each, 0.0)",
        named("dpimf", "test_sampled_sums_are_unbiased"),
    ),
)

_FW = "private-frank-wolfe"

FRANK_WOLFE = _family(
    "frank_wolfe",
    "mechanisms/frank_wolfe.py",
    (
        "Gram matrix: scale",
        SCALE,
        "scale=counted / part.mu,",
        "scale=0.97 * counted / part.mu,",
        spends(_FW),
    ),
    (
        "Oja: scale",
        SCALE,
        "scale = moves / (self.rest()",
        "scale = 0.97 * moves / (self.rest()",
        spends(f"{_FW}-oja"),
    ),
    (
        "Oja: the paper's scale",
        SCALE,
        "scale = self.row_norm(public) ** 2 * constant / spent",
        "scale = 0.97 * self.row_norm(public) ** 2 * constant / spent",
        named("user_level", "test_ojas_noise_leaves_out_the_rounds"),
    ),
    (
        "Gram matrix without noise",
        SKIPPED,
        "Floats = release.publish(gram, rng)",
        "Floats = gram",
        records(_FW, "private-svd", "private-pgd"),
    ),
    (
        "Oja: squared norm without noise",
        SKIPPED,
        "float(releases.squared_norms.publish(float(along @ along), rng))",
        "float(along @ along)",
        records(f"{_FW}-oja"),
    ),
    (
        "SVD: number of ratings without noise",
        SKIPPED,
        "float(releases.ratings.publish(len(rows.values), rng))",
        "float(len(rows.values))",
        records("private-svd"),
    ),
    (
        "a cell's epsilon for a user's",
        UNIT,
        "import USER_EMPTIED, USER_REPLACED, Calibration",
        "import CELL as USER_EMPTIED, USER_REPLACED, Calibration",
        spends(_FW),
    ),
    (
        "a replaced row counts as an emptied one",
        UNIT,
        "USER_REPLACED: math.sqrt(2) * moves}",
        "USER_REPLACED: moves}",
        moves(f"{_FW}-8-REPLACED", "private-svd-2-REPLACED"),
    ),
    (
        "residual rows are not clipped",
        CLIP,
        "kept, cut = clip_rows(cells, residual, self.residual * bound)",
        "kept, cut = residual, clip_rows(cells, residual, self.residual * bound)[1]",
        moves(f"{_FW}-0-EMPTIED", f"{_FW}-oja-1-EMPTIED"),
    ),
    (
        "residual rows are clipped 3 % too wide",
        CLIP,
        "clip_rows(cells, residual, self.residual * bound)",
        "clip_rows(cells, residual, 1.03 * self.residual * bound)",
        moves(f"{_FW}-0-EMPTIED", f"{_FW}-12-EMPTIED"),
    ),
    (
        "iterates of projected gradient are not clipped",
        CLIP,
        "descent.stepped_gram(step, bound)",
        "descent.stepped_gram(step, 1e9)",
        named("user_level", "test_planted_unclipped_iterate_of_projected_gradient_is_caught"),
    ),
    (
        "Gram matrix: the same noise in every round",
        REUSED,
        "= release.publish(gram, rng)",
        f"= release.publish(gram, {_SEEDED})",
        fresh(_FW),
    ),
    (
        "Oja: the same noise in every update",
        REUSED,
        "releases.products.publish(rows.T @ (rows @ v), rng)",
        f"releases.products.publish(rows.T @ (rows @ v), {_SEEDED})",
        fresh(f"{_FW}-oja"),
    ),
)

_ITEMS = "private-item-mean"

PER_USER = (
    _family(
        "per_user",
        "mechanisms/per_user.py",
        (
            "scale",
            SCALE,
            "scale=emptied / part.mu,",
            "scale=0.97 * emptied / part.mu,",
            spends(_ITEMS),
        ),
        (
            "users' means without noise",
            SKIPPED,
            "releases.mean.publish([means.sum(), (count > 0).sum()], rng)",
            "(means.sum(), (count > 0).sum())",
            records(_ITEMS),
        ),
        (
            "item sums without noise",
            SKIPPED,
            "releases.sums.publish(item_sums(cells, weighted), rng)",
            "item_sums(cells, weighted)",
            records(_ITEMS),
        ),
        (
            "what users differ by without noise",
            SKIPPED,
            "releases.own.publish(shown, rng)",
            "shown",
            records(_ITEMS),
        ),
        (
            "a replaced row counts as an emptied one",
            UNIT,
            "USER_REPLACED: replaced}",
            "USER_REPLACED: emptied}",
            moves(f"{_ITEMS}-6-REPLACED", "dpals-5-REPLACED"),
        ),
        (
            "a cell's epsilon for a user's",
            UNIT,
            "    USER_EMPTIED,\n    USER_REPLACED,\n    Budget,",
            "    CELL as USER_EMPTIED,\n    USER_REPLACED,\n    Budget,",
            named("user_level", "test_the_card_is_joint_per_user_for_everyone"),
        ),
        (
            "weighted rows are not clipped",
            CLIP,
            "items.weights[cells.items], effects_clip(public)",
            "items.weights[cells.items], 10 * effects_clip(public)",
            moves(f"{_ITEMS}-6-EMPTIED"),
        ),
        (
            "weighted rows are clipped 3 % too wide",
            CLIP,
            "items.weights[cells.items], effects_clip(public)",
            "items.weights[cells.items], 1.03 * effects_clip(public)",
            moves(f"{_ITEMS}-6-EMPTIED"),
        ),
        (
            "a long row counts in full",
            CLIP,
            "each = 1.0 / np.sqrt(np.maximum(count, 1))[cells.users]",
            "each = np.ones(len(cells.users))",
            moves(f"{_ITEMS}-6-EMPTIED"),
        ),
        (
            "rows are not clipped",
            CLIP,
            "*clip_rows(rows.cells, rows.values, self.row_norm(public))",
            "rows.values, clip_rows(rows.cells, rows.values, self.row_norm(public))[1]",
            named("user_level", "test_planted_missing_clip_is_caught"),
        ),
        (
            "rows are clipped 3 % too wide",
            CLIP,
            "clip_rows(rows.cells, rows.values, self.row_norm(public))",
            "clip_rows(rows.cells, rows.values, 1.03 * self.row_norm(public))",
            named("user_level", "test_planted_missing_clip_is_caught"),
        ),
        (
            "gains: the same noise in every run",
            REUSED,
            "publish(bounded_gain(gains), rng)",
            f"publish(bounded_gain(gains), {_SEEDED})",
            fresh(_ITEMS),
        ),
        (
            "counts: the same noise in every run",
            REUSED,
            "publish(item_sums(cells, each), rng)",
            f"publish(item_sums(cells, each), {_SEEDED})",
            fresh(_ITEMS),
        ),
        (
            "any delta will do",
            OTHER,
            "if delta >= 1 / public.users:",
            "if delta >= 1:",
            named("user_level", f"test_a_delta_of_one_over_the_users_is_refused[{_ITEMS}]"),
        ),
    )
    + _family(
        "per_user",
        "solvers/own_side.py",
        (
            "gains are not bounded",
            CLIP,
            "(np.minimum(gains, MOST) / MOST)",
            "(gains / MOST)",
            named("private_effects", "test_what_one_user_tells_of_the_own_regression_is_bounded"),
        ),
        (
            "squares are not bounded",
            CLIP,
            "np.minimum(squares, MOST) - kept",
            "squares - kept",
            named("private_effects", "test_what_one_user_tells_of_the_own_regression_is_bounded"),
        ),
        (
            "residual squares are not bounded",
            CLIP,
            "np.minimum(left / np.maximum(inside, 1), MOST)",
            "left / np.maximum(inside, 1)",
            named("private_effects", "test_what_one_user_tells_of_the_own_regression_is_bounded"),
        ),
    )
    + _family(
        "per_user",
        "ratings.py",
        (
            "one rating more than the cap",
            CLIP,
            "return place_in_row(ratings, priority) < count",
            "return place_in_row(ratings, priority) <= count",
            named("user_level", "test_the_cap_is_drawn_by_each_users_own_randomness"),
        ),
    )
)

_CERTIFIED = "test_certified_is_claimed[1.0-private-effects]"

PRIVATE_EFFECTS = _family(
    "private_effects",
    "mechanisms/private_effects.py",
    (
        "rounds spend 3 % more",
        SCALE,
        "*((n, r + 1), residuals, clip,",
        "*((n, r + 1), residuals * 1.0609, clip,",
        named("private_effects", _CERTIFIED),
    ),
    (
        "residuals without noise",
        SKIPPED,
        "releases.residuals.publish(sums, rng)",
        "sums",
        records("private-effects"),
    ),
    (
        "less than the card's scale",
        SCALE,
        "releases = self.guarantee(public).releases\n",
        f"releases = self.guarantee(public).releases.each({_QUIETER})\n",
        records("private-effects"),
    ),
    (
        "moments without noise",
        SKIPPED,
        "releases.moments.publish(moments, rng)",
        "moments",
        records("private-effects"),
    ),
    (
        "a replaced row counts as an emptied one",
        UNIT,
        "clip, 2 * clip, self.rounds),",
        "clip, clip, self.rounds),",
        named("private_effects", "test_no_row_moves_a_release_further_than_stated[taste]"),
    ),
    (
        "the same noise in every round",
        REUSED,
        "items, taste, share, rng)\n            model",
        f"items, taste, share, {_SEEDED})\n            model",
        fresh("private-effects"),
    ),
    (
        "rounds are not counted",
        OTHER,
        "math.sqrt(3), 2.0, self.rounds),",
        "math.sqrt(3), 2.0, 1),",
        records("private-effects"),
    ),
) + _family(
    "private_effects",
    "solvers/own_side.py",
    (
        "weighted residuals are not clipped",
        CLIP,
        "weighted_rows(part, residual, weights[part.items], norm)",
        "weighted_rows(part, residual, weights[part.items], 10 * norm)",
        moves("private-effects-7-EMPTIED"),
    ),
    (
        "weighted residuals are clipped 3 % too wide",
        CLIP,
        "weights[part.items], norm)",
        "weights[part.items], 1.03 * norm)",
        named("private_effects", "test_no_row_moves_a_release_further_than_stated[taste]"),
    ),
    (
        "taste is not clipped",
        CLIP,
        "np.ones_like(about), norm)",
        "np.ones_like(about), 10 * norm)",
        named("private_effects", "test_no_row_moves_a_release_further_than_stated[taste]"),
    ),
)

_POPULAR = "test_private_popularity_counts_within_its_sensitivity"
_TASTE = "test_no_user_moves_a_release_further_than_stated"
_ACCOUNTANT = "test_certified_is_claimed_and_what_an_independent_accountant_finds"

USER_RANKING = _family(
    "user_ranking",
    "mechanisms/user_ranking.py",
    (
        "popularity, Laplace: scale",
        SCALE,
        "scale=k / self.epsilon)",
        "scale=0.97 * k / self.epsilon)",
        named("private_taste", _POPULAR),
    ),
    (
        "popularity, Gaussian: scale",
        SCALE,
        "scale=l2 / mu)",
        "scale=0.97 * l2 / mu)",
        named("private_taste", f"{_ACCOUNTANT}[private-popularity-1.0]"),
    ),
    (
        "taste: first count spends 3 % more",
        SCALE,
        "first, 1.0, math.sqrt(2)",
        "first * 1.0609, 1.0, math.sqrt(2)",
        named("private_taste", f"{_ACCOUNTANT}[private-taste-1.0]"),
    ),
    (
        "popularity without noise",
        SKIPPED,
        "self.guarantee(ratings.public).releases.counts.publish(counts, rng)",
        "counts",
        records("private-popularity"),
    ),
    (
        "taste: moments without noise",
        SKIPPED,
        "(releases.moments.publish(gram, rng) - moments)",
        "(gram - moments)",
        records("private-taste"),
    ),
    (
        "a cell's counts for a user's",
        UNIT,
        "{USER_EMPTIED if user else CELL: k}",
        "{USER_EMPTIED: k}",
        named("private_taste", _POPULAR),
    ),
    (
        "a user's counts for a cell's",
        UNIT,
        "change=USER_EMPTIED if user else CELL,",
        "change=USER_EMPTIED,",
        named("private_taste", _POPULAR),
    ),
    (
        "popularity: long rows count in full",
        CLIP,
        "values = contributions(ratings, self.contributions, norm)",
        "values = values * norm / norm",
        named("private_taste", _POPULAR),
    ),
    (
        "popularity: long rows count 3 % too much",
        CLIP,
        "contributions(ratings, self.contributions, norm)",
        "1.03 * contributions(ratings, self.contributions, norm)",
        named("private_taste", _POPULAR),
    ),
    (
        "taste: long rows count in full",
        CLIP,
        "weights = contributions(ratings, 1)",
        "weights = np.ones(len(ratings))",
        named("private_taste", _TASTE),
    ),
    (
        "taste: long rows count 3 % too much",
        CLIP,
        "weights = contributions(ratings, 1)",
        "weights = 1.03 * contributions(ratings, 1)",
        named("private_taste", _TASTE),
    ),
    (
        "popularity: the same noise in every run",
        REUSED,
        "counts.publish(counts, rng)",
        f"counts.publish(counts, {_SEEDED})",
        fresh("private-popularity"),
    ),
    (
        "taste: the same noise in every ask",
        REUSED,
        "releases.rounds.publish(asked, rng)",
        f"releases.rounds.publish(asked, {_SEEDED})",
        fresh("private-taste"),
    ),
    (
        "taste: chosen by raw counts",
        OTHER,
        "hear = _heard(counts)\n",
        "hear = _heard(counts._replace(noisy=rows))\n",
        named("coins", "test_what_is_asked_next_follows_from_answers_and_not_from_raw_counts"),
    ),
)

_BITS = "test_each_bit_passes_the_stated_channel"
_SHOWN = "test_rankings_and_collected_ratings_show_nothing_but_the_answers"

LOCAL_RANKING = _family(
    "local_ranking",
    "mechanisms/local_ranking.py",
    (
        "flips too rare",
        SCALE,
        "return flip_chance(self.epsilon)",
        "return 0.97 * flip_chance(self.epsilon)",
        named("local_neighbours", _BITS),
    ),
    (
        "bits reported as they are",
        SKIPPED,
        "self.guarantee(ratings.public).releases.bits.publish(bits, rng)",
        "bits.copy()",
        records("dplcf", "ldpicf", "local-popularity"),
    ),
    (
        "a cell's epsilon for a user's",
        UNIT,
        f"{_ALIAS}CELL,",
        f"{_ALIAS}USER_EMPTIED as CELL,",
        named("local_neighbours", _BITS),
    ),
    (
        "ratings pass for clicks",
        CLIP,
        "        check_interactions(ratings)\n",
        "",
        named("private_taste", "test_bad_input_is_a_sentence"),
    ),
    (
        "the same flips in every run",
        REUSED,
        "releases.bits.publish(bits, rng)",
        f"releases.bits.publish(bits, {_SEEDED})",
        other_seed("dplcf", "ldpicf", "local-popularity"),
    ),
    (
        "raw bits go on after their release",
        OTHER,
        "FlippedBits(reported, self.flip), ratings)",
        "FlippedBits(binary_matrix(ratings).toarray().astype(np.uint8), self.flip), ratings)",
        named("replayed_answers", f"{_SHOWN}[dplcf-settings9]"),
    ),
)

_CLEANSED = "svd-after-cleansing"

CLEANSING = _family(
    "cleansing",
    "mechanisms/cleansing.py",
    (
        "products and weights spend 3 % more",
        SCALE,
        "rest.split(0.95, 0.05)",
        "(rest * 1.0609).split(0.95, 0.05)",
        spends(_CLEANSED),
    ),
    (
        "less than the card's scale",
        SCALE,
        "releases = self.guarantee(ratings.public).releases\n",
        f"releases = self.guarantee(ratings.public).releases.each({_QUIETER})\n",
        records(_CLEANSED),
    ),
    (
        "published: products spend 3 % more",
        SCALE,
        "budget * 0.7, budget * 0.2",
        "budget * 0.7427, budget * 0.2",
        named(
            "user_level", f"test_the_published_estimator_spends_the_budget_and_no_more[{_CLEANSED}]"
        ),
    ),
    (
        "products without noise",
        SKIPPED,
        "noisy = releases.products.publish(exact, rng)",
        "noisy = exact",
        records(_CLEANSED),
    ),
    (
        "weights without noise",
        SKIPPED,
        "pairs = releases.weights.publish(weights, rng)",
        "pairs = weights",
        records(_CLEANSED),
    ),
    (
        "products of a replaced row",
        UNIT,
        "math.sqrt(2) * root * bound**2),",
        "root * bound**2),",
        moves(f"{_CLEANSED}-4-REPLACED", f"{_CLEANSED}-16-REPLACED"),
    ),
    (
        "weights of a replaced row",
        UNIT,
        "*(root, math.sqrt(2) * root),",
        "*(root, root),",
        moves(f"{_CLEANSED}-4-REPLACED", f"{_CLEANSED}-16-REPLACED"),
    ),
    (
        "item counts of a replaced row",
        UNIT,
        "budget * 0.03, root, both",
        "budget * 0.03, root, root",
        moves(f"{_CLEANSED}-16-REPLACED"),
    ),
    (
        "residuals are not clamped",
        CLIP,
        "residuals = np.clip(raw[kept], -bound, bound)",
        "residuals = raw[kept]",
        moves(f"{_CLEANSED}-4-EMPTIED"),
    ),
    (
        "residuals are clamped 3 % too wide",
        CLIP,
        "residuals = np.clip(raw[kept], -bound, bound)",
        "residuals = np.clip(raw[kept], -1.03 * bound, 1.03 * bound)",
        moves(f"{_CLEANSED}-4-EMPTIED"),
    ),
    (
        "no cap on ratings",
        CLIP,
        "kept = kept_at_random(ratings, self.most(public), ",
        "kept = kept_at_random(ratings, 10**6, ",
        moves(f"{_CLEANSED}-4-EMPTIED"),
    ),
    (
        "published: no cap on ratings",
        CLIP,
        "kept = capped(ratings, self.most(public), rng)",
        "kept = capped(ratings, 10**6, rng)",
        moves(f"{_CLEANSED}-16-EMPTIED"),
    ),
    (
        "products: the same noise in every run",
        REUSED,
        "releases.products.publish(exact, rng)",
        f"releases.products.publish(exact, {_SEEDED})",
        fresh(_CLEANSED),
    ),
    (
        "published: the same noise in every answer",
        REUSED,
        "release.publish(statistic, rng)",
        "release.publish(statistic, np.random.default_rng(0))",
        fresh(f"{_CLEANSED}-estimator"),
    ),
) + _family(
    "cleansing",
    "solvers/cleansing.py",
    (
        "published: residuals are not clamped",
        CLIP,
        "residuals = np.clip(raw - offsets[cells.users], -bound, bound)",
        "residuals = raw - offsets[cells.users]",
        moves(f"{_CLEANSED}-16-EMPTIED"),
    ),
)

DPALS = _family(
    "dpals",
    "mechanisms/dpals.py",
    (
        "rounds spend 3 % more",
        SCALE,
        "part.split(self.squares_share, 1 - self.squares_share)",
        "(part * 1.0609).split(self.squares_share, 1 - self.squares_share)",
        spends("dpals"),
    ),
    (
        "squares without noise",
        SKIPPED,
        "release.squares.publish(squares, rng)",
        "squares",
        records("dpals"),
    ),
    (
        "moments without noise",
        SKIPPED,
        "release.moments.publish(moments, rng)",
        "moments",
        records("dpals"),
    ),
    (
        "squares of a replaced row",
        UNIT,
        "root * c * c, math.sqrt(2) * root * c * c, times",
        "root * c * c, root * c * c, times",
        moves("dpals-5-REPLACED", "dpals-17-REPLACED"),
    ),
    (
        "moments of a replaced row",
        UNIT,
        "root * c * g, 2 * root * c * g, times",
        "root * c * g, root * c * g, times",
        moves("dpals-5-REPLACED", "dpals-17-REPLACED"),
    ),
    (
        "user factors are not clipped",
        CLIP,
        "kept, cut = clip_dense_rows(asked, c)",
        "kept, cut = asked, clip_dense_rows(asked, c)[1]",
        named("user_level", "test_planted_missing_clip_is_caught"),
    ),
    (
        "user factors are clipped 3 % too wide",
        CLIP,
        "clip_dense_rows(asked, c)",
        "clip_dense_rows(asked, 1.03 * c)",
        named("user_level", "test_the_worst_rows_nearly_use_the_bounds_up"),
    ),
    (
        "ratings are not clipped",
        CLIP,
        "bounded = np.clip(rows.values, -g, g)",
        "bounded = rows.values",
        moves("dpals-5-EMPTIED"),
    ),
    (
        "ratings are clipped 3 % too wide",
        CLIP,
        "bounded = np.clip(rows.values, -g, g)",
        "bounded = np.clip(rows.values, -1.03 * g, 1.03 * g)",
        moves("dpals-5-EMPTIED"),
    ),
    (
        "item weights are not scaled",
        CLIP,
        "return clip_rows(Pattern.of(ratings), weights, math.sqrt(most))",
        "return weights, clip_rows(Pattern.of(ratings), weights, math.sqrt(most))[1]",
        moves("dpals-20-EMPTIED"),
    ),
    (
        "item weights are scaled 3 % too little",
        CLIP,
        "clip_rows(Pattern.of(ratings), weights, math.sqrt(most))",
        "clip_rows(Pattern.of(ratings), weights, 1.03 * math.sqrt(most))",
        moves("dpals-20-EMPTIED"),
    ),
    (
        "squares: the same noise in every round",
        REUSED,
        "release.squares.publish(squares, rng)",
        f"release.squares.publish(squares, {_SEEDED})",
        fresh("dpals"),
    ),
)

_VIEWS = "test_in_scenario_3_each_party_sees_uniform_numbers"
_OWN_STREAM = "test_what_a_party_draws_depends_on_its_own_generator_alone"
_ONCE = "test_the_release_is_published_once_and_certified_as_scenario_1s"
_LAW = "test_the_noise_in_the_sums_is_laplace_of_scenario_1s_scale"
_ADD_UP = "test_every_phase_is_one_release_and_they_add_up_to_the_claim"
_OF_PHASES = "test_the_noise_of_every_phase_has_the_scale_of_the_card"
_NO_TWO = "test_no_two_phases_share_noise_masks_or_secrets"

PROTOCOL = (
    _family(
        "protocol",
        "lab/protocol/scenarios.py",
        ("scale", SCALE, "scale=term.scale,", "scale=0.97 * term.scale,", named("protocol", _LAW)),
        (
            "scenario 2: no shares of noise",
            SKIPPED,
            "phase.release.publish_shares(run.users.linear, run.what, mixing, run.rng)",
            "run.users.linear",
            named("protocol", f"{_ONCE}[StaticUsers]"),
        ),
        (
            "scenario 3: no shares of noise",
            SKIPPED,
            "shares = phase.release.publish_shares(\n"
            "                np.zeros((len(asked), self.rank)), group, mixing, run.rng\n"
            "            )",
            "shares = np.zeros((len(asked), self.rank))",
            named("protocol", f"{_ONCE}[DynamicUsers]"),
        ),
        (
            "a rating's bound is left out",
            UNIT,
            "sensitivity=term.sensitivity,",
            "sensitivity={},",
            named("protocol", _ONCE),
        ),
        (
            "single gradients are covered",
            UNIT,
            "unaccounted=(*card.unaccounted, single)",
            "unaccounted=card.unaccounted",
            named(
                "protocol",
                "test_the_card_of_scenario_3_says_that_single_gradients_are_covered_by_nothing",
            ),
        ),
        (
            "user factors are not cut to the ball",
            CLIP,
            "user_factors, _ = clip_dense_rows(self.refit(items), 1.0)",
            "user_factors = self.refit(items)",
            named("protocol", "test_long_user_factors_move_no_linear_term_further_than_stated"),
        ),
        (
            "user factors are cut 3 % too wide",
            CLIP,
            "clip_dense_rows(self.refit(items), 1.0)",
            "clip_dense_rows(self.refit(items), 1.03)",
            named("protocol", "test_long_user_factors_move_no_linear_term_further_than_stated"),
        ),
        (
            "users share the recommender's generator",
            REUSED,
            "own, self.rng, masks, secrets = rng.spawn(4)",
            "own, self.rng, _, secrets = rng.spawn(4)\n        masks = self.rng",
            named("protocol", "test_the_parties_draw_from_generators_of_their_own"),
        ),
        (
            "the third party shares the recommender's generator",
            REUSED,
            "ThirdParty(fixed, secrets)",
            "ThirdParty(fixed, masks)",
            named("protocol", "test_the_parties_draw_from_generators_of_their_own"),
        ),
        (
            "the third party's secret is 0",
            OTHER,
            "self.fixed.uniform(size, run.third_party.rng)",
            "np.zeros(size, dtype=np.uint64)",
            named("protocol", _VIEWS),
        ),
        (
            "the secret is the start of the mask stream",
            OTHER,
            "self.fixed.uniform(size, run.third_party.rng)",
            'self.fixed.uniform(size, __import__("copy").deepcopy(run.recommender.rng))',
            named("protocol", f"{_OWN_STREAM}[DynamicUsers]"),
        ),
        (
            "the recommender draws the secret",
            OTHER,
            "self.fixed.uniform(size, run.third_party.rng)",
            "self.fixed.uniform(size, run.recommender.rng)",
            named("protocol", f"{_OWN_STREAM}[DynamicUsers]"),
        ),
        (
            "scenario 2: gradients without masks",
            OTHER,
            "masks = run.recommender.mask(len(pairs))",
            "masks = np.uint64(0) * run.recommender.mask(len(pairs))",
            named("protocol", "test_the_third_party_sees_uniform_numbers_whatever_the_ratings"),
        ),
        (
            "scenario 3: shares without masks",
            OTHER,
            "run.what[asked], run.recommender.mask(len(asked))",
            "run.what[asked], np.uint64(0) * run.recommender.mask(len(asked))",
            named("protocol", _VIEWS),
        ),
        (
            "scenario 3: gradients without masks",
            OTHER,
            "run.items[group], run.recommender.mask(len(asked))",
            "run.items[group], np.uint64(0) * run.recommender.mask(len(asked))",
            named("protocol", _VIEWS),
        ),
        (
            "every phase spends all of epsilon",
            SCALE,
            "dataclasses.replace(self.mechanism, epsilon=part.epsilon) for part in parts",
            "self.mechanism for part in parts",
            named("phases", _ADD_UP),
        ),
        (
            "later phases have half the noise",
            SCALE,
            "np.add.at(phase.noise, run.what, noisy - run.users.linear)",
            "noisy = noisy - (noisy - run.users.linear) / 2 * (phase.before > 0)\n"
            "        np.add.at(phase.noise, run.what, noisy - run.users.linear)",
            named("phases", _OF_PHASES),
        ),
        (
            "later phases have no noise",
            SKIPPED,
            "phase.release.publish_shares(run.users.linear, run.what, mixing, run.rng)",
            "(\n"
            "            run.users.linear if phase.before else\n"
            "            phase.release.publish_shares(\n"
            "                run.users.linear, run.what, mixing, run.rng\n"
            "            )\n"
            "        )",
            named("phases", f"{_ADD_UP}[StaticUsers]"),
        ),
        (
            "scenario 2: the phases share their noise",
            REUSED,
            "phase.release.publish_shares(run.users.linear, run.what, mixing, run.rng)",
            "phase.release.publish_shares(\n"
            f"            run.users.linear, run.what, mixing, {_SEEDED}\n"
            "        )",
            named("phases", f"{_NO_TWO}[StaticUsers-Shares.GAMMA]"),
        ),
        (
            "scenario 3: the phases share their secret",
            OTHER,
            "run.third_party.secret = self.fixed.uniform(size, run.third_party.rng)",
            "if run.third_party.secret is None:\n"
            "            run.third_party.secret = self.fixed.uniform(size, run.third_party.rng)",
            named("phases", "test_the_secret_of_the_third_party_is_another_in_every_phase"),
        ),
        (
            "fitted user factors count as public",
            UNIT,
            "unaccounted=_REFITTED + card.unaccounted[1:]",
            "unaccounted=()",
            named("phases", _ADD_UP),
        ),
        (
            "one picked user is enough to hide",
            OTHER,
            "if 0 < self.picked < fewest:",
            "if 0 > self.picked:",
            named("phases", "test_fewer_picked_than_can_hide_are_refused"),
        ),
        (
            "scenario 3: the same shares in every run",
            REUSED,
            "np.zeros((len(asked), self.rank)), group, mixing, run.rng",
            f"np.zeros((len(asked), self.rank)), group, mixing, {_SEEDED}",
            named("protocol", f"{_LAW}[DynamicUsers-Shares.GAMMA]"),
        ),
    )
    + _family(
        "protocol",
        "privacy/noise.py",
        (
            "Gamma shares are short",
            SCALE,
            "Floats = scale * (rng.standard_gamma(shape)",
            "Floats = 0.97 * scale * (rng.standard_gamma(shape)",
            named("shares", "test_the_scale_of_the_sums_is_exact[Shares.GAMMA]"),
        ),
        (
            "Gaussian shares are short",
            SCALE,
            "Floats = scale * np.sqrt(2 * mixing",
            "Floats = 0.97 * scale * np.sqrt(2 * mixing",
            named("shares", "test_the_scale_of_the_sums_is_exact[Shares.GAUSSIAN]"),
        ),
    )
    + _family(
        "protocol",
        "privacy/shares.py",
        (
            "colluding users keep nothing back",
            OTHER,
            "count - self.colluding, length",
            "count, length",
            named(
                "shares",
                "test_hardened_shares_without_those_of_t_users_still_sum_to_laplace_noise",
            ),
        ),
    )
    + _family(
        "protocol",
        "lab/protocol/messages.py",
        (
            "sums may wrap around",
            CLIP,
            "wrong = ~(np.abs(array) < room)",
            "wrong = array != array",
            named("protocol", "test_sums_that_would_wrap_around_are_refused_never_silent"),
        ),
    )
)

_SOLVES = "test_every_solve_of_every_party_makes_the_releases_of_the_card"
_PARTIES = "test_no_two_parties_rounds_or_cells_share_their_noise"

FEDERATED = _family(
    "federated",
    "lab/protocol/federated.py",
    (
        "scale",
        SCALE,
        "self.releases = flow.mechanism.releases(matrix.shape[1])",
        "self.releases = flow.mechanism.releases(matrix.shape[1]).each(\n"
        "            lambda r: dataclasses.replace(r, scale=0.97 * r.scale)\n"
        "        )",
        named("federated", _SOLVES),
    ),
    (
        "the last solve is without noise",
        SKIPPED,
        "        assert profiles is not None\n        return profiles",
        "        profiles = solve_rows(self.columns, self.factors, self.mechanism.loss)\n"
        "        return profiles",
        named(
            "federated",
            "test_what_a_party_sends_in_the_first_round_is_made_of_its_published_answers",
        ),
    ),
    (
        "only the first local solve has noise",
        SKIPPED,
        "        for _ in range(local):\n",
        "        for _ in range(1):\n",
        named("federated", _SOLVES),
    ),
    (
        "a cell's epsilon for a user's",
        UNIT,
        "user_composed=all_.certified(card.change).epsilon,",
        "user_composed=all_.certified(CELL).epsilon,",
        named("federated", "test_the_budget_line_is_honest"),
    ),
    (
        "a party's factors are not clipped",
        CLIP,
        "profiles = self.mechanism.private_profiles(",
        "profiles = self.mechanism.solve(",
        named(
            "federated",
            "test_one_cell_of_a_party_moves_its_first_answer_as_far_as_stated_at_most",
        ),
    ),
    (
        "all parties have one generator",
        REUSED,
        "rng.spawn(1)[0], flow.mechanism)",
        "np.random.default_rng(1), flow.mechanism)",
        named("federated", _PARTIES),
    ),
    (
        "the same noise for every party",
        REUSED,
        "self.columns, self.factors, releases, self.rng",
        f"self.columns, self.factors, releases, {_SEEDED}",
        named("federated", _PARTIES),
    ),
    (
        "local solves are not counted",
        OTHER,
        "solves = self.rounds * self.local",
        "solves = self.rounds",
        named("federated", "test_the_budget_line_is_honest"),
    ),
)

_OPENDP = "test_what_is_published_is_what_opendp_answers_and_nothing_else"
_ROUNDED = "test_every_sensitivity_of_the_secured_card_holds_the_rounding"

SECURE = (
    _family(
        "secure path",
        "privacy/exact_noise.py",
        (
            "NumPy's noise rounded to the grid",
            OTHER,
            "measurement(kind, scale, part.size, k)(part.tolist())",
            "(np.rint((part + getattr(np.random.default_rng(), kind.replace('gaussian', 'normal'))"
            "(0.0, scale, part.size)) / 2.0**k) * 2.0**k)",
            named("secure_noise", _OPENDP),
        ),
        (
            "scale",
            SCALE,
            "measurement(kind, scale, part.size, k)(part.tolist())",
            "measurement(kind, 0.97 * scale, part.size, k)(part.tolist())",
            named("secure_noise", _OPENDP),
        ),
        (
            "Laplace: scale in the measurement",
            SCALE,
            "dp.l1_distance(T=float), scale=scale, k=k)",
            "dp.l1_distance(T=float), scale=0.97 * scale, k=k)",
            named(
                "secure_noise", "test_a_measurement_is_opendps_own_at_the_scale_asked_for[laplace]"
            ),
        ),
        (
            "Gaussian: scale in the measurement",
            SCALE,
            "dp.l2_distance(T=float), scale=scale, k=k)",
            "dp.l2_distance(T=float), scale=0.97 * scale, k=k)",
            named(
                "secure_noise", "test_a_measurement_is_opendps_own_at_the_scale_asked_for[gaussian]"
            ),
        ),
        (
            "a channel's chances",
            SCALE,
            "found = [round(float(p) * 2**_BITS) for p in row]",
            "found = [round(float(p) * (0.97 if p < max(row) else 1) * 2**_BITS) for p in row]",
            named("secure_noise", "test_a_channel_certifies_what_is_sampled"),
        ),
        (
            "a long answer's later blocks without noise",
            SKIPPED,
            "out[start : start + _BLOCK] = measurement(kind, scale, part.size, k)(part.tolist())",
            "out[start : start + _BLOCK] = part if start else "
            "measurement(kind, scale, part.size, k)(part.tolist())",
            named("secure_noise", "test_long_answers_are_sampled_in_blocks_and_counted_once"),
        ),
        (
            "one draw for all coordinates",
            REUSED,
            "measurement(kind, scale, part.size, k)(part.tolist())",
            "part + measurement(kind, scale, 1, k)([0.0])[0]",
            named("secure_noise", "test_noise_has_the_law_its_release_states"),
        ),
        (
            "one word for all symbols",
            REUSED,
            "np.frombuffer(os.urandom(8 * count), dtype=np.uint64) >>",
            "np.repeat(np.frombuffer(os.urandom(8), dtype=np.uint64), count) >>",
            named("secure_noise", "test_a_channel_has_the_chances_its_release_states"),
        ),
        (
            "rounding is not counted",
            OTHER,
            "found = measurement(kind, scale, count, grid(scale, count)).map(sensitivity)",
            "found = sensitivity / scale\n"
            '    found = found if kind == "laplace" else 0.5 * found**2',
            named("secure_noise", "test_the_rounding_is_counted_and_costs_nearly_nothing"),
        ),
        (
            "a coarse grid",
            OTHER,
            "_FINE = 40 ",
            "_FINE = 20 ",
            named("secure_noise", "test_outputs_lie_on_the_grid_and_textbook_noise_does_not"),
        ),
        (
            "chances too small to sample pass",
            CLIP,
            "if ((row > 0) & (row < _LEAST)).any():",
            "if False:",
            named("secure_noise", "test_a_chance_too_small_to_sample_is_refused"),
        ),
    )
    + _family(
        "secure path",
        "lab/study/release.py",
        (
            "sensitivities are not raised by the rounding",
            OTHER,
            "max(s, _raised(release, count, s))",
            "s",
            named("secure_noise", _ROUNDED),
        ),
        (
            "more answers than the card counts are written",
            OTHER,
            "if not source.drawn <= expected:",
            "if False:",
            named("secure_noise", "test_more_answers_than_the_card_counts_are_never_written"),
        ),
        (
            "an infinite certificate is released",
            UNIT,
            "    if not found.finite:\n",
            "    if False:\n",
            named("secure_noise", "test_what_cannot_be_released_says_why[dpmf]"),
        ),
    )
    + _family(
        "secure path",
        "privacy/noise.py",
    )
    + _family(
        "secure path",
        "privacy/noise.py",
        (
            "coins from NumPy",
            OTHER,
            "return rng.coins(weights)",
            "return rng._plain.random(len(weights)) * weights < 1.0",
            named("coins", "test_an_exact_release_tosses_the_coins_it_counts"),
        ),
    )
    + _family(
        "secure path",
        "privacy/exact_noise.py",
        (
            "plain draws are served",
            OTHER,
            "setattr(SecureSource, _draw, _refused(_draw))",
            "pass",
            named("coins", "test_a_secure_source_refuses_every_plain_draw"),
        ),
        (
            "a coin's chance rounded up",
            OTHER,
            "(1 - _LESS) / weights",
            "(1 + _LESS) / weights",
            named("coins", "test_a_coins_chance_is_never_above_one_over_its_weight"),
        ),
    )
)

_UNITS = "test_derived_sensitivities_are_never_below_the_truth"

KERNEL = [
    *_family(
        "kernel",
        "privacy/releases.py",
        (
            "Laplace: scale",
            SCALE,
            "return noise.laplace(self.scale, shape, rng)",
            "return noise.laplace(0.97 * self.scale, shape, rng)",
            named("noise", "test_the_scale_of_noise_is_exact[Laplace]"),
        ),
        (
            "NormLaplace: scale",
            SCALE,
            "return noise.norm_laplace(self.scale, shape, rng)",
            "return noise.norm_laplace(0.97 * self.scale, shape, rng)",
            named("noise", "test_the_scale_of_noise_is_exact[NormLaplace]"),
        ),
        (
            "Gaussian: scale",
            SCALE,
            "return noise.gaussian(self.scale, shape, rng)",
            "return noise.gaussian(0.97 * self.scale, shape, rng)",
            named("noise", "test_the_scale_of_noise_is_exact[Gaussian]"),
        ),
        (
            "Gaussian: repeats are not counted",
            OTHER,
            "math.sqrt(self.times) * sensitivity",
            "sensitivity",
            named("privacy", "test_gaussian_mu"),
        ),
        (
            "a scale read off the data certifies",
            CLIP,
            "scale=scale, sensitivity={})",
            "scale=scale)",
            named("privacy", "test_a_scale_read_off_the_data_certifies_nothing"),
        ),
    ),
    *_family(
        "kernel",
        "privacy/changes.py",
        (
            "a row is one cell",
            UNIT,
            "(CELL, USER_EMPTIED, k),",
            "(CELL, USER_EMPTIED, 1),",
            named("privacy", _UNITS),
        ),
        (
            "two rows are one step apart",
            UNIT,
            "(USER_EMPTIED, USER_REPLACED, 2),",
            "(USER_EMPTIED, USER_REPLACED, 1),",
            named("privacy", _UNITS),
        ),
        (
            "values bound cells",
            UNIT,
            "(ROW_VALUES, RATING, 1),",
            "(ROW_VALUES, RATING, 1),\n        (RATING, CELL, 1),",
            named("privacy", "test_values_never_bound_cells_or_users"),
        ),
    ),
    *_family(
        "kernel",
        "privacy/noise.py",
        (
            "Laplace: published without noise",
            SKIPPED,
            "rng.laplace(0.0, scale, count)",
            "np.zeros(count)",
            named("noise", "test_published_noise_is_what_the_release_states"),
        ),
        (
            "Gaussian: one draw for all cells",
            REUSED,
            "rng.normal(0.0, sigma, count)",
            "rng.normal(0.0, sigma, 1)",
            named("noise", "test_published_noise_is_what_the_release_states"),
        ),
        (
            "channel: one draw for all symbols",
            REUSED,
            "uniform = rng.random(int(here.sum()))",
            "uniform = np.full(int(here.sum()), rng.random())",
            named("noise", "test_every_symbol_meets_its_row_of_the_channel"),
        ),
        (
            "channel: flips too rare",
            SCALE,
            "below, above = ends[a, :-1], tails[a, :-1]",
            "below, above = (ends[a, :-1] ** 0.97, tails[a, :-1]) if a else "
            "(1 - 0.97 * (1 - ends[a, :-1]), tails[a, :-1])",
            named("noise", "test_flips_three_percent_too_rare_are_seen"),
        ),
    ),
]

ROOM = _family(
    "room",
    "lab/teach/room.py",
    (
        "a phone: the opposite too rarely",
        SCALE,
        "math.ceil(flip_chance(epsilon) * DRAWS)",
        "math.ceil(0.97 * flip_chance(epsilon) * DRAWS)",
        named("room", "test_a_phone_lies_as_often_as_its_epsilon_asks"),
    ),
    (
        "a phone: rounded to the side that tells more",
        OTHER,
        "math.ceil(flip_chance(epsilon) * DRAWS)",
        "math.floor(flip_chance(epsilon) * DRAWS)",
        named("room", "test_a_phone_lies_as_often_as_its_epsilon_asks"),
    ),
    (
        "coins tell more than a phone",
        CLIP,
        "least <= rule.chance < 0.5",
        "0.9 * least <= rule.chance < 0.5",
        named("room", "test_coins_never_tell_more_than_a_phone"),
    ),
    (
        "simulated phones: answers as they are",
        SKIPPED,
        "told = replace(channel, shape=answers.shape).publish(answers.astype(np.uint8), rng)",
        "told = answers.astype(np.uint8)",
        named("room", "test_a_thousand_classes"),
    ),
    (
        "simulated phones: one draw for all classes",
        REUSED,
        ".publish(answers.astype(np.uint8), rng)",
        ".publish(answers.astype(np.uint8), np.random.default_rng(0))",
        named("room", "test_simulated_phones_draw_anew"),
    ),
    (
        "asked again, spent once",
        UNIT,
        "return sum(coin(one.epsilon)",
        "return max(coin(one.epsilon)",
        named("room", "test_asking_again_spends_again_and_makes_the_attacker_surer"),
    ),
)

PHONE = _family(
    "phone",
    "pages/ui/phone.html",
    (
        "one draw less than the epsilon asks for",
        SCALE,
        "Math.ceil(DRAWS / (1 + Math.exp(told)))",
        "Math.floor(DRAWS / (1 + Math.exp(told)))",
        named("browser_phone", "test_a_phone_wants_the_exact_threshold_at_every_epsilon"),
    ),
    (
        "nothing is refused where epsilon is large",
        CLIP,
        "Math.max(1, Math.ceil(",
        "Math.max(0, Math.ceil(",
        named("browser_phone", "test_a_phone_wants_the_exact_threshold_at_every_epsilon"),
    ),
    (
        "more than a fair coin is taken",
        CLIP,
        "below >= least && 2 * below < DRAWS",
        "below >= least && below < DRAWS",
        named("browser_phone", "test_a_phone_wants_the_exact_threshold_at_every_epsilon"),
    ),
    (
        "more is granted than the epsilon that is shown",
        UNIT,
        "Math.min(epsilon, Number(round(epsilon)))",
        "epsilon",
        named("browser_phone", "test_the_epsilon_that_is_shown_is_never_less_than_what_is_spent"),
    ),
    (
        "what is spent is rounded to the nearest",
        SCALE,
        "Math.ceil(100 * value - 1e-6)",
        "Math.round(100 * value)",
        named("browser_phone", "test_the_epsilon_that_is_shown_is_never_less_than_what_is_spent"),
    ),
    (
        "a number of the question that is kept nowhere",
        OTHER,
        "(counts(told.asking) && ",
        "(",
        named("browser_phone", "test_a_phone_draws_nothing_for_a_hostile_server[asking]"),
    ),
    (
        "the answer is drawn though the threshold is not the epsilon's",
        SKIPPED,
        "!now.open || !keepsItsWord(now.epsilon, now.below)) return;",
        "!now.open) return;",
        named("browser_phone", "test_a_phone_draws_nothing_for_a_hostile_server[both]"),
    ),
    (
        "the answer as it is",
        SKIPPED,
        "u < below ? 1 - answer : answer",
        "answer",
        named("browser_phone", "test_the_raw_answer_never_leaves_a_phone_that_lies[Yes-1]"),
    ),
    (
        "the raw answer is sent",
        SKIPPED,
        "bit: report.bit };",
        "bit: fallen ? fallen.yes : report.bit };",
        named("browser_phone", "test_the_raw_answer_never_leaves_a_phone_that_lies[Yes-1]"),
    ),
    (
        "the raw answer is kept",
        OTHER,
        "{ bit, epsilon: now.epsilon }",
        "{ bit, epsilon: now.epsilon, yes }",
        named("browser_phone", "test_the_raw_answer_never_leaves_a_phone_that_lies[Yes-1]"),
    ),
    (
        "one token for all rooms",
        REUSED,
        "token: newToken(), sent: {} }",
        "token: memory.token || newToken(), sent: {} }",
        named("browser_phone", "test_before_and_after_a_class"),
    ),
)

_DOOR = "test_the_door_by_itself"

SERVER = _family(
    "server",
    "pages/ui/door.py",
    (
        "any name is its own",
        SKIPPED,
        "if host is None or not self._is_own(host, scope):",
        "if host is None:",
        named("door", _DOOR),
    ),
    (
        "any address is its own",
        CLIP,
        "return address.is_loopback or",
        "return True or",
        named("door", _DOOR),
    ),
    (
        "a name that begins with its own",
        CLIP,
        "_HOST.fullmatch(",
        "_HOST.match(",
        named("door", _DOOR),
    ),
    (
        "pages of other sites are answered",
        SKIPPED,
        'if scheme not in ("http", "https") or site != told.lower():',
        'if scheme not in ("http", "https"):',
        named("door", _DOOR),
    ),
    (
        "websockets pass by",
        SKIPPED,
        'if scope["type"] in ("http", "websocket"):',
        'if scope["type"] == "http":',
        named("door", _DOOR),
    ),
    (
        "a class's address without a class",
        OTHER,
        "if classroom.on():",
        "if True:",
        named("door", "test_it_answers_to_the_address_it_was_bound_to"),
    ),
) + _family(
    "server",
    "lab/locks.py",
    (
        "an upload's folder stays",
        SKIPPED,
        "            remove(folder)\n",
        "            pass\n",
        named(
            "sweep_kills",
            "test_a_private_sweep_ends_with_its_owner_and_its_folder_goes[False-SIGKILL]",
        ),
    ),
)

CLASSROOM = _family(
    "class",
    "pages/ui/classroom.py",
    (
        "the right link counts as a guess",
        OTHER,
        '    if not _is_secret(request.path_params["secret"]):\n        _pace(_guesses, request)',
        '    _pace(_guesses, request)\n    if not _is_secret(request.path_params["secret"]):',
        named("classroom", "test_secrets_cannot_be_tried_one_after_the_other"),
    ),
    (
        "the beginning of the secret opens",
        CLIP,
        "hmac.compare_digest(given.encode(), secret().encode())",
        "secret().startswith(given)",
        named("classroom", "test_a_wrong_secret_is_refused"),
    ),
    (
        "everybody uploads",
        SKIPPED,
        "if upload and on() and not _is_secret(",
        "if upload and not on() and not _is_secret(",
        named("classroom", "test_nobody_but_the_teacher_uploads"),
    ),
    (
        "visitors take the teacher's places",
        OTHER,
        "return jobs.PLACES if teacher() else jobs.VISITORS",
        "return jobs.PLACES",
        named("classroom", "test_strangers_open_no_room"),
    ),
    (
        "visitors switch themselves on",
        SKIPPED,
        "    _only_the_teacher()\n    _server.visitors = may",
        "    _server.visitors = may",
        named("classroom", "test_strangers_open_no_room"),
    ),
) + _family(
    "class",
    "lab/teach/room.py",
    (
        "nobody waits to be let in",
        SKIPPED,
        "if token not in self._inside and len(self._inside) < self._places:",
        "if token not in self._inside:",
        named("room", "test_one_address_fills_no_room"),
    ),
    (
        "one address fills the queue",
        CLIP,
        "token not in self._waiting and same < self._places and",
        "token not in self._waiting and",
        named("room", "test_one_address_fills_no_room"),
    ),
    (
        "all that wait are let in",
        OTHER,
        "list(self._waiting)[:phones]",
        "list(self._waiting)",
        named("room", "test_no_more_are_let_in_than_were_seen_to_wait"),
    ),
)

_EXACT_IDS = "test_ids_that_a_float_no_longer_tells_apart_are_refused_with_its_type"
_ASKED_CLICKS = "test_with_a_range_a_file_is_read_as_clicks_only_if_asked"
_BY_HAND = named("reading_fuzz", "test_by_hand")

READING = (
    _family(
        "reading",
        "data/reading.py",
        (
            "float ids: the first two that run together pass",
            OTHER,
            "(np.abs(values[~np.isnan(values)]) >= 2.0**digits)",
            "(np.abs(values[~np.isnan(values)]) > 2.0**digits)",
            named("reading", _EXACT_IDS),
        ),
        (
            "float ids: those of float32 held to the bound of float64",
            OTHER,
            "32: 24,",
            "32: 53,",
            named("reading", _EXACT_IDS),
        ),
        (
            "float ids: half floats one bit longer",
            OTHER,
            "16: 11,",
            "16: 12,",
            named("reading", _EXACT_IDS),
        ),
        (
            "float ids: negative ones not looked at",
            OTHER,
            "(np.abs(values[~np.isnan(values)]) >=",
            "(values[~np.isnan(values)] >=",
            named("reading", _EXACT_IDS),
        ),
        (
            "ids that differ by capitals are one person",
            OTHER,
            "map(self._known.__getitem__, map(str.strip, texts))",
            "map(self._known.__getitem__, map(str.lower, map(str.strip, texts)))",
            named("reading", "test_two_ids_are_one_only_if_their_text_is_equal"),
        ),
        (
            "ids without their leading zeros",
            OTHER,
            "map(self._known.__getitem__, map(str.strip, texts))",
            'map(self._known.__getitem__, (t.strip().lstrip("0") for t in texts))',
            named("reading", "test_two_ids_are_one_only_if_their_text_is_equal"),
        ),
    )
    + _family(
        "reading",
        "data/layout.py",
        (
            "a file with a range is clicks unasked",
            UNIT,
            "bool(unknown) or options.low is not None",
            "bool(unknown)",
            named("reading", _ASKED_CLICKS),
        ),
    )
    + _family(
        "reading",
        "data/cleaning.py",
        (
            "the range is read off the data",
            CLIP,
            'low, high, origin = options.low, options.high, "the public range as given"',
            "low, high = float(np.nanmin(table.ratings)), float(np.nanmax(table.ratings))\n"
            '        origin = "the public range as given"',
            _BY_HAND,
        ),
        (
            "ratings below the range are kept",
            CLIP,
            "((table.ratings < low) | (table.ratings > high))",
            "(table.ratings > high)",
            _BY_HAND,
        ),
        (
            "who has no usable row stays in the lists",
            OTHER,
            "used = np.full(len(names), whole)",
            "used = np.full(len(names), True)",
            _BY_HAND,
        ),
        (
            "of a repeated pair the first is kept for the last",
            OTHER,
            "last = np.append(np.diff(cells) != 0, True)[: len(cells)]",
            "last = np.append(True, np.diff(cells) != 0)[: len(cells)]",
            _BY_HAND,
        ),
    )
    + _family(
        "reading",
        "pages/data.py",
        (
            "the upload page asks for clicks by itself",
            UNIT,
            'NONE if role == "time" else None)',
            "NONE if role in NO_COLUMN else None)",
            named("pages", "test_with_a_range_an_upload_is_read_as_clicks_only_if_asked"),
        ),
    )
)

_SHOWN = named("absurd_options", "test_what_others_wrote_is_shown_and_not_obeyed")
_BEFALLS = "test_whatever_befalls_a_command_ends_in_its_status"

COMMAND_LINE = (
    _family(
        "command line",
        "errors.py",
        (
            "the upper control characters reach the terminal",
            OTHER,
            r"\x7f-\x9f",
            r"\x7f",
            _SHOWN,
        ),
        (
            "a sentence has the lines of a name in it",
            OTHER,
            "super().__init__(printable(sentence) +",
            "super().__init__(printable(sentence, lines=True) +",
            named("absurd_options", "test_a_name_in_two_lines_is_one_line_of_a_sentence"),
        ),
    )
    + _family(
        "command line",
        "lab/cli/__init__.py",
        (
            "reports are written as they are",
            OTHER,
            "contextlib.redirect_stdout(cast(Any, Printable(sys.stdout)))",
            "contextlib.nullcontext(cast(Any, Printable(sys.stdout)))",
            _SHOWN,
        ),
        (
            "wrong usage is told as it was typed",
            OTHER,
            "super().error(printable(message))",
            "super().error(message)",
            _SHOWN,
        ),
        (
            "what nobody read is done",
            OTHER,
            "status = UNREAD",
            "status = DONE",
            named("cli", "test_a_reader_that_leaves_early_sees_no_traceback"),
        ),
        (
            "what cannot be written is tried again at the end",
            OTHER,
            "if status in (UNREAD, FAILED):",
            "if status == INTERRUPTED:",
            named("absurd_options", f"{_BEFALLS}[disk full]"),
        ),
        (
            "interrupted is done",
            OTHER,
            "return INTERRUPTED",
            "return DONE",
            named("cli", "test_ctrl_c_ends_cleanly"),
        ),
    )
    + _family(
        "command line",
        "__main__.py",
        (
            "Ctrl-C at the very end is a traceback",
            OTHER,
            "signal.signal(signal.SIGINT, signal.SIG_IGN)",
            "signal.getsignal(signal.SIGINT)",
            named("absurd_options", "test_ctrl_c_at_the_very_end_changes_nothing"),
        ),
    )
    + _family(
        "command line",
        "paths.py",
        (
            "no home folder is a traceback",
            OTHER,
            "except RuntimeError:",
            "except LookupError:",
            named("absurd_options", "test_without_a_home_folder_one_is_asked_for"),
        ),
    )
)
_ONE = "private-item-mean"

VERIFY = _family(
    "verify",
    "lab/study/verify.py",
    (
        "users and items read off the ratings",
        SKIPPED,
        "if catalogue.origin is Origin.READ:",
        "if catalogue.origin is None:",
        named("verify", "test_nobody_writes_a_card_on_users_and_items_that_were_read_off"),
    ),
    (
        "a public set that nobody knows",
        SKIPPED,
        "known = public_sources() if",
        "known = {source: None} if",
        named("verify", "test_a_catalogue_names_what_there_is"),
    ),
    (
        "a public set of ten times the users",
        SKIPPED,
        "if any(given > most for",
        "if any(given > 100 * most for",
        named("verify", "test_a_public_set_has_no_more_users_and_items_than_it_has"),
    ),
    (
        "a list of users where there is none",
        SKIPPED,
        "if listed is not True and (listed is not False",
        "if listed is None and (listed is not False",
        named("verify", "test_a_catalogue_names_what_there_is"),
    ),
    (
        "a digest of nothing",
        SKIPPED,
        'card.get("sha256") != digest(card)',
        'not card.get("sha256")',
        named("verify", f"test_no_edit_of_a_card_goes_unnoticed[{_ONE}]"),
    ),
    (
        "any text for a version",
        SKIPPED,
        "if _VERSION.fullmatch(json.dumps(of.get(name)))",
        "if name in of",
        named("verify", "test_a_version_is_one_or_refused"),
    ),
    (
        "users that no index counts",
        SKIPPED,
        "at_most=MOST",
        "at_most=10**12",
        named("verify", "test_no_more_users_than_an_index_counts_and_no_more_ratings_than_the_cap"),
    ),
    (
        "a row beyond the cap",
        CLIP,
        "most > plain.public.cap:",
        "most > 2 * plain.public.cap:",
        named("verify", "test_no_more_users_than_an_index_counts_and_no_more_ratings_than_the_cap"),
    ),
    (
        "fewer reports than users give",
        SCALE,
        "_NEVER = 2.0**-45",
        "_NEVER = 0.0",
        named("verify", "test_more_users_than_reports_can_be_of_are_refused"),
    ),
    (
        "a cell reported twice",
        REUSED,
        "(np.diff(cells) > 0)",
        "(np.diff(cells) >= 0)",
        named("verify", "test_reports_are_cells_in_order_each_once"),
    ),
    (
        "a card with more than its JSON says",
        SKIPPED,
        "if np.array(json.dumps(card)).tobytes() != text.tobytes():",
        "if json.loads(json.dumps(card)) != card:",
        named("verify", "test_a_card_in_other_letters_is_refused"),
    ),
    (
        "bytes beside the arrays",
        SKIPPED,
        "archives.arrays(path, alone=True)",
        "archives.arrays(path)",
        named("verify", "test_a_file_holds_no_byte_beside_its_arrays"),
    ),
    (
        "fields more than follow",
        SKIPPED,
        "for name in [*wanted, *(name for name in told if name not in wanted)]:",
        "for name in wanted:",
        named("verify", "test_a_surplus_field_is_refused_by_name_wherever_it_stands"),
    ),
    (
        "numbers that are nearly so",
        SCALE,
        "_CLOSE = 1e-9",
        "_CLOSE = 0.03",
        named("verify", f"test_one_edit_is_enough[{_ONE}]"),
    ),
    (
        "noise off its grid",
        SKIPPED,
        "if release is not None and not on_grid(release, array):",
        "if release is not None and not array.size:",
        named("verify", "test_an_edit_of_an_array_names_it[output]"),
    ),
    (
        "preparation that reads the ratings",
        SKIPPED,
        '_part("data.prepare", lambda: check_steps(reads_of(_steps(card["data"])), plain))',
        '_part("data.prepare", lambda: _steps(card["data"]))',
        named("verify", "test_another_claim_is_refused_with_the_field"),
    ),
)

RELEASE = [
    *_family(
        "release",
        "lab/study/release.py",
        (
            "columns as many as somebody likes",
            CLIP,
            "if columns not in own.columns:",
            "if not own.columns:",
            named("verify", f"test_no_column_more_than_the_settings_have[{_ONE}]"),
        ),
        (
            "factors of a matrix as many as somebody likes",
            CLIP,
            "most = max(_MOST_FACTORS, min(users, items))",
            "most = 2**62",
            named("verify", "test_no_column_more_than_the_settings_have[gradient]"),
        ),
        (
            "numbers that are none",
            SKIPPED,
            'return "" if np.isfinite(array).all() else',
            'return "" if array.size else',
            named("verify", f"test_an_edit_of_an_array_names_it[{_ONE}]"),
        ),
        (
            "ids with control characters",
            SKIPPED,
            "next(filter(_CONTROL.search, ids), None)",
            "None",
            named("verify", "test_an_id_with_control_characters_is_neither_written_nor_accepted"),
        ),
        (
            "room behind an id",
            SKIPPED,
            "if np.array(ids).dtype != array.dtype:",
            "if np.array(ids).dtype > array.dtype:",
            named("verify", "test_an_id_with_control_characters_is_neither_written_nor_accepted"),
        ),
        (
            "an id twice",
            REUSED,
            "if len(set(ids)) < len(ids):",
            "if not ids:",
            named(
                "verify", "test_names_belong_to_the_rows_and_are_there_only_where_they_are_public"
            ),
        ),
        (
            "whole numbers outside their range",
            CLIP,
            "array.min() < part.low or array.max() > high",
            "array.min() < part.low",
            named("verify", "test_an_edit_of_an_array_names_it[input-flip]"),
        ),
        (
            "ends in any order",
            SKIPPED,
            'return "" if rises or not part.rising else',
            'return "" if array.size else',
            named("verify", "test_arrays_of_whole_numbers_say_what_they_must"),
        ),
        (
            "ids of a catalogue that is not public",
            UNIT,
            "    if not catalogue.named:\n        named = {}\n    elif",
            "    if",
            named(
                "verify", "test_names_belong_to_the_rows_and_are_there_only_where_they_are_public"
            ),
        ),
        (
            "ids of users beside items alone",
            UNIT,
            "elif not (catalogue.users_listed and USER_ROWS & set(parts)):",
            "elif not catalogue.users_listed:",
            named(
                "verify", "test_names_belong_to_the_rows_and_are_there_only_where_they_are_public"
            ),
        ),
        (
            "released though read off the ratings",
            SKIPPED,
            "if ratings.catalogue.origin is Origin.READ:",
            "if ratings.catalogue.origin is None:",
            named("catalogue", "test_a_file_needs_a_catalogue"),
        ),
        (
            "released after preparation that costs",
            SKIPPED,
            "check_steps((*ratings.prepared, *reads_of(steps)), guarantee)",
            "reads_of(steps)",
            named("catalogue", "test_preparation_is_refused_just_where_it_costs_something"),
        ),
        (
            "released without a certificate",
            SKIPPED,
            "    if not found.finite:",
            "    if not found.reason and not found.finite:",
            named("secure_noise", "test_what_cannot_be_released_says_why"),
        ),
    ),
    *_family(
        "release",
        "archives.py",
        (
            "bytes behind a stream",
            SKIPPED,
            "unpacker.eof and not unpacker.unused_data",
            "unpacker.eof",
            named("archives", "test_a_stream_that_goes_on_behind_its_end_is_damaged"),
        ),
        (
            "sizes believed",
            CLIP,
            "if packed > size or member.file_size > ratio * packed:",
            "if packed > size:",
            named(
                "archives",
                "test_what_is_damaged_or_too_much_ends_in_a_sentence_and_takes_no_memory",
            ),
        ),
        (
            "text of any code",
            CLIP,
            "((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes <= 0xDFFF))).any()",
            "(codes < 0).any()",
            named(
                "archives",
                "test_what_is_damaged_or_too_much_ends_in_a_sentence_and_takes_no_memory",
            ),
        ),
    ),
]

CATALOGUE = [
    *_family(
        "catalogue",
        "data/catalogue.py",
        (
            "places in the order of the ids",
            OTHER,
            "range(len(rated)) if shuffle is None else",
            "range(len(rated)) if users else",
            named("catalogue", "test_without_names_of_users_places_are_drawn_and_rows_stay_whole"),
        ),
        (
            "users said to be listed",
            UNIT,
            "users_listed=names is not None",
            "users_listed=True",
            named("catalogue", "test_without_names_of_users_places_are_drawn_and_rows_stay_whole"),
        ),
        (
            "ratings outside let in",
            SKIPPED,
            "if told and outside is Outside.ERROR:",
            "if not told and outside is Outside.ERROR:",
            named("catalogue", "test_ratings_outside_are_refused_or_left_out_and_told"),
        ),
        (
            "ratings by users outside kept",
            CLIP,
            "inside = (u >= 0) & (i >= 0)",
            "inside = i >= 0",
            named("catalogue", "test_ratings_outside_are_refused_or_left_out_and_told"),
        ),
        (
            "read off the ratings, called public",
            UNIT,
            "catalogue=Catalogue(Origin.FROM_DATA)",
            'catalogue=Catalogue(Origin.PUBLIC, "the generated set jokes")',
            named("catalogue", "test_two_files_that_differ_by_one_item_give_releases_of_one_shape"),
        ),
        (
            "items without ratings left out",
            SKIPPED,
            "public = dataclasses.replace(ratings.public, users=total, items=len(items))",
            "public = dataclasses.replace(ratings.public, users=total, items=int(i.max()) + 1)",
            named(
                "catalogue", "test_every_listed_user_and_item_has_a_row_in_the_order_of_the_lists"
            ),
        ),
        (
            "users listed twice",
            REUSED,
            "if len(found) < len(ids):",
            "if not ids:",
            named("catalogue", "test_ratings_outside_are_refused_or_left_out_and_told"),
        ),
    ),
    *_family(
        "catalogue",
        "lab/cli/release.py",
        (
            "places told by the ids where a promise covers existence",
            OTHER,
            "shuffle = random.SystemRandom() if change.covers_existence else None",
            "shuffle = None if change.covers_existence else random.SystemRandom()",
            named(
                "catalogue",
                "test_the_command_draws_the_places_of_users_whose_number_alone_is_known",
            ),
        ),
    ),
    *_family(
        "catalogue",
        "ratings.py",
        (
            "ids published that were read off the ratings",
            UNIT,
            "return self.origin in (Origin.PUBLIC, Origin.GIVEN)",
            "return self.origin is not Origin.READ",
            named(
                "verify", "test_names_belong_to_the_rows_and_are_there_only_where_they_are_public"
            ),
        ),
    ),
]

# What the second batch added to the core.
_WORST = named("private_effects", "test_the_worst_rows_come_within_five_percent_of_every_bound")
_SPENT = named("private_effects", "test_certified_is_claimed[1.0-private-effects]")
_PROFILES = named("private_taste", f"{_TASTE}[taste-0.5-Change.USER_EMPTIED]")
_TURNED = named("private_taste", f"{_TASTE}[taste-0.5-Change.USER_REPLACED]")
_LEFT_OUT = named("private_taste", "test_a_profile_leaves_the_item_out")
_EXACTLY = named("accounting", "test_randomised_responses_are_summed_exactly")
_ROUNDINGS = "test_pure_releases_lie_between_two_roundings_of_dp_accounting"
_STUDIES = ("numbers", "bits of two kinds", "a bit and a Gaussian")
_PEER = named("accounting", *(f"{_ROUNDINGS}[{study}]" for study in _STUDIES))
_NOTED = named("ledger", "test_what_is_noted_is_read_again_and_kept_from_others")
_TOGETHER = named("ledger", "test_gaussian_runs_compose_by_the_accountant_and_are_not_added")
_UNITS_APART = named("ledger", "test_units_are_never_added")
_CHOICE = named("ledger", "test_a_choice_adds_its_price")
_AGAIN = named("ledger", "test_repeated_releases_add_up_and_each_may_take_so_much")
_DEAREST = named("selection", "test_the_dearest_candidate_sets_the_price")
_TEN = named("selection", "test_the_best_of_ten_costs_less_than_publishing_ten")
_TOSSED = named("coins", "test_coins_fall_with_the_chance_of_their_weight")
_ON_GRID = named("secure_noise", "test_outputs_lie_on_the_grid_and_textbook_noise_does_not")
_ANSWERS_ALONE = "test_rankings_and_collected_ratings_show_nothing_but_the_answers"
_TRACE_OF = named("replayed_answers", f"{_ANSWERS_ALONE}[local-popularity-settings14]")

# fmt: off
CORE = [
    *_family(
        "item effects", "mechanisms/per_user.py",
        ("deviations over the largest one seen", CLIP,
         "(ratings.values - public.middle) / public.half_width, 0.0)",
         "(d := ratings.values - public.middle) / np.abs(d).max(), 0.0)", _WORST),
        ("own statistics move half as far", UNIT,
         "own, math.sqrt(2 * OWN + 2), math.sqrt(2 * OWN + 2)),",
         "own, math.sqrt(OWN + 1), math.sqrt(OWN + 1)),", _WORST),
        ("means of a replaced row", UNIT, "mean, math.sqrt(2), 2.0),",
         "mean, math.sqrt(2), math.sqrt(2)),", _WORST),
        ("counts of a replaced row", UNIT, "counts, 1.0, math.sqrt(2)),", "counts, 1.0, 1.0),",
         _WORST),
        ("sums of a replaced row", UNIT, "sums, clip, 2 * clip", "sums, clip, math.sqrt(2) * clip",
         _WORST),
        ("gains move half as far", UNIT, "gain, 1.0, 1.0),", "gain, 0.5, 0.5),", _WORST),
        ("rows centred by the raw mean", OTHER, "values = ratings.values - mean[0]\n    own",
         "values = ratings.values - ratings.values.mean()\n    own", _WORST),
        ("own means take in how many everybody rated", OTHER, "(count + OWN_PSEUDO)",
         "(count.mean() + OWN_PSEUDO)", _WORST),
        ("weights from raw counts", OTHER, "items.weights[cells.items], effects",
         "item_sums(cells, each)[cells.items] ** -0.5, effects", _WORST),
        ("rows clipped at what the widest ratings say", CLIP,
         "items.weights[cells.items], effects_clip(public)",
         "items.weights[cells.items], _EFFECTS_CLIP * np.ptp(ratings.values)", _WORST),
        ("raw gains go on after their release", SKIPPED, "mean_gain(float(gain), ",
         "mean_gain(bounded_gain(gains), ", _WORST),
        ("residuals about raw item means", OTHER, "values - items.effects[ratings.items], OWN)",
         "values - (item_sums(cells, values) / np.maximum(item_sums(cells, values**0), "
         "1))[ratings.items], OWN)",
         _WORST),
    ),
    *_family(
        "item effects", "solvers/rows.py",
        ("which ratings a cap keeps hangs on everybody's", REUSED, "key = cap_key(rng)\n    if",
         "key = cap_key(rng) + len(ratings)\n    if",
         named("user_level", "test_the_cap_is_drawn_by_each_users_own_randomness")),
    ),
    *_family(
        "item effects", "mechanisms/private_effects.py",
        ("moments move sqrt(2) at most", UNIT, "moments, math.sqrt(3), 2.0,",
         "moments, math.sqrt(2), 2.0,", _WORST),
        ("moments of a replaced row", UNIT, "moments, math.sqrt(3), 2.0,",
         "moments, math.sqrt(3), math.sqrt(3),", _WORST),
        ("rounds of residuals are not counted", OTHER, "clip, 2 * clip, self.rounds),",
         "clip, 2 * clip, 1),", _SPENT),
        ("each round spends all of the rest", SCALE, "(rest / self.rounds).split(", "rest.split(",
         _SPENT),
        ("share of taste by raw counts", OTHER, "share = taste_share(items, ",
         "share = taste_share(__import__('dataclasses').replace(items, "
         "raw=np.bincount(ratings.items, minlength=public.items) * 1.0), ",
         _WORST),
        ("taste begins at raw counts", OTHER, "first_taste(items, random) if",
         "first_taste(items, random + np.bincount(ratings.items, "
         "minlength=public.items)[:, None]) if",
         moves("private-effects-11-EMPTIED")),
        ("raw moments go on after their release", SKIPPED,
         "moments = releases.moments.publish(moments, rng)",
         "releases.moments.publish(moments, rng)", _WORST),
    ),
    *_family(
        "own side", "solvers/own_side.py",
        ("squares over half their bound", CLIP, "shown[0] /= MOST\n", "shown[0] /= MOST / 2\n",
         _WORST),
        ("what a row knows counts by its ratings", CLIP, "= (1 - kept) ** 2",
         "= np.sqrt(inside)[:, None] * (1 - kept) ** 2", _WORST),
        ("users count by their ratings", CLIP, "shown[1, :, count] = 1.0",
         "shown[1, :, count] = np.sqrt(inside)", _WORST),
        ("a row's taste is not of length 1", CLIP, "enumerate(unit_rows(taste).T, 1)",
         "enumerate(taste.T, 1)", _WORST),
        ("moments of taste are not of length 1", CLIP,
         "unit = unit_rows(rows.coefficients[:, -rank:])", "unit = rows.coefficients[:, -rank:]",
         _WORST),
        ("effects beside taste count in full", CLIP, "math.sqrt(1 - share) * scaled)", "scaled)",
         _WORST),
        ("taste beside effects counts in full", CLIP, "math.sqrt(share) * scaled * direction",
         "scaled * direction", _WORST),
        ("rows are stretched beyond the clip", CLIP, "factor = np.minimum(", "factor = np.maximum(",
         _WORST),
        ("rows are weighted by the average length", OTHER, "(weights / lengths[cells.users])",
         "(weights / lengths[lengths > 0].mean())", _WORST),
        ("gains of a round are not bounded", CLIP, "moments[-2] += bounded_gain(gains)",
         "moments[-2] += gains.sum() / MOST", _WORST),
        ("taste's gain counts four times", CLIP, "moments[-1] += bounded_gain(gains)",
         "moments[-1] += MOST * bounded_gain(gains)", moves("private-effects-11-EMPTIED")),
        ("directions of the average length", OTHER,
         'length = np.sqrt(np.einsum("kr,kr->k", vectors, vectors))',
         'length = np.full(len(vectors), np.sqrt(np.einsum("kr,kr->", vectors, vectors) '
         "/ max(len(vectors), 1)))",
         moves("private-effects-11-EMPTIED")),
        ("one regression for all", OTHER, "inverse = np.asarray(np.linalg.inv(squares))",
         "inverse = np.tile(np.linalg.inv(squares.mean(axis=0)), (stop - start, 1, 1))",
         moves("private-effects-11-EMPTIED")),
    ),
    *_family(
        "taste", "mechanisms/user_ranking.py",
        ("profiles of a replaced row", UNIT, "turned = math.sqrt(2 + 2 * (1 - 2 * _COUNT))",
         "turned = math.sqrt(2)", _TURNED),
        ("moments move sqrt(2) at most", UNIT, "math.sqrt(3), math.sqrt(8), asks",
         "math.sqrt(2), math.sqrt(8), asks", _PROFILES),
        ("moments of a replaced row", UNIT, "math.sqrt(3), math.sqrt(8), asks",
         "math.sqrt(3), math.sqrt(6), asks", _TURNED),
        ("asks are not counted", OTHER, "1.0, turned, asks)", "1.0, turned, 1)",
         named("private_taste", f"{_ACCOUNTANT}[private-taste-0.3]")),
        ("profiles count in full beside counts", CLIP, "= math.sqrt(1 - share) * cross", "= cross",
         _PROFILES),
        ("counts count in full beside profiles", CLIP, "= math.sqrt(share) * rows", "= rows",
         _PROFILES),
        ("long rows give whole profiles", CLIP, "cross_moments(pattern, weights, features)",
         "cross_moments(pattern, np.ones(len(weights)), features)", _PROFILES),
        ("features centred by raw counts", OTHER,
         "features - counts.believed @ features / counts.believed.sum()",
         "features - rows @ features / rows.sum()", _PROFILES),
        ("features in the measure of raw counts", OTHER, "np.sqrt(counts.believed)",
         "np.sqrt(rows)", _PROFILES),
        ("raw counts are the scores", SKIPPED, "shares = counts.noisy[:, None] / users",
         "shares = rows[:, None] / users",
         named("private_taste", "test_counts_alone_are_the_mean_of_all_answers_by_precision")),
        ("a trace tells how many clicks there are", OTHER, '{"taste that is heard": told}',
         '{"taste that is heard": told, "clicks": float(len(ratings))}',
         named("coins", "test_what_is_asked_next_follows_from_answers_and_not_from_raw_counts")),
        ("popularity of a replaced row", UNIT, "USER_REPLACED: math.sqrt(2.0) * l2}",
         "USER_REPLACED: l2}",
         named("private_taste", f"{_ACCOUNTANT}[private-popularity-0.3]")),
        ("popularity: k items move like one", UNIT, "if user else 1\n", "* 0 + 1 if user else 1\n",
         named("private_taste", f"{_POPULAR}[user-0.0]")),
    ),
    *_family(
        "taste", "solvers/taste.py",
        ("profiles are not of length 1", CLIP,
         "return _directions(_sums(pattern, features), _shortest(features))",
         "return _sums(pattern, features)", _LEFT_OUT),
        ("profiles without an item are not of length 1", CLIP,
         "others = _directions(sums[u] - features[i], shortest)", "others = sums[u] - features[i]",
         _LEFT_OUT),
        ("directions of the average length", OTHER, "vectors / length, 0.0)",
         "vectors / length.mean(), 0.0)", _LEFT_OUT),
    ),
    *_family(
        "local", "mechanisms/local_ranking.py",
        ("raw counts are the popularity", SKIPPED, "counts = users * reports.shares",
         "counts = 1.0 * np.bincount(ratings.items, minlength=ratings.public.items)", _TRACE_OF),
        ("a trace tells how many clicks there are", OTHER, "float(reported.mean())",
         "len(ratings) / reported.size", _TRACE_OF),
        ("similarities of raw rows", SKIPPED, "FlippedPairs(reports.bits, reports.flip)",
         "FlippedPairs(rows.toarray().astype(np.uint8), reports.flip)",
         named("replayed_answers", f"{_ANSWERS_ALONE}[dplcf-settings12]")),
    ),
    *_family(
        "composition", "privacy/accounting.py",
        ("what a transform may lose is not counted", OTHER, " + math.exp(min(lost, 600.0))", "",
         named("accounting", "test_delta_is_not_understated_far_out")),
        ("nothing is lost beside Gaussian noise", OTHER,
         "+ math.log(_NOISE) + self.tilt * (self.tilt + 1) * self.mu**2 / 2", "+ math.log(_NOISE)",
         named("accounting", "test_a_mass_that_a_transform_loses_is_counted_wherever_it_lies")),
        ("losses are rounded down", OTHER, "upper = np.clip((p - q) / -math.expm1(-step), 0.0, p)",
         "upper = 0.0 * p", _PEER),
        ("losses are rounded to the middle", OTHER,
         "upper = np.clip((p - q) / -math.expm1(-step), 0.0, p)", "upper = 0.5 * p", _PEER),
        ("one part in a thousand is left out", OTHER, "_LEFT_OUT = math.log(1e18)",
         "_LEFT_OUT = math.log(1e3)", _PEER),
        ("equal releases of two sums count once", OTHER,
         "times.update({(p.epsilon, p.laplace): p.times for p in other.pure})",
         "times |= Counter({(p.epsilon, p.laplace): p.times for p in other.pure})",
         named("accounting", "test_losses_of_any_order_and_size_are_told")),
        ("a bit's loss has a Laplace number's chances", OTHER, "top = 0.5 if part.laplace else",
         "top = 0.5 if True else", _PEER),
        ("a bit counts as a Laplace number", UNIT, "len(pure) == 1 and pure[0].laplace and",
         "len(pure) == 1 and", _EXACTLY),
        ("many Laplace numbers count as one", OTHER, "pure[0].laplace and pure[0].times == 1",
         "pure[0].laplace", _PEER),
        ("a Gaussian beside a Laplace number is left out", OTHER, "one = mu == 0 and len",
         "one = len",
         named("privacy", "test_mixed_releases_cost_less_than_the_pure_and_the_gaussian_epsilon")),
        ("the end of a bisection that does not hold", OTHER,
         "return high\n\n\n@lru_cache(maxsize=_KNOWN)\ndef composed_delta",
         "return low\n\n\n@lru_cache(maxsize=_KNOWN)\ndef composed_delta",
         _EXACTLY),
        ("delta is overspent by a millionth", SCALE, "target = delta * (1 - 1e-12)",
         "target = delta * (1 + 1e-6)", _EXACTLY),
        ("half of the lies are left out", OTHER, "np.arange(n // 2 + 1.0)",
         "np.arange(n // 4 + 1.0)", _EXACTLY),
        ("delta leaves the Gaussian releases out", OTHER,
         "return composed_delta(self.pure, self.mu, epsilon)",
         "return composed_delta(self.pure, 0.0, epsilon)", _PEER),
        ("the Gaussian curve of the other side", OTHER, "rest = epsilon - self.losses\n",
         "rest = np.abs(epsilon - self.losses)\n", _PEER),
    ),
    *_family(
        "composition", "privacy/releases.py",
        ("ratings with numbers of their own count once", UNIT, "self.times * count, laplace=True)",
         "self.times, laplace=True)",
         named("privacy", "test_values_that_move_their_own_numbers_cost_what_so_many_answers_do")),
    ),
    *_family(
        "composition", "privacy/channels.py",
        ("a channel's cells count as one", UNIT, "Pure(each, self.times * cells)",
         "Pure(each, self.times)", named("privacy", "test_channel_epsilon_counts_changed_symbols")),
        ("a channel's symbols count as Laplace numbers", UNIT, "Pure(each, self.times * cells)",
         "Pure(each, self.times * cells, laplace=True)",
         named("privacy", "test_channel_epsilon_counts_changed_symbols")),
    ),
    *_family(
        "sampled sums", "privacy/sampled.py",
        ("rounds are not counted", OTHER, "self.term_epsilon, self.times))",
         "self.term_epsilon, 1))",
         named("coins", "test_the_record_computes_its_loss_from_scale_length_and_budget")),
        ("terms longer than the longest pass", CLIP,
         "if not (spent <= self.term_epsilon * (1 + _SLACK)).all():", "if False:",
         named("coins",
               "test_weights_that_let_a_term_spend_more_are_refused_or_stand_on_the_card")),
        ("any sensitivity passes", UNIT, "if not -_SLACK * s <= over <= 1e-3 * self.longest:",
         "if False:", named("coins", "test_a_bound_that_is_no_whole_number_of_terms_is_refused")),
        ("lengths in l2", UNIT, "np.abs(self.terms).sum(axis=1)",
         "np.linalg.norm(self.terms, axis=1)",
         named("coins", "test_the_mechanism_weighs_each_cell_by_twice_its_factor")),
    ),
    *_family(
        "sampled sums", "privacy/noise.py",
        ("one coin for all terms", REUSED, "return rng.random(len(weights)) * weights < 1.0",
         "return rng.random() * weights < 1.0", _TOSSED),
        ("terms are drawn 3 % too often", SCALE, "return rng.random(len(weights)) * weights < 1.0",
         "return rng.random(len(weights)) * weights < 1.03", _TOSSED),
    ),
    *_family(
        "sampled sums", "privacy/importance.py",
        ("weights without the paper's -1/w", OTHER, "_log_expm1(a * w) > target + np.log(w)",
         "a * w > float(epsilon) + np.log(w)",
         named("dpimf", "test_weights_solve_their_equation_and_short_terms_weigh_more")),
        ("a drawn term is charged no more than its average", OTHER,
         "np.log1p(np.expm1(grown[small]) / w[small])", "a[small]",
         named("coins", "test_the_record_computes_its_loss_from_scale_length_and_budget")),
        ("large losses are charged without their coin", OTHER, "grown[large] - np.log(w[large])",
         "grown[large] - 2 * np.log(w[large])",
         named("coins", "test_losses_at_the_ends_of_weights_and_lengths")),
    ),
    *_family(
        "rounding", "privacy/exact_noise.py",
        ("the grid is for one coordinate", OTHER, " - _FINE - (max(count, 1) - 1).bit_length()",
         " - _FINE", _ON_GRID),
        ("discrete noise counts as continuous", OTHER, "2 * rho / (1 - (_SMOOTH / steps) ** 2)",
         "2 * rho",
         named("secure_noise",
               "test_discrete_gaussian_noise_is_no_worse_than_the_continuous_mechanism_named")),
        ("chances as asked for, not as sampled", OTHER,
         "[[int(w) for w in weights(row)] for row in matrix]",
         "[[float(p) for p in row] for row in matrix]",
         named("secure_noise", "test_a_channel_certifies_what_is_sampled")),
        ("one word for all coins", REUSED, "_words(limits.size) < limits", "_words(1) < limits",
         _TOSSED),
        ("a coin's chance rounded up", OTHER, "return np.floor(np.ldexp", "return np.ceil(np.ldexp",
         named("coins", "test_a_coins_chance_is_never_above_one_over_its_weight")),
        ("an impossible output at one word", OTHER, '_words(count), side="right"',
         '_words(count), side="left"',
         named("secure_noise", "test_a_channel_is_sampled_with_exactly_its_integer_chances")),
        ("what was sampled is not counted", SKIPPED,
         "        self.drawn[kind, scale, flat.size] += 1\n", "",
         named("secure_noise", "test_long_answers_are_sampled_in_blocks_and_counted_once")),
        ("coins are not counted", SKIPPED, '        self.drawn["coin", 0.0, 1] += weights.size\n',
         "", named("coins", "test_coins_are_the_operating_systems_and_counted")),
        ("a grid for half the noise", SCALE, "return math.frexp(scale)[1] - 1 - _FINE",
         "return math.frexp(scale)[1] - _FINE", _ON_GRID),
    ),
    *_family(
        "rounding", "lab/study/release.py",
        ("a sampled sum's rounding is free", OTHER,
         "return sensitivity * (1 + rounding / release.term_epsilon)", "return sensitivity",
         named("coins", "test_the_rounding_of_a_sampled_sum_is_counted")),
        ("a channel's rounding is free", OTHER,
         "sensitivity * exact_noise.channel_epsilon(release.matrix) / once\n", "sensitivity\n",
         named("secure_noise", "test_a_channel_certifies_what_is_sampled")),
        ("one more answer of a kind passes", OTHER,
         "found[kind, release.scale, count] += release.times",
         "found[kind, release.scale, count] += release.times + 1",
         named("secure_noise", "test_more_answers_than_the_card_counts_are_never_written")),
    ),
    *_family(
        "ledger", "lab/study/ledger.py",
        ("repeats spend nothing more", OTHER, "again, found = card.repeated(count), ",
         "again, found = card, ", _TOGETHER),
        ("runs of a row count once", OTHER, "costs=costs_of(mechanism.guarantee(public), count)",
         "costs=costs_of(mechanism.guarantee(public))", _TOGETHER),
        ("choices count once", OTHER, "choices += [cost] * entry.count", "choices += [cost]",
         _CHOICE),
        ("another unit's cost where there is no bound", UNIT, "cost = entry.costs[change]\n",
         "cost = next((c for c in (entry.costs[change], *entry.costs.values()) if not "
         'isinstance(c, str)), "none")\n',
         _UNITS_APART),
        ("entries without a bound are left out", OTHER,
         'return Certified(change, math.inf, delta, f"{entry.mechanism}{at}: {cost}")', "continue",
         _UNITS_APART),
        ("each choice takes all of delta", OTHER,
         "part = delta / (len(choices) + (spent != Loss()))", "part = delta", _CHOICE),
        ("the runs take the choices' delta too", OTHER, "spent.epsilon_at(part) + sum(each)",
         "spent.epsilon_at(delta) + sum(each)", _CHOICE),
        ("releases of one method count once", OTHER,
         "found = [entry for entry in self.private if entry.kind is Kind.RELEASE]",
         "found = list({e.mechanism: e for e in self.private if e.kind is "
         "Kind.RELEASE}.values())",
         named("ledger", "test_the_released_part_is_summed_apart")),
        ("entries without a key count once", OTHER, "{entry.key or str(number): entry",
         "{entry.key: entry",
         named("ledger", "test_the_same_run_counts_once_wherever_it_was_made")),
        ("releases without a key are noted once", OTHER, "for entry in noted(source) if entry.key}",
         "for entry in noted(source)}", _NOTED),
        ("all publications cost what one does", OTHER, "card_at(setting).repeated(times)",
         "card_at(setting)", _AGAIN),
        ("each publication may take all", OTHER, "lambda at: card_at(at).repeated(times)",
         "lambda at: card_at(at)", _AGAIN),
        ("a noted loss is read without its times", OTHER, "tuple(Pure(*part) for part in plain",
         "tuple(Pure(part[0], 1, part[2]) for part in plain", _NOTED),
        ("a noted loss is read as Laplace numbers", UNIT, "tuple(Pure(*part) for part in plain",
         "tuple(Pure(*part[:2], laplace=True) for part in plain", _NOTED),
        ("a noted loss is read without its Gaussian part", OTHER,
         'Loss(plain["epsilon"], plain["mu"], pure)', 'Loss(plain["epsilon"], 0.0, pure)', _NOTED),
        ("a run in the store and in the file of another seed is one", OTHER,
         "mechanism, public, key=unit.key)", 'mechanism, public, key="same")',
         named("ledger", "test_a_fit_is_noted_once_with_what_it_is_compared_with")),
    ),
    *_family(
        "selection", "privacy/selection.py",
        ("one epsilon less", OTHER, "(2 + self.runs.eta) * worst", "(1 + self.runs.eta) * worst",
         named("selection", "test_the_pure_price_holds_and_is_reached")),
        ("the cheapest candidate's epsilon", OTHER, "worst = max(", "worst = min(", _DEAREST),
        ("the cheapest candidate's divergence", OTHER, "one = np.max([", "one = np.min([",
         _DEAREST),
        ("the choice's divergence counts eta times", OTHER, "(1 + eta) * inner.min()",
         "eta * inner.min()",
         named("selection", "test_every_divergence_of_the_output_stays_below_its_bound")),
        ("how many runs are expected costs nothing", OTHER,
         " + math.log(self.runs.mean) / (_ORDERS - 1)", "", _TEN),
        ("delta is worth more than it is", OTHER,
         "(math.log(delta) + np.log(orders)) / (orders - 1)",
         "(math.log(delta) + 2 * np.log(orders)) / (orders - 1)", _TEN),
        ("the order of the pure divergence", OTHER, "pure = np.logaddexp(*terms) / (orders - 1)",
         "pure = np.logaddexp(*terms) / orders",
         named("selection", "test_divergences_are_those_of_the_worst_mechanisms")),
        ("the same number of runs every time", REUSED, "rng.random()",
         "np.random.default_rng(0).random()",
         named("selection", "test_runs_are_drawn_by_their_chances")),
    ),
]
# fmt: on

MUTANTS = [
    *ONE_BIT, *COLLECTION, *FACTORIZATION, *DPIMF, *FRANK_WOLFE, *PER_USER, *PRIVATE_EFFECTS,
    *USER_RANKING, *LOCAL_RANKING, *CLEANSING, *DPALS, *PROTOCOL, *FEDERATED, *SECURE, *KERNEL,
    *ROOM, *READING, *COMMAND_LINE, *VERIFY, *RELEASE, *CATALOGUE, *CORE, *PHONE, *SERVER,
    *CLASSROOM,
]  # fmt: skip
