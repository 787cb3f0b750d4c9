"""Assignment with cached bounds, over rows in their own order; `boxes` is for sorted rows.

By the triangle inequality a row keeps its label while the centers have moved less than its slack
(see `center_drift`). Each row caches one number, `valid_until`: a row whose drift[i, label] is
below it is not read. This is the single bound of Hamerly (2010), "Making k-means even faster".

Where rows have many features, a bound per row and center is cached too, as in Elkan (2003), "Using
the triangle inequality to accelerate k-means". bounds[e, k] - path[i, k] is never more than the
distance to center k. A row that has expired is first measured against its own center, then only
against centers that may now be nearer than the second nearest. Drake and Hamerly (2012),
"Accelerated k-means with adaptive distance bounds", choose a number of bounds between these two.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array, Ints
from peerclust.kernels.center_drift import EPS, drift_limit
from peerclust.kernels.compiling import compiled
from peerclust.kernels.distances import (
    KMEANS,
    MIXED,
    PAD,
    TILE,
    VARYING,
    constant_gamma,
    distance,
    gamma_is_constant,
    gamma_of,
    label_slack,
    load,
    pairs,
    two_nearest,
)
from peerclust.kernels.exact_sums import add_cluster, add_row_call, clear_marks, update_rows, zero
from peerclust.kernels.row_data import weight_of


class RowCache(NamedTuple):
    """What is cached about the n rows of some chunks; those of chunk t start at place[t].

    place is (chunks,). A row's label is valid while the drift of its center is below valid_until,
    (n,). in_sums, (n,), is whether a row is in the constant sums; it is empty if that follows from
    the loss. bounds, (n, K) or empty, has an upper bound on the distance to a row's own center and
    lower bounds on those to the others, relative to the centers' paths.
    """

    place: Ints
    valid_until: Array
    in_sums: NDArray[np.bool_]
    bounds: NDArray[np.float32]


@compiled(inline="always")
def _lower(r2, path, margin):
    """Return a float32 lower bound on the distance plus `path`."""
    r = (math.sqrt(r2) + path) * (1.0 - margin)
    return np.float32(min(r, 3e38) * (1.0 - 2.0**-22)) if r > 1e-37 else np.float32(0.0)


@compiled(inline="always")
def _upper(r2, path, margin):
    """Return a float32 upper bound on the distance minus `path`."""
    r = math.sqrt(r2)
    above = (r - path) + (r + path) * (margin + 2.0**-22)
    return np.float32(max(above, -3e38) + 1e-37) if above < 3e38 else np.float32(np.inf)


@compiled(nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _rough_distance(row, center):
    """Return the squared distance to within (d + 2) EPS of itself, summed in any order."""
    # It is inlined, so that it is compiled with the options of this function.
    return distance(row, center)


@compiled(inline="always")
def _slack_by_bounds(bounds, own, path, d, margin):
    """Return the slack of a row (see `label_slack`) from its bounds alone."""
    least = np.inf
    for k in range(path.size):
        lower = (bounds[k] - path[k]) - margin * path[k]
        least = lower if k != own and lower < least else least
    upper = (bounds[own] + path[own]) + margin * path[own]
    return label_slack(KMEANS, 0.0, upper, least, d)


@compiled(nogil=True)
def _nearest_by_bounds(row, z, own, near2, path, bounds, margin, lower):
    """Return a row's label, its lowest score, and a lower bound on its other distances.

    near2 is the squared distance to its own center. Of the other centers, the one with the lowest
    bound is measured next, until no bound is below the second distance. A center is measured
    exactly only if it may be the nearest.
    """
    for k in range(z.shape[0]):
        lower[k] = max((bounds[k] - path[k]) - margin * path[k], 0.0)
    # Excluded from the search: it has been measured.
    lower[own] = np.inf
    best, label, second = near2, own, np.inf
    for _ in range(1, z.shape[0]):
        k = 0
        for other in range(lower.size):
            k = other if lower[other] < lower[k] else k
        if lower[k] >= second:
            break
        r2 = _rough_distance(row, z[k])
        if not r2 * (1.0 - margin) > best * (1.0 + margin):
            r2 = distance(row, z[k])
        if r2 < best or (r2 == best and k < label):
            second = min(second, math.sqrt(best))
            bounds[label] = _lower(best, path[label], margin)
            best, label = r2, k
        else:
            second = min(second, math.sqrt(r2) * (1.0 - margin))
            bounds[k] = _lower(r2, path[k], margin)
        lower[k] = np.inf
    for k in range(lower.size):
        second = min(second, lower[k])
    bounds[label] = _upper(best, path[label], margin)
    return label, best, second


@compiled(nogil=True)
def assign_bounded(first, last, data, chunks, tracked, cache, sums, cold, labels, counts):
    """Assign the rows of chunks first to last to the centers of `tracked`, which is a `Drift`.

    Update their `RowCache` and `CachedSums`; if these are `cold`, only the labels are valid. Write
    the number of labels of chunk t that changed to counts[0, t], and the number of its rows that
    were measured to counts[1, t].
    """
    rows, weights, unit, code, parameter = data
    owner, start, stop = chunks
    x, path, drift, _ = tracked
    place, valid_until, in_sums, bounds = cache
    constant, varying, marks = sums
    K, d = x.shape[1:]
    none = np.empty(0)
    margin = (2 * d + 16) * EPS
    tile = np.empty((0, TILE + PAD))
    lower = np.empty(K)
    score = np.zeros((max(K, 4) if bounds.size > 0 else 4, TILE))
    best, second, label = np.zeros(TILE), np.zeros(TILE), np.zeros(TILE, np.int32)
    longest = 0
    for t in range(first, last):
        longest = max(longest, stop[t] - start[t])
    chosen = np.empty(longest, np.int64)
    row_of, center_of, r2 = np.empty(TILE, np.int64), np.empty(TILE, np.int64), np.empty(TILE)
    # A row may leave one cluster and enter another.
    moves = np.empty(2 * TILE, np.int64), np.empty(2 * TILE, np.int64), np.empty(2 * TILE)
    moved_row, moved_k, moved_w = moves
    stale = np.zeros(K, np.bool_)
    mixed, varies, factor = code in MIXED, code in VARYING, constant_gamma(code)
    for t in range(first, last):
        i, base = owner[t], place[t] - start[t]
        z, size = x[i], stop[t] - start[t]
        count, n_changed, n_varying = 0, 0, 0
        for row in range(start[t], stop[t]):
            chosen[count] = row
            # Written so that NaN or overflow means the row is read.
            count += cold or not drift[i, labels[row]] < valid_until[base + row]
        if bounds.size > 0 and not mixed and 2 * count <= size:
            expired, count = chosen[:count], 0
            for row in expired:
                own = labels[row]
                slack = _slack_by_bounds(bounds[base + row], own, path[i], d, margin)
                valid_until[base + row] = drift_limit(drift[i, own], slack)
                chosen[count] = row
                count += not slack > 0.0
        # Measuring all rows against all centers takes little longer than most against some.
        scan_all = bounds.size == 0 or 2 * count > size
        if scan_all and count > 0 and tile.size == 0:
            tile = np.zeros((d, TILE + PAD))
        batch = TILE if scan_all else 4
        for begin in range(0, count, batch):
            n = min(batch, count - begin)
            here = chosen[begin : begin + n]
            if scan_all:
                load(rows, here, n, tile)
                two_nearest(tile, n, z, z, none, False, score, best, second, label)
                for r in range(n):
                    second[r] = math.sqrt(second[r])
                    for k in range(K if bounds.size > 0 else 0):
                        bounds[base + here[r], k] = _lower(score[k, r], path[i, k], margin)
                    if bounds.size > 0:
                        k = label[r]
                        bounds[base + here[r], k] = _upper(best[r], path[i, k], margin)
            else:
                for r in range(n):
                    row_of[r], center_of[r] = here[r], labels[here[r]]
                pairs(rows, z, row_of, center_of, n, best)
                for r in range(n):
                    label[r], best[r], second[r] = _nearest_by_bounds(
                        rows[here[r]], z, center_of[r], best[r], path[i],
                        bounds[base + here[r]], margin, lower,
                    )  # fmt: skip
            n_moves = 0
            for r in range(n):
                row, k, old = here[r], label[r], labels[here[r]]
                near = math.sqrt(best[r])
                slack = label_slack(code, parameter, near, second[r], d)
                valid_until[base + row] = drift_limit(drift[i, k], slack)
                is_in = gamma_is_constant(code, parameter, best[r])
                was_in = not cold and (in_sums[base + row] if mixed else code == KMEANS)
                if old != k or is_in != was_in:
                    w = factor * weight_of(weights, unit, row)
                    if is_in:
                        moved_row[n_moves], moved_k[n_moves], moved_w[n_moves] = row, k, w
                        n_moves += 1
                    if was_in:
                        moved_row[n_moves], moved_k[n_moves], moved_w[n_moves] = row, old, -w
                        n_moves += 1
                    if mixed:
                        in_sums[base + row] = is_in
                    n_changed += old != k
                    labels[row] = k
            if n_moves > 0:
                update_rows(rows, moves, n_moves, t, constant, marks, stale)
        if varies:
            for k in range(K):
                zero(t, k, varying)
            for row in range(start[t], stop[t]):
                if not mixed or not in_sums[base + row]:
                    row_of[n_varying], center_of[n_varying] = row, labels[row]
                    n_varying += 1
                if n_varying == TILE or row == stop[t] - 1:
                    pairs(rows, z, row_of, center_of, n_varying, r2)
                    n_moves = 0
                    for p in range(n_varying):
                        here_row, k = row_of[p], center_of[p]
                        w = weight_of(weights, unit, here_row)
                        if gamma_is_constant(code, parameter, r2[p]):
                            near = math.sqrt(r2[p])
                            # The label is unchanged, but gamma has become constant.
                            moved_row[n_moves], moved_k[n_moves] = here_row, k
                            moved_w[n_moves] = factor * w
                            n_moves += 1
                            in_sums[base + here_row] = True
                            slack = label_slack(code, parameter, near, np.inf, d)
                            until = drift_limit(drift[i, k], slack)
                            valid_until[base + here_row] = min(valid_until[base + here_row], until)
                        else:
                            w *= gamma_of(code, parameter, r2[p])
                            add_row_call(rows, here_row, w, t, k, varying)
                    if n_moves > 0:
                        update_rows(rows, moves, n_moves, t, constant, marks, stale)
                    n_varying = 0
        for k in range(K):
            if stale[k]:
                zero(t, k, constant)
                clear_marks(t, k, marks)
                a, b = start[t], stop[t]
                add_cluster(
                    rows[a:b], weights[a:b], unit, factor, labels[a:b],
                    in_sums[base + a : base + b], t, k, constant, marks,
                )  # fmt: skip
                stale[k] = False
        counts[0, t], counts[1, t] = n_changed, count
