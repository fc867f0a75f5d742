"""Facts and texts that the package carries as TOML files, read into dataclasses that check them."""

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


def load(package: str, name: str) -> dict[str, Any]:
    """The table in the TOML file `name` of a package, as in load("dpmc_core.data", "sets.toml")."""
    return tomllib.loads(resources.files(package).joinpath(name).read_text(encoding="utf-8"))


def into(cls: type[T], table: Mapping[str, Any], where: str) -> T:
    """A dataclass from a table that has all its fields without defaults, and no others.

    Args:
        cls: of text, numbers, enums by value, tuples, mappings, dataclasses and unions of these.
        where: what a message calls the table.

    Raises:
        ValueError: where a field is missing, unknown or of another type.
    """
    fields = dataclasses.fields(typing.cast(Any, cls))
    no_default = (dataclasses.MISSING, dataclasses.MISSING)
    required = {
        field.name for field in fields if (field.default, field.default_factory) == no_default
    }
    lacks, extra = required - table.keys(), table.keys() - {field.name for field in fields}
    if lacks or extra:
        raise ValueError(f"{where} lacks {sorted(lacks)} and has unknown {sorted(extra)}")
    hints = typing.get_type_hints(cls)
    return cls(**{name: _as(hints[name], table[name], f"{where}.{name}") for name in table})


def _as(kind: Any, value: Any, where: str) -> Any:
    origin, args = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):  # the first that it is
        for choice in args[:-1]:
            with contextlib.suppress(ValueError):
                return _as(choice, value, where)
        return _as(args[-1], value, where)
    if origin is tuple and isinstance(value, list):
        element_types = args[:1] * len(value) if args[-1] is ... else args
        return tuple(
            _as(element_type, element, where)
            for element_type, element in zip(element_types, value, strict=True)
        )
    if origin is Mapping and isinstance(value, dict):
        return {key: _as(args[1], element, f"{where}.{key}") for key, element in value.items()}
    if dataclasses.is_dataclass(origin) and isinstance(value, dict):
        return into(typing.cast(Any, origin), value, where)
    if isinstance(origin, enum.EnumType):
        return origin(value)
    if origin is Any or type(value) in ((int, float) if origin is float else (origin,)):
        return value
    raise ValueError(f"{where} must be {kind}, got {value!r}")
