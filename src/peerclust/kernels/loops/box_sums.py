"""Sums over the rows of a box whose gamma changes with every step (see `boxes`).

Functions compile to nothing if `parameter` is None, that is, for K-means.
"""

from __future__ import annotations

from peerclust.kernels.constants import LANES, TILE
from peerclust.kernels.loops.compiling import inner
from peerclust.kernels.loops.distances import weigh
from peerclust.kernels.loops.exact_sums import add, update_rows
from peerclust.kernels.loops.relabeling import settle


@inner()
def _measure_own(tile, n, z, labels, uniform_label, r2):
    """Write the squared distances of a box's rows to their own centers to r2."""
    for r in range(n):
        r2[r] = 0.0
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


@inner()
def _add_line(line, w, top, low):
    """Add the TILE terms w y to the sums top + low, lane by lane."""
    for r in range(0, TILE, LANES):
        for e in range(LANES):
            top[e], low[e] = add(top[e], low[e], w[r + e] * line[r + e])


@inner()
def add_varying(
    parameter, code, tile, weights, unit, z, drift, labels, valid_until, in_sums, uniform_label,
    t, sums, tiles, moves, stale, lanes,
):  # fmt: skip
    """Add w gamma y of the rows of a box, and w gamma in the last line, to lanes (K, d + 1, LANES).

    Rows in the constant sums are left out; those whose gamma has become constant are moved there.
    Return how many these were.
    """
    if parameter is None:
        return 0
    _, score, w, _, _, each = tiles
    constant, _, marks = sums
    hi, lo = lanes
    d, n = tile.shape
    _measure_own(tile, n, z, labels, uniform_label, w)
    n_moves = settle(
        each, n, d, w, drift, labels, valid_until, in_sums, weights, unit, code, parameter, moves
    )
    if n_moves > 0:
        update_rows(tile.T, moves, n_moves, t, constant, marks, stale)
    weigh(weights, unit, code, parameter, n, w)
    for r in range(n if in_sums.size > 0 else 0):
        w[r] = 0.0 if in_sums[r] else w[r]
    if uniform_label >= 0 and n == TILE:
        ones = score[0]
        for r in range(TILE):
            ones[r] = 1.0
        for j in range(d):
            _add_line(tile[j], w, hi[uniform_label, j], lo[uniform_label, j])
        _add_line(ones, w, hi[uniform_label, d], lo[uniform_label, d])
    else:
        for r in range(n):
            top, low, e = hi[labels[r]], lo[labels[r]], r % LANES
            top[d, e], low[d, e] = add(top[d, e], low[d, e], w[r])
            for j in range(d):
                top[j, e], low[j, e] = add(top[j, e], low[j, e], w[r] * tile[j, r])
    return n_moves


@inner()
def finish_varying(parameter, t, varying, lanes):
    """Write the sums over all lanes to those of chunk t, and set the lanes to zero."""
    if parameter is None:
        return
    hi, lo = lanes
    hi0, lo0, hi1, lo1 = varying
    K, d = hi.shape[0], hi.shape[1] - 1
    for k in range(K):
        for j in range(d + 1):
            total, low = 0.0, 0.0
            for e in range(LANES):
                total, low = add(total, low, hi[k, j, e])
                total, low = add(total, low, lo[k, j, e])
                hi[k, j, e], lo[k, j, e] = 0.0, 0.0
            if j < d:
                hi1[t, k, j], lo1[t, k, j] = total, low
            else:
                hi0[t, k], lo0[t, k] = total, low
