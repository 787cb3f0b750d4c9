"""Loops that measure every row against the centers, without any cache: assignment and sums.

What they compute is said in `plain.assignment`. Their scratch arrays are those of `scratch`: a
tile of rows, the scores of four or of all centers, the lowest and the second lowest score and the
label of each row of the tile, and the numbers 0 to TILE - 1.
"""

from __future__ import annotations

import numpy as np

from peerclust.kernels.constants import GIVEN, KMEANS, TILE
from peerclust.kernels.loops.compiling import compiled
from peerclust.kernels.loops.distances import load, pairs, two_nearest, weigh
from peerclust.kernels.loops.exact_sums import add_rows, clear


@compiled()
def assign(first, last, data, chunks, x, slope, offset, labels, sums, changed, scratch):
    """Assign the rows of chunks first to last to their nearest centers and sum them by label."""
    rows, weights, unit, code, parameter = data
    owner, start, stop = chunks
    tile, score, best, second, label, each = scratch
    for t in range(first, last):
        i, n_changed = owner[t], 0
        clear(t, sums)
        for begin in range(start[t], stop[t], TILE):
            n = min(TILE, stop[t] - begin)
            here = labels[begin : begin + n]
            load(rows[begin:], each, n, tile)
            if slope is None:
                two_nearest(tile, n, x[i], None, None, score, best, second, label)
            else:
                two_nearest(tile, n, x[i], slope[i], offset[i], score, best, second, label)
            for r in range(n):
                n_changed += here[r] != label[r]
                here[r] = label[r]
            if code != GIVEN:
                weigh(weights[begin:], unit, code, parameter, n, best)
                add_rows(rows[begin:], each, n, best, here, t, sums)
        changed[t] = n_changed


@compiled()
def gradient(first, last, data, chunks, x, labels, given, sums, scratch):
    """Sum the rows of chunks first to last by their current labels, as `assign` does."""
    rows, weights, unit, code, parameter = data
    owner, start, stop = chunks
    r2, each = scratch
    for t in range(first, last):
        clear(t, sums)
        for begin in range(start[t], stop[t], TILE):
            n = min(TILE, stop[t] - begin)
            here = labels[begin : begin + n]
            if code == GIVEN:
                for r in range(n):
                    r2[r] = given[begin + r]
            elif code != KMEANS:
                pairs(rows[begin:], x[owner[t]], each, here, n, r2)
            weigh(weights[begin:], unit, code, parameter, n, r2)
            add_rows(rows[begin:], each, n, r2, here, t, sums)


@compiled()
def own_distance2(first, last, rows, chunks, x, labels, r2, scratch):
    """Write each row's squared distance to its own center to r2; r2[0] is the first row's."""
    owner, start, stop = chunks
    each = scratch[0]
    for t in range(first, last):
        for begin in range(start[t], stop[t], TILE):
            n, to = min(TILE, stop[t] - begin), begin - start[first]
            pairs(rows[begin:], x[owner[t]], each, labels[begin:], n, r2[to:])


@compiled()
def nearest(first, last, rows, x, slope, offset, labels, r2, scratch):
    """Write the nearest of one set of centers (K, d) and its score (see `assign`) of each row."""
    tile, score, best, second, label, each = scratch
    for begin in range(first, last, TILE):
        n = min(TILE, last - begin)
        load(rows[begin:], each, n, tile)
        two_nearest(tile, n, x, slope, offset, score, best, second, label)
        for r in range(n):
            labels[begin + r] = label[r]
            r2[begin + r] = best[r]


@compiled()
def nearest_other(first, last, rows, chunks, x, slope, offset, labels, others, scratch):
    """Write the nearest center of each row but its own, by the scores of `assign`, to `others`."""
    owner, start, stop = chunks
    tile, score, best, second, label, each = scratch
    for t in range(first, last):
        i = owner[t]
        for begin in range(start[t], stop[t], TILE):
            n = min(TILE, stop[t] - begin)
            load(rows[begin:], each, n, tile)
            if slope is None:
                two_nearest(tile, n, x[i], None, None, score, best, second, label)
            else:
                two_nearest(tile, n, x[i], slope[i], offset[i], score, best, second, label)
            for r in range(n):
                own = labels[begin + r]
                other, least = own, np.inf
                for k in range(x.shape[1]):
                    if k != own and score[k, r] < least:
                        other, least = k, score[k, r]
                others[begin + r] = other


@compiled()
def distances2(first, last, rows, x, r2, scratch):
    """Write the squared distances of rows first to last to each of the centers x, (N, K)."""
    tile, score, best, second, label, each = scratch
    for begin in range(first, last, TILE):
        n = min(TILE, last - begin)
        load(rows[begin:], each, n, tile)
        two_nearest(tile, n, x, None, None, score, best, second, label)
        for r in range(n):
            for k in range(x.shape[0]):
                r2[begin + r, k] = score[k, r]
