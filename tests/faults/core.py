"""Faults of what stands around the mechanisms: accounting, coins and solvers."""

from __future__ import annotations

from tests.faults.base import (
    CLIP,
    OTHER,
    REUSED,
    SCALE,
    SKIPPED,
    UNIT,
    bounds,
    family_of,
    named,
)

_POPULAR = "test_private_popularity_counts_within_its_sensitivity"
_USER_BOUND = "test_no_user_moves_a_release_further_than_stated"
_ACCOUNTANT = "test_certified_is_claimed_and_what_an_independent_accountant_finds"

# What the second batch added to the core.
_WORST = named("private_effects", "test_the_worst_rows_come_within_five_percent_of_every_bound")
_NOISY = "test_the_released_mean_has_the_noise_of_its_card"
_MEAN_NOISE = named("baselines", f"{_NOISY}[private-constant]")
_CHARGED = "test_the_card_charges_the_released_mean_with_all_of_the_budget"
_MEAN_CHARGED = named("baselines", f"{_CHARGED}[1.0-private-own-mean]")
_ONE_USER_BOUND = "test_one_user_moves_the_release_as_far_as_stated_and_no_further"
_MEAN_MOVED = named("baselines", f"{_ONE_USER_BOUND}[private-alone]")
_OWN_ROW = "test_nothing_but_the_release_and_the_own_row_reaches_a_prediction"
_SHRUNK = "test_own_means_are_shrunk_by_three_ratings_to_the_released_mean"
_KIND = named("baselines", "test_the_kind_is_the_best_one_without_noise")
_VECTORS = named("empirical_bayes", "test_the_prior_of_vectors_is_the_likeliest")
_SPENT = named("private_effects", "test_certified_is_claimed[1.0-private-effects]")
_PROFILES = named("private_taste", f"{_USER_BOUND}[taste-0.5-Change.USER_EMPTIED]")
_TURNED = named("private_taste", f"{_USER_BOUND}[taste-0.5-Change.USER_REPLACED]")
_LEFT_OUT = named("private_taste", "test_a_profile_leaves_the_item_out")
_EXACTLY = named("accounting", "test_randomised_responses_are_summed_exactly")
_ROUNDINGS = "test_pure_releases_lie_between_two_roundings_of_dp_accounting"
_STUDIES = ("numbers", "bits of two kinds", "a bit and a Gaussian")
_PEER = named("accounting", *(f"{_ROUNDINGS}[{study}]" for study in _STUDIES))
_AGAIN = named("answer", "test_a_week_of_a_year_gets_what_the_composition_of_gaussians_leaves")
_TOSSED = named("coins", "test_coins_fall_with_the_chance_of_their_weight")
_ON_GRID = named("secure_noise", "test_outputs_lie_on_the_grid_and_textbook_noise_does_not")
_ANSWERS_ALONE = "test_rankings_and_collected_ratings_show_nothing_but_the_answers"
_TRACE_OF = named("replayed_answers", f"{_ANSWERS_ALONE}[local-popularity-settings14]")

# fmt: off
CORE = [
    *family_of(
        "item effects", "mechanisms/per_user.py",
        ("deviations over the largest one seen", CLIP,
         "(\n"
         "        row_means(entries, ratings.values, public.middle) - public.middle\n"
         "    ) / public.half_width",
         "(row_means(entries, ratings.values, public.middle) - public.middle) / "
         "np.abs(ratings.values - public.middle).max()", _WORST),
        ("own statistics move half as far", UNIT,
         "own_norm = math.sqrt(2 * N_USER_COEFFICIENTS + 2)",
         "own_norm = math.sqrt(N_USER_COEFFICIENTS + 1)",
         _WORST),
        ("means of a replaced row", UNIT, "budget, math.sqrt(2), 2.0)",
         "budget, math.sqrt(2), math.sqrt(2))", _WORST),
        ("counts of a replaced row", UNIT, "1.0,\n            math.sqrt(2),",
         "1.0,\n            1.0,", _WORST),
        ("sums of a replaced row", UNIT, "sums_budget, clip\n",
         "sums_budget, clip, math.sqrt(2) * clip\n", _WORST),
        ("gains move half as far", UNIT,
         "gain_budget, 1.0, 1.0\n"
         "        ),", "gain_budget, 0.5, 0.5),", _WORST),
        ("rows centred by the raw mean", OTHER,
         "values = ratings.values[span] - item_effects.mean\n",
         "values = ratings.values[span] - ratings.values.mean()\n", _WORST),
        ("own means take in how many everybody rated", OTHER,
         "(chunk.counts + USER_PSEUDO_RATINGS)",
         "(len(ratings) / len(chunk.counts) + USER_PSEUDO_RATINGS)", _WORST),
        ("weights from raw counts", OTHER, "item_effects.weights.take(chunk.items)",
         "_sum_rating_weights(ratings).take(chunk.items) ** -0.5", _WORST),
        ("rows clipped at what the widest ratings say", CLIP,
         "0.0,"
         " effects_row_clip(ratings.public)", "0.0, _EFFECTS_CLIP * np.ptp(ratings.values)",
         _WORST),
        ("raw gains go on after their release", SKIPPED, "estimate_mean_gain(float(noisy_gain), ",
         "estimate_mean_gain(gains, ", _WORST),
        ("residuals about raw item means", OTHER,
         "regression = build_user_regression(item_effects, slope_std=SHARED_SLOPE_STD)",
         "regression = build_user_regression(item_effects, slope_std=SHARED_SLOPE_STD)._replace("
         "item_offsets=item_sums(Pattern.from_ratings(ratings), ratings.values)"
         " / np.maximum(item_sums(Pattern.from_ratings(ratings)), 1))", _WORST),
    ),
    *family_of(
        "baselines", "mechanisms/per_user.py",
        ("the mean of all users is not published", SKIPPED,
         "published = release.publish(ratings.sum_over_users(sum_user_means), rng)",
         "published = ratings.sum_over_users(sum_user_means)", _MEAN_NOISE),
        ("half the noise", SCALE, "MeanRelease(_build_mean_release(self.budget()))",
         "MeanRelease(_build_mean_release(self.budget() * 4))", _MEAN_CHARGED),
        ("a user moves the mean half as far", UNIT, "(2,), budget, math.sqrt(2), 2.0)",
         "(2,), budget, math.sqrt(2) / 2, 2.0)", _MEAN_MOVED),
        ("the mean of a replaced row", UNIT, "(2,), budget, math.sqrt(2), 2.0)",
         "(2,), budget, math.sqrt(2), math.sqrt(2))", _MEAN_MOVED),
        ("the raw mean goes on after its release", OTHER,
         "mean_of_users(float(total), float(users), noise",
         "mean_of_users(*ratings.sum_over_users(sum_user_means).tolist(), noise",
         named("baselines", f"{_OWN_ROW}[private-own-mean]")),
        ("own means use features", OTHER,
         "ratings.features if cls.uses_item_features else np.empty((ratings.public.items, 0))",
         "ratings.features", named("baselines", "test_features_are_used_by_one_baseline_alone")),
        ("the noise of the mean is forgotten", OTHER,
         "ItemEffects.from_public(ratings.public, features, mean)",
         "ItemEffects.from_public(ratings.public, features, (mean[0], 0.0))",
         named("baselines", _SHRUNK)),
    ),
    *family_of(
        "baselines", "registry.py",
        ("the worst baseline is taken", OTHER,
         "return min(\n"
         "        evaluated, key=", "return max(evaluated, key=", _KIND),
        ("the kind does not depend on errors", OTHER,
         "errors[get_mechanism(id).nonprivate_counterpart], default", "errors.get(id, 0), default",
         _KIND),
    ),
    *family_of(
        "baselines", "dpmc_lab/study/answer.py",
        ("the answer takes one kind for all data", OTHER,
         "[registry.choose_baseline(type(method), steps, errors)]",
         "[registry.choose_baseline(type(method), steps)]",
         named("baselines", "test_the_answer_counts_from_the_best_kind_of_the_data")),
    ),
    *family_of(
        "baselines", "solvers/user_regression.py",
        ("few cells are solved without a prior", OTHER, "solve(np.eye(index.shape[1]) + scaled @",
         "solve(1e-9 * np.eye(index.shape[1]) + scaled @", named("private_effects",
         "test_rows_with_few_cells_are_solved_by_their_cells_to_the_same_answers")),
    ),
    *family_of(
        "item effects", "solvers/rows.py",
        ("which ratings a cap keeps hangs on everybody's", REUSED,
         "draw_cap_mask(ratings, cap, key)", "draw_cap_mask(ratings, cap, key + len(ratings))",
         named("user_level", "test_the_cap_is_drawn_by_each_users_own_randomness")),
    ),
    *family_of(
        "item effects", "mechanisms/private_effects.py",
        ("moments move sqrt(2) at most", UNIT, "math.sqrt(3),\n                2.0,",
         "math.sqrt(2),\n                2.0,", _WORST),
        ("moments of a replaced row", UNIT, "math.sqrt(3),\n                2.0,",
         "math.sqrt(3),\n                math.sqrt(3),", _WORST),
        ("rounds of residuals are not counted", OTHER, "2 * clip,\n                self.rounds,",
         "2 * clip,\n                1,", _SPENT),
        ("each round spends all of the rest", SCALE, "(rounds_budget / self.rounds).split(",
         "rounds_budget.split(", _SPENT),
        ("share of taste by raw counts", OTHER,
         "factor_share = choose_low_rank_share(\n            item_effects, ",
         "factor_share = choose_low_rank_share(__import__('dataclasses').replace(item_effects, "
         "noisy_counts=item_effects.noisy_counts._replace(noisy=ratings.matrix.astype(bool).sum("
         "axis=0))), ",
         named("features",
               "test_what_users_are_asked_follows_from_what_was_published"
               "[private-effects-settings8]")),
        ("taste begins at raw counts", OTHER, "start_low_rank(item_effects, random_start) if",
         "start_low_rank(item_effects, random_start + ratings.matrix.astype(bool).sum(axis=0)[:, "
         "None]) if", bounds("private-effects-11-EMPTIED")),
        ("raw moments go on after their release", SKIPPED,
         "moments = releases.rounds.moments.publish(moments, rng)",
         "releases.rounds.moments.publish(moments, rng)", _WORST),
    ),
    *family_of(
        "item effects", "mechanisms/per_user.py",
        ("the mean of all users has one share whatever their number", SCALE,
         "mean_share = min(max((noise / _MEAN_NOISE) ** 2, lowest), highest)",
         "mean_share = lowest",
         named("private_effects", "test_the_mean_of_all_users_has_the_noise_that_it_can_bear"
               "[private-effects-1.0-1000-0.04]")),
        ("the mean of all users takes the share on top", SCALE,
         "scale = (1 - mean_share) / math.fsum(shares)", "scale = 1 / math.fsum(shares)",
         named("private_effects", "test_the_mean_of_all_users_has_the_noise_that_it_can_bear"
               "[private-effects-1.0-1000-0.04]")),
    ),
    *family_of(
        "item effects", "solvers/item_effects.py",
        ("effects stay as large as they came out", OTHER,
         "return replace(self, effects=min(max(self.scale, 0.0), 1.0) * self.effects)",
         "return self",
         named("private_effects", "test_effects_are_scaled_by_what_rounds_and_counts_say")),
        ("a factor may turn effects around", OTHER, "effects=min(max(self.scale, 0.0), 1.0) *",
         "effects=min(self.scale, 1.0) *",
         named("private_effects", "test_effects_are_scaled_by_what_rounds_and_counts_say")),
        ("what rounds leave of the effects is taken for all of them", OTHER,
         "1 + prior.effects @ (sums / unit) / energy", "prior.effects @ (sums / unit) / energy",
         named("private_effects", "test_rounds_estimate_how_much_of_the_effects_is_there")),
        ("ratings have no noise of their own in the factor", OTHER,
         "/ energy) ** 2 @ noise_variances,", "/ energy) ** 2 @ np.full(len(unit), noise**2),",
         named("private_effects", "test_rounds_estimate_how_much_of_the_effects_is_there")),
        ("what a round corrects is corrected twice", OTHER,
         "scale=1 - remaining * (1 - float(scale))", "scale=float(scale)",
         named("private_effects", "test_what_rounds_correct_is_not_corrected_twice")),
        ("what the round before said of taste is left out", OTHER,
         "precisions, targets = precisions + previous.precisions, targets + previous.targets",
         "pass", named("private_effects",
         "test_two_rounds_say_more_of_the_taste_of_items_than_one")),
    ),
    *family_of(
        "item effects", "solvers/empirical_bayes.py",
        ("the prior of counts is flat", OTHER,
         "tilted = noisy - noise_std**2 / np.asarray(prior_mean)", "tilted = noisy + 0 * "
         "np.asarray(prior_mean) ** -1", named("empirical_bayes",
         "test_counts_with_an_exponential_prior_are_what_quadrature_gives[1.0-2.0]")),
        ("vectors forget their prior", OTHER, "np.linalg.inv, prior_precision + precisions)",
         "np.linalg.inv, precisions + 0 * prior_precision)", _VECTORS),
        ("the prior of vectors leaves out what is not known of them", OTHER,
         "means.T @ means + covariances[index].sum(axis=0)", "means.T @ means", _VECTORS),
        ("vectors that share a precision count once", OTHER, "covariances[index].sum(axis=0)",
         "covariances.sum(axis=0)", named("empirical_bayes",
         "test_vectors_that_share_a_precision_are_fitted_as_if_each_had_its_own")),
        ("noise on counts is taken for counts", OTHER,
         "float(np.mean(self.noisy**2)) - self.noise_energy", "float(np.mean(self.noisy**2))",
         named("empirical_bayes", "test_the_energy_of_counts_is_that_without_their_noise")),
        ("small counts are as likely as large ones", OTHER, " - np.log(means)\n", "\n",
         named("empirical_bayes", "test_counts_with_a_long_tail_are_what_quadrature_gives")),
    ),
    *family_of(
        "taste", "mechanisms/private_effects.py",
        ("a round of taste begins anew", OTHER,
         "second_moments,\n                    likelihood,", "second_moments,\n"
         "                    None,", named("private_effects",
         "test_a_round_of_taste_goes_on_from_the_round_before")),
    ),
    *family_of(
        "own side", "solvers/user_regression.py",
        ("squares over half their bound", CLIP, "residual_squares]) / MAX_STATISTIC",
         "residual_squares]) / (MAX_STATISTIC / 2)",
         _WORST),
        ("what a row knows counts by its ratings", CLIP, "[(1 - shrinkage) ** 2,",
         "[np.sqrt(group.counts)[:, None] * (1 - shrinkage) ** 2,", _WORST),
        ("users count by their ratings", CLIP, "np.ones(len(shrinkage))",
         "np.sqrt(group.counts)", _WORST),
        ("a row's taste is not of length 1", CLIP,
         "enumerate(normalise_rows(user_factors[:-1]).T, 1)",
         "enumerate(user_factors[:-1].T, 1)", _WORST),
        ("moments of taste are not of length 1", CLIP,
         "unit_vectors = normalise_rows(group.coefficients[:, -rank:])",
         "unit_vectors = group.coefficients[:, -rank:]", _WORST),
        ("effects beside taste count in full", CLIP, "math.sqrt(1 - share) * scaled)", "scaled)",
         _WORST),
        ("taste beside effects counts in full", CLIP, "math.sqrt(share) * scaled * direction",
         "scaled * direction", _WORST),
        ("rows are stretched beyond the clip", CLIP, "factor = np.minimum(",
         "factor = np.maximum(", _WORST),
        ("rows are weighted by the average length", OTHER,
         "(weights / entries.expand_rows(lengths))", "(weights / lengths[lengths > 0].mean())",
         _WORST),
        ("gains of a round are not bounded", CLIP, "moments[-2] += sum_bounded_gains(gains)",
         "moments[-2] += gains.sum() / MAX_STATISTIC", _WORST),
        ("taste's gain counts four times", CLIP, "moments[-1] += sum_bounded_gains(gains)",
         "moments[-1] += MAX_STATISTIC * sum_bounded_gains(gains)",
         bounds("private-effects-11-EMPTIED")),
        ("directions of the average length", OTHER,
         "enumerate(normalise_rows(user_factors[:-1]).T, 1)",
         "enumerate((user_factors[:-1] / np.mean(np.sum(user_factors[:-1]**2, 1)) ** 0.5).T, 1)",
         bounds("private-effects-11-EMPTIED")),
        ("one regression for all", OTHER, "np.linalg.inv(z.mT @ z + ridge)",
         "np.linalg.inv((z.mT @ z + ridge).mean(axis=0))",
         bounds("private-effects-11-EMPTIED")),
    ),
    *family_of(
        "taste", "mechanisms/user_ranking.py",
        ("profiles of a replaced row", UNIT,
         "replaced_sensitivity = math.sqrt(2 + 2 * (1 - 2 * _COUNT_SHARE))",
         "replaced_sensitivity = math.sqrt(2)", _TURNED),
        ("moments move sqrt(2) at most", UNIT,
         "math.sqrt(3),\n"
         "                math.sqrt(8),\n"
         "                n_publications", "math.sqrt(2), math.sqrt(8), n_publications", _PROFILES),
        ("moments of a replaced row", UNIT,
         "math.sqrt(3),\n"
         "                math.sqrt(8),\n"
         "                n_publications", "math.sqrt(3), math.sqrt(6), n_publications", _TURNED),
        ("asks are not counted", OTHER,
         "1.0,\n"
         "                replaced_sensitivity,\n"
         "                n_publications,", "1.0, replaced_sensitivity, 1,",
         named("private_taste", f"{_ACCOUNTANT}[private-taste-0.3]")),
        ("profiles count in full beside counts", CLIP,
         "= profile_scale * profile_sums", "= profile_sums", _PROFILES),
        ("counts count in full beside profiles", CLIP, "= count_scale * exact_counts",
         "= exact_counts", _PROFILES),
        ("long rows give whole profiles", CLIP,
         "sum_profiles_by_item(Pattern.from_ratings(self.ratings), weights, features)",
         "sum_profiles_by_item("
         "Pattern.from_ratings(self.ratings), np.ones(len(weights)), features)",
         _PROFILES),
        ("features centred by raw counts", OTHER,
         "features - counts.posterior @ features / counts.posterior.sum()",
         "features - exact_counts @ features / exact_counts.sum()", _PROFILES),
        ("features in the measure of raw counts", OTHER, "np.sqrt(counts.posterior)",
         "np.sqrt(exact_counts)", _PROFILES),
        ("raw counts are the scores", SKIPPED, "counts.noisy / divisor if",
         "_sum_unit_rows(ratings) / divisor if",
         named("private_taste", "test_counts_alone_are_the_mean_of_all_answers_by_precision")),
        ("a trace tells how many clicks there are", OTHER, '{"taste that is heard": signal}',
         '{"taste that is heard": signal, "clicks": float(len(ratings))}',
         named("coins", "test_what_is_asked_next_follows_from_answers_and_not_from_raw_counts")),
        ("popularity of a replaced row", UNIT,
         "sensitivities[USER_REPLACED] = replaced_sensitivity",
         "sensitivities[USER_REPLACED] = sensitivity",
         named("private_taste", f"{_ACCOUNTANT}[private-popularity-0.3]")),
        ("popularity: k items move like one", UNIT, "if per_user else 1\n",
         "* 0 + 1 if per_user else 1\n", named("private_taste", f"{_POPULAR}[user-0.0]")),
    ),
    *family_of(
        "taste", "solvers/ranking.py",
        ("profiles are not of length 1", CLIP,
         "return normalise_rows(_sum_features(pattern, features), _min_profile_length(features))",
         "return _sum_features(pattern, features)", _LEFT_OUT),
        ("profiles without an item are not of length 1", CLIP,
         "by_item @ normalise_rows(others, min_length)", "by_item @ others", _LEFT_OUT),
        ("products of flipped bits keep the flips", OTHER,
         "products - self.flip * block.sum(axis=0)", "products", named("spectral_ranking",
         "test_products_are_those_of_the_unbiased_rows")),
    ),
    *family_of(
        "taste", "solvers/rows.py",
        ("directions of the average length", OTHER, "np.divide(vectors, lengths,",
         "np.divide(vectors, lengths.mean(),", _LEFT_OUT),
        ("rounding is made a direction", OTHER, "where=lengths > min_length)",
         "where=lengths > 0)",
         named("private_taste", "test_features_that_cancel_have_no_direction")),
    ),
    *family_of(
        "local", "mechanisms/local_ranking.py",
        ("raw counts are the popularity", SKIPPED, "counts = users * reports.shares",
         "counts = 1.0 * np.bincount(ratings.items, minlength=ratings.public.items)", _TRACE_OF),
        ("a trace tells how many clicks there are", OTHER, "reports.reported_shares.mean()",
         "ratings.density", _TRACE_OF),
        ("similarities of raw rows", SKIPPED, "partial(self.estimate_similarities, reports)",
         "partial(self.estimate_similarities, FlippedBits(np.packbits(interactions.toarray()"
         ".astype(bool), axis=1), n_items, reports.flip))",
         named("replayed_answers", f"{_ANSWERS_ALONE}[dplcf-settings12]")),
    ),
    *family_of(
        "composition", "privacy/accounting.py",
        ("what a transform may lose is not counted", OTHER,
         "+ math.exp(\n"
         "            min(log_error, 600.0)\n"
         "        )", "", named("accounting", "test_delta_is_not_understated_far_out")),
        ("a tilt to the end of its grid", OTHER,
         " - t * math.log1p(1 / t) - math.log1p(t)", "", named("accounting",
         "test_few_small_laplace_releases_cost_no_more_than_by_dp_accounting[0.01-12-0.0]")),
        ("rounding of the exponents is not counted", OTHER,
         "log_factor += 2.0**-50 * (", "log_factor += 0.0 * (",
         named("accounting", "test_delta_is_not_understated_far_out")),
        ("nothing is lost beside Gaussian noise", OTHER,
         "+ math.log(_TRANSFORM_ERROR) + _gaussian_log_bound(self.tilt, self.mu)",
         "+ math.log(_TRANSFORM_ERROR)",
         named("accounting", "test_a_mass_that_a_transform_loses_is_counted_wherever_it_lies")),
        ("losses are rounded down", OTHER, "upper = np.clip((p - q) / -math.expm1(-step), 0.0, p)",
         "upper = 0.0 * p", _PEER),
        ("losses are rounded to the middle", OTHER,
         "upper = np.clip((p - q) / -math.expm1(-step), 0.0, p)", "upper = 0.5 * p", _PEER),
        ("one part in a thousand is left out", OTHER, "_LOG_TAIL = math.log(1e18)",
         "_LOG_TAIL = math.log(1e3)",
         named("accounting", "test_delta_is_not_understated_far_out[bits3-0.05]")),
        ("equal releases of two sums count once", OTHER,
         "times[p.epsilon, p.laplace] += p.times",
         "times[p.epsilon, p.laplace] = p.times",
         named("accounting", "test_losses_of_any_order_and_size_are_told")),
        ("a bit's loss has a Laplace number's chances", OTHER,
         "end_probability = 0.5 if releases.laplace else", "end_probability = 0.5 if True else",
         _PEER),
        ("a bit counts as a Laplace number", UNIT, "if laplace and n == 1:", "if n == 1:",
         _EXACTLY),
        ("many Laplace numbers count as one", OTHER, "if laplace and n == 1:", "if laplace:",
         _PEER),

        ("a Gaussian beside a Laplace number is left out", OTHER,
         "if mu == 0 and len(pure) == 1:", "if len(pure) == 1:",
         named("privacy", "test_mixed_releases_cost_less_than_the_pure_and_the_gaussian_epsilon")),
        ("the end of a bisection that does not hold", OTHER,
         "0.0, high, relative=1e-8)[1]", "0.0, high, relative=1e-8)[0]", _EXACTLY),

        ("delta is overspent by a millionth", SCALE, "target = delta * (1 - 1e-12)",
         "target = delta * (1 + 1e-6)", _EXACTLY),
        ("half of the lies are left out", OTHER, "np.arange(n // 2 + 1.0)",
         "np.arange(n // 4 + 1.0)", _EXACTLY),
        ("delta leaves the Gaussian releases out", OTHER,
         "return composed_delta(self.pure, self.mu, epsilon)",
         "return composed_delta(self.pure, 0.0, epsilon)", _PEER),
        ("the Gaussian curve of the other side", OTHER, "excess = epsilon - self.losses\n",
         "excess = np.abs(epsilon - self.losses)\n", _PEER),
    ),
    *family_of(
        "composition", "privacy/releases.py",
        ("ratings with numbers of their own count once", UNIT, "self.times * count, laplace=True)",
         "self.times, laplace=True)",
         named("privacy", "test_values_that_move_their_own_numbers_cost_what_so_many_answers_do")),
    ),
    *family_of(
        "composition", "privacy/channels.py",
        ("a channel's cells count as one", UNIT,
         "PureReleases(epsilon_per_cell, self.times *"
         " cells)", "PureReleases(epsilon_per_cell, self.times)",
         named("privacy", "test_channel_epsilon_counts_changed_symbols")),
        ("a channel's symbols count as Laplace numbers", UNIT,
         "PureReleases(epsilon_per_cell, self.times * cells)",
         "PureReleases(epsilon_per_cell, self.times * cells, laplace=True)",
         named("privacy", "test_channel_epsilon_counts_changed_symbols")),
    ),
    *family_of(
        "sampled sums", "privacy/sampled.py",
        ("rounds are not counted", OTHER,
         "self.term_epsilon, self.times)\n"
         "        )", "self.term_epsilon, 1))",
         named("coins", "test_the_record_computes_its_loss_from_scale_length_and_budget")),
        ("terms longer than the longest pass", CLIP,
         "if not (spent <= self.term_epsilon * (1 + _SLACK)).all():", "if False:", named("coins",
         "test_weights_that_let_a_term_spend_more_are_refused_or_stand_on_the_card")),
        ("any sensitivity passes", UNIT, "if not -_SLACK * s <= excess <= 1e-3 * self.longest:",
         "if False:", named("coins", "test_a_bound_that_is_no_whole_number_of_terms_is_refused")),
        ("lengths in l2", UNIT, "np.abs(self.terms).sum(axis=1)",
         "np.linalg.norm(self.terms, axis=1)",
         named("coins", "test_the_mechanism_weighs_each_cell_by_twice_its_factor")),
    ),
    *family_of(
        "sampled sums", "privacy/noise.py",
        ("one coin for all terms", REUSED, "return rng.random(len(weights)) * weights < 1.0",
         "return rng.random() * weights < 1.0", _TOSSED),
        ("terms are drawn 3 % too often", SCALE, "return rng.random(len(weights)) * weights < 1.0",
         "return rng.random(len(weights)) * weights < 1.03", _TOSSED),
    ),
    *family_of(
        "sampled sums", "privacy/sampled.py",
        ("weights without the paper's -1/w", OTHER, "_log_expm1(a * w) > target + np.log(w)",
         "a * w > float(epsilon) + np.log(w)",
         named("dpimf", "test_weights_solve_their_equation_and_short_terms_weigh_more")),
        ("a drawn term is charged no more than its average", OTHER,
         "np.log1p(np.expm1(scaled_losses[is_small]) / w[is_small])", "a[is_small]",
         named("coins", "test_the_record_computes_its_loss_from_scale_length_and_budget")),
        ("large losses are charged without their coin", OTHER,
         "scaled_losses[is_large] - np.log(w[is_large])",
         "scaled_losses[is_large] - 2 * np.log(w[is_large])",
         named("coins", "test_losses_at_the_ends_of_weights_and_lengths")),
    ),
    *family_of(
        "rounding", "privacy/exact_noise.py",
        ("the grid is for one coordinate", OTHER,
         " - _ROUNDING_BITS - (max(count, 1) -"
         " 1).bit_length()", " - _ROUNDING_BITS", _ON_GRID),
        ("discrete noise counts as continuous", OTHER,
         "2 * rho / (1 - (_SMOOTHING_STEPS / steps)"
         " ** 2)", "2 * rho", named("secure_noise",
         "test_discrete_gaussian_noise_is_no_worse_than_the_continuous_mechanism_named")),
        ("chances as asked for, not as sampled", OTHER,
         "[quantise_probabilities(row).tolist() for row in matrix]",
         "[row.tolist() for row in matrix]",
         named("secure_noise", "test_a_channel_certifies_what_is_sampled")),
        ("one word for all coins", REUSED, "_draw_uniform_integers(thresholds.size) < thresholds",
         "_draw_uniform_integers(1) < thresholds", _TOSSED),
        ("a coin's chance rounded up", OTHER, "return np.floor(np.ldexp",
         "return np.ceil(np.ldexp",
         named("coins", "test_a_coins_chance_is_never_above_one_over_its_weight")),
        ("an impossible output at one word", OTHER, '_draw_uniform_integers(count), side="right"',
         '_draw_uniform_integers(count), side="left"',
         named("secure_noise", "test_a_channel_is_sampled_with_exactly_its_integer_chances")),
        ("what was sampled is not counted", SKIPPED,
         "        self.draw_counts[kind, scale, flat.size] += 1\n", "",
         named("secure_noise", "test_long_answers_are_sampled_in_blocks_and_counted_once")),
        ("coins are not counted", SKIPPED,
         '        self.draw_counts["coin", 0.0, 1] +='
         ' weights.size\n', "", named("coins", "test_coins_are_the_operating_systems_and_counted")),
        ("a grid for half the noise", SCALE, "return math.frexp(scale)[1] - 1 - _ROUNDING_BITS",
         "return math.frexp(scale)[1] - _ROUNDING_BITS", _ON_GRID),
    ),
    *family_of(
        "rounding", "dpmc_lab/study/release.py",
        ("a sampled sum's rounding is free", OTHER,
         "return sensitivity * (1 + rounding / release.term_epsilon)", "return sensitivity",
         named("coins", "test_the_rounding_of_a_sampled_sum_is_counted")),
        ("a channel's rounding is free", OTHER,
         "(\n"
         "        exact_noise.discrete_channel_epsilon(release.matrix) / single_loss if "
         "single_loss > 0 else 1\n"
         "    )", "1", named("secure_noise", "test_a_channel_certifies_what_is_sampled")),
        ("one more answer of a kind passes", OTHER,
         "draws[kind, release.scale, count] += release.times",
         "draws[kind, release.scale, count] += release.times + 1",
         named("secure_noise", "test_more_answers_than_the_card_counts_are_never_written")),
    ),
    *family_of(
        "answer", "dpmc_lab/study/answer.py",
        ("all publications cost what one does", OTHER,
         "year = guarantee.repeat(question.times)", "year = guarantee", _AGAIN),
    ),
    *family_of(
        "answer", "dpmc_lab/study/advice.py",
        ("each publication may take all", OTHER,
         "create_at(epsilon_setting).guarantee(public).repeat(times)",
         "create_at(epsilon_setting).guarantee(public)", _AGAIN),
    ),
]
# fmt: on
