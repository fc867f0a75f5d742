"""Faults of reading."""

from __future__ import annotations

from tests.faults.base import CLIP, OTHER, UNIT, family_of, named

_EXACT_IDS = "test_ids_that_a_float_no_longer_tells_apart_are_refused_with_its_type"
_ANY_LENGTH = "test_ids_of_any_length_keep_their_order_and_are_never_one"
_ASKED_CLICKS = "test_with_a_range_a_file_is_read_as_clicks_only_if_asked"
_SURVEY = "test_a_survey_is_read_where_it_names_the_person_and_asked_about_elsewhere"
_BY_HAND = named("by_hand", "test_by_hand")

# fmt: off
READING = (
    family_of(
        "reading", "dpmc_data/reading.py",
        ("float ids: the first two that run together pass", OTHER,
         "(np.abs(numbers[~np.isnan(numbers)]) >= 2.0",
         "(np.abs(numbers[~np.isnan(numbers)]) > 2.0",
         named("reading", _EXACT_IDS)),
        ("float ids: those of float32 held to the bound of float64", OTHER, "32: 24,", "32: 53,",
         named("reading", _EXACT_IDS)),
        ("float ids: half floats one bit longer", OTHER, "16: 11,", "16: 12,",
         named("reading", _EXACT_IDS)),
        ("float ids: negative ones not looked at", OTHER, "(np.abs(numbers[~np.isnan(numbers)]) >=",
         "(numbers[~np.isnan(numbers)] >=", named("reading", _EXACT_IDS)),
        ("ids that differ by capitals are one person", OTHER,
         "texts = compute.utf8_trim_whitespace(column.dictionary)",
         "texts = compute.utf8_lower(compute.utf8_trim_whitespace(column.dictionary))",
         named("reading", "test_two_ids_are_one_only_if_their_text_is_equal")),
        ("ids told apart by their first seven bytes alone", OTHER, "if lengths.max() > 7:",
         "if lengths.max() > 99:", named("reading", _ANY_LENGTH)),
        ("ids not told apart by their length", OTHER, " | lengths.astype(np.uint64)",
         "",
         named("reading", "test_ids_that_differ_by_a_null_character_are_different")),
        ("ids without their leading zeros", OTHER,
         "texts = compute.utf8_trim_whitespace(column.dictionary)",
         'texts = compute.utf8_ltrim(compute.utf8_trim_whitespace(column.dictionary), "0")',
         named("reading", "test_two_ids_are_one_only_if_their_text_is_equal")),
    )
    + family_of(
        "reading", "dpmc_data/readings.py",
        ("a file with a range is clicks unasked", UNIT, "if free or options.low is not None:",
         "if free:", named("reading", _ASKED_CLICKS)),
        ("under a header the likeliest user is taken", UNIT,
         'return user.role == "user"', "return True",
         named("columns", "test_a_header_that_does_not_name_the_user_is_asked")),
        ("of many columns without names the first is the user's", UNIT,
         "places == [*range(len(layout.columns))]", "places == [*range(len(places))]",
         named("columns", "test_without_a_header_other_columns_are_asked")),
        ("a guess is not marked", UNIT, "guessed=_list_guessed(layout, options)", "guessed=()",
         named("columns", "test_without_a_header_the_usual_order_is_a_guess")),
        ("two words become one number", OTHER, "return len({*numbers}) == len(numbers)",
         "return True", named("layouts", "test_words_keep_apart")),
        ("a reading is taken however near another one is", UNIT,
         "\nMARGIN = 0.5\n", "\nMARGIN = 0.0\n",
         named("reading", "test_two_columns_that_may_hold_the_rating_are_asked_about")),
        ("people and things are told apart by their order alone", UNIT,
         "(0.6, Evidence.more_people)", "(0.0, Evidence.more_people)",
         named("columns", "test_counts_that_speak_against_the_column_are_asked_about")),
        ("the number above a block is the person, unasked", UNIT,
         'if layout.form == "blocks" and not', "if False and not",
         named("layouts", "test_blocks_ask_what_their_numbers_name")),
    )
    + family_of(
        "reading", "dpmc_lab/cli/options.py",
        ("a guessed person is promised something", UNIT, 'if "user" in ratings.columns.guessed:',
         'if "user" in ratings.columns.names:',
         named("columns", "test_a_guessed_person_is_promised_nothing")),
        ("a table of items is left aside without --prepare", OTHER,
         "if not table or registry.has_features_step(steps):",
         "if table or"
         " registry.has_features_step(steps):", named("columns", "test_items_alone_are_used")),
    )
    + family_of(
        "reading", "dpmc_data/reading.py",
        ("the range is read off the data", CLIP,
         'return options.low, options.high, "the public range as given"',
         "ends = float(np.nanmin(table.ratings)), float(np.nanmax(table.ratings))\n"
         '        return *ends, "the public range as given"', _BY_HAND),
        ("users with one rating each are not asked about", UNIT,
         "if _are_mostly_ones(user_counts):", "if _are_mostly_ones(user_counts + 1):",
         named("columns", "test_counts_that_speak_against_the_column_are_asked_about")),
        ("ratings below the range are kept", CLIP,
         "((table.ratings < low) | (table.ratings > high))", "(table.ratings > high)",
         named("reading", "test_a_person_without_a_usable_rating_is_not_counted[b,y,0]")),
        ("who has no usable row stays in the lists", OTHER, "used[ids.codes[checked.rows]] = True",
         "used[:] = True",
         named("reading", "test_a_person_without_a_usable_rating_is_not_counted[b,y,]")),
        ("of a repeated pair the first is kept for the last", OTHER,
         "is_last = np.append(np.diff(cells[order]) != 0, True)[: len(order)]",
         "is_last = np.append(True, np.diff(cells[order]) != 0)[: len(order)]", _BY_HAND),
    )
    + family_of(
        "reading", "dpmc_data/text.py",
        ("a date that could be of two forms is one", OTHER,
         "any(reading != readings[0] for reading in readings)", "False",
         named("layouts", "test_dates_are_of_one_form_alone")),
    )
    + family_of(
        "reading", "dpmc_data/reading.py",
        ("a mark for 'not rated' is a rating", CLIP,
         "chosen &= ~table.texts.match(marks)", "chosen &= True",
         named("layouts", "test_a_mark_for_not_rated_is_asked_about")),
        ("rows of all events are read", OTHER,
         "chosen &= table.event.match(", "chosen |= table.event.match(",
         named("layouts", "test_one_kind_of_event_is_read_where_that_is_said")),
        ("a total is a person", UNIT,
         "        totals |= named\n", "",
         named("layouts", "test_a_total_is_no_person_and_no_item")),
    )
    + family_of(
        "reading", "dpmc_data/datasets.py",
        ("what leaves much out, or must be chosen, is advice", OTHER,
         "is_taken = all(fault is RANGE_ASKED for fault in self.faults)", "is_taken = True",
         named("layouts", "test_what_leaves_much_out_is_no_advice")),
    )
    + family_of(
        "reading", "pages/ui/upload.py",
        ("the range of an upload is forgotten", UNIT, "unranged | ends)", "unranged)",
         named("pages", "test_an_upload_is_read_with_the_range_given_by_hand")),
        ("the upload page reads a guessed column of users", UNIT,
         " if is_sure or (file_id, r.summary) == remembered)", ")",
         named("pages", "test_an_upload_waits_until_its_column_of_users_is_confirmed")),
    )
)
