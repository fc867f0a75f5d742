"""Define options that several commands share: the data, their public range, and typed values."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from dpmc_core import registry
from dpmc_core.arrays import JsonObject
from dpmc_core.errors import (
    BadRatings,
    InvalidSetting,
    format_limits,
    parse_number,
    parse_number_or_text,
    unknown_name_error,
)
from dpmc_core.model import Mechanism, Task
from dpmc_core.preparation import Transform, parse_step
from dpmc_core.privacy import CELL, RATING, USER_EMPTIED, USER_REPLACED, Change
from dpmc_core.problem import LeaveLast, RandomShare, SharePerUser, Split
from dpmc_core.ratings import OTHERS, Ratings
from dpmc_core.settings import Setting, list_settings, serialise_setting
from dpmc_data import LoadedDataset, ReadOptions, datasets
from dpmc_data.public_inputs import read_setting
from dpmc_data.synthetic import GENERATORS
from dpmc_lab.cli.interface import (
    ExclusiveOptions,
    Option,
    Progress,
    build_reader,
    format_document_table,
)
from dpmc_lab.sweep.grid import DEFAULT_SEED, is_ranking_only
from dpmc_lab.views import as_published as published
from dpmc_lab.views.answer import FREQUENCY_LABELS
from dpmc_lab.views.cards import label_columns

UNITS = {
    "rating": RATING,
    "cell": CELL,
    "user": USER_EMPTIED,
    "user-replaced": USER_REPLACED,
}
# Options of --read whose value stays text. A column's value is its number, such as 1, or its name,
# such as 007.
_TEXTS = ("separator", "encoding")
_COLUMNS = ("user", "item", "rating", "time")


def _parse_range(text: str) -> tuple[float, float]:
    """Parse LO:HI."""
    low, high = map(float, text.split(":"))
    return low, high


DATA = "a sample, a downloaded set, a file, or a folder with a known set or Parquet files"
Data = Annotated[str, Option("DATA", DATA)]
Method = Annotated[str, Option("MECHANISM", "the id of a mechanism, see dpmc list")]
Epsilon = Annotated[float, Option("E", "privacy budget, above 0")]
Delta = Annotated[float, Option("D", "delta of the guarantee, from 0 to 1")]
SettingTexts = Annotated[tuple[str, ...], Option("NAME=VALUE", "a setting (repeatable)")]
SettingListTexts = Annotated[
    tuple[str, ...],
    Option(
        "NAME=VALUE,...",
        "values of a setting, for all mechanisms that have it or as MECHANISM.NAME (repeatable)",
    ),
]
Steps = Annotated[
    tuple[str, ...],
    Option(
        "STEP=VALUE",
        "binarise=middle|mean|VALUE, implicit=all|VALUE, top-items=N, cap=N, rescale=LO:HI,"
        " features[=NAME,...] (repeatable, in order; binary mechanisms default to binarise=middle,"
        " ranking ones to implicit=all)",
    ),
]
Published = Annotated[
    bool, Option(help="use the settings of the mechanism's paper; --set overrides them")
]
Predicted = Annotated[
    Task | None,
    Option(help="what to predict (default: ratings; ranking if all data are clicks)"),
]
Unit = Annotated[Change, Option(choices=UNITS)]
Seed = Annotated[int, Option("N", f"seed of every draw (default {DEFAULT_SEED}, as in the app)")]
Seeds = Annotated[list[str] | None, Option("N")]


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """Options for reading ratings.

    Args:
        range (LO:HI): lowest and highest possible rating, known without reading any
        user (COL): name or number of the column that identifies the person
        read (NAME=VALUE): how to read a file: user, item, rating, time = a column's name or number
            (rating or time = none), duplicates = last|mean, bad_rows = leave-out, header = yes|no,
            layout = rows|wide|transposed|adjacency, values = WORD:NUMBER,... or a scale, missing =
            what stands for "not rated", event = COLUMN:VALUE, separator, encoding, max_rows and
            max_bytes = limits that follow the free memory (repeatable)
        items (FILE): public facts about items, as CSV or Parquet with one row per item and its id
            in one column; mechanisms use all columns, or those that --prepare features=NAME,...
            names
    """

    range: Annotated[
        tuple[float, float] | None,
        Option(parse=build_reader(_parse_range, "LO:HI, for example 1:5")),
    ] = None
    user: str | None = None
    read: tuple[str, ...] = ()
    items: str | None = None

    @property
    def ends(self) -> dict[str, float]:
        """Return the ends of the given range as {'low': ..., 'high': ...}."""
        return {} if self.range is None else dict(zip(("low", "high"), self.range, strict=True))

    def load_options(
        self, data: str, task: Task | None = None, steps: Iterable[str] = ()
    ) -> JsonObject:
        """Return all arguments of `datasets.load` besides the data.

        Args:
            data: as typed.
            task: what the data are for, if it was given.
            steps: their preparation, as text.

        Raises:
            InvalidSetting: reading has no such option.
        """
        keywords: JsonObject = dict(self.ends)
        if self.items is not None:
            keywords["items"] = self.items
        if is_ranking_only([task] if task else (), steps):
            keywords["for_ranking"] = True
        fields = [f.name for f in dataclasses.fields(ReadOptions) if f.name != "for_ranking"]
        for text in (*self.read, *[f"user={self.user}"] * (self.user is not None)):
            name, value = parse_assignment("--read", text)
            if name not in fields and data not in GENERATORS:
                raise unknown_name_error("--read", name, fields)
            column = name in _COLUMNS and not re.fullmatch(r"[1-9][0-9]{0,8}", value)
            keywords[name] = value if column or name in _TEXTS else parse_number_or_text(value)
        return keywords

    def load(self, data: str, task: Task | None = None, steps: Iterable[str] = ()) -> LoadedDataset:
        """Read the data with these options.

        Args:
            data: as typed.
            task: what the data are for, if it was given.
            steps: their preparation, as text.

        Raises:
            DpmcError: the data cannot be read.
        """
        with Progress() as progress:
            options = self.load_options(data, task, steps)
            return datasets.load(data, on_progress=progress.read, **options)

    def prepare(self, steps: Sequence[str], *ids: str) -> tuple[str, ...]:
        """Return the preparation as text, with the step `features` if an item table is given.

        Methods that cannot use the table are named on standard error.

        Args:
            steps: what --prepare gives.
            *ids: ids of the methods.
        """
        table = self.items is not None or any(text.startswith("items=") for text in self.read)
        if not table or registry.has_features_step(steps):
            return (*steps,)
        idle = [id for id in ids if not registry.get_mechanism(id).uses_item_features]
        if idle:
            print(f"dpmc: --items is not used by {', '.join(idle)}", file=sys.stderr)
        # No step where no method uses it: it would only change the key of the curves.
        return (*steps,) if ids and len(idle) == len(ids) else ("features", *steps)


def print_columns(ratings: Ratings, json: bool) -> None:
    """Print which columns of a file were used, to standard error if JSON is printed."""
    if columns := [f"{role} = {name}" for role, name in label_columns(ratings.columns).items()]:
        print("columns:", ", ".join(columns), file=sys.stderr if json else sys.stdout, flush=True)


def check_user_column(ratings: Ratings, data: str) -> None:
    """Check that the column naming the person was given, since a promise rests on it.

    Raises:
        BadRatings: it was guessed.
    """
    if "user" in ratings.columns.guessed:
        names = dict(ratings.columns.names)
        hint = "--read layout=wide" if names.get("item") == OTHERS else "--user COLUMN"
        raise BadRatings(
            f"{data}: the program guessed the column of users ({names['user']}). A promise to a"
            f" person depends on this column, so name it yourself ({hint})"
        )


@dataclass(frozen=True, kw_only=True)
class HeldOutOptions(ExclusiveOptions):
    """Options for holding out ratings.

    Args:
        holdout (SHARE): share of the ratings that is held out at random (default 0.2)
        holdout_per_user (SHARE): share of every user's ratings that is held out
        leave_last: hold out the latest rating of every user, or a random one if there are no times
            (default for ranking)
    """

    holdout: float | None = None
    holdout_per_user: float | None = None
    leave_last: bool = False

    @property
    def split(self) -> Split | None:
        """Return the chosen split; None for the default.

        Raises:
            InvalidSetting: a share is not valid.
        """
        if self.leave_last:
            return LeaveLast()
        if self.holdout_per_user is not None:
            return SharePerUser(self.holdout_per_user)
        return None if self.holdout is None else RandomShare(self.holdout)


@dataclass(frozen=True, kw_only=True)
class BudgetOptions:
    """The budget and the other settings of a mechanism."""

    epsilon: Epsilon | None = None
    delta: Delta | None = None
    set: SettingTexts = ()

    def parse_given(self, id: str) -> JsonObject:
        """Return the values of the settings that --set gives, by name.

        Args:
            id: of the mechanism.

        Raises:
            InvalidSetting: one is not valid.
        """
        cls = registry.get_mechanism(id)

        def hint(_: str) -> str:
            """Return the settings of the mechanism, for an error."""
            known_settings = format_settings_table(cls)
            return (
                f"{id} has these:\n{known_settings}" if known_settings else f"{id} has no settings"
            )

        return parse_settings(self.set, ("--epsilon", "--delta"), lambda _: cls, id, hint)

    def mechanism(self, id: str, as_published: bool = False) -> Mechanism:
        """Create the mechanism with these options.

        Args:
            id: of the mechanism.
            as_published: whether settings that are not given are those of its paper.

        Raises:
            InvalidSetting: one is not valid.
        """
        values = self.parse_given(id)
        if as_published:
            values = published.merge_published_settings(id, values)
        return registry.create(id, epsilon=self.epsilon, delta=self.delta, **values)


def describe_settings(cls: type[Mechanism]) -> list[JsonObject]:
    """Return name, help, default and accepted values of each setting as plain JSON values."""
    return [
        {
            "name": s.name,
            "help": s.info.help,
            "required": (missing := s.default is dataclasses.MISSING),
            "default": None if missing else serialise_setting(s.default),
            "accepts": _describe_accepted(s),
        }
        for s in list_settings(cls)
    ]


def format_settings_table(cls: type[Mechanism]) -> str:
    """Return the settings as a table; '' if there are none."""
    rows = [
        row | {"default": "required" if row["required"] else str(row["default"]).lower()}
        for row in describe_settings(cls)
    ]
    heads = {"setting": "name", "default": "default", "accepts": "accepts", "what it is": "help"}
    return format_document_table(rows, "  ", **heads) if rows else ""


def _describe_accepted(s: Setting) -> str:
    """Return the values a setting accepts in words: 'one of a, b', 'integer >= 1 or none'."""
    if s.info.choices:
        text = f"one of {', '.join(s.info.choices)}"
    else:
        kind = {int: "integer", float: "number"}.get(s.type, "text")
        info = s.info
        text = (
            f"{kind} {format_limits(info.above, info.at_least, info.below, info.at_most)}".strip()
        )
    return text + (" or none" if s.optional else "")


def parse_frequency(text: str) -> int:
    """Parse what --often gives: a word for how often one publishes, or times a year.

    Raises:
        InvalidSetting: it is neither.
    """
    times_by_word = {word: times for times, word in FREQUENCY_LABELS.items()}
    limit = f"one of {', '.join(times_by_word)}, or a number of times a year"
    return times_by_word.get(text) or parse_number(int, text, "--often", limit)


def parse_steps(texts: Iterable[str]) -> list[Transform]:
    """Return the steps of a preparation from their command-line texts.

    Raises:
        InvalidSetting: a step is not valid.
    """
    return [parse_step(text) for text in texts]


def parse_assignment(option: str, text: str, budget_options: Iterable[str] = ()) -> tuple[str, str]:
    """Parse NAME=VALUE as (NAME, VALUE).

    Args:
        option: the option, for the error.
        text: what was typed.
        budget_options: options with a setting of their own, such as --epsilon. Its name is refused
            here, because one of two budgets would win silently.

    Raises:
        InvalidSetting: the text is no assignment, or names such a setting.
    """
    name, equals, value = (field.strip() for field in text.partition("="))
    if not equals or not name:
        raise InvalidSetting(option, "NAME=VALUE", text)
    for budget_option in budget_options:
        setting_name = budget_option.strip("-").removesuffix("s")
        if name.rpartition(".")[2] == setting_name:
            raise InvalidSetting(
                option, f"another setting: {setting_name} is given with {budget_option}", text
            )
    return name, value


def parse_setting_lists(texts: Iterable[str], *options: str) -> dict[str, list[str]]:
    """Return the values of --set NAME=VALUE,... as texts by name.

    Args:
        texts: what was typed.
        *options: options with a setting of their own, such as --epsilons.

    Raises:
        InvalidSetting: a text is no such list, or names a setting of these options.
    """
    values_by_name: dict[str, list[str]] = {}
    for text in texts:
        name, values = parse_assignment("--set", text, options)
        values_by_name[name] = [value.strip() for value in values.split(",") if value.strip()]
        if not values_by_name[name]:
            raise InvalidSetting("--set", "NAME=VALUE", text)
    return values_by_name


def parse_settings(
    texts: Iterable[str],
    options: Sequence[str],
    owner: Callable[[str], type],
    owners: str,
    hint: Callable[[str], str],
) -> JsonObject:
    """Return the values of --set NAME=VALUE by name.

    Args:
        texts: what was typed.
        options: options with a setting of their own.
        owner: returns the class that has the setting of a name.
        owners: which mechanisms or flows have settings here, in words.
        hint: turns the known names of the class into a hint for the error.

    Raises:
        InvalidSetting: there is no such setting, or no such value of it.
    """
    values: JsonObject = {}
    for text in texts:
        name, value = parse_assignment("--set", text, options)
        try:
            values[name] = read_setting(owner(name), name, value)
        except InvalidSetting as error:
            if error.field != "setting":
                raise
            limit = f"a setting of {owners}"
            raise InvalidSetting("--set", limit, name, hint(error.limit)) from None
    return values
