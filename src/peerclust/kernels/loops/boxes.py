"""Assignment over boxes: up to `TILE` nearby rows of one user, skipped as a whole if possible.

Box b has n rows from begin[b] on. Their features are at tiles[begin[b] d : begin[b + 1] d], seen as
(d, n). For centers l and a, ||y - l||^2 - ||y - a||^2 is affine in the row y, so its least value
over a box is reached at a corner. Where that is above zero for every l, all rows of the box are
nearest to a, and none is read. This is the test of Pelleg and Moore (1999), "Accelerating exact
k-means algorithms with geometric reasoning", and of the filtering algorithm of Kanungo et al.
(2002), "An efficient k-means clustering algorithm: analysis and implementation". They apply it to
the nodes of a kd-tree; here it is applied to the leaves only.

The bounds of `bounds` apply to boxes as well. max_drift[i] accumulates the movement of the two
fastest centers of user i. A label holds until max_drift[i] reaches `box_valid_until` (of a box) or
`valid_until` (of a row); see `center_drift`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from peerclust.kernels.constants import (
    EPS,
    FAR,
    FLAT,
    HUBER,
    KMEANS,
    LANES,
    LOGISTIC,
    MIXED,
    TINY,
)
from peerclust.kernels.loops.box_sums import add_varying, finish_varying
from peerclust.kernels.loops.center_drift import drift_limit
from peerclust.kernels.loops.compiling import compiled, inlined, inner
from peerclust.kernels.loops.distances import constant_gamma, two_nearest
from peerclust.kernels.loops.exact_sums import add_cluster, restart_cluster, update_rows
from peerclust.kernels.loops.relabeling import relabel

# Up to this many rows of a box are measured one by one: `two_nearest` takes as long for one as for
# eight.
FEW = 8


@inner()
def _box_slack(mid, half, x, a, code, parameter):
    """Return how far centers may move before a row of the box can change its label.

    It is NaN or not above 0 if a row may have changed already. The difference of two distances is
    (r_l^2 - r_a^2) / (r_l + r_a), bounded by the least numerator over the largest denominator.
    With a code other than KMEANS, the gamma of every row must be constant as well.
    """
    d = x.shape[1]
    margin = (8 * d + 64) * EPS
    near2, far2 = 0.0, 0.0
    for j in range(d):
        off = abs(x[a, j] - mid[j])
        far2 += (off + half[j]) * (off + half[j])
        near2 += max(off - half[j], 0.0) * max(off - half[j], 0.0)
    own = math.sqrt(far2)
    slack = FAR
    if parameter is not None:
        if code == HUBER:
            slack = min(slack, (parameter - own) - (margin * (own + parameter) + TINY))
        elif code == LOGISTIC:
            slack = min(slack, (math.sqrt(near2) - FLAT) - (margin * (own + FLAT) + TINY))
    for k in range(x.shape[0]):
        if k == a:
            continue
        least, far2 = 0.0, 0.0
        for j in range(d):
            apart, u, v = x[k, j] - x[a, j], x[k, j] - mid[j], x[a, j] - mid[j]
            least += apart * (u + v) - 2.0 * abs(apart) * half[j]
            far2 += (abs(u) + half[j]) * (abs(u) + half[j])
        far = own + math.sqrt(far2)
        pair_slack = least / far - (margin * far + TINY)
        if not pair_slack > 0.0:
            return pair_slack
        slack = min(slack, pair_slack)
    return slack


@inner()
def _measure(tile, chosen, count, z, tiles):
    """Measure the chosen rows of a box; the second lowest scores become distances."""
    few, score, best, second, label, _ = tiles
    if count > FEW:
        for j in range(z.shape[1]):
            for q in range(count):
                few[j, q] = tile[j, chosen[q]]
        two_nearest(few, count, z, None, None, score, best, second, label)
    else:
        for q in range(count):
            low, next_low, of = np.inf, np.inf, 0
            for k in range(z.shape[0]):
                r2 = 0.0
                for j in range(z.shape[1]):
                    step = tile[j, chosen[q]] - z[k, j]
                    r2 += step * step
                if r2 < low:
                    low, next_low, of = r2, low, k
                elif r2 < next_low:
                    next_low = r2
            best[q], second[q], label[q] = low, next_low, of
    for q in range(count):
        second[q] = math.sqrt(second[q])


@inner()
def _least_valid(valid_until, least):
    """Return the least `valid_until` of a box's rows."""
    n = valid_until.size
    for e in range(LANES):
        least[e] = np.inf
    for r in range(0, n - LANES + 1, LANES):
        for e in range(LANES):
            v = valid_until[r + e]
            least[e] = v if v < least[e] else least[e]
    for r in range(n - n % LANES, n):
        least[0] = min(least[0], valid_until[r])
    for e in range(1, LANES):
        least[0] = min(least[0], least[e])
    return least[0]


@inlined
def _tile_of(tiles, at, n, d):
    """Return the n rows of a box from row `at` on, (d, n)."""
    return tiles[at * d : (at + n) * d].reshape(d, n)


@compiled()
def assign_boxes(first, last, data, boxes, chunks, tracked, cache, sums, cold, counts, scratch):
    """Assign the rows of chunks first to last as `assign_bounded` does; a chunk is some `Boxes`.

    Their `BoxCache`, with the labels, and their `CachedSums` are updated.
    """
    all_rows, all_weights, unit, code, parameter = data
    begin, mid, half = boxes
    owner, start, stop = chunks
    x, _, _, max_drift = tracked
    all_labels, all_until, all_in_sums, box_valid_until, uniform_label, n_varying = cache
    constant, varying, marks = sums
    tiles, moves, stale, chosen, drift, least, lanes = scratch
    _, _, best, second, label, _ = tiles
    d, mixed = x.shape[2], code in MIXED
    for t in range(first, last):
        i = owner[t]
        now, z = max_drift[i], x[i]
        clock = np.inf if cold else now
        for k in range(drift.size):
            drift[k] = now
        n_changed, read = 0, 0
        for b in range(start[t], stop[t]):
            expired, varies = not clock < box_valid_until[b], n_varying[b]
            if not expired and varies == 0:
                continue
            at, end = begin[b], begin[b + 1]
            n, of = end - at, uniform_label[b]
            if expired and not cold and of >= 0 and (not mixed or varies == 0 or varies == n):
                slack_code = code if mixed and varies == 0 else KMEANS
                slack = _box_slack(mid[b], half[b], z, of, slack_code, parameter)
                box_valid_until[b] = drift_limit(now, slack)
                expired = not slack > 0.0
            tile, labels = _tile_of(all_rows, at, n, d), all_labels[at:end]
            valid_until, in_sums = all_until[at:end], all_in_sums[at:end]
            weights = all_weights[at:end]
            if expired:
                count: Any = np.int64(0)  # not a literal; see `bounds`
                for r in range(n):
                    chosen[count] = r
                    count += not clock < valid_until[r]
                read += count
                _measure(tile, chosen, count, z, tiles)
                n_moves, changes, more = relabel(
                    cold, chosen, count, d, best, second, label, drift, labels, valid_until,
                    in_sums, weights, unit, code, parameter, moves,
                )  # fmt: skip
                n_changed += changes
                if mixed:
                    n_varying[b] -= more
                if n_moves > 0:
                    update_rows(tile.T, moves, n_moves, t, constant, marks, stale)
                box_valid_until[b] = _least_valid(valid_until, least)
                differ = 0
                for r in range(n):
                    differ += labels[r] != labels[0]
                uniform_label[b] = labels[0] if differ == 0 else -1
            if n_varying[b] > 0:
                settled = add_varying(
                    parameter, code, tile, weights, unit, z, drift, labels, valid_until, in_sums,
                    uniform_label[b], t, sums, tiles, moves, stale, lanes,
                )  # fmt: skip
                if settled > 0:
                    n_varying[b] -= settled
                    box_valid_until[b] = min(box_valid_until[b], _least_valid(valid_until, least))
        for k in range(stale.size):
            if stale[k]:
                restart_cluster(t, k, constant, marks)
                for b in range(start[t], stop[t]):
                    at, end = begin[b], begin[b + 1]
                    add_cluster(
                        _tile_of(all_rows, at, end - at, d).T, all_weights[at:end], unit,
                        constant_gamma(code), all_labels[at:end], all_in_sums[at:end], t, k,
                        constant, marks, moves, stale,
                    )  # fmt: skip
                stale[k] = False
        finish_varying(parameter, t, varying, lanes)
        counts[0, t], counts[1, t] = n_changed, read
