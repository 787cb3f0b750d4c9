"""Losses as functions of the distance between a center and a row; for distances see `distances`.

All four losses of the paper are radial: f(x, y) = h(r) with r the distance of x and y, and

    grad_x f(x, y) = gamma(r^2) (x - y),    gamma(r^2) = h'(r) / r.

A loss is any object with three members (`Loss`); no base class is needed:

- `value(r2)`: h for an array of squared distances r^2;
- `gamma(r2)`: gamma for the same array, elementwise;
- `smoothness`: beta, the least upper bound of h''(r).

The built-in losses also have `compiled`: their code and parameter in `kernels`. A Bregman loss is a
function of its divergence in place of r^2 (see `bregman`).

| loss     | h(r)                                    | gamma              | beta     |
|----------|-----------------------------------------|--------------------|----------|
| K-means  | r^2 / 2                                 | 1                  | 1        |
| Huber    | r^2 / 2, beyond delta: delta r - delta^2/2 | min(1, delta / r)  | 1        |
| logistic | log(1 + exp(r^2))                       | 2 / (1 + exp(-r^2)) | 2.60...  |
| fair     | 2 eta^2 (r^2/eta - log(1 + r^2/eta))    | 4 eta r^2 / (eta + r^2) | 4.5 eta |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from peerclust import kernels
from peerclust.arrays import Array
from peerclust.bregman import Bregman
from peerclust.distances import Distance, Euclidean, Geometry, Linear
from peerclust.errors import ParameterError
from peerclust.text import parameter, show
from peerclust.validation import check_name, check_number


@runtime_checkable
class Loss(Protocol):
    """What `cluster(loss=...)` accepts: a convex, smooth function of the squared distance."""

    @property
    def smoothness(self) -> float:
        """The least upper bound beta of h''(r)."""

    def value(self, r2: Array) -> Array:
        """Return h(r) for squared distances r2, elementwise."""

    def gamma(self, r2: Array) -> Array:
        """Return h'(r) / r for squared distances r2, elementwise."""


@runtime_checkable
class Compiled(Loss, Protocol):
    """A loss whose formula is in `kernels`."""

    @property
    def compiled(self) -> tuple[int, float]:
        """The code and parameter of the loss in `kernels`."""


def curvature_ratio(loss: Loss) -> float:
    """Return the least upper bound of h''(r) / gamma of a built-in loss, else 1.

    >>> curvature_ratio(Fair()), curvature_ratio(Huber())
    (3.0, 1.0)
    """
    return _CURVATURE_RATIOS[compiled_loss(loss)[0]]


def compiled_loss(loss: Loss) -> tuple[int, float]:
    """Return the code and parameter of a loss in `kernels`; a custom loss computes its own gamma.

    >>> compiled_loss(KMeans()) == (kernels.KMEANS, 0.0)
    True
    """
    return loss.compiled if isinstance(loss, Compiled) else (kernels.GIVEN, 0.0)


class _Compiled:
    """Base class of the built-in losses: the formula of gamma is in `kernels`."""

    @property
    def compiled(self) -> tuple[int, float]:
        raise NotImplementedError

    def gamma(self, r2: ArrayLike) -> Array:
        """Return h'(r) / r for squared distances r2, elementwise."""
        gamma: Array = kernels.gamma(*self.compiled, r2)
        return gamma


@dataclass(frozen=True)
class KMeans(_Compiled):
    """The loss of K-means, f(x, y) = ||x - y||^2 / 2 (Example 1, eq. dgc-km).

    >>> float(KMeans().value(4.0)), float(KMeans().gamma(4.0))
    (2.0, 1.0)
    """

    smoothness: ClassVar[float] = 1.0

    @property
    def compiled(self) -> tuple[int, float]:
        """The code and parameter of this loss in `kernels`."""
        return kernels.KMEANS, 0.0

    def value(self, r2: ArrayLike) -> Array:
        """Return r^2 / 2."""
        return 0.5 * np.asarray(r2, dtype=np.float64)


@dataclass(frozen=True)
class Huber(_Compiled):
    """The Huber loss (Example 2, eq. dgc-hl): beyond the distance `delta` it is linear.

    With "auto" the users choose delta from their rows (see `clustering.auto_delta`), and the loss
    of the solution has the number.

    >>> huber = Huber(delta=2.0)
    >>> huber.value(np.array([1.0, 16.0])).tolist(), huber.gamma(np.array([1.0, 16.0])).tolist()
    ([0.5, 6.0], [1.0, 0.5])
    """

    delta: float | str = 1.0
    smoothness: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if not (isinstance(self.delta, str) and self.delta == "auto"):
            delta = check_number(self.delta, "delta", "Huber", above=0, names=("auto",))
            object.__setattr__(self, "delta", delta)

    @property
    def compiled(self) -> tuple[int, float]:
        """The code and parameter of this loss in `kernels`."""
        return kernels.HUBER, self._number

    def value(self, r2: ArrayLike) -> Array:
        """Return r^2 / 2 up to delta, and delta r - delta^2 / 2 beyond."""
        r, delta = np.sqrt(r2), self._number
        near = np.minimum(r, delta)
        # near^2/2 + delta (r - near): no cancellation on either side of the kink
        return np.asarray(0.5 * near * near + delta * (r - near))

    @property
    def _number(self) -> float:
        if isinstance(self.delta, str):
            raise ParameterError(
                parameter("delta", "Huber")
                + " must be a number here; only cluster, the estimators and peers choose it from"
                " the rows. Got 'auto'."
            )
        return self.delta


# beta of the logistic loss: the maximum of 2 s + 4 t s (1 - s) over t = r^2, where
# s = 1 / (1 + exp(-t)); it is reached at t = 1.98035828...
_LOGISTIC_SMOOTHNESS = 2.601638930011748


@dataclass(frozen=True)
class Logistic(_Compiled):
    """The logistic loss, f(x, y) = log(1 + exp(||x - y||^2)) (Example 3, eq. dgc-ll).

    Its gradient weight gamma grows from 1 for near rows to 2 for far ones.

    >>> Logistic().gamma(np.array([0.0, 1e300])).tolist()
    [1.0, 2.0]
    """

    smoothness: ClassVar[float] = _LOGISTIC_SMOOTHNESS

    @property
    def compiled(self) -> tuple[int, float]:
        """The code and parameter of this loss in `kernels`."""
        return kernels.LOGISTIC, 0.0

    def value(self, r2: ArrayLike) -> Array:
        """Return log(1 + exp(r^2)), in a form that never overflows."""
        return np.asarray(np.logaddexp(0.0, r2))


@dataclass(frozen=True)
class Fair(_Compiled):
    """The fair loss, 2 eta^2 (r^2/eta - log(1 + r^2/eta)) (Example 4, eq. dgc-fl).

    Its gradient weight gamma grows from 0 at the center towards 4 eta far away.

    >>> float(Fair(eta=1.0).gamma(1.0)), Fair(eta=2.0).smoothness
    (2.0, 9.0)
    """

    eta: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "eta", check_number(self.eta, "eta", "Fair", above=0))

    @property
    def smoothness(self) -> float:
        """The least upper bound 4.5 eta of h''(r), reached at r^2 = 3 eta."""
        return 4.5 * self.eta

    @property
    def compiled(self) -> tuple[int, float]:
        """The code and parameter of this loss in `kernels`."""
        return kernels.FAIR, self.eta

    def value(self, r2: ArrayLike) -> Array:
        """Return 2 eta^2 (t - log(1 + t)) with t = r^2 / eta, accurate for small t too."""
        r2 = np.asarray(r2, dtype=np.float64)
        # t - log(1 + t) cancels for small t. With z = t / (2 + t), log(1 + t) = 2 artanh z, and
        # t - 2z = tz, so the difference is tz - 2 (z^3/3 + z^5/5 + ...); u is eta z.
        near = np.minimum(r2, 0.25 * self.eta)
        u = near / (2.0 + near / self.eta)
        z = u / self.eta
        series = np.zeros_like(z)
        for power in range(17, 1, -2):
            series = 1.0 / power + z * z * series
        small = 2.0 * u * (near - 2.0 * u * z * series)
        with np.errstate(over="ignore"):
            log = np.log1p(r2 / self.eta)
        # Where r2 / eta overflows, its logarithm is below 1500 and negligible beside r2 / eta.
        large = 2.0 * self.eta * (r2 - self.eta * np.minimum(log, 1500.0))
        return np.asarray(np.where(r2 <= 0.25 * self.eta, small, large))


# h'' / gamma is 1 + 2 t / (1 + exp(t)) with t = r^2 for the logistic loss, at most
# 1 + 2 W(1/e) with Lambert's W, and (3 eta + t) / (eta + t) for the fair loss.
_CURVATURE_RATIOS = {
    kernels.KMEANS: 1.0,
    kernels.HUBER: 1.0,
    kernels.LOGISTIC: 1.5569290855221476,
    kernels.FAIR: 3.0,
    kernels.GIVEN: 1.0,
}

LOSSES: dict[str, type[KMeans | Huber | Logistic | Fair]] = {
    "kmeans": KMeans,
    "huber": Huber,
    "logistic": Logistic,
    "fair": Fair,
}

# The parameters that losses have, each with the loss that it belongs to.
PARAMETERS = {"delta": "huber", "eta": "fair"}


def make(name: str, parameters: Mapping[str, float | str | None]) -> Loss:
    """Return the loss of a name; a parameter that is None has its default.

    >>> make("huber", {"delta": 2.0, "eta": None})
    Huber(delta=2.0)
    """
    kind: Callable[..., Loss] = LOSSES[name]
    return kind(**{key: value for key, value in parameters.items() if value is not None})


def resolve(loss: object, of: str = "cluster") -> Loss:
    """Return the loss for a name, or the object itself after a check.

    >>> resolve("huber")
    Huber(delta=1.0)
    """
    if isinstance(loss, str):
        return make(check_name(loss, LOSSES, "loss", of), {})
    if isinstance(loss, type) or not isinstance(loss, Loss):
        raise ParameterError(
            parameter("loss", of) + " must be a name, a Bregman loss, or an object with value(r2),"
            f" gamma(r2) and smoothness. Got {show(loss)}"
            + (", a class: pass an instance." if isinstance(loss, type) else ".")
        )
    check_number(loss.smoothness, "smoothness", type(loss).__name__, above=0)
    return loss


def geometry_of(loss: object, distance: Distance, of: str = "cluster") -> Geometry:
    """Return how a loss under a distance compares rows with centers.

    >>> geometry_of(KMeans(), Euclidean()).name
    'Euclidean'
    """
    if not isinstance(loss, Bregman):
        return Linear(distance)
    if not isinstance(distance, Euclidean):
        raise ParameterError(parameter("distance", of) + " must be left out with a Bregman loss.")
    return loss
