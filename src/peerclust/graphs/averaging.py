"""Finite-time averaging: users compute the exact average of their numbers in few exchanges.

Users with numbers x, (m, ...), take steps x <- x - L x / lambda_k, each after one exchange. A step
keeps the average. It removes the component of x that belongs to the eigenvalue lambda_k of the
Laplacian, and multiplies the component that belongs to lambda by 1 - lambda / lambda_k. After one
step for each distinct nonzero eigenvalue only the average is left.

The order of the steps matters for rounding. Each step removes the component that is largest at that
time, rounding errors included; without rounding this is Leja's order of the eigenvalues. On graphs
of many users all components are small long before every eigenvalue has been used.

Steps need not use eigenvalues. The roots of the Chebyshev polynomial of degree n, stretched over
lambda_2 to lambda_max, shrink every component at least to
1 / T_n((lambda_max + lambda_2) / (lambda_max - lambda_2)) of itself. That is the best bound without
knowledge of the eigenvalues in between. Where the roots need fewer steps for the required accuracy,
as on well-connected graphs of many users, they are used instead, in Leja's order.
"""

from __future__ import annotations

import numpy as np

from peerclust.arrays import Array

# Eigenvalues that differ by less than this fraction of the largest count as equal.
SAME = 1e-8

# The default accuracy: the largest remaining component, as a fraction of x, if rounding permits.
DEFAULT_ACCURACY = 1e-13

_ROUNDING = 2.0**-53


def find_factors(
    eigenvalues: Array, degree: float, accuracy: float = DEFAULT_ACCURACY
) -> tuple[float, ...]:
    """Return the factors of the fewest steps after which no component is above `accuracy`.

    `eigenvalues` are ascending, `degree` is the largest degree.

    >>> find_factors(np.array([0.0, 1.0, 3.0]), 2.0)  # a path of three users
    (0.3333333333333333, 1.0)
    """
    if len(eigenvalues) == 1:
        return ()
    by_eigenvalues = order_factors(eigenvalues, degree, accuracy)
    distinct = _distinct(eigenvalues)
    low, high = float(distinct[-1]), float(distinct[0])
    # With one or two distinct eigenvalues nothing is better than one step for each.
    limit = len(by_eigenvalues) - 1
    by_roots = _chebyshev(low, high, accuracy, limit) if limit > 1 else ()
    if by_roots and _largest_after(by_roots, distinct, degree) <= accuracy:
        return by_roots
    return by_eigenvalues


def _distinct(eigenvalues: Array) -> Array:
    """Return the distinct nonzero eigenvalues, descending."""
    largest = eigenvalues[-1]
    nonzero = eigenvalues[eigenvalues > SAME * largest]
    return np.asarray(nonzero[np.diff(nonzero, prepend=0.0) > SAME * largest][::-1])


def _chebyshev(low: float, high: float, accuracy: float, limit: int) -> tuple[float, ...]:
    """Return the factors 1 / root in Leja's order; none if there are more than `limit`."""
    degree = int(np.ceil(np.arccosh(1.0 / accuracy) / np.arccosh((high + low) / (high - low))))
    if degree > limit:
        return ()
    angles = (2.0 * np.arange(degree) + 1.0) * np.pi / (2.0 * degree)
    roots = 0.5 * (high + low) + 0.5 * (high - low) * np.cos(angles)
    order, logs = [0], np.zeros(degree)
    for _ in range(degree - 1):
        with np.errstate(divide="ignore"):
            logs += np.log(np.abs(roots - roots[order[-1]]))
        # The first of roots that differ by rounding only, so that all users choose the same one.
        order.append(int(np.argmax(logs >= logs.max() - 1e-6)))
    return tuple((1.0 / roots[order]).tolist())


def _step(size: Array, distinct: Array, factor: float, degree: float) -> Array:
    """Return the size of each component after a step, rounding errors included."""
    return np.asarray(size * np.abs(1.0 - distinct * factor) + _ROUNDING * (1.0 + degree * factor))


def _largest_after(factors: tuple[float, ...], distinct: Array, degree: float) -> float:
    size = np.ones(len(distinct))
    for factor in factors:
        size = _step(size, distinct, factor, degree)
    return float(size.max())


def order_factors(
    eigenvalues: Array, degree: float, accuracy: float = DEFAULT_ACCURACY
) -> tuple[float, ...]:
    """Return 1 / lambda_k for each step, from ascending eigenvalues and the largest degree.

    >>> order_factors(np.array([0.0, 1.0, 3.0]), 2.0)  # a path of three users
    (0.3333333333333333, 1.0)
    """
    distinct = _distinct(eigenvalues)
    size = np.ones(len(distinct))
    chosen: list[float] = []
    smallest, enough = np.inf, 0
    while size.max() > accuracy and len(chosen) < 2 * len(distinct):
        # The first of components that differ by rounding only, so that all users choose it.
        at = int(np.argmax(size >= (1 - 1e-6) * size.max()))
        size = _step(size, distinct, float(1.0 / distinct[at]), degree)
        chosen.append(float(1.0 / distinct[at]))
        # Where rounding limits the accuracy, steps that hardly improve it are left out.
        if size.max() <= max(accuracy, 0.1 * smallest):
            smallest, enough = size.max(), len(chosen)
    return tuple(chosen[:enough])
