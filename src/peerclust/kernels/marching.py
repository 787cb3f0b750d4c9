"""Many rounds of (accelerated) gradient descent in one loop, for users with a handful of rows.

It calls the loops of which a round consists, so that a round has the same bits as by itself. With
letters from other processes, their exchange is started and waited for by C functions of the MPI
library, whose addresses are given: between small users a call from Python would take longer than
the exchange.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from peerclust.kernels.compiling import compiled
from peerclust.kernels.gradient_steps import nesterov_extrapolate, gather_rows, sum_halo
from peerclust.kernels.small_users import assign_small, small_gradient_step

_NEVER = np.iinfo(np.int64).max


def _call_at(_, address, first, second):  # noqa: ARG001 - numba asks for their names
    """Call the C function int(word, word) at an address."""

    def generate(_context, builder, _signature, given):
        word = ir.IntType(64)
        function = ir.FunctionType(ir.IntType(32), [word, word])
        return builder.call(builder.inttoptr(given[0], function.as_pointer()), given[1:])

    return types.int32(types.int64, types.int64, types.int64), generate


_call: Any = intrinsic(_call_at)


@compiled(inline="always")
def _vote(indptr, indices, s, R, heard, residual, threshold, round_, D, later_s, later_R):
    """Do as `stopping.next_vote`; heard are letters' votes, (n, 2)."""
    u = s.size
    for i in range(u):
        near_s, near_R = _NEVER, _NEVER
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            near_s = min(near_s, s[j] if j < u else heard[j - u, 0])
            near_R = min(near_R, R[j] if j < u else heard[j - u, 1])
        later_s[i] = 1 + min(s[i], near_s) if residual[i] <= threshold else 0
        later_R[i] = min(R[i], near_R)
        if later_s[i] > D:
            later_R[i] = min(later_R[i], round_ + D)


@compiled(nogil=True)
def march(data, x, stepped, t, momentum, step, stiffness, links, post, votes, rules):
    """Go on from centers x, (u, K, d), round by round; give where that ends.

    Parameters
    ----------
    data : rows, weights, unit, offsets, code, parameter, labels
        Of the users, as in `few`; labels are written.
    stepped, t : arrays
        Of `nesterov_extrapolate`, if there is momentum.
    step : rho, alpha, factor
        Of `small_gradient_step`.
    stiffness : (u,) array
        What turns a swing into a residual.
    links : indptr, indices, inner, outer, degree
        Who hears whom; see `share.Links`.
    post : index, out, letters, out_votes, letter_votes, request, status, start, wait
        Whose letters go elsewhere, where from, where to, and the addresses of MPI; start is 0 if
        there is no exchange.
    votes : s, R
        Of the users.
    rules : threshold, D, round, rounds
        When to stop; see `stopping`.

    Returns
    -------
    x, stepped, t, residual, s, R, round, last
        `last` are the centers to which rows were assigned last. The round is negative if a call of
        MPI failed.
    """
    rows, weights, unit, offsets, code, parameter, labels = data
    rho, alpha, factor = step
    indptr, indices, inner, outer, degree = links
    index, out, letters, out_votes, letter_votes, request, status, start, wait = post
    s, R = votes
    threshold, D, round_, rounds = rules
    u, K, d = x.shape
    # One loop for any number of features: a loop for each would take long to compile.
    members, row = np.arange(u), ()
    x, stepped, t = x.copy(), stepped.copy(), t.copy()
    moved, spare, last = np.empty_like(x), np.empty_like(stepped), x
    size, far, residual = np.empty(u), np.empty(u), np.full(u, np.inf)
    later, later_s, later_R = np.empty_like(t), np.empty_like(s), np.empty_like(R)
    while round_ < rounds:
        # What is heard is summed where the centers are to go: arrays that all fit a cache.
        flat, total = x.reshape(u, K * d), moved.reshape(u, K * d)
        if start != 0:
            gather_rows(flat, index, out)
            for p in range(index.size):
                out_votes[p, 0], out_votes[p, 1] = s[index[p]], R[index[p]]
            if _call(start, 1, request) != 0:
                return x, stepped, t, residual, s, R, -1, last
        assign_small(rows, offsets, members, 0, u, x, row, labels)
        sum_halo(indptr, indices, flat, letters, inner, 0, inner.size, total)
        if start != 0 and _call(wait, request, status) != 0:
            return x, stepped, t, residual, s, R, -1, last
        sum_halo(indptr, indices, flat, letters, outer, 0, outer.size, total)
        small_gradient_step(
            rows, weights, unit, offsets, 0, u, x, code, parameter, row, labels, moved, degree,
            rho, alpha, factor, moved, size,
        )  # fmt: skip
        for i in range(u):
            residual[i] = rho * size[i]
        last = x
        if momentum:
            told = spare
            nesterov_extrapolate(x, moved, stepped, t, 0, u, told, later, far)
            for i in range(u):
                swing = stiffness[i] * far[i]
                if not swing <= residual[i] and not math.isnan(residual[i]):
                    residual[i] = swing
            x, stepped, moved, spare = told, moved, stepped, x
            t, later = later, t
        else:
            x, moved = moved, x
        finite = True
        if threshold >= 0.0:
            for i in range(u):
                finite = finite and math.isfinite(residual[i])
            _vote(
                indptr, indices, s, R, letter_votes, residual, threshold, round_, D,
                later_s, later_R,
            )  # fmt: skip
            s, later_s = later_s, s
            R, later_R = later_R, R
        round_ += 1
        if not finite or R[0] <= round_ - 1:
            break
    return x, stepped, t, residual, s, R, round_, last
