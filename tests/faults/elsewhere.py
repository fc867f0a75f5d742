"""Faults outside privacy, at places drawn at random.

Functions and lines of metrics, splits, the store, sweeps, curves and pages were drawn with the
printed seed 20261126; at 3 of the first 63 places no fault could be observed.
"""

from __future__ import annotations

from tests.faults.base import OTHER, REUSED, SCALE, SKIPPED, UNIT, family_of, named

# fmt: off
ELSEWHERE = [
    *family_of(
        "elsewhere", "metrics.py",
        ("rated items count as unseen", OTHER,
         "self.matrix.shape[1] - np.diff(self.matrix.indptr)",
         "np.full(*self.matrix.shape)",

         named("metrics", "test_factors_and_their_matrix_rank_alike")),
        ("a difference of zero is written out", OTHER, "if float(size) == 0:", "if value == 0:",
         named("metrics", "test_a_metric_knows_which_way_is_better")),
        ("a wanted value is not reached by itself", OTHER,
         "self.sign * value >= self.sign * target", "self.sign * value > self.sign * target",
         named("metrics", "test_a_metric_knows_which_way_is_better")),
        ("HR@10 of all items is that of a hundred", REUSED, '"hr@10_full": full.hr',
         '"hr@10_full": sampled.hr',
         named("metrics", "test_evaluate_measures_lists_among_a_hundred_and_among_all")),
        ("HR@10 of all items is the headline", OTHER, "METRICS[_HEADLINE_METRICS[task]]",
         "METRICS[_PER_RATING_METRICS[task]]",
         named("metrics", "test_all_that_is_measured_is_a_metric_and_each_task_has_a_headline")),
    ),
    *family_of(
        "elsewhere", "dpmc_lab/store.py",
        ("each epsilon has a curve of its own", OTHER, 'if name != "epsilon"}',
         'if name != "seed"}',
         named("store", "test_curves_collect_what_differs_in_epsilon_and_seed_only")),
        ("a failed write is no error", SKIPPED,
         '                self.connection.execute("ROLLBACK")\n            raise\n',
         '                self.connection.execute("ROLLBACK")\n',
         named("store", "test_rows_are_written_all_or_none")),
        ("a sweep overlooks rows of another process", REUSED,
         'return self._read_pragma("data_version")', 'return self._read_pragma("user_version")',
         named("sweep", "test_what_is_told_is_what_the_store_has")),
        ("an export takes any kind of file", OTHER, 'if path.suffix.lower() != ".csv":',
         "if not path.suffix:", named("store", "test_an_export_needs_a_known_kind_and_a_folder")),
        ("a store knows one of its rows", OTHER, 'return self._select_keys("")',
         'return self._select_keys("LIMIT 1")', named("pages_compare",
         "test_start_runs_only_what_is_missing_and_its_progress_never_goes_back")),
    ),
    *family_of(
        "elsewhere", "dpmc_lab/sweep/sources.py",
        ("every seed draws the same sample", REUSED,
         "datasets.load(self.sample, seed=seed, **self.options)",
         "datasets.load(self.sample, seed=1, **self.options)",
         named("sweep_data", "test_generated_data_is_one_matrix_or_a_new_one_for_each_seed")),
        ("a row has the short name of its data set as the title", OTHER,
         "return self.dataset.title", "return self.dataset.name",
         named("sweep_data", "test_a_source_opens_what_the_command_line_names")),
    ),
    *family_of(
        "elsewhere", "dpmc_lab/curves/noise.py",
        ("a matrix of items is known by its sides", UNIT,
         'return "items" if release.axes == (ItemAxis, ItemAxis) else ""',
         'return "items" if len(release.shape) == 2 and len({*release.shape}) == 1 else ""',
         named("page_noise",
         "test_pictures_do_not_depend_on_lengths_that_happen_to_be_equal[private-taste]")),
        ("the axis of the noise fits the narrowest alone", UNIT,
         "_REACH * max(getattr(release", "_REACH * min(getattr(release",
         named("page_noise", "test_densities_share_the_axis_of_the_widest")),
        ("only the noise of the first release is in words", OTHER,
         'return "; ".join(phrases) + "."', 'return phrases[0] + "."',
         named("views", "test_the_noise_of_every_release_is_told_at_an_epsilon")),
    ),
    *family_of(
        "elsewhere", "pages/ui/door.py",
        ("browsers store a refusal", OTHER, '"Cache-Control": "no-store", "X',
         '"Cache-Control": "max-age=3600", "X',
         named("door", "test_a_browser_is_refused_with_a_page_and_everything_else_with_a_line")),
    ),
    *family_of(
        "elsewhere", "pages/ui/jobs.py",
        ("the time of a paused run goes on", UNIT,
         "self._started += time.monotonic() - wait_start", "self._started += 0 * wait_start",
         named("jobs", "test_step_pause_and_resume")),
        ("a job that ends frees two places", OTHER, "            self._free += 1\n",
         "            self._free += 2\n",
         named("jobs", "test_at_most_so_many_at_once_and_then_in_order")),
    ),
    *family_of(
        "elsewhere", "pages/protocol.py",
        ("the protocol does not play by itself", OTHER,
         "run_every=PLAY_SECONDS if playing else None", "run_every=None",
         named("browser_noise", "test_the_protocol_plays_by_itself_until_it_is_stopped")),
        ("the protocol lacks its privacy card", SKIPPED,
         "blocks.show_expander(\n"
         '        "What is promised", lambda: blocks.show_guarantee(guarantee, id),'
         ' key="promised"\n    )',
         'blocks.show_expander("What is promised", lambda: None, key="promised")',
         named("page_protocol", "test_phases_are_played_and_paid_for_on_the_card")),
    ),
    *family_of(
        "elsewhere", "pages/guarantees.py",
        ("the report of an audit lacks its first finding", OTHER, "for finding in report.findings:",
         "for finding in report.findings[1:]:",
         named("page_guarantees", "test_an_audit_that_finds_nothing_confirms_nothing")),
        ("a privacy card ignores the cap on ratings", SCALE, "min(cap, public.cap or cap)",
         "public.cap or 2 * cap",
         named("pages", "test_guarantees_need_public_facts_only_and_a_cap_bounds_a_row")),
    ),
    *family_of(
        "elsewhere", "problem.py",
        ("a split has the name of its class", OTHER,
         "        return str(self)\n\n    @property\n    def options",
         "        return type(self).__name__\n\n    @property\n    def options",
         named("experiment", "test_every_split_says_what_it_is")),
        ("the first ratings of each user are held out", REUSED,
         "return rank_within_user(ratings, rng.random(len(ratings)))",
         "return rank_within_user(ratings, np.arange(len(ratings)))",
         named("splits", "test_per_user_share_is_exact_on_average_and_leaves_one_in_training")),
    ),
    *family_of(
        "elsewhere", "pages/ui/rows.py",
        ("visitors of a class are invited to start runs", OTHER,
         "is_reserved = blocks.is_reserved_for_teacher(\n"
         '            "compute it", "What is there is drawn for everybody."\n'
         "        )", "is_reserved = False",
         named("page_room", "test_in_a_class_only_the_teacher_uploads_computes_and_downloads")),
    ),
    *family_of(
        "elsewhere", "pages/ui/private.py",
        ("uploads of a killed server stay on the disk", SKIPPED,
         "    for folder in PrivateFolder.claim_orphans():\n"
         "        _remove_folder(folder)",
         "    for _ in PrivateFolder.claim_orphans():\n"
         "        pass",
         named("sweep_children", "test_uploads_of_a_server_whose_machine_stopped_are_removed")),
    ),
    *family_of(
        "elsewhere", "dpmc_lab/sweep/grid.py",
        ("a range of seeds lacks its last seed", OTHER, "seeds += range(low, high + 1)",
         "seeds += range(low, max(high, low + 1))",
         named("sweep_cli", "test_seeds_are_lists_or_ranges")),
        ("the grid repeats an epsilon and skips another", OTHER, "yield ordered[middle]",
         "yield ordered[high]", named("sweep", "test_the_curve_is_seen_early_and_then_filled")),
        ("a setting for all overrides the setting of one mechanism", OTHER,
         "and (\n"
         '                mechanism_id or f"{id}.{setting_name}" not in self.settings\n'
         "            )", "", named("sweep", "test_settings_reach_the_mechanisms_that_have_them")),
        ("a grid as published keeps the usual settings", SKIPPED,
         "return replace(self, settings=settings)",
         "return replace(self, settings=dict(self.settings))",
         named("as_published", "test_a_grid_as_published_is_the_grid_with_these_settings")),
        ("a range from a number to itself is accepted", OTHER, "if low >= high:", "if low > high:",
         named("sweep_cli", "test_junk_in_epsilons_is_a_sentence")),
        ("a mechanism runs before its baseline", OTHER,
         "yield from by_epsilon.pop(float(epsilon), [])",
         "yield from by_epsilon.pop(float(epsilon), [])[::-1]",
         named("sweep", "test_a_curve_has_its_first_point_before_the_floors_of_all_others")),
    ),
    *family_of(
        "elsewhere", "dpmc_lab/sweep/engine.py",
        ("a sweep takes every core of the machine", OTHER, "return len(os.sched_getaffinity(0))",
         "return os.cpu_count() or 1",
         named("sweep", "test_there_are_as_many_processes_as_cores_that_may_be_used")),
        ("workers of a sweep lack plug-ins", SKIPPED,
         "self._reader,\n"
         "           "
         " dict(plugins.list_loaded_plugins())", "self._reader, {}",
         named("plugins", "test_a_sweep_runs_it_in_its_workers_and_the_store_lives_without_it")),
    ),
    *family_of(
        "elsewhere", "dpmc_lab/curves/data.py",
        ("the busiest user has as many ratings as the least busy", OTHER,
         "{format_count(users.ratings[0], 'rating')}",
         "{format_count(users.ratings[-1],"
         " 'rating')}", named("views", "test_tails_fall")),
    ),
    *family_of(
        "elsewhere", "dpmc_lab/curves/lines.py",
        ("public facts alone are no baseline", OTHER,
         "baselines |= {\n"
         "            registry.WITHOUT_OTHERS_BASELINES[cls.task]\n"
         "            for cls in classes\n"
         "            if registry.can_use_item_features(cls)\n"
         "        }", "pass", named("page_facts",
         "test_what_if_draws_both_curves_and_counts_the_gain_from_public_facts_alone")),
        ("a line has the ends of its own epsilons in every unit", UNIT,
         "epsilons = line.epsilon if x is None else x", "epsilons = line.epsilon",
         named("compare", "test_the_same_unit_moves_each_line_to_its_certified_value")),
        ("every curve is a curve of the chosen mechanisms", OTHER, "if curve.mechanism in ids)",
         "if ids)", named("compare", "test_lines_come_from_the_store_with_what_they_certify")),
        ("an interval ends at the mean", OTHER, "return self.mean - self.half_width",
         "return self.mean", named("views", "test_interval_is_scipys")),
    ),
    *family_of(
        "elsewhere", "dpmc_lab/curves/numbers.py",
        ("only the first epsilon lies on the slider", OTHER, "if epsilon > last:",
         "if epsilon > first:",
         named("people", "test_what_is_needed_is_read_off_an_increasing_fit")),
    ),
    *family_of(
        "elsewhere", "pages/ui/shelf.py",
        ("a new run is dropped at once", OTHER, "self._drop({oldest.number})",
         "self._drop({run.number})",
         named("page_train", "test_the_oldest_run_that_is_not_pinned_makes_room")),
        ("a ticked run cannot be unticked", OTHER, "            self.ticked.remove(number)\n",
         "            pass\n", named("page_train",
         "test_a_run_that_is_known_better_replaces_itself_and_a_third_tick_the_first")),
    ),
    *family_of(
        "elsewhere", "pages/compare.py",
        ("the CSV file holds curves that are not drawn", OTHER,
         "store.list_curves(file, keys=query.keys.curves, count=False)",
         "store.list_curves(file, count=False)",
         named("pages_compare", "test_chart_and_numbers_are_one_file_that_stands_alone")),
    ),
    *family_of(
        "elsewhere", "pages/learn.py",
        ("a lesson shows the number of the step before", UNIT,
         'f" · step {position + 1} of {len(keys)}" if is_started',
         'f" · step {position} of {len(keys)}" if is_started',
         named("page_learn", "test_one_goes_on_where_one_left_off")),
    ),
    *family_of(
        "elsewhere", "dpmc_lab/curves/training.py",
        ("a film lacks its last round", SKIPPED,
         "first or step.final or step.index == step.total or step.index % self._every == 0",
         "first or step.index % self._every == 0",
         named("views_training", "test_a_film_keeps_an_even_choice_of_rounds_and_the_last_one")),
    ),
    *family_of(
        "elsewhere", "dpmc_lab/curves/protocol.py",
        ("a single phase divides epsilon", OTHER, "if gap.phases > 1\n", "if gap.phases > 0\n",
         named("page_protocol",
         "test_the_price_in_accuracy_is_measured_on_request_and_can_be_dropped")),
    ),
    *family_of(
        "elsewhere", "pages/room.py",
        ("hands cannot be counted if phones can answer", SKIPPED,
         'show_safely("The count of hands", show_hand_count, room, view)\n            with right',
         "pass\n            with right",
         named("page_room", "test_reports_reach_the_projector_and_another_tab_agrees")),
        ("a room without phones does not ask its first question", SKIPPED, "        room.ask(0)\n",
         "        pass\n", named("page_room", "test_hands_are_counted_by_the_rule_of_the_coins")),
    ),
    *family_of(
        "elsewhere", "pages/ui/widgets.py",
        ("a list offers settings that cannot be read", OTHER,
         "    except DpmcError:\n        return False\n    return True\n",
         "    except DpmcError:\n        return True\n    return True\n", named("pages",
         "test_a_setting_that_makes_no_sense_in_a_link_is_told_and_cannot_be_trained")),
    ),
    *family_of(
        "elsewhere", "pages/ui/classroom.py",
        ("an address saves up visits without limit", UNIT,
         "tokens = min(self._burst, tokens + (now - last_time) * self._rate)",
         "tokens = tokens + (now - last_time) * self._rate",
         named("classroom", "test_an_address_has_a_burst_and_then_a_pace")),
        ("phones ignore the base path", OTHER, 'base = f"/{base.strip(\'/\')}".rstrip("/")',
         'base = ""', named("classroom", "test_under_a_base_path_everything_moves_with_it")),
    ),
    *family_of(
        "elsewhere", "dpmc_lab/curves/trade.py",
        ("baselines of a trade-off are the mechanisms again", OTHER,
         "for curve_lines in (chart.lines, chart.private_baselines)",
         "for curve_lines in (chart.lines, chart.lines)",
         named("trade", "test_every_method_of_a_sample_is_there_once")),
    ),
    *family_of(
        "elsewhere", "pages/data.py",
        ("the page of the data lacks its pictures", SKIPPED,
         "    show_charts(data)\n\n\ndef", "\n\ndef",
         named("pages", "test_every_chart_has_words_and_a_table_that_unfolds")),
    ),
    *family_of(
        "elsewhere", "dpmc_lab/curves/comparison.py",
        ("differences to the best are not taken seed by seed", OTHER,
         "(plotted.line.values - np.array(best_values))",
         "(plotted.line.values - np.array(best_values).mean(axis=1, keepdims=True))",
         named("compare",
         "test_differences_to_the_best_are_taken_seed_by_seed_and_the_best_is_at_zero")),
    ),
    *family_of(
        "elsewhere", "dpmc_lab/curves/cards.py",
        ("a certified epsilon has no delta", UNIT,
         "return guarantee.claimed.delta if guarantee.claimed else 0.0", "return 0.0",
         named("views", "test_ledger_prices_gaussian_noise_at_the_claims_delta")),
    ),
    *family_of(
        "elsewhere", "dpmc_lab/curves/as_published.py",
        ("settings that agree with the paper count as exceptions", OTHER,
         "if name in user_settings and user_settings[name] != value\n"
         "    }", "if name in user_settings}",
         named("as_published", "test_what_is_set_wins_and_is_said")),
    ),
    *family_of(
        "elsewhere", "pages/ui/sources.py",
        ("a picture of noise has the ratings of another task", REUSED,
         'f"corner for {task.value}"', '"corner"',
         named("page_noise", "test_noise_is_drawn_on_ratings_as_the_method_s_task_takes_them")),
    ),
    *family_of(
        "elsewhere", "dpmc_lab/sweep/cluster.py",
        ("a cluster of another version computes rows", OTHER, "if versions != {get_version()}:",
         "if not versions:", named("sweep_cli", "test_a_cluster_of_another_version_is_refused")),
    ),
]
