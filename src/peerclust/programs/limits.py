"""What one user's numbers can be, from public bounds: the limits of what a peer may claim.

A user that adds numbers up a tree sends its parent the sum of its subtree. If each number of a user
lies between low and high, the sum of n users lies between n low and n high. All users know the
limits, and check what they hear before they pass it on. So a neighbor that sends something else is
the one that made it up, or that did not check.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peerclust.arrays import Array
from peerclust.users import Users
from peerclust.users.public_bounds import PublicBounds

# Numbers may exceed their limits by this fraction, for rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Limits:
    """The least and the largest value of each number, (w,), and what each of them is.

    >>> limits = Limits.of(("weight", 1, 0.0, 9.0), ("center", 2, -1.0, 1.0))
    >>> limits.refuse(np.array([8.0, 0.0, 1.0]))
    ''
    >>> limits.refuse(np.array([28.0, 0.0, 1.0]), users=3)
    'a weight of 28 for 3 sites, which must be 0 to 27'
    """

    low: Array
    high: Array
    names: tuple[str, ...]

    @classmethod
    def of(cls, *parts: tuple[str, int, Array | float, Array | float]) -> Limits:
        """Return the limits of numbers one after the other: name, count, low and high of each."""
        return cls(
            np.concatenate([np.broadcast_to(low, n) for _, n, low, _ in parts]),
            np.concatenate([np.broadcast_to(high, n) for _, n, _, high in parts]),
            tuple(name for name, n, _, _ in parts for _ in range(n)),
        )

    def repeat(self, times: int) -> Limits:
        """Return the limits of so many vectors, one after the other."""
        return Limits(np.tile(self.low, times), np.tile(self.high, times), self.names * times)

    def magnitudes(self) -> Limits:
        """Return the limits of the numbers' magnitudes."""
        high = np.maximum(np.abs(self.low), np.abs(self.high))
        return Limits(np.zeros_like(high), high, self.names)

    def refuse(self, values: Array, users: int = 1, unit: Array | float = 0.0) -> str:
        """Return why values, of any shape, cannot be the sum of so many users' numbers, or "".

        Each number of a user was rounded to a multiple of `unit`. Minus infinity, in a maximum,
        means that a user has no value.
        """
        values, low, high = values.reshape(-1), users * self.low, users * self.high
        above = low - ROUNDING * np.abs(low) - users * unit <= values
        below = values <= high + ROUNDING * np.abs(high) + users * unit
        valid = (above & below) | np.isneginf(values)
        if valid.all():
            return ""
        at = int(valid.argmin())
        of = f" for {users} sites" if users > 1 else ""
        value, least, most = (f"{each[at]:.12g}" for each in (values, low, high))
        return f"a {self.names[at]} of {value}{of}, which must be {least} to {most}"


def claims(users: Users) -> PublicBounds | None:
    """Return the bounds by which claims of these users are checked; None if they are not."""
    bounds = users.bounds
    return None if bounds is None or bounds.weight is None else bounds


def largest_cost(users: Users, bounds: PublicBounds) -> float:
    """Return the largest cost of a user: all its weight at the largest distance."""
    assert bounds.weight is not None
    r2 = np.array([bounds.reach**2 * users.distance.largest])
    return bounds.weight * float(users.loss.value(r2)[0])


def largest_curvature(users: Users, bounds: PublicBounds) -> float:
    """Return the largest curvature of a user's cost: beta times its weight."""
    assert bounds.weight is not None
    return users.smoothness * bounds.weight


def weight_limits(users: Users) -> Limits | None:
    """Return the limits of a user's total weight."""
    if (bounds := claims(users)) is None:
        return None
    assert bounds.weight is not None
    return Limits.of(("total weight", 1, 0.0, bounds.weight))


def curvature_limits(users: Users, K: int) -> Limits | None:
    """Return the limits of a 1, the K curvatures of a user's cost, and their squares."""
    if (bounds := claims(users)) is None:
        return None
    H = largest_curvature(users, bounds)
    return Limits.of(("count", 1, 1.0, 1.0), ("curvature", K, 0.0, H), ("square", K, 0.0, H * H))


def swap_limits(users: Users, K: int) -> Limits | None:
    """Return the limits of the costs of K clusters, and of what removing their centers costs."""
    if (bounds := claims(users)) is None:
        return None
    cost = largest_cost(users, bounds)
    # The latter is a difference, which rounding can make negative.
    return Limits.of(("cost", K, 0.0, cost), ("cost of a removal", K, -cost, cost))
