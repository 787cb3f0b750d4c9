"""Functions that measure every row against the centers: assignment and sums."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from peerclust.kernels.constants import CHUNK_ROWS, GIVEN, KMEANS
from peerclust.kernels.plain.arrays import batches
from peerclust.kernels.plain.distances import (
    MIN_ROUGH,
    columns,
    find_lowest,
    gamma,
    measure_pairs,
    nearest_of_one,
    score_rows,
)
from peerclust.kernels.plain.exact_sums import sum_rows


def assign(first, last, data, chunks, x, slope, offset, labels, sums, changed):
    """Assign the rows of chunks first to last to their nearest centers and sum them by label.

    Without a `slope` the nearest center has the least ||x_i(k) - y||^2. Otherwise it has the
    least affine score offset_i(k) - <slope_i(k), y>, which is a Bregman divergence up to a term
    without k. In the `sums` of w gamma and w gamma y, gamma is taken at a row's own center. With
    code GIVEN nothing is summed.
    """
    rows, weights, unit, code, parameter = data
    for some, here, owner, sizes in _groups(first, last, chunks):
        label, best = _find_nearest(rows[here], data, x, slope, offset, owner, sizes)
        changes = labels[here] != label
        labels[here] = label
        changed[some] = np.add.reduceat(changes, np.cumsum(sizes) - sizes, dtype=np.int64)
        if code == GIVEN:
            for each in sums:
                each[some] = 0.0
        else:
            w = weights[here] if weights.size else np.full(len(label), unit)
            if code != KMEANS:
                w = w * gamma(code, parameter, best)
            _sum(rows[here], w, label, sizes, sums, some)


def _find_nearest(rows, data, x, slope, offset, owner, sizes):
    """Return the labels of the rows (n, d) of some chunks, and their own scores."""
    code, one = data[3], (owner == owner[0]).all()
    if slope is None and one and rows.shape[1] >= MIN_ROUGH:
        label = nearest_of_one(rows, x[owner[0]])
        if code in (KMEANS, GIVEN):
            return label, None
        best = measure_pairs(rows, x[owner[0]][label])
        return label, np.where(best < np.inf, best, np.inf)
    return find_lowest(_score(columns(rows), x, slope, offset, owner, sizes))


def gradient(first, last, data, chunks, x, labels, given, sums):
    """Sum the rows of chunks first to last by their current labels, as `assign` does.

    With code GIVEN the gamma of each row is read from `given`.
    """
    rows, weights, unit, code, parameter = data
    for some, here, owner, sizes in _groups(first, last, chunks):
        w = weights[here] if weights.size else np.full(here.stop - here.start, unit)
        if code == GIVEN:
            w = w * given[here]
        elif code != KMEANS:
            own = x[np.repeat(owner, sizes), labels[here]]
            w = w * gamma(code, parameter, measure_pairs(rows[here], own))
        _sum(rows[here], w, labels[here], sizes, sums, some)


def own_distance2(first, last, rows, chunks, x, labels, r2):
    """Write each row's squared distance to its own center to r2; r2[0] is the first row's."""
    for _, here, owner, sizes in _groups(first, last, chunks):
        at = here.start - int(chunks[1][first])
        own = x[np.repeat(owner, sizes), labels[here]]
        r2[at : at + len(own)] = measure_pairs(rows[here], own)


def nearest(first, last, rows, x, slope, offset, labels, r2):
    """Write the nearest of one set of centers (K, d) and its score (see `assign`) of each row."""
    for here in batches(last - first, len(x)):
        at = slice(first + here.start, first + here.stop)
        y = columns(rows[at])
        if slope is None:
            score = score_rows(y, x[None], None, None, None)
        else:
            score = score_rows(y, x[None], slope[None], offset[None], None)
        labels[at], r2[at] = find_lowest(score)


def nearest_other(first, last, rows, chunks, x, slope, offset, labels, others):
    """Write the nearest center of each row but its own, by the scores of `assign`, to `others`.

    Of equally near centers the first is taken. Without any other center it is the row's own.
    """
    for _, here, owner, sizes in _groups(first, last, chunks):
        score = _score(columns(rows[here]), x, slope, offset, owner, sizes)
        own = labels[here]
        score[own, np.arange(len(own))] = np.inf
        label, least = find_lowest(score)
        others[here] = np.where(least < np.inf, label, own)


def distances2(first, last, rows, x, r2):
    """Write the squared distances of rows first to last to each of the centers x, (N, K)."""
    for here in batches(last - first, len(x)):
        at = slice(first + here.start, first + here.stop)
        r2[at] = score_rows(columns(rows[at]), x[None], None, None, None).T


def _groups(first, last, chunks):
    """Yield chunks first to last, some at a time: their range and rows, users and sizes.

    The rows of a group are consecutive, and fewer than those of two chunks.
    """
    owner, start, stop = (each[first:last] for each in chunks)
    sizes = stop - start
    full = (np.cumsum(sizes) - 1) // CHUNK_ROWS
    new = (full[1:] != full[:-1]) | (start[1:] != stop[:-1])
    cuts = [0, *(np.flatnonzero(new) + 1).tolist(), len(owner)] if len(owner) else []
    for a, b in pairwise(cuts):
        rows = slice(int(start[a]), int(stop[b - 1]))
        yield slice(first + a, first + b), rows, owner[a:b], sizes[a:b]


def _score(y, x, slope, offset, owner, sizes):
    """Return the scores of rows y (d, n) of some chunks; see `score_rows`."""
    if slope is None:
        return score_rows(y, x[owner], None, None, sizes)
    return score_rows(y, x[owner], slope[owner], offset[owner], sizes)


def _sum(rows, w, labels, sizes, sums, some):
    """Write the sums of w and w y, for rows y (n, d), by chunk and label to sums[some]."""
    hi, lo = sum_rows(rows, w, labels, sizes, sums[0].shape[1])
    hi0, lo0, hi1, lo1 = sums
    hi0[some], lo0[some], hi1[some], lo1[some] = hi[..., 0], lo[..., 0], hi[..., 1:], lo[..., 1:]
