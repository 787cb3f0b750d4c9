"""ADMM beside its equations, written out, and where it ends beside the pooled K-means problem."""

import numpy as np
import pytest
from equations import GRAPHS, K, assert_same, d, m, problem, sums, watched

from all_pairs import by_pairs
from peerclust import datasets, graphs, partition
from peerclust.programs.admm import ADMM
from peerclust.programs.protocol import HeardSum
from peerclust.runtimes import Loopback, Simulator, run_program
from peerclust.users import Users

ROUNDS = 30


def admm(x, parts, neighbors, c, rounds):
    """The centers after each round."""
    p = np.zeros_like(x)
    after = []
    for _ in range(rounds):
        new = np.empty_like(x)
        for i in range(m):
            S0, S1 = sums(x[i], parts[i])
            for k in range(K):
                near = sum((x[i, k] + x[j, k] for j in neighbors[i]), np.zeros(d))
                new[i, k] = (S1[k] - p[i, k] + c * near) / (S0[k] + 2 * c * len(neighbors[i]))
        for i in range(m):
            for j in neighbors[i]:
                p[i] = p[i] + c * (new[i] - new[j])
        x = new
        after.append(x)
    return after


@by_pairs(name=GRAPHS, weighted=[True, False], c=[0.3, 2.0], runtime=[Simulator, Loopback])
def test_rounds_equal_the_equations(name, weighted, c, runtime):
    graph, neighbors = GRAPHS[name]
    users, parts, x = problem(0, weighted=weighted)
    got, _ = watched(runtime, graph, ADMM.plain(c=c), users, x, ROUNDS)
    assert_same(got, admm(x, parts, neighbors, c, ROUNDS))


def test_the_equations_are_tried_on_changing_labels():
    """What keeps the test above from being vacuous."""
    _, parts, x = problem(0, weighted=True)
    after = admm(x, parts, GRAPHS["ring"][1], 0.3, ROUNDS)
    counts = [[sums(at[i], parts[i])[0] for i in range(m)] for at in (x, after[4], after[-1])]
    assert counts[0] != counts[1]
    assert counts[1] != counts[2]


@pytest.mark.parametrize("c", [2.0, 10.0])
@pytest.mark.parametrize("seed", range(3))
def test_users_end_in_consensus_at_a_stationary_point_of_the_pooled_problem(seed, c):
    rows, classes = datasets.iris()
    parts = partition.homogeneous(classes, 10, random_state=seed)
    rows = rows[np.concatenate(parts)]
    rng = np.random.default_rng(seed)
    # A row of each class, which each user knows with errors of its own.
    x = np.array([rows[rng.choice(150)] for _ in range(3)]) + 0.1 * rng.normal(size=(10, 3, 4))
    run = run_program(
        Simulator(graphs.ring(10)),
        ADMM.plain(c=c),
        Users(rows, np.arange(0, 151, 15)),
        x,
        rounds=800,
    )
    common = run.x[0]
    np.testing.assert_allclose(run.x, np.repeat(common[None], 10, axis=0), rtol=0, atol=1e-9)
    nearest = [int(np.argmin([sum((c - y) ** 2) for c in common])) for y in rows]
    assert set(nearest) == {0, 1, 2}
    for k in range(3):
        mean = np.mean([y for y, label in zip(rows, nearest, strict=True) if label == k], axis=0)
        np.testing.assert_allclose(common[k], mean, rtol=0, atol=1e-9)
    assert run.states[0].residual.max() < 1e-6


def test_a_user_without_neighbors_and_rows_stays():
    users, _, x = problem(1, weighted=True)
    program = ADMM.plain(c=0.5)
    heard = HeardSum(np.zeros_like(x), np.zeros((m, 1, 1)))
    got = program.hear(users, program.start(users, x), heard).x
    np.testing.assert_array_equal(got[1], x[1])


def relaxed(x, parts, neighbors, c, a, rounds):
    """The over-relaxed equations with a fixed penalty, rows assigned again in every round."""
    p = np.zeros_like(x)
    after = []
    for t in range(rounds):
        new_x, new_p = np.empty_like(x), np.empty_like(p)
        for i in range(m):
            S0, S1 = sums(x[i], parts[i])
            for k in range(K):
                difference = sum((x[i, k] - x[j, k] for j in neighbors[i]), np.zeros(d))
                factor = np.broadcast_to(c, K)[k]
                now = p[i, k] + factor * difference
                toward = S0[k] * x[i, k] - S1[k] + 2 * now - p[i, k]
                if t == 0:
                    now, toward = p[i, k], toward - factor * difference
                step = toward / (S0[k] + 2 * factor * len(neighbors[i]))
                new_x[i, k] = x[i, k] - a * step
                new_p[i, k] = p[i, k] + a * (now - p[i, k])
        x, p = new_x, new_p
        after.append(x)
    return after


@pytest.mark.parametrize("name", GRAPHS)
def test_over_relaxed_rounds_equal_the_equations(name):
    graph, neighbors = GRAPHS[name]
    users, parts, x = problem(0, weighted=True)
    program = ADMM(c=0.8, D=3, relaxation=1.6, backoff=0.0, balance=np.inf)
    got, _ = watched(Simulator, graph, program, users, x, ROUNDS)
    assert_same(got, relaxed(x, parts, neighbors, 0.8, 1.6, ROUNDS))


def run_on_iris(program, loss=None, rounds=600, seed=0):
    rows, classes = datasets.iris()
    parts = partition.homogeneous(classes, 10, random_state=seed)
    users = Users(rows[np.concatenate(parts)], np.arange(0, 151, 15), loss=loss)
    x = np.repeat(rows[[10, 70, 120]][None], 10, axis=0)
    states = []
    run = run_program(
        Simulator(graphs.ring(10)),
        program,
        users,
        x,
        rounds=rounds,
        on_round=lambda seen, _: states.append(seen[0]),
    )
    return run, states


@pytest.mark.parametrize("wrong", [0.01, 100.0])
def test_a_penalty_that_is_far_off_mends_itself_alike_for_all_users(wrong):
    best = 4.0
    _, kept = run_on_iris(ADMM(c=wrong * best, D=5, balance=np.inf))
    run, states = run_on_iris(ADMM(c=wrong * best, D=5))
    penalties = [state.penalty.c for state in states]
    assert all(np.array_equal(c, np.repeat(c[:1], 10, axis=0)) for c in penalties)
    assert np.array_equal(kept[-1].penalty.c, np.full((10, 3), wrong * best))
    end = penalties[-1]
    assert (np.abs(np.log(end / best)) < 0.5 * abs(np.log(wrong))).all()
    far = np.ptp(run.x, axis=0).max(), np.ptp(kept[-1].x, axis=0).max()
    assert far[0] < 0.1 * far[1] or far[0] < 1e-9


def test_the_penalty_is_looked_at_ever_more_rarely():
    _, states = run_on_iris(ADMM(c=4.0, D=5))
    looks = sorted({state.penalty.next_check for state in states})
    gaps = np.diff(looks)
    assert (np.diff(gaps) > 0).all()
    assert looks[0] == 5


def test_multipliers_add_up_to_nothing():
    run, _ = run_on_iris(ADMM(c=4.0, D=5), rounds=77)
    assert np.abs(run.states[0].p.sum(axis=0)).max() < 1e-9


@pytest.mark.parametrize("name", GRAPHS)
def test_each_center_may_have_a_penalty_of_its_own(name):
    graph, neighbors = GRAPHS[name]
    users, parts, x = problem(0, weighted=True)
    penalties = (0.3, 2.0, 7.0)
    program = ADMM(c=penalties, D=3, relaxation=1.6, backoff=0.0, balance=np.inf)
    for runtime in (Simulator, Loopback):
        got, _ = watched(runtime, graph, program, users, x, ROUNDS)
        assert_same(got, relaxed(x, parts, neighbors, np.array(penalties), 1.6, ROUNDS))


def test_penalties_of_centers_mend_themselves_one_by_one():
    first = (0.04, 4.0, 400.0)
    _, states = run_on_iris(ADMM(c=first, D=5))
    penalties = np.array([state.penalty.c[0] for state in states])
    assert all((state.penalty.c == state.penalty.c[:1]).all() for state in states)
    assert penalties[0].tolist() == list(first)
    # They end much closer together than they began, and none leaves its limits.
    assert np.ptp(np.log(penalties[-1])) < 0.6 * np.ptp(np.log(first))
    assert (penalties >= np.array(first) / 1e4).all()
    assert (penalties <= np.array(first) * 1e4).all()


@pytest.mark.parametrize("weight", [0.3, 5.0])
def test_the_residual_is_the_length_of_what_does_not_balance_or_the_disagreement(weight):
    _, neighbors = GRAPHS["ring"]
    users, parts, x = problem(3, weighted=True)
    stiffness = np.random.default_rng(0).uniform(0.5, 9.0, (m, K))
    program = ADMM(
        c=0.8, D=3, relaxation=1.0, backoff=0.0, balance=np.inf, disagreement_weight=weight
    )
    state = program.start(users, x).with_stiffness(stiffness)
    p = np.zeros_like(x)
    for t in range(5):
        total = np.array([sum(state.x[j] for j in neighbors[i]) for i in range(m)])
        apart = 2.0 * state.x - total
        if t > 0:
            p = p + 0.8 * apart
        expected = np.zeros(m)
        for i in range(m):
            S0, S1 = sums(state.x[i], parts[i])
            for k in range(K):
                off = np.linalg.norm(S0[k] * state.x[i, k] - S1[k] + p[i, k]) / stiffness[i, k]
                disagreement = weight * np.linalg.norm(apart[i, k])
                expected[i] = max(expected[i], off, disagreement)
        heard = HeardSum(total, np.full((m, 1, 1), 2.0))
        state = program.hear(users, state, heard)
        np.testing.assert_allclose(state.residual, expected, rtol=1e-10)
        assert state.stiffness is stiffness


def test_huber_uses_the_sharper_bound_and_no_bound_lets_a_step_raise_the_cost():
    from peerclust.losses import Fair, Huber, Logistic

    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 2)) * rng.choice([0.5, 5.0], (40, 1))
    for loss in (Huber(0.4), Huber(3.0), Logistic(), Fair(0.5), Fair(3.0)):
        users = Users(rows, np.array([0, 40]), loss=loss)
        for x in rng.normal(size=(50, 1, 2, 2)) * 3.0:
            assignment = users.assign(x)
            curvature = users.curvature(assignment, x)
            H = curvature[..., None]
            step = np.divide(users.gradient(assignment, x), H, out=np.zeros_like(x), where=H > 0)
            cost = users.cost(assignment, x)
            assert users.cost(assignment, x - step) <= cost * (1 + 1e-12)
            counts = np.bincount(assignment.labels, minlength=2)
            # gamma is at most 1, 2 and 4 eta, and h'' at most 1, 1.557 and 3 times gamma.
            most = {Huber: 1.0, Logistic: 2 * 1.557}.get(type(loss), 12 * getattr(loss, "eta", 0))
            assert (curvature[0] <= most * counts + 1e-12).all()
