"""Exact averaging of sums beside pooled Lloyd and majorized steps, written out."""

import numpy as np
import pytest

import peerclust as pc
from all_pairs import by_pairs
from instances import LOSSES
from peerclust import graphs, partition
from peerclust.programs.exact import Exact
from peerclust.runtimes import Loopback, Simulator, run_program
from peerclust.users import Users

ROWS, CLASSES = pc.datasets.iris()
GRAPHS = [graphs.ring(10), graphs.star(10), graphs.erdos_renyi(10, 0.4, random_state=0)]


def make_users(loss, seed=0):
    parts = partition.by_class(CLASSES, 10, per_user=2, random_state=seed)
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    return Users(ROWS[np.concatenate(parts)], offsets, loss=loss)


def pooled_step(loss, x):
    """One majorized step on all rows; beta times the weight bounds the curvature of every loss."""
    r2 = ((ROWS[:, None] - x) ** 2).sum(axis=2)
    labels = r2.argmin(axis=1)
    new = x.copy()
    for k in range(len(x)):
        mine = ROWS[labels == k]
        gamma = np.asarray(loss.gamma(r2[labels == k, k]))
        concave = isinstance(loss, pc.KMeans | pc.Huber)
        H = gamma.sum() if concave else loss.smoothness * len(mine)
        if H > 0:
            new[k] = x[k] - (gamma[:, None] * (x[k] - mine)).sum(axis=0) / H
    return new


@by_pairs(loss=LOSSES, graph=GRAPHS, runtime=[Simulator, Loopback])
def test_every_user_makes_the_pooled_step(loss, graph, runtime):
    q = len(graph.averaging_factors)
    x = ROWS[[3, 60, 110]]
    start = np.repeat(x[None], 10, axis=0)
    run = run_program(
        runtime(graph), Exact(graph.averaging_factors), make_users(loss), start, rounds=4 * q
    )
    for _ in range(3):  # the first q rounds average the starts
        x = pooled_step(loss, x)
    assert np.abs(run.x - x).max() < 1e-11


def test_starts_that_differ_are_averaged_first():
    graph = graphs.ring(10)
    starts = np.random.default_rng(0).normal(size=(10, 3, 4)) + 3.0
    q = len(graph.averaging_factors)
    run = run_program(
        Simulator(graph), Exact(graph.averaging_factors), make_users(pc.KMeans()), starts, rounds=q
    )
    assert np.abs(run.x - starts.mean(axis=0)).max() < 1e-12


def test_a_cluster_without_rows_keeps_its_center():
    graph = graphs.ring(10)
    x = np.array([[5.0, 3.4, 1.5, 0.2], [6.2, 2.9, 4.9, 1.7], [90.0, 90.0, 90.0, 90.0]])
    run = run_program(
        Simulator(graph),
        Exact(graph.averaging_factors), make_users(pc.KMeans()),
        np.repeat(x[None], 10, axis=0), rounds=60,
    )  # fmt: skip
    assert np.abs(run.x[:, 2] - 90.0).max() < 1e-11
    assert np.isfinite(run.x).all()


def test_a_run_that_is_taken_up_averages_its_starts_before_it_may_stop():
    from peerclust.programs.protocol import UNKNOWN
    from peerclust.runtimes.loop import begin

    graph = GRAPHS[2]
    program, users = Exact(graph.averaging_factors), make_users(pc.KMeans())
    x = np.repeat(ROWS[[3, 60, 110]][None], 10, axis=0)
    start, residuals = begin(program, [users], [x], 100), []
    q = len(graph.averaging_factors)
    run_program(
        Simulator(graph), program, users, x, rounds=100 + 2 * q, resume_from=start,
        on_round=lambda states, _: residuals.append(states[0].residual),
    )  # fmt: skip
    assert len(residuals) == 2 * q
    assert all((residual == UNKNOWN).all() for residual in residuals[:-1])
    assert (residuals[-1] < UNKNOWN).all()
    assert (residuals[-1] > 1e-3).all()


def test_one_user_alone_does_a_step_a_round():
    x = ROWS[[3, 60, 110]]
    alone = Users(ROWS, np.array([0, 150]))
    run = run_program(Simulator(graphs.path(1)), Exact(()), alone, x[None], rounds=3)
    for _ in range(2):  # the first round only sums up
        x = pooled_step(pc.KMeans(), x)
    assert np.abs(run.x[0] - x).max() < 1e-12


def test_one_user_alone_ends_at_a_fixed_point():
    end = pc.cluster([ROWS], n_clusters=3, solver="exact", random_state=0, tol=1e-9)
    assert end.status.converged
    assert np.abs(pooled_step(pc.KMeans(), end.consensus) - end.consensus).max() < 1e-9


@pytest.mark.parametrize(
    ("loss", "most"),
    [(pc.KMeans(), 100), (pc.Huber(), 200), (pc.Logistic(), 350), (pc.Fair(), 600)],
    ids=repr,
)
def test_it_reaches_the_pooled_fixed_point_in_few_rounds(loss, most):
    for seed in range(3):
        parts = [ROWS[i] for i in partition.homogeneous(CLASSES, 10, random_state=seed)]
        end = pc.cluster(
            parts, n_clusters=3, loss=loss, solver="exact", tol=1e-9, random_state=seed
        )
        assert end.certificate.rounds <= most
        step = pooled_step(loss, end.consensus)
        assert np.abs(step - end.consensus).max() < 1e-8
        assert end.certificate.pooled_residual < 1e-9
