"""Models predict cell by cell, whatever the shape of the question."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpmc_core.model import Constant, Dense, Factors, Model

RNG = np.random.default_rng(0)
LEFT, RIGHT = RNG.normal(size=(7, 3)), RNG.normal(size=(5, 3))
MODELS: dict[str, Model] = {
    "factors": Factors(LEFT, RIGHT),
    "dense": Dense(LEFT @ RIGHT.T),
    "constant": Constant(2.5),
}


def build_matrix(name: str) -> Any:
    return np.full((7, 5), 2.5) if name == "constant" else LEFT @ RIGHT.T


@pytest.mark.parametrize("name", MODELS)
def test_predictions_broadcast_like_indexing(name: str) -> None:
    model, matrix = MODELS[name], build_matrix(name)
    everyone, everything = np.arange(7), np.arange(5)
    questions: list[tuple[Any, Any]] = [
        (3, 2),
        ([0, 1, 6], [4, 4, 0]),
        (everyone[:, None], everything),
        (everyone, 2),
        ([[0, 1], [2, 3]], [1, 0]),
        (np.array([], dtype=int), np.array([], dtype=int)),
        (everyone.astype(np.int32), everyone.astype(np.int32) % 5),
    ]
    for users, items in questions:
        expected = matrix[np.asarray(users), np.asarray(items)]
        scores = model.predict(users, items)
        assert scores.shape == expected.shape
        assert scores.dtype == np.float64
        np.testing.assert_allclose(scores, expected, atol=1e-12)


@pytest.mark.parametrize("name", ["factors", "dense"])
def test_users_and_items_outside_the_matrix_are_an_error(name: str) -> None:
    with pytest.raises(IndexError):
        MODELS[name].predict(7, 0)
    with pytest.raises(IndexError):
        MODELS[name].predict([0], [5])
