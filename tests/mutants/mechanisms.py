"""Faults of the mechanisms."""

from __future__ import annotations

from tests.mutants.base import (
    ALIAS,
    CLIP,
    OTHER,
    QUIETER,
    REUSED,
    SCALE,
    SEEDED,
    SKIPPED,
    UNIT,
    family_of,
    floor,
    fresh,
    moves,
    named,
    other_seed,
    records,
    spends,
)

_CLAIMED = "test_claimed_is_certified_per_rating_and_nothing_per_user"
_CLAMPED = "test_gradients_are_clamped_before_the_noise"
_DIAMETER = "test_output_certificate_is_the_diameter_of_what_it_publishes"
_OUTSIDE = "test_output_publishes_nothing_outside_its_diameter"

_TRACES = "test_what_a_trace_of_signs_does_not_mark_as_raw_follows_from_the_answers"

ONE_BIT = family_of(
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
        f"noisy = releases.each({QUIETER}).signs.publish(positive(ratings), rng)\n            ",
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
        f"{ALIAS}RATING,",
        f"{ALIAS}ROW_VALUES as RATING,",
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
        f"np.clip(gradient, -self.clamp, self.clamp), {SEEDED})",
        fresh("gradient"),
    ),
    (
        "output: the same noise in every run",
        REUSED,
        "matrix.publish(clipped, rng)",
        f"matrix.publish(clipped, {SEEDED})",
        fresh("output"),
    ),
    (
        "flips: the same in every run",
        REUSED,
        "publish(positive(ratings), rng).astype(float)",
        f"publish(positive(ratings), {SEEDED}).astype(float)",
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
) + family_of(
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

COLLECTION = family_of(
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
) + family_of(
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
        f"{ALIAS}CELL,",
        f"{ALIAS}USER_EMPTIED as CELL,",
        named("local", _PER_CELL),
    ),
    (
        "local mean: the same reports in every run",
        REUSED,
        "reported, law = channel.publish(self.rows(ratings, channel), rng)",
        f"reported, law = channel.publish(self.rows(ratings, channel), {SEEDED})",
        other_seed("local-mean"),
    ),
)

_FACTORS = "test_certified_with_public_factors_and_infinite_as_published"
_CLICK = "test_a_click_that_comes_or_goes_moves_the_linear_term_within_the_card"

FACTORIZATION = family_of(
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
        f"releases = self.guarantee(public).releases.each({QUIETER})\n",
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
        f"{ALIAS}CELL,",
        f"{ALIAS}USER_EMPTIED as CELL,",
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
        f"-2 * (sides.by_item @ users), {SEEDED}\n",
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
        f"publish(-2 * moments, {SEEDED})",
        fresh("dpmf"),
    ),
    (
        "private-mean: the same noise in every run",
        REUSED,
        "total.publish(total, rng)",
        f"total.publish(total, {SEEDED})",
        fresh("private-mean"),
    ),
) + family_of(
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

DPIMF = family_of(
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
        f"releases = self.guarantee(ratings.public).releases.each({QUIETER})\n",
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
        f"{ALIAS}CELL,",
        f"{ALIAS}USER_EMPTIED as CELL,",
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
        f"return self.solve(columns, fixed, releases, {SEEDED})",
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
) + family_of(
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
        f"noise.coins(each, {SEEDED})",
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

FRANK_WOLFE = family_of(
    "frank_wolfe",
    "mechanisms/frank_wolfe.py",
    (
        "Gram matrix: scale",
        SCALE,
        "row_norm(public) ** 2 if method.paper else moves",
        "row_norm(public) ** 2 if method.paper else 0.97 * moves",
        spends(_FW),
    ),
    (
        "Oja: scale",
        SCALE,
        "moves, self.rounds * self.updates, counted",
        "moves, self.rounds * self.updates, 0.97 * counted",
        spends(f"{_FW}-oja"),
    ),
    (
        "Oja: the paper's scale",
        SCALE,
        "counted = self.row_norm(public) ** 2",
        "counted = 0.97 * self.row_norm(public) ** 2",
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
        "return user_gaussian(query, shape, part, moves, replaced, times, counted)",
        "from dpmc_core.privacy import CELL\n"
        "    found = user_gaussian(query, shape, part, moves, replaced, times, counted)\n"
        '    return __import__("dataclasses").replace(found, sensitivity={CELL: moves})',
        spends(_FW),
    ),
    (
        "a replaced row counts as an emptied one",
        UNIT,
        "* 2, math.sqrt(2) * moves",
        "* 2, moves",
        moves(f"{_FW}-8-REPLACED", "private-svd-2-REPLACED"),
    ),
    (
        "residual rows are not clipped",
        CLIP,
        "kept, clipped = clip_rows(cells, residual, residual_norm)",
        "kept, clipped = residual, clip_rows(cells, residual, residual_norm)[1]",
        moves(f"{_FW}-0-EMPTIED", f"{_FW}-oja-1-EMPTIED"),
    ),
    (
        "residual rows are clipped 3 % too wide",
        CLIP,
        "clip_rows(cells, residual, residual_norm)",
        "clip_rows(cells, residual, 1.03 * residual_norm)",
        moves(f"{_FW}-0-EMPTIED", f"{_FW}-12-EMPTIED"),
    ),
    (
        "iterates of projected gradient are not clipped",
        CLIP,
        "clip_dense_rows(rows, row_norm)",
        "clip_dense_rows(rows, 1e9)",
        named("user_level", "test_planted_unclipped_iterate_of_projected_gradient_is_caught"),
    ),
    (
        "Gram matrix: the same noise in every round",
        REUSED,
        "= release.publish(gram, rng)",
        f"= release.publish(gram, {SEEDED})",
        fresh(_FW),
    ),
    (
        "Oja: the same noise in every update",
        REUSED,
        "releases.products.publish(rows.T @ (rows @ v), rng)",
        f"releases.products.publish(rows.T @ (rows @ v), {SEEDED})",
        fresh(f"{_FW}-oja"),
    ),
)

_ITEMS = "private-item-mean"

PER_USER = (
    family_of(
        "per_user",
        "mechanisms/per_user.py",
        (
            "scale",
            SCALE,
            "scale=(counted or emptied) / part.mu,",
            "scale=0.97 * (counted or emptied) / part.mu,",
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
            f"publish(bounded_gain(gains), {SEEDED})",
            fresh(_ITEMS),
        ),
        (
            "counts: the same noise in every run",
            REUSED,
            "publish(item_sums(cells, each), rng)",
            f"publish(item_sums(cells, each), {SEEDED})",
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
    + family_of(
        "per_user",
        "solvers/effects.py",
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
    + family_of(
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

PRIVATE_EFFECTS = family_of(
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
        "releases.rounds.residuals.publish(sums, rng)",
        "sums",
        records("private-effects"),
    ),
    (
        "less than the card's scale",
        SCALE,
        "releases = self.guarantee(public).releases\n",
        f"releases = self.guarantee(public).releases.each({QUIETER})\n",
        records("private-effects"),
    ),
    (
        "moments without noise",
        SKIPPED,
        "releases.rounds.moments.publish(moments, rng)",
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
        "residuals.publish(sums, rng)",
        f"residuals.publish(sums, {SEEDED})",
        fresh("private-effects"),
    ),
    (
        "rounds are not counted",
        OTHER,
        "math.sqrt(3), 2.0, self.rounds),",
        "math.sqrt(3), 2.0, 1),",
        records("private-effects"),
    ),
) + family_of(
    "private_effects",
    "solvers/effects.py",
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

USER_RANKING = family_of(
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
        f"counts.publish(counts, {SEEDED})",
        fresh("private-popularity"),
    ),
    (
        "taste: the same noise in every ask",
        REUSED,
        "releases.rounds.publish(asked, rng)",
        f"releases.rounds.publish(asked, {SEEDED})",
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

LOCAL_RANKING = family_of(
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
        f"{ALIAS}CELL,",
        f"{ALIAS}USER_EMPTIED as CELL,",
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
        f"releases.bits.publish(bits, {SEEDED})",
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

CLEANSING = family_of(
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
        "releases = self.guarantee(public).releases\n",
        f"releases = self.guarantee(public).releases.each({QUIETER})\n",
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
        "noisy = releases.products.publish(products, rng)",
        "noisy = products",
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
        "residuals = np.clip(rows.values, -bound, bound)",
        "residuals = rows.values",
        moves(f"{_CLEANSED}-4-EMPTIED"),
    ),
    (
        "residuals are clamped 3 % too wide",
        CLIP,
        "residuals = np.clip(rows.values, -bound, bound)",
        "residuals = np.clip(rows.values, -1.03 * bound, 1.03 * bound)",
        moves(f"{_CLEANSED}-4-EMPTIED"),
    ),
    (
        "no cap on ratings",
        CLIP,
        "Rows.less(capped(ratings, cap, rng), ",
        "Rows.less(capped(ratings, 10**6, rng), ",
        moves(f"{_CLEANSED}-4-EMPTIED"),
    ),
    (
        "published: no cap on ratings",
        CLIP,
        "kept = capped(ratings, cap, rng)",
        "kept = capped(ratings, 10**6, rng)",
        moves(f"{_CLEANSED}-16-EMPTIED"),
    ),
    (
        "products: the same noise in every run",
        REUSED,
        "releases.products.publish(products, rng)",
        f"releases.products.publish(products, {SEEDED})",
        fresh(_CLEANSED),
    ),
    (
        "published: the same noise in every answer",
        REUSED,
        "asked[name].publish(value, rng)",
        "asked[name].publish(value, np.random.default_rng(0))",
        fresh(f"{_CLEANSED}-estimator"),
    ),
) + family_of(
    "cleansing",
    "mechanisms/cleansing.py",
    (
        "published: residuals are not clamped",
        CLIP,
        "residuals = np.clip(raw - offsets[cells.users], -bound, bound)",
        "residuals = raw - offsets[cells.users]",
        moves(f"{_CLEANSED}-16-EMPTIED"),
    ),
)

DPALS = family_of(
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
        "kept, cut = clip_dense_rows(left, c)",
        "kept, cut = left, clip_dense_rows(left, c)[1]",
        named("user_level", "test_planted_missing_clip_is_caught"),
    ),
    (
        "user factors are clipped 3 % too wide",
        CLIP,
        "clip_dense_rows(left, c)",
        "clip_dense_rows(left, 1.03 * c)",
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
        f"release.squares.publish(squares, {SEEDED})",
        fresh("dpals"),
    ),
)
