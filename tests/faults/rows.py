"""Faults of the result store and of sweeps."""

from __future__ import annotations

from tests.faults.base import CLIP, OTHER, REUSED, SKIPPED, UNIT, family_of, named

_PARTITIONS = "test_sums_over_partitions_are_those_of_one_machine"

# fmt: off
STORE = (
    family_of(
        "store", "dpmc_lab/store.py",
        ("every epsilon is a curve of its own", OTHER,
         "curve_settings = drop_epsilon(settings)", "curve_settings = settings",
         named("store", "test_curves_collect_what_differs_in_epsilon_and_seed_only")),
        ("seeds share a row", OTHER, "mechanism, revision, settings, *seed)",
         "mechanism, revision, settings)",
         named("sweep", "test_everything_that_decides_a_result_is_in_its_key")),
        ("rows of an older revision are found", OTHER,
         "split, mechanism, revision, settings, *seed)",
         "split, mechanism, settings, *seed)",
         named("sweep", "test_a_raised_revision_is_another_unit")),
        ("the split is not in the key of a row", OTHER,
         "return digest_values(source, steps, split, mechanism,",
         "return digest_values(source, steps, mechanism,",
         named("sweep", "test_everything_that_decides_a_result_is_in_its_key")),
    )
    + family_of(
        "store", "dpmc_lab/store.py",
        ("cards and curves that nothing uses stay", OTHER, 'for table in ("curve", "card"):',
         'for table in ("curve",):',
         named("store", "test_prune_takes_rows_and_what_only_they_used")),
        ("half of the rows are written where one cannot be", OTHER,
         'self.connection.execute("ROLLBACK")', 'self.connection.execute("COMMIT")',
         named("store", "test_rows_are_written_all_or_none")),
    )
    + family_of(
        "store", "dpmc_lab/store.py",
        ("a row that differs from its checksum is read", SKIPPED, "_INTACT and not values[-1]:",
         "_INTACT and values[-1] is None:", named("store", "test_no_reader_takes_a_changed_row")),
        ("an older store never gets checksums", SKIPPED,
         'if self._read_pragma("user_version") < VERSION:', "if False:",
         named("store", "test_an_older_store_is_read_and_sealed_at_its_next_write")),
        ("an export leaves out what an index hides", SKIPPED, "if count < n_rows:",
         "if n_rows < 0:", named("store", "test_rows_that_an_index_hides_are_missed")),
    )
    + family_of(
        "store", "dpmc_lab/store.py",
        ("points of the highest seeds", OTHER, '"ORDER BY seed LIMIT ?"',
         '"ORDER BY seed DESC LIMIT ?"',
         named("store", "test_points_are_the_values_of_the_lowest_seeds")),
        ("small epsilons of a curve are left out", OTHER, "last = -1.0  #", "last = 1.0  #",
         named("store", "test_what_is_certified_comes_with_its_reasons")),
    )
    + family_of(
        "store", "dpmc_lab/store.py",
        ("a formula is exported as it is", OTHER, '        return f"\'{value}"\n    return value',
         "        return value\n    return value",
         named("store", "test_an_export_holds_every_row")),
        ("numbers are exported as text", OTHER, "    try:\n        float(value)",
         "    try:\n        raise ValueError", named("store", "test_an_export_holds_every_row")),
    )
    + family_of(
        "store", "registry.py",
        ("a shipped curve comes without its line without privacy", OTHER,
         "cls.nonprivate_counterpart, NONPRIVATE_REFERENCES[cls.task]",
         "cls.nonprivate_counterpart",
         named("shipped", "test_a_line_is_looked_at_from_one_epsilon")),
    )
    + family_of(
        "store", "dpmc_lab/shipped.py",
        ("shipped rows of an older revision are drawn", OTHER,
         'if cls is not None and cls.revision == stamp["revisions"][name]:', "if cls is not None:",
         named("shipped", "test_curves_of_another_revision_or_setting_are_left_out")),
        ("shipped rows with item features of an older revision are drawn", OTHER,
         'stamp.get("features_revision") != FEATURES_REVISION', "False",
         named("shipped", "test_curves_that_used_item_features_otherwise_are_left_out")),
    )
    + family_of(
        "store", "sample_data/compute.py",
        ("numbers of a shipped curve are cut to two digits", OTHER, 'f"{value:.6g}"',
         'f"{value:.2g}"', named("shipped", "test_a_file_comes_back_as_it_went")),
    )
)

SWEEP = (
    family_of(
        "sweep", "dpmc_lab/cli/sweep.py",
        ("a new curve has no lists without privacy to be compared with", OTHER,
         "if any(unit.curve_key not in shipped_curves for unit in first_units):",
         "if not first_units:", named("pages_compare",
         "test_with_a_new_curve_the_reference_runs_once_more_for_its_lists")),
    )
    + family_of(
        "sweep", "dpmc_lab/sweep/grid.py",
        ("the largest epsilon is never run", OTHER,
         "yield from dict.fromkeys(ordered[:1] + ordered[-1:])",
         "yield from dict.fromkeys(ordered[:1])",
         named("sweep", "test_the_curve_is_seen_early_and_then_filled")),
        ("the last seed of a range is left out", OTHER, "seeds += range(low, high + 1)",
         "seeds += range(low, max(high, low + 1))",
         named("sweep_cli", "test_seeds_are_lists_or_ranges")),
        ("epsilons are spaced evenly and not in the logarithm", OTHER,
         "np.geomspace(low, high, count)", "np.linspace(low, high, count)",
         named("sweep_cli", "test_epsilons_are_lists_or_ranges")),
    )
    + family_of(
        "sweep", "dpmc_lab/sweep/engine.py",
        ("all seeds share the first one's split", REUSED,
         "unit.seed if source.per_seed or unit.split is not None else 0",
         "unit.seed if source.per_seed else 0",
         named("sweep", "test_all_mechanisms_of_a_seed_share_its_split")),
        ("a solve is taken for that of other data", REUSED,
         "key = digest_values(mechanism.id, mechanism.revision, settings, ratings.fingerprint)",
         "key = digest_values(mechanism.id, mechanism.revision, settings)",
         named("sweep", "test_a_row_is_what_a_run_of_its_own_gives")),
        ("a solve is taken for that of other settings", REUSED,
         "key = digest_values(mechanism.id, mechanism.revision, settings, ratings",
         "key = digest_values(mechanism.id, mechanism.revision, ratings",
         named("sweep", "test_two_radii_of_a_sweep_have_a_solve_each")),
    )
    + family_of(
        "sweep", "dpmc_lab/sweep/sources.py",
        ("one draw of generated data for all seeds", REUSED,
         "return datasets.load(self.sample, seed=seed, **self.options)",
         "return datasets.load(self.sample, seed=0, **self.options)",
         named("sweep_data", "test_generated_data_is_one_matrix_or_a_new_one_for_each_seed")),
        ("an upload's cap is forgotten on its way to a sweep", OTHER,
         "metadata | ratings.public.as_dict()",
         'metadata | ratings.public.as_dict() | {"cap": None}',
         named("sweep_data", "test_a_snapshot_gives_the_same_ratings_back")),
        ("times do not name the data", OTHER,
         "None if ratings.times is None else _hash_array(ratings.times)", "None",
         named("sweep_data", "test_the_fingerprint_knows_all_that_results_depend_on")),
    )
    + family_of(
        "sweep", "dpmc_lab/sweep/engine.py",
        ("rows that wait for a locked store are dropped", OTHER,
         "self._next_write = time.monotonic() + 1.0",
         "self._next_write = time.monotonic() + 1.0\n"
         "            self._waiting.clear()",
         named("sweep", "test_a_store_that_stays_locked_is_a_sentence")),
    )
    + family_of(
        "sweep", "dpmc_lab/sweep/cluster.py",
        ("the last partition is left out of sums", OTHER,
         "sums = self.map_users(function, *state).partitions\n",
         "sums = self.map_users(function, *state).partitions[: max(1, len(self.partitions) - "
         "1)]\n", named("cluster_sums", _PARTITIONS)),
    )
    + family_of(
        "sweep", "dpmc_lab/sweep/partitions.py",
        ("a user may be in two files", UNIT, "if file_of_user.setdefault(id, path) != path:",
         "if file_of_user.setdefault(id, path) is None:",
         named("cluster_sums", "test_a_user_of_two_files_is_refused_on_a_cluster_alone")),
        ("a partition counts twice in sums", OTHER, "return sum(remaining, first)",
         "return sum(remaining, first) + (0 if remaining else first)",
         named("cluster_sums", _PARTITIONS)),
        ("what is held out hangs on the partition", OTHER,
         "times=ratings.times, user_positions=user_positions)", "times=ratings.times)",
         named("cluster_sums",
         "test_what_is_held_out_and_the_fingerprint_do_not_depend_on_partitions")),
    )
    + family_of(
        "sweep", "mechanisms/per_user.py",
        ("each partition has noise of its own", REUSED,
         "releases.counts.publish(ratings.sum_over_users(_sum_rating_weights), rng)",
         "ratings.sum_over_users(lambda features_budget: "
         "releases.counts.publish(_sum_rating_weights(features_budget), rng))",
         named("cluster_sums", _PARTITIONS)),
        ("a partition forgets to clip", CLIP,
         "values, item_effects.weights.take(chunk.items), clip)",
         "values, item_effects.weights.take(chunk.items), clip if "
         "ratings.user_positions is None else math.inf)", named("cluster_sums", _PARTITIONS)),
        ("a sum is drawn where users are", OTHER,
         "return item_sums(entries, row_factors=1.0 / np.sqrt(np.maximum(entries.counts, 1)))",
         "return item_sums(entries) + np.random.random(entries.shape[1])",
         named("cluster_sums", "test_what_is_run_again_changes_nothing_and_draws_nothing")),
    )
    + family_of(
        "sweep", "dpmc_lab/sweep/toplists.py",
        ("what is rated already is recommended", OTHER,
         "scores[train.items[train.indptr[user] : train.indptr[user + 1]]] = -np.inf",
         "scores[train.items[train.indptr[user] : train.indptr[user]]] = -np.inf",
         named("views", "test_top_items_are_the_best_unrated")),
        ("the worst items are recommended", OTHER, 'np.argsort(-scores, kind="stable")[:length]',
         'np.argsort(scores, kind="stable")[-length:]',
         named("views", "test_top_items_are_the_best_unrated")),
    )
)
