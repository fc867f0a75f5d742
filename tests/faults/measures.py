"""Faults of what measures, prepares and splits."""

from __future__ import annotations

from tests.faults.base import CLIP, OTHER, REUSED, UNIT, family_of, named

# fmt: off
METRICS = family_of(
    "metrics", "metrics.py",
    ("a tie counts for the model among all items", OTHER,
     "is_ahead = ~(scores < (target - _bound_rounding(model, users))[:, None])",
     "is_ahead = scores > (target - _bound_rounding(model, users))[:, None]",
     named("metrics", "test_full_ranking_equals_brute_force")),
    ("the eleventh place is a hit", OTHER, "is_hit = rank < k", "is_hit = rank <= k",
     named("metrics", "test_full_ranking_equals_brute_force")),
    ("the first place is discounted", OTHER, "1.0 / np.log2(rank + 2.0)",
     "1.0 / np.log2(rank + 3.0)", named("metrics", "test_full_ranking_equals_brute_force")),
    ("what a user has in training is a candidate", OTHER,
     "_mark_cells(train) + _mark_cells(test)", "_mark_cells(test) + _mark_cells(test)",

     named("metrics", "test_full_ranking_equals_brute_force")),
    ("predicted ratings beyond the range count in full", CLIP,
     "clipped = np.clip(predicted, test.public.low, test.public.high)\n    return {",
     "clipped = predicted\n    return {",
     named("metrics", "test_evaluate_clips_ratings_and_names_the_metrics")),
    ("a larger RMSE is better", OTHER, '"RMSE", _RMSE, lower_is_better=True',
     '"RMSE", _RMSE, lower_is_better=False',
     named("metrics", "test_a_metric_knows_which_way_is_better")),
    ("the relative error is a root", OTHER, "return error / norm",
     "return float(np.sqrt(error / norm))",
     named("metrics", "test_are_is_the_relative_squared_error_of_all_cells")),
    ("interactions that are not ranked are misses", OTHER,
     "scores = np.full(len(test), np.nan)", "scores = np.zeros(len(test))",
     named("answer", "test_interactions_among_too_few_others_are_not_counted")),
    ("a score of nought is a dislike told right", OTHER,
     "return float(np.mean(np.sign(scores) == np.sign(signs)))",
     "return float(np.mean((np.asarray(scores) > 0) == (np.asarray(signs) > 0)))",
     named("metrics", "test_accuracy_counts_zero_and_nan_as_wrong")),
)

EXPERIMENT = family_of(
    "experiment", "experiment.py",
    ("a baseline takes settings that play another part", OTHER,
     "if s.name in defaults and s.default == defaults[s.name]", "if s.name in defaults",
     named("experiment", "test_baselines_share_the_settings_that_mean_the_same")),
    ("runs at two epsilons draw the same noise", REUSED,
     "{mechanism.revision} {settings} on {problem", "{mechanism.revision} on {problem",
     named("experiment", "test_noise_is_fresh_for_every_epsilon_split_and_seed")),
    ("runs on two splits draw the same noise", REUSED, '{settings} on {problem.train.fingerprint}"',
     '{settings} on {problem.name}"',
     named("experiment", "test_noise_is_fresh_for_every_epsilon_split_and_seed")),
    ("each method is ranked among candidates of its own", OTHER,
     'f"evaluate on {problem.test.fingerprint}"',
     'f"evaluate {mechanism.id} on {problem.test.fingerprint}"',
     named("experiment", "test_all_methods_are_ranked_among_the_same_candidates")),
    ("a run that was cut short is told as whole", OTHER,
     "stopped = not complete", "stopped = False",
     named("experiment", "test_a_run_can_be_stopped_and_keeps_what_is_publishable")),
    ("measured on what it learnt from", OTHER, "problem.evaluate(mechanism.task, model, rng)",
     "replace(problem, test=problem.train).evaluate(mechanism.task, model, rng)",
     named("experiment", "test_metrics_are_those_of_the_model")),
    ("the paper's twin stands beside another estimator", OTHER,
     'if getattr(mechanism, "estimator", None) is not Estimator.NOISE_AWARE:', "if True:",
     named("experiment", "test_a_guess_a_reference_and_the_paper_s_twin_stand_beside_a_method")),
    ("the reference without privacy is not run", OTHER,
     "[*steps]),\n"
     "        registry.NONPRIVATE_REFERENCES[mechanism.task],\n"
     "    ]", "[*steps])]",
     named("sweep", "test_every_combination_is_a_unit_once_with_its_guess_reference_and_twin")),
)

PREPARATION = family_of(
    "preparation", "preparation.py",
    ("ratings at the middle of the range are liked", OTHER,
     "np.greater if is_strict", "np.greater_equal if is_strict",
     named("preparation", "test_binarise_above_the_middle_reads_nothing_of_the_ratings")),
    ("test ratings are prepared by what they say themselves", OTHER,
     "test = step.apply(test, prior_train)", "test = step.apply(test, test)",
     named("preparation", "test_binarise_uses_the_training_mean_on_both_sides")),
    ("rescaled from the smallest rating that is seen", CLIP,
     "share = (ratings.values - public.low) / public.width",
     "share = (ratings.values - ratings.values.min()) / public.width",
     named("preparation", "test_rescale_is_linear_on_the_public_range_not_on_the_data")),
) + family_of(
    "preparation", "problem.py",
    ("the earliest rating is held out", OTHER, "else (-ratings.times,)", "else (ratings.times,)",
     named("splits", "test_leave_last_out_takes_a_latest_rating_of_every_user_with_two")),
    ("a user's last rating may be held out", OTHER, "quota = np.minimum(quota, counts - 1)",
     "quota = np.minimum(quota, counts)",
     named("splits", "test_bad_shares_and_too_little_data_are_sentences")),
    ("every seed splits alike", REUSED,
     "train, test = split(data.ratings, create_generator(seed,"
     " key))", "train, test = split(data.ratings, create_generator(0, key))",
     named("experiment", "test_the_split_depends_on_data_kind_and_seed_only")),
    ("a share per user is rounded down", OTHER,
     "np.floor(self.share * counts + rng.random(len(counts)))", "np.floor(self.share * counts)",
     named("splits", "test_per_user_share_is_exact_on_average_and_leaves_one_in_training")),
    ("the truth is measured in other units", UNIT, "truth=truth if is_comparable else None",
     "truth=truth", named("experiment", "test_are_is_measured_where_the_truth_is_known")),
    ("a floor's own draws differ with the mechanism beside it", OTHER,
     'np.random.SeedSequence([seed, int.from_bytes(digest[:16], "little")])',
     "np.random.SeedSequence([seed])",
     named("experiment", "test_noise_is_keyed_by_everything_that_names_a_run")),
)

PREPARATION += family_of(
    "preparation", "ratings.py",
    ("the least rated items are kept", OTHER, 'np.argsort(-counts, kind="stable")[:count]',
     'np.argsort(counts, kind="stable")[:count]',
     named("preparation", "test_top_items_are_those_of_the_training_side")),
)

LINES = family_of(
    "reading", "dpmc_data/reading.py",
    ("times in milliseconds are taken for seconds", UNIT, "(1e11, 1e14, 1e17)", "(1e14, 1e17)",
     named("reading", "test_times_are_seconds_or_left_alone_with_a_word")),
    ("of a repeated pair the last line and not the latest", OTHER,
     "np.lexsort((times[rows], cells))", "np.lexsort((cells,))",
     named("datasets", "test_duplicates_against_brute_force")),
    ("the mean of repeated pairs is their sum", OTHER,
     "np.bincount(groups, values) / np.bincount(groups)", "np.bincount(groups, values)",
     named("datasets", "test_duplicates_can_be_resolved")),
) + family_of(
    "reading", "dpmc_data/text.py",
    ("a last line without an end is lost", OTHER, '    if tail:\n        yield f"{tail}\\n"',
     '    if tail.endswith("\\n"):\n        yield tail',
     named("reading", "test_a_line_ends_at_line_ends_alone")),
    ("lines are counted from nought", OTHER,
     "numbers = (self.lines + starts + 1).astype", "numbers = (self.lines + starts).astype",
     named("reading", "test_a_first_row_without_a_usable_rating_is_no_header")),
)
