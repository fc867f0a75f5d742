"""Public settings of a mechanism: declared once, used by the command line, the app and checks."""

from __future__ import annotations

import enum
import numbers
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, TypeVar, dataclass_transform

from dpmc_core.errors import DpmcError, InvalidSetting, check_number, unknown_name_error

T = TypeVar("T")


@dataclass(frozen=True)
class SettingInfo:
    """How a setting is described and limited in `dpmc list`, the app's widgets and error messages.

    Attributes:
        help: one line that describes the setting.
        above: exclusive lower limit.
        at_least: inclusive lower limit.
        below: exclusive upper limit.
        at_most: inclusive upper limit.
        parse: converts the text of a value; None if the type does.
        choices: the allowed values as texts.
    """

    help: str
    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    at_most: float | None = None
    parse: Callable[[str], Any] | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class PublishedSettings:
    """A mechanism as its paper has it.

    Attributes:
        settings: the paper's settings that differ from the defaults here.
        note: what the paper leaves open, and what is used instead.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


def setting(default: Any = MISSING, help: str = "", **limits: Any) -> Any:
    """Declare a dataclass field with its limits and a one-line help; `check_settings` checks it.

    Args:
        default: the default value; the setting is required without one.
        help: one line that describes the setting.
        limits: further fields of `SettingInfo`.
    """
    info = SettingInfo(help=help, **limits)
    if default is MISSING:
        return field(metadata={"setting": info})
    return field(default=default, metadata={"setting": info})


@dataclass_transform(frozen_default=True, kw_only_default=True)
def mechanism(cls: type[T]) -> type[T]:
    """Make a class a frozen, keyword-only dataclass whose fields are `setting`s."""
    return dataclass(frozen=True, kw_only=True)(cls)


def inherit_setting(declaring: type, name: str, help_note: str = "", default: Any = MISSING) -> Any:
    """Declare a setting as another class does, for a class that passes the setting on to that one.

    Args:
        declaring: the class that declares the setting.
        name: the name of the setting.
        help_note: a remark that is added to the help.
        default: replaces the default of the other class.
    """
    (inherited,) = (f for f in fields(declaring) if f.name == name)
    info: SettingInfo = inherited.metadata["setting"]
    if help_note:
        info = replace(info, help=f"{info.help} ({help_note})")
    if default is MISSING:
        default = inherited.default
    return field(default=default, metadata={"setting": info})


@dataclass(frozen=True)
class Setting:
    """One public setting of a mechanism class.

    Attributes:
        name: the name of the field.
        type: the type of its values.
        optional: whether None is allowed.
        default: the default value; `dataclasses.MISSING` if the setting is required.
        info: its description and limits.
    """

    name: str
    type: type[Any]
    optional: bool
    default: Any
    info: SettingInfo


# A cache, because type hints take long to resolve.
_settings_by_class: dict[type, tuple[Setting, ...]] = {}


def list_settings(mechanism: type) -> tuple[Setting, ...]:
    """Return the settings that a mechanism class declares, in order."""
    if mechanism in _settings_by_class:
        return _settings_by_class[mechanism]
    hints = typing.get_type_hints(mechanism)
    declared = []
    for f in fields(mechanism):
        info = f.metadata.get("setting")
        if info is None:
            continue
        variants = [hints[f.name]]  # the types of a union, as in `float | None`
        if isinstance(hints[f.name], types.UnionType):
            variants = list(typing.get_args(hints[f.name]))
        value_type = next(p for p in variants if p is not type(None))
        if not info.choices:
            info = replace(info, choices=_list_choices(value_type))
        declared.append(Setting(f.name, value_type, type(None) in variants, f.default, info))
    return _settings_by_class.setdefault(mechanism, tuple(declared))


def _list_choices(value_type: type[Any]) -> tuple[str, ...]:
    """Return the texts of all values of a boolean or enum type; other types have none."""
    if value_type is bool:
        return ("true", "false")
    return tuple(str(m.value) for m in value_type) if issubclass(value_type, enum.Enum) else ()


def check_settings(mechanism: Any) -> None:
    """Check the types of all settings, and numbers against their limits; call from __post_init__.

    A text that stands for a value of another type, as on the command line, is replaced by it.

    Raises:
        InvalidSetting: for the first setting that is invalid.
    """
    for s in list_settings(type(mechanism)):
        value = getattr(mechanism, s.name)
        if isinstance(value, str) and s.type is not str:
            value = parse_setting(type(mechanism), s.name, value)
            object.__setattr__(mechanism, s.name, value)
        if value is None and s.optional:
            continue
        if s.type in (int, float):
            info = s.info
            check_number(
                s.name,
                value,
                above=info.above,
                at_least=info.at_least,
                below=info.below,
                at_most=info.at_most,
                integer=s.type is int,
            )
        elif not isinstance(value, s.type):
            raise _build_error(s, value)


def _build_error(s: Setting, value: Any) -> InvalidSetting:
    """Build the error for a value that a setting cannot have."""
    if s.info.choices:
        return unknown_name_error(s.name, value, s.info.choices)
    type_names = {int: "an integer", float: "a number", str: "text"}
    return InvalidSetting(s.name, type_names.get(s.type) or f"a {s.type.__name__}", value)


def parse_setting(mechanism: type, name: str, text: str) -> Any:
    """Parse the text form of a setting's value; for an optional setting `none` means None.

    Raises:
        InvalidSetting: if the setting is unknown, or the text is no value of it.
    """
    declared = {s.name: s for s in list_settings(mechanism)}
    if name not in declared:
        raise unknown_name_error("setting", name, declared)
    s = declared[name]
    text = text.strip()
    if s.optional and text.lower() == "none":
        return None
    try:
        if s.info.parse is not None:
            return s.info.parse(text)
        if s.type is bool:
            return {"true": True, "false": False}[text.lower()]
        return s.type(text)  # int, float, str or an enum by its value
    except DpmcError:
        raise
    except (ValueError, KeyError):
        raise _build_error(s, text) from None


def format_setting(value: Any) -> str:
    """Format a setting's value as `parse_setting` takes it."""
    plain_value = serialise_setting(value)
    text = str(plain_value)
    return text.lower() if plain_value is None or isinstance(plain_value, bool) else text


def serialise_setting(value: Any) -> Any:
    """Return a setting's value as plain JSON; its text is what `parse_setting` takes."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, numbers.Real):  # a number of NumPy
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    return value.value if isinstance(value, enum.Enum) else str(value)
