"""Build the command that releases an answer's mechanism with the same promise, and explain it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dpmc_core import registry
from dpmc_core.errors import DpmcError, format_number, format_sentence
from dpmc_core.model import Mechanism
from dpmc_core.preparation import UseItemFeatures, declare_catalogue_public
from dpmc_core.problem import prepare_all_ratings
from dpmc_core.ratings import Origin, Ratings
from dpmc_lab.study.answer import Inquiry
from dpmc_lab.study.release import check_releasable
from dpmc_lab.sweep.grid import format_command_options

FROM_DATA = "from-data"
CATALOGUE_FILE = "items.txt"
_LISTED = (
    "List in {} the ids of all items that you offer, one per line, whether rated or not. The number"
    " after --users is how many people there are; it is published."
)
_READ = (
    "--catalogue from-data weakens the promise: everybody learns which items have a rating. Take it"
    " only if they know that anyway. Such files hold no item ids, so later models do not learn from"
    " them."
)


class ReleaseCommand(NamedTuple):
    """The command that releases a mechanism, or the reason why it cannot be released.

    The names of the fields are those in the JSON of `dpmc answer` and `dpmc recommend`.

    Attributes:
        command: the line to type; empty if there is a reason.
        next: the line of the publication that follows; empty for a single one.
        note: what the reader must provide, or the reason, in sentences; empty if all is known.
    """

    command: str
    note: str
    next: str = ""


def build_method_command(
    command: str,
    method: Mechanism,
    data: str,
    reading: Mapping[str, Any],
    steps: Sequence[str] = (),
) -> list[str]:
    """Return the words of a command that trains a mechanism at the setting that it has.

    Args:
        command: its name.
        method: the mechanism.
        data: where the command finds the ratings, as it is typed.
        reading: options of `data.load` for reading a file.
        steps: the preparation.
    """
    words = ["dpmc", command, data, method.id]
    for name in ("epsilon", "delta"):
        if registry.has_setting(type(method), name):
            words += [f"--{name}", format_number(getattr(method, name))]
    return words + format_command_options(reading, steps, None)


def build_release_command(
    method: Mechanism,
    ratings: Ratings,
    data: str,
    reading: Mapping[str, Any],
    *,
    question: Inquiry | None = None,
    catalogue: str = CATALOGUE_FILE,
) -> ReleaseCommand:
    """Return the command that releases a mechanism at the setting that it has.

    Args:
        method: the mechanism.
        ratings: all ratings, before preparation.
        data: where the command finds them, as it is typed.
        reading: options of `data.load` for reading a file.
        question: the inquiry whose promise is kept; None for a single release without features.
        catalogue: a file of the ids of all items, or FROM_DATA. It only matters where the ratings
            themselves are all that is known of the items.
    """
    steps = [UseItemFeatures()] * (question is not None and question.with_item_features)
    try:
        listed = declare_catalogue_public(ratings)
        check_releasable(method, *prepare_all_ratings(listed, method.task, steps))
    except DpmcError as error:
        return ReleaseCommand("", format_sentence(str(error)))
    words = build_method_command("release", method, data, reading, [*map(str, steps)])
    note = ""
    if ratings.catalogue.origin is Origin.READ:
        words += ["--catalogue", catalogue]
        note = _READ
        if catalogue != FROM_DATA:
            words += ["--users", str(ratings.public.users)]
            note = _LISTED.format(catalogue)
    if question is None or question.times == 1:
        return ReleaseCommand(shlex.join([*words, "--out", "model.npz"]), note)
    if question.n_composed > 1:
        words += ["--budget", format_number(question.epsilon)]
    files = ["model-1.npz", "model-2.npz"]
    first, following = (
        shlex.join([*words, *earlier, "--out", file])
        for file, earlier in zip(files, ([], ["--after", files[0]]), strict=True)
    )
    return ReleaseCommand(first, note, following)
