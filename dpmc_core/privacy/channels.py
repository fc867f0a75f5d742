"""Channels: randomisation of symbols one by one, and of whole sparse rows of them.

A local channel randomises every cell of a row, including missing cells. It takes a sparse matrix
whose stored cells are the rated ones (a stored 0 is a rating of 0), and returns another. It
processes a block of users at a time. Time is proportional to the cells reported, not to users x
items, and so is memory, in small number types.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmc_core.arrays import AnyArray, Bools, Floats, Integers, Ints, Rng, Sparse
from dpmc_core.errors import InvalidSetting, check_number
from dpmc_core.privacy import noise
from dpmc_core.privacy.accounting import Loss, PureReleases, channel_epsilon
from dpmc_core.privacy.releases import Release, count_equal_parts, is_recording
from dpmc_core.stopping import check_cancelled

_MAX_EXPONENT = 700.0  # its exponential is still finite
_BITS_PER_BLOCK = 262_144  # bits drawn at once, which fit into the cache
_REPORTS_PER_BLOCK = 1_400_000  # approximate number of reports drawn at once, in about 100 MB
_CELLS_PER_BLOCK = 50_000_000  # cells of a block: an exact sampler draws 8 bytes for each


def _to_dense_symbols(rows: Any) -> Ints:
    """Return symbols as a dense array; a cell that sparse rows do not store is 0."""
    return (rows if isinstance(rows, np.ndarray) else rows.toarray()).astype(np.int64)


def flip_probability(epsilon: float, n_others: int = 1) -> float:
    """Return the probability of each wrong symbol in randomised response, 1/(e^epsilon + n_others).

    Args:
        epsilon: the budget of a symbol.
        n_others: the number of wrong symbols; 1 for a bit.
    """
    return 1 / (math.exp(min(epsilon, _MAX_EXPONENT)) + n_others)


@dataclass(frozen=True, kw_only=True)
class Channel(Release):
    """A release that randomises each cell on its own; its sensitivity counts changed cells."""

    @property
    def cell_epsilon(self) -> float:
        """The largest log-likelihood ratio of one cell, over all outputs and pairs of inputs."""
        raise NotImplementedError

    def loss(self, sensitivity: float) -> Loss:
        """Return the loss of a change of cells in all publications.

        Args:
            sensitivity: the number of changed cells.
        """
        if sensitivity == 0:  # no loss, even if the channel alone is unbounded
            return Loss()
        cells = count_equal_parts(sensitivity)
        epsilon_per_cell = sensitivity * self.cell_epsilon / cells
        return Loss.from_pure(PureReleases(epsilon_per_cell, self.times * cells))


@dataclass(frozen=True, kw_only=True)
class MatrixChannel(Channel):
    """A channel of symbols given by a matrix.

    Attributes:
        channel: the matrix C as rows, C[a][o] = P(output o | input a).
    """

    channel: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        ragged = len({len(row) for row in self.channel}) != 1
        if (
            ragged
            or not (self.matrix >= 0).all()
            or not np.allclose(self.matrix.sum(axis=1), 1.0, rtol=0, atol=1e-12)
        ):
            raise InvalidSetting(
                f"channel of '{self.query}'", "rows of probabilities", self.channel
            )

    @property
    def matrix(self) -> Floats:
        """The matrix as an array of shape (n_inputs, n_outputs)."""
        return np.array(self.channel, dtype=float)

    @property
    def cell_epsilon(self) -> float:
        """The pure epsilon of the matrix."""
        return channel_epsilon(self.matrix)

    def log_likelihood(self, published: Any, private: Any) -> Floats:
        """Return ln C[private, published] for each cell."""
        with np.errstate(divide="ignore"):  # an output may reveal its input
            logs = np.log(self.matrix)
        return logs[_to_dense_symbols(private), _to_dense_symbols(published)]


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(MatrixChannel):
    """Randomised response: each symbol of an array passes the matrix on its own."""

    norm: ClassVar[str] = "changed symbols"

    @classmethod
    def binary(cls, zero_flip: float, one_flip: float, **release: Any) -> RandomizedResponse:
        """Build the channel of a bit.

        Args:
            zero_flip: probability that a 0 is reported as 1.
            one_flip: probability that a 1 is reported as 0.
            release: further fields of the release.
        """
        return cls(channel=((1 - zero_flip, zero_flip), (one_flip, 1 - one_flip)), **release)

    def publish(self, value: ArrayLike, rng: Rng) -> Integers:
        """Publish randomised symbols.

        Args:
            value: array of the release's shape, symbols 0..n_inputs-1.
            rng: draws the outputs.

        Returns:
            Array of the same shape, symbols 0..n_outputs-1; bytes stay bytes.

        Raises:
            InvalidSetting: if a symbol or the shape is invalid.
        """
        check_cancelled()
        array = np.asarray(value)
        with np.errstate(invalid="ignore"):  # a NaN is refused below
            bytes_stay = array.dtype == np.uint8 and len(self.channel[0]) <= 256
            dtype: type[np.integer] = np.uint8 if bytes_stay else np.int64
            symbols: Integers = array.astype(dtype, copy=False)
        inputs = len(self.channel)
        is_invalid = (symbols != array) | (symbols < 0) | (symbols >= inputs)
        if is_invalid.any():
            raise InvalidSetting(
                f"symbols of '{self.query}'", f"integers 0..{inputs - 1}", array[is_invalid].flat[0]
            )
        self._check_shape(symbols)
        return self._record(symbols, self._randomise(symbols, rng))

    def publish_rows(self, rows: Sparse, rng: Rng) -> NDArray[np.uint8]:
        """Publish a report of one bit for every cell of a sparse matrix.

        Args:
            rows: sparse matrix of shape (n_users, n_items) whose nonzero cells are the ones.
            rng: draws the reports.

        Returns:
            Array of shape (n_users, ceil(n_items / 8)), eight reports to a byte. Unpacked rows are
            held for a block of users only.
        """
        users, items = rows.shape
        self._check_shape(rows)  # type: ignore[arg-type]  # it has the shape and ndim of an array
        published = np.empty((users, -(-items // 8)), dtype=np.uint8)
        step = max(1, _BITS_PER_BLOCK // items)
        for start in range(0, users, step):
            check_cancelled()
            block = slice(start, start + step)
            bits = (rows[block].toarray() != 0).view(np.uint8)
            published[block] = np.packbits(self._randomise(bits, rng), axis=1)
        if not is_recording():
            return published
        dense_bits = (rows.toarray() != 0).view(np.uint8)
        published_bits = self._record(dense_bits, np.unpackbits(published, axis=1, count=items))
        return np.packbits(published_bits, axis=1)

    def _randomise(self, symbols: Integers, rng: Rng) -> Integers:
        """Pass each symbol through the channel."""
        return noise.pass_channel(self.matrix, symbols, rng)


@dataclass(frozen=True, kw_only=True)
class LocalChannel(Channel):
    """A channel through which every cell of a users x items matrix passes, rated or not.

    Attributes:
        report_dtype: the number type of a report.
    """

    norm: ClassVar[str] = "changed cells"
    report_dtype: ClassVar[type[np.generic]]

    @property
    def reported_if_missing(self) -> float:
        """The probability that a cell without a rating is reported."""
        raise NotImplementedError

    @property
    def reported_if_rated(self) -> float:
        """The probability that a rated cell is reported."""
        raise NotImplementedError

    @property
    def debias_factor(self) -> float:
        """The c in E[report | rating x] = c x, for centred ratings; no report counts as 0."""
        raise NotImplementedError

    def noise_square(self, density: float) -> float:
        """Return E[report^2] of a cell if all ratings were 0; a missing report counts as 0.

        Args:
            density: share of cells with a rating.
        """
        raise NotImplementedError

    def publish(  # type: ignore[override]  # sparse in, sparse out
        self, value: Any, rng: Rng
    ) -> Sparse:
        """Publish the reported cells of a matrix.

        Args:
            value: sparse matrix of shape (n_users, n_items).
            rng: draws the reports.

        Returns:
            CSR array of the same shape with sorted cells, which stores the reports.

        Raises:
            InvalidSetting: if a value or the shape is invalid.
        """
        from scipy.sparse import csr_array

        rows = csr_array(value)
        rows.sort_indices()
        is_invalid, limit = self._find_invalid(rows.data)
        if is_invalid.any():
            first_invalid = float(rows.data[is_invalid][0])
            raise InvalidSetting(f"values of '{self.query}'", limit, first_invalid)
        self._check_shape(rows)  # type: ignore[arg-type]  # it has the shape and ndim of an array
        users, items = rows.shape
        expected = self.reported_if_missing * users * items + self.reported_if_rated * rows.nnz
        step = int(_REPORTS_PER_BLOCK * users / max(expected, 1.0))
        step = max(1, min(step, _CELLS_PER_BLOCK // items))
        blocks = []
        for start in range(0, users, step):
            check_cancelled()
            blocks.append(self._draw_reports(rows[start : start + step], rng))
        counts, columns, reports = map(np.concatenate, zip(*blocks, strict=True))
        indptr = np.append(0, np.cumsum(counts)).astype(np.int32)  # SciPy widens both if one is
        return self._record(rows, csr_array((reports, columns, indptr), shape=rows.shape))

    def _draw_reports(
        self, rows: Sparse, rng: Rng
    ) -> tuple[Ints, NDArray[np.int32], NDArray[np.generic]]:
        """Draw the reports of a block of users.

        Args:
            rows: sparse matrix of shape (n_rows, n_items), the rows of these users.
            rng: draws the reports.

        Returns:
            The number of reports of each user, then the column of each report and the reports,
            sorted by cell.
        """
        n_rows, items = rows.shape
        rated_cells = np.repeat(np.arange(n_rows), np.diff(rows.indptr)) * items + rows.indices
        is_reported, reports = self._report_rated(rows.data, rng)
        spurious, spurious_reports = self._report_missing(rated_cells, n_rows * items, rng)
        cells = np.concatenate([rated_cells[is_reported], spurious])
        order = np.argsort(cells, kind="stable")
        users, columns = np.divmod(cells[order], items)
        reports = np.concatenate([reports, spurious_reports])[order]
        return (
            np.bincount(users, minlength=n_rows),
            columns.astype(np.int32),
            reports.astype(self.report_dtype),
        )

    def _find_invalid(self, values: Floats) -> tuple[Bools, str]:
        """Return which values the channel cannot take, and what a value must be."""
        raise NotImplementedError

    def _report_rated(self, values: Floats, rng: Rng) -> tuple[AnyArray, Floats]:
        """Return which rated cells are reported, and their reports.

        Args:
            values: array of shape (n_rated,), the ratings as the channel takes them.
            rng: draws the reports.

        Returns:
            A mask of shape (n_rated,), and the reports of the cells that it selects.
        """
        raise NotImplementedError

    def _report_missing(self, rated_cells: Ints, total: int, rng: Rng) -> tuple[Ints, Floats]:
        """Return which missing cells are reported, and their reports.

        Args:
            rated_cells: sorted array of shape (n_rated,), indices of rated cells in 0..total-1; all
                others are missing.
            total: how many cells there are.
            rng: draws the reports.

        Returns:
            Two arrays of one length: the indices of reported cells, and the reports.
        """
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class ModifiedLaplace(LocalChannel):
    """A local channel of ratings in [-1, 1], reported with Laplace noise or left out at random.

    A missing cell is reported with probability `flip`, as pure Laplace(scale) noise. Zheng ("Two
    Differentially Private Rating Collection Mechanisms for Recommender Systems", Definition 2)
    takes flip = 1 / (e^(eps/2) + 1) and scale = 2/eps.

    Attributes:
        flip: probability that a rating is left out, and that a missing cell is reported.
        scale: scale of the Laplace noise, in the unit of the rescaled ratings.
    """

    flip: float
    scale: float
    report_dtype: ClassVar[type[np.generic]] = np.float32

    @classmethod
    def from_epsilon(cls, epsilon: float, **release: Any) -> ModifiedLaplace:
        """Build the published channel (Definition 2).

        Args:
            epsilon: budget per cell.
            release: further fields of the release.
        """
        return cls(flip=flip_probability(epsilon / 2), scale=2 / epsilon, **release)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(f"flip chance of '{self.query}'", self.flip, above=0, at_most=0.5)
        check_number(f"noise scale of '{self.query}'", self.scale, above=0)

    @property
    def cell_epsilon(self) -> float:
        """The largest log-likelihood ratio of one cell."""
        odds = math.log((1 - self.flip) / self.flip)
        # Two ratings differ by up to 2. A rating and a missing cell, whose report is centred at 0,
        # differ by up to 1 and in how likely they are reported.
        return max(2 / self.scale, odds + 1 / self.scale)

    def log_likelihood(self, published: Any, private: Any) -> Floats:
        """Return the log density of each cell's report, missing reports included."""
        (reported, y), (rated, x) = _to_dense_cells(published), _to_dense_cells(private)
        density = np.where(reported, -np.abs(y - x) / self.scale - math.log(2 * self.scale), 0.0)
        report_probability = np.where(rated, 1 - self.flip, self.flip)
        return np.log(np.where(reported, report_probability, 1 - report_probability)) + density

    @property
    def reported_if_missing(self) -> float:
        """The probability that a cell without a rating is reported."""
        return self.flip

    @property
    def reported_if_rated(self) -> float:
        """The probability that a rated cell is reported."""
        return 1 - self.flip

    debias_factor = reported_if_rated  # the noise of a reported rating has mean 0

    def noise_square(self, density: float) -> float:
        """Return E[report^2] of a cell; see `LocalChannel.noise_square`."""
        noise_variance = 2 * self.scale**2
        rated_moment = (1 - self.flip) * noise_variance
        return density * rated_moment + (1 - density) * self.flip * noise_variance

    def _find_invalid(self, values: Floats) -> tuple[Bools, str]:
        """Return which ratings lie outside -1..1."""
        return ~(np.abs(values) <= 1), "in -1..1"

    def _report_rated(self, values: Floats, rng: Rng) -> tuple[AnyArray, Floats]:
        """Draw which ratings are reported, and add Laplace noise to these."""
        is_reported = rng.random(len(values)) >= self.flip
        reported = values[is_reported]
        return is_reported, reported + rng.laplace(0.0, self.scale, len(reported))

    def _report_missing(self, rated_cells: Ints, total: int, rng: Rng) -> tuple[Ints, Floats]:
        """Draw which missing cells are reported, each as pure Laplace noise."""
        cells = noise.draw_hits(rated_cells, total, self.flip, rng)
        return cells, rng.laplace(0.0, self.scale, len(cells))


def _to_dense_cells(rows: Any) -> tuple[Bools, Floats]:
    """Return the mask of stored cells, and all values with 0 in other cells, as dense arrays."""
    stored = rows.copy()
    stored.data = np.ones_like(stored.data)
    return stored.toarray() > 0, rows.toarray().astype(float)


@dataclass(frozen=True, kw_only=True)
class SymbolChannel(LocalChannel, MatrixChannel):
    """A local channel of the symbols 0 (missing) and 1..d (rating levels).

    `publish` takes and returns symbols 1..d on the stored cells. The moments are those of the
    levels, for a channel that keeps a symbol or moves to each other one with the same probability.

    Attributes:
        levels: the d values of the symbols 1..d.
    """

    levels: tuple[float, ...]
    report_dtype: ClassVar[type[np.generic]] = np.int8

    def __post_init__(self) -> None:
        super().__post_init__()
        size = len(self.levels) + 1
        if self.matrix.shape != (size, size) or size > 128:  # a report takes a byte
            raise InvalidSetting(
                f"channel of '{self.query}'", f"{size} rows of {size} probabilities", self.channel
            )

    @classmethod
    def symmetric(cls, epsilon: float, levels: tuple[float, ...], **release: Any) -> SymbolChannel:
        """Build the channel that keeps a symbol or replaces it by any other, all equally likely.

        It keeps a symbol with probability e^eps / (e^eps + d) (Zheng, Definition 3).

        Args:
            epsilon: budget per cell.
            levels: the d values of the symbols 1..d.
            release: further fields of the release.
        """
        d = len(levels)
        other_probability = flip_probability(epsilon, d)
        matrix = np.full((d + 1, d + 1), other_probability)
        np.fill_diagonal(matrix, 1 - d * other_probability)
        return cls(channel=tuple(map(tuple, matrix.tolist())), levels=levels, **release)

    @property
    def reported_if_missing(self) -> float:
        """The probability that a cell without a rating is reported."""
        return math.fsum(self.channel[0][1:])  # 1 - channel[0][0] would round a rare report to 0

    @property
    def reported_if_rated(self) -> float:
        """The probability that a rated cell is reported."""
        return 1 - self.channel[1][0]

    @property
    def debias_factor(self) -> float:
        """The c in E[report | level x] = c x, for levels centred at 0."""
        return self.channel[1][1] - self.channel[0][1]

    def noise_square(self, density: float) -> float:  # noqa: ARG002
        """Return E[report^2] of a cell, in levels; see `LocalChannel.noise_square`.

        Any symbol moves to each other level with one probability.
        """
        return np.square(self.levels).sum() * self.channel[0][1]

    def _find_invalid(self, values: Floats) -> tuple[Bools, str]:
        """Return which values are no symbol 1..d."""
        d = len(self.levels)
        return ~np.isin(values, np.arange(1, d + 1)), f"integers 1..{d}"

    def _report_rated(self, values: Floats, rng: Rng) -> tuple[AnyArray, Floats]:
        """Pass rated symbols through the channel; an output of 0 is no report."""
        symbols = noise.pass_channel(self.matrix, values.astype(np.int64), rng)
        is_reported = symbols > 0
        return is_reported, symbols[is_reported].astype(float)

    def _report_missing(self, rated_cells: Ints, total: int, rng: Rng) -> tuple[Ints, Floats]:
        """Pass the symbol 0 of missing cells through the channel; an output of 0 is no report."""
        cells, symbols = noise.pass_missing_channel(self.matrix[0], rated_cells, total, rng)
        return cells, symbols.astype(float)
