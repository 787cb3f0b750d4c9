"""DGC beside the paper's equations, and what a round is."""

from dataclasses import replace
from math import log

import numpy as np
import pytest
from dgc_equations import (
    ALPHA,
    BOXED,
    DELTA,
    GAMMA,
    GRAPHS,
    LOSSES,
    NEIGHBORS,
    RHO,
    ROUNDS,
    A,
    K,
    algorithm_1,
    d,
    dgc_hl,
    dgc_km,
    euclidean,
    m,
    mahalanobis,
    norm,
    problem,
    times,
    total,
)

from all_pairs import by_pairs
from assignment_modes import MODES, use_mode
from peerclust import bregman, graphs
from peerclust.distances import Euclidean, Mahalanobis
from peerclust.programs.dgc import DGC
from peerclust.programs.protocol import HeardSum, NeighborSum
from peerclust.runtimes import Loopback, Simulator, run_program
from peerclust.runtimes.loop import begin
from peerclust.users import Users


def driven(runtime, graph, users, x, *, B, c=1.0, rounds=ROUNDS, stiffness=None):
    """The centers after each round of the program, and the states."""
    states, start = [], None

    def record(blocks_states, _):
        states.append(blocks_states)

    program = DGC(rho=RHO, alpha=ALPHA, B=B, consensus_factor=c)
    delivers = runtime(graph)
    if stiffness is not None:
        blocks = delivers.blocks(users)
        start = begin(program, blocks, [x[list(block.ids)] for block in blocks])
        agreed = [
            s.with_stiffness(stiffness[list(b.ids)])
            for s, b in zip(start.states, blocks, strict=True)
        ]
        start = replace(start, states=agreed)
    run_program(delivers, program, users, x, rounds=rounds, on_round=record, resume_from=start)
    return [np.concatenate([s.x for s in each]) for each in states], states


def assert_same(got, expected):
    assert len(got) == len(expected)
    for t, (a, b) in enumerate(zip(got, expected, strict=True)):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12, err_msg=f"after round {t}")


@by_pairs(
    equation=BOXED,
    name=NEIGHBORS,
    B=[1, 3],
    weighted=[True, False],
    c=[1.0, 0.5, 2.0],
    runtime=[Simulator, Loopback],
)
def test_updates_equal_the_boxed_equation(equation, name, B, weighted, c, runtime):
    rows, offsets, weights, parts, x = problem(0, weighted=weighted)
    users = Users(rows, offsets, weights=weights, loss=LOSSES[equation])
    got, _ = driven(runtime, GRAPHS[name], users, x, B=B, c=c)
    assert_same(got, algorithm_1(BOXED[equation], euclidean, x, parts, NEIGHBORS[name], B=B, c=c))


@by_pairs(equation=BOXED, B=[1, 3], mode=MODES)
def test_users_that_remember_equal_the_boxed_equation(equation, B, mode, monkeypatch):
    use_mode(monkeypatch, mode)
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


@by_pairs(equation=BOXED, name=NEIGHBORS, B=[1, 3])
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


@by_pairs(which=BREGMANS, name=NEIGHBORS, B=[1, 3])
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
    run = run_program(
        Simulator(graphs.ring(1)),
        DGC(rho=RHO, alpha=ALPHA),
        Users(y, np.array([0, 20])),
        x,
        rounds=1,
    )
    for k in range(K):
        own = [
            r for r in range(20) if k == int(np.argmin([norm(x[0, a] - y[r]) for a in range(K)]))
        ]
        expected = x[0, k] - ALPHA / RHO * total(x[0, k] - y[r] for r in own)
        np.testing.assert_allclose(run.x[0, k], expected, rtol=0, atol=1e-14)


@by_pairs(equation=BOXED, B=[1, 3], runtime=[Simulator, Loopback], agreed=[True, False])
def test_the_residual_is_the_largest_length_when_the_round_began(equation, B, runtime, agreed):
    """It is rho times the gradient over the stiffness, which is 1 until users agree on it."""
    rows, offsets, weights, parts, x = problem(4)
    users = Users(rows, offsets, weights=weights, loss=LOSSES[equation])
    stiffness = np.random.default_rng(0).uniform(0.5, 9.0, (m, K)) if agreed else np.ones((m, K))
    got, states = driven(
        runtime, GRAPHS["ring"], users, x, B=B, stiffness=stiffness if agreed else None
    )
    for t, began in enumerate([x, *got[:-1]]):
        # One update from where the round began is a step of alpha along the gradient.
        (step,) = algorithm_1(
            BOXED[equation], euclidean, began, parts, NEIGHBORS["ring"], B=1, rounds=1
        )
        gradient = (began - step) / ALPHA
        largest = [
            max(RHO * norm(gradient[i, k]) / stiffness[i, k] for k in range(K)) for i in range(m)
        ]
        residual = np.concatenate([state.residual for state in states[t]])
        np.testing.assert_allclose(residual, largest, rtol=1e-10)
        kept = np.concatenate([state.stiffness for state in states[t]])
        np.testing.assert_array_equal(kept, stiffness)


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
        before = state.assignment
        state = program.hear(users, state, HeardSum(np.zeros_like(x), np.zeros((m, 1, 1))))
        assert (state.assignment is before) == (counters[-1][1] != 0)
        if state.assignment is not before:
            assert state.assignment.x is said.x
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
                # A row that was read now would be NaN.
                rows[:] = np.nan
            state = program.hear(users, state, heard)
            rows[:] = kept
        assert np.isfinite(state.x).all()
        assert state.round == round_ + 1


def test_a_user_that_hears_nobody_moves_by_its_innovation_alone():
    """On a network a lost neighbor is a smaller degree, down to none."""
    rows, offsets, weights, parts, x = problem(6)
    users = Users(rows, offsets, weights=weights, distance=Euclidean())
    program = DGC(rho=RHO, alpha=ALPHA)
    heard = HeardSum(np.zeros_like(x), np.zeros((m, 1, 1)))
    got = program.hear(users, program.start(users, x), heard).x
    assert_same([got], algorithm_1(dgc_km, euclidean, x, parts, [[]] * m, B=1, rounds=1))
    np.testing.assert_array_equal(got[1], x[1])  # and without rows it stays
