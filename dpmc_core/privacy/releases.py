"""Releases: a query, how far each change moves it, its noise, and the one way to publish it.

Private values leave a mechanism only through `release.publish(value, rng)`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import scipy
from numpy.typing import ArrayLike

from dpmc_core.arrays import AnyArray, Floats, ItemAxis, Rng, UserAxis
from dpmc_core.errors import CannotRelease, InvalidSetting, check_number
from dpmc_core.privacy import noise
from dpmc_core.privacy.accounting import Loss, PureReleases
from dpmc_core.privacy.changes import RATING, ROW_VALUES, Sensitivity, make_read_only
from dpmc_core.privacy.exact_noise import SecureSource
from dpmc_core.stopping import check_cancelled

_MAX_DENSE_SIZE = 300  # largest symmetric matrix whose noise is drawn at once

Answer = TypeVar("Answer", bound=Any)


@dataclass(frozen=True, eq=False)
class Publication:
    """One publication of a release.

    Attributes:
        release: the release.
        private: the private value before the noise.
        published: the noisy value, of the same shape.
    """

    release: Release
    private: AnyArray
    published: AnyArray


class _EnoughRecorded(BaseException):
    """A recording has all it waits for; no method may catch this as an error."""


@dataclass
class _Recorder:
    """What `record_publications` knows: its arguments, and the publications so far."""

    until_queries: frozenset[str]
    replayed: Iterator[Publication]
    max_publications: float
    publications: list[Publication]

    def record(self, release: Release, private: Any, published: Answer) -> Answer:
        """Record a publication, and return the value to publish: the replayed one, if any is left.

        Raises:
            _EnoughRecorded: nothing more is to be recorded.
        """
        earlier = next(self.replayed, None)
        answer: Any = published if earlier is None else earlier.published.copy()
        self.publications.append(Publication(release, private.copy(), answer.copy()))
        queries = {publication.release.query for publication in self.publications}
        is_complete = self.until_queries and self.until_queries <= queries
        if is_complete or len(self.publications) >= self.max_publications:
            raise _EnoughRecorded
        return answer


_active_recorder: ContextVar[_Recorder | None] = ContextVar("dpmc_recorder", default=None)


@contextmanager
def record_publications(
    until_queries: Collection[str] = (),
    replayed: Iterable[Publication] | None = None,
    max_publications: float = math.inf,
) -> Iterator[list[Publication]]:
    """Record what goes into and comes out of every release inside the block, in order.

    The records show a mechanism on data that may be inspected: they are not private.

    Args:
        until_queries: names of queries; once each of them has been answered, the rest of the block
            is skipped.
        replayed: publications of an earlier run. Their published values replace those of this run,
            in their order and whatever the queries are, so that both data sets are seen under one
            history. The noise is drawn as always.
        max_publications: after this many publications the rest of the block is skipped.

    Yields:
        The list that fills up.
    """
    recorder = _Recorder(frozenset(until_queries), iter(replayed or ()), max_publications, [])
    token = _active_recorder.set(recorder)
    try:
        with suppress(_EnoughRecorded):
            yield recorder.publications
    finally:
        _active_recorder.reset(token)


def is_recording() -> bool:
    """Return whether publications are being recorded."""
    return _active_recorder.get() is not None


@dataclass(frozen=True, kw_only=True)
class Release:
    """One noisy answer.

    An array with one published number per observed rating shows how many ratings there are, so it
    covers values only.

    Attributes:
        query: what is asked, in words.
        shape: length of each axis of the answer; None for the number of observed ratings. Axes of
            users, items and factors have the types of these names, as equal lengths say nothing.
        sensitivity: how far each change moves the answer, in the norm of the noise: l1 for Laplace,
            l2 for Gaussian and NormLaplace, the number of changed symbols for channels. Changes
            that are left out are unbounded unless another one implies them.
        times: how often the answer is published.
        norm: the name of the norm.
    """

    query: str
    shape: tuple[int | None, ...]
    sensitivity: Sensitivity
    times: int = 1
    norm: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check_number(f"times of '{self.query}'", self.times, at_least=1, integer=True)
        for change, s in self.sensitivity.items():
            check_number(f"sensitivity of '{self.query}' {change.label}", s, at_least=0)
            if None in self.shape and change not in (RATING, ROW_VALUES):
                raise InvalidSetting(
                    f"sensitivity of '{self.query}'",
                    "left out where the number of ratings may change, which its shape shows",
                    f"{s:g} {change.label} ({change.neighbours})",
                )
        sensitivities = {change: float(s) for change, s in self.sensitivity.items()}
        object.__setattr__(self, "sensitivity", make_read_only(sensitivities))

    @property
    def axes(self) -> tuple[type, ...]:
        """The type of each axis, such as `ItemAxis`; `int` for one without a name."""
        return tuple(map(type, self.shape))

    @property
    def is_matrix(self) -> bool:
        """Whether the answer has a value for every cell of users x items."""
        return self.axes == (UserAxis, ItemAxis)

    @property
    def is_per_item(self) -> bool:
        """Whether the answer has one value for each item."""
        return self.axes == (ItemAxis,)

    def loss(self, sensitivity: float) -> Loss:  # noqa: ARG002
        """Return the loss of all `times` publications for a change of this sensitivity.

        It is infinite unless a subclass states the loss of its noise.

        Args:
            sensitivity: how far the change moves the answer, in the norm of the noise.
        """
        return Loss(epsilon=math.inf)

    def log_likelihood(self, published: Any, private: Any) -> Floats:
        """Return the log density of each independent part of an answer, given the private value.

        It is known up to a constant that the value does not change. A part is a number, or a row if
        the noise of a row is drawn together.

        Args:
            published: array of the release's shape, the noisy answer.
            private: array of the release's shape, the answer before the noise.
        """
        raise NotImplementedError

    def publish(self, value: ArrayLike, rng: Rng) -> AnyArray:
        """Publish the noisy answer; this is the only way in which private values leave `fit`.

        Args:
            value: array of the release's shape, the private answer.
            rng: draws the noise.

        Returns:
            Array of the same shape.

        Raises:
            InvalidSetting: if the shape or a value is invalid.
        """
        raise NotImplementedError

    def _check_shape(self, value: AnyArray) -> None:
        """Raise InvalidSetting unless an answer has the release's shape."""
        has_shape = len(self.shape) == value.ndim and all(
            expected in (None, actual)
            for expected, actual in zip(self.shape, value.shape, strict=True)
        )
        if not has_shape:
            shape = tuple("observed" if n is None else n for n in self.shape)
            raise InvalidSetting(f"shape of '{self.query}'", f"{shape}", value.shape)

    def _record(self, private: Any, published: Answer) -> Answer:
        """Add a publication to the recording, if there is one.

        Args:
            private: the value before the noise.
            published: the noisy value.

        Returns:
            The published value, or that which the recording replays.
        """
        recorder = _active_recorder.get()
        return published if recorder is None else recorder.record(self, private, published)


def count_equal_parts(count: float) -> int:
    """Return into how many equal parts a counting sensitivity splits; 1 if it is no integer.

    The rounding of exact samplers, which raises sensitivities slightly, does not matter.

    Args:
        count: a sensitivity that counts changed cells or ratings.
    """
    # A sensitivity is computed, so rounding may have moved it off a whole number.
    rounded = round(count) if math.isfinite(count) else 0
    return rounded if rounded and abs(count - rounded) <= 1e-9 * rounded else 1


@dataclass(frozen=True, kw_only=True)
class Additive(Release):
    """A release that adds independent noise of a fixed scale to a real array.

    Attributes:
        scale: scale of the noise, in the unit of the answer.
        exact_kind: the name of the noise in a `SecureSource`; empty if it has no exact sampler.
    """

    scale: float
    exact_kind: ClassVar[str] = ""

    @property
    def std(self) -> float:
        """The standard deviation of one coordinate's noise, in the unit of the answer."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(f"noise scale of '{self.query}'", self.scale, above=0)
        object.__setattr__(self, "scale", float(self.scale))

    def publish(self, value: ArrayLike, rng: Rng) -> Floats:
        """Publish the answer plus noise.

        Args:
            value: array of the release's shape, finite.
            rng: draws the noise.

        Returns:
            Array of the same shape.

        Raises:
            InvalidSetting: if the shape is wrong or a number is not finite.
            CannotRelease: if a `SecureSource` has no exact sampler for the noise.
        """
        array = self._check_finite(value)
        self._check_shape(array)
        check_cancelled()
        sampled = self._apply_sampling(value, array, rng)
        if isinstance(rng, SecureSource):
            published = self._add_exact_noise(sampled, rng)
        else:
            published = sampled + self._draw_noise(sampled.shape, rng)
        return self._record(array, published)

    def distance(self, first: ArrayLike, second: ArrayLike) -> float:
        """Return the distance of two answers in the norm in which `sensitivity` is stated.

        Args:
            first: array of the release's shape.
            second: array of the release's shape.
        """
        raise NotImplementedError

    def sample(self, count: int, rng: Rng) -> Floats:
        """Draw the noise of one coordinate `count` times, for plots.

        Args:
            count: how many numbers to draw.
            rng: draws the numbers.
        """
        return self._draw_noise((count,), rng)

    def density(self, x: ArrayLike) -> Floats:
        """Return the density of one coordinate's noise.

        Args:
            x: array of any shape, in the unit of the answer.
        """
        raise NotImplementedError

    def _check_finite(self, value: ArrayLike) -> Floats:
        """Return an answer as an array of floats; raise InvalidSetting unless all are finite."""
        array = np.asarray(value, dtype=float)
        if not np.isfinite(array).all():  # noise would not hide them
            raise InvalidSetting(f"'{self.query}'", "finite before noise is added", "nan or inf")
        return array

    def _apply_sampling(
        self,
        value: ArrayLike,  # noqa: ARG002
        array: Floats,
        rng: Rng,  # noqa: ARG002
    ) -> Floats:
        """Return the answer to which the noise is added.

        Args:
            value: the answer as it was passed to `publish`.
            array: the answer as an array, which is returned unless a subclass samples its terms.
            rng: draws the sample.
        """
        return array

    def _add_exact_noise(self, value: Floats, source: SecureSource) -> Floats:
        """Return the answer plus exactly sampled noise, or raise CannotRelease."""
        if not self.exact_kind:
            raise CannotRelease(f"the noise of '{self.query}' has no exact sampler")
        return source.add_noise(self.exact_kind, value, self.scale)

    def _draw_noise(self, shape: tuple[int, ...], rng: Rng) -> Floats:
        """Draw an array of simulated noise."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Laplace(Additive):
    """Coordinate-wise Laplace noise; epsilon = l1 sensitivity / scale.

    Attributes:
        disjoint: whether each rating that changes moves its own number and no other, so that k of
            them are k answers with the sensitivity of one rating.
    """

    norm: ClassVar[str] = "l1"
    exact_kind: ClassVar[str] = "laplace"
    disjoint: bool = False

    @property
    def std(self) -> float:
        """The standard deviation of one coordinate's noise: sqrt(2) scale."""
        return math.sqrt(2) * self.scale

    def distance(self, first: ArrayLike, second: ArrayLike) -> float:
        """Return the l1 distance of two answers.

        Args:
            first: array of the release's shape.
            second: array of the release's shape.
        """
        return float(np.abs(np.subtract(first, second, dtype=float)).sum())

    def loss(self, sensitivity: float) -> Loss:
        """Return times x sensitivity / scale as the epsilon of Laplace releases.

        If they are `disjoint`, k changed ratings count as k releases, each moved by one rating.
        """
        count = (
            count_equal_parts(sensitivity / self.sensitivity[RATING])
            if self.disjoint and sensitivity
            else 1
        )
        return Loss.from_pure(
            PureReleases(sensitivity / count / self.scale, self.times * count, laplace=True)
        )

    def log_likelihood(self, published: Any, private: Any) -> Floats:
        """Return -|published - private| / scale for each number."""
        return -np.abs(np.subtract(published, private)) / self.scale

    def density(self, x: ArrayLike) -> Floats:
        """Return exp(-|x| / scale) / (2 scale).

        Args:
            x: array of any shape, in the unit of the answer.
        """
        return np.exp(self.log_likelihood(x, 0.0)) / (2 * self.scale)

    def _draw_noise(self, shape: tuple[int, ...], rng: Rng) -> Floats:
        """Draw Laplace noise of the scale for each coordinate."""
        return rng.laplace(0.0, self.scale, shape)


@dataclass(frozen=True, kw_only=True)
class NormLaplace(Additive):
    """Noise of rows with density proportional to exp(-||x||_2 / scale).

    Its epsilon is the l2 sensitivity, summed over rows, divided by the scale.
    """

    norm: ClassVar[str] = "l2, summed over rows"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.shape or self.shape[-1] is None:
            raise InvalidSetting(f"shape of '{self.query}'", "rows of a fixed length", self.shape)

    @property
    def length(self) -> int:
        """The length of a row."""
        return self.shape[-1] or 1

    @property
    def std(self) -> float:
        """The standard deviation of one coordinate's noise: scale sqrt(length + 1)."""
        return math.sqrt(self.length + 1) * self.scale

    def distance(self, first: ArrayLike, second: ArrayLike) -> float:
        """Return the l2 distance of two answers, summed over rows.

        Args:
            first: array of the release's shape.
            second: array of the release's shape.
        """
        return float(np.linalg.norm(np.subtract(first, second, dtype=float), axis=-1).sum())

    def loss(self, sensitivity: float) -> Loss:
        """Return times x sensitivity / scale as the epsilon of pure releases."""
        return Loss.from_pure(PureReleases(sensitivity / self.scale, self.times))

    def log_likelihood(self, published: Any, private: Any) -> Floats:
        """Return -||published - private||_2 / scale for each row."""
        return -np.linalg.norm(np.subtract(published, private), axis=-1) / self.scale

    def sample(self, count: int, rng: Rng) -> Floats:
        """Draw the noise of one coordinate of a row `count` times, for plots.

        Args:
            count: how many numbers to draw.
            rng: draws the numbers.
        """
        return self._draw_noise((count, self.length), rng)[:, 0]

    def density(self, x: ArrayLike) -> Floats:
        """Return the density of one coordinate of a row.

        With z = |x|/scale and nu = length/2 it is z^nu K_nu(z) / (scale 2^nu sqrt(pi) Gamma(nu +
        1/2)), K the modified Bessel function of the second kind; length 1 gives the Laplace
        density. It is exact to 1e-6 up to length 400.

        Args:
            x: array of any shape, in the unit of the answer.
        """
        nu = self.length / 2
        z = np.abs(np.divide(x, self.scale))
        log_front = -nu * math.log(2) - 0.5 * math.log(math.pi) - scipy.special.gammaln(nu + 0.5)
        # Near 0, where K_nu overflows for long rows, two terms of its series are accurate enough.
        near_zero = (
            (nu - 1) * math.log(2) + scipy.special.gammaln(nu) - z * z / (4 * max(nu - 1, 0.5))
        )
        with np.errstate(all="ignore"):  # what is not finite is replaced below
            log_shape = nu * np.log(z) + np.log(scipy.special.kve(nu, z)) - z
        logs = log_front + np.where(np.isfinite(log_shape), log_shape, near_zero)
        return np.exp(logs) / self.scale

    def _draw_noise(self, shape: tuple[int, ...], rng: Rng) -> Floats:
        """Draw rows of noise whose density falls with the l2 norm of a row."""
        return noise.draw_norm_laplace(self.scale, shape, rng)


@dataclass(frozen=True, kw_only=True)
class Gaussian(Additive):
    """Coordinate-wise N(0, scale^2) noise; its ratio is mu = l2 sensitivity / scale."""

    norm: ClassVar[str] = "l2"
    exact_kind: ClassVar[str] = "gaussian"

    @property
    def std(self) -> float:
        """The standard deviation of one coordinate's noise: the scale."""
        return self.scale

    def distance(self, first: ArrayLike, second: ArrayLike) -> float:
        """Return the l2 distance of two answers.

        Args:
            first: array of the release's shape.
            second: array of the release's shape.
        """
        return float(np.linalg.norm(np.subtract(first, second, dtype=float).ravel()))

    def loss(self, sensitivity: float) -> Loss:
        """Return sqrt(times) x sensitivity / scale as the ratio mu."""
        return Loss(mu=math.sqrt(self.times) * sensitivity / self.scale)

    def log_likelihood(self, published: Any, private: Any) -> Floats:
        """Return -((published - private) / scale)^2 / 2 for each number."""
        return -0.5 * np.square(np.subtract(published, private) / self.scale)

    def density(self, x: ArrayLike) -> Floats:
        """Return exp(-(x / scale)^2 / 2) / (scale sqrt(2 pi)).

        Args:
            x: array of any shape, in the unit of the answer.
        """
        return np.exp(self.log_likelihood(x, 0.0)) / (self.scale * math.sqrt(2 * math.pi))

    def publish_products(
        self, private: Callable[[Floats], Floats], rng: Rng, *, mirrored: bool = False
    ) -> Callable[[Floats], Floats]:
        """Publish a symmetric matrix by its products with blocks of columns.

        The matrix gets symmetric Gaussian noise. Only the noise that the products need is drawn,
        unless the matrix is small, publications are recorded, the source is secure, or `mirrored`
        is set.

        Args:
            private: returns the product of the private matrix with an array of shape (size, b).
            rng: draws the noise.
            mirrored: with N the independent noise on all entries, whether its upper triangle is
                mirrored, as routines do that read one triangle; otherwise the noise is (N + N')/2.

        Returns:
            A function that returns the product of the noisy matrix with an array of shape (size,
            b).
        """
        size = self.shape[0] or 0
        if mirrored or is_recording() or size <= _MAX_DENSE_SIZE or isinstance(rng, SecureSource):
            noisy = self.publish(private(np.eye(size)), rng)
            symmetric = np.triu(noisy) + np.triu(noisy, 1).T if mirrored else (noisy + noisy.T) / 2
            return symmetric.__matmul__
        checked_product = lambda block: self._check_finite(private(block))  # noqa: E731
        return noise.SymmetricGaussian(checked_product, size, self.scale, rng).multiply

    def _draw_noise(self, shape: tuple[int, ...], rng: Rng) -> Floats:
        """Draw normal noise of the scale for each coordinate."""
        return rng.normal(0.0, self.scale, shape)


@dataclass(frozen=True)
class Releases:
    """Everything a mechanism releases, as the fields of a subclass.

    A field is a release, None if these settings make none, a group of releases, or a tuple of any
    of them, one for each round.
    """

    def __iter__(self) -> Iterator[tuple[str, Release]]:
        """Yield (name, release) in the order of the fields; rounds are numbered."""
        for field in dataclasses.fields(self):
            yield from _name_releases(field.name.replace("_", " "), getattr(self, field.name))

    def map_releases(self, transform: Callable[[Release], Release]) -> Self:
        """Return the same fields with every release replaced by what `transform` returns for it."""
        fields = (field.name for field in dataclasses.fields(self))
        return dataclasses.replace(
            self, **{name: _map_releases(getattr(self, name), transform) for name in fields}
        )


def _name_releases(name: str, value: Any) -> Iterator[tuple[str, Release]]:
    """Yield (name, release) for each release in the value of a field of `Releases`."""
    if isinstance(value, Release):
        yield name, value
    elif isinstance(value, Releases):
        yield from value
    elif value is not None:
        for index, element in enumerate(value, 1):
            for inner, release in _name_releases(name, element):
                yield f"{inner} {index}" if len(value) > 1 else inner, release


def _map_releases(value: Any, transform: Callable[[Release], Release]) -> Any:
    """Return the value of a field of `Releases` with each release in it transformed."""
    if isinstance(value, Release):
        return transform(value)
    if isinstance(value, Releases):
        return value.map_releases(transform)
    return None if value is None else tuple(_map_releases(element, transform) for element in value)
