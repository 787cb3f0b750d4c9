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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array, Ints
from peerclust.kernels.box_sums import LANES, add_weighted, measure_own, sum_lanes, weigh
from peerclust.kernels.center_drift import EPS, TINY, drift_limit
from peerclust.kernels.compiling import compiled
from peerclust.kernels.distances import (
    FAR,
    FLAT,
    HUBER,
    KMEANS,
    LOGISTIC,
    MIXED,
    PAD,
    TILE,
    VARYING,
    constant_gamma,
    gamma_is_constant,
    label_slack,
    two_nearest,
)
from peerclust.kernels.exact_sums import add_cluster, clear_marks, update_rows, zero
from peerclust.kernels.row_data import weight_of

# Up to this many rows of a box are measured one by one: `two_nearest` takes as long for one as for
# eight.
FEW = 8


class Boxes(NamedTuple):
    """The boxes of some sorted rows: begin, (boxes + 1,), is the first row of each.

    mid and half, (boxes, d), are the middle of each box and half its width.
    """

    begin: Ints
    mid: Array
    half: Array


class BoxCache(NamedTuple):
    """What is cached about the n sorted rows and their boxes.

    labels is (n,). A row's label is valid while the drift of its user is below valid_until, (n,),
    and those of a box below box_valid_until, (boxes,). in_sums, (n,), is whether a row is in the
    constant sums; it is empty if that follows from the loss. uniform_label, (boxes,), is the label
    of all rows of a box, or -1; n_varying, (boxes,), is how many of them are in no constant sum.
    """

    labels: NDArray[np.int32]
    valid_until: Array
    in_sums: NDArray[np.bool_]
    box_valid_until: Array
    uniform_label: NDArray[np.int32]
    n_varying: NDArray[np.int32]


@compiled(nogil=True)
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


@compiled(inline="always")
def _two_nearest_few(tile, chosen, count, z, best, second, label):
    """Compute what `two_nearest` does for a few rows, one by one."""
    for q in range(count):
        best[q], second[q], label[q] = np.inf, np.inf, 0
        for k in range(z.shape[0]):
            r2 = 0.0
            for j in range(z.shape[1]):
                step = tile[j, chosen[q]] - z[k, j]
                r2 += step * step
            if r2 < best[q]:
                best[q], second[q], label[q] = r2, best[q], k
            elif r2 < second[q]:
                second[q] = r2


@compiled(inline="always")
def _summarize_box(labels, valid_until, least):
    """Return the least `valid_until` of a box's rows, and their label, or -1 if labels differ."""
    n, differ = labels.size, 0
    for r in range(n):
        differ += labels[r] != labels[0]
    least[:] = np.inf
    for r in range(0, n - LANES + 1, LANES):
        for e in range(LANES):
            v = valid_until[r + e]
            least[e] = v if v < least[e] else least[e]
    for r in range(n - n % LANES, n):
        least[0] = min(least[0], valid_until[r])
    for e in range(1, LANES):
        least[0] = min(least[0], least[e])
    return least[0], -1 if differ > 0 else labels[0]


@compiled(nogil=True)
def assign_boxes(first, last, data, boxes, chunks, tracked, cache, sums, cold, counts):
    """Assign the rows of chunks first to last as `assign_bounded` does; a chunk is some `Boxes`.

    Their `BoxCache`, with the labels, and their `CachedSums` are updated.
    """
    tiles, weights, unit, code, parameter = data
    begin, mid, half = boxes
    owner, start, stop = chunks
    x, _, _, max_drift = tracked
    labels, valid_until, in_sums, box_valid_until, uniform_label, n_varying = cache
    constant, varying, marks = sums
    K, d = x.shape[1:]
    none = np.empty(0)
    few = np.zeros((d, TILE + PAD))
    score = np.zeros((4, TILE))
    best, second, label = np.zeros(TILE), np.zeros(TILE), np.zeros(TILE, np.int32)
    chosen, least = np.empty(TILE, np.int64), np.empty(LANES)
    # A row may leave one cluster and enter another.
    moves = np.empty(2 * TILE, np.int64), np.empty(2 * TILE, np.int64), np.empty(2 * TILE)
    moved_row, moved_k, moved_w = moves
    stale = np.zeros(K, np.bool_)
    mixed, varies, factor = code in MIXED, code in VARYING, constant_gamma(code)
    shape = (K if varies else 0, d + 1, LANES)
    hi, lo = np.zeros(shape), np.zeros(shape)
    for t in range(first, last):
        i = owner[t]
        now, z = max_drift[i], x[i]
        clock = np.inf if cold else now
        hi[:], lo[:] = 0.0, 0.0
        n_changed, read = 0, 0
        for b in range(start[t], stop[t]):
            expired, count = not clock < box_valid_until[b], 0
            if not expired and n_varying[b] == 0:
                continue
            at, n = begin[b], begin[b + 1] - begin[b]
            tile = tiles[at * d : (at + n) * d].reshape(d, n)
            rows = tile.T
            if (
                not cold
                and expired
                and uniform_label[b] >= 0
                and (not mixed or n_varying[b] in (0, n))
            ):
                slack_code = code if mixed and n_varying[b] == 0 else KMEANS
                slack = _box_slack(mid[b], half[b], z, uniform_label[b], slack_code, parameter)
                box_valid_until[b] = drift_limit(now, slack)
                expired = not slack > 0.0
            if expired:
                for r in range(n):
                    chosen[count] = r
                    count += not clock < valid_until[at + r]
            read += count
            if count > FEW:
                for j in range(d):
                    for q in range(count):
                        few[j, q] = tile[j, chosen[q]]
                two_nearest(few, count, z, z, none, False, score, best, second, label)
            else:
                _two_nearest_few(tile, chosen, count, z, best, second, label)
            n_moves = 0
            for q in range(count):
                row, k, old = at + chosen[q], label[q], labels[at + chosen[q]]
                near = math.sqrt(best[q])
                slack = label_slack(code, parameter, near, math.sqrt(second[q]), d)
                valid_until[row] = drift_limit(now, slack)
                is_in = gamma_is_constant(code, parameter, best[q])
                was_in = not cold and (in_sums[row] if mixed else code == KMEANS)
                if old != k or is_in != was_in:
                    w = factor * weight_of(weights, unit, row)
                    if is_in:
                        moved_row[n_moves], moved_k[n_moves], moved_w[n_moves] = chosen[q], k, w
                        n_moves += 1
                    if was_in:
                        moved_row[n_moves], moved_k[n_moves], moved_w[n_moves] = chosen[q], old, -w
                        n_moves += 1
                    if mixed:
                        in_sums[row] = is_in
                        n_varying[b] += int(was_in) - int(is_in)
                    n_changed += old != k
                    labels[row] = k
            if n_moves > 0:
                update_rows(rows, moves, n_moves, t, constant, marks, stale)
            if expired:
                box_valid_until[b], uniform_label[b] = _summarize_box(
                    labels[at : at + n], valid_until[at : at + n], least
                )
            if varies and n_varying[b] > 0:
                here = labels[at : at + n]
                measure_own(tile, n, z, here, uniform_label[b], best)
                n_settled, n_moves = 0, 0
                for r in range(n if mixed else 0):
                    n_settled += gamma_is_constant(code, parameter, best[r]) & (not in_sums[at + r])
                for r in range(n if n_settled > 0 else 0):
                    if not in_sums[at + r] and gamma_is_constant(code, parameter, best[r]):
                        near = math.sqrt(best[r])
                        w = factor * weight_of(weights, unit, at + r)
                        moved_row[n_moves], moved_k[n_moves], moved_w[n_moves] = r, here[r], w
                        n_moves += 1
                        in_sums[at + r] = True
                        n_varying[b] -= 1
                        slack = label_slack(code, parameter, near, np.inf, d)
                        until = drift_limit(now, slack)
                        valid_until[at + r] = min(valid_until[at + r], until)
                        box_valid_until[b] = min(box_valid_until[b], valid_until[at + r])
                if n_moves > 0:
                    update_rows(rows, moves, n_moves, t, constant, marks, stale)
                weigh(n, weights[at : at + n], unit, code, parameter, in_sums[at : at + n], best)
                add_weighted(tile, n, here, uniform_label[b], best, hi, lo)
        for k in range(K):
            if stale[k]:
                zero(t, k, constant)
                clear_marks(t, k, marks)
                for b in range(start[t], stop[t]):
                    at, end = begin[b], begin[b + 1]
                    rows = tiles[at * d : end * d].reshape(d, end - at).T
                    add_cluster(
                        rows, weights[at:end], unit, factor, labels[at:end], in_sums[at:end], t, k,
                        constant, marks,
                    )  # fmt: skip
                stale[k] = False
            if varies:
                varying[0][t, k], varying[1][t, k] = sum_lanes(hi[k, d], lo[k, d])
                for j in range(d):
                    varying[2][t, k, j], varying[3][t, k, j] = sum_lanes(hi[k, j], lo[k, j])
        counts[0, t], counts[1, t] = n_changed, read
