"""Faults of views and pages."""

from __future__ import annotations

from tests.faults.base import OTHER, REUSED, SCALE, UNIT, family_of, named

# fmt: off
VIEWS = family_of(
    "views", "dpmc_lab/views/lines.py",
    ("a band of one side", OTHER, "stdtrit(n - 1, 0.5 + level / 2)", "stdtrit(n - 1, level)",
     named("compare", "test_the_band_is_the_t_interval_of_each_row")),
    ("a band of seeds and not of their mean", OTHER, "ddof=1)) / math.sqrt(n), n)", "ddof=1)), n)",
     named("compare", "test_the_band_is_the_t_interval_of_each_row")),
    ("per rating and per user change places", UNIT,
     "{EpsilonUnit.RATING: RATING, EpsilonUnit.USER: USER_EMPTIED}[epsilon_unit]",
     "{EpsilonUnit.RATING: USER_EMPTIED, EpsilonUnit.USER: RATING}[epsilon_unit]",
     named("compare", "test_in_the_same_unit_the_crossover_moves_with_the_certified_values")),
    ("a line without a bound in a unit is certified there", OTHER, "if np.isfinite(x).all():",
     "if np.isfinite(claimed_epsilons).all():",
     named("compare", "test_without_a_finite_value_in_the_unit_a_line_is_hollow_and_not_dropped")),
    ("a line's last seed is left out", OTHER, "np.array(seeds),",
     "np.array(seeds[:-1]),",
     named("compare", "test_lines_come_from_the_store_with_what_they_certify")),
    ("epsilons that were not asked for are drawn", OTHER,
     "if epsilon is None or epsilons is None or epsilon in epsilons", "if True",
     named("compare", "test_lines_come_from_the_store_with_what_they_certify")),
) + family_of(
    "views", "dpmc_lab/views/compare.py",
    ("many epsilons are as sure as one", OTHER, "return 1 - (1 - LEVEL) / n_epsilons",
     "return LEVEL", named("compare", "test_equal_lines_cannot_be_told_apart")),
    ("seeds are not compared in pairs", OTHER,
     "intervals = [compute_interval(row, adjust_level(len(x))) for row in difference]",
     "intervals = [estimate._replace(half_width=estimate.half_width * "
     "difference.std(ddof=1) / row.std(ddof=1)) for row in difference for estimate in "
     "[compute_interval(row, adjust_level(len(x)))]]",
     named("compare", "test_each_line_stands_at_each_epsilon_as_the_duels_say")),
)
VIEWS += family_of(
    "views", "dpmc_lab/views/trade.py",
    ("all ratings together cost what one costs", UNIT,
     "cards.format_spent_budget(self.guarantee, question.change)",
     "cards.format_spent_budget(self.guarantee, self.guarantee.change)",
     named("page_guarantees", "test_the_question_decides_what_may_change")),
    ("who is removed is asked about as replaced", UNIT, "yes, USER_EMPTIED, rated)",
     "yes, USER_REPLACED, rated)",
     named("trade", "test_gaussian_noise_by_its_own_law_and_by_epsilon_and_delta_alone")),
    ("a certificate stands where epsilon and delta alone put it", OTHER,
     "return state, success_rate, attacker_certainty(",
     "success_rate = attacker_certainty(proved.epsilon, proved.delta)\n"
     "    return state, success_rate, attacker_certainty(",
     named("trade", "test_a_flip_and_one_number_of_laplace_noise")),
    ("a curator's server is held off", OTHER,
     "if not is_reader and guarantee.trust is Trust.CURATOR:",
     "if not is_reader and guarantee.trust is Trust.AGGREGATOR:",
     named("trade", "test_who_runs_the_server_sees_what_a_curator_sees_and_no_more_of_reports")),
    ("a tick measured of one thing stands in the trade of another", UNIT,
     "if sensitivity_at({question.change: 1.0}, bound.change, public_facts) > 1:",
     "if sensitivity_at({question.change: 1.0}, bound.change, public_facts) > math.inf:",
     named("trade",
     "test_a_tick_lies_below_what_is_certified_and_only_where_it_tells_of_the_question")),
    ("a recommender with a third party counts as held off", OTHER,
     "(not is_reader and guarantee.trust is Trust.AGGREGATOR)", "False",
     named("trade", "test_a_recommender_beside_a_third_party_is_held_off_by_no_proof_of_ours")),
)

VIEWS += family_of(
    "pages", "pages/ui/charts/compare.py",
    ("the filled marker stands where the paper's claim does", OTHER,
     "_attacker_position(point.success_rate)",
     "_attacker_position(point.claimed_rate or point.success_rate)",
     named("trade", "test_hollow_where_the_paper_puts_it_and_filled_where_the_releases_do")),
)

PAGES = (
    family_of(
        "pages", "pages/ui/shelf.py",
        ("a third tick takes the place of the second", OTHER,
         "self.ticked = [*self.ticked[-1:], number]", "self.ticked = [*self.ticked[:1], number]",
         named("page_train",
         "test_a_run_that_is_known_better_replaces_itself_and_a_third_tick_the_first")),
        ("the newest run makes room and not the oldest", OTHER,
         "next(\n"
         "                remembered for remembered in self.runs if remembered.number not in "
         "self.pinned\n"
         "            )",
         "next(remembered for remembered in self.runs[::-1] if remembered.number not in "
         "self.pinned)", named("page_train", "test_the_oldest_run_that_is_not_pinned_makes_room")),
        ("pinned runs are pushed out", OTHER,
         "next(\n"
         "                remembered for remembered in self.runs if remembered.number not in "
         "self.pinned\n"
         "            )", "next(iter(self.runs))",
         named("page_train", "test_the_oldest_run_that_is_not_pinned_makes_room")),
    )
    + family_of(
        "pages", "pages/ui/jobs.py",
        ("time left as if nothing were done", OTHER, "seconds * (self.total - self.done) / n_done",
         "seconds * self.total / n_done",
         named("jobs", "test_time_left_is_told_after_three_rounds_and_two_seconds")),
        ("the last in the queue begins first", OTHER, "self._waiting[0] is job",
         "self._waiting[-1] is job",
         named("jobs", "test_at_most_so_many_at_once_and_then_in_order")),
    )
    + family_of(
        "pages", "pages/ui/sources.py",
        ("what was made of a forgotten upload stays", REUSED, "    state.clear_memoized()\n", "",
         named("pages", "test_forgetting_an_upload_drops_the_file_and_all_that_came_of_it")),
    )
    + family_of(
        "pages", "pages/ui/state.py",
        ("the page shows what was kept of other choices", REUSED,
         "if entry[0] == dependencies), None)", "), None)",
         named("pages_compare", "test_verdicts_and_budget_are_those_of_the_core")),
    )
    + family_of(
        "pages", "pages/compare.py",
        ("the command of a comparison leaves the last seed out", OTHER,
         "seeds=range(1, int(seeds) + 1)", "seeds=range(1, int(seeds))",
         named("pages_compare", "test_more_seeds_are_computed_beside_the_shipped_ones")),
        ("the hold-out that was chosen is not the one compared on", OTHER,
         "split=None if split == choose_default_split(task) else split", "split=None",
         named("pages_compare", "test_the_hold_out_is_the_one_chosen_for_every_task")),
        ("the unit that was chosen is not the one drawn", UNIT,
         "[lines.place_on_axis(line, unit) for line in group]",
         "[lines.place_on_axis(line, EpsilonUnit.PAPER) for line in group]",
         named("pages_compare", "test_the_same_unit_uses_certified_values_and_drops_nothing")),
    )
    + family_of(
        "pages", "pages/train.py",
        ("training takes no notice of the preparation", OTHER,
         "lambda: build_problem(dataset, task, steps=steps, split=split, seed=run_seed)",
         "lambda: build_problem(dataset, task, split=split, seed=run_seed)",
         named("pages", "test_training_uses_the_settings_preparation_and_hold_out_on_the_page")),
        ("a new run waits for what the last one is compared with", OTHER,
         "possible and (not now.active or now.result is not None)", "possible and not now.active",
         named("page_train", "test_train_is_available_while_the_reference_runs_and_then_ends_it")),
    )
)

PAGES += family_of(
    "pages", "pages/data.py",
    ("the command of an answer reads a file as nobody did", OTHER,
     "reading = dataset.reading if location.private else {}", "reading = {}",
     named("page_data", "test_the_printed_page_of_an_upload_has_what_repeats_its_verdict")),
    ("the answer asks for a task before the data are read", OTHER,
     "        dataset = sources.get_dataset(data)\n",
     "        choose_inquiry(data, None)\n        dataset = sources.get_dataset(data)\n",
     named("absurd_links",
     "test_the_answer_on_data_that_cannot_be_read_is_the_sentence_of_other_pages")),
)

PAGES += family_of(
    "pages", "pages/ui/rows.py",
    ("what ships with the samples is computed again", OTHER, '[*command, "--skip-shipped"]',
     "command", named("pages_compare",
     "test_start_runs_only_what_is_missing_and_its_progress_never_goes_back")),
    ("progress counts what was there as missing", OTHER,
     "show_sweep_progress(current,"
     " grid_rows.available, total)", "show_sweep_progress(current, grid_rows.present, total)",
     named("pages_compare",
     "test_start_runs_only_what_is_missing_and_its_progress_never_goes_back")),
)

VIEWS += [
    *family_of(
        "views", "dpmc_lab/views/lines.py",
        ("clearly better by the means alone", OTHER, "> first.half_width + second.half_width",
         "> 0", named("people", "test_a_share_is_told_only_of_a_gain_that_the_seeds_show")),
    ),
    *family_of(
        "views", "dpmc_lab/views/compare.py",
        ("lines whose epsilons count other things are compared", UNIT,
         "if a.unit == b.unit and a.line.metric == b.line.metric",
         "if a.line.metric == b.line.metric",
         named("compare", "test_lines_in_different_units_are_never_compared")),
        ("better than one is best of all", OTHER,
         "return tuple(0 < rivals == len(ahead) for ahead, rivals in pairs)",
         "return tuple(0 < len(ahead) for ahead, rivals in pairs)", named("compare",
         "test_the_leader_is_told_with_its_epsilons_and_only_where_something_was_decided")),
    ),
    *family_of(
        "views", "dpmc_lab/views/numbers.py",
        ("resampled means are not stretched", OTHER, "mean + stretch * (values", "mean + (values",
         named("compare", "test_stretched_means_of_five_seeds_cover_the_truth")),
        ("an interval from the quarters", OTHER, "tail = (1 - LEVEL) / 2", "tail = 0.25",
         named("compare", "test_a_percentile_interval_holds_95_percent_of_what_is_drawn")),
        ("errors are planned as if more were better", OTHER,
         "fit_isotonic(np.nanmean(direction * observed, axis=1), weights)",
         "fit_isotonic(np.nanmean(observed, axis=1), weights)",
         named("compare", "test_errors_shrink_as_epsilon_grows")),
        ("the largest epsilon of the fit and not the smallest", OTHER,
         "first = np.argmax(above, axis=1)\n",
         "first = above.shape[1] - 1 - np.argmax(above[:, ::-1], axis=1)\n",
         named("compare", "test_the_smallest_epsilon_is_near_the_true_one")),
        ("what is only claimed is named before what is certified", OTHER,
         "proved = [answer for answer in reached if answer.plotted.is_certified]",
         "proved ="
         " reached", named("compare", "test_the_title_names_what_a_wanted_quality_costs")),
    ),
    *family_of(
        "views", "dpmc_lab/views/cards.py",
        ("a limit above 99.9 % reads as certainty", OTHER, "if share > MAX_INFORMATIVE_RATE:",
         "if share > 1:", named("people", "test_a_limit_is_rounded_up")),
    ),
    *family_of(
        "views", "dpmc_lab/views/data.py",
        ("busy users come last where a few are shown", OTHER,
         'np.argsort(-n_ratings, kind="stable")[:n_largest]',
         'np.argsort(n_ratings, kind="stable")[:n_largest]',
         named("views", "test_the_busiest_come_first")),
    ),
    *family_of(
        "views", "dpmc_lab/views/train.py",
        ("chances without the mechanism's own link", OTHER,
         'return getattr(mechanism, "link", LOGISTIC)', "return LOGISTIC",
         named("views", "test_chances_go_through_the_mechanisms_own_link")),
    ),
    *family_of(
        "views", "dpmc_lab/views/people.py",
        ("the median person is the busiest", OTHER,
         'int(np.argsort(counts, kind="stable")[',
         'int(np.argsort(-counts, kind="stable")[',
         named("people", "test_people_stand_at_the_quantiles_of_their_ratings")),
        ("marks slide as if ratings were 2 wide", SCALE,
         "release.scale * guarantee.public.half_width]", "release.scale]",
         named("people",
         "test_marks_are_draws_of_the_very_release_and_one_throw_serves_all_epsilons")),
        ("lists of another curve", OTHER,
         'next((document for document in documents if key in document["curves"]), None)',
         'next(documents, None)\n'
         '    key = next((k for k in document["curves"]), key) if document else key',
         named("people", "test_the_file_of_lists_is_read_as_it_was_written")),
    ),
    *family_of(
        "views", "dpmc_lab/views/cards.py",
        ("a refuted claim is called claimed only", OTHER,
         "    if refuted:\n"
         "        return ClaimState.REFUTED",
         "    if False:\n"
         "        return ClaimState.REFUTED",
         named("page_guarantees", "test_a_refuted_claim_is_told_from_one_that_is_not_proved")),
        ("the epsilon of a year is rounded in one's favour", OTHER, "math.ceil(steps - 1e-6)",
         "math.floor(steps + 1e-6)",
         named("answer", "test_epsilons_are_rounded_against_the_one_who_promises")),
    ),
]
