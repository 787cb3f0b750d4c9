"""What "converged" means: centers that would not move any further, whatever the units."""

from functools import cache

import numpy as np
import pytest
from sklearn.cluster import KMeans

import peerclust as pc
from paper_formulas import FOUR
from peerclust.programs.solvers import SOLVERS

SCALES = [1e-6, 1.0, 1e6]


def five_users(seed=0):
    """Return rows of three groups at five users, of which none has all groups."""
    rng = np.random.default_rng(seed)
    means = np.array([[0.0, 0.0], [6.0, 0.0], [3.0, 5.0]])
    return [
        means[rng.choice(3, size=2, replace=False)[rng.integers(0, 2, 20)]]
        + rng.normal(size=(20, 2))
        for _ in range(5)
    ]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("loss", FOUR, ids=repr)
@pytest.mark.parametrize("solver", SOLVERS)
def test_centers_that_have_converged_stay_where_they_are(solver, loss, scale):
    parts = [scale * part for part in five_users()]
    spread = np.sqrt(((np.concatenate(parts) - np.concatenate(parts).mean(0)) ** 2).sum(1).mean())
    options = {"n_clusters": 3, "graph": "ring", "loss": loss, "solver": solver, "search": "none"}
    if SOLVERS[solver].penalized:
        options["rho"] = 10
    start = np.concatenate(parts)[[3, 30, 70]]
    found = pc.cluster(parts, init=start, tol=1e-6, rounds=3000, **options)
    if not found.status.converged:
        assert "ran out of rounds" in found.status.name
        return
    rounds = 20 * found.certificate.rounds
    later = pc.cluster(parts, init=start, tol=0, rounds=rounds, **options)
    moved = np.linalg.norm(later.centers - found.centers, axis=2).max()
    assert moved <= 1e-3 * spread
    assert found.certificate.residual <= 1e-6


@pytest.mark.parametrize("solver", ["exact", "accelerated", "admm"])
def test_most_losses_converge_whatever_the_units(solver):
    for loss in (pc.KMeans(), pc.Huber(1.0), pc.Fair(1.0)):
        for scale in (1.0, 1e3):
            parts = [scale * part for part in five_users(1)]
            options = {"rho": 10} if SOLVERS[solver].penalized else {}
            found = pc.cluster(
                parts, n_clusters=3, loss=loss, solver=solver, rounds=10_000, random_state=0,
                **options,
            )  # fmt: skip
            assert found.status.converged, (loss, scale)


@cache
def far_apart():
    """Return three clean Gaussians with a spread of 5.5e5, their users, and the true optimum."""
    rng = np.random.default_rng(0)
    means = 4.6e5 * np.array([[0.0, 1.15], [-1.0, -0.58], [1.0, -0.58]])
    deviation = 1e5
    rows = np.repeat(means, 200, axis=0) + deviation * rng.normal(size=(600, 2))
    parts = np.array_split(rows[rng.permutation(600)], 10)
    # Beyond delta = 1 the Huber loss is the distance: its optimum is a geometric median.
    optimum = []
    for k in range(3):
        mine, x = rows[200 * k : 200 * (k + 1)], means[k]
        for _ in range(2000):
            far = np.maximum(np.linalg.norm(mine - x, axis=1), 1.0)
            x = (mine / far[:, None]).sum(axis=0) / (1 / far).sum()
        optimum.append(x)
    return parts, np.array(optimum), deviation


@pytest.mark.parametrize("solver", ["accelerated", "admm", "exact", "dgc"])
@pytest.mark.parametrize("scale", ["none", "standard"])
def test_huber_on_rows_far_apart_is_at_the_optimum_or_says_that_it_is_not(solver, scale):
    parts, optimum, deviation = far_apart()
    found = pc.cluster(
        parts, n_clusters=3, loss=pc.Huber(1.0) if scale is None else "kmeans", solver=solver,
        scale=scale, random_state=0,
    )  # fmt: skip
    if scale is not None:
        rows = np.concatenate(parts)
        optimum = KMeans(3, init=optimum, n_init=1, tol=0).fit(rows).cluster_centers_
    if found.status.converged:
        far = np.linalg.norm(found.consensus[:, None] - optimum, axis=2).min(axis=0)
        assert far.max() <= 0.01 * deviation
    else:
        assert found.status.name == "ran out of rounds"
        assert "above `tol`" in found.status.advice or "more `rounds`" in found.status.advice
    assert solver == "dgc" or found.status.converged


def test_a_thousand_users_converge_by_default():
    rng = np.random.default_rng(0)
    means = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    rows = means[rng.integers(0, 3, 2000)] + rng.normal(size=(2000, 2))
    parts = np.array_split(rows, 1000)
    found = pc.cluster(parts, n_clusters=3, random_state=0)
    assert found.status.converged
    assert found.solver == "exact"
    best = KMeans(3, n_init=5, random_state=0).fit(rows)
    assert found.certificate.pooled_cost == pytest.approx(best.inertia_ / 2, rel=1e-6)
    assert np.array_equal(found.centers, np.repeat(found.centers[:1], 1000, axis=0))
    for options in ({"solver": "accelerated"}, {"rho": 100.0}, {"scale": "standard"}):
        assert pc.cluster(parts, n_clusters=3, random_state=0, **options).status.converged


@pytest.mark.parametrize(("m", "name"), [(2, "complete"), (16, "complete"), (17, "exponential")])
def test_the_default_graph_is_complete_for_few_users(m, name):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(4, 2)) for _ in range(m)]
    options = {"n_clusters": 2, "solver": "dgc", "rho": 5, "rounds": 10, "random_state": 0}
    auto = pc.cluster(parts, **options)
    named = pc.cluster(parts, graph=name, **options)
    assert np.array_equal(auto.centers, named.centers)
    assert auto.certificate == named.certificate
    edges = m * (m - 1) // 2 if name == "complete" else pc.graphs.exponential(m).edges
    assert auto.certificate.messages == 10 * 2 * edges
