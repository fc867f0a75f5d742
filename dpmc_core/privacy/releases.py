"""Release records: a query, how far each change moves it, its noise, and the one way to publish it.

Private values leave a mechanism only through `release.publish(value, rng)`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from dpmc_core.arrays import Floats, Rng
from dpmc_core.errors import CannotRelease, InvalidSetting, check_number
from dpmc_core.privacy import noise
from dpmc_core.privacy.accounting import Loss, PureReleases
from dpmc_core.privacy.changes import RATING, ROW_VALUES, Sensitivity, make_read_only
from dpmc_core.privacy.exact_noise import SecureSource
from dpmc_core.stopping import check_cancelled

_MAX_DENSE_SIZE = 300  # rows of a symmetric matrix whose noise is drawn at once

Answer = TypeVar("Answer", bound=Any)


@dataclass(frozen=True, eq=False)
class Publication:
    """A release at work: the private value that went in and the noisy one that came out."""

    release: Release
    private: NDArray[Any]
    published: NDArray[Any]


class _EnoughRecorded(BaseException):
    """All that a witness waits for has been published; no method may take it for an error."""


_Replay: TypeAlias = Iterator[Publication]
_Recording: TypeAlias = tuple[list[Publication], frozenset[str], _Replay | None, float]
_recording: ContextVar[_Recording | None] = ContextVar("dpmc_witness", default=None)


@contextmanager
def record_publications(
    until_queries: Collection[str] = (),
    replayed: Iterable[Publication] | None = None,
    max_publications: float = math.inf,
) -> Iterator[list[Publication]]:
    """Collect what goes into and comes out of every release inside the block, in order.

    For pictures of a mechanism on data one may look at: what is collected is not private.
    until_queries: queries; once each of them has been answered, the rest of the block is left out.
    replayed: those of an earlier run, given again in their order whatever is asked, so that two
    data sets are seen under one history; as much noise is drawn as always. max_publications: after
    so many publications the rest of the block is left out.
    """
    publications: list[Publication] = []
    replay = None if replayed is None else iter(replayed)
    token = _recording.set((publications, frozenset(until_queries), replay, max_publications))
    try:
        with suppress(_EnoughRecorded):
            yield publications
    finally:
        _recording.reset(token)


def is_recording() -> bool:
    """Whether somebody collects what is published."""
    return _recording.get() is not None


@dataclass(frozen=True, kw_only=True)
class Release:
    """One noisy answer: what is asked, its shape, how often, and how far one change can move it.

    `shape` gives the length of each axis, None where it is the number of observed ratings.
    `sensitivity` is in the norm of the noise: l1 for Laplace, l2 for Gaussian and NormLaplace,
    the number of changed symbols for channels. A published array of one number per observed rating
    shows how many there are, so it covers values only.
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

    def loss(self, sensitivity: float) -> Loss:  # noqa: ARG002
        """What all `times` publications spend on a change that moves the answer so far.

        Infinite until a subclass says what its noise is worth.
        """
        return Loss(epsilon=math.inf)

    def log_likelihood(self, published: Any, private: Any) -> Floats:
        """The log chance of each independent part of an answer, given the value behind it.

        Up to a constant that the value does not change. A part is a number, or a row where the
        noise of a row is drawn together.
        """
        raise NotImplementedError

    def publish(self, value: ArrayLike, rng: Rng) -> NDArray[Any]:
        """The noisy answer, of the value's own shape; the only way private values leave `fit`."""
        raise NotImplementedError

    def _check_shape(self, value: NDArray[Any]) -> None:
        has_shape = len(self.shape) == value.ndim and all(
            expected is None or expected == actual
            for expected, actual in zip(self.shape, value.shape, strict=True)
        )
        if not has_shape:
            shape = tuple("observed" if n is None else n for n in self.shape)
            raise InvalidSetting(f"shape of '{self.query}'", f"{shape}", value.shape)

    def _record(self, private: Any, published: Answer) -> Answer:
        """The answer to give: what was published, unless a witness has another one."""
        recording = _recording.get()
        if recording is None:
            return published
        publications, until_queries, replay, max_publications = recording
        earlier = None if replay is None else next(replay, None)
        answer: Any = published if earlier is None else earlier.published.copy()
        publications.append(Publication(self, private.copy(), answer.copy()))
        is_complete = until_queries and until_queries <= {p.release.query for p in publications}
        if is_complete or len(publications) >= max_publications:
            raise _EnoughRecorded
        result: Answer = answer
        return result


def count_equal_parts(count: float) -> int:
    """How many equal parts a sensitivity has that counts them: 1 where it is no whole number.

    The rounding of exact samplers, which raises sensitivities, makes none more.
    """
    rounded = round(count) if math.isfinite(count) else 0
    return rounded if rounded and abs(count - rounded) <= 1e-9 * rounded else 1


@dataclass(frozen=True, kw_only=True)
class Additive(Release):
    """Independent noise of a fixed scale added to a real array.

    exact_kind: what a `SecureSource` calls this noise; "" where it has no exact sampler.
    """

    scale: float
    exact_kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(f"noise scale of '{self.query}'", self.scale, above=0)
        object.__setattr__(self, "scale", float(self.scale))

    def publish(self, value: ArrayLike, rng: Rng) -> Floats:
        array = self._check_finite(value)
        self._check_shape(array)
        check_cancelled()
        sampled = self._apply_sampling(value, array, rng)
        if isinstance(rng, SecureSource):
            published = self._add_exact_noise(sampled, rng)
        else:
            published = sampled + self._draw_noise(sampled.shape, rng)
        answer = self._record(array, published)
        check_cancelled()
        return answer

    def distance(self, first: ArrayLike, second: ArrayLike) -> float:
        """How far apart two answers are in the norm that `sensitivity` is stated in."""
        raise NotImplementedError

    def sample(self, count: int, rng: Rng) -> Floats:
        """`count` draws of one coordinate's noise, for pictures."""
        return self._draw_noise((count,), rng)

    def density(self, x: ArrayLike) -> Floats:
        """Density of one coordinate's noise at x."""
        raise NotImplementedError

    def at_scale(self, scale: float) -> Self:
        """The release at a scale read off private data: it certifies nothing."""
        return dataclasses.replace(self, scale=scale, sensitivity={})

    def _check_finite(self, value: ArrayLike) -> Floats:
        array = np.asarray(value, dtype=float)
        if not np.isfinite(array).all():  # noise does not hide a NaN or an infinity
            raise InvalidSetting(f"'{self.query}'", "finite before noise is added", "nan or inf")
        return array

    def _apply_sampling(
        self,
        value: ArrayLike,  # noqa: ARG002
        array: Floats,
        rng: Rng,  # noqa: ARG002
    ) -> Floats:
        """What the noise is added to: the array itself, unless only a part of it is drawn."""
        return array

    def _add_exact_noise(self, value: Floats, source: SecureSource) -> Floats:
        if not self.exact_kind:
            raise CannotRelease(f"the noise of '{self.query}' has no exact sampler")
        return source.add_noise(self.exact_kind, value, self.scale)

    def _draw_noise(self, shape: tuple[int, ...], rng: Rng) -> Floats:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Laplace(Additive):
    """Coordinate-wise Laplace noise; epsilon = l1 sensitivity / scale.

    disjoint: each rating that changes moves its own number and no other, so k of them are k answers
    with the sensitivity of one rating.
    """

    norm: ClassVar[str] = "l1"
    exact_kind: ClassVar[str] = "laplace"
    disjoint: bool = False

    def distance(self, first: ArrayLike, second: ArrayLike) -> float:
        return float(np.abs(np.subtract(first, second, dtype=float)).sum())

    def loss(self, sensitivity: float) -> Loss:
        count = (
            count_equal_parts(sensitivity / self.sensitivity[RATING])
            if self.disjoint and sensitivity
            else 1
        )
        return Loss.from_pure(
            PureReleases(sensitivity / count / self.scale, self.times * count, laplace=True)
        )

    def log_likelihood(self, published: Any, private: Any) -> Floats:
        log_density: Floats = -np.abs(np.subtract(published, private)) / self.scale
        return log_density

    def density(self, x: ArrayLike) -> Floats:
        return np.asarray(np.exp(-np.abs(np.divide(x, self.scale))) / (2 * self.scale))

    def _draw_noise(self, shape: tuple[int, ...], rng: Rng) -> Floats:
        return noise.draw_laplace(self.scale, shape, rng)


@dataclass(frozen=True, kw_only=True)
class NormLaplace(Additive):
    """Row noise with density prop. to exp(-||x||_2 / scale); epsilon = summed row l2 / scale."""

    norm: ClassVar[str] = "l2, summed over rows"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.shape or self.shape[-1] is None:
            raise InvalidSetting(f"shape of '{self.query}'", "rows of a fixed length", self.shape)

    @property
    def length(self) -> int:
        """Length of a row."""
        return self.shape[-1] or 1

    def distance(self, first: ArrayLike, second: ArrayLike) -> float:
        return float(np.linalg.norm(np.subtract(first, second, dtype=float), axis=-1).sum())

    def loss(self, sensitivity: float) -> Loss:
        return Loss.from_pure(PureReleases(sensitivity / self.scale, self.times))

    def log_likelihood(self, published: Any, private: Any) -> Floats:
        log_density: Floats = -np.linalg.norm(np.subtract(published, private), axis=-1) / self.scale
        return log_density

    def sample(self, count: int, rng: Rng) -> Floats:
        return self._draw_noise((count, self.length), rng)[:, 0]

    def density(self, x: ArrayLike) -> Floats:
        """Density at x of one coordinate of a row.

        With z = |x|/scale and nu = length/2 it is z^nu K_nu(z) / (scale 2^nu sqrt(pi) Gamma(nu +
        1/2)), K the modified Bessel function of the second kind; length 1 gives the Laplace
        density. Exact to 1e-6 up to length 400.
        """
        nu, z = self.length / 2, np.abs(np.divide(x, self.scale))
        log_front = -nu * math.log(2) - 0.5 * math.log(math.pi) - scipy.special.gammaln(nu + 0.5)
        # Next to 0, where K_nu overflows for long rows, the series about the limit is as good.
        near_zero = (
            (nu - 1) * math.log(2) + scipy.special.gammaln(nu) - z * z / (4 * max(nu - 1, 0.5))
        )
        with np.errstate(all="ignore"):
            log_shape = nu * np.log(z) + np.log(scipy.special.kve(nu, z)) - z
        logs = log_front + np.where(np.isfinite(log_shape), log_shape, near_zero)
        return np.asarray(np.exp(logs) / self.scale)

    def _draw_noise(self, shape: tuple[int, ...], rng: Rng) -> Floats:
        return noise.draw_norm_laplace(self.scale, shape, rng)


@dataclass(frozen=True, kw_only=True)
class Gaussian(Additive):
    """Coordinate-wise N(0, scale^2); ratio mu = l2 sensitivity / scale."""

    norm: ClassVar[str] = "l2"
    exact_kind: ClassVar[str] = "gaussian"

    def distance(self, first: ArrayLike, second: ArrayLike) -> float:
        return float(np.linalg.norm(np.subtract(first, second, dtype=float).ravel()))

    def loss(self, sensitivity: float) -> Loss:
        return Loss(mu=math.sqrt(self.times) * sensitivity / self.scale)

    def log_likelihood(self, published: Any, private: Any) -> Floats:
        log_density: Floats = -0.5 * np.square(np.subtract(published, private) / self.scale)
        return log_density

    def density(self, x: ArrayLike) -> Floats:
        unnormalised = np.exp(-0.5 * np.square(np.divide(x, self.scale)))
        return np.asarray(unnormalised / (self.scale * math.sqrt(2 * math.pi)))

    def publish_products(
        self, private: Callable[[Floats], Floats], rng: Rng, *, mirrored: bool = False
    ) -> Callable[[Floats], Floats]:
        """A symmetric matrix, published by its products with blocks of columns.

        Of the noise N only what products ask for is drawn, unless the matrix is small, somebody
        looks, or N has no such law. private: the products of the matrix. mirrored: take the upper
        triangle of N twice, as routines that read one triangle do, not (N + N')/2.
        """
        size = int(self.shape[0] or 0)
        if mirrored or is_recording() or size <= _MAX_DENSE_SIZE or isinstance(rng, SecureSource):
            noisy = self.publish(private(np.eye(size)), rng)
            symmetric = np.triu(noisy) + np.triu(noisy, 1).T if mirrored else (noisy + noisy.T) / 2
            return symmetric.__matmul__
        checked_product = lambda block: self._check_finite(private(block))  # noqa: E731
        return noise.SymmetricGaussian(checked_product, size, self.scale, rng).multiply

    def _draw_noise(self, shape: tuple[int, ...], rng: Rng) -> Floats:
        return noise.draw_gaussian(self.scale, shape, rng)


@dataclass(frozen=True)
class Releases:
    """What a mechanism releases, as the fields of a subclass.

    A field is a release, None where these settings make none, a group of releases, or a tuple of
    any of them, one for each round.
    """

    def __iter__(self) -> Iterator[tuple[str, Release]]:
        """(name, release) of all of them, in the order of the fields; rounds are numbered."""
        for field in dataclasses.fields(self):
            yield from _name_releases(field.name.replace("_", " "), getattr(self, field.name))

    def map_releases(self, transform: Callable[[Release], Release]) -> Self:
        """The same fields with every release put through `transform`."""
        fields = (field.name for field in dataclasses.fields(self))
        return dataclasses.replace(
            self, **{name: _map_releases(getattr(self, name), transform) for name in fields}
        )


def _name_releases(name: str, value: Any) -> Iterator[tuple[str, Release]]:
    if isinstance(value, Release):
        yield name, value
    elif isinstance(value, Releases):
        yield from value
    elif value is not None:
        for index, element in enumerate(value, 1):
            for inner, release in _name_releases(name, element):
                yield f"{inner} {index}" if len(value) > 1 else inner, release


def _map_releases(value: Any, transform: Callable[[Release], Release]) -> Any:
    if isinstance(value, Release):
        return transform(value)
    if isinstance(value, Releases):
        return value.map_releases(transform)
    return None if value is None else tuple(_map_releases(element, transform) for element in value)
