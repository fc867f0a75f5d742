"""Which version of this package runs."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def version() -> str:
    """As installed, or of the checkout it runs from."""
    from importlib import metadata

    try:
        return metadata.version("dpmc-lab")
    except metadata.PackageNotFoundError:
        import tomllib

        project = Path(__file__).resolve().parent.parent / "pyproject.toml"
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
