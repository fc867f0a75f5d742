"""Rating data: samples, public sets and files, read, prepared and generated."""

from __future__ import annotations

from dpmc_core.data.datasets import Dataset, load, load_upload, preview_upload, read_pair
from dpmc_core.data.samples import SAMPLES
from dpmc_core.data.source import MEGABYTE, BadRows, Duplicates, ReadOptions
from dpmc_core.data.transforms import (
    Binarise,
    CapPerUser,
    Implicit,
    Rescale,
    TopItems,
    Transform,
    apply_steps,
    parse_step,
)

__all__ = [
    "MEGABYTE",
    "SAMPLES",
    "BadRows",
    "Binarise",
    "CapPerUser",
    "Dataset",
    "Duplicates",
    "Implicit",
    "ReadOptions",
    "Rescale",
    "TopItems",
    "Transform",
    "apply_steps",
    "load",
    "load_upload",
    "parse_step",
    "preview_upload",
    "read_pair",
]
