"""DGC beside the paper's equations, written out as loops over users i, centers k and rows r.

Nothing here is vectorized over users, centers or rows, and no formula comes from the library.
"""

from math import exp, inf, log, sqrt

import numpy as np
import pytest

from peerclust import bregman, graphs
from peerclust.distances import Euclidean, Mahalanobis
from peerclust.losses import Fair, Huber, KMeans, Logistic
from peerclust.programs.dgc import DGC
from peerclust.programs.protocol import HeardSum, NeighborSum
from peerclust.runtimes import Loopback, Simulator
from peerclust.users import Users
from ways import WAYS, set_way

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


def driven(runtime, graph, users, x, *, B, c=1.0, rounds=ROUNDS):
    """The centers after each round of the program, and the states."""
    states = []

    def look(blocks_states, _):
        states.append(blocks_states)

    program = DGC(rho=RHO, alpha=ALPHA, B=B, consensus_factor=c)
    runtime(graph).run(program, users, x, rounds=rounds, on_round=look)
    return [np.concatenate([s.x for s in each]) for each in states], states


def assert_same(got, expected):
    assert len(got) == len(expected)
    for t, (a, b) in enumerate(zip(got, expected, strict=True)):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12, err_msg=f"after round {t}")


@pytest.mark.parametrize("runtime", [Simulator, Loopback], ids=lambda r: r.__name__)
@pytest.mark.parametrize("c", [1.0, 0.5, 2.0])
@pytest.mark.parametrize("weighted", [True, False], ids=["weights", "unit"])
@pytest.mark.parametrize("B", [1, 3])
@pytest.mark.parametrize("name", NEIGHBORS)
@pytest.mark.parametrize("equation", BOXED)
def test_updates_equal_the_boxed_equation(equation, name, B, weighted, c, runtime):
    rows, offsets, weights, parts, x = problem(0, weighted=weighted)
    users = Users(rows, offsets, weights=weights, loss=LOSSES[equation])
    got, _ = driven(runtime, GRAPHS[name], users, x, B=B, c=c)
    assert_same(got, algorithm_1(BOXED[equation], euclidean, x, parts, NEIGHBORS[name], B=B, c=c))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("B", [1, 3])
@pytest.mark.parametrize("equation", BOXED)
def test_users_that_remember_equal_the_boxed_equation(equation, B, way, monkeypatch):
    set_way(monkeypatch, way)
    rows, offsets, weights, parts, x = problem(0)
    users = Users(rows, offsets, weights=weights, loss=LOSSES[equation])
    got, _ = driven(Simulator, GRAPHS["ring"], users, x, B=B)
    assert_same(got, algorithm_1(BOXED[equation], euclidean, x, parts, NEIGHBORS["ring"], B=B))


def test_the_boxed_equations_are_tried_on_near_and_far_rows_and_on_changing_labels():
    """What keeps the test above from being vacuous."""
    _, _, _, parts, x = problem(0)
    first = [[int(np.argmin([norm(x[i, k] - y) for k in range(K)])) for _, y in parts[i]]
             for i in range(m)]  # fmt: skip
    after = algorithm_1(dgc_hl, euclidean, x, parts, NEIGHBORS["ring"], B=3)[-1]
    last = [[int(np.argmin([norm(after[i, k] - y) for k in range(K)])) for _, y in parts[i]]
            for i in range(m)]  # fmt: skip
    assert first != last
    far = [norm(x[i, k] - y) > DELTA for i in range(m)
           for (_, y), k in zip(parts[i], first[i], strict=True)]  # fmt: skip
    assert any(far)
    assert not all(far)


@pytest.mark.parametrize("B", [1, 3])
@pytest.mark.parametrize("name", NEIGHBORS)
@pytest.mark.parametrize("equation", BOXED)
def test_a_mahalanobis_distance_multiplies_the_innovation_by_its_matrix(equation, name, B):
    rows, offsets, weights, parts, x = problem(1)
    gamma = GAMMA[equation]

    def update(x, C, N, c):
        innovation = total(w * gamma(mahalanobis(x, y)) * (x - y) for w, y in C)
        return x - ALPHA * (times(A, innovation) / RHO + c * total(x - n for n in N))

    users = Users(rows, offsets, weights=weights, loss=LOSSES[equation], distance=Mahalanobis(A))
    got, _ = driven(Simulator, GRAPHS[name], users, x, B=B, c=2.0)
    assert_same(got, algorithm_1(update, mahalanobis, x, parts, NEIGHBORS[name], B=B, c=2.0))


# psi's divergence and Hessian by hand.
BREGMANS = {
    "squared_euclidean": (
        bregman.squared_euclidean(),
        lambda x, y: sum((x[j] - y[j]) ** 2 for j in range(d)) / 2,
        lambda x: [[1.0, 0.0], [0.0, 1.0]],
    ),
    "squared_mahalanobis": (
        bregman.squared_mahalanobis(A),
        lambda x, y: mahalanobis(x, y) ** 2 / 2,
        lambda x: A,
    ),
    "generalized_kl": (
        bregman.generalized_kl(smoothness=1.0),
        lambda x, y: sum(y[j] * log(y[j] / x[j]) - y[j] + x[j] for j in range(d)),
        lambda x: [[1 / x[0], 0.0], [0.0, 1 / x[1]]],
    ),
}


@pytest.mark.parametrize("B", [1, 3])
@pytest.mark.parametrize("name", NEIGHBORS)
@pytest.mark.parametrize("which", BREGMANS)
def test_a_bregman_loss_multiplies_the_innovation_by_the_hessian(which, name, B):
    loss, divergence, hessian = BREGMANS[which]
    rows, offsets, weights, parts, x = problem(2, low=0.5, high=3.0)

    def update(x, C, N, c):
        innovation = total(w * (x - y) for w, y in C)
        return x - ALPHA * (times(hessian(x), innovation) / RHO + c * total(x - n for n in N))

    users = Users(rows, offsets, weights=weights, loss=loss)
    got, _ = driven(Simulator, GRAPHS[name], users, x, B=B, c=0.5)
    assert_same(got, algorithm_1(update, divergence, x, parts, NEIGHBORS[name], B=B, c=0.5))


def test_one_user_alone_does_gradient_clustering_on_its_own_rows():
    rng = np.random.default_rng(3)
    y, x = rng.normal(size=(20, d)), rng.normal(size=(1, K, d))
    run = Simulator(graphs.ring(1)).run(
        DGC(rho=RHO, alpha=ALPHA), Users(y, np.array([0, 20])), x, rounds=1
    )
    for k in range(K):
        own = [
            r for r in range(20) if k == int(np.argmin([norm(x[0, a] - y[r]) for a in range(K)]))
        ]
        expected = x[0, k] - ALPHA / RHO * total(x[0, k] - y[r] for r in own)
        np.testing.assert_allclose(run.x[0, k], expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("B", [1, 3])
@pytest.mark.parametrize("equation", BOXED)
def test_the_residual_is_rho_times_the_largest_gradient_when_the_round_began(equation, B):
    rows, offsets, weights, parts, x = problem(4)
    users = Users(rows, offsets, weights=weights, loss=LOSSES[equation])
    got, states = driven(Simulator, GRAPHS["ring"], users, x, B=B)
    for t, begin in enumerate([x, *got[:-1]]):
        # One update from where the round began is a step of alpha along the gradient.
        (step,) = algorithm_1(
            BOXED[equation], euclidean, begin, parts, NEIGHBORS["ring"], B=1, rounds=1
        )
        gradient = (begin - step) / ALPHA
        largest = [RHO * max(norm(gradient[i, k]) for k in range(K)) for i in range(m)]
        np.testing.assert_allclose(states[t][0].residual, largest, rtol=1e-10)


def test_a_round_is_one_assignment_and_B_exchanges():
    rows, offsets, weights, _, x = problem(5)
    users = Users(rows, offsets, weights=weights)
    program = DGC(rho=RHO, alpha=ALPHA, B=3)
    state = program.start(users, x)
    counters = [(state.round, state.update)]
    for _ in range(6):
        said = program.say(state)
        assert isinstance(said, NeighborSum)
        assert said.x is state.x
        before = users.labels.copy()
        state = program.hear(users, state, HeardSum(np.zeros_like(x), np.zeros((m, 1, 1))))
        if counters[-1][1] != 0:
            np.testing.assert_array_equal(users.labels, before)
        counters.append((state.round, state.update))
    assert counters == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0)]


@pytest.mark.parametrize("sizes", [[3, 9], [40, 90], [600, 700]], ids=["few", "in place", "boxes"])
def test_no_row_is_read_between_assignments_of_kmeans(sizes):
    rng = np.random.default_rng(0)
    rows, offsets = rng.normal(size=(sum(sizes), 2)), np.array([0, sizes[0], sum(sizes)])
    users = Users(rows, offsets)
    program, heard = (
        DGC(rho=RHO, alpha=1e-4, B=3),
        HeardSum(np.zeros((2, K, d)), np.zeros((2, 1, 1))),
    )
    state = program.start(users, rng.normal(size=(2, K, d)))
    for round_ in range(4):
        for update in range(3):
            kept = rows.copy()
            if update > 0:
                # Whoever read a row now would have NaN for it.
                rows[:] = np.nan
            state = program.hear(users, state, heard)
            rows[:] = kept
        assert np.isfinite(state.x).all()
        assert state.round == round_ + 1


def test_who_hears_nobody_moves_by_its_innovation_alone():
    """On a network a lost neighbor is a smaller degree, down to none."""
    rows, offsets, weights, parts, x = problem(6)
    users = Users(rows, offsets, weights=weights, distance=Euclidean())
    program = DGC(rho=RHO, alpha=ALPHA)
    heard = HeardSum(np.zeros_like(x), np.zeros((m, 1, 1)))
    got = program.hear(users, program.start(users, x), heard).x
    assert_same([got], algorithm_1(dgc_km, euclidean, x, parts, [[]] * m, B=1, rounds=1))
    np.testing.assert_array_equal(got[1], x[1])  # and without rows it stays
