"""Scaling by the mean and deviation of each feature over all users' rows, without a server.

With W = sum w the total weight and y the rows, two sums over the network (`programs.consensus`),

    first = 1/W sum w y,    then    e = 1/W sum w (y - first),    s = 1/W sum w (y - first)^2,

yield mean = first + e and deviation^2 = s - e^2. Without rounding errors e would be zero; it
corrects for them. All users compute the same bits. What others learn: all users learn the joint
weight, means and deviations. A user's parent in the tree hears the weight and sums of its subtree;
for a leaf, these are its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels, theory
from peerclust.arrays import Array
from peerclust.errors import DataError, DivergedError
from peerclust.programs.consensus import Total
from peerclust.runtimes.loop import run_program
from peerclust.runtimes.protocol import Runtime, Traffic
from peerclust.users import Users
from peerclust.users.rows import plan_chunks

F = TypeVar("F", np.float32, np.float64)

# Number of rows that are scaled at a time.
CHUNK = 1 << 14

_OVERFLOW = "The rows to be scaled are so large that the sum of squares overflows."


@dataclass(frozen=True, eq=False)
class Scale:
    """Coordinates in which each feature has mean 0 and deviation 1 over the joint rows.

    >>> scale = Scale(mean=np.array([10.0, 0.0]), deviation=np.array([2.0, 1.0]))
    >>> scale.forward(np.array([[14.0, 3.0]])).tolist(), scale.back(np.array([[2.0, 3.0]])).tolist()
    ([[2.0, 3.0]], [[14.0, 3.0]])
    """

    mean: Array
    deviation: Array

    def forward(self, rows: NDArray[F]) -> NDArray[F]:
        """Convert rows or centers (..., d) to these coordinates, in C order; keep the dtype."""
        out = np.empty(rows.shape, rows.dtype)
        flat, scaled = rows.reshape(-1, rows.shape[-1]), out.reshape(-1, rows.shape[-1])
        for start in range(0, len(flat), CHUNK):
            here = slice(start, start + CHUNK)
            # The mean is float64, and so is the difference, until it is rounded.
            scaled[here] = (flat[here] - self.mean) / self.deviation
        return out

    def back(self, centers: Array) -> Array:
        """Convert centers (..., d) back to the rows' own units, in C order."""
        return np.ascontiguousarray(centers * self.deviation + self.mean)


@dataclass(frozen=True, eq=False)
class Moments:
    """The joint mean and deviation of each feature, (d,), weighted; the same bits at every user.

    Attributes
    ----------
    mean, deviation : (d,) arrays
        A constant feature has the deviation 1.
    spread : float
        The RMS distance of the rows from their mean; never 0.
    weight : float
        The total weight of all rows.
    scaled_spread : float
        The spread of the scaled rows; never 0.
    """

    mean: Array
    deviation: Array
    spread: float
    weight: float
    scaled_spread: float

    @property
    def scale(self) -> Scale:
        """The coordinates that these moments define."""
        return Scale(self.mean, self.deviation)


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
    with np.errstate(over="ignore", invalid="ignore"):
        own = np.column_stack([users.total_weights, _sums(users, origin, 1)])
        (weight, *totals), sent = _total(runtime, users, own)
        if not weight > 0:
            raise DataError(
                f"The rows of all users must have a total weight above 0. Got {weight:g}."
            )
        first = np.array(totals) / weight
        own = np.column_stack([_sums(users, first, 1), _sums(users, first, 2)])
        total, more = _total(runtime, users, own)
    error, squares = np.split(total / weight, 2)
    mean = first + error
    variance = np.maximum(squares - error * error, 0.0)
    if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
        raise DataError(_OVERFLOW)
    varies = np.sqrt(variance) > theory.CONSTANT * np.abs(mean)
    deviation = np.where(varies, np.sqrt(variance), 1.0)
    scaled = float(np.sqrt((variance / deviation**2).sum()))
    moments = Moments(
        mean=mean,
        deviation=deviation,
        spread=theory.nonzero_spread(float(np.sqrt(variance.sum())), mean),
        weight=float(weight),
        scaled_spread=scaled if varies.any() else 1.0,
    )
    return moments, sent + more


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


def _total(runtime: Runtime, users: Users, own: Array) -> tuple[Array, Traffic]:
    """Compute the sum over all users, (w,), of vectors, those of this block in `own`, (u, w)."""
    program = Total(runtime.distribution.graph.m)
    try:
        run = run_program(runtime, program, users, own[:, None, :], rounds=program.rounds)
    except DivergedError:
        raise DataError(_OVERFLOW) from None
    total: Array = run.states[0].x[0, 0]
    return total, run.traffic
