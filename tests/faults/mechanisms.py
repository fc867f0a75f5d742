"""Faults of the mechanisms."""

from __future__ import annotations

import math

from tests.faults.base import (
    ALIAS,
    CLIP,
    OTHER,
    QUIETER,
    REUSED,
    SCALE,
    SEEDED,
    SKIPPED,
    UNIT,
    baseline,
    bounds,
    family_of,
    fresh,
    named,
    other_seed,
    records,
    spends,
)

_CLAIMED = "test_claimed_is_certified_per_rating_and_nothing_per_user"
_CLAMPED = "test_gradients_are_clamped_before_the_noise"
_DIAMETER = "test_output_certificate_is_the_diameter_of_what_it_publishes"
_OUTPUT_DIAMETER = "test_output_publishes_nothing_outside_its_diameter"

_OTHERS = "test_others_see_nothing_of_a_row_but_the_published_answers"
_TRACES = "test_what_a_trace_of_signs_does_not_mark_as_raw_follows_from_the_answers"

# fmt: off
ONE_BIT = family_of(
    "one_bit", "mechanisms/one_bit.py",
    ("objective: scale", SCALE, "scale=1 / epsilon,", "scale=0.97 / epsilon,",
     named("one_bit", f"{_CLAIMED}[objective-0.8-settings0]")),
    ("signs at less than the card's scale", SCALE,
     "noisy_signs = self.signs.publish(positive_labels(ratings), rng)\n",
     'noisy_signs = self.map_releases(lambda r: __import__("dataclasses").replace(r, '
     "scale=0.97 * r.scale)).signs.publish(positive_labels(ratings), rng)\n",
     records("objective")),
    ("objective-statistic: scale", SCALE, "scale=1 / epsilon,", "scale=0.97 / epsilon,",
     named("one_bit", f"{_CLAIMED}[objective-statistic-0.8-settings0]")),
    ("gradient: scale", SCALE, "scale=self.n_rounds * sensitivity / self.epsilon,",
     "scale=0.97 * self.n_rounds * sensitivity / self.epsilon,",
     named("one_bit", f"{_CLAIMED}[gradient-0.8-settings0]")),
    ("gradient: rounds beyond the first are not paid where none are set", SCALE,
     "scale=self.n_rounds * sensitivity / self.epsilon,",
     "scale=(self.rounds or 1) * sensitivity / self.epsilon,",
     named("one_bit", f"{_CLAIMED}[gradient-20.0-settings2]")),
    ("output: scale", SCALE, "scale=2 * self.bound / self.epsilon,",
     "scale=1.94 * self.bound / self.epsilon,", named("one_bit", _DIAMETER)),
    ("input-flip: flips too rare", SCALE,
     "p = flip_probability(self.epsilon)\n"
     "            return p",
     "p = 0.97 * flip_probability(self.epsilon)\n"
     "            return p", named("one_bit", f"{_CLAIMED}[input-flip-0.8-settings0]")),
    ("private-majority: flips too rare", SCALE,
     "p = flip_probability(self.epsilon)\n"
     "        return self.pure_guarantee(",
     "p = 0.97 * flip_probability(self.epsilon)\n"
     "        return self.pure_guarantee(", baseline("input-flip")),
    ("flips left out", SKIPPED, "self.signs.publish(positive_labels(ratings), rng).astype(float)",
     "positive_labels(ratings)", records("input-flip", "private-majority")),
    ("output: published without noise", SKIPPED, "Dense(releases.matrix.publish(clipped, rng))",
     "Dense(clipped)", records("output")),
    ("gradient: one round without noise", SKIPPED,
     "noisy_gradient = releases.gradient.publish(\n"
     "                np.clip(gradient, -self.clamp, self.clamp), rng\n"
     "            )",
     "noisy_gradient = np.clip(gradient, -self.clamp, self.clamp)\n"
     "            if index != 2:\n"
     "                noisy_gradient = releases.gradient.publish(noisy_gradient, rng)",
     records("gradient-rounds-estimator")),
    ("gradient at zero: without noise", SKIPPED,
     "noisy_gradient = releases.gradient.publish(\n"
     "                sensitivity * (0.5 - positive_labels(ratings)), rng\n"
     "            )", "noisy_gradient = sensitivity * (0.5 - positive_labels(ratings))",
     records("gradient")),
    ("gradient at zero: the same noise in every run", REUSED,
     "(\n"
     "                sensitivity * (0.5 - positive_labels(ratings)), rng\n"
     "            )", "(sensitivity * (0.5 - positive_labels(ratings)), np.random.default_rng(0))",
     other_seed("gradient")),
    ("gradient at zero: twice as far apart as its record says", CLIP,
     "sensitivity = releases.gradient.sensitivity[RATING]",
     "sensitivity = 2 * releases.gradient.sensitivity[RATING]", named("one_bit", _CLAMPED)),
    ("gradient at zero: raw signs go on after their release", OTHER,
     "SignReports.from_laplace(\n"
     "                0.5 - noisy_gradient / sensitivity,",
     "SignReports.from_laplace(positive_labels(ratings),",
     named("releases_only", "test_no_value_reaches_the_model_past_its_releases[gradient]")),
    ("a rating's epsilon for a user's", UNIT, f"{ALIAS}RATING,", f"{ALIAS}ROW_VALUES as RATING,",
     named("one_bit", f"{_CLAIMED}[objective-0.8-settings0]")),
    ("gradient: not clamped", CLIP, "np.clip(gradient, -self.clamp, self.clamp)", "gradient",
     named("one_bit", _CLAMPED)),
    ("gradient: clamped 3 % too wide", CLIP, "np.clip(gradient, -self.clamp, self.clamp)",
     "np.clip(gradient, -1.03 * self.clamp, 1.03 * self.clamp)", named("one_bit", _CLAMPED)),
    ("output: not clipped", CLIP, "clipped = np.clip(matrix, -self.bound, self.bound)",
     "clipped = matrix.copy()", named("one_bit", _OUTPUT_DIAMETER)),
    ("output: clipped 3 % too wide", CLIP, "np.clip(matrix, -self.bound, self.bound)",
     "np.clip(matrix, -1.03 * self.bound, 1.03 * self.bound)", named("one_bit", _OUTPUT_DIAMETER)),
    ("output: sum not bounded", CLIP, "clipped *= max_l1_norm / l1_norm", "clipped *= 1.0",
     named("one_bit", _OUTPUT_DIAMETER)),
    ("gradient: the same noise in every round", REUSED,
     "np.clip(gradient, -self.clamp, self.clamp), rng\n"
     "            )", f"np.clip(gradient, -self.clamp, self.clamp), {SEEDED})",
     fresh("gradient-rounds-estimator")),
    ("output: the same noise in every run", REUSED, "matrix.publish(clipped, rng)",
     f"matrix.publish(clipped, {SEEDED})", fresh("output")),
    ("flips: the same in every run", REUSED,
     "publish(positive_labels(ratings), rng).astype(float)",
     "publish(positive_labels(ratings), np.random.default_rng(0)).astype(float)",
     other_seed("input-flip", "private-majority")),
    ("a raw sign goes on after its release", OTHER,
     "SignReports.from_laplace(noisy_signs, 1 / self.signs.scale)",
     "SignReports.from_laplace(positive_labels(ratings), 1 / self.signs.scale)",

     named("releases_only", "test_no_value_reaches_the_model_past_its_releases[objective]")),
    ("gradient: the objective's trace is not marked raw", OTHER,
     'published_names=("step length",)', 'published_names=("step length", "objective")',
     named("coins", _TRACES)),
) + family_of(
    "one_bit", "solvers/one_bit.py",
    ("output: the solver's trace is not marked raw", OTHER,
     "published_trace, model = () if raw else trace, iterate.point.build_model()",
     "published_trace, model = trace, iterate.point.build_model()", named("coins", _TRACES)),
)

_ENCODED = "test_a_rating_is_encoded_by_the_public_range_alone"
_PER_CELL = "test_certified_is_claimed_per_cell_and_n_times_that_per_user"

COLLECTION = family_of(
    "collection", "privacy/channels.py",
    ("modified Laplace: scale", SCALE, "scale=2 / epsilon, **release)",
     "scale=1.94 / epsilon, **release)", named("local", _PER_CELL)),
    ("modified Laplace: flips too rare", SCALE, "flip=flip_probability(epsilon / 2), ",
     "flip=0.97 * flip_probability(epsilon / 2), ", named("local", _PER_CELL)),
    ("randomised response: other symbols too rare", SCALE,
     "other_probability = flip_probability(epsilon, d)",
     "other_probability = 0.97 * flip_probability(epsilon, d)", named("local", _PER_CELL)),
    ("noise of rated cells is short", SCALE,
     "rng.laplace(0.0, self.scale, len(reported))",
     "rng.laplace(0.0, 0.97 * self.scale, len(reported))",
     named("local", "test_the_scale_of_reports_is_exact")),
    ("noise of missing cells is short", SCALE,
     "rng.laplace(0.0, self.scale, len(cells))",
     "rng.laplace(0.0, 0.97 * self.scale, len(cells))",
     named("local", "test_the_scale_of_reports_is_exact")),
    ("missing cells speak too rarely", SCALE,
     "noise.draw_hits(rated_cells, total, self.flip, rng)",
     "noise.draw_hits(rated_cells, total, 0.97 * self.flip, rng)",
     named("local", "test_modified_laplace_meets_its_law_for_every_input")),
    ("values outside the range pass", CLIP, "return ~(np.abs(values) <= 1), ",
     "return np.abs(values) < 0, ",
     named("local", "test_values_outside_the_scale_are_refused")),
    ("symbols outside the alphabet pass", CLIP,
     "return ~np.isin(values, np.arange(1, d + 1)), ",
     "return values < 0, ", named("local", "test_symbols_that_are_none_are_refused")),

    ("one draw for all rated cells", REUSED,
     "rng.laplace(0.0, self.scale, len(reported))", "rng.laplace(0.0, self.scale, 1)",
     named("local", "test_modified_laplace_meets_its_law_for_every_input")),
    ("missing cells never speak", SKIPPED,
     "cells = noise.draw_hits(rated_cells, total,"
     " self.flip, rng)", "cells = rated_cells[:0]",
     named("local", "test_modified_laplace_meets_its_law_for_every_input")),
    ("a missing cell costs nothing", UNIT, "max(2 / self.scale, odds + 1 / self.scale)",
     "2 / self.scale", named("local", "test_a_channel_with_too_little_noise_is_certified_as_such")),
) + family_of(
    "collection", "mechanisms/collection.py",
    ("rows reported as they are", SKIPPED,
     "channel.publish(self.encode_rows(ratings, channel), rng),\n"
     "                self.build_noise_model(channel),\n"
     "                public",
     "self.encode_rows(ratings, channel), self.build_noise_model(channel), public",
     records("modified-laplace", "randomised-response")),
    ("rows reported as they are (published estimator)", SKIPPED,
     "channel.publish(self.encode_rows(ratings, channel), rng), channel, public",
     "self.encode_rows(ratings, channel), channel, public",
     records("modified-laplace-estimator", "randomised-response-estimator")),
    ("a cell's epsilon for a user's", UNIT, f"{ALIAS}CELL,", f"{ALIAS}USER_EMPTIED as CELL,",
     named("local", _PER_CELL)),
    ("levels lie between the smallest and the largest rating seen", UNIT,
     "(ratings.values - ratings.public.low) / ratings.public.width",
     "(ratings.values - ratings.values.min()) / np.ptp(ratings.values)",
     named("local", f"{_ENCODED}[randomised-response]", f"{_ENCODED}[local-mean]")),
    ("ratings are scaled by the smallest and the largest seen", UNIT,
     "scale_to_unit_range(ratings.values, ratings.public)",
     "2 * (ratings.values - ratings.values.min()) / np.ptp(ratings.values) - 1",
     named("local", f"{_ENCODED}[modified-laplace]")),
    ("local mean: the same reports in every run", REUSED,
     "noisy_rows = channel.publish(self.encode_rows(ratings, channel), rng)",
     "noisy_rows = channel.publish(self.encode_rows(ratings, channel), np.random.default_rng(0))",
     other_seed("local-mean")),
)

_FACTORS = "test_certified_with_public_factors_and_infinite_as_published"
_CLICK = "test_a_click_that_comes_or_goes_moves_the_linear_term_within_the_card"

FACTORIZATION = family_of(
    "factorization", "mechanisms/factorization.py",
    ("dpmf: scale", SCALE, "scale=change_norm / self.epsilon * norm_ratio",
     "scale=0.97 * change_norm / self.epsilon * norm_ratio",
     (*named("dpmf", _FACTORS), *named("dpmf_clicks", _CLICK))),
    ("dpmf: the penalty follows the scale of the noise", SCALE, "releases.linear_term.std",
     "releases.linear_term.scale", named("dpmf",
     "test_the_penalty_grows_by_the_deviation_of_half_the_noise")),
    ("private-mean: scale", SCALE, "scale=public.width / self.epsilon,",
     "scale=0.97 * public.width / self.epsilon,", baseline("dpmf")),
    ("dpmf: no noise", SKIPPED, "releases.linear_term.publish(-2 * moments, rng)", "-2 * moments",
     records("dpmf")),
    ("dpmf: less than the card's scale", SCALE, "releases = self.guarantee(public).releases\n",
     "releases = self.guarantee(public).releases.map_releases(lambda r: "
     '__import__("dataclasses").replace(r, scale=0.97 * r.scale))\n', records("dpmf")),
    ("private-mean: no noise", SKIPPED,
     "float(self.guarantee(public).releases.total.publish(total, rng))", "total",
     records("private-mean")),
    ("a rating's epsilon for a user's", UNIT, "    RATING,\n    Guarantee,",
     "    USER_EMPTIED as RATING,\n    Guarantee,", named("dpmf", _FACTORS)),
    ("a click's epsilon for a user's", UNIT, f"{ALIAS}CELL,", f"{ALIAS}USER_EMPTIED as CELL,",
     named("dpmf_clicks", _CLICK)),
    ("a click moves its range, not 1", SCALE,
     '"""Return 1: a cell is 0 or 1."""\n        return 1.0',
     '"""Return 1: a cell is 0 or 1."""\n        return public.width',
     named("dpmf_clicks", "test_the_scale_does_not_follow_a_range_that_clicks_came_with")),
    ("clicks: no noise", SKIPPED, "releases.linear_term.publish(-2 * moments, rng)",
     "-2 * moments", records("dpmf-clicks")),
    ("clicks: the same noise in every run", REUSED, "publish(-2 * moments, rng)",
     f"publish(-2 * moments, {SEEDED})", fresh("dpmf-clicks")),
    ("clicks: an item that nobody chose tells it", OTHER,
     "if self.change is RATING:  # which ratings exist is public here", "if self.change:",
     named("dpmf_clicks", "test_an_item_that_nobody_chose_gets_noise_as_the_others_do")),
    ("user factors fitted to the ratings are no access", OTHER, "unaccounted=unaccounted_factors)",
     "unaccounted=())", (*named("dpmf", _FACTORS), *named("dpmf_clicks",
     "test_the_card_says_what_is_and_what_is_not_proved"))),
    ("no bound without the ball", CLIP,
     "is_bounded = self.unit_ball or self.user_factors is not None", "is_bounded = True",
     named("dpmf", _FACTORS)),
    ("dpmf: the same noise in every run", REUSED, "publish(-2 * moments, rng)",
     f"publish(-2 * moments, {SEEDED})", fresh("dpmf")),
    ("private-mean: the same noise in every run", REUSED, "total.publish(total, rng)",
     f"total.publish(total, {SEEDED})", fresh("private-mean")),
) + family_of(
    "factorization", "solvers/factorization.py",
    ("public factors are not cut to the ball", CLIP,
     "return clip_dense_rows(factors.astype(float), 1.0)[0]", "return factors.astype(float)",
     named("dpmf", "test_public_factors_are_cut_to_the_unit_ball")),
)

_ONE_SOLVE = "test_certified_per_cell_for_one_solve_with_a_public_clip_only"
_ONE_CELL = "test_one_cell_moves_no_release_further_than_stated_and_reaches_it"

_WEIGHED = "test_the_mechanism_weighs_each_cell_by_twice_its_factor"

DPIMF = family_of(
    "dpimf", "mechanisms/dpimf.py",
    ("optimal: scale", SCALE, "scales = [first / epsilon]", "scales = [0.97 * first / epsilon]",
     named("dpimf", _ONE_SOLVE)),
    ("strawman: scale", SCALE, "scales = 3 * [(first + second + ridge) / epsilon]",
     "scales = 3 * [0.97 * (first + second + ridge) / epsilon]", named("dpimf", _ONE_SOLVE)),
    ("complementary: scale of the ridge", SCALE, "ridge / (self.beta3 * epsilon)",
     "0.97 * ridge / (self.beta3 * epsilon)", named("dpimf", _ONE_SOLVE)),
    ("ridge without noise", SKIPPED,
     "self.regularisation * releases.ridge.publish(weighted_counts, rng)",
     "self.regularisation * weighted_counts", records("dpimf-strawman")),
    ("all rounds at less than the card's scale", SCALE,
     "releases = self.guarantee(ratings.public).releases\n",
     f"releases = self.guarantee(ratings.public).releases.map_releases({QUIETER})\n",
     records("dpimf-optimal")),
    ("second moments without noise", SKIPPED, "moments = releases.second.publish(moments, rng)",
     "pass", records("dpimf-complementary")),
    ("a cell's epsilon for a user's", UNIT, f"{ALIAS}CELL,", f"{ALIAS}USER_EMPTIED as CELL,",
     named("dpimf", _ONE_SOLVE)),
    ("fixed factors are not clipped", CLIP, "clipped_factors = self.clip_factors(factors)",
     "clipped_factors = factors", named("dpimf", f"{_ONE_CELL}[optimal]")),
    ("fixed factors are clipped 3 % too wide", CLIP,
     "clipped_factors = self.clip_factors(factors)",
     "clipped_factors = 1.03 * self.clip_factors(factors)",
     named("dpimf", f"{_ONE_CELL}[optimal]")),
    ("a clip read off the data certifies", CLIP,
     "{CELL: sensitivity} if self.clip is not None else {}", "{CELL: sensitivity}",

     named("dpimf", _ONE_SOLVE)),
    ("the same noise in every round", REUSED,
     "releases.first.publish(first_order, rng)",
     f"releases.first.publish(first_order, {SEEDED})", fresh("dpimf-optimal")),
    ("mirrored noise counted as its own triangle", OTHER,
     "(d * (d + 1) // 2,), complement * norms.upper",
     "(d * (d + 1) // 2,), complement * norms.upper / 2",
     named("dpimf", f"{_ONE_CELL}[symmetric]")),
    ("sampled: the longest cell without its factor 2", OTHER, "longest=2.0 * norms.l1,",
     "longest=norms.l1,", named("coins", _WEIGHED)),
) + family_of(
    "dpimf", "privacy/sampled.py",
    ("sampled: losses without their factor 2", OTHER,
     "return importance_weights(lengths / self.scale, self.budget)",
     "return importance_weights(0.5 * lengths / self.scale, self.budget)",
     named("coins", _WEIGHED)),
    ("sampled: the same coins in every run", REUSED, "noise.flip_coins(entry_weights, rng)",
     "noise.flip_coins(entry_weights, np.random.default_rng(0))",
     named("dpimf", "test_sampled_sums_are_unbiased")),
    ("sampled: every cell counts its weight", SKIPPED,
     "np.where(noise.flip_coins(entry_weights, rng), entry_weights, 0.0)",
     "np.where(np.isfinite(entry_weights), entry_weights, 0.0)",
     named("dpimf", "test_sampled_sums_are_unbiased")),
)

_FW = "private-frank-wolfe"

FRANK_WOLFE = family_of(
    "frank_wolfe", "mechanisms/frank_wolfe.py",
    ("Gram matrix: scale", SCALE,
     "row_norm(public) ** 2 if method.uses_paper_constant else None",
     "row_norm(public) ** 2 if method.uses_paper_constant else 0.97 * sensitivity",
     spends(_FW)),
    ("Oja: scale", SCALE,
     "sensitivity,\n"
     "                self.rounds * self.updates,\n"
     "                calibrated_sensitivity",
     "sensitivity, self.rounds * self.updates, 0.97 * calibrated_sensitivity",
     spends(f"{_FW}-oja")),
    ("Oja: the paper's scale", SCALE, "calibrated_sensitivity = self.row_norm(public) ** 2",
     "calibrated_sensitivity = 0.97 * self.row_norm(public) ** 2",
     named("user_level", "test_ojas_noise_leaves_out_the_rounds")),
    ("Gram matrix without noise", SKIPPED,
     "return release.publish_products(exact_products, rng, mirrored=not symmetric), n, edge",
     "return exact_products, n, edge", records(_FW, "private-svd", "private-pgd")),
    ("Oja: squared norm without noise", SKIPPED,
     "releases.squared_norms.publish(projection @ projection, rng)",
     "projection @ projection", records(f"{_FW}-oja")),

    ("SVD: number of ratings without noise", SKIPPED,
     "float(releases.ratings.publish(n_ratings, rng))", "float(n_ratings)", records("private-svd")),
    ("a cell's epsilon for a user's", UNIT,
     "return build_gaussian_release(\n"
     "        query,\n"
     "        (n, n),\n"
     "        budget,\n"
     "        sensitivity,\n"
     "        math.sqrt(2) * sensitivity,\n"
     "        n_publications,\n"
     "        paper_sensitivity,\n"
     "    )",
     "from dpmc_core.privacy import CELL\n"
     "    found = build_gaussian_release(query, (n, n), budget, sensitivity, "
     "math.sqrt(2) * sensitivity, n_publications, paper_sensitivity)\n"
     '    return __import__("dataclasses").replace(found, sensitivity={CELL: sensitivity})',
     spends(_FW)),
    ("a replaced row counts as an emptied one", UNIT,
     "math.sqrt(2) * sensitivity,\n        n_publications", "sensitivity,\n        n_publications",
     bounds(f"{_FW}-8-REPLACED", "private-svd-2-REPLACED")),
    ("residual rows are not clipped", CLIP,
     "clip_scales = shrinkage(residual_norms, max_residual_norm)", "clip_scales = np.ones(m)",
     bounds(f"{_FW}-0-EMPTIED", f"{_FW}-oja-1-EMPTIED")),
    ("residual rows are clipped 3 % too wide", CLIP,
     "shrinkage(residual_norms, max_residual_norm)",
     "shrinkage(residual_norms, 1.03 * max_residual_norm)",
     bounds(f"{_FW}-0-EMPTIED", f"{_FW}-15-EMPTIED")),
    ("iterates of projected gradient are not clipped", CLIP,
     "shrinkage(np.sqrt(np.maximum(squares, 0.0)), max_row_norm)",
     "shrinkage(np.sqrt(np.maximum(squares, 0.0)), 1e9)",
     named("user_level", "test_planted_unclipped_iterate_of_projected_gradient_is_caught")),
    ("rows of iterates are taken for shorter than they are", CLIP,
     "(2 * fitted + gradient_step) * gradient_step", "gradient_step * gradient_step",
     named("user_level_solvers",
     "test_rows_of_the_stepped_matrix_are_clipped_to_their_norm_as_a_dense_matrix_is")),
    ("Gram matrix: the same noise in every round", REUSED,
     "release.publish_products(exact_products, rng, mirrored",
     "release.publish_products(exact_products, np.random.default_rng(0), mirrored", fresh(_FW)),
    ("Oja: the same noise in every update", REUSED,
     "releases.products.publish(exact_products(v[:, None])[:, 0], rng)",
     "releases.products.publish(exact_products(v[:, None])[:, 0], np.random.default_rng(0))",
     fresh(f"{_FW}-oja")),
)

_ITEMS = "private-item-mean"
_ON_CARD = "test_where_facts_are_used_what_is_published_is_on_the_card"

PER_USER = (
    family_of(
        "per_user", "mechanisms/per_user.py",
        ("scale", SCALE, "scale=(calibrated_sensitivity or emptied_sensitivity) / budget.mu,",
         "scale=0.97 * (calibrated_sensitivity or emptied_sensitivity) / budget.mu,",
         spends(_ITEMS)),
        ("users' means without noise", SKIPPED,
         "release.publish(ratings.sum_over_users(sum_user_means), rng)",
         "ratings.sum_over_users(sum_user_means)", records(_ITEMS)),
        ("item sums without noise", SKIPPED, "releases.sums.publish(sums, rng)", "sums",
         records(_ITEMS)),
        ("what users differ by without noise", SKIPPED, "releases.own.publish(variation, rng)",
         "variation", records(_ITEMS)),
        ("a replaced row counts as an emptied one", UNIT,
         "USER_REPLACED: replaced_sensitivity or 2 * emptied_sensitivity,",
         "USER_REPLACED: emptied_sensitivity,", bounds(f"{_ITEMS}-6-REPLACED", "dpals-5-REPLACED")),
        ("a cell's epsilon for a user's", UNIT,
         "    USER_EMPTIED,\n    USER_REPLACED,\n    Budget,",
         "    CELL as USER_EMPTIED,\n    USER_REPLACED,\n    Budget,",
         named("user_level", "test_the_card_is_joint_per_user_for_everyone")),
        ("weighted rows are not clipped", CLIP, "0.0, effects_row_clip(ratings.public)",
         "0.0, 10 * effects_row_clip(ratings.public)", bounds(f"{_ITEMS}-6-EMPTIED")),
        ("weighted rows are clipped 3 % too wide", CLIP, "0.0, effects_row_clip(ratings.public)",
         "0.0, 1.03 * effects_row_clip(ratings.public)", bounds(f"{_ITEMS}-6-EMPTIED")),
        ("a long row counts in full", CLIP,
         "row_factors=1.0 / np.sqrt(np.maximum(entries.counts,"
         " 1))", "row_factors=1.0", bounds(f"{_ITEMS}-6-EMPTIED")),
        ("rows are not clipped", CLIP,
         "clip_rows(rows.entries, rows.values,"
         " self.row_norm(public))", "np.ones(public.users)",
         named("user_level", "test_planted_missing_clip_is_caught")),
        ("rows are clipped 3 % too wide", CLIP,
         "clip_rows(rows.entries, rows.values, self.row_norm(public))",
         "clip_rows(rows.entries, rows.values, 1.03 * self.row_norm(public))",
         named("user_level", "test_the_worst_rows_nearly_use_the_bounds_up")),
        ("gains: the same noise in every run", REUSED, "releases.gain.publish(gains, rng)",
         f"releases.gain.publish(gains, {SEEDED})", fresh(_ITEMS)),
        ("counts: the same noise in every run", REUSED,
         "publish(ratings.sum_over_users(_sum_rating_weights), rng)",
         "publish(ratings.sum_over_users(_sum_rating_weights), np.random.default_rng(0))",
         fresh(_ITEMS)),
        ("any delta will do", OTHER, "if delta >= 1 / public.users:", "if delta >= 1:",
         named("user_level", f"test_a_delta_of_one_over_the_users_is_refused[{_ITEMS}]")),
    )
    + family_of(
        "per_user", "solvers/user_regression.py",
        ("gains are not bounded", CLIP, "(np.minimum(gains, MAX_STATISTIC) / MAX_STATISTIC)",
         "(gains / MAX_STATISTIC)",
         named("private_effects", "test_what_one_user_tells_of_the_own_regression_is_bounded")),
        ("squares are not bounded", CLIP, "np.minimum(squares, MAX_STATISTIC) -", "squares -",
         named("private_effects", "test_what_one_user_tells_of_the_own_regression_is_bounded")),
        ("residual squares are not bounded", CLIP,
         "np.minimum(excess / group.counts, MAX_STATISTIC)", "excess / group.counts",
         named("private_effects", "test_what_one_user_tells_of_the_own_regression_is_bounded")),
    )
    + family_of(
        "per_user", "ratings.py",
        ("one rating more than the cap", CLIP, "hash_cells(ratings, key)) < count",
         "hash_cells(ratings, key)) <= count",

         named("user_level", "test_the_cap_is_drawn_by_each_users_own_randomness")),
    )
)

_CERTIFIED = "test_certified_is_claimed[1.0-private-effects]"

PRIVATE_EFFECTS = family_of(
    "private_effects", "mechanisms/private_effects.py",
    ("rounds spend 3 % more", SCALE, "residuals_budget,\n                clip,",
     "residuals_budget * 1.0609,\n                clip,", named("private_effects", _CERTIFIED)),
    ("residuals without noise", SKIPPED, "releases.rounds.residuals.publish(sums, rng)", "sums",
     records("private-effects")),
    ("less than the card's scale", SCALE, "releases = self.guarantee(public).releases\n",
     f"releases = self.guarantee(public).releases.map_releases({QUIETER})\n",
     records("private-effects")),
    ("moments without noise", SKIPPED, "releases.rounds.moments.publish(moments, rng)", "moments",
     records("private-effects")),
    ("a replaced row counts as an emptied one", UNIT, "2 * clip,\n                self.rounds,",
     "clip,\n                self.rounds,",
     named("private_effects", "test_no_row_moves_a_release_further_than_stated[taste]")),
    ("the same noise in every round", REUSED, "residuals.publish(sums, rng)",
     f"residuals.publish(sums, __import__('numpy').{SEEDED.removeprefix('np.')})",
     fresh("private-effects")),
    ("rounds are not counted", OTHER, "2.0,\n                self.rounds,",
     "2.0,\n                1,", records("private-effects")),
) + family_of(
    "private_effects", "solvers/user_regression.py",
    ("weighted residuals are not clipped", CLIP,
     "weigh_rows(chunk, residuals[:-1], item_effects.weights[chunk.items], norm)",
     "weigh_rows(chunk, residuals[:-1], item_effects.weights[chunk.items], 10 * norm)",
     bounds("private-effects-7-EMPTIED")),
    ("weighted residuals are clipped 3 % too wide", CLIP, "weights[chunk.items], norm)",
     "weights[chunk.items], 1.03 * norm)",
     named("private_effects", "test_no_row_moves_a_release_further_than_stated[taste]")),
    ("taste is not clipped", CLIP, "np.ones(n_entries), norm)", "np.ones(n_entries), 10 * norm)",
     named("private_effects", "test_no_row_moves_a_release_further_than_stated[taste]")),
)

_JUDGED = "test_noise_is_judged_by_its_standard_deviation"
_POPULAR = "test_private_popularity_counts_within_its_sensitivity"
_USER_BOUND = "test_no_user_moves_a_release_further_than_stated"
_ACCOUNTANT = "test_certified_is_claimed_and_what_an_independent_accountant_finds"

USER_RANKING = family_of(
    "user_ranking", "mechanisms/user_ranking.py",
    ("popularity, Laplace: scale", SCALE, "scale = sensitivity / budget.epsilon",
     "scale = 0.97 * sensitivity / budget.epsilon", named("private_taste", _POPULAR)),
    ("popularity, Gaussian: scale", SCALE,
     "scale=sensitivity / budget.mu\n"
     "        )", "scale=0.97 * sensitivity / budget.mu)",
     named("private_taste", f"{_ACCOUNTANT}[private-popularity-1.0]")),
    ("taste: first count spends 3 % more", SCALE, "popularity_budget,\n                1.0,",
     "popularity_budget * 1.0609,\n                1.0,",
     named("private_taste", f"{_ACCOUNTANT}[private-taste-1.0]")),
    ("popularity without noise", SKIPPED,
     "releases.counts.publish(ratings.sum_over_users(self._count_users), rng)",
     "ratings.sum_over_users(self._count_users)", records("private-popularity")),
    ("what facts are worth to rankings without noise", SKIPPED,
     "release.publish(ratings.sum_over_users(sum_feature_gains, posterior_counts), rng)",
     "ratings.sum_over_users(sum_feature_gains, posterior_counts)",
     named("features", f"{_ON_CARD}[private-popularity]")),
    ("taste: moments without noise", SKIPPED,
     "(releases.moments.publish(exact_moments, rng) - moments)", "(exact_moments - moments)",
     records("private-taste")),
    ("a cell's counts for a user's", UNIT,
     "{USER_EMPTIED if self.per is ProtectedUnit.USER else CELL: sensitivity}",
     "{USER_EMPTIED: sensitivity}", named("private_taste", _POPULAR)),
    ("a user's counts for a cell's", UNIT, "change=USER_EMPTIED if per_user else CELL,",
     "change=USER_EMPTIED,", named("private_taste", _POPULAR)),
    ("popularity: long rows count in full", CLIP,
     "values = contribution_weights(ratings, self.contributions, 2 if self.delta else 1)",
     "values = values * 1.0", named("private_taste", _POPULAR)),
    ("popularity: long rows count 3 % too much", CLIP,
     "contribution_weights(ratings, self.contributions, 2 if self.delta else 1)",
     "1.03 * contribution_weights(ratings, self.contributions, 2 if self.delta else 1)",
     named("private_taste", _POPULAR)),
    ("taste: long rows count in full", CLIP,
     "(Pattern.from_ratings(ratings),"
     " contribution_weights(ratings, 1))",
     "(Pattern.from_ratings(ratings), np.ones(len(ratings)))", named("private_taste", _USER_BOUND)),
    ("taste: long rows count 3 % too much", CLIP,
     "(Pattern.from_ratings(ratings), contribution_weights(ratings, 1))",
     "(Pattern.from_ratings(ratings), 1.03 * contribution_weights(ratings, 1))",
     named("private_taste", _USER_BOUND)),
    ("popularity: the same noise in every run", REUSED,
     "ratings.sum_over_users(self._count_users), rng)",
     "ratings.sum_over_users(self._count_users), np.random.default_rng(0))",
     fresh("private-popularity")),
    ("taste: the same noise in every ask", REUSED, "releases.rounds.publish(exact_sums, rng)",
     "releases.rounds.publish(exact_sums, np.random.default_rng(0))", fresh("private-taste")),
    ("gains are judged by the scale of their noise", SCALE, "release.std / n_users",
     "release.scale / n_users", named("features", f"{_JUDGED}[0.0-{math.sqrt(2)}]")),
    ("counts are judged by the scale of their noise", SCALE, "releases.counts.std",
     "releases.counts.scale", named("features", f"{_JUDGED}[0.0-{math.sqrt(2)}]")),
    ("taste: chosen by raw counts", OTHER, "is_detectable = _is_signal_detectable(counts)\n",
     "is_detectable = _is_signal_detectable(counts._replace(noisy=exact_counts))\n",
     named("coins", "test_what_is_asked_next_follows_from_answers_and_not_from_raw_counts")),
)

_BITS = "test_each_bit_passes_the_stated_channel"
_ANSWERS_ONLY = "test_rankings_and_collected_ratings_show_nothing_but_the_answers"

LOCAL_RANKING = family_of(
    "local_ranking", "mechanisms/local_ranking.py",
    ("flips too rare", SCALE, "return flip_probability(self.epsilon)",
     "return 0.97 * flip_probability(self.epsilon)", named("local_neighbours", _BITS)),
    ("bits reported as they are", SKIPPED,
     "releases.bits.publish_rows(binary_matrix(ratings), rng)",
     "np.packbits(binary_matrix(ratings).toarray() > 0, axis=1)",
     records("dplcf", "ldpicf", "local-popularity")),
    ("a cell's epsilon for a user's", UNIT, f"{ALIAS}CELL,", f"{ALIAS}USER_EMPTIED as CELL,",
     named("local_neighbours", _BITS)),
    ("ratings pass for clicks", CLIP, "publish_rows(binary_matrix(ratings)",
     "publish_rows(ratings.matrix", named("private_taste", "test_bad_input_is_a_sentence")),
    ("the same flips in every run", REUSED, "publish_rows(binary_matrix(ratings), rng)",
     f"publish_rows(binary_matrix(ratings), {SEEDED})",
     other_seed("dplcf", "ldpicf", "local-popularity")),
    ("raw bits go on after their release", OTHER, "FlippedBits(bits, ratings.public",
     "FlippedBits(np.packbits(binary_matrix(ratings).toarray() > 0, axis=1), ratings.public",
     named("replayed_answers", f"{_ANSWERS_ONLY}[dplcf-settings9]")),
)

_CLEANSED = "svd-after-cleansing"

CLEANSING = family_of(
    "cleansing", "mechanisms/cleansing.py",
    ("products and weights spend 3 % more", SCALE, "remainder.split(0.99, 0.01)",
     "(remainder * 1.0609).split(0.99, 0.01)", spends(_CLEANSED)),
    ("less than the card's scale", SCALE, "releases = self.guarantee(public).releases\n",
     f"releases = self.guarantee(public).releases.map_releases({QUIETER})\n", records(_CLEANSED)),
    ("published: products spend 3 % more", SCALE, "products = budget * 0.7",
     "products = budget * 0.7427", named("user_level",
     f"test_the_published_estimator_spends_the_budget_and_no_more[{_CLEANSED}]")),
    ("products without noise", SKIPPED,
     "releases.products.publish_products(exact_products, rng)\n", "exact_products\n",
     records(_CLEANSED)),
    ("weights without noise", SKIPPED, "n_pairs = releases.weights.publish(",
     "n_pairs = (lambda weights, _: weights)(", records(_CLEANSED)),
    ("the raw number of pairs goes on after its release", OTHER, "float(n_pairs)",
     "float(np.sqrt(counts) @ np.maximum(counts - 1, 0))",
     named("replayed_answers", f"{_OTHERS}[{_CLEANSED}-quiet]")),
    ("products of a replaced row", UNIT, "math.sqrt(2) * sqrt_cap * bound**2",
     "sqrt_cap * bound**2", bounds(f"{_CLEANSED}-4-REPLACED", f"{_CLEANSED}-19-REPLACED")),
    ("weights of a replaced row", UNIT, "math.sqrt(2) * sqrt_cap,", "sqrt_cap,",
     bounds(f"{_CLEANSED}-19-REPLACED")),
    ("pairs of a row", UNIT, "max_sum = sqrt_cap * emptied_norm**2",
     "max_sum = 0.97 * sqrt_cap * emptied_norm**2", bounds(f"{_CLEANSED}-4-EMPTIED")),
    ("item counts of a replaced row", UNIT, "math.sqrt(min(2 * cap, n))", "sqrt_cap",
     bounds(f"{_CLEANSED}-19-REPLACED")),
    ("residuals are not clamped", CLIP,
     "residuals = np.clip(rows.values, -bound, bound, out=rows.values)", "residuals = rows.values",
     bounds(f"{_CLEANSED}-4-EMPTIED")),
    ("residuals are clamped 3 % too wide", CLIP,
     "residuals = np.clip(rows.values, -bound, bound, out=rows.values)",
     "residuals = np.clip(rows.values, -1.03 * bound, 1.03 * bound)",
     bounds(f"{_CLEANSED}-4-EMPTIED")),
    ("no cap on ratings", CLIP,
     "fit_user_regressions(ratings, item_effects),\n"
     "            cap_mask(ratings, cap, draw_cap_key(rng)),\n"
     "        )",
     "fit_user_regressions(ratings, item_effects), cap_mask(ratings, 10**6, "
     "draw_cap_key(rng)))", bounds(f"{_CLEANSED}-4-EMPTIED")),
    ("published: no cap on ratings", CLIP,
     "capped_ratings = cap_ratings(ratings, cap,"
     " draw_cap_key(rng))", "capped_ratings = cap_ratings(ratings, 10**6, draw_cap_key(rng))",
     bounds(f"{_CLEANSED}-19-EMPTIED")),
    ("products: the same noise in every run", REUSED,
     "releases.products.publish_products(exact_products, rng)",
     "releases.products.publish_products(exact_products, np.random.default_rng(0))",
     fresh(_CLEANSED)),
    ("published: the same noise in every answer", REUSED,
     "releases_by_name[name].publish(value, rng)",
     "releases_by_name[name].publish(value, np.random.default_rng(0))",
     fresh(f"{_CLEANSED}-estimator")),
) + family_of(
    "cleansing", "mechanisms/cleansing.py",
    ("published: residuals are not clamped", CLIP,
     "residuals = np.clip(user_residuals, -bound, bound)",
     "residuals = user_residuals", bounds(f"{_CLEANSED}-19-EMPTIED")),
)

DPALS = family_of(
    "dpals", "mechanisms/dpals.py",
    ("rounds spend 3 % more", SCALE, "budget.split(self.squares_share, 1 - self.squares_share)",
     "(budget * 1.0609).split(self.squares_share, 1 - self.squares_share)", spends("dpals")),
    ("squares without noise", SKIPPED, "release.squares.publish(squares, rng)", "squares",
     records("dpals")),
    ("moments without noise", SKIPPED, "release.moments.publish(moments, rng)", "moments",
     records("dpals")),
    ("squares of a replaced row", UNIT, "math.sqrt(2) * sqrt_cap * c * c,", "sqrt_cap * c * c,",
     bounds("dpals-5-REPLACED", "dpals-20-REPLACED")),
    ("moments of a replaced row", UNIT, "2 * sqrt_cap * c * g,", "sqrt_cap * c * g,",
     bounds("dpals-5-REPLACED", "dpals-20-REPLACED")),
    ("user factors are not clipped", CLIP,
     "clipped_factors, n_factors_clipped = clip_dense_rows(self.query_factors, clip)",
     "clipped_factors, n_factors_clipped = self.query_factors, "
     "clip_dense_rows(self.query_factors, clip)[1]",
     named("user_level", "test_planted_missing_clip_is_caught")),
    ("user factors are clipped 3 % too wide", CLIP, "clip_dense_rows(self.query_factors, clip)",
     "clip_dense_rows(self.query_factors, 1.03 * clip)",
     named("user_level", "test_the_worst_rows_nearly_use_the_bounds_up")),
    ("ratings are not clipped", CLIP,
     "clipped_factors, self.weights, bound\n"
     "        )", "clipped_factors, self.weights)", bounds("dpals-5-EMPTIED")),
    ("ratings are clipped 3 % too wide", CLIP,
     "clipped_factors, self.weights, bound\n"
     "        )", "clipped_factors, self.weights, 1.03 * bound)", bounds("dpals-5-EMPTIED")),
    ("item weights are not scaled", CLIP,
     "return weights, clip_rows(Pattern.from_ratings(ratings), weights, "
     "math.sqrt(max_ratings))", "return weights, np.ones(ratings.public.users)",
     bounds("dpals-23-EMPTIED")),
    ("item weights are scaled 3 % too little", CLIP,
     "clip_rows(Pattern.from_ratings(ratings), weights, math.sqrt(max_ratings))",
     "clip_rows(Pattern.from_ratings(ratings), weights, 1.03 * math.sqrt(max_ratings))",
     bounds("dpals-23-EMPTIED")),
    ("squares: the same noise in every round", REUSED, "release.squares.publish(squares, rng)",
     f"release.squares.publish(squares, {SEEDED})", fresh("dpals")),
)

_STEP = "noisy = release.publish(sums, rng)"
_TRUE_GRADIENTS = "test_unclipped_gradients_are_those_of_the_squared_error"

DP_SGD = family_of(
    "dp_sgd", "mechanisms/dp_sgd.py",
    ("steps spend 3 % more", SCALE, "self.budget() / self.rounds,\n",
     "self.budget() * 1.0609 / self.rounds,\n", spends("dp-sgd")),
    ("noise 3 % short", SCALE, _STEP, f"noisy = ({QUIETER})(release).publish(sums, rng)",
     records("dp-sgd")),
    ("noise halved", SCALE, _STEP,
     f"noisy = ({QUIETER.replace('0.97', '0.5')})(release).publish(sums, rng)", records("dp-sgd")),
    ("raw gradients go on after their release", OTHER, _STEP,
     "noisy = 0.5 * (release.publish(sums, rng) + sums)",
     named("replayed_answers", f"{_OTHERS}[dp-sgd-24]")),
    ("one step without noise", SKIPPED, _STEP,
     "noisy = sums if index == 2 else release.publish(sums, rng)", records("dp-sgd")),
    ("no step with noise", SKIPPED, _STEP, "noisy = sums", records("dp-sgd")),
    ("the same noise in every step", REUSED, _STEP, f"noisy = release.publish(sums, {SEEDED})",
     fresh("dp-sgd")),
    ("gradients are not clipped", CLIP,
     "shrinkage(lengths, norms[:2, None])", "np.ones_like(lengths)",
     bounds("dp-sgd-24-EMPTIED", "dp-sgd-25-EMPTIED")),
    ("gradients are clipped 3 % too wide", CLIP, "shrinkage(lengths, norms[:2, None])",
     "shrinkage(lengths, 1.03 * norms[:2, None])", bounds("dp-sgd-24-EMPTIED")),
    ("means are not clipped", CLIP, "np.clip(relative_means, -1.0, 1.0)", "relative_means",
     bounds("dp-sgd-24-EMPTIED")),
    ("either half of a row is clipped, not the row", CLIP,
     "norm_squares += np.array(", "norm_squares = np.array(", bounds("dp-sgd-25-EMPTIED")),
    ("a rating's gradient is clipped, not a user's", UNIT, "squares = row_sums(half, gradients**2)",
     "squares = row_sums(half, gradients**2) / np.maximum(half.counts, 1)",
     bounds("dp-sgd-24-EMPTIED")),
    ("a replaced row counts as an emptied one", UNIT, "            2 * clip,\n",
     "            clip,\n", bounds("dp-sgd-24-REPLACED")),
    ("users with no weight for their number of ratings", OTHER,
     "np.sqrt(np.maximum(chunk.counts, 1))", "np.ones(chunk.shape[0])",
     named("dp_sgd", _TRUE_GRADIENTS)),
)
