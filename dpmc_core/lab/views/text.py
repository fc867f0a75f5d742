"""Text that others wrote: what a link, a file or an upload says is shown, never obeyed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dpmc_core.errors import printable

# Readers of Markdown look for addresses, emoji and arrows once more in what they have read, where
# a backslash no longer helps: what must not be found then is parted by something unseen.
_PART = "\0"
_FOUND_LATER = re.compile(r"@|:(?=//|material|[\w+-]+:)|www(?=\.)", re.IGNORECASE)
_ARROW = re.compile(r"(?<![^\s\0])(?:<->|->|<-|--|>=|<=|~=)(?![^\s\0])")
_SIGN = re.compile(r"[\\`*_{}\[\]<>#|~$:&@]|^[-+=]")
_NUMBER = re.compile(r"^(\d+)([.)])")


def escape_markdown(text: str, unseen: str = "<!-- -->") -> str:
    """Markdown that is read as `text`, in one line.

    What cannot be shown becomes what `printable` says. unseen: Markdown of nothing at all.
    """
    text = printable(" ".join(text.split()))
    text = _FOUND_LATER.sub(rf"\g<0>{_PART}", text)
    text = _ARROW.sub(lambda arrow: _PART.join(arrow[0]), text)
    text = _NUMBER.sub(r"\1\\\2", _SIGN.sub(r"\\\g<0>", text))
    return text.replace(_PART, unseen)


def columns(names: Sequence[str], rows: Iterable[Sequence[object]]) -> dict[str, list[object]]:
    """A table of rows by its columns."""
    found = list(rows)
    return {name: [row[k] for row in found] for k, name in enumerate(names)}
