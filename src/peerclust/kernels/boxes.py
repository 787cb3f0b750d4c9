"""The loops over boxes: rows of one user that lie near each other, `TILE` at a time.

A row's features lie in columns, box after box: those of box b, with n rows from begin[b] on, are at
tiles[begin[b] d : begin[b + 1] d], seen as (d, n). Of two centers l and a, the difference of
||y - l||^2 and ||y - a||^2 is affine in the row y, so its least value over a box is known from the
corners: where that is above zero for every l, all rows of the box are nearest to a, and none is
read.

A user's clock goes on by how far its two fastest centers go. What was measured at some time holds
until the clock shows `due` (a box) or `expiry` (a row); see `drifts`.
"""

from __future__ import annotations

import math

import numpy as np

from peerclust.kernels.compiling import compiled
from peerclust.kernels.drifts import EPS, TINY
from peerclust.kernels.exact import enter, move
from peerclust.kernels.measuring import (
    FAIR,
    FAR,
    FLAT,
    HUBER,
    KMEANS,
    LOGISTIC,
    PAD,
    TILE,
    find_lowest,
    gamma_of,
    gap_of_row,
    stays,
)


@compiled(nogil=True)
def _gap_of_box(mid, half, x, a, code, parameter):
    """Give how far centers may go before a row of the box can change; NaN or less if one may have.

    Of the difference of two distances, (r_l^2 - r_a^2) / (r_l + r_a), the numerator's least value
    and the denominator's largest are taken. With a code other than KMEANS, every row's gamma stays.
    """
    d = x.shape[1]
    slack = (8 * d + 64) * EPS
    near2, far2 = 0.0, 0.0
    for j in range(d):
        off = abs(x[a, j] - mid[j])
        far2 += (off + half[j]) * (off + half[j])
        near2 += max(off - half[j], 0.0) * max(off - half[j], 0.0)
    own = math.sqrt(far2)
    gap = FAR
    if code == HUBER:
        gap = (parameter - own) - (slack * (own + parameter) + TINY)
    elif code == LOGISTIC:
        gap = (math.sqrt(near2) - FLAT) - (slack * (own + FLAT) + TINY)
    for k in range(x.shape[0]):
        if k == a:
            continue
        least, far2 = 0.0, 0.0
        for j in range(d):
            apart, u, v = x[k, j] - x[a, j], x[k, j] - mid[j], x[a, j] - mid[j]
            least += apart * (u + v) - 2.0 * abs(apart) * half[j]
            far2 += (abs(u) + half[j]) * (abs(u) + half[j])
        far = own + math.sqrt(far2)
        room = least / far - (slack * far + TINY)
        if not room > 0.0:
            return room
        gap = min(gap, room)
    return gap


@compiled(nogil=True)
def _measure_own(tile, n, z, labels, common, r2):
    """Give the squared distances of a box's rows to their own centers."""
    r2[:n] = 0.0
    for j in range(z.shape[1]):
        if common >= 0:
            c = z[common, j]
            for r in range(n):
                step = tile[j, r] - c
                r2[r] += step * step
        else:
            for r in range(n):
                step = tile[j, r] - z[labels[r], j]
                r2[r] += step * step


@compiled(nogil=True)
def _weigh(n, weights, unit, code, parameter, kept, r2):
    """Turn squared distances into weights times gamma, zero for rows that are kept."""
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
            r2[r] = 0.0 if kept[r] else r2[r]


@compiled(nogil=True)
def _pull(tile, n, labels, common, w, pulls):
    """Add w and w y to pulls, (K, d + 1, 8), eight sums at a time; the last line is of weights."""
    d = tile.shape[0]
    if common >= 0 and n == TILE:
        into = pulls[common]
        for r in range(0, TILE, 8):
            for e in range(8):
                into[d, e] += w[r + e]
        for j in range(d):
            line = tile[j]
            for r in range(0, TILE, 8):
                for e in range(8):
                    into[j, e] += w[r + e] * line[r + e]
    else:
        for r in range(n):
            into = pulls[labels[r]]
            into[d, r % 8] += w[r]
            for j in range(d):
                into[j, r % 8] += w[r] * tile[j, r]


@compiled(inline="always")
def _add_eight(v):
    return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]))


@compiled(nogil=True)
def _add_up(tiles, weights, unit, begin, first, last, labels, kept, k, d, sums, peak):
    """Sum the kept rows of cluster k in the boxes first to last anew."""
    hi0, lo0, hi1, lo1 = sums
    hi0[k], lo0[k], hi1[k], lo1[k], peak[k] = 0.0, 0.0, 0.0, 0.0, 0.0
    for b in range(first, last):
        n = begin[b + 1] - begin[b]
        tile = tiles[begin[b] * d : begin[b + 1] * d].reshape(d, n)
        for r in range(n):
            row = begin[b] + r
            if labels[row] == k and (kept.size == 0 or kept[row]):
                enter(tile[:, r], weights[row] if weights.size > 0 else unit, k, sums)


@compiled(nogil=True)
def assign_boxes(
    tiles, weights, unit, begin, mid, half, owner, start, stop, first, last, x, clock,
    code, parameter, begins, labels, kept, expiry, due, common, fresh,
    exact, peak, s0, s1, changed, looked,
):  # fmt: skip
    """Assign the rows of tasks first to last and keep their sums; task t has boxes start to stop.

    The sums are those of `centers.assign`; rows enter and leave `exact`, which are kept. If it
    `begins`, nothing is known but labels. common[b] is the label of all rows of a box, or -1;
    fresh[b] is how many of them are not in `exact`, and kept[r] whether a row is.
    """
    K, d = x.shape[1:]
    none = np.empty(0)
    few = np.zeros((d, TILE + PAD))
    score = np.zeros((4, TILE))
    best, second, label = np.zeros(TILE), np.zeros(TILE), np.zeros(TILE, np.int32)
    chosen = np.empty(TILE, np.int64)
    anew = np.zeros(K, np.bool_)
    kinds, varies = code in (HUBER, LOGISTIC), code in (HUBER, LOGISTIC, FAIR)
    pulls = np.zeros((K if varies else 0, d + 1, 8))
    for t in range(first, last):
        i = owner[t]
        now, z = clock[i], x[i]
        sums = exact[0][t], exact[1][t], exact[2][t], exact[3][t]
        pulls[:] = 0.0
        moved, read = 0, 0
        for b in range(start[t], stop[t]):
            expired, count = begins or not now < due[b], 0
            if not expired and fresh[b] == 0:
                continue
            at, n = begin[b], begin[b + 1] - begin[b]
            tile = tiles[at * d : (at + n) * d].reshape(d, n)
            if not begins and expired and common[b] >= 0 and (not kinds or fresh[b] in (0, n)):
                held = code if kinds and fresh[b] == 0 else KMEANS
                gap = _gap_of_box(mid[b], half[b], z, common[b], held, parameter)
                due[b] = (now + gap) * (1.0 - 4.0 * EPS)
                expired = not gap > 0.0
            if expired:
                for r in range(n):
                    chosen[count] = r
                    count += begins or not now < expiry[at + r]
            if count > 0:
                for j in range(d):
                    for q in range(count):
                        few[j, q] = tile[j, chosen[q]]
                find_lowest(few, count, z, z, none, False, score, best, second, label)
                read += count
            for q in range(count):
                row, k, old = at + chosen[q], label[q], labels[at + chosen[q]]
                near = math.sqrt(best[q])
                gap = gap_of_row(code, parameter, near, math.sqrt(second[q]), d)
                expiry[row] = (now + gap) * (1.0 - 4.0 * EPS)
                keep = stays(code, parameter, near)
                was = not begins and (kept[row] if kinds else code == KMEANS)
                if old != k or keep != was:
                    w = weights[row] if weights.size > 0 else unit
                    if was:
                        anew[old] |= move(tile[:, chosen[q]], -w, old, sums, peak[t])
                    if keep:
                        anew[k] |= move(tile[:, chosen[q]], w, k, sums, peak[t])
                    if kinds:
                        kept[row] = keep
                        fresh[b] += int(was) - int(keep)
                    moved += old != k
                    labels[row] = k
            if expired:
                due[b], common[b] = np.inf, labels[at]
                for r in range(n):
                    due[b] = min(due[b], expiry[at + r])
                    if labels[at + r] != labels[at]:
                        common[b] = -1
            if varies and fresh[b] > 0:
                here = labels[at : at + n]
                _measure_own(tile, n, z, here, common[b], best)
                able = 0
                for r in range(n if kinds else 0):
                    able += stays(code, parameter, math.sqrt(best[r])) & (not kept[at + r])
                for r in range(n if able > 0 else 0):
                    near = math.sqrt(best[r])
                    if not kept[at + r] and stays(code, parameter, near):
                        w = weights[at + r] if weights.size > 0 else unit
                        anew[here[r]] |= move(tile[:, r], w, here[r], sums, peak[t])
                        kept[at + r] = True
                        fresh[b] -= 1
                        gap = gap_of_row(code, parameter, near, np.inf, d)
                        expiry[at + r] = min(expiry[at + r], (now + gap) * (1.0 - 4.0 * EPS))
                        due[b] = min(due[b], expiry[at + r])
                _weigh(n, weights[at : at + n], unit, code, parameter, kept[at : at + n], best)
                _pull(tile, n, here, common[b], best, pulls)
        for k in range(K):
            if anew[k]:
                _add_up(
                    tiles, weights, unit, begin, start[t], stop[t], labels, kept, k, d,
                    sums, peak[t],
                )  # fmt: skip
                anew[k] = False
            if varies:
                s0[t, k] = _add_eight(pulls[k, d])
                for j in range(d):
                    s1[t, k, j] = _add_eight(pulls[k, j])
        changed[t] = moved
        looked[t] = read
