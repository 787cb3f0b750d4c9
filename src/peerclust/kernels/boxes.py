"""The loops over boxes: rows of one user that lie near each other, `TILE` at a time.

A row's features lie in columns, box after box: those of box b, with n rows from begin[b] on, are at
tiles[begin[b] d : begin[b + 1] d], seen as (d, n). Of two centers l and a, the difference of
||y - l||^2 and ||y - a||^2 is affine in the row y, so its least value over a box is known from the
corners: where that is above zero for every l, all rows of the box are nearest to a, and none is
read.

A user's clock goes on by how far its two fastest centers go. What was measured at some time holds
until the clock shows `box_valid_until` (a box) or `valid_until` (a row); see `drifts`.
"""

from __future__ import annotations

import math

import numpy as np

from peerclust.kernels.compiling import compiled
from peerclust.kernels.distances import (
    FAIR,
    FAR,
    FLAT,
    HUBER,
    KMEANS,
    LOGISTIC,
    PAD,
    TILE,
    gamma_is_constant,
    label_slack,
    two_nearest,
)
from peerclust.kernels.drifts import EPS, TINY
from peerclust.kernels.exact_sums import clear_marks, update_row, zero
from peerclust.kernels.varying_rows import LANES, gather, measure_own, pull, weigh

# Up to so many rows of a box are measured one by one, as `two_nearest` takes as long for one as
# for eight.
FEW = 8


@compiled(nogil=True)
def _gap_of_box(mid, half, x, a, code, parameter):
    """Give how far centers may go before a row of the box can change; NaN or less if one may have.

    Of the difference of two distances, (r_l^2 - r_a^2) / (r_l + r_a), the numerator's least value
    and the denominator's largest are taken. With a code other than KMEANS, every row's gamma stays.
    """
    d = x.shape[1]
    margin = (8 * d + 64) * EPS
    near2, far2 = 0.0, 0.0
    for j in range(d):
        off = abs(x[a, j] - mid[j])
        far2 += (off + half[j]) * (off + half[j])
        near2 += max(off - half[j], 0.0) * max(off - half[j], 0.0)
    own = math.sqrt(far2)
    gap = FAR
    if code == HUBER:
        gap = min(gap, (parameter - own) - (margin * (own + parameter) + TINY))
    elif code == LOGISTIC:
        gap = min(gap, (math.sqrt(near2) - FLAT) - (margin * (own + FLAT) + TINY))
    for k in range(x.shape[0]):
        if k == a:
            continue
        least, far2 = 0.0, 0.0
        for j in range(d):
            apart, u, v = x[k, j] - x[a, j], x[k, j] - mid[j], x[a, j] - mid[j]
            least += apart * (u + v) - 2.0 * abs(apart) * half[j]
            far2 += (abs(u) + half[j]) * (abs(u) + half[j])
        far = own + math.sqrt(far2)
        room = least / far - (margin * far + TINY)
        if not room > 0.0:
            return room
        gap = min(gap, room)
    return gap


@compiled(inline="always")
def _find_few(tile, chosen, count, z, best, second, label):
    """Give what `two_nearest` gives, of a few rows: one by one."""
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
def _settle(labels, valid_until, least):
    """Give when a box of rows is due, and their common label or -1."""
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
def _add_up(
    tiles, weights, unit, factor, begin, first, last, labels, in_sums, t, k, sums, rounding_marks
):
    """Sum the kept rows of cluster k of task t, in the boxes first to last, anew."""
    d = sums[2].shape[2]
    zero(t, k, sums)
    clear_marks(t, k, rounding_marks)
    for b in range(first, last):
        at, n = begin[b], begin[b + 1] - begin[b]
        rows = tiles[at * d : (at + n) * d].reshape(d, n).T
        for r in range(n):
            if labels[at + r] == k and (in_sums.size == 0 or in_sums[at + r]):
                w = factor * (weights[at + r] if weights.size > 0 else unit)
                update_row(rows, r, w, t, k, sums, rounding_marks)


@compiled(nogil=True)
def assign_boxes(
    tiles, weights, unit, begin, mid, half, owner, start, stop, first, last, x, max_drift,
    code, parameter, begins, labels, in_sums, valid_until, box_valid_until, uniform_label, n_varying,
    kept_sums, rounding_marks, others, changed, looked,
):  # fmt: skip
    """Assign the rows of tasks first to last and keep their sums; task t has boxes start to stop.

    Rows whose gamma `gamma_is_constant` enter and leave `kept_sums`; the sums of `others` are written each
    time. If it `begins`, nothing is known but labels. common[b] is the label of all rows of a box,
    or -1; fresh[b] is how many of them are not in `kept_sums`, and kept[r] whether a row is.
    """
    K, d = x.shape[1:]
    none = np.empty(0)
    few = np.zeros((d, TILE + PAD))
    score = np.zeros((4, TILE))
    best, second, label = np.zeros(TILE), np.zeros(TILE), np.zeros(TILE, np.int32)
    chosen, least = np.empty(TILE, np.int64), np.empty(LANES)
    anew = np.zeros(K, np.bool_)
    kinds, varies = code in (HUBER, LOGISTIC), code in (HUBER, LOGISTIC, FAIR)
    # What gamma is where it stays.
    factor = 2.0 if code == LOGISTIC else 1.0
    hi, lo = (
        np.zeros((K if varies else 0, d + 1, LANES)),
        np.zeros((K if varies else 0, d + 1, LANES)),
    )
    for t in range(first, last):
        i = owner[t]
        now, z = max_drift[i], x[i]
        mark = np.inf if begins else now
        hi[:], lo[:] = 0.0, 0.0
        moved, read = 0, 0
        for b in range(start[t], stop[t]):
            expired, count = not mark < box_valid_until[b], 0
            if not expired and n_varying[b] == 0:
                continue
            at, n = begin[b], begin[b + 1] - begin[b]
            tile = tiles[at * d : (at + n) * d].reshape(d, n)
            rows = tile.T
            if (
                not begins
                and expired
                and uniform_label[b] >= 0
                and (not kinds or n_varying[b] in (0, n))
            ):
                held = code if kinds and n_varying[b] == 0 else KMEANS
                gap = _gap_of_box(mid[b], half[b], z, uniform_label[b], held, parameter)
                box_valid_until[b] = (now + gap) * (1.0 - 4.0 * EPS)
                expired = not gap > 0.0
            if expired:
                for r in range(n):
                    chosen[count] = r
                    count += not mark < valid_until[at + r]
            read += count
            if count > FEW:
                for j in range(d):
                    for q in range(count):
                        few[j, q] = tile[j, chosen[q]]
                two_nearest(few, count, z, z, none, False, score, best, second, label)
            else:
                _find_few(tile, chosen, count, z, best, second, label)
            for q in range(count):
                row, k, old = at + chosen[q], label[q], labels[at + chosen[q]]
                near = math.sqrt(best[q])
                gap = label_slack(code, parameter, near, math.sqrt(second[q]), d)
                valid_until[row] = (now + gap) * (1.0 - 4.0 * EPS)
                keep = gamma_is_constant(code, parameter, best[q])
                was = not begins and (in_sums[row] if kinds else code == KMEANS)
                if old != k or keep != was:
                    w = factor * (weights[row] if weights.size > 0 else unit)
                    if keep:
                        anew[k] |= update_row(rows, chosen[q], w, t, k, kept_sums, rounding_marks)
                    if was:
                        anew[old] |= update_row(
                            rows, chosen[q], -w, t, old, kept_sums, rounding_marks
                        )
                    if kinds:
                        in_sums[row] = keep
                        n_varying[b] += int(was) - int(keep)
                    moved += old != k
                    labels[row] = k
            if expired:
                box_valid_until[b], uniform_label[b] = _settle(
                    labels[at : at + n], valid_until[at : at + n], least
                )
            if varies and n_varying[b] > 0:
                here = labels[at : at + n]
                measure_own(tile, n, z, here, uniform_label[b], best)
                able = 0
                for r in range(n if kinds else 0):
                    able += gamma_is_constant(code, parameter, best[r]) & (not in_sums[at + r])
                for r in range(n if able > 0 else 0):
                    if not in_sums[at + r] and gamma_is_constant(code, parameter, best[r]):
                        near = math.sqrt(best[r])
                        w = factor * (weights[at + r] if weights.size > 0 else unit)
                        anew[here[r]] |= update_row(
                            rows, r, w, t, here[r], kept_sums, rounding_marks
                        )
                        in_sums[at + r] = True
                        n_varying[b] -= 1
                        gap = label_slack(code, parameter, near, np.inf, d)
                        valid_until[at + r] = min(
                            valid_until[at + r], (now + gap) * (1.0 - 4.0 * EPS)
                        )
                        box_valid_until[b] = min(box_valid_until[b], valid_until[at + r])
                weigh(n, weights[at : at + n], unit, code, parameter, in_sums[at : at + n], best)
                pull(tile, n, here, uniform_label[b], best, hi, lo)
        for k in range(K):
            if anew[k]:
                _add_up(
                    tiles, weights, unit, factor, begin, start[t], stop[t], labels, in_sums, t, k,
                    kept_sums, rounding_marks,
                )  # fmt: skip
                anew[k] = False
            if varies:
                others[0][t, k], others[1][t, k] = gather(hi[k, d], lo[k, d])
                for j in range(d):
                    others[2][t, k, j], others[3][t, k, j] = gather(hi[k, j], lo[k, j])
        changed[t] = moved
        looked[t] = read
