"""The loop over rows in their own order that remembers when each must be looked at again.

A row's expiry is in terms of drift[i, k], see `drifts`. Where rows have many features, a bound for
each of the other centers is remembered, too: bounds[e, k] - gone[i, k] is never more than the
distance to center k, so that a row that has expired is first measured against its own center, and
then only against those that may have come nearer than the second nearest.
"""

from __future__ import annotations

import math

import numpy as np

from peerclust.kernels.compiling import compiled
from peerclust.kernels.distances import (
    FAIR,
    HUBER,
    KMEANS,
    LOGISTIC,
    PAD,
    TILE,
    distance,
    gamma_is_constant,
    gamma_of,
    label_slack,
    load,
    pairs,
    two_nearest,
)
from peerclust.kernels.drifts import EPS
from peerclust.kernels.exact_sums import add_row_call, clear_marks, update_row, zero


@compiled(inline="always")
def _lower(r2, path, margin):
    """Give, as a short number, what is never more than the distance and `path`."""
    r = (math.sqrt(r2) + path) * (1.0 - margin)
    return np.float32(min(r, 3e38) * (1.0 - 2.0**-22)) if r > 1e-37 else np.float32(0.0)


@compiled(inline="always")
def _upper(r2, path, margin):
    """Give, as a short number, what is never less than the distance without `path`."""
    r = math.sqrt(r2)
    above = (r - path) + (r + path) * (margin + 2.0**-22)
    return np.float32(max(above, -3e38) + 1e-37) if above < 3e38 else np.float32(np.inf)


@compiled(nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _about(row, center):
    """Give the squared distance to within (d + 2) EPS of itself, added up in any order."""
    total = 0.0
    for j in range(center.size):
        step = row[j] - center[j]
        total += step * step
    return total


@compiled(inline="always")
def _gap_by_bounds(bounds, own, path, d, margin):
    """Give the gap of a row (see `label_slack`) by its bounds alone."""
    least = np.inf
    for k in range(path.size):
        lower = (bounds[k] - path[k]) - margin * path[k]
        least = lower if k != own and lower < least else least
    upper = (bounds[own] + path[own]) + margin * path[own]
    return label_slack(KMEANS, 0.0, upper, least, d)


@compiled(nogil=True)
def _find_by_bounds(row, z, own, near2, path, bounds, margin, lower):
    """Give a row's label, its lowest score, and a bound from below on its other distances.

    near2 is its score with its own center. Of the others, that with the lowest bound is measured
    next, until the lowest is that of one that was; exactly only where it may be the nearest.
    """
    for k in range(z.shape[0]):
        lower[k] = max((bounds[k] - path[k]) - margin * path[k], 0.0)
    # Out of the way: it has been measured.
    lower[own] = np.inf
    best, label, second = near2, own, np.inf
    for _ in range(1, z.shape[0]):
        k = 0
        for other in range(lower.size):
            k = other if lower[other] < lower[k] else k
        if lower[k] >= second:
            break
        r2 = _about(row, z[k])
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
def _add_up(
    rows, weights, unit, factor, first, last, base, labels, in_sums, t, k, sums, rounding_marks
):
    """Sum the kept rows of cluster k of task t, which has the rows first to last, anew."""
    zero(t, k, sums)
    clear_marks(t, k, rounding_marks)
    for row in range(first, last):
        if labels[row] == k and (in_sums.size == 0 or in_sums[base + row]):
            w = factor * (weights[row] if weights.size > 0 else unit)
            update_row(rows, row, w, t, k, sums, rounding_marks)


@compiled(nogil=True)
def assign_bounded(
    rows, weights, unit, owner, start, stop, place, first, last, x, path, drift,
    code, parameter, begins, labels, in_sums, valid_until, bounds,
    kept_sums, rounding_marks, others, changed, looked,
):  # fmt: skip
    """Assign the rows of tasks first to last and keep their sums.

    What is remembered of task t's rows is from place[t] on; if it `begins`, nothing but labels is.
    The sums are as in `assign_boxes`.
    """
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
    anew = np.zeros(K, np.bool_)
    kinds, varies = code in (HUBER, LOGISTIC), code in (HUBER, LOGISTIC, FAIR)
    # What gamma is where it stays.
    factor = 2.0 if code == LOGISTIC else 1.0
    for t in range(first, last):
        i, base = owner[t], place[t] - start[t]
        z, size = x[i], stop[t] - start[t]
        count, moved, n_varying = 0, 0, 0
        for row in range(start[t], stop[t]):
            chosen[count] = row
            # A NaN or an overflow is no reason to skip.
            count += begins or not drift[i, labels[row]] < valid_until[base + row]
        if bounds.size > 0 and not kinds and 2 * count <= size:
            expired, count = chosen[:count], 0
            for row in expired:
                own = labels[row]
                gap = _gap_by_bounds(bounds[base + row], own, path[i], d, margin)
                valid_until[base + row] = (drift[i, own] + gap) * (1.0 - 4.0 * EPS)
                chosen[count] = row
                count += not gap > 0.0
        # To measure all against all takes little longer than most against some.
        whole = bounds.size == 0 or 2 * count > size
        if whole and count > 0 and tile.size == 0:
            tile = np.zeros((d, TILE + PAD))
        batch = TILE if whole else 4
        for begin in range(0, count, batch):
            n = min(batch, count - begin)
            here = chosen[begin : begin + n]
            if whole:
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
                    label[r], best[r], second[r] = _find_by_bounds(
                        rows[here[r]], z, center_of[r], best[r], path[i],
                        bounds[base + here[r]], margin, lower,
                    )  # fmt: skip
            for r in range(n):
                row, k, old = here[r], label[r], labels[here[r]]
                near = math.sqrt(best[r])
                gap = label_slack(code, parameter, near, second[r], d)
                valid_until[base + row] = (drift[i, k] + gap) * (1.0 - 4.0 * EPS)
                keep = gamma_is_constant(code, parameter, best[r])
                was = not begins and (in_sums[base + row] if kinds else code == KMEANS)
                if old != k or keep != was:
                    w = factor * (weights[row] if weights.size > 0 else unit)
                    if keep:
                        anew[k] |= update_row(rows, row, w, t, k, kept_sums, rounding_marks)
                    if was:
                        anew[old] |= update_row(rows, row, -w, t, old, kept_sums, rounding_marks)
                    if kinds:
                        in_sums[base + row] = keep
                    moved += old != k
                    labels[row] = k
        if varies:
            for k in range(K):
                zero(t, k, others)
            for row in range(start[t], stop[t]):
                if not kinds or not in_sums[base + row]:
                    row_of[n_varying], center_of[n_varying] = row, labels[row]
                    n_varying += 1
                if n_varying == TILE or row == stop[t] - 1:
                    pairs(rows, z, row_of, center_of, n_varying, r2)
                    for p in range(n_varying):
                        here_row, k = row_of[p], center_of[p]
                        w = weights[here_row] if weights.size > 0 else unit
                        if gamma_is_constant(code, parameter, r2[p]):
                            near = math.sqrt(r2[p])
                            # It came near enough, or went far enough, with the label it has.
                            anew[k] |= update_row(
                                rows, here_row, factor * w, t, k, kept_sums, rounding_marks
                            )
                            in_sums[base + here_row] = True
                            gap = label_slack(code, parameter, near, np.inf, d)
                            until = (drift[i, k] + gap) * (1.0 - 4.0 * EPS)
                            valid_until[base + here_row] = min(valid_until[base + here_row], until)
                        else:
                            w *= gamma_of(code, parameter, r2[p])
                            add_row_call(rows, here_row, w, t, k, others)
                    n_varying = 0
        for k in range(K):
            if anew[k]:
                _add_up(
                    rows, weights, unit, factor, start[t], stop[t], base, labels, in_sums, t, k,
                    kept_sums, rounding_marks,
                )  # fmt: skip
                anew[k] = False
        changed[t] = moved
        looked[t] = count
