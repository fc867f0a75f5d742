"""Rating data: samples, public sets and files, read, prepared and generated."""

from __future__ import annotations

from dpmc_core.data.datasets import Dataset, load, read_pair
from dpmc_core.data.source import (
    MEGABYTE,
    SEPARATORS,
    BadRows,
    Duplicates,
    Fault,
    ReadOptions,
    Refused,
)
from dpmc_core.data.synthetic import SAMPLES
from dpmc_core.data.transforms import (
    Binarise,
    Implicit,
    OutsideRatings,
    Transform,
    align_to_catalogue,
    apply_steps,
    declare_catalogue_public,
    parse_step,
    read_ids,
)

__all__ = [
    "MEGABYTE",
    "SAMPLES",
    "SEPARATORS",
    "BadRows",
    "Binarise",
    "Dataset",
    "Duplicates",
    "Fault",
    "Implicit",
    "OutsideRatings",
    "ReadOptions",
    "Refused",
    "Transform",
    "align_to_catalogue",
    "apply_steps",
    "declare_catalogue_public",
    "load",
    "parse_step",
    "read_ids",
    "read_pair",
]
