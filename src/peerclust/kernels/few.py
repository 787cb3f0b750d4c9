"""The loop over users with a handful of rows each, who may be very many."""

from __future__ import annotations

import numpy as np

from peerclust.kernels.compiling import compiled
from peerclust.kernels.measuring import GIVEN, gamma_of


@compiled(nogil=True)
def assign_few(
    rows, weights, unit, offsets, members, first, last, x, code, parameter, row, labels, s0, s1
):
    """Assign the rows of the users `members`, first to last, and sum them up, as `assign` does.

    Give how many labels changed. `row` is a tuple of d numbers, or an empty one: the loop is
    compiled for each of its lengths, and then runs over the features without counting.
    """
    K, d = x.shape[1], len(row) if len(row) > 0 else x.shape[2]
    moved = 0
    for t in range(first, last):
        i = members[t]
        for k in range(K):
            s0[t, k] = 0.0
            for j in range(d):
                s1[t, k, j] = 0.0
        for r in range(offsets[i], offsets[i + 1]):
            best, label = np.inf, 0
            for k in range(K):
                r2 = 0.0
                for j in range(d):
                    step = rows[r, j] - x[i, k, j]
                    r2 += step * step
                lower = r2 < best
                best, label = r2 if lower else best, k if lower else label
            moved += labels[r] != label
            labels[r] = label
            if code != GIVEN:
                w = weights[r] if weights.size > 0 else unit
                w *= gamma_of(code, parameter, best)
                s0[t, label] += w
                for j in range(d):
                    s1[t, label, j] += w * rows[r, j]
    return moved
