"""The cost never rises (lm:decr), and centers stay in the hull (lm:bdd-fix-pt)."""

import itertools

import numpy as np
import pytest

from instances import GRAPHS, LOSSES, WEIGHTS
from paper_formulas import CASES, in_hull, problem, start
from peerclust.programs.accelerated import Accelerated
from peerclust.runtimes import Simulator, run_program
from peerclust.users import Users

every_loss = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


# Rounds in all, over every loss and distance.
@pytest.mark.parametrize("rounds", [2_000, pytest.param(10_000, marks=pytest.mark.slow)])
@every_loss
def test_the_cost_never_rises_with_the_automatic_step(case, rounds):
    rng = np.random.default_rng(20)
    settings = itertools.cycle(itertools.product(GRAPHS, (1, 2, 4)))
    done, rises = 0, []
    while done < rounds / len(CASES):
        graph, B = next(settings)
        p = problem(
            rng,
            **case,
            graph=graph,
            m=int(rng.integers(4, 9)),
            d=int(rng.integers(1, 4)),
            K=int(rng.integers(2, 5)),
            c=[0.5, 1.0, 2.0, "1-1/rho"][rng.integers(4)],
            weights=WEIGHTS[rng.integers(len(WEIGHTS))],
        )
        rho = float(10 ** rng.uniform(-2, 4)) if rng.random() < 0.9 else 1.0
        if p.c == "1-1/rho":
            rho += 1.0
        x = start(rng, p, outside=0.0 if p.kl else rng.choice([0.0, 1.0]))
        seen = []
        p.run(init=x, rho=rho, B=B, rounds=9, tol=0, seen=seen, random_state=0)
        cost = np.inf
        for x_next, labels in seen:
            best = p.losses(x).min(axis=1)
            assigned = p.cost(x, labels, rho)
            updated = p.cost(x_next, labels, rho)
            least = (p.w * best).sum() / rho + p.factor(rho) / 2 * p.consensus(x)
            assert assigned <= least * (1 + 1e-12)  # no assignment is better
            for name, old, new in [("assign", cost, assigned), ("update", assigned, updated)]:
                if not new <= old * (1 + 1e-12):
                    rises.append((name, repr(graph), B, rho, p.c, old, new))
            x, cost = x_next, updated
            done += 1
    assert not rises, f"{len(rises)} rises in {done} rounds, the first: {rises[0]}"


@every_loss
def test_an_update_is_a_step_along_the_numerical_gradient_of_the_cost(case):
    rng = np.random.default_rng(21)
    for graph, c in zip(GRAPHS, itertools.cycle((1.0, 0.5, "1-1/rho")), strict=False):
        p = problem(rng, **case, graph=graph, weights=WEIGHTS[2], c=c)
        rho, alpha, seen = 5.0, 1e-3, []
        x = start(rng, p)
        p.run(init=x, rho=rho, alpha=alpha, rounds=1, tol=0, seen=seen, random_state=0)
        ((after, labels),) = seen
        slope = np.empty_like(x)
        for at in np.ndindex(x.shape):
            e = np.zeros_like(x)
            e[at] = 1e-5
            slope[at] = (p.cost(x + e, labels, rho) - p.cost(x - e, labels, rho)) / 2e-5
        np.testing.assert_allclose((x - after) / alpha, slope, rtol=1e-6, atol=2e-6)
        np.testing.assert_allclose(p.gradient(x, labels, rho), slope, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_euclidean_centers_stay_in_the_hull_of_rows_and_start(loss):
    rng = np.random.default_rng(22)
    for graph, c in zip(GRAPHS, itertools.cycle((1.0, 0.5, 2.0)), strict=False):
        d = int(rng.integers(2, 5))
        p = problem(rng, loss=loss, graph=graph, d=d, c=c, weights=WEIGHTS[2])
        x, seen = start(rng, p, outside=rng.choice([0.0, 0.3])), []
        p.run(init=x, rho=float(10 ** rng.uniform(0, 2)), B=2, rounds=30, tol=0, seen=seen)
        corners = np.concatenate([p.rows, x.reshape(-1, d)])
        directions = rng.normal(size=(400, d))
        reach = (corners @ directions.T).max(axis=0)
        for t, (centers, _) in enumerate(seen):
            over = centers.reshape(-1, d) @ directions.T - reach
            assert over.max() <= 1e-12 * np.abs(reach).max(), f"{graph}, round {t}"
        for center in seen[-1][0].reshape(-1, d):
            assert in_hull(center, corners), graph


CONCAVE = {
    name: case for name, case in CASES.items() if name.startswith(("KMeans", "Huber", "squared"))
}


@pytest.mark.parametrize("case", CONCAVE.values(), ids=list(CONCAVE))
def test_a_step_of_each_users_own_size_never_raises_the_cost(case):
    """For losses that are concave in r^2, at given labels: it minimizes a quadratic above J_rho."""
    rng = np.random.default_rng(25)
    falls = 0
    for graph, c, weights in itertools.product(GRAPHS, (0.3, 1.0, 2.0), WEIGHTS):
        p = problem(rng, **case, graph=graph, m=int(rng.integers(1, 9)), c=c, weights=weights)
        rho, x = float(10 ** rng.uniform(-2, 4)), start(rng, p, outside=rng.choice([0.0, 1.0]))
        given = {"loss": p.loss} if "breg" in case else {"loss": p.loss, "distance": p.distance}
        offsets = np.cumsum([0, *map(len, p.parts)])
        users = Users(p.rows, offsets, weights=p.w, **given)
        program, graph = Accelerated(rho=rho, consensus_factor=c), p.graph
        for _ in range(6):
            # A program that starts has no momentum yet.
            state = run_program(Simulator(graph), program, users, x, rounds=1).states[0]
            labels = state.assignment.labels
            before, after = p.cost(x, labels, rho), p.cost(state.stepped, labels, rho)
            assert after <= before * (1 + 1e-12) + 1e-15, (repr(graph), rho, c)
            falls += after < before * (1 - 1e-3)
            x = state.stepped
    assert falls > 100


def test_points_inside_the_hull_are_distinguished_from_those_outside():
    square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    assert in_hull(np.array([0.999, 0.5]), square)
    assert not in_hull(np.array([1.001, 0.5]), square)
