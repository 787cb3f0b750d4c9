"""Assignment with cached bounds, over rows in their own order; `boxes` is for sorted rows.

By the triangle inequality a row keeps its label while the centers have moved less than its slack
(see `center_drift`). Each row caches one number, `valid_until`: a row whose drift[i, label] is
below it is not read. This is the single bound of Hamerly (2010), "Making k-means even faster".

Where rows have many features, a bound per row and center is cached too, as in Elkan (2003), "Using
the triangle inequality to accelerate k-means". bounds[e, k] - path[i, k] is never more than the
distance to center k. A row that has expired is first measured against its own center, then only
against centers that may now be nearer than the second nearest. Drake and Hamerly (2012),
"Accelerated k-means with adaptive distance bounds", choose a number of bounds between these two.

Functions whose `bounds` or `parameter` may be None compile to nothing if they are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from peerclust.kernels.constants import EPS, TILE
from peerclust.kernels.loops.center_drift import drift_limit
from peerclust.kernels.loops.compiling import compiled, inlined, inner
from peerclust.kernels.loops.distances import (
    constant_gamma,
    distance,
    load,
    pairs,
    slack_of_label,
    two_nearest,
    weigh,
    weight_of,
)
from peerclust.kernels.loops.exact_sums import (
    add_cluster,
    add_rows,
    clear,
    restart_cluster,
    update_rows,
)
from peerclust.kernels.loops.relabeling import relabel, settle


@inlined
def _lower(r2, path, margin):
    """Return a float32 lower bound on the distance plus `path`."""
    r = (math.sqrt(r2) + path) * (1.0 - margin)
    return np.float32(min(r, 3e38) * (1.0 - 2.0**-22)) if r > 1e-37 else np.float32(0.0)


@inlined
def _upper(r2, path, margin):
    """Return a float32 upper bound on the distance minus `path`."""
    r = math.sqrt(r2)
    above = (r - path) + (r + path) * (margin + 2.0**-22)
    return np.float32(max(above, -3e38) + 1e-37) if above < 3e38 else np.float32(np.inf)


@inner(fastmath={"reassoc", "contract", "nsz"})
def _rough_distance(row, center):
    """Return the squared distance to within (d + 2) EPS of itself, summed in any order."""
    # It is inlined, so that it is compiled with the options of this function.
    return distance(row, center)


@inner()
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


@inner()
def _filter_by_bounds(bounds, place, chosen, count, d, labels, path, drift, valid_until):
    """Keep those of the `count` chosen rows whose bounds cannot tell their label; return how many.

    The others are valid for longer now.
    """
    if bounds is None:
        return count
    margin, kept = (2 * d + 16) * EPS, 0
    for q in range(count):
        row = chosen[q]
        own, line = labels[row], bounds[place + row]
        least = np.inf
        for k in range(path.size):
            lower = (line[k] - path[k]) - margin * path[k]
            least = lower if k != own and lower < least else least
        upper = (line[own] + path[own]) + margin * path[own]
        slack = slack_of_label(upper, least, d)
        valid_until[row] = drift_limit(drift[own], slack)
        chosen[kept] = row
        kept += not slack > 0.0
    return kept


@inner()
def _measure_by_bounds(bounds, place, rows, chosen, n, z, path, labels, tiles, lower):
    """Measure n chosen rows as far as their bounds require; return False if there are none."""
    if bounds is None:
        return False
    _, _, best, second, label, _ = tiles
    margin = (2 * z.shape[1] + 16) * EPS
    pairs(rows, z, chosen, labels, n, best)
    for r in range(n):
        row = chosen[r]
        k, near2, other = _nearest_by_bounds(
            rows[row], z, labels[row], best[r], path, bounds[place + row], margin, lower
        )
        label[r], best[r], second[r] = k, near2, other
    return True


@inner()
def _measure_all(bounds, place, rows, chosen, n, z, path, tiles):
    """Measure n chosen rows against all centers, and renew their bounds."""
    tile, score, best, second, label, _ = tiles
    load(rows, chosen, n, tile)
    two_nearest(tile, n, z, None, None, score, best, second, label)
    for r in range(n):
        second[r] = math.sqrt(second[r])
    if bounds is not None:
        margin = (2 * z.shape[1] + 16) * EPS
        for r in range(n):
            line = bounds[place + chosen[r]]
            for k in range(z.shape[0]):
                line[k] = _lower(score[k, r], path[k], margin)
            line[label[r]] = _upper(best[r], path[label[r]], margin)


@inner()
def _sum_varying(
    parameter, code, rows, weights, unit, z, drift, labels, valid_until, in_sums, t, sums,
    best, moves, stale, chosen,
):  # fmt: skip
    """Sum the rows whose gamma varies; those for which it has become constant are moved."""
    if parameter is None:
        return
    constant, varying, marks = sums
    d = z.shape[1]
    clear(t, varying)
    count: Any = np.int64(0)
    for row in range(labels.size):
        chosen[count] = row
        count += in_sums.size == 0 or not in_sums[row]
    for begin in range(0, count, TILE):
        n = min(TILE, count - begin)
        here = chosen[begin : begin + n]
        pairs(rows, z, here, labels, n, best)
        n_moves = settle(
            here, n, d, best, drift, labels, valid_until, in_sums, weights, unit, code, parameter,
            moves,
        )  # fmt: skip
        weigh(weights[:0], 1.0, code, parameter, n, best)
        kept: Any = np.int64(0)
        for p in range(n):
            row = here[p]
            # Written before it is read: `kept` never exceeds p.
            here[kept], best[kept] = row, best[p] * weight_of(weights, unit, row)
            kept += in_sums.size == 0 or not in_sums[row]
        add_rows(rows, here, kept, best, labels, t, varying)
        if n_moves > 0:
            update_rows(rows, moves, n_moves, t, constant, marks, stale)


@compiled()
def assign_bounded(first, last, data, chunks, tracked, cache, sums, cold, labels, counts, scratch):
    """Assign the rows of chunks first to last to the centers of `tracked`, which is a `Drift`.

    Update their `RowCache` and `CachedSums`; if these are `cold`, only the labels are valid. Write
    the number of labels of chunk t that changed to counts[0, t], and the number of its rows that
    were measured to counts[1, t].
    """
    rows, weights, unit, code, parameter = data
    owner, start, stop = chunks
    x, paths, drifts, _ = tracked
    place, all_until, all_in_sums, bounds = cache
    constant, _, marks = sums
    tiles, moves, stale, chosen, lower = scratch
    _, _, best, second, label, _ = tiles
    for t in range(first, last):
        i, a, b, at = owner[t], start[t], stop[t], place[t]
        size, d = b - a, x.shape[2]
        y, w, own = rows[a:b], weights[a:b], labels[a:b]
        valid_until, in_sums = all_until[at : at + size], all_in_sums[at : at + size]
        z, drift, path = x[i], drifts[i], paths[i]
        # Not a literal, for which functions would be compiled once more.
        count: Any = np.int64(0)
        n_changed = 0
        for row in range(size):
            chosen[count] = row
            # Written so that NaN or overflow means the row is read.
            count += cold or not drift[own[row]] < valid_until[row]
        if 2 * count <= size and in_sums.size == 0:
            count = _filter_by_bounds(bounds, at, chosen, count, d, own, path, drift, valid_until)
        # Measuring all rows against all centers takes little longer than most against some.
        few = 2 * count <= size
        for begin in range(0, count, TILE):
            n = min(TILE, count - begin)
            here = chosen[begin : begin + n]
            if not few or not _measure_by_bounds(
                bounds, at, y, here, n, z, path, own, tiles, lower
            ):
                _measure_all(bounds, at, y, here, n, z, path, tiles)
            n_moves, changes, _ = relabel(
                cold, here, n, d, best, second, label, drift, own, valid_until, in_sums,
                w, unit, code, parameter, moves,
            )  # fmt: skip
            n_changed += changes
            if n_moves > 0:
                update_rows(y, moves, n_moves, t, constant, marks, stale)
        counts[0, t], counts[1, t] = n_changed, count
        _sum_varying(
            parameter, code, y, w, unit, z, drift, own, valid_until, in_sums, t, sums,
            best, moves, stale, chosen,
        )  # fmt: skip
        for k in range(stale.size):
            if stale[k]:
                restart_cluster(t, k, constant, marks)
                add_cluster(
                    y, w, unit, constant_gamma(code), own, in_sums, t, k, constant, marks, moves,
                    stale,
                )  # fmt: skip
                stale[k] = False
