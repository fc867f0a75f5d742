"""Faults of the answer and of what verifies."""

from __future__ import annotations

from tests.faults.base import OTHER, SCALE, family_of, named

# fmt: off
ANSWER = (
    family_of(
        "answer", "dpmc_lab/study/answer.py",
        ("the command of an answer has a rounded limit", OTHER,
         '"--keep", format_number(question.keep)', '"--keep", f"{question.keep:.2f}"',
         named("page_data", "test_the_printed_page_of_an_upload_has_what_repeats_its_verdict")),
        ("affordable by the value and not by its interval", OTHER, "if gain_share.low >= limit:",
         "if gain_share.value >= limit:",
         named("answer", "test_the_verdict_is_where_the_interval_lies")),
        ("the share kept is of the reference and not of its gain", OTHER,
         "sign * (weights - baseline_weights), sign * (best_weights - baseline_weights)",
         "sign * weights, sign * best_weights",
         named("answer", "test_the_share_kept_is_between_floor_and_reference")),
        ("a later publication learns nothing from the earlier ones", OTHER,
         "yield from super().fit(ratings, rng, [*earlier, aligned])",
         "yield from super().fit(ratings, rng, earlier)",
         named("sequel", "test_the_noise_of_a_simulated_publication_is_that_of_the_chain")),
        ("the average of a year counts the first and the last publication alike", OTHER,
         "np.array([np.interp(logs, points, row).mean() for row in np.eye(len(points))])",
         "np.full(len(points), 1 / len(points))",
         named("answer", "test_a_year_is_the_average_of_its_publications_and_the_last_of_them")),
        ("a smaller error is a loss", OTHER, "sign = question.metric.sign", "sign = 1.0",
         named("answer", "test_the_share_kept_is_between_floor_and_reference")),
        ("who gains is said to pay", OTHER,
         "loss = question.metric.sign * np.array([-1.0, 1.0, 0.0, 0.0])",
         "loss = question.metric.sign * np.array([1.0, -1.0, 0.0, 0.0])",
         named("answer", "test_who_pays_most_is_said_where_it_is_clear")),
        ("one standard deviation tells a count from noise", OTHER,
         "np.count_nonzero(counts > MIN_NOISE_DEVIATIONS * noise_std)",
         "np.count_nonzero(counts"
         " > noise_std)", named("answer", "test_items_told_from_noise_are_those_counted_above_it")),
        ("Laplace noise on a count deviates by its scale", SCALE, "per_item.std", "per_item.scale",
         named("answer", "test_laplace_noise_on_a_count_deviates_by_root_two_scales")),
        ("the noise of a debiased count is not debiased", OTHER,
         "chance * (1 - chance)) / debias_factor", "chance * (1 - chance))",
         named("answer", "test_locally_the_noise_is_that_of_a_debiased_count")),
    )
    + family_of(
        "answer", "dpmc_lab/study/paired.py",
        ("seeds do not widen an interval", OTHER,
         "variance = max(user + seed - interaction, user, seed)", "variance = user",
         named("paired", "test_a_root_is_the_delta_method")),
        ("an interval of one side", OTHER, "stdtrit(degrees_of_freedom, 0.5 + level / 2)",
         "stdtrit(degrees_of_freedom, level)",
         named("paired", "test_equal_seeds_give_the_paired_t_interval_of_users")),
        ("users are not independent of themselves", OTHER,
         "by_user = user_influence.T @ user_influence / (users * (users - 1))",
         "by_user = user_influence.T @ user_influence / (users - 1)",
         named("paired", "test_the_ends_of_a_share_are_where_the_difference_may_be_zero")),
        ("a share of a gain that may be nothing", OTHER, "if total.sign < 1:",
         "if total.value <= 0:", named("paired", "test_no_share_of_a_gain_that_may_be_nothing")),
        ("an own system does not vary with the seeds", OTHER,
         "np.column_stack([values, known])",
         "np.column_stack([values, np.full(len(known), np.mean(known))])",
         named("paired", "test_a_known_reference_varies_with_the_seeds_alone")),
        ("users without a rating count", OTHER, "has_ratings = counts.any(axis=(0, 2))",
         "has_ratings = np.full(counts.shape[1], True)",
         named("paired", "test_users_without_a_rating_do_not_count")),
    )
    + family_of(
        "answer", "dpmc_lab/study/advice.py",
        ("a setting is rounded up beyond what was asked", OTHER,
         "math.floor(calibrated / unit * (1 + 1e-12))",
         "math.ceil(calibrated / unit * (1 + 1e-12))",
         named("recommend", "test_a_method_certified_for_what_was_asked_or_a_sentence")),
    )
    + family_of(
        "answer", "mechanisms/private_effects.py",
        ("a person is protected from the server by a curator's method", OTHER,
         "if request.trust is Trust.LOCAL:",
         "if request.trust is Trust.LOCAL and not request.change.per_user:",
         named("recommend", "test_a_method_certified_for_what_was_asked_or_a_sentence")),
    )
    + family_of(
        "answer", "mechanisms/collection.py",
        ("rounded ratings for few users below three and not from there", OTHER,
         "has_large_epsilon = request.epsilon >= _COLLECTION_MIN_EPSILON",
         "has_large_epsilon = request.epsilon < _COLLECTION_MIN_EPSILON",
         named("recommend", "test_the_rule")),
    )
)
