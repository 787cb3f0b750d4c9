"""rho="auto": what is measured, what is chosen, and the disagreement at the end."""

import re
from math import sqrt

import numpy as np
import pytest
from sklearn import cluster as sklearn_cluster

import peerclust as pc
from all_pairs import by_pairs
from paper_formulas import FOUR, largest_apart
from peerclust.clustering.restarts import select_best

WHY = re.compile(r"users disagree by (?P<measured>[\d.]+)% of the data's spread; the target was 1%")


def iris(seed, m=10):
    rows, classes = pc.datasets.iris()
    return [rows[i] for i in pc.partition.homogeneous(classes, m, random_state=seed)]


def spread_of(parts):
    rows = np.concatenate(parts)
    return sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean())


@by_pairs(loss=FOUR, graph=["ring", "star", "complete"], seed=[0, 1])
def test_the_automatic_rho_ends_near_a_disagreement_of_one_percent(loss, graph, seed):
    parts = iris(seed)
    options = {"n_clusters": 3, "graph": graph, "loss": loss, "solver": "accelerated"}
    options |= {"rounds": 20_000, "tol": 1e-5, "random_state": seed, "search": "none"}
    solution = pc.cluster(parts, rho="auto", **options)
    assert solution.status.converged
    relative = largest_apart(solution.centers) / spread_of(parts)
    assert 0.005 <= relative <= 0.012
    # `why` says what was measured, an upper bound, which can be measured again.
    why = WHY.fullmatch(solution.why["rho"])
    assert why is not None, solution.why["rho"]
    assert 0.5 <= float(why["measured"]) <= 1.2
    again = pc.cluster(parts, rho=solution.rho, **options | {"init": solution.centers})
    off = np.linalg.norm(again.centers - again.centers.mean(axis=0), axis=2).max(axis=0)
    assert 2 * off.mean() / spread_of(parts) == pytest.approx(float(why["measured"]) / 100, rel=0.1)


@pytest.mark.parametrize("seed", range(4))
def test_a_search_does_not_spoil_the_automatic_rho(seed):
    found = pc.cluster(iris(seed), n_clusters=5, solver="accelerated", random_state=seed)
    assert found.certificate.moves > 0
    reached = found.certificate.disagreement <= 0.012 * found.certificate.spread
    assert reached or "`rho` = 'auto' aims at 1%: give a larger `rho`" in found.status.advice


def test_each_restart_has_its_own_automatic_rho(monkeypatch):
    ends = []

    def select(problem, settings, restarts):
        ends.extend(restarts)
        return select_best(problem, settings, restarts)

    monkeypatch.setattr("peerclust.clustering.cluster.select_best", select)
    parts = iris(0)
    solution = pc.cluster(
        parts, n_clusters=4, solver="accelerated", init="random", n_init=4, random_state=0
    )
    rhos = [end.tuned.rho for end in ends]
    assert len(set(rhos)) == 4
    assert solution.rho == min(ends, key=lambda end: end.end.found.pooled_cost).tuned.rho
    for end in ends:
        assert largest_apart(end.end.run.x) / spread_of(parts) <= 0.012
    assert solution.certificate.setup_rounds == sum(end.pilot_rounds for end in ends)


def test_an_automatic_rho_that_missed_its_target_is_reported(monkeypatch):
    monkeypatch.setattr("peerclust.clustering.auto_rho.ROUNDS", 10)
    parts = iris(0, m=30)
    found = pc.cluster(
        parts, n_clusters=3, graph="path", solver="dgc", rounds=50, random_state=0, tol=1e-3
    )
    assert largest_apart(found.centers) / spread_of(parts) > 0.012
    assert "but a pilot run did not converge" in found.why["rho"]
    assert "where `rho` = 'auto' aims at 1%: give a larger `rho`" in found.status.advice


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_the_automatic_rho_allows_for_a_constant_consensus_factor(factor):
    parts = iris(2)
    solution = pc.cluster(
        parts, n_clusters=3, graph="ring", rho="auto", consensus_factor=factor, rounds=20_000,
        tol=1e-5, random_state=2,
    )  # fmt: skip
    assert 0.005 <= largest_apart(solution.centers) / spread_of(parts) <= 0.012


def test_the_automatic_rho_allows_for_a_consensus_factor_that_grows_with_rho():
    """(1 - 1/rho) rho is rho - 1, so a rho larger by 1 has the effect of a factor 1."""
    options = {"n_clusters": 3, "weights": "normalized", "rho": "auto", "random_state": 0}
    options |= {"solver": "accelerated", "graph": "ring", "search": "none"}
    plain = pc.cluster(iris(0), rounds=1, **options)
    grows = pc.cluster(iris(0), rounds=1, consensus_factor="1-1/rho", **options)
    assert plain.rho / 2 <= grows.rho - 1 <= 2 * plain.rho


def test_the_automatic_rho_of_a_single_user_is_one():
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(40, 2))
    solution = pc.cluster([rows], n_clusters=3, solver="accelerated", random_state=0)
    assert solution.rho == 1
    assert solution.why["rho"] == "a single user has no neighbors to disagree with"
    assert solution.certificate.disagreement == 0


def test_users_that_already_agree_use_the_small_rho():
    part = np.random.default_rng(8).normal(size=(12, 2))
    solution = pc.cluster(
        [part] * 5, n_clusters=2, graph="ring", solver="accelerated", init=part[:2]
    )
    # H / lambda_max, with the rows of the larger cluster, and lambda_max of a ring of 5
    nearest = ((part[:, None] - part[:2]) ** 2).sum(axis=2).argmin(axis=1)
    largest = np.bincount(nearest).max()
    assert solution.rho == pytest.approx(largest / (4 * np.sin(2 * np.pi / 5) ** 2))
    assert solution.certificate.disagreement < 1e-12


def test_a_given_rho_is_reported_as_given():
    solution = pc.cluster(iris(0), n_clusters=3, rho=17, rounds=1, random_state=0)
    assert (solution.rho, solution.why["rho"]) == (17.0, "given")


@pytest.mark.parametrize(
    "graph",
    [
        pc.graphs.ring(50),
        pc.graphs.ring(200),
        pytest.param(pc.graphs.erdos_renyi(1600, 0.01, random_state=0), marks=pytest.mark.slow),
    ],
    ids=repr,
)
def test_the_automatic_rho_does_not_spoil_the_clustering_on_slow_and_large_graphs(graph):
    rng = np.random.default_rng(3)
    centers = rng.uniform(-10, 10, (5, 2))
    rows = centers[rng.integers(0, 5, 20 * graph.m)] + rng.normal(size=(20 * graph.m, 2))
    parts = np.array_split(rows, graph.m)
    best = sklearn_cluster.KMeans(n_clusters=5, n_init=5, random_state=0).fit(rows).inertia_ / 2
    found = pc.cluster(parts, n_clusters=5, graph=graph, solver="accelerated", random_state=0)
    assert found.certificate.pooled_cost < 1.001 * best
    assert found.certificate.disagreement < 0.012 * found.certificate.spread
    assert found.certificate.setup_rounds > 0
