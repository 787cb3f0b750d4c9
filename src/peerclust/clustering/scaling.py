"""Scaling of each feature by its distribution over all users' rows, without a server.

"standard" is by the mean and the standard deviation. With W = sum w the total weight and y the
rows, two sums over the network (`programs.consensus`),

    first = 1/W sum w y,    then    e = 1/W sum w (y - first),    s = 1/W sum w (y - first)^2,

yield mean = first + e and deviation^2 = s - e^2. Without rounding errors e would be zero; it
corrects for them.

"robust" is by the median and the interquartile range, (q75 - q25) / 1.349, which is the standard
deviation if the feature is normal. Rows that are far away, up to a quarter of the weight, hardly
change either. The quantiles are found by counting (`programs.quantile`). If half of the rows or
more have the same value, the range may be 0; the unit is then the standard deviation.

All users compute the same bits. What others learn: all users learn the joint weight, means and
deviations, with "robust" also the three quartiles of each feature and the largest weight of a user.
A user's parent in the tree hears the weight, sums and counts of its subtree; for a leaf, these are
its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels, theory
from peerclust.arrays import Array, Rows
from peerclust.distances import Linear
from peerclust.errors import DataError, DivergedError
from peerclust.programs.consensus import Total
from peerclust.programs.limits import Limits, claims
from peerclust.programs.quantile import Quantile
from peerclust.row_validation import refuse_sparse
from peerclust.runtimes.loop import run_program
from peerclust.runtimes.protocol import Runtime, Traffic
from peerclust.users import Users
from peerclust.users.rows import plan_chunks

F = TypeVar("F", np.float32, np.float64)

SCALES = ("none", "standard", "robust")

# Number of rows that are scaled at a time.
CHUNK = 1 << 14

# The quartiles of a normal feature differ by this many standard deviations.
NORMAL_RANGE = 1.3489795003921634

# Quantiles of at most this many features are computed at a time, of fewer among many users: all
# their counts are in memory at once.
_MAX_FEATURES = 64
_MAX_COUNTED = 1 << 15

# Moments may leave the public box by this fraction of its width, for rounding.
_BOX_ROUNDING = 1e-9

_OVERFLOW = "The rows to be scaled are so large that the sum of squares overflows."


@dataclass(frozen=True, eq=False)
class Scale:
    """Coordinates (y - mean) / deviation, for each feature by itself.

    If robust, `mean` has the medians, and `deviation` the interquartile ranges over 1.349.

    >>> scale = Scale(mean=np.array([10.0, 0.0]), deviation=np.array([2.0, 1.0]))
    >>> scale.forward(np.array([[14.0, 3.0]])).tolist(), scale.back(np.array([[2.0, 3.0]])).tolist()
    ([[2.0, 3.0]], [[14.0, 3.0]])
    """

    mean: Array
    deviation: Array

    def forward(self, rows: NDArray[F]) -> NDArray[F]:
        """Convert rows or centers (..., d) to these coordinates, in C order; keep the dtype.

        They are computed in float64 and rounded once. So the numbers of float32 rows, in units of
        their deviation, have an error of the size that rounding to float32 had left in them.
        """
        out = np.empty(rows.shape, rows.dtype)
        flat, scaled = rows.reshape(-1, rows.shape[-1]), out.reshape(-1, rows.shape[-1])
        for start in range(0, len(flat), CHUNK):
            here = slice(start, start + CHUNK)
            scaled[here] = (flat[here] - self.mean) / self.deviation
        return out

    def back(self, centers: Array) -> Array:
        """Convert centers (..., d) back to the rows' own units, in C order."""
        return np.ascontiguousarray(centers * self.deviation + self.mean)


@dataclass(frozen=True)
class Scaled(Linear):
    """The geometry of a distance between rows and centers that are scaled first.

    >>> from peerclust.distances import Euclidean
    >>> scale = Scale(mean=np.array([10.0]), deviation=np.array([2.0]))
    >>> Scaled(Euclidean(), scale).forward(np.array([[14.0]])).tolist()
    [[2.0]]
    """

    scale: Scale

    def forward(self, points: Rows) -> Rows:
        """Return F of each scaled point."""
        return super().forward(self.scale.forward(points))

    def place(self, x: Array) -> tuple[Array, tuple[()]]:
        """Return F of the scaled centers."""
        return super().place(self.scale.forward(x))

    def check_rows(self, rows: Rows, of: str) -> None:
        """Raise if the rows (N, d) do not fit."""
        refuse_sparse(rows, of, "a scale")
        super().check_rows(rows, of)


@dataclass(frozen=True, eq=False)
class Moments:
    """The joint mean and deviation of each feature, (d,), weighted; the same bits at every user.

    Attributes
    ----------
    mean, deviation : (d,) arrays
        A constant feature has the deviation 1.
    variance : (d,) array
        A constant feature has the variance 0.
    spread : float
        The RMS distance of the rows from their mean; never 0.
    weight : float
        The total weight of all rows.
    """

    mean: Array
    deviation: Array
    variance: Array
    spread: float
    weight: float

    def spread_in(self, scale: Scale | None) -> float:
        """Return the spread of the rows in a scale; never 0.

        >>> moments = Moments(np.zeros(2), np.array([3.0, 1.0]), np.array([9.0, 0.0]), 3.0, 1.0)
        >>> moments.spread_in(Scale(moments.mean, moments.deviation)), moments.spread_in(None)
        (1.0, 3.0)
        """
        if scale is None:
            return self.spread
        return float(np.sqrt((self.variance / scale.deviation**2).sum())) or 1.0


def agree_on_scale(
    runtime: Runtime, users: Users, scale: str, moments: Moments
) -> tuple[Scale | None, Traffic]:
    """Return the scale of a name, None for "none", and the traffic that finding it took.

    >>> from peerclust.graphs import path
    >>> from peerclust.runtimes import Simulator
    >>> runtime, users = Simulator(path(2)), Users(np.arange(9.0)[:, None], np.array([0, 2, 9]))
    >>> moments, _ = distributed_moments(runtime, users)
    >>> agree_on_scale(runtime, users, "robust", moments)[0].mean
    array([4.])
    """
    if scale == "none":
        return None, Traffic()
    if scale == "standard":
        return Scale(moments.mean, moments.deviation), Traffic()
    quartiles, sent = _quartiles(runtime, users)
    low, median, high = quartiles.T
    if (box := users.bounds) is not None and not (
        (box.low <= quartiles.T) & (box.high >= quartiles.T)
    ).all():
        raise DataError(
            "A quartile over the rows of all users is outside of the range of its feature: a user"
            " reported a wrong number."
        )
    with np.errstate(over="ignore"):
        deviation = (high - low) / NORMAL_RANGE
    if not np.isfinite(deviation).all():
        raise DataError(_OVERFLOW)
    varies = deviation > theory.CONSTANT * np.abs(median)
    return Scale(median, np.where(varies, deviation, moments.deviation)), sent


def distributed_moments(runtime: Runtime, users: Users) -> tuple[Moments, Traffic]:
    """Return the moments of the joint rows, and the traffic that computing them took.

    >>> from peerclust.graphs import path
    >>> from peerclust.runtimes import Simulator
    >>> users = Users(np.array([[1.0], [2.0], [6.0]]), np.array([0, 2, 3]))
    >>> moments, sent = distributed_moments(Simulator(path(2)), users)
    >>> moments.mean, moments.weight, sent.messages
    (array([3.]), 3.0, 8)
    """
    origin = np.zeros(users.d)
    limits = _moment_limits(users)
    with np.errstate(over="ignore", invalid="ignore"):
        own = np.column_stack([users.total_weights, _sums(users, origin, 1)])
        (weight, *totals), sent = _total(runtime, users, own, limits[0])
        if not weight > 0:
            raise DataError(
                f"The rows of all users must have a total weight above 0. Got {weight:g}."
            )
        first = np.array(totals) / weight
        own = np.column_stack([_sums(users, first, 1), _sums(users, first, 2)])
        total, more = _total(runtime, users, own, limits[1])
    error, squares = np.split(total / weight, 2)
    mean = first + error
    variance = np.maximum(squares - error * error, 0.0)
    if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
        raise DataError(_OVERFLOW)
    _check_moments(users, mean, variance)
    varies = np.sqrt(variance) > theory.CONSTANT * np.abs(mean)
    moments = Moments(
        mean=mean,
        deviation=np.where(varies, np.sqrt(variance), 1.0),
        variance=np.where(varies, variance, 0.0),
        spread=theory.nonzero_spread(float(np.sqrt(variance.sum())), mean),
        weight=float(weight),
    )
    return moments, sent + more


def _moment_limits(users: Users) -> tuple[Limits | None, Limits | None]:
    """Return the limits of a user's weight and sums, and of its sums and squares around a mean."""
    if (bounds := claims(users)) is None:
        return None, None
    W, d, width = bounds.weight or 0.0, users.d, bounds.high - bounds.low
    low, high = W * np.minimum(bounds.low, 0.0), W * np.maximum(bounds.high, 0.0)
    return (
        Limits.of(("total weight", 1, 0.0, W), ("sum of rows", d, low, high)),
        Limits.of(
            ("sum of deviations", d, -W * width, W * width),
            ("sum of squared deviations", d, 0.0, W * width * width),
        ),
    )


def _check_moments(users: Users, mean: Array, variance: Array) -> None:
    """Raise if no rows in the public box have these moments."""
    if (bounds := users.bounds) is None:
        return
    slack = _BOX_ROUNDING * (bounds.high - bounds.low)
    inside = (bounds.low - slack <= mean) & (mean <= bounds.high + slack)
    # The largest variance of rows with this mean is that of rows on both ends of the range.
    most = (bounds.high - mean + slack) * (mean - bounds.low + slack)
    for what, good in (("mean", inside), ("standard deviation", ~(variance > most))):
        if not good.all():
            number = int(good.argmin())
            got = mean if what == "mean" else np.sqrt(variance)
            raise DataError(
                f"The {what} of feature {number} over the rows of all users is {got[number]:g},"
                f" which is impossible in its range, {bounds.low[number]:g} to"
                f" {bounds.high[number]:g}: a user reported a wrong number."
            )


def _sums(users: Users, origin: Array, power: int) -> Array:
    """Return each user's sum of w (y - origin)^power, (u, d), with the same bits in any block."""
    chunks = plan_chunks(users.offsets)
    parts = np.empty((len(chunks.owner), users.d))
    for chunk, (start, stop) in enumerate(zip(chunks.start, chunks.stop, strict=True)):
        values = (users.rows[start:stop] - origin) ** power
        weights = users.weights
        w = weights if isinstance(weights, float) else weights[start:stop, None]
        np.add.reduce(w * values, axis=0, out=parts[chunk])
    total = np.zeros((users.m, users.d))
    kernels.by_user(chunks.owner, parts, total)
    return total


def _quartiles(runtime: Runtime, users: Users) -> tuple[Array, Traffic]:
    """Return the quartiles of each feature over the rows of all users, (d, 3)."""
    m, found, sent = runtime.distribution.graph.m, [], Traffic()
    size = max(1, min(_MAX_FEATURES, _MAX_COUNTED // m))
    x = np.empty((users.m, 0, users.d))
    for start in range(0, users.d, size):
        program = Quantile(m, (0.25, 0.5, 0.75), partial(_features, start, size))
        run = run_program(runtime, program, users, x, rounds=program.rounds)
        found.append(run.states[0].found.reshape(-1, 3))
        sent += run.traffic
    return np.concatenate(found), sent


def _features(start: int, size: int, users: Users, x: Array) -> Rows:  # noqa: ARG001
    """Return some features of the users' rows."""
    return users.rows[:, start : start + size]


def _total(
    runtime: Runtime, users: Users, own: Array, limits: Limits | None
) -> tuple[Array, Traffic]:
    """Compute the sum over all users, (w,), of vectors, those of this block in `own`, (u, w).

    `limits` are those of one vector.
    """
    program = Total(runtime.distribution.graph.m, limits=limits)
    try:
        run = run_program(runtime, program, users, own[:, None, :], rounds=program.rounds)
    except DivergedError:
        raise DataError(_OVERFLOW) from None
    total: Array = run.states[0].x[0, 0]
    return total, run.traffic
