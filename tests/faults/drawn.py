"""Faults whose place and kind were drawn from the hash of the commit they were planted on.

Listed are those that no quick test of the module noticed then.
"""

from __future__ import annotations

from tests.faults.base import OTHER, SCALE, SKIPPED, family_of, named

_DRAWINGS = "test_a_slide_reveals_wherever_its_controls_stand"

# fmt: off
DRAWN = [
    *family_of(
        "drawn", "mechanisms/references.py",
        ("few ratings: twice as many are few", SCALE, "_MIN_RATINGS = 200 ", "_MIN_RATINGS = 400 ",
         named("references", "test_few_ratings_hold_none_out[200]")),
    ),
    *family_of(
        "drawn", "mechanisms/dp_sgd.py",
        ("the features of an item are subtracted from its factors", OTHER,
         "3 + self.plan_factors(public).rank", "3 - self.plan_factors(public).rank",
         named("dp_sgd", "test_a_published_item_has_its_factors_and_three_features[2]")),
        ("the mean decays by a cube", SCALE, "/ (PRIORS.mean * width)) ** 2",
         "/ (PRIORS.mean * width)) ** 3",
         named("dp_sgd", "test_the_mean_decays_by_its_noise_over_its_prior")),
    ),
    *family_of(
        "drawn", "mechanisms/cleansing.py",
        ("weights that noise drowned count a hundred times too much", SCALE, "_MIN_WEIGHT = 0.01 ",
         "_MIN_WEIGHT = 1.01 ",
         named("user_level_solvers", "test_covariances_shrink_towards_their_average")),
    ),
    *family_of(
        "drawn", "mechanisms/user_ranking.py",
        ("the source says Gaussian where the noise is Laplace", OTHER,
         'source="Gaussian mechanism" if self.delta else "Laplace mechanism"',
         'source="Gaussian mechanism"', named("contract",
         "test_a_source_that_names_a_mechanism_names_the_noise_that_is_drawn"
         "[private-popularity-delta]")),
    ),
    *family_of(
        "drawn", "solvers/sizes.py",
        ("a rank of all items is refused", OTHER, "if rank > public.items:",
         "if rank >= public.items:",
         named("settings", "test_a_rank_is_at_most_the_number_of_items")),
    ),
    *family_of(
        "drawn", "dpmc_lab/papers/z16.py",
        ("what was measured at an epsilon is not kept", SKIPPED, "        rows.append(\n",
         "        dict(\n", named("recovery",
         "test_reports_are_no_further_off_than_theorem_3_says")),
    ),
    *family_of(
        "drawn", "dpmc_lab/cli/interface.py",
        ("a command without details does not say what it does", OTHER,
         "description=details or head", "description=details and head",
         named("interface", "test_every_option_has_its_words")),
    ),
    *family_of(
        "drawn", "pages/ui/charts/room.py",
        ("a throw at the edge stands under no answer", OTHER, "if heads <= rule.heads]",
         "if heads < rule.heads]", named("room_views",
         "test_every_throw_stands_under_the_answer_that_is_then_shown")),
    ),
    *family_of(
        "drawn", "dpmc_lab/views/cards.py",
        ("a row has reasons where nothing is wrong", OTHER,
         "if proved.finite and not proved_per_user.finite:",
         "if proved.finite or not proved_per_user.finite:",
         named("page_guarantees", "test_a_row_gives_each_of_its_reasons_once")),
        ("a limit of 99.9 % is none", OTHER, '"at most " * (share <= MAX_INFORMATIVE_RATE)',
         '"at most " * (share < MAX_INFORMATIVE_RATE)',
         named("people", "test_a_limit_is_rounded_up")),
    ),
    *family_of(
        "drawn", "solvers/recovery.py",
        ("the rule of the noise level sets no penalty", SKIPPED,
         "if self.rule is Rule.NOISE_LEVEL:", "if False:",
         named("recovery", "test_a_rule_sets_the_penalty_or_the_residual")),
    ),
    *family_of(
        "drawn", "solvers/item_effects.py",
        ("how much users differ is divided by the unit of its statistic", SCALE,
         "MAX_STATISTIC * numerators", "MAX_STATISTIC / numerators", named("user_level_solvers",
         "test_how_much_users_differ_lies_between_the_sums_and_the_prior")),
    ),
    *family_of(
        "drawn", "dpmc_lab/study/verify.py",
        ("every file is said to hold a row of each user's", OTHER,
         "PER_USER_ARRAYS & set(arrays) else", "set(arrays) else",
         named("verify", "test_every_release_is_accepted[private-popularity]")),
    ),
    *family_of(
        "drawn", "dpmc_lab/classroom/pictures.py",
        ("a plot of intervals lacks its intervals", SKIPPED,
         "boxes.append(escape(label) + _box(f\"scale {'usefulness' if k else 'noise'}\", marks))",
         "boxes.append(escape(label))", named("lessons", f"{_DRAWINGS}[crowd]")),
    ),
    *family_of(
        "drawn", "dpmc_lab/classroom/numbers.py",
        ("an interval that contains the truth is said to miss it", OTHER,
         "poll.of_class.low <= truth <=", "poll.of_class.low > truth <=",
         named("lesson_numbers",
               "test_a_throw_says_of_itself_whether_the_interval_becomes_longer")),
    ),
]
