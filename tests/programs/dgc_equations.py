"""The paper's equations of DGC, written out as loops over users i, centers k and rows r.

Nothing here is vectorized over users, centers or rows, and no formula comes from the library.
"""

from math import exp, inf, sqrt

import numpy as np

from peerclust import graphs
from peerclust.losses import Fair, Huber, KMeans, Logistic

RHO, ALPHA, DELTA, ETA = 3.0, 0.03, 0.8, 0.6


K, d, m = 3, 2, 5


SIZES = [7, 0, 4, 9, 1]  # a user without rows, and one with fewer rows than centers


ROUNDS = 6


A = [[2.0, 0.6], [0.6, 0.5]]


NEIGHBORS = {
    "ring": [[1, 4], [0, 2], [1, 3], [2, 4], [0, 3]],
    "star": [[1, 2, 3, 4], [0], [0], [0], [0]],
}


GRAPHS = {"ring": graphs.ring(m), "star": graphs.star(m)}


LOSSES = {
    "dgc-km": KMeans(),
    "dgc-hl": Huber(DELTA),
    "dgc-ll": Logistic(),
    "dgc-fl": Fair(ETA),
}


def norm(v):
    return sqrt(sum(v[j] * v[j] for j in range(d)))


def euclidean(x, y):
    return norm(x - y)


def mahalanobis(x, y):
    z = x - y
    return sqrt(sum(z[a] * A[a][b] * z[b] for a in range(d) for b in range(d)))


def total(terms):
    """A sum of vectors, also of none."""
    out = np.zeros(d)
    for term in terms:
        out = out + term
    return out


# The boxed equations. x is x_i^{t,b}(k), C the rows of C_i^{t+1}(k) with their weights as pairs
# (w, y), N the neighbors' x_j^{t,b}(k). c is the factor of the consensus term, 1 in the paper.
def dgc_km(x, C, N, c):
    return (
        (1 - ALPHA * (1 / RHO * sum(w for w, _ in C) + c * len(N))) * x
        + ALPHA / RHO * total(w * y for w, y in C)
        + ALPHA * c * total(N)
    )


def dgc_hl(x, C, N, c):
    near = [(w, y) for w, y in C if norm(x - y) <= DELTA]
    far = [(w, y) for w, y in C if norm(x - y) > DELTA]
    return (
        ALPHA * c * total(N)
        + ALPHA
        / RHO
        * (total(w * y for w, y in near) + total(DELTA * w * y / norm(x - y) for w, y in far))
        + (
            1
            - ALPHA
            * (
                1 / RHO * sum(w for w, _ in near)
                + 1 / RHO * sum(DELTA * w / norm(x - y) for w, y in far)
                + c * len(N)
            )
        )
        * x
    )


def dgc_ll(x, C, N, c):
    return (
        ALPHA / RHO * total(2 * w * y / (1 + exp(-(norm(x - y) ** 2))) for w, y in C)
        + ALPHA * c * total(n - x for n in N)
        + (1 - ALPHA / RHO * sum(2 * w / (1 + exp(-(norm(x - y) ** 2))) for w, y in C)) * x
    )


def dgc_fl(x, C, N, c):
    def factor(w, y):
        return 4 * w * norm(x - y) ** 2 / (1 + norm(x - y) ** 2 / ETA)

    return (
        ALPHA / RHO * total(factor(w, y) * y for w, y in C)
        + ALPHA * c * total(n - x for n in N)
        + (1 - ALPHA / RHO * sum(factor(w, y) for w, y in C)) * x
    )


BOXED = {"dgc-km": dgc_km, "dgc-hl": dgc_hl, "dgc-ll": dgc_ll, "dgc-fl": dgc_fl}


# grad f(x, y) = gamma (x - y) with gamma a function of the distance g (lm:asmpt-satisfied).
GAMMA = {
    "dgc-km": lambda g: 1.0,
    "dgc-hl": lambda g: 1.0 if g <= DELTA else DELTA / g,
    "dgc-ll": lambda g: 2 / (1 + exp(-(g**2))),
    "dgc-fl": lambda g: 4 * ETA * (1 - ETA / (ETA + g**2)),
}


def times(matrix, v):
    return np.array([sum(matrix[a][b] * v[b] for b in range(d)) for a in range(d)])


def algorithm_1(update, g, x, parts, neighbors, *, B, c=1.0, rounds=ROUNDS):
    """The centers after each round of Algorithm 1: assign by g, then B times update."""
    x = [[x[i, k].copy() for k in range(K)] for i in range(m)]
    after = []
    for _ in range(rounds):
        clusters = [[[] for _ in range(K)] for _ in range(m)]
        for i in range(m):
            for w, y in parts[i]:
                nearest, least = 0, inf
                for k in range(K):
                    if g(x[i][k], y) < least:
                        nearest, least = k, g(x[i][k], y)
                clusters[i][nearest].append((w, y))
        for _ in range(B):
            x = [
                [
                    update(x[i][k], clusters[i][k], [x[j][k] for j in neighbors[i]], c)
                    for k in range(K)
                ]
                for i in range(m)
            ]
        after.append(np.array(x))
    return after


def problem(seed, *, weighted=True, low=-2.0, high=2.0):
    """Users for the library, the same as pairs (w, y) for the loops, and a start."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(low, high, (sum(SIZES), d))
    weights = rng.uniform(0.1, 2.0, len(rows)) if weighted else np.ones(len(rows))
    offsets = np.concatenate([[0], np.cumsum(SIZES)])
    parts = [
        [(float(weights[r]), rows[r]) for r in range(offsets[i], offsets[i + 1])] for i in range(m)
    ]
    x = rng.uniform(low, high, (m, K, d))
    for array in (rows, weights, x):
        array.flags.writeable = False
    return rows, offsets, weights if weighted else 1.0, parts, x
