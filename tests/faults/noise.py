"""Faults of the exact noise and of the kernel that counts privacy."""

from __future__ import annotations

from tests.faults.base import (
    CLIP,
    OTHER,
    REUSED,
    SCALE,
    SKIPPED,
    UNIT,
    family_of,
    named,
)

_OPENDP = "test_what_is_published_is_what_opendp_answers_and_nothing_else"
_ROUNDED = "test_every_sensitivity_of_the_secured_card_holds_the_rounding"

# fmt: off
SECURE = (
    family_of(
        "secure path", "privacy/exact_noise.py",
        ("NumPy's noise rounded to the grid", OTHER,
         "build_measurement(\n"
         "                kind, scale, chunk.size, k\n"
         "            )(chunk.tolist())",
         "(np.rint((chunk + getattr(np.random.default_rng(), kind.replace('gaussian', "
         "'normal'))(0.0, scale, chunk.size)) / 2.0**k) * 2.0**k)", named("secure_noise", _OPENDP)),
        ("scale", SCALE,
         "build_measurement(\n"
         "                kind, scale, chunk.size, k\n"
         "            )(chunk.tolist())",
         "build_measurement(kind, 0.97 * scale, chunk.size, k)(chunk.tolist())",
         named("secure_noise", _OPENDP)),
        ("Laplace: scale in the measurement", SCALE, "dp.l1_distance(T=float), scale=scale, k=k)",
         "dp.l1_distance(T=float), scale=0.97 * scale, k=k)", named("secure_noise",
         "test_a_measurement_is_opendps_own_at_the_scale_asked_for[laplace]")),
        ("Gaussian: scale in the measurement", SCALE, "dp.l2_distance(T=float), scale=scale, k=k)",
         "dp.l2_distance(T=float), scale=0.97 * scale, k=k)", named("secure_noise",
         "test_a_measurement_is_opendps_own_at_the_scale_asked_for[gaussian]")),
        ("a channel's chances", SCALE,
         "integers = [round(float(p) * 2**_PROBABILITY_BITS) for p in row]",
         "integers = [round(float(p) * (0.97 if p < max(row) else 1) * 2**_PROBABILITY_BITS) "
         "for p in row]", named("secure_noise", "test_a_channel_certifies_what_is_sampled")),
        ("a long answer's later blocks without noise", SKIPPED,
         "out[start : start + _COORDINATES_PER_BLOCK] = build_measurement(\n"
         "                kind, scale, chunk.size, k\n"
         "            )(chunk.tolist())",
         "out[start : start + _COORDINATES_PER_BLOCK] = chunk if start else "
         "build_measurement(kind, scale, chunk.size, k)(chunk.tolist())",
         named("secure_noise", "test_long_answers_are_sampled_in_blocks_and_counted_once")),
        ("one draw for all coordinates", REUSED,
         "build_measurement(\n"
         "                kind, scale, chunk.size, k\n"
         "            )(chunk.tolist())", "chunk + build_measurement(kind, scale, 1, k)([0.0])[0]",
         named("secure_noise", "test_noise_has_the_law_its_release_states")),
        ("one word for all symbols", REUSED,
         "np.frombuffer(os.urandom(8 * count), dtype=np.uint64) >>",
         "np.repeat(np.frombuffer(os.urandom(8), dtype=np.uint64), count) >>",
         named("secure_noise", "test_a_channel_has_the_chances_its_release_states")),
        ("rounding is not counted", OTHER,
         "loss = build_measurement(kind, scale, count, grid_exponent(scale, "
         "count)).map(sensitivity)",
         "loss = sensitivity / scale\n"
         '    loss = loss if kind == "laplace" else 0.5 * loss**2',
         named("secure_noise", "test_the_rounding_is_counted_and_costs_nearly_nothing")),
        ("a coarse grid", OTHER, "_ROUNDING_BITS = 40 ", "_ROUNDING_BITS = 20 ",
         named("secure_noise", "test_outputs_lie_on_the_grid_and_textbook_noise_does_not")),
        ("chances too small to sample pass", CLIP,
         "if ((row > 0) & (row <"
         " _MIN_PROBABILITY)).any():", "if False:",
         named("secure_noise", "test_a_chance_too_small_to_sample_is_refused")),
    )
    + family_of(
        "secure path", "dpmc_lab/study/release.py",
        ("sensitivities are not raised by the rounding", OTHER,
         "max(s, _raise_sensitivity(release, count, s))", "s", named("secure_noise", _ROUNDED)),
        ("more answers than the card counts are written", OTHER,
         "if not source.draw_counts <= expected:", "if False:",
         named("secure_noise", "test_more_answers_than_the_card_counts_are_never_written")),
        ("an infinite certificate is released", UNIT, "    if not certified.finite:\n",
         "    if False:\n", named("secure_noise", "test_what_cannot_be_released_says_why[dpmf]")),
    )
    + family_of(
        "secure path", "privacy/noise.py",
    )
    + family_of(
        "secure path", "privacy/noise.py",
        ("coins from NumPy", OTHER, "return rng.flip_coins(weights)",
         "return rng._plain.random(len(weights)) * weights < 1.0",
         named("coins", "test_an_exact_release_tosses_the_coins_it_counts")),
    )
    + family_of(
        "secure path", "privacy/exact_noise.py",
        ("plain draws are served", OTHER, "setattr(SecureSource, _draw, _refuse_draw(_draw))",
         "pass", named("coins", "test_a_secure_source_refuses_every_plain_draw")),
        ("a coin's chance rounded up", OTHER, "(1 - _COIN_MARGIN) / weights",
         "(1 + _COIN_MARGIN)"
         " / weights", named("coins", "test_a_coins_chance_is_never_above_one_over_its_weight")),
    )
)

_ENSEMBLE = named(
    "noise", "test_products_that_follow_from_earlier_ones_have_the_law_of_the_ensemble[1]"
)
_WHOLE_LAW = named("noise", "test_products_have_the_law_of_the_whole_matrix[False]")
_SYMMETRIC_NOISE = "noise.SymmetricGaussian(exact, size, self.scale, rng)"

PRODUCTS = family_of(
    "products", "privacy/releases.py",
    ("scale", SCALE, "noise.SymmetricGaussian(checked_product, size, self.scale, rng)",
     "noise.SymmetricGaussian(checked_product, size, 0.97 * self.scale, rng)", _ENSEMBLE),
    ("the same noise in every matrix", REUSED,
     "noise.SymmetricGaussian(checked_product, size, self.scale, rng)",
     "noise.SymmetricGaussian(checked_product, size, self.scale, np.random.default_rng(0))",
     _ENSEMBLE),
) + family_of(
    "products", "privacy/noise.py",
    ("products without noise", SKIPPED, "noise = self._rng.normal(0.0, self",
     "noise = 0 * self._rng.normal(0.0, self", _ENSEMBLE),
    ("as much along as across", SCALE, "(math.sqrt(2) - 1) * np", "0.0 * np", _WHOLE_LAW),
    ("half of the noise across", SCALE, "self._sigma / math.sqrt(2)", "self._sigma / 2", _ENSEMBLE),
    ("what earlier products say is forgotten", OTHER,
     " + (new @ self._images.T) @ directions", "", _WHOLE_LAW),
    ("directions of one block have no noise in common", OTHER,
     "images += (symmetric - among_new) @ new + ", "images += ", _WHOLE_LAW),
    ("one product serves two directions", REUSED, "np.vstack([self._images, images])",
     "np.vstack([self._images, 0 * images + (self._images if len(directions) else images)[:1]])",
     _WHOLE_LAW),
)

_BYTES = tuple(
    f"tests/core/test_local_neighbours.py::test_rows_of_bits_pass_the_stated_channel_a_byte_each[{e}]"
    for e in (0.01, 1.0, 3.0, 9.0)
)

BYTES = family_of(
    "local", "privacy/noise.py",
    ("a byte alone decides a flip", SCALE, "flips[tied] = pass_channel", "_ = pass_channel",
     _BYTES),
    ("eight cells share a coin", REUSED, "flips = random_bytes < int(threshold_byte)",
     "flips = np.repeat(random_bytes[::8], 8)[:count] < int(threshold_byte)", _BYTES),
    ("bits keep to themselves", SKIPPED, "return symbols ^ _draw_flips(matrix[0, 1]",
     "return symbols ^ 0 * _draw_flips(matrix[0, 1]", _BYTES),
)

_UNITS = "test_derived_sensitivities_are_never_below_the_truth"

_RARE_FLIPS = "test_flips_far_rarer_than_a_uniform_draw_resolves_still_happen"
_STD = "test_std_is_the_standard_deviation_of_the_density"

RARE_FLIPS = family_of(
    "kernel", "privacy/noise.py",
    ("a 0 never flips from epsilon 37 on", SKIPPED,
     "draws[high] = len(upper_ends) - np.searchsorted(upper_ends, from_one[high], side=\"left\")",
     "draws[high] = np.searchsorted(lower_ends, uniform[high], side=\"right\")",
     named("noise", f"{_RARE_FLIPS}[0-45.0-int64]")),
    ("a 1 flips too often from epsilon 37 on", SCALE,
     "draws[low] = np.searchsorted(lower_ends, from_zero[low], side=\"right\")",
     "draws[low] = np.searchsorted(lower_ends, uniform[low], side=\"right\")",
     named("noise", f"{_RARE_FLIPS}[1-45.0-int64]")),
    ("a byte never flips from epsilon 42 on", SKIPPED, "[1 - fraction, fraction]",
     "[1 - fraction, 1 - (1 - fraction)]", named("noise", f"{_RARE_FLIPS}[0-45.0-uint8]")),
) + family_of(
    "kernel", "privacy/releases.py",
    ("Laplace noise deviates by its scale", SCALE, "return math.sqrt(2) * self.scale",
     "return self.scale", named("noise", f"{_STD}[Laplace-shape0]")),
    ("NormLaplace noise deviates as Laplace noise does", SCALE, "math.sqrt(self.length + 1)",
     "math.sqrt(2)", named("noise", f"{_STD}[NormLaplace-shape1]")),
)

KERNEL = [
    *RARE_FLIPS,
    *family_of(
        "kernel", "privacy/releases.py",
        ("Laplace: scale", SCALE, "return rng.laplace(0.0, self.scale, shape)",
         "return rng.laplace(0.0, 0.97 * self.scale, shape)",
         named("noise", "test_the_scale_of_noise_is_exact[Laplace]")),
        ("NormLaplace: scale", SCALE, "return noise.draw_norm_laplace(self.scale, shape, rng)",
         "return noise.draw_norm_laplace(0.97 * self.scale, shape, rng)",
         named("noise", "test_the_scale_of_noise_is_exact[NormLaplace]")),
        ("Gaussian: scale", SCALE, "return rng.normal(0.0, self.scale, shape)",
         "return rng.normal(0.0, 0.97 * self.scale, shape)",
         named("noise", "test_the_scale_of_noise_is_exact[Gaussian]")),
        ("Laplace: published without noise", SKIPPED, "return rng.laplace(0.0, self.scale, shape)",
         "return np.zeros(shape)",
         named("noise", "test_published_noise_is_what_the_release_states")),
        ("Gaussian: one draw for all cells", REUSED, "return rng.normal(0.0, self.scale, shape)",
         "return rng.normal(0.0, self.scale, 1)",
         named("noise", "test_published_noise_is_what_the_release_states")),
        ("Gaussian: repeats are not counted", OTHER, "math.sqrt(self.times) * sensitivity",
         "sensitivity", named("privacy", "test_gaussian_mu")),
    ),
    *family_of(
        "kernel", "privacy/changes.py",
        ("a row is one cell", UNIT, "cells | {CELL: k, USER_EMPTIED: 1}",
         "cells | {USER_EMPTIED: 1}", named("privacy", _UNITS)),
        ("two rows are one step apart", UNIT, "cells | {CELL: min(2 * k, n)}",
         "cells | {CELL: min(2 * k, n), USER_EMPTIED: 1}", named("privacy", _UNITS)),
        ("values bound cells", UNIT, "CELL: cells,", "CELL: values,",
         named("privacy", "test_values_never_bound_cells_or_users")),
        ("a scale read off the data certifies", CLIP, "default=math.inf,", "default=1.0,",
         named("privacy", "test_a_scale_read_off_the_data_certifies_nothing")),
    ),
    *family_of(
        "kernel", "privacy/noise.py",
        ("channel: one draw for all symbols", REUSED, "uniform = rng.random(int(mask.sum()))",
         "uniform = np.full(int(mask.sum()), rng.random())",
         named("noise", "test_every_symbol_meets_its_row_of_the_channel")),
        ("channel: flips too rare", SCALE, "lower_ends, upper_ends = ends[a, :-1], tails[a, :-1]",
         "lower_ends, upper_ends = (ends[a, :-1] ** 0.97, tails[a, :-1]) if a else (1 - 0.97 "
         "* (1 - ends[a, :-1]), tails[a, :-1])",
         named("noise", "test_flips_three_percent_too_rare_are_seen")),
    ),
]
