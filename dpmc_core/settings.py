"""Public settings of a mechanism: declared once, read by the command line, the app and checks."""

from __future__ import annotations

import dataclasses
import enum
import numbers
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

from dpmc_core.errors import DpmcError, InvalidSetting, check_number, unknown_name_error

T = TypeVar("T")


@dataclass(frozen=True)
class SettingInfo:
    """How a person sets one field: shown by `dpmc list`, the app's widgets and error sentences."""

    help: str
    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    at_most: float | None = None
    parse: Callable[[str], Any] | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class PublishedSettings:
    """A mechanism as its paper has it. settings: those whose defaults here are others; note: what
    the paper leaves open, and what is taken instead.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


def setting(default: Any = dataclasses.MISSING, help: str = "", **limits: Any) -> Any:
    """A dataclass field with its limits and a one-line help; check with `check_settings`."""
    info = SettingInfo(help=help, **limits)
    if default is dataclasses.MISSING:
        return field(metadata={"setting": info})
    return field(default=default, metadata={"setting": info})


@dataclass_transform(frozen_default=True, kw_only_default=True)
def mechanism(cls: type[T]) -> type[T]:
    """A class of public settings: a frozen, keyword-only dataclass whose fields are `setting`s."""
    return dataclass(frozen=True, kw_only=True)(cls)


def inherit_setting(
    declaring: type, name: str, help_note: str = "", default: Any = dataclasses.MISSING
) -> Any:
    """The field of another class, limits, help and default: for one that hands the setting on.

    help_note: what the help adds on where it matters. default: in the place of the other class's.
    """
    (inherited,) = (f for f in dataclasses.fields(declaring) if f.name == name)
    info: SettingInfo = inherited.metadata["setting"]
    if help_note:
        info = dataclasses.replace(info, help=f"{info.help} ({help_note})")
    if default is dataclasses.MISSING:
        default = inherited.default
    return field(default=default, metadata={"setting": info})


@dataclass(frozen=True)
class Setting:
    """One public setting of a mechanism class: name, plain type, default and its SettingInfo."""

    name: str
    type: type[Any]
    optional: bool  # None is allowed
    default: Any  # dataclasses.MISSING where required
    info: SettingInfo


_settings_by_class: dict[
    type, tuple[Setting, ...]
] = {}  # by class: type hints take long to resolve


def list_settings(mechanism: type) -> tuple[Setting, ...]:
    """The settings a mechanism class declares, in order."""
    if mechanism not in _settings_by_class:
        _settings_by_class[mechanism] = _resolve_settings(mechanism)
    return _settings_by_class[mechanism]


def _resolve_settings(mechanism: type) -> tuple[Setting, ...]:
    hints = typing.get_type_hints(mechanism)
    declared = []
    for f in dataclasses.fields(mechanism):
        info = f.metadata.get("setting")
        if info is None:
            continue
        variants = [hints[f.name]]
        if isinstance(hints[f.name], types.UnionType):
            variants = list(typing.get_args(hints[f.name]))
        value_type = next(p for p in variants if p is not type(None))
        if not info.choices:
            info = dataclasses.replace(info, choices=_list_choices(value_type))
        declared.append(Setting(f.name, value_type, type(None) in variants, f.default, info))
    return tuple(declared)


def _list_choices(value_type: type[Any]) -> tuple[str, ...]:
    if value_type is bool:
        return ("true", "false")
    return tuple(str(m.value) for m in value_type) if issubclass(value_type, enum.Enum) else ()


def check_settings(mechanism: Any) -> None:
    """Validate every setting's type, and numbers against their limits (call from __post_init__)."""
    for s in list_settings(type(mechanism)):
        value = getattr(mechanism, s.name)
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
            raise InvalidSetting(s.name, _format_requirement(s), value)


def _format_requirement(s: Setting) -> str:
    type_names = {int: "an integer", float: "a number", str: "text"}
    if s.info.choices:
        return f"one of {', '.join(s.info.choices)}"
    return type_names.get(s.type) or f"a {s.type.__name__}"


def parse_setting(mechanism: type, name: str, text: str) -> Any:
    """A setting's value from its text form (`none` for an optional one). Raises InvalidSetting."""
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
        raise InvalidSetting(name, _format_requirement(s), text) from None


def format_setting(value: Any) -> str:
    """A setting's value as `parse_setting` takes it."""
    plain_value = serialise_setting(value)
    return (
        str(plain_value).lower()
        if plain_value is None or isinstance(plain_value, bool)
        else str(plain_value)
    )


def serialise_setting(value: Any) -> Any:
    """A setting's value as plain JSON, the inverse of `parse_setting`'s text form."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, numbers.Real):  # NumPy's
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    return value.value if isinstance(value, enum.Enum) else str(value)
