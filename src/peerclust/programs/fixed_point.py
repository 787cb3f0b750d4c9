"""Numbers as integers modulo 2^64, so that sums over users do not depend on their order.

A number v with |v| <= bound is rounded to a multiple of a power of two, fine enough to leave just
room for the sum of m of them:

    q = round(v 2^(b - e)),    bound <= 2^e,    b = 62 - ceil(log2 m).

Sums of such integers are exact, also modulo 2^64, so every order of summation and every runtime
gives the same bits. The bound may be public, or a maximum over the network. For up to 512 users q
has all digits of a double near its bound. Where fewer than `MIN_BITS` bits would remain, a second
word takes what rounding leaves. A single user's numbers remain as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array
from peerclust.errors import DivergedError
from peerclust.programs.limits import Limits
from peerclust.programs.protocol import NetworkSum

# With fewer bits than this a number takes two words.
MIN_BITS = 40

Words = NDArray[np.uint64]


def order_of_magnitude(values: Array) -> Array:
    """Return for each number the power of two that its integer's scale depends on, at most |v|.

    All that a maximum over the network needs of a user's numbers; it tells the others no more.

    >>> order_of_magnitude(np.array([3.0, -0.3, 0.0])).tolist()
    [2.0, 0.25, 0.0]
    """
    mantissa, exponent = np.frexp(np.abs(values))
    finite = np.ldexp(np.where(mantissa > 0, 0.5, 0.0), exponent)
    return np.where(np.isfinite(values), finite, np.abs(values))


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """The integers that stand for vectors, (w,), of which at most m are added.

    Attributes
    ----------
    exponent : (w,) int array
        Numbers are at most 2^exponent in magnitude.
    bits : int
        The number of bits of a word, without those for the sum.
    words : int
        The number of words per number, 1 or 2. With 0 there is nothing to add: words are the bits
        of the numbers themselves, one each.

    Examples
    --------
    >>> numbers = FixedPoint.for_bound(np.array([3.0, 0.5]), m=2)
    >>> total = numbers.encode(np.array([[1.5, -0.5], [3.0, 0.25]])).sum(axis=0)
    >>> numbers.decode(total).tolist()
    [4.5, -0.25]
    """

    exponent: NDArray[np.intc]
    bits: int
    words: int

    @classmethod
    def for_bound(cls, bound: Array, m: int) -> FixedPoint:
        """Return the integers for numbers of at most this magnitude, (w,), at up to m users.

        Raise if the bound is not finite. All users have the same bound, so all of them raise. A
        single user needs none.
        """
        if m == 1:
            return _ALONE
        if not np.isfinite(bound).all():
            raise DivergedError(
                "A sum over all users overflows: the rows are too large, or the run diverged."
            )
        bits = 62 - (m - 1).bit_length()
        return cls(np.frexp(bound)[1], bits, 1 if bits >= MIN_BITS else 2)

    def fits(self, values: Array) -> NDArray[np.bool_]:
        """Return which of the vectors, (u, w), do not exceed the bound, (u,)."""
        if self.words == 0:
            return np.asarray(np.isfinite(values).all(axis=1))
        # Not |v| <= 2^exponent: 2^1024 would be infinite, and infinity would fit.
        return np.asarray((np.ldexp(np.abs(values), -self.exponent) <= 1.0).all(axis=1))

    def encode(self, values: Array) -> Words:
        """Return the integers, (u, words w), for values (u, w); raise if one does not fit."""
        if not self.fits(values).all():
            raise DivergedError("A number is larger than its bound: the run diverged.")
        if self.words == 0:
            return np.ascontiguousarray(values, np.float64).view(np.uint64)
        q = np.rint(np.ldexp(values, self.bits - self.exponent))
        if self.words == 2:
            rest = values - np.ldexp(q, self.exponent - self.bits)
            q = np.concatenate([q, np.rint(np.ldexp(rest, 2 * self.bits - self.exponent))], axis=1)
        return q.astype(np.int64).view(np.uint64)

    def message(self, values: Array, limits: Limits | None = None) -> NetworkSum:
        """Return the message that adds values (u, w), each user's within the limits, if any."""
        integers = self.encode(values)
        if limits is None or self.words == 0:
            return NetworkSum(integers)
        return NetworkSum(integers, partial(self._refuse, limits))

    def _refuse(self, limits: Limits, total: Words, users: int) -> str:
        unit = np.ldexp(1.0, self.exponent - self.bits)
        return limits.refuse(self.decode(total), users, unit)

    def decode(self, total: Words) -> Array:
        """Return the numbers, (w,), for a sum of integers, (words w,)."""
        if self.words == 0:
            return total.view(np.float64)
        signed = total.view(np.int64).reshape(self.words, -1).astype(np.float64)
        value = np.ldexp(signed[0], self.exponent - self.bits)
        if self.words == 2:
            value = value + np.ldexp(signed[1], self.exponent - 2 * self.bits)
        return np.asarray(value)


_ALONE = FixedPoint(np.empty(0, np.intc), 62, 0)
