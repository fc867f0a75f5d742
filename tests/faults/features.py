"""Faults of item features, of choices by raw values, and of users in partitions.

The places of most of them were drawn with the seed 4382.
"""

from __future__ import annotations

from tests.faults.base import CLIP, OTHER, SCALE, SKIPPED, UNIT, bounds, family_of, named

_WORST = named("features", "test_the_worst_rows_move_what_facts_are_worth_as_far_as_the_card_says")
_AVERAGED = named(
    "private_effects", "test_users_average_their_regressions_by_the_evidence_of_their_own_ratings"
)
_DEFINED = named("features", "test_what_facts_are_worth_is_what_its_definition_says")
_CODED = named("features", "test_columns_are_of_mean_square_one_where_an_item_has_them")
_FOLLOWS = "test_what_users_are_asked_follows_from_what_was_published"
_NOISY_DIFF = named("noise", "test_no_difference_of_two_products_is_without_noise")
_CERTIFICATE = "test_no_certificate_moves_by_a_digit"
_HELD_OUT = named(
    "cluster_sums", "test_what_is_held_out_and_the_fingerprint_do_not_depend_on_partitions"
)
_SUMS = "test_sums_over_partitions_are_those_of_one_machine"
_RAW = "1.0 + __import__('numpy').bincount(ratings.items, minlength=ratings.public.items)"
_POPULAR_ROWS = "rows.on(items.most_rated(gram_items(public)))"
_RAW_KEPT = f"rows.on(np.sort(np.argsort(-({_RAW}))[: gram_items(public)]))"
_COUNTED = "private_taste", "test_private_popularity_counts_within_its_sensitivity[user-0.0]"

_JOINED = named("donor", "test_items_are_joined_by_title_and_year_and_never_by_a_name_of_two")
_DONOR_SAYS = named("donor", "test_what_a_donor_says_follows_from_its_ratings")

# fmt: off
FEATURES = [
    *family_of(
        "features", "solvers/ranking.py",
        ("what facts tell one user is bounded twice as wide", CLIP,
         "np.clip(gains - shuffled_gains, -1.0, 1.0)",
         "np.clip(gains - shuffled_gains, -2.0, 2.0)", _WORST),
        ("how facts are shuffled hangs on how many ratings there are", OTHER,
         "np.random.default_rng(0).permutation(len(posterior_counts))",
         "np.random.default_rng(len(ratings)).permutation(len(posterior_counts))", _WORST),
        ("facts are white over items and not over ratings", OTHER, "share = counts / counts.sum()",
         "share = np.full(len(counts), 1 / len(counts))", _DEFINED),
        ("an item tells of itself", OTHER,
         "self.sums**2 - _sum_features(pattern, self.item_features**2)", "self.sums**2", _DEFINED),
        ("nobody is taken to have average items", OTHER, "(self.counts - 1 + _AVERAGE_ITEMS), 1.0)",
         "(self.counts - 1), 1.0)", _DEFINED),
    ),
    *family_of(
        "features", "solvers/empirical_bayes.py",
        ("two answers are weighed by their deviations", SCALE,
         "old, new = self.noise_std**-2, noise_std**-2",
         "old, new = self.noise_std**-1, noise_std**-1",
         named("private_taste", "test_counts_alone_are_the_mean_of_all_answers_by_precision")),
    ),
    *family_of(
        "features", "mechanisms/user_ranking.py",
        ("one cell moves what facts are worth half as far", UNIT,
         "features_budget,\n"
         "                features_norm if per_user else 2 * features_norm,\n"
         "                2 * features_norm,\n"
         "            )", "features_budget, features_norm, 2 * features_norm)", _WORST),
        ("a replaced row moves what facts are worth as an emptied one", UNIT,
         "math.sqrt(n_features),\n"
         "            )\n"
         "        popularity_budget",
         "math.sqrt(n_features), math.sqrt(n_features))\n"
         "        popularity_budget", _WORST),
        ("a replaced row counts as an emptied one", UNIT,
         "sensitivities[USER_REPLACED] = replaced_sensitivity",
         "sensitivities[USER_REPLACED] = sensitivity", _WORST),
        ("facts are white over raw counts", OTHER,
         "ratings.sum_over_users(sum_feature_gains,"
         " posterior_counts)",
         "ratings.sum_over_users(sum_feature_gains, 1.0 + "
         "__import__('numpy').bincount(ratings.items, minlength=ratings.public.items))",
         named("features", f"{_FOLLOWS}[private-popularity-settings11]")),
        ("what facts are worth is asked by raw counts", OTHER,
         "counts.posterior, rng)\n        model", f"{_RAW}, rng)\n        model",
         named("features", f"{_FOLLOWS}[private-popularity-settings11]")),
        ("facts are added by raw counts", OTHER,
         "    return _add_feature_scores(model, ratings, gain_probabilities, counts.posterior)",
         "    return _add_feature_scores(model, ratings, gain_probabilities, 1.0 + "
         "__import__('numpy').bincount(ratings.items, minlength=ratings.public.items))",
         named("features", f"{_FOLLOWS}[private-popularity-settings11]")),
        ("features are centred by raw counts", OTHER,
         "counts.posterior @ features / counts.posterior.sum()",
         "exact_counts @ features / exact_counts.sum()",
         named("features", f"{_FOLLOWS}[private-taste-settings10]")),
        ("everybody's scores are raw counts", SKIPPED,
         "scores = counts.noisy / divisor if gain_probabilities",
         "scores = _sum_unit_rows(ratings) / divisor if gain_probabilities",
         named("replayed_answers",
         "test_rankings_and_collected_ratings_show_nothing_but_the_answers"
         "[private-popularity-settings2]")),
        ("profiles count in full", CLIP, "profile_scale * profile_sums",
         "profile_sums", named("private_taste",
         "test_no_user_moves_a_release_further_than_stated[taste-0.5-Change.USER_EMPTIED]")),
        ("one ask is not paid", SCALE, "rounds_budget / n_publications,",
         "rounds_budget / (n_publications - 1),", named("private_taste",
         "test_certified_is_claimed_and_what_an_independent_accountant_finds"
         "[private-taste-1.0]")),
        ("rows are short in l2 where the noise is Laplace", CLIP,
         "contributions, 2 if self.delta else 1)", "contributions, 2)", named(*_COUNTED)),
        ("any delta will do per user", OTHER,
         "        if per_user:\n"
         "            check_delta",
         "        if not per_user:\n"
         "            check_delta",
         named("private_taste", "test_a_delta_of_one_over_the_users_is_refused")),
        ("facts cost taste nothing", SCALE,
         "budget, features_budget = budget.split(1 - _FEATURES_SHARE, _FEATURES_SHARE)",
         "_, features_budget = budget.split(1 - _FEATURES_SHARE, _FEATURES_SHARE)",
         named("features", f"{_CERTIFICATE}[private-taste]")),
        ("facts cost popularity nothing", SCALE,
         "total_budget.split(1 - _FEATURES_SHARE, _FEATURES_SHARE)\n"
         "            if n_features",
         "(total_budget, total_budget.split(1 - _FEATURES_SHARE, _FEATURES_SHARE)[1]) if "
         "n_features", named("features", f"{_CERTIFICATE}[private-popularity]")),
    ),
    *family_of(
        "features", "mechanisms/per_user.py",
        ("the items kept are those with the most raw ratings", OTHER,
         "rows.select_columns(item_effects.select_most_rated(count_gram_items(public)))",
         "rows.select_columns(np.sort(np.argsort(-(1.0 + "
         "__import__('numpy').bincount(ratings.items, minlength=ratings.public.items)))[: "
         "count_gram_items(public)]))", named("features", f"{_FOLLOWS}[private-svd-settings2]")),
        ("a delta of one over the users passes", OTHER, "if delta >= 1 / public.users:",
         "if delta > 1 / public.users:",
         named("user_level", "test_a_delta_of_one_over_the_users_is_refused[private-svd]")),
        ("long rows count by the fourth root", CLIP,
         "1.0 / np.sqrt(np.maximum(entries.counts, 1))", "np.maximum(entries.counts, 1) ** -0.25",
         bounds("private-item-mean-6-EMPTIED")),
    ),
    *family_of(
        "features", "mechanisms/cleansing.py",
        ("the items kept are those with the most raw ratings, after cleansing", OTHER,
         "rows.select_columns(item_effects.select_most_rated(n))",
         "rows.select_columns(np.sort(np.argsort(-(1.0 + "
         "__import__('numpy').bincount(ratings.items, minlength=ratings.public.items)))[: "
         "n]))",
         named("features", f"{_FOLLOWS}[svd-after-cleansing-settings4]")),
        ("users' equations may be singular", OTHER, "_MIN_RIDGE * positive_values.max()",
         "0.0", named("user_level_solvers", "test_cleansing_as_published_has_no_singular_system")),
    ),
    *family_of(
        "features", "solvers/user_regression.py",
        ("users forget the volume of their models", OTHER,
         "log_evidence = volume - (_NOISE_PSEUDO_COUNT", "log_evidence = -(_NOISE_PSEUDO_COUNT",
         _AVERAGED),
        ("users forget how many ratings speak", OTHER,
         "(_NOISE_PSEUDO_COUNT + counts) * np.log(misfit)",
         "(_NOISE_PSEUDO_COUNT + 1) * np.log(misfit)",
         _AVERAGED),
        ("a scale divides the ridge once", OTHER,
         "/ np.outer(scales[kept], scales[kept])", "/ scales[kept]", _AVERAGED),
        ("models without effects subtract them", OTHER,
         "np.array([1.0, -self.effect_weights[model]])", "np.array([1.0, -1.0])",
         _AVERAGED),
        ("every set of groups is as likely, whatever its size", OTHER,
         "log_prior = -math.log(math.comb(n_groups, len(chosen)))", "log_prior = 0.0", _AVERAGED),
        ("the best model of all users is everybody's", OTHER,
         "log_weights - log_weights.max(axis=0))",
         "log_weights.mean(axis=1, keepdims=True) + 0 * log_weights)", _AVERAGED),
    ),
    *family_of(
        "features", "solvers/rows.py",
        ("only the first 50,000 cells are clipped", CLIP,
         "values[span] *= chunk.expand_rows(factors[rows])",
         "values[span] *= chunk.expand_rows(factors[rows]) if span.start == 0 else 1.0",
         named("user_level_solvers", "test_rows_beyond_the_first_part_are_clipped_too")),
        ("weights are short in l2 whatever the norm", CLIP,
         "np.sqrt(share) if norm == 2 else share", "np.sqrt(share)", named(*_COUNTED)),
    ),
    *family_of(
        "features", "dpmc_data/features.py",
        ("a column that says the same of all is kept", OTHER, "if len(set(filled)) < 2:",
         "if len(set(filled)) < 1:", named("features", "test_a_column_becomes")),
        ("several categories make an item's row short", SCALE, "1 / np.sqrt(max(len(indices), 1))",
         "1 / max(len(indices), 1)", _CODED),
        ("numbers do not lie about their middle", OTHER, "(rank - 0.5)\n", "rank\n", _CODED),
        ("numbers are of mean square one each", SCALE, "(linear**2 - 1)]) / np.sqrt(2)",
         "(linear**2 - 1)])", _CODED),
        ("an item without a row is like the first one", OTHER,
         "rows[item]] if item in rows else None",
         "rows[item]] if item in rows else column[-1]",
         named("features", "test_a_table_is_matched_by_the_items_ids")),
    ),
    *family_of(
        "features", "ratings.py",
        ("one rating less than the cap", CLIP, "hash_cells(ratings, key)) < count",
         "hash_cells(ratings, key)) < count - 1",
         named("user_level", "test_the_cap_is_drawn_by_each_users_own_randomness")),
    ),
    *family_of(
        "products", "privacy/noise.py",
        ("directions asked nearly before take the answers of those", OTHER,
         "_MIN_NEW_NORM = 1e-10", "_MIN_NEW_NORM = 1e-3", _NOISY_DIFF),
        ("what is left of a column is answered without noise", SKIPPED,
         "_images.T @ (self._directions @ block)\n",
         "_images.T @ (self._directions @ block) + self._private(\n"
         "            block - self._directions.T @ (self._directions @ block)\n        )\n",
         _NOISY_DIFF),
    ),
    *family_of(
        "features", "dpmc_lab/study/donor.py",
        ("a title of two items names one of them", OTHER,
         "if key and key_counts[key] == 1}", "if key}", _JOINED),
        ("films of one title are one whatever their year", OTHER,
         "split(), year or \"\"])", "split()])", _JOINED),
        ("effects hold the people's leniency", OTHER,
         "row_sums(entries, residuals) * user_weights)", "0 * user_weights)", _DONOR_SAYS),
        ("an item of one rating speaks", OTHER,
         "k is None or counts[k] < MIN_RATINGS", "k is None", _DONOR_SAYS),
    ),
    *family_of(
        "features", "preparation.py",
        ("the card is silent on the donor", OTHER, "if is_donated else text", "if False else text",
         named("donor", "test_a_donor_helps_changes_no_certificate_and_is_named_beside_it")),
    ),
    *family_of(
        "features", "dpmc_lab/cli/data.py",
        ("nobody confirms that the donor is public", OTHER, "if not public_donor:", "if False:",
         named("donor", "test_a_donor_helps_changes_no_certificate_and_is_named_beside_it")),
    ),
]

PARTITIONS = (
    family_of(
        "partitions", "dpmc_lab/sweep/partitions.py",
        ("another lower end of the range passes", OTHER,
         "(public.low, public.high) != (first_facts.low, first_facts.high)",
         "public.high != first_facts.high",
         named("cluster_sums", "test_files_with_other_ranges_are_refused_by_name")),
        ("another upper end of the range passes", OTHER,
         "(public.low, public.high) != (first_facts.low, first_facts.high)",
         "public.low != first_facts.low",
         named("cluster_sums", "test_files_with_other_ranges_are_refused_by_name")),
        ("users stand in the order of their letters", OTHER,
         "order = natural_order(pa.array(names, pa.string()))",
         "order = sorted(range(len(names)), key=names.__getitem__)",
         named("cluster_sums", f"{_SUMS}[private-item-mean-0]")),
    )
    + family_of(
        "partitions", "dpmc_lab/sweep/cluster.py",
        ("the last two sums are not added", OTHER, "while len(sums) > 1:", "while len(sums) > 2:",
         named("cluster_sums", f"{_SUMS}[private-popularity-9]")),
        ("the mean square stands for its root", OTHER,
         "float(np.sqrt(mean) if metric.lower_is_better else mean)", "float(mean)",
         named("cluster_sums", "test_the_error_of_partitions_is_that_of_all_their_test_ratings")),
    )
    + family_of(
        "partitions", "dpmc_lab/sweep/partitions.py",
        ("the earliest rating of a partition is held out", OTHER, "(-ratings.times,)",
         "(ratings.times,)",
         named("cluster_sums", "test_the_latest_rating_is_held_out_in_a_partition")),
        ("users are numbered anew in each partition", OTHER,
         "times=ratings.times, user_positions=user_positions",
         "times=ratings.times, user_positions=None", _HELD_OUT),
        ("of several sums the first partition's stand for all", OTHER,
         "return tuple(map(add_results, first, *remaining))", "return first",
         named("cluster_sums", f"{_SUMS}[private-item-mean-0]")),
        ("a partition without test ratings counts one", OTHER,
         "return 0, np.zeros(1, dtype=np.uint64)", "return 1, np.zeros(1, dtype=np.uint64)",
         named("cluster_sums", "test_the_latest_rating_is_held_out_in_a_partition")),
        ("a user's last rating may be held out in a partition", OTHER,
         "(rank_within_user(ratings, ~hashes) > 0)", "(rank_within_user(ratings, ~hashes) >= 0)",
         named("cluster_sums", "test_the_latest_rating_is_held_out_in_a_partition")),
        ("half of the share is held out", SCALE, "share * 2.0**64", "share * 2.0**63", _HELD_OUT),
        ("a file written anew with the same size is read on", OTHER,
         "return status.st_size, status.st_mtime_ns", "return status.st_size, 0",
         named("cluster_sums", "test_a_file_that_changed_is_not_read_again")),
    )
    + family_of(
        "partitions", "ratings.py",
        ("hashes hang on where a user is in the partition", OTHER,
         "users = ratings.users if positions is None else positions[ratings.users]",
         "users = ratings.users", _HELD_OUT),

    )
)

SESSIONS = family_of(
    "pages", "pages/ui/state.py",
    ("one private folder for all sessions", UNIT,
     'scope="session", on_release=lambda upload_folder: upload_folder.close(), '
     "show_spinner=False", "show_spinner=False",
     named("pages", "test_every_session_has_a_private_folder_and_jobs_of_its_own")),
) + family_of(
    "pages", "pages/ui/sources.py",
    ("what was computed outlives an upload", OTHER, "del session.upload, ", "del ",
     named("pages", "test_forgetting_an_upload_leaves_nothing_of_it_in_the_session")),
)
