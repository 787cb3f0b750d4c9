"""A small problem, its graphs as lists of neighbors, and sums over rows, all by plain loops.

What the tests of ADMM, NK-means and LSP2P write their equations in; nothing is vectorized over
users, centers or rows, and no formula comes from the library.
"""

from itertools import pairwise

import numpy as np

from peerclust import graphs
from peerclust.runtimes import run_program
from peerclust.users import Users

m, K, d = 6, 3, 2
SIZES = [9, 0, 4, 12, 1, 7]  # a user without rows, and one with fewer rows than centers

GRAPHS = {
    "ring": (graphs.ring(m), [[1, 5], [0, 2], [1, 3], [2, 4], [3, 5], [0, 4]]),
    "star": (graphs.star(m), [[1, 2, 3, 4, 5], [0], [0], [0], [0], [0]]),
    "path": (graphs.path(m), [[1], [0, 2], [1, 3], [2, 4], [3, 5], [4]]),
    "complete": (graphs.complete(m), [[j for j in range(m) if j != i] for i in range(m)]),
}


def problem(seed, *, weighted):
    """Users for the library, the same as pairs (w, y) for the loops, and a start."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(SIZES)])
    rows = rng.normal(size=(offsets[-1], d)) + 2.0 * rng.integers(0, 3, (offsets[-1], 1))
    weights = rng.uniform(0.1, 2.0, len(rows)) if weighted else np.ones(len(rows))
    parts = [[(weights[r], rows[r]) for r in range(a, b)] for a, b in pairwise(offsets)]
    x = rng.normal(size=(m, K, d)) + 2.0
    for array in (rows, weights, x):
        array.flags.writeable = False
    return Users(rows, offsets, weights=weights if weighted else 1.0), parts, x


def sums(x, part):
    """For each of one user's centers the number (weight) and the sum of the rows nearest to it."""
    S0, S1 = [0.0] * len(x), [np.zeros(x.shape[1]) for _ in x]
    for w, y in part:
        k = int(np.argmin([sum((x[k] - y) ** 2) for k in range(len(x))]))
        S0[k] += w
        S1[k] = S1[k] + w * y
    return S0, S1


def watched(runtime, graph, program, users, x, rounds):
    """The centers after each round of a program, and the residuals."""
    after, residuals = [], []

    def record(states, _):
        after.append(np.concatenate([state.x for state in states]))
        residuals.append(np.concatenate([state.residual for state in states]))

    run_program(runtime(graph), program, users, x, rounds=rounds, on_round=record)
    return after, residuals


def assert_same(got, expected, atol=1e-10):
    assert len(got) == len(expected)
    for t, (a, b) in enumerate(zip(got, expected, strict=True)):
        np.testing.assert_allclose(a, b, rtol=0, atol=atol, err_msg=f"after round {t}")
