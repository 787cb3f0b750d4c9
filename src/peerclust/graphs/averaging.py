"""How neighbors alone find the exact average of all users' numbers, in few exchanges.

Users who hold x, (m, ...), make steps x <- x - L x / lambda_k, each after one exchange. A step
leaves the average as it is and takes away the part of x that belongs to the eigenvalue lambda_k of
the Laplacian; the part that belongs to lambda is multiplied by 1 - lambda / lambda_k. After a step
for each distinct eigenvalue but 0 only the average is left.

The order decides about rounding. Each step here takes away the part that is largest at that time,
what rounding brought in included; without rounding that is Leja's order of the eigenvalues. On
graphs of many users all parts are small long before every eigenvalue has had its turn.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Eigenvalues are one if they differ by less than this share of the largest.
SAME = 1e-8

# No part of x is larger than this share of it in the end, where rounding allows that.
SETTLED = 1e-13

_ROUNDING = 2.0**-53


def order_factors(eigenvalues: NDArray[np.float64], degree: float) -> tuple[float, ...]:
    """Give 1 / lambda_k for each step, from ascending eigenvalues and the largest degree.

    >>> order_factors(np.array([0.0, 1.0, 3.0]), 2.0)  # a path of three users
    (0.3333333333333333, 1.0)
    """
    largest = eigenvalues[-1]
    some = eigenvalues[eigenvalues > SAME * largest]
    ours = some[np.diff(some, prepend=0.0) > SAME * largest][::-1]
    part = np.ones(len(ours))
    chosen: list[float] = []
    least, enough = np.inf, 0
    while part.max() > SETTLED and len(chosen) < 2 * len(ours):
        # Of parts that rounding may have made unequal the first, that all users choose alike.
        at = int(np.argmax(part >= (1 - 1e-6) * part.max()))
        shrink = np.abs(1.0 - ours / ours[at])
        part = part * shrink + _ROUNDING * (1.0 + degree / ours[at])
        chosen.append(float(1.0 / ours[at]))
        # Where rounding stands in the way, no more steps are made for what is hardly better.
        if part.max() <= max(SETTLED, 0.1 * least):
            least, enough = part.max(), len(chosen)
    return tuple(chosen[:enough])
