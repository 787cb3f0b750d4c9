"""What `bounds` and `boxes` do once rows are measured: new labels, and moves between the sums.

All arrays are those of one chunk or box: `chosen` are rows of it, and drift, (K,), is how far its
centers have moved. `in_sums` is empty if it follows from the loss whether a row is in the constant
sums. A move is a row, a cluster, and the weight with which it enters or, negated, leaves.
"""

from __future__ import annotations

import math

from peerclust.kernels.constants import KMEANS
from peerclust.kernels.loops.center_drift import drift_limit
from peerclust.kernels.loops.compiling import inner
from peerclust.kernels.loops.distances import (
    constant_gamma,
    gamma_is_constant,
    slack_of_gamma,
    slack_of_label,
    weight_of,
)


@inner()
def relabel(
    cold, chosen, n, d, best, second, label, drift, labels, valid_until, in_sums,
    weights, unit, code, parameter, moves,
):  # fmt: skip
    """Give n chosen rows their new labels; write which rows change their sums to `moves`.

    best are squared distances and `second` distances. If it is `cold`, no row is in the sums yet.
    Return the numbers of moves and of changed labels, and how many more rows are in the sums.
    """
    moved_row, moved_k, moved_w = moves
    n_moves, n_changed, n_more = 0, 0, 0
    for q in range(n):
        row, k = chosen[q], label[q]
        near, old = math.sqrt(best[q]), labels[row]
        slack = slack_of_label(near, second[q], d)
        is_in, was_in, factor = True, not cold, 1.0
        if parameter is not None:
            until_change = slack_of_gamma(code, parameter, near, d)
            # Written so that NaN stays.
            slack = until_change if until_change < slack else slack
            is_in = gamma_is_constant(code, parameter, best[q])
            was_in = not cold and (in_sums[row] if in_sums.size > 0 else code == KMEANS)
            factor = constant_gamma(code)
        valid_until[row] = drift_limit(drift[k], slack)
        if old != k or is_in != was_in:
            w = factor * weight_of(weights, unit, row)
            if is_in:
                moved_row[n_moves], moved_k[n_moves], moved_w[n_moves] = row, k, w
                n_moves += 1
            if was_in:
                moved_row[n_moves], moved_k[n_moves], moved_w[n_moves] = row, old, -w
                n_moves += 1
            if in_sums.size > 0:
                in_sums[row] = is_in
            n_more += is_in - was_in
            n_changed += old != k
            labels[row] = k
    return n_moves, n_changed, n_more


@inner()
def settle(
    chosen, n, d, r2, drift, labels, valid_until, in_sums, weights, unit, code, parameter, moves
):
    """Move rows whose gamma has become constant, with their old labels, to the sums.

    r2 are the squared distances of n chosen rows to their own centers. Return the number of moves.
    """
    moved_row, moved_k, moved_w = moves
    n_moves = 0
    for q in range(n if in_sums.size > 0 else 0):
        row = chosen[q]
        if not in_sums[row] and gamma_is_constant(code, parameter, r2[q]):
            k = labels[row]
            w = constant_gamma(code) * weight_of(weights, unit, row)
            moved_row[n_moves], moved_k[n_moves], moved_w[n_moves] = row, k, w
            n_moves += 1
            in_sums[row] = True
            slack = slack_of_gamma(code, parameter, math.sqrt(r2[q]), d)
            valid_until[row] = min(valid_until[row], drift_limit(drift[k], slack))
    return n_moves
