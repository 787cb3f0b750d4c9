"""rho="auto": what is measured, what is chosen, and the disagreement at the end."""

import re
from math import sqrt

import numpy as np
import pytest
from sklearn import cluster as sklearn_cluster

import peerclust as pc
from all_pairs import by_pairs
from paper_formulas import FOUR, largest_apart

WHY = re.compile(
    r"users disagreed by (?P<measured>[\d.]+)% of the data's spread at rho = (?P<pilot>[\d.e+]+);"
    r" disagreement falls like 1/rho, so (?P<picked>[\d.e+]+) aims at (?P<aimed>\d+)%"
)


def iris(seed, m=10):
    rows, classes = pc.datasets.iris()
    return [rows[i] for i in pc.partition.homogeneous(classes, m, random_state=seed)]


def spread_of(parts):
    rows = np.concatenate(parts)
    return sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean())


@by_pairs(loss=FOUR, graph=["ring", "star", "complete"], seed=[0, 1])
def test_the_automatic_rho_ends_near_a_disagreement_of_one_percent(loss, graph, seed):
    parts = iris(seed)
    options = {"n_clusters": 3, "graph": graph, "loss": loss, "random_state": seed}
    solution = pc.cluster(parts, rho="auto", rounds=20_000, tol=1e-5, **options)
    assert solution.status.converged
    relative = largest_apart(solution.centers) / spread_of(parts)
    assert 0.005 <= relative <= 0.02
    # `why` says what was measured, which can be measured again.
    why = WHY.fullmatch(solution.why["rho"])
    assert why is not None, solution.why["rho"]
    measured, pilot, aimed = (float(why[name]) for name in ("measured", "pilot", "aimed"))
    assert aimed == 1
    assert solution.rho == pytest.approx(pilot * measured / aimed, rel=0.01)
    assert solution.rho == pytest.approx(float(why["picked"]), rel=1e-3)
    again = pc.cluster(parts, rho=pilot, init=solution.centers, rounds=20_000, tol=1e-5, **options)
    again_relative = largest_apart(again.centers) / spread_of(parts)
    assert again_relative == pytest.approx(measured / 100, rel=0.25)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_the_automatic_rho_allows_for_a_constant_consensus_factor(factor):
    parts = iris(2)
    solution = pc.cluster(
        parts, n_clusters=3, rho="auto", consensus_factor=factor, rounds=20_000, tol=1e-5,
        random_state=2,
    )  # fmt: skip
    assert 0.005 <= largest_apart(solution.centers) / spread_of(parts) <= 0.02


def test_the_automatic_rho_allows_for_a_consensus_factor_that_grows_with_rho():
    """(1 - 1/rho) rho is rho - 1, so a rho larger by 1 has the effect of a factor 1."""
    options = {"n_clusters": 3, "weights": "normalized", "rho": "auto", "random_state": 0}
    plain = pc.cluster(iris(0), rounds=1, **options)
    grows = pc.cluster(iris(0), rounds=1, consensus_factor="1-1/rho", **options)
    assert plain.rho / 2 <= grows.rho - 1 <= 2 * plain.rho


def test_the_automatic_rho_of_a_single_user_is_one():
    rng = np.random.default_rng(7)
    solution = pc.cluster([rng.normal(size=(40, 2))], n_clusters=3, rho="auto", random_state=0)
    assert solution.rho == 1
    assert solution.why["rho"] == "a single user has no neighbors to disagree with"
    assert solution.certificate.disagreement == 0


def test_users_that_already_agree_use_the_small_rho():
    part = np.random.default_rng(8).normal(size=(12, 2))
    solution = pc.cluster([part] * 5, n_clusters=2, rho="auto", random_state=0)
    # beta W / lambda_max with W = 12 rows and lambda_max = 4 sin^2(2 pi / 5) of a ring of 5
    assert solution.rho == pytest.approx(12 / (4 * np.sin(2 * np.pi / 5) ** 2))
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
    found = pc.cluster(parts, n_clusters=5, graph=graph, n_init=5, random_state=0)
    assert found.certificate.pooled_cost < 1.02 * best
    assert found.certificate.disagreement < 0.1 * found.certificate.spread
    assert found.certificate.setup_rounds > 0
