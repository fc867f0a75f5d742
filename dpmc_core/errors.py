"""Errors that a person can act on: each names the field, the limit and the value."""

from __future__ import annotations

import difflib
import math
import numbers
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TypeVar

N = TypeVar("N", int, float)
_UNPRINTABLE = re.compile("[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# End of a rating range, and the reciprocal of its smallest width: sums of squares stay numbers.
MAX_ABS_RATING = 1e15


def make_printable(text: str, *, keep_newlines: bool = False) -> str:
    r"""Escape the characters of foreign text that control a terminal or mislead a reader.

    Control characters, ends of lines, marks of the writing direction and lone surrogates are
    written as JSON writes them, for example \u001b.

    Args:
        text: the text.
        keep_newlines: whether newlines stay, because this program set them itself.
    """

    def escape(match: re.Match[str]) -> str:
        return "\n" if keep_newlines and match[0] == "\n" else f"\\u{ord(match[0]):04x}"

    return _UNPRINTABLE.sub(escape, text)


class DpmcError(Exception):
    """Base class of all errors that this package raises on purpose; `str(error)` is a sentence.

    >>> import dpmc_core as dpmc
    >>> try:
    ...     dpmc.create("input-flop", epsilon=1)
    ... except dpmc.DpmcError as error:
    ...     print(str(error).partition("?")[0])
    mechanism must be a known id, got 'input-flop'; did you mean input-flip

    Args:
        message: the sentence.
        hint: details added to the message, possibly on lines of their own.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(make_printable(str(message)) + make_printable(hint, keep_newlines=True))

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle calls the class with the message alone by default; a subclass that takes other
        # arguments would fail in the process that receives it, and that process would hang.
        return type(self).__new__, (type(self), *self.args), vars(self)


class InvalidSetting(DpmcError, ValueError):
    """A public setting (epsilon, rank, rounds, ...) outside its limits.

    >>> str(InvalidSetting("epsilon", "> 0", 0))
    'epsilon must be > 0, got 0'

    Attributes:
        field: the name of the setting.
        limit: what its value must be, to follow "must be".
        value: the value that was given.
        hint: what to do instead, as a clause; may be empty.
    """

    def __init__(self, field: str, limit: str, value: Any, hint: str = "") -> None:
        self.field, self.limit, self.value, self.hint = field, limit, value, hint
        super().__init__(
            f"{field} must be {limit}, got {format_value(value)}", f"; {hint}" * bool(hint)
        )


class BadRatings(DpmcError, ValueError):
    """Ratings that cannot be read or make no sense; the message names the place and the remedy."""


class CannotRelease(DpmcError):
    """A result that must not be published as private, or whose noise cannot be sampled exactly."""


def check_type(field: str, value: object, expected: type, remedy: str) -> None:
    """Check the type of an object that holds or describes ratings.

    Args:
        field: the name of the value in messages.
        value: the value to check.
        expected: the class of which it must be an instance.
        remedy: how to get one, as a clause.

    Raises:
        BadRatings: if it is anything else, such as a data frame.
    """
    if not isinstance(value, expected):
        raise BadRatings(
            f"{field} must be {expected.__name__}, got an object of the type"
            f" {type(value).__name__}; {remedy}"
        )


def check_number(
    field: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    integer: bool = False,
) -> None:
    """Check that a value is a finite number within limits.

    Args:
        field: the name of the value in messages.
        value: the value to check; booleans are refused.
        above: exclusive lower limit.
        at_least: inclusive lower limit.
        below: exclusive upper limit.
        at_most: inclusive upper limit.
        integer: whether the value must be an integer.

    Raises:
        InvalidSetting: if the value is no such number.
    """
    limits = above, at_least, below, at_most
    number_type = numbers.Integral if integer else numbers.Real
    if isinstance(value, bool) or not isinstance(value, number_type):
        kind = "an integer" if integer else "a number"
        raise InvalidSetting(field, f"{kind} {format_limits(*limits)}".strip(), value)
    try:
        number = float(value)
    except OverflowError:  # an integer beyond the floats
        number = math.inf
    # With limits NaN fails below, because all its comparisons are false; the message names them.
    if math.isinf(number) or (math.isnan(number) and limits == (None,) * 4):
        raise InvalidSetting(field, f"a finite number {format_limits(*limits)}".strip(), value)
    is_within_limits = (
        (above is None or number > above)
        and (at_least is None or number >= at_least)
        and (below is None or number < below)
        and (at_most is None or number <= at_most)
    )
    if not is_within_limits:
        raise InvalidSetting(field, format_limits(*limits), value)


def format_limits(
    above: float | None, at_least: float | None, below: float | None, at_most: float | None
) -> str:
    """Format the limits of a number, as in '>= 0 and < 1'; return '' if there are none."""
    limits = ((">", above), (">=", at_least), ("<", below), ("<=", at_most))
    return " and ".join(f"{sign} {bound:g}" for sign, bound in limits if bound is not None)


def check_range(low: Any, high: Any) -> None:
    """Check that two numbers are the ends of a rating range, in rating points.

    Raises:
        InvalidSetting: if either end is no number, low is not below high, an end exceeds
            `MAX_ABS_RATING` in absolute value, or the range is narrower than 1 / `MAX_ABS_RATING`.
    """
    check_number("low end of the rating range", low)
    check_number("high end of the rating range", high)
    if low >= high:
        raise InvalidSetting("rating range", "a low end below its high end", f"{low:g}:{high:g}")
    if max(-low, high) > MAX_ABS_RATING or high - low < 1 / MAX_ABS_RATING:
        ends = f"{-MAX_ABS_RATING:g}:{MAX_ABS_RATING:g}"
        allowed = f"within {ends} and at least {1 / MAX_ABS_RATING:g} wide"
        raise InvalidSetting("rating range", allowed, f"{low:g}:{high:g}")


def parse_number(number_type: type[N], text: str, field: str, limit: str = "") -> N:
    """Parse an int or float.

    Args:
        number_type: `int` or `float`.
        text: the text to parse.
        field: the name of the value in messages.
        limit: what the text must be, if that is more than an integer or a number.

    Raises:
        InvalidSetting: if the text is no such number.
    """
    try:
        return number_type(text)
    except ValueError:
        requirement = "an integer" if number_type is int else "a number"
        raise InvalidSetting(field, limit or requirement, text) from None


def parse_number_or_text(text: str) -> int | float | str:
    """Return the text as an int or float if it is one, else the text itself."""
    for number_type in (int, float):
        with suppress(ValueError):
            return number_type(text)
    return text


def unknown_name_error(
    field: str, name: str, available: Iterable[str], listing_command: str = ""
) -> InvalidSetting:
    """Build the error for a name that is not available, with the closest names as a hint.

    Args:
        field: what the name is a name of.
        name: the unknown name.
        available: all names that exist.
        listing_command: a command that lists all names, if they are too many for one sentence.
    """
    names = list(available)
    lowered = str(name).lower()
    close_matches = difflib.get_close_matches(lowered, names, n=3, cutoff=0.5)
    close_matches += [
        candidate
        for candidate in names
        if lowered and candidate.startswith(lowered) and candidate not in close_matches
    ]
    hint = f"did you mean {' or '.join(close_matches)}?" if close_matches else ""
    if listing_command:
        hint = f"{hint} {listing_command} names all {len(names)}".lstrip()
        return InvalidSetting(field, "a known id", name, hint)
    return InvalidSetting(field, f"one of {', '.join(names) or '(there are none)'}", name, hint)


def format_number(value: float) -> str:
    """Format a number with six digits if these are exact, else with all of its digits.

    No two numbers look alike. Splits and preparation steps are named and stored by this text.
    """
    short = f"{value:g}"
    return short if float(short) == value or math.isnan(value) else repr(float(value))


def capitalise(text: str) -> str:
    """Capitalise the first letter of a text; a name such as bad_rows keeps its spelling."""
    return text if "_" in text.partition(" ")[0] else f"{text[:1].upper()}{text[1:]}"


def format_sentence(text: str) -> str:
    """Add a capital letter and a full stop to a text; an empty text stays empty.

    >>> format_sentence("epsilon must be > 0, got 0")
    'Epsilon must be > 0, got 0.'
    """
    return f"{capitalise(text).rstrip('.')}." if text else ""


def format_value(value: Any) -> str:
    """Format a value as a person typed it: numbers bare, text quoted, long text shortened."""
    if isinstance(value, float):
        return format_number(value)  # 1.0000001 must not read as the limit it breaks
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    try:
        text = str(value) if is_number else repr(value)
    except ValueError:  # Python refuses to print an integer of more than 4300 digits
        text = "an integer of thousands of digits"
    if "\n" in text:  # a data frame or an array
        text = f"an object of the type {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."
