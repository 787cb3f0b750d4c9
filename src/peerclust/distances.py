"""Distances between a center and a row: Euclidean or Mahalanobis (Example 5).

With A = F'F, ||x - y||_A = ||F x - F y||. So a Mahalanobis distance is the Euclidean distance in
other coordinates. `forward` maps rows and centers to them, and `back` maps gradients back:

    grad_x h(||F x - F y||) = F' gamma (F x - F y) = gamma A (x - y).

`Geometry` is what the rest of the package works with: a distance, or a Bregman loss, which is its
own distance (see `bregman`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerclust import kernels
from peerclust.arrays import Array
from peerclust.errors import ParameterError
from peerclust.row_validation import refuse_sparse
from peerclust.text import parameter, show
from peerclust.validation import check_name


@runtime_checkable
class Distance(Protocol):
    """What `cluster(distance=...)` accepts: a linear map F; the distance is ||F x - F y||."""

    @property
    def largest(self) -> float:
        """The largest eigenvalue of A = F'F, which scales the smoothness of a loss."""

    def check(self, d: int) -> None:
        """Raise if rows with d features do not fit."""

    def forward(self, points: NDArray[Any]) -> NDArray[Any]:
        """Return F y for each point y (..., d); the result must not depend on the other points."""

    def back(self, gradient: Array) -> Array:
        """Return F' v for each vector v (..., d)."""


class Geometry(Protocol):
    """How a center x and a row y are compared: f(x, y) = value(D(x, y)), `value` of the loss.

    D is the squared distance ||F x - F y||^2, or the divergence of a Bregman loss. The gradient of
    f in x is `back` of gamma(D) (F x - F y).
    """

    @property
    def name(self) -> str:
        """Its name in messages."""

    @property
    def in_theory(self) -> bool:
        """Whether the theory covers it: D is the square of a metric."""

    @property
    def divergence(self) -> Callable[[Array, Array], Array] | None:
        """D for centers and rows (..., d) that broadcast; None if it is ||F x - F y||^2."""

    def forward(self, points: NDArray[Any]) -> NDArray[Any]:
        """Return F y for each point y (..., d)."""

    def place(self, x: Array) -> tuple[Array, tuple[Array, ...]]:
        """Return the centers in the coordinates of `forward`, and their scores, if any.

        With scores (slope, offset) the nearest center has the lowest offset - <slope, y>, else the
        lowest squared distance. Raise DivergedError if a point cannot be a center.
        """

    def back(self, x: Array, gradient: Array) -> Array:
        """Return the gradients at the centers x that belong to gradients in the coordinates F x."""

    def smallest_curvature(self, x: Array) -> Array | float:
        """Return the smallest eigenvalue of the matrix by which it multiplies gradients at x.

        For centers (u, K, d): one number, or one per center, (u, K).
        """

    def largest_curvature(self, x: Array) -> Array | float:
        """Return the largest of these eigenvalues."""

    def precondition(self, gradient: Array) -> Array:
        """Return the vectors (..., d) divided by the matrix and times its largest eigenvalue.

        Unchanged if the matrix is not the same everywhere.
        """

    def inside(self, points: Array) -> NDArray[np.bool_]:
        """Return which points (..., d) may be centers, (...)."""

    def contains(self, points: Array) -> bool:
        """Return whether all points may be centers."""

    def check_rows(self, rows: NDArray[Any], of: str) -> None:
        """Raise if the rows (N, d) do not fit."""


@dataclass(frozen=True)
class Linear:
    """The geometry of a distance: any point may be a center."""

    distance: Distance
    in_theory: ClassVar[bool] = True
    divergence: ClassVar[None] = None

    @property
    def name(self) -> str:
        """The name of the distance's class."""
        return type(self.distance).__name__

    def forward(self, points: NDArray[Any]) -> NDArray[Any]:
        """Return F y for each point y (..., d)."""
        return self.distance.forward(points)

    def place(self, x: Array) -> tuple[Array, tuple[()]]:
        """Return F x for the centers x; any point may be one."""
        return np.ascontiguousarray(self.distance.forward(x), dtype=np.float64), ()

    def back(self, x: Array, gradient: Array) -> Array:  # noqa: ARG002
        """Return F' v for each vector v (..., d)."""
        return self.distance.back(gradient)

    def smallest_curvature(self, x: Array) -> float:
        """Return the smallest eigenvalue of A."""
        if isinstance(self.distance, Euclidean):
            return 1.0
        factor = self.distance.forward(np.eye(x.shape[-1]))
        return max(float(np.linalg.eigvalsh(factor @ factor.T)[0]), 0.0)

    def largest_curvature(self, x: Array) -> float:  # noqa: ARG002
        """Return the largest eigenvalue of A."""
        return self.distance.largest

    def precondition(self, gradient: Array) -> Array:
        """Return lambda_max(A) A^-1 v for each vector v (..., d)."""
        if isinstance(self.distance, Euclidean):
            return gradient
        factor = self.distance.forward(np.eye(gradient.shape[-1]))
        solved = np.linalg.solve(factor @ factor.T, gradient[..., None])[..., 0]
        return np.asarray(self.distance.largest * solved)

    def inside(self, points: Array) -> NDArray[np.bool_]:
        """Return that all points may be centers."""
        return np.ones(points.shape[:-1], bool)

    def contains(self, points: Array) -> bool:  # noqa: ARG002
        """Return True."""
        return True

    def check_rows(self, rows: NDArray[Any], of: str) -> None:
        """Raise if the rows (N, d) do not fit."""
        self.distance.check(rows.shape[1])
        if not isinstance(self.distance, Euclidean):
            refuse_sparse(rows, of, f"the distance {self.name}")


@dataclass(frozen=True)
class Euclidean:
    """The Euclidean distance ||x - y||.

    >>> Euclidean().largest
    1.0
    """

    @property
    def largest(self) -> float:
        """The largest eigenvalue of A = I, which scales the smoothness of a loss."""
        return 1.0

    def check(self, d: int) -> None:
        """Any number of features fits."""

    def forward(self, points: NDArray[Any]) -> NDArray[Any]:
        """Return the points as they are."""
        return points

    def back(self, gradient: Array) -> Array:
        """Return the gradient as it is."""
        return gradient


@dataclass(frozen=True, eq=False)
class Mahalanobis:
    """The Mahalanobis distance sqrt((x - y)' A (x - y)), A symmetric positive definite (d, d).

    >>> distance = Mahalanobis([[4.0, 0.0], [0.0, 1.0]])
    >>> distance.forward(np.array([[1.0, 1.0]])).tolist(), distance.largest
    ([[2.0, 1.0]], 4.0)
    """

    A: ArrayLike
    largest: float = field(init=False, repr=False)
    _factor: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        try:
            A = np.array(self.A, dtype=np.float64)
        except (TypeError, ValueError):
            raise ParameterError(
                parameter("A", "Mahalanobis") + " must be a matrix of numbers."
            ) from None
        if A.ndim != 2 or A.shape[0] != A.shape[1] or A.size == 0:
            raise ParameterError(
                parameter("A", "Mahalanobis") + f" must be a square matrix. Got shape {A.shape}."
            )
        if not np.isfinite(A).all():
            raise ParameterError(
                parameter("A", "Mahalanobis") + " must be finite. Got NaN or infinite entries."
            )
        # An inverted covariance is symmetric only up to rounding, relative to its diagonal.
        scale = np.sqrt(np.abs(A.diagonal()))
        if np.any(np.abs(A - A.T) > 1e-8 * np.outer(scale, scale)):
            raise ParameterError(
                parameter("A", "Mahalanobis") + " must be symmetric. Got one that is not."
            )
        A = 0.5 * (A + A.T)
        # With the diagonal scaled to 1, a Cholesky factor below this is rounding error.
        unit = np.where(scale > 0, scale, 1.0)
        if np.linalg.eigvalsh(A / np.outer(unit, unit))[0] <= len(A) * np.finfo(float).eps:
            raise ParameterError(
                parameter("A", "Mahalanobis") + " must be positive definite."
                f" Got one whose smallest eigenvalue is {np.linalg.eigvalsh(A)[0]:.3g}."
            )
        A.flags.writeable = False
        object.__setattr__(self, "A", A)
        object.__setattr__(self, "_factor", np.linalg.cholesky(A).T.copy())
        object.__setattr__(self, "largest", float(np.linalg.eigvalsh(A)[-1]))

    def check(self, d: int) -> None:
        """Raise if A is not a matrix for d features."""
        size = len(np.asarray(self.A))
        if size != d:
            raise ParameterError(
                parameter("A", "Mahalanobis") + f" must be ({d}, {d}) for rows with {d} features."
                f" Got ({size}, {size})."
            )

    def forward(self, points: NDArray[Any]) -> Array:
        """Return F y for each point y (..., d), as a float64 copy."""
        return self._multiply(points, self._factor.T)

    def back(self, gradient: Array) -> Array:
        """Return F' v for each vector v (..., d)."""
        return self._multiply(gradient, self._factor)

    @staticmethod
    def _multiply(points: NDArray[Any], matrix: Array) -> Array:
        # Not BLAS: its order of summation may depend on the number of points.
        flat = np.ascontiguousarray(points, dtype=np.float64).reshape(-1, len(matrix))
        out = np.empty_like(flat)
        kernels.matvec(flat, np.ascontiguousarray(matrix)[None], out)
        return out.reshape(points.shape)


def resolve(distance: Any, of: str = "cluster") -> Distance:
    """Return the distance for a name, or the object itself after a check.

    >>> resolve("euclidean")
    Euclidean()
    """
    if isinstance(distance, str):
        check_name(distance, ("euclidean", "mahalanobis"), "distance", of)
        if distance == "mahalanobis":
            raise ParameterError(
                parameter("distance", of) + " must be Mahalanobis(A) with its matrix A."
                " Got only the name 'mahalanobis'."
            )
        return Euclidean()
    if isinstance(distance, type) or not isinstance(distance, Distance):
        raise ParameterError(
            parameter("distance", of)
            + " must be 'euclidean', Mahalanobis(A) or an object with largest,"
            f" check(d), forward(points) and back(gradient). Got {show(distance)}."
        )
    return distance
