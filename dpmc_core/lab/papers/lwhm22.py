"""LWHM22: Li, Wei, Huang, Mao, Wang, "One-Bit Matrix Completion with Differential Privacy"."""

from __future__ import annotations

from dpmc_core.lab.papers.run import counted

__all__ = ["counted"]
