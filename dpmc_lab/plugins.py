"""Mechanisms in a user's own Python file: `dpmc fit ... --plugin my_method.py`.

An app that was started so passes the files on to the commands that it starts, in a variable.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import traceback
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from dpmc_core import registry
from dpmc_core.errors import DpmcError
from dpmc_core.model import Mechanism

VARIABLE = "DPMC_PLUGINS"  # environment variable with the paths of files, as in PATH
_loaded_sources: dict[str, bytes] = {}


def list_environment_files() -> list[str]:
    """Return the files that the environment names."""
    return [path for path in os.environ.get(VARIABLE, "").split(os.pathsep) if path]


def load_plugin(path: str | Path) -> tuple[type[Mechanism], ...]:
    """Run a Python file and register the mechanisms it defines, replacing those it had before.

    A mechanism is every class of the file with a method `fit`, unless its name begins with an
    underscore.

    Raises:
        DpmcError: if the file cannot be run, defines no mechanism, or defines one that cannot be
            registered (see `registry.add_mechanisms`).
    """
    file = Path(path)
    try:
        source = file.read_bytes()
    except OSError as error:
        raise DpmcError(f"the plugin '{path}' cannot be read: {error.strerror}") from None
    return run_plugin(str(file.resolve()), source)


def list_loaded_plugins() -> Mapping[str, bytes]:
    """Return the source of each loaded file by its path, for another process to `run_plugin`."""
    return MappingProxyType(_loaded_sources)


def run_plugin(path: str, source: bytes) -> tuple[type[Mechanism], ...]:
    """Do what `load_plugin` does, with source that was read before.

    So a second process runs what the first one ran, even if the file has changed since.

    Args:
        path: the path of the file, which identifies the plugin.
        source: the text of the file.

    Raises:
        DpmcError: as `load_plugin`.
    """
    digest = hashlib.sha256(path.encode()).hexdigest()[:8]
    name = f"dpmc_plugin_{re.sub(r'[^0-9a-zA-Z]', '_', Path(path).stem)}_{digest}"
    previous = sys.modules.get(name)
    if previous is not None and _loaded_sources.get(path) == source:
        return _find_mechanisms(previous)
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module  # where dataclasses and pickles look for it
    try:
        exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
        mechanisms = _find_mechanisms(module)
        if not mechanisms:
            raise DpmcError("it defines no mechanism: a class with the methods guarantee and fit")
        registry.MECHANISMS.replace(
            () if previous is None else _find_mechanisms(previous), mechanisms
        )
    except (Exception, SystemExit) as error:
        if previous is None:
            del sys.modules[name]
        else:
            sys.modules[name] = previous
        raise DpmcError(
            f"the plugin '{path}' cannot be used: {format_error(error, [path])}"
        ) from None
    _loaded_sources[path] = source
    return mechanisms


def format_error(error: BaseException, paths: Collection[str] = _loaded_sources) -> str:
    """Format an error as a sentence, with the last line of a plugin in its traceback.

    Args:
        error: the error; one of this package is a sentence already.
        paths: the files that count as plugins; by default those that are loaded.
    """
    if isinstance(error, DpmcError):
        return str(error)
    text = " ".join(str(error).split())
    locations = [
        (frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)
    ]
    if isinstance(error, SyntaxError):
        text = error.msg
        locations.append((error.filename or "", error.lineno))
    plugin_lines = [
        f" ({Path(path).name}, line {line})" for path, line in locations if path in paths
    ]
    return f"{type(error).__name__}: {text}" + "".join(plugin_lines[-1:])


def _find_mechanisms(module: ModuleType) -> tuple[Any, ...]:
    """Return the mechanisms that a module defines, as `load_plugin` describes them."""
    classes = {  # a dict instead of a set, because it keeps the order of the file
        value: None
        for name, value in vars(module).items()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and not name.startswith("_")
        and hasattr(value, "fit")
    }
    return tuple(classes)
