"""What is done with the core: sweeps, studies, protocols, papers, teaching, commands."""

from typing import Any

Plain = dict[str, Any]  # JSON values
