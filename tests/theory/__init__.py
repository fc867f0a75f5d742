"""The numbers beside the papers' theorems, computed again: bounds, and small instances measured.

Each module has the bounds of a paper as functions and `theorems`, which yields the numbers of each
row of its table in order: bound, printed, measured, spread, trivial.
"""

import math

import numpy as np


def make_row(_name, /, **numbers):
    """The numbers of a row; its name tells a reader which statement it is."""
    return {name: number for name, number in numbers.items() if number is not None}


def predict_end(mechanism, ratings, seed=0):
    """What a mechanism ends with, users x items."""
    *_, last = mechanism.fit(ratings, np.random.default_rng(seed))
    return np.asarray(last.model.predict(*np.indices(ratings.shape)), dtype=float)


def summarise_mean(values):
    """What was measured, and its standard error, of independent draws."""
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    return {"measured": float(np.mean(values)), "spread": float(error)}
