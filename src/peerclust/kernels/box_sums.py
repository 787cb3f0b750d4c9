"""Sums over the rows of a box whose gamma changes with every step (see `boxes`)."""

from __future__ import annotations

from peerclust.kernels.compiling import compiled
from peerclust.kernels.distances import FAIR, HUBER, LOGISTIC, TILE, gamma_of
from peerclust.kernels.exact_sums import add

# Number of independent partial sums: an addition waits only for the previous one of its own lane.
LANES = 16


@compiled(nogil=True)
def measure_own(tile, n, z, labels, uniform_label, r2):
    """Write the squared distances of a box's rows to their own centers to r2."""
    r2[:n] = 0.0
    for j in range(z.shape[1]):
        if uniform_label >= 0:
            c = z[uniform_label, j]
            for r in range(n):
                step = tile[j, r] - c
                r2[r] += step * step
        else:
            for r in range(n):
                step = tile[j, r] - z[labels[r], j]
                r2[r] += step * step


@compiled(nogil=True)
def weigh(n, weights, unit, code, parameter, in_sums, r2):
    """Replace squared distances by weight times gamma, or 0 for rows in the cached sums."""
    if code == FAIR:
        for r in range(n):
            r2[r] = gamma_of(FAIR, parameter, r2[r])
    elif code == LOGISTIC:
        for r in range(n):
            r2[r] = gamma_of(LOGISTIC, parameter, r2[r])
    else:
        for r in range(n):
            r2[r] = gamma_of(HUBER, parameter, r2[r])
    for r in range(n):
        r2[r] *= weights[r] if weights.size > 0 else unit
    if code != FAIR:
        for r in range(n):
            r2[r] = 0.0 if in_sums[r] else r2[r]


@compiled(nogil=True)
def add_weighted(tile, n, labels, uniform_label, w, hi, lo):
    """Add w y, and w in the last line, to the sums hi + lo, (K, d + 1, LANES), lane by lane."""
    d = tile.shape[0]
    if uniform_label >= 0 and n == TILE:
        for j in range(d):
            line, top, low = tile[j], hi[uniform_label, j], lo[uniform_label, j]
            for r in range(0, TILE, LANES):
                for e in range(LANES):
                    top[e], low[e] = add(top[e], low[e], w[r + e] * line[r + e])
        top, low = hi[uniform_label, d], lo[uniform_label, d]
        for r in range(0, TILE, LANES):
            for e in range(LANES):
                top[e], low[e] = add(top[e], low[e], w[r + e])
    else:
        for r in range(n):
            top, low, e = hi[labels[r]], lo[labels[r]], r % LANES
            top[d, e], low[d, e] = add(top[d, e], low[d, e], w[r])
            for j in range(d):
                top[j, e], low[j, e] = add(top[j, e], low[j, e], w[r] * tile[j, r])


@compiled(inline="always")
def sum_lanes(hi, lo):
    """Return the sum over all lanes, as (hi, lo)."""
    total, low = 0.0, 0.0
    for e in range(LANES):
        total, low = add(total, low, hi[e])
        total, low = add(total, low, lo[e])
    return total, low
