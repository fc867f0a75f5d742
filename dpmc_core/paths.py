"""Where downloads, stored results and caches live."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def home() -> Path:
    """The folder DPMC_HOME names, else the platform's folder for user data."""
    named = os.environ.get("DPMC_HOME")
    if named:
        return Path(named).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return (Path(base) if base else Path.home() / "AppData" / "Local") / "dpmc-lab"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "dpmc-lab"
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "dpmc-lab"
