"""Faults of released files, of what checks them, and of catalogues."""

from __future__ import annotations

from tests.faults.base import CLIP, OTHER, REUSED, SCALE, SKIPPED, UNIT, family_of, named

_ONE = "private-item-mean"

VERIFY = family_of(
    "verify",
    "dpmc_lab/study/verify.py",
    (
        "users and items read off the ratings",
        SKIPPED,
        "if catalogue.origin is Origin.READ:",
        "if catalogue.origin is None:",
        named("verify", "test_nobody_writes_a_card_on_users_and_items_that_were_read_off"),
    ),
    (
        "a public set that nobody knows",
        SKIPPED,
        "known = public_sources() if",
        "known = {source: None} if",
        named("verify", "test_a_catalogue_names_what_there_is"),
    ),
    (
        "a public set of ten times the users",
        SKIPPED,
        "if any(given > most for",
        "if any(given > 100 * most for",
        named("verify", "test_a_public_set_has_no_more_users_and_items_than_it_has"),
    ),
    (
        "a list of users where there is none",
        SKIPPED,
        "if listed is not True and (listed is not False",
        "if listed is None and (listed is not False",
        named("verify", "test_a_catalogue_names_what_there_is"),
    ),
    (
        "a digest of nothing",
        SKIPPED,
        'card.get("sha256") != card_digest(card)',
        'not card.get("sha256")',
        named("verify", f"test_no_edit_of_a_card_goes_unnoticed[{_ONE}]"),
    ),
    (
        "any text for a version",
        SKIPPED,
        "if _VERSION.fullmatch(json.dumps(of.get(name)))",
        "if name in of",
        named("verify", "test_a_version_is_one_or_refused"),
    ),
    (
        "users that no index counts",
        SKIPPED,
        "at_most=MOST",
        "at_most=10**12",
        named("verify", "test_no_more_users_than_an_index_counts_and_no_more_ratings_than_the_cap"),
    ),
    (
        "a row beyond the cap",
        CLIP,
        "most > plain.public.cap:",
        "most > 2 * plain.public.cap:",
        named("verify", "test_no_more_users_than_an_index_counts_and_no_more_ratings_than_the_cap"),
    ),
    (
        "fewer reports than users give",
        SCALE,
        "_NEVER = 2.0**-45",
        "_NEVER = 0.0",
        named("verify", "test_more_users_than_reports_can_be_of_are_refused"),
    ),
    (
        "a cell reported twice",
        REUSED,
        "(np.diff(cells) > 0)",
        "(np.diff(cells) >= 0)",
        named("verify", "test_reports_are_cells_in_order_each_once"),
    ),
    (
        "a card with more than its JSON says",
        SKIPPED,
        "if np.array(json.dumps(card)).tobytes() != text.tobytes():",
        "if json.loads(json.dumps(card)) != card:",
        named("verify", "test_a_card_in_other_letters_is_refused"),
    ),
    (
        "bytes beside the arrays",
        SKIPPED,
        "archives.arrays(path, alone=True)",
        "archives.arrays(path)",
        named("verify", "test_a_file_holds_no_byte_beside_its_arrays"),
    ),
    (
        "fields more than follow",
        SKIPPED,
        "for name in [*wanted, *(name for name in told if name not in wanted)]:",
        "for name in wanted:",
        named("verify", "test_a_surplus_field_is_refused_by_name_wherever_it_stands"),
    ),
    (
        "numbers that are nearly so",
        SCALE,
        "_CLOSE = 1e-9",
        "_CLOSE = 0.03",
        named("verify", f"test_one_edit_is_enough[{_ONE}]"),
    ),
    (
        "noise off its grid",
        SKIPPED,
        "if release is not None and not on_grid(release, array):",
        "if release is not None and not array.size:",
        named("verify", "test_an_edit_of_an_array_names_it[output]"),
    ),
    (
        "preparation that reads the ratings",
        SKIPPED,
        '_part("data.prepare", lambda: check_steps(reads_of(steps), plain))',
        '_part("data.prepare", lambda: steps)',
        named("verify", "test_another_claim_is_refused_with_the_field"),
    ),
    (
        "features that no table gives",
        SKIPPED,
        "if fault := coding_fault(public, arrays[FEATURES]):",
        'if fault := "" and coding_fault(public, arrays[FEATURES]):',
        named("verify", "test_no_forgery_is_accepted[0-private-effects]"),
    ),
    (
        "features of other items",
        OTHER,
        "zip(*norms, strict=True)) < public.columns:",
        "zip(*norms, strict=True)) < 0:",
        named("verify", "test_no_forgery_is_accepted[0-private-effects]"),
    ),
    (
        "features that are not in the file",
        SKIPPED,
        "if public.features and FEATURES not in arrays:",
        "if public.cap and FEATURES not in arrays:",
        named(
            "verify",
            "test_releases_of_the_version_before_with_features_are_refused_with_the_reason",
        ),
    ),
    (
        "a boolean is a number",
        SKIPPED,
        "if type(told) is not type(wanted):",
        "if type(told) is not type(wanted) and not isinstance(told, bool):",
        named("verify", "test_no_forgery_is_accepted[0-private-effects]"),
    ),
    (
        "a whole number with a point",
        SKIPPED,
        "if type(told) is not type(wanted):",
        "if isinstance(told, float | int) is not isinstance(wanted, float | int):",
        named("verify", "test_no_forgery_is_accepted[0-private-effects]"),
    ),
    (
        "columns named by anything",
        SKIPPED,
        'n if is_name(n) else "a name"',
        "n",
        named("verify", "test_no_forgery_is_accepted[0-private-effects]"),
    ),
    (
        "columns of any role",
        SKIPPED,
        "columns.keys() <= ROLES",
        "columns",
        named("verify", "test_no_forgery_is_accepted[0-private-effects]"),
    ),
    (
        "public facts that do not follow",
        SKIPPED,
        '_part("data", lambda: check_facts(mechanism, public, steps))',
        '_part("data", lambda: None)',
        named("verify", "test_no_forgery_is_accepted[0-private-effects]"),
    ),
)

RELEASE = [
    *family_of(
        "release",
        "dpmc_lab/study/release.py",
        (
            "columns as many as somebody likes",
            CLIP,
            "if columns not in own.columns:",
            "if not own.columns:",
            named("verify", f"test_no_column_more_than_the_settings_have[{_ONE}]"),
        ),
        (
            "factors of a matrix as many as somebody likes",
            CLIP,
            "most = max(_MOST_FACTORS, min(users, items))",
            "most = 2**62",
            named("verify", "test_no_column_more_than_the_settings_have[gradient]"),
        ),
        (
            "numbers that are none",
            SKIPPED,
            'return "" if np.isfinite(array).all() else',
            'return "" if array.size else',
            named("verify", f"test_an_edit_of_an_array_names_it[{_ONE}]"),
        ),
        (
            "ids with control characters",
            SKIPPED,
            "next(filter(_CONTROL.search, ids), None)",
            "None",
            named("verify", "test_an_id_with_control_characters_is_neither_written_nor_accepted"),
        ),
        (
            "room behind an id",
            SKIPPED,
            "if np.array(ids).dtype != array.dtype:",
            "if np.array(ids).dtype > array.dtype:",
            named("verify", "test_an_id_with_control_characters_is_neither_written_nor_accepted"),
        ),
        (
            "an id twice",
            REUSED,
            "if len(set(ids)) < len(ids):",
            "if not ids:",
            named(
                "verify", "test_names_belong_to_the_rows_and_are_there_only_where_they_are_public"
            ),
        ),
        (
            "whole numbers outside their range",
            CLIP,
            "array.min() < part.low or array.max() > high",
            "array.min() < part.low",
            named("verify", "test_an_edit_of_an_array_names_it[input-flip]"),
        ),
        (
            "ends in any order",
            SKIPPED,
            'return "" if rises or not part.rising else',
            'return "" if array.size else',
            named("verify", "test_arrays_of_whole_numbers_say_what_they_must"),
        ),
        (
            "ids of a catalogue that is not public",
            UNIT,
            "    if not catalogue.named:\n        named = {}\n    elif",
            "    if",
            named(
                "verify", "test_names_belong_to_the_rows_and_are_there_only_where_they_are_public"
            ),
        ),
        (
            "ids of users beside items alone",
            UNIT,
            "elif not (catalogue.users_listed and USER_ROWS & set(parts)):",
            "elif not catalogue.users_listed:",
            named(
                "verify", "test_names_belong_to_the_rows_and_are_there_only_where_they_are_public"
            ),
        ),
        (
            "released though read off the ratings",
            SKIPPED,
            "if ratings.catalogue.origin is Origin.READ:",
            "if ratings.catalogue.origin is None:",
            named("catalogue", "test_a_file_needs_a_catalogue"),
        ),
        (
            "released after preparation that costs",
            SKIPPED,
            "check_steps((*ratings.prepared, *reads_of(steps)), guarantee)",
            "reads_of(steps)",
            named("catalogue", "test_preparation_is_refused_just_where_it_costs_something"),
        ),
        (
            "released without a certificate",
            SKIPPED,
            "    if not found.finite:",
            "    if not found.reason and not found.finite:",
            named("secure_noise", "test_what_cannot_be_released_says_why"),
        ),
    ),
    *family_of(
        "release",
        "dpmc_lab/study/release.py",
        (
            "features of a method that uses none",
            SKIPPED,
            "return registry.takes_facts(type(mechanism)) and not local",
            "return not local",
            named("verify", "test_no_forgery_is_accepted[11-gradient]"),
        ),
        (
            "features of users' own reports",
            SKIPPED,
            "return registry.takes_facts(type(mechanism)) and not local",
            "return registry.takes_facts(type(mechanism))",
            named("verify", "test_every_method_with_features_is_released_over_a_catalogue[dplcf]"),
        ),
        (
            "a feature name twice",
            REUSED,
            "if len(set(names)) < len(names):",
            "if not names and len(set(names)) < len(names):",
            named("verify", "test_no_forgery_is_accepted[0-private-effects]"),
        ),
        (
            "a feature name of any kind",
            SKIPPED,
            'if not is_name(name) or set(name) & set(",#") or',
            'if set(name) & set(",#") or',
            named("verify", "test_no_forgery_is_accepted[0-private-effects]"),
        ),
        (
            "a feature without columns",
            CLIP,
            "if 1 <= columns <= CATEGORIES else",
            "if 0 <= columns <= CATEGORIES else",
            named("verify", "test_features_that_no_table_gives_are_not_released"),
        ),
        (
            "a digest that somebody invents",
            SKIPPED,
            "step = str(UseFacts(tuple(used), mark := digest(used)))",
            "mark = digest(used)\n    step = next(t for t in steps if t.startswith('features'))",
            named("verify", "test_no_forgery_is_accepted[0-private-effects]"),
        ),
        (
            "no word of the features",
            SKIPPED,
            "known.append(condition)",
            "known.append(str(public.cap))",
            named(
                "verify",
                "test_every_method_with_features_is_released_over_a_catalogue[private-effects]",
            ),
        ),
        (
            "released though the user was guessed",
            UNIT,
            'if "user" in ratings.columns.guessed:',
            'if "person" in ratings.columns.guessed:',
            named("verify", "test_a_release_names_the_columns_and_a_guessed_user_is_refused"),
        ),
        (
            "columns of a file with any name",
            SKIPPED,
            '        if not is_name(name):\n            raise CannotRelease(f"the name of',
            '        if name is None:\n            raise CannotRelease(f"the name of',
            named("verify", "test_a_release_names_the_columns_and_a_guessed_user_is_refused"),
        ),
        (
            "a cap from nowhere",
            CLIP,
            "cap=min(caps, default=None)",
            "cap=min(caps, default=public.cap)",
            named(
                "verify", "test_no_more_users_than_an_index_counts_and_no_more_ratings_than_the_cap"
            ),
        ),
        (
            "logarithms held against the grid",
            OTHER,
            "return None if guarantee.public.features else guarantee.per_item",
            "return guarantee.per_item",
            named("verify", "test_no_forgery_is_accepted[3-private-popularity]"),
        ),
        (
            "scores of another user in the ten lines",
            OTHER,
            'Z[rated].T @ (x - base[rated]))"',
            'Z[rated].T @ (x - base.mean()))"',
            named("verify", "test_ten_lines_recommend_for_one_user"),
        ),
    ),
    *family_of(
        "release",
        "dpmc_lab/cli/promises.py",
        (
            "noted by the plain card",
            OTHER,
            "cards.certified(found.guarantee.certified())",
            "cards.certified(made.guarantee(ratings.public).certified())",
            named("verify", "test_release_prints_one_line_to_note_by_the_card_as_sampled"),
        ),
        (
            "nobody asks whether features are public",
            SKIPPED,
            "if fact.mark and fact.name in ratings.used:",
            "if fact.mark and not ratings.used:",
            named("verify", "test_release_asks_whether_features_were_computed_from_the_ratings"),
        ),
        (
            "features of the rated items alone",
            UNIT,
            "if listing and reading.items is not None:",
            "if listing and reading.items is None:",
            named(
                "verify",
                "test_every_method_with_features_is_released_over_a_catalogue[private-effects]",
            ),
        ),
    ),
    *family_of(
        "release",
        "data/features.py",
        (
            "a category of one item",
            CLIP,
            "enough = bool((chosen.sum(axis=0) > 1).all())",
            "enough = bool((chosen.sum(axis=0) > 0).all())",
            named("verify", "test_features_that_no_table_gives_are_not_released"),
        ),
    ),
    *family_of(
        "release",
        "archives.py",
        (
            "bytes behind a stream",
            SKIPPED,
            "unpacker.eof and not unpacker.unused_data",
            "unpacker.eof",
            named("archives", "test_a_stream_that_goes_on_behind_its_end_is_damaged"),
        ),
        (
            "sizes believed",
            CLIP,
            "if packed > size or member.file_size > ratio * packed:",
            "if packed > size:",
            named(
                "archives",
                "test_what_is_damaged_or_too_much_ends_in_a_sentence_and_takes_no_memory",
            ),
        ),
        (
            "text of any code",
            CLIP,
            "((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes <= 0xDFFF))).any()",
            "(codes < 0).any()",
            named(
                "archives",
                "test_what_is_damaged_or_too_much_ends_in_a_sentence_and_takes_no_memory",
            ),
        ),
    ),
]

CATALOGUE = [
    *family_of(
        "catalogue",
        "data/transforms.py",
        (
            "places in the order of the ids",
            OTHER,
            "range(len(rated)) if shuffle is None else",
            "range(len(rated)) if users else",
            named("catalogue", "test_without_names_of_users_places_are_drawn_and_rows_stay_whole"),
        ),
        (
            "users said to be listed",
            UNIT,
            "users_listed=names is not None",
            "users_listed=True",
            named("catalogue", "test_without_names_of_users_places_are_drawn_and_rows_stay_whole"),
        ),
        (
            "ratings outside let in",
            SKIPPED,
            "if told and outside is Outside.ERROR:",
            "if not told and outside is Outside.ERROR:",
            named("catalogue", "test_ratings_outside_are_refused_or_left_out_and_told"),
        ),
        (
            "ratings by users outside kept",
            CLIP,
            "inside = (u >= 0) & (i >= 0)",
            "inside = i >= 0",
            named("catalogue", "test_ratings_outside_are_refused_or_left_out_and_told"),
        ),
        (
            "read off the ratings, called public",
            UNIT,
            "catalogue=Catalogue(Origin.FROM_DATA)",
            'catalogue=Catalogue(Origin.PUBLIC, "the generated set jokes")',
            named("catalogue", "test_two_files_that_differ_by_one_item_give_releases_of_one_shape"),
        ),
        (
            "items without ratings left out",
            SKIPPED,
            "users=total, items=len(items), features=()",
            "users=total, items=int(i.max()) + 1, features=()",
            named(
                "catalogue", "test_every_listed_user_and_item_has_a_row_in_the_order_of_the_lists"
            ),
        ),
        (
            "users listed twice",
            REUSED,
            "if len(found) < len(ids):",
            "if not ids:",
            named("catalogue", "test_ratings_outside_are_refused_or_left_out_and_told"),
        ),
    ),
    *family_of(
        "catalogue",
        "dpmc_lab/cli/promises.py",
        (
            "places told by the ids where a promise covers existence",
            OTHER,
            "shuffle = random.SystemRandom() if change.covers_existence else None",
            "shuffle = None if change.covers_existence else random.SystemRandom()",
            named(
                "catalogue",
                "test_the_command_draws_the_places_of_users_whose_number_alone_is_known",
            ),
        ),
    ),
    *family_of(
        "catalogue",
        "ratings.py",
        (
            "ids published that were read off the ratings",
            UNIT,
            "return self.origin in (Origin.PUBLIC, Origin.GIVEN)",
            "return self.origin is not Origin.READ",
            named(
                "verify", "test_names_belong_to_the_rows_and_are_there_only_where_they_are_public"
            ),
        ),
    ),
]
