"""Double-double sums of rows by cluster, by exact splitting instead of one row after the other.

Let n terms v be at most 2^e in magnitude, and sigma = 2^(e + M) with n + 2 <= 2^M. Then

    q = (v + sigma) - sigma,    v = q + r

splits v without error, and sums of the q are exact in any order: all are multiples of 2^-53 sigma,
and no sum exceeds sigma (Rump, Ogita and Oishi 2008, "Accurate floating-point summation"). So a
matrix product may sum them. The rest r is at most 2^-53 sigma; it is split again, until nothing is
left: twice, mostly. The sums of all levels are added in double-double arithmetic, which is wrong by
at most 2^-105 of the result per level.

A loop that adds the terms one by one is exact unless one of its additions is rounded, that is,
unless terms and sum together span more than 106 bits. Where neither is rounded, both have the same
two numbers: hi is the exact sum rounded, and lo what is left. Otherwise they differ by at most
(n + levels) 2^-105 of the largest partial sum: hi differs only if the exact sum is that close to
halfway between two numbers, which for n terms of random bits happens once in about 2^52 / n sums.
Terms that are too large to be split, or not finite, are added one by one, as the loop does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array, Ints
from peerclust.kernels.plain.arrays import batches, scratch

# Terms from this size on are not split: sigma might overflow.
_TOO_LARGE = 2.0**960
_SMALLEST = 2.0**-1022
# Up to this many chunks are summed as matrices.
_FEW = 4


def add(hi, lo, v):
    """Return hi + lo + v as (hi, lo), by Knuth's exact sum of two numbers, used twice."""
    s = hi + v
    b = s - hi
    low = lo + ((hi - (s - b)) + (v - b))
    top = s + low
    b = top - s
    return top, (s - (top - b)) + (low - b)


def sum_rows(rows, w, labels, sizes, K):
    """Sum w and w y of rows y (n, d) of consecutive chunks by label, with weights w (n,).

    Return (hi, lo), each (chunks, K, 1 + d).
    """
    n, d = rows.shape
    sum_level = (_by_product if len(sizes) <= _FEW else _by_cell)(sizes, labels, K)
    hi, lo = np.empty((2, len(sizes), K, 1 + d))
    hi[..., 0], lo[..., 0] = (
        each[..., 0] for each in _sum(w[None].copy(), labels, sizes, K, sum_level)
    )
    for some in batches(d, n):
        terms = scratch("terms", (some.stop - some.start, n))
        np.multiply(rows[:, some].T, w, out=terms)
        here = slice(1 + some.start, 1 + some.stop)
        hi[..., here], lo[..., here] = _sum(terms, labels, sizes, K, sum_level)
    return hi, lo


def _sum(terms, labels, sizes, K, sum_level):
    """Sum terms (c, n), which are overwritten, by chunk and label; return (hi, lo)."""
    starts = np.cumsum(sizes) - sizes
    M = int(sizes.max()).bit_length() + 1
    peak = np.maximum(
        np.maximum.reduceat(terms, starts, axis=1), -np.minimum.reduceat(terms, starts, axis=1)
    )
    slow = np.flatnonzero(~(peak < _TOO_LARGE).all(axis=0))
    unsplit = [terms[:, starts[t] : starts[t] + sizes[t]].copy() for t in slow]
    for t in slow:
        terms[:, starts[t] : starts[t] + sizes[t]], peak[:, t] = 0.0, 0.0
    sigma = np.ldexp(1.0, np.frexp(peak)[1] + M)
    if len(sizes) > 1:
        sigma = np.repeat(sigma, sizes, axis=1)
    hi, lo = np.zeros((2, len(sizes), K, len(terms)))
    q = scratch("parts", terms.shape)
    while terms.any():
        np.add(terms, sigma, out=q)
        q -= sigma
        hi, lo = add(hi, lo, sum_level(q))
        terms -= q
        # Where there is no rest left, it must not become zero.
        sigma = np.maximum(sigma * 2.0 ** (M - 53), _SMALLEST)
    for t, own in zip(slow, unsplit, strict=True):
        for r, k in enumerate(labels[starts[t] : starts[t] + sizes[t]]):
            hi[t, k], lo[t, k] = add(hi[t, k], lo[t, k], own[:, r])
    return hi, lo


def _by_product(sizes, labels, K):
    """Return a function that sums numbers (c, n) by chunk and label, (chunks, K, c), as matrices.

    No sum may be rounded.
    """
    ends = np.cumsum(sizes)
    chunks = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    chosen = [(labels[here] == np.arange(K)[:, None]).astype(np.float64) for here in chunks]

    def sum_level(q):
        return np.stack([each @ q[:, here].T for each, here in zip(chosen, chunks, strict=True)])

    return sum_level


def _by_cell(sizes, labels, K):
    """Return a function that does what that of `_by_product` does, for many small chunks."""
    cells = labels + np.repeat(np.arange(len(sizes)) * K, sizes)

    def sum_level(q):
        each = [np.bincount(cells, weights=line, minlength=len(sizes) * K) for line in q]
        return np.stack(each, axis=1).reshape(len(sizes), K, len(q))

    return sum_level


def sum_entries(
    values: Array, cells: Ints, n: int, ends: Ints, sizes: Ints, plain: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Sum the values of consecutive users into n cells; return (hi, lo), each (n,).

    User i has the values ends[i] to ends[i + 1], at most sizes[i] of them in a cell. Those of
    `plain` users, and all if some are too large to be split, are added in their order.
    """
    counts = np.diff(ends)
    has = counts > 0
    exact = ~np.repeat(plain, counts)
    rest = np.where(exact, values, 0.0)
    hi, lo = np.zeros((2, n))
    if plain.any():
        hi = _count(cells, np.where(exact, 0.0, values), n)
    M = np.frexp(sizes[has] + 2.0)[1]
    while len(rest):
        peak = np.maximum.reduceat(np.abs(rest), ends[:-1][has])
        if not (peak < _TOO_LARGE).all():
            return _count(cells, values, n), np.zeros(n)
        if not peak.any():
            break
        sigma = np.repeat(np.ldexp(1.0, np.frexp(peak)[1] + M), counts[has])
        q = rest + sigma
        q -= sigma
        hi, lo = add(hi, lo, _count(cells, q, n))
        rest = rest - q
    return hi, lo


def _count(cells: Ints, values: Array, n: int) -> Array:
    """Return the sums of the values in each of n cells, added in their order."""
    return np.bincount(cells, weights=values, minlength=n).astype(np.float64, copy=False)


def exact_by_user(owner, hi, lo, total, low):
    """Add the chunks' sums hi + lo, (chunks, n), to their users' total + low, (users, n).

    `owner` is ascending.
    """
    new = np.ones(len(owner), np.bool_)
    new[1:] = owner[1:] != owner[:-1]
    firsts = np.flatnonzero(new)
    sizes = np.diff(firsts, append=len(owner))
    # The first chunk of each user, then the second of those that have one, and so on.
    for piece in range(sizes.max(initial=0)):
        t = firsts[sizes > piece] + piece
        users = owner[t]
        top, rest = add(total[users], low[users], hi[t])
        total[users], low[users] = add(top, rest, lo[t])
