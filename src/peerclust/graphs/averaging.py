"""How neighbors alone find the exact average of all users' numbers, in few exchanges.

Users who hold x, (m, ...), make steps x <- x - L x / lambda_k, each after one exchange. A step
leaves the average as it is and takes away the part of x that belongs to the eigenvalue lambda_k of
the Laplacian; the part that belongs to lambda is multiplied by 1 - lambda / lambda_k. After a step
for each distinct eigenvalue but 0 only the average is left.

The order decides about rounding. Each step here takes away the part that is largest at that time,
what rounding brought in included; without rounding that is Leja's order of the eigenvalues. On
graphs of many users all parts are small long before every eigenvalue has had its turn.

Steps need not be by eigenvalues. Those by the roots of the Chebyshev polynomial of degree n that is
stretched over all of them, lambda_2 to lambda_max, make every part smaller by at least
1 / T_n((lambda_max + lambda_2) / (lambda_max - lambda_2)), which is the best that can be done
without knowing the eigenvalues between. Where that takes fewer steps to the accuracy asked for,
as on well-connected graphs of many users, they are taken instead, in Leja's order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Eigenvalues are one if they differ by less than this share of the largest.
SAME = 1e-8

# No part of x is larger than this share of it in the end, where rounding allows that.
SETTLED = 1e-13

_ROUNDING = 2.0**-53


def find_factors(
    eigenvalues: NDArray[np.float64], degree: float, accuracy: float = SETTLED
) -> tuple[float, ...]:
    """Give the factors of the fewest steps after which no part is above `accuracy`.

    `eigenvalues` are ascending, `degree` is the largest.

    >>> find_factors(np.array([0.0, 1.0, 3.0]), 2.0)  # a path of three users
    (0.3333333333333333, 1.0)
    """
    if len(eigenvalues) == 1:
        return ()
    by_eigenvalues = order_factors(eigenvalues, degree, accuracy)
    some = _distinct(eigenvalues)
    # Of one or two distinct eigenvalues nothing is better than a step for each.
    most = len(by_eigenvalues) - 1
    by_roots = _chebyshev(float(some[-1]), float(some[0]), accuracy, most) if most > 1 else ()
    if by_roots and _parts_after(by_roots, some, degree) <= accuracy:
        return by_roots
    return by_eigenvalues


def _distinct(eigenvalues: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give the distinct eigenvalues but 0, descending."""
    largest = eigenvalues[-1]
    some = eigenvalues[eigenvalues > SAME * largest]
    return np.asarray(some[np.diff(some, prepend=0.0) > SAME * largest][::-1])


def _chebyshev(low: float, high: float, accuracy: float, most: int) -> tuple[float, ...]:
    """Give the factors 1 / root in Leja's order; none if they are more than `most`."""
    degree = int(np.ceil(np.arccosh(1.0 / accuracy) / np.arccosh((high + low) / (high - low))))
    if degree > most:
        return ()
    angles = (2.0 * np.arange(degree) + 1.0) * np.pi / (2.0 * degree)
    roots = 0.5 * (high + low) + 0.5 * (high - low) * np.cos(angles)
    order, logs = [0], np.zeros(degree)
    for _ in range(degree - 1):
        with np.errstate(divide="ignore"):
            logs += np.log(np.abs(roots - roots[order[-1]]))
        # Of roots that rounding may have made unequal the first, that all users choose alike.
        order.append(int(np.argmax(logs >= logs.max() - 1e-6)))
    return tuple((1.0 / roots[order]).tolist())


def _step(
    part: NDArray[np.float64], ours: NDArray[np.float64], factor: float, degree: float
) -> NDArray[np.float64]:
    """Give how large each part is after a step, with what rounding brings in."""
    return np.asarray(part * np.abs(1.0 - ours * factor) + _ROUNDING * (1.0 + degree * factor))


def _parts_after(factors: tuple[float, ...], ours: NDArray[np.float64], degree: float) -> float:
    part = np.ones(len(ours))
    for factor in factors:
        part = _step(part, ours, factor, degree)
    return float(part.max())


def order_factors(
    eigenvalues: NDArray[np.float64], degree: float, accuracy: float = SETTLED
) -> tuple[float, ...]:
    """Give 1 / lambda_k for each step, from ascending eigenvalues and the largest degree.

    >>> order_factors(np.array([0.0, 1.0, 3.0]), 2.0)  # a path of three users
    (0.3333333333333333, 1.0)
    """
    ours = _distinct(eigenvalues)
    part = np.ones(len(ours))
    chosen: list[float] = []
    least, enough = np.inf, 0
    while part.max() > accuracy and len(chosen) < 2 * len(ours):
        # Of parts that rounding may have made unequal the first, that all users choose alike.
        at = int(np.argmax(part >= (1 - 1e-6) * part.max()))
        part = _step(part, ours, float(1.0 / ours[at]), degree)
        chosen.append(float(1.0 / ours[at]))
        # Where rounding stands in the way, no more steps are made for what is hardly better.
        if part.max() <= max(accuracy, 0.1 * least):
            least, enough = part.max(), len(chosen)
    return tuple(chosen[:enough])
