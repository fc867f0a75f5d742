"""Faults whose place and kind were drawn from the hash of the commit they were planted on.

Of each draw only those are listed that no quick test of the module noticed then.
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
