"""A loss from any Bregman generator psi: f(x, y) = psi(y) - psi(x) - <grad psi(x), y - x>.

Its gradient is grad_x f(x, y) = H(x) (x - y), with H the Hessian of psi (proof of lm:fix-pt). So
the gradient depends on the rows of a cluster only through their weight and mean, and consensus
fixed points are the weighted means of their clusters (lm:bregman-cons-fp). Rows are assigned by the
divergence itself, which for given centers is an affine function of the row plus psi(y).

The theory requires that f is convex and `smoothness`-smooth in x, and the square of a metric.
`squared_euclidean` and `squared_mahalanobis` are; `generalized_kl` is not, and has `in_theory`
False: the step size that follows from `smoothness` need not be safe there.

A `Bregman` is a loss (`losses.Loss`) and its own geometry (`distances.Geometry`): its value is its
divergence, with gamma 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerclust import kernels
from peerclust.arrays import Array
from peerclust.distances import Mahalanobis
from peerclust.errors import DataError, DivergedError, ParameterError
from peerclust.row_validation import refuse_sparse
from peerclust.validation import check_number


@dataclass(frozen=True, kw_only=True)
class Bregman:
    """The Bregman loss of a generator psi, given by three functions of points (..., d).

    Parameters
    ----------
    psi : callable
        Strictly convex; (..., d) to (...).
    gradient : callable
        Its gradient; (..., d) to (..., d).
    hessian : callable
        Its Hessian; (..., d) to (..., d, d), or to (d, d) if it is constant.
    smoothness : float
        beta, a bound on the curvature of f in its first argument, where the centers can be.
    domain : callable, optional
        Whether psi and its derivatives are defined at points: (..., d) to bool (...).
    in_theory : bool
        Whether f is convex in x, smooth, and the square of a metric.
    name : str
        Its name in messages and results.

    Examples
    --------
    >>> loss = squared_euclidean()
    >>> float(loss.divergence(np.array([0.0, 0.0]), np.array([3.0, 4.0])))
    12.5
    """

    psi: Callable[[Array], Array]
    gradient: Callable[[Array], Array]
    hessian: Callable[[Array], Array]
    smoothness: float
    domain: Callable[[Array], NDArray[np.bool_]] | None = None
    in_theory: bool = False
    name: str = "bregman"

    def __post_init__(self) -> None:
        for member in ("psi", "gradient", "hessian"):
            if not callable(getattr(self, member)):
                raise ParameterError(f"`{member}` of Bregman must be a function of points.")
        check_number(self.smoothness, "smoothness", "Bregman", above=0)

    def value(self, r2: ArrayLike) -> Array:
        """Return the loss of rows at these divergences: the divergences."""
        return np.asarray(r2, dtype=np.float64)

    def gamma(self, r2: ArrayLike) -> Array:
        """Return 1 for each divergence."""
        return np.ones(np.shape(r2))

    @property
    def compiled(self) -> tuple[int, float]:
        """The code and parameter in `kernels`: those of K-means, as gamma is 1."""
        return kernels.KMEANS, 0.0

    def smallest_curvature(self, x: Array) -> Array:
        """Return the smallest eigenvalue of the Hessian at each center, (u, K)."""
        return self._eigenvalues(x)[..., 0]

    def largest_curvature(self, x: Array) -> Array:
        """Return the largest eigenvalue of the Hessian at each center, (u, K)."""
        return self._eigenvalues(x)[..., -1]

    def precondition(self, gradient: Array) -> Array:
        """Return the gradient: the Hessian is not the same everywhere."""
        return gradient

    def _eigenvalues(self, x: Array) -> Array:
        """Return the eigenvalues of the Hessian at points (..., d), ascending."""
        found = np.linalg.eigvalsh(np.asarray(self.hessian(x), dtype=np.float64))
        return np.broadcast_to(found, x.shape)

    def inside(self, points: Array) -> NDArray[np.bool_]:
        """Return which points (..., d) are in the domain of psi's derivatives, (...)."""
        if self.domain is None:
            return np.ones(points.shape[:-1], bool)
        return np.asarray(self.domain(points))

    def contains(self, points: Array) -> bool:
        """Return whether all points are in the domain of psi's derivatives."""
        return self.domain is None or bool(self.inside(points).all())

    def check_rows(self, rows: NDArray[np.floating], of: str) -> None:
        """Raise if a row is not in the domain of psi."""
        refuse_sparse(rows, of, f"the {self.name} loss")
        outside = ~np.isfinite(self.psi(np.asarray(rows, dtype=np.float64)))
        if outside.any():
            raise DataError(
                f"The rows of {of} must be in the domain of the {self.name} loss. Row"
                f" {int(outside.argmax())} is not."
            )

    def forward(self, points: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return the points as they are."""
        return points

    def divergence(self, x: Array, y: Array) -> Array:
        """Return f(x, y) for points (..., d) that broadcast."""
        inner = (self.gradient(x) * (y - x)).sum(axis=-1)
        return np.asarray(self.psi(y) - self.psi(x) - inner)

    def place(self, x: Array) -> tuple[Array, tuple[Array, Array]]:
        """Return the centers and (slope, offset) with f(x, y) = offset - <slope, y> + psi(y)."""
        if not self.contains(x):
            raise DivergedError(
                f"A center left the domain of the {self.name} loss;"
                " use a larger `smoothness`, or the solver 'dgc' with a smaller `alpha`."
            )
        slope = np.ascontiguousarray(self.gradient(x))
        offset = (slope * x).sum(axis=-1) - self.psi(x)
        return np.ascontiguousarray(x), (slope, np.ascontiguousarray(offset))

    def back(self, x: Array, gradient: Array) -> Array:
        """Return H(x) v for centers x and vectors v, both (u, K, d)."""
        d = x.shape[-1]
        # One matrix for all centers, (d, d), or one per center.
        hessian = np.asarray(self.hessian(x)).reshape(-1, d, d)
        out = np.empty(gradient.shape)
        # H is symmetric, so the row vector v' H is (H v)'.
        kernels.matvec(gradient.reshape(-1, d), np.ascontiguousarray(hessian), out.reshape(-1, d))
        return out


def squared_euclidean() -> Bregman:
    """Return the loss of psi(x) = ||x||^2 / 2: the K-means loss ||x - y||^2 / 2."""
    return Bregman(
        psi=lambda x: 0.5 * (x * x).sum(axis=-1),
        gradient=lambda x: x,
        hessian=lambda x: np.eye(x.shape[-1]),
        smoothness=1.0,
        in_theory=True,
        name="squared_euclidean",
    )


def squared_mahalanobis(A: ArrayLike) -> Bregman:
    """Return the loss of psi(x) = x' A x / 2, which is (x - y)' A (x - y) / 2.

    >>> loss = squared_mahalanobis([[4.0, 0.0], [0.0, 1.0]])
    >>> float(loss.divergence(np.array([0.0, 0.0]), np.array([1.0, 1.0])))
    2.5
    """
    distance = Mahalanobis(A)
    matrix = np.asarray(distance.A)

    def gradient(x: Array) -> Array:
        return distance.back(distance.forward(x))

    return Bregman(
        psi=lambda x: 0.5 * (distance.forward(x) ** 2).sum(axis=-1),
        gradient=gradient,
        hessian=lambda _: matrix,
        smoothness=distance.largest,
        in_theory=True,
        name="squared_mahalanobis",
    )


def generalized_kl(*, smoothness: float) -> Bregman:
    """Return the loss of psi(x) = sum x log x - x, which is sum y log(y / x) - y + x.

    Outside the theory: f is convex in x, but neither smooth near zero nor the square of a metric.
    Rows must be >= 0, and centers must stay > 0. `smoothness` should be about the largest y / x^2
    along the run. A step that leaves the domain raises DivergedError.

    >>> float(generalized_kl(smoothness=1.0).divergence(np.array([1.0]), np.array([0.0])))
    1.0
    """

    def psi(x: Array) -> Array:
        # x log x is 0 at 0, where log alone is not defined, and infinite below
        log = np.log(np.where(x > 0, x, 1.0))
        return np.asarray(np.where(x < 0, np.inf, x * log - x).sum(axis=-1))

    def hessian(x: Array) -> Array:
        return np.asarray(np.eye(x.shape[-1]) / x[..., None, :])

    return Bregman(
        psi=psi,
        gradient=np.log,
        hessian=hessian,
        smoothness=smoothness,
        domain=lambda x: np.asarray((x > 0).all(axis=-1)),
        in_theory=False,
        name="generalized_kl",
    )
