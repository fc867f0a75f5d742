"""Constants and texts that the package has as TOML files, read into dataclasses that check them."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import tomllib
import types
import typing
from collections.abc import Mapping
from importlib import resources
from typing import Any, TypeVar

T = TypeVar("T")


def load_toml(package: str, name: str) -> dict[str, Any]:
    """Load a TOML file of a package, as in load_toml("dpmc_data", "public_sets.toml")."""
    return tomllib.loads(resources.files(package).joinpath(name).read_text(encoding="utf-8"))


def build_from_table(cls: type[T], table: Mapping[str, Any], location: str) -> T:
    """Build a dataclass from a TOML table.

    The table must have all fields without defaults, and no unknown ones.

    Args:
        cls: a dataclass whose fields are text, numbers, enums (by value), tuples, mappings,
            dataclasses, or unions of these.
        table: the values by the name of their field.
        location: what messages call the table.

    Raises:
        ValueError: if a field is missing, unknown or of another type.
    """
    hints = typing.get_type_hints(cls)
    values = {
        name: _convert(hints.get(name, Any), value, f"{location}.{name}")
        for name, value in table.items()
    }
    try:
        return cls(**values)
    except TypeError as error:  # a field is missing or unknown
        raise ValueError(f"{location}: {error}") from None


def _convert(target_type: Any, value: Any, location: str) -> Any:
    """Convert a TOML value to the annotated type of a field.

    Args:
        target_type: the annotation.
        value: the value as it was read.
        location: what messages call the field.

    Raises:
        ValueError: if the value is not of that type.
    """
    origin = typing.get_origin(target_type) or target_type
    args = typing.get_args(target_type)
    if origin in (types.UnionType, typing.Union):  # the first type that fits; the last may raise
        for choice in args[:-1]:
            with contextlib.suppress(ValueError):
                return _convert(choice, value, location)
        return _convert(args[-1], value, location)
    if origin is tuple and isinstance(value, list):
        element_types = args[:1] * len(value) if args[-1] is ... else args
        return tuple(
            _convert(element_type, element, location)
            for element_type, element in zip(element_types, value, strict=True)
        )
    if origin is Mapping and isinstance(value, dict):
        return {
            key: _convert(args[1], element, f"{location}.{key}") for key, element in value.items()
        }
    if dataclasses.is_dataclass(origin) and isinstance(value, dict):
        return build_from_table(typing.cast(Any, origin), value, location)
    if isinstance(origin, enum.EnumType):
        return origin(value)
    allowed_types = (int, float) if origin is float else (origin,)  # TOML reads 1 as an int
    if origin is Any or type(value) in allowed_types:
        return value
    raise ValueError(f"{location} must be {target_type}, got {value!r}")
