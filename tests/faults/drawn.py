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
        "drawn", "solvers/item_effects.py",
        ("how much users differ is divided by the unit of its statistic", SCALE,
         "MAX_STATISTIC * sums[0]", "MAX_STATISTIC / sums[0]", named("user_level_solvers",
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
         "boxes.append(escape(label) + _box(f\"scale {'one' if k else 'other'}\", marks))",
         "boxes.append(escape(label))", named("lessons", f"{_DRAWINGS}[crowd]")),
    ),
    *family_of(
        "drawn", "dpmc_lab/classroom/numbers.py",
        ("no bounds hold anything", OTHER, "return bounds is not None and bounds.low",
         "return bounds is None and bounds.low",
         named("lessons", "test_an_interval_holds_what_lies_between_its_ends")),
    ),
]
