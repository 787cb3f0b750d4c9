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
    find_lowest,
    gamma_of,
    gap_of_row,
    load,
    pairs,
    stays,
)
from peerclust.kernels.drifts import EPS
from peerclust.kernels.exact_sums import clear, clear_marks, join, move


@compiled(inline="always")
def _lower(r2, gone, slack):
    """Give, as a short number, what is never more than the distance and `gone`."""
    r = (math.sqrt(r2) + gone) * (1.0 - slack)
    return np.float32(min(r, 3e38) * (1.0 - 2.0**-22)) if r > 1e-37 else np.float32(0.0)


@compiled(inline="always")
def _upper(r2, gone, slack):
    """Give, as a short number, what is never less than the distance without `gone`."""
    r = math.sqrt(r2)
    above = (r - gone) + (r + gone) * (slack + 2.0**-22)
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
def _gap_by_bounds(bounds, own, gone, d, slack):
    """Give the gap of a row (see `gap_of_row`) by its bounds alone."""
    least = np.inf
    for k in range(gone.size):
        lower = (bounds[k] - gone[k]) - slack * gone[k]
        least = lower if k != own and lower < least else least
    upper = (bounds[own] + gone[own]) + slack * gone[own]
    return gap_of_row(KMEANS, 0.0, upper, least, d)


@compiled(nogil=True)
def _find_by_bounds(row, z, own, near2, gone, bounds, slack, lower):
    """Give a row's label, its lowest score, and a bound from below on its other distances.

    near2 is its score with its own center. Of the others, that with the lowest bound is measured
    next, until the lowest is that of one that was; exactly only where it may be the nearest.
    """
    for k in range(z.shape[0]):
        lower[k] = max((bounds[k] - gone[k]) - slack * gone[k], 0.0)
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
        if not r2 * (1.0 - slack) > best * (1.0 + slack):
            r2 = distance(row, z[k])
        if r2 < best or (r2 == best and k < label):
            second = min(second, math.sqrt(best))
            bounds[label] = _lower(best, gone[label], slack)
            best, label = r2, k
        else:
            second = min(second, math.sqrt(r2) * (1.0 - slack))
            bounds[k] = _lower(r2, gone[k], slack)
        lower[k] = np.inf
    for k in range(lower.size):
        second = min(second, lower[k])
    bounds[label] = _upper(best, gone[label], slack)
    return label, best, second


@compiled(nogil=True)
def _add_up(rows, weights, unit, factor, first, last, base, labels, kept, t, k, sums, marks):
    """Sum the kept rows of cluster k of task t, which has the rows first to last, anew."""
    clear(t, k, sums)
    clear_marks(t, k, marks)
    for row in range(first, last):
        if labels[row] == k and (kept.size == 0 or kept[base + row]):
            w = factor * (weights[row] if weights.size > 0 else unit)
            move(rows, row, w, t, k, sums, marks)


@compiled(nogil=True)
def assign_remembered(
    rows, weights, unit, owner, start, stop, place, first, last, x, gone, drift,
    code, parameter, begins, labels, kept, expiry, bounds,
    kept_sums, marks, others, changed, looked,
):  # fmt: skip
    """Assign the rows of tasks first to last and keep their sums.

    What is remembered of task t's rows is from place[t] on; if it `begins`, nothing but labels is.
    The sums are as in `assign_boxes`.
    """
    K, d = x.shape[1:]
    none = np.empty(0)
    slack = (2 * d + 16) * EPS
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
        count, moved, fresh = 0, 0, 0
        for row in range(start[t], stop[t]):
            chosen[count] = row
            # A NaN or an overflow is no reason to skip.
            count += begins or not drift[i, labels[row]] < expiry[base + row]
        if bounds.size > 0 and not kinds and 2 * count <= size:
            expired, count = chosen[:count], 0
            for row in expired:
                own = labels[row]
                gap = _gap_by_bounds(bounds[base + row], own, gone[i], d, slack)
                expiry[base + row] = (drift[i, own] + gap) * (1.0 - 4.0 * EPS)
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
                find_lowest(tile, n, z, z, none, False, score, best, second, label)
                for r in range(n):
                    second[r] = math.sqrt(second[r])
                    for k in range(K if bounds.size > 0 else 0):
                        bounds[base + here[r], k] = _lower(score[k, r], gone[i, k], slack)
                    if bounds.size > 0:
                        k = label[r]
                        bounds[base + here[r], k] = _upper(best[r], gone[i, k], slack)
            else:
                for r in range(n):
                    row_of[r], center_of[r] = here[r], labels[here[r]]
                pairs(rows, z, row_of, center_of, n, best)
                for r in range(n):
                    label[r], best[r], second[r] = _find_by_bounds(
                        rows[here[r]], z, center_of[r], best[r], gone[i],
                        bounds[base + here[r]], slack, lower,
                    )  # fmt: skip
            for r in range(n):
                row, k, old = here[r], label[r], labels[here[r]]
                near = math.sqrt(best[r])
                gap = gap_of_row(code, parameter, near, second[r], d)
                expiry[base + row] = (drift[i, k] + gap) * (1.0 - 4.0 * EPS)
                keep = stays(code, parameter, best[r])
                was = not begins and (kept[base + row] if kinds else code == KMEANS)
                if old != k or keep != was:
                    w = factor * (weights[row] if weights.size > 0 else unit)
                    if keep:
                        anew[k] |= move(rows, row, w, t, k, kept_sums, marks)
                    if was:
                        anew[old] |= move(rows, row, -w, t, old, kept_sums, marks)
                    if kinds:
                        kept[base + row] = keep
                    moved += old != k
                    labels[row] = k
        if varies:
            for k in range(K):
                clear(t, k, others)
            for row in range(start[t], stop[t]):
                if not kinds or not kept[base + row]:
                    row_of[fresh], center_of[fresh] = row, labels[row]
                    fresh += 1
                if fresh == TILE or row == stop[t] - 1:
                    pairs(rows, z, row_of, center_of, fresh, r2)
                    for p in range(fresh):
                        here_row, k = row_of[p], center_of[p]
                        w = weights[here_row] if weights.size > 0 else unit
                        if stays(code, parameter, r2[p]):
                            near = math.sqrt(r2[p])
                            # It came near enough, or went far enough, with the label it has.
                            anew[k] |= move(rows, here_row, factor * w, t, k, kept_sums, marks)
                            kept[base + here_row] = True
                            gap = gap_of_row(code, parameter, near, np.inf, d)
                            until = (drift[i, k] + gap) * (1.0 - 4.0 * EPS)
                            expiry[base + here_row] = min(expiry[base + here_row], until)
                        else:
                            w *= gamma_of(code, parameter, r2[p])
                            join(rows, here_row, w, t, k, others)
                    fresh = 0
        for k in range(K):
            if anew[k]:
                _add_up(
                    rows, weights, unit, factor, start[t], stop[t], base, labels, kept, t, k,
                    kept_sums, marks,
                )  # fmt: skip
                anew[k] = False
        changed[t] = moved
        looked[t] = count
