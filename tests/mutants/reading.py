"""Faults of reading."""

from __future__ import annotations

from tests.mutants.base import CLIP, OTHER, UNIT, family_of, named

_EXACT_IDS = "test_ids_that_a_float_no_longer_tells_apart_are_refused_with_its_type"
_ANY_LENGTH = "test_ids_of_any_length_keep_their_order_and_are_never_one"
_ASKED_CLICKS = "test_with_a_range_a_file_is_read_as_clicks_only_if_asked"
_BY_HAND = named("reading_fuzz", "test_by_hand")

READING = (
    family_of(
        "reading",
        "data/reading.py",
        (
            "float ids: the first two that run together pass",
            OTHER,
            "(np.abs(values[~np.isnan(values)]) >= 2.0",
            "(np.abs(values[~np.isnan(values)]) > 2.0",
            named("reading", _EXACT_IDS),
        ),
        (
            "float ids: those of float32 held to the bound of float64",
            OTHER,
            "32: 24,",
            "32: 53,",
            named("reading", _EXACT_IDS),
        ),
        (
            "float ids: half floats one bit longer",
            OTHER,
            "16: 11,",
            "16: 12,",
            named("reading", _EXACT_IDS),
        ),
        (
            "float ids: negative ones not looked at",
            OTHER,
            "(np.abs(values[~np.isnan(values)]) >=",
            "(values[~np.isnan(values)] >=",
            named("reading", _EXACT_IDS),
        ),
        (
            "ids that differ by capitals are one person",
            OTHER,
            "texts = compute.utf8_trim_whitespace(column.dictionary)",
            "texts = compute.utf8_lower(compute.utf8_trim_whitespace(column.dictionary))",
            named("reading", "test_two_ids_are_one_only_if_their_text_is_equal"),
        ),
        (
            "ids told apart by their first seven bytes alone",
            OTHER,
            "if lengths.max() > 7:",
            "if lengths.max() > 99:",
            named("reading", _ANY_LENGTH),
        ),
        (
            "ids not told apart by their length",
            OTHER,
            ">> rest << rest | lengths",
            ">> rest << rest",
            named("reading", "test_ids_that_differ_by_a_null_character_are_different"),
        ),
        (
            "ids of each row are kept however long",
            OTHER,
            "again and plain and column.nbytes <= 2 * SHORT * len(column)",
            "again and plain",
            named("reading", "test_long_ids_after_short_ones_are_kept_once"),
        ),
        (
            "ids without their leading zeros",
            OTHER,
            "texts = compute.utf8_trim_whitespace(column.dictionary)",
            'texts = compute.utf8_ltrim(compute.utf8_trim_whitespace(column.dictionary), "0")',
            named("reading", "test_two_ids_are_one_only_if_their_text_is_equal"),
        ),
    )
    + family_of(
        "reading",
        "data/text.py",
        (
            "a file with a range is clicks unasked",
            UNIT,
            "bool(unknown) or options.low is not None",
            "bool(unknown)",
            named("reading", _ASKED_CLICKS),
        ),
    )
    + family_of(
        "reading",
        "data/reading.py",
        (
            "the range is read off the data",
            CLIP,
            'low, high, origin = options.low, options.high, "the public range as given"',
            "low, high = float(np.nanmin(table.ratings)), float(np.nanmax(table.ratings))\n"
            '        origin = "the public range as given"',
            _BY_HAND,
        ),
        (
            "ratings below the range are kept",
            CLIP,
            "((table.ratings < low) | (table.ratings > high))",
            "(table.ratings > high)",
            _BY_HAND,
        ),
        (
            "who has no usable row stays in the lists",
            OTHER,
            "used = np.full(len(names), whole)",
            "used = np.full(len(names), True)",
            _BY_HAND,
        ),
        (
            "of a repeated pair the first is kept for the last",
            OTHER,
            "last = np.append(np.diff(cells) != 0, True)[: len(cells)]",
            "last = np.append(True, np.diff(cells) != 0)[: len(cells)]",
            _BY_HAND,
        ),
    )
    + family_of(
        "reading",
        "pages/data.py",
        (
            "the upload page asks for clicks by itself",
            UNIT,
            'NONE if role == "time" else None)',
            "NONE if role in NO_COLUMN else None)",
            named("pages", "test_with_a_range_an_upload_is_read_as_clicks_only_if_asked"),
        ),
    )
)
