"""What must not matter to a run: the order of users, the runtime; and what must: the seed."""

import numpy as np
import pytest

import peerclust as pc
from instances import GRAPHS, LOSSES, WEIGHTS
from paper_formulas import CASES, CASES_AND_GRAPHS, problem, start
from peerclust.losses import Huber
from peerclust.runtimes import RUNTIMES
from peerclust.runtimes.protocol import Traffic

every_loss_and_graph = pytest.mark.parametrize(("name", "graph"), CASES_AND_GRAPHS, ids=repr)


@every_loss_and_graph
def test_permuting_users_permutes_the_result(name, graph):
    rng = np.random.default_rng(23)
    p = problem(rng, **CASES[name], graph=graph, weights=WEIGHTS[2])
    x, order = start(rng, p), rng.permutation(p.graph.m)
    options = {"rho": 8.0, "B": 2, "rounds": 40, "tol": 0, "random_state": 0}
    one = p.run(init=x, **options)
    other = pc.cluster(
        [p.parts[i] for i in order],
        n_clusters=p.K,
        graph=p.graph.reordered(order),
        loss=p.loss,
        distance=p.distance,
        weights=[p.weights[i] for i in order],
        solver="dgc",
        init=x[order],
        **options,
    )
    np.testing.assert_allclose(other.centers, one.centers[order], rtol=0, atol=1e-10)
    for i, part in enumerate(order):
        np.testing.assert_array_equal(other.labels[i], one.labels[part])
    assert other.certificate.cost == pytest.approx(one.certificate.cost, rel=1e-10)


class InTurn:
    """One start after the other, as `n_init` asks for them."""

    def __init__(self, starts):
        self.left = iter(starts)

    def centers(self, runtime, users, K, seed):
        return next(self.left), Traffic()


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_n_init_keeps_the_start_of_least_pooled_cost(loss):
    rng = np.random.default_rng(29)
    p = problem(rng, loss=loss, K=4, N=48, weights=WEIGHTS[2], spread=4.0)
    options = {"rho": 5.0, "rounds": 60, "tol": 0, "random_state": 0}
    starts = [start(rng, p) for _ in range(6)]

    def pooled(solution):
        common = np.repeat(solution.centers.mean(axis=0)[None], p.graph.m, axis=0)
        return (p.w * p.losses(common).min(axis=1)).sum()

    each = [p.run(init=x, **options) for x in starts]
    costs = [pooled(solution) for solution in each]
    best_of_all = p.run(init=InTurn(starts), n_init=6, **options)
    best = int(np.argmin(costs))
    assert np.ptp(costs) > 0.01 * max(costs)  # else any would do
    np.testing.assert_array_equal(best_of_all.centers, each[best].centers)
    assert best_of_all.certificate.pooled_cost == pytest.approx(min(costs), rel=1e-12)
    for part, expected in zip(best_of_all.labels, each[best].labels, strict=True):
        np.testing.assert_array_equal(part, expected)


def bits(solution):
    return solution.centers.tobytes(), [part.tobytes() for part in solution.labels]


@pytest.mark.parametrize("init", ["k-means++", "k-means++-local", "random"])
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(init):
    p = problem(np.random.default_rng(30), loss=Huber(1.0), weights=WEIGHTS[2])

    def run(seed):
        return p.run(init=init, rho="auto", n_init=2, rounds=30, tol=1e-4, random_state=seed)

    assert bits(run(7)) == bits(run(7))
    assert bits(run(np.random.default_rng(7))) == bits(run(7))
    assert bits(run(8)) != bits(run(7))


@every_loss_and_graph
def test_all_runtimes_give_the_same_bits(name, graph):
    p = problem(np.random.default_rng(31), **CASES[name], graph=graph, weights=WEIGHTS[2], c=0.5)
    inits = ["k-means++", "random", "k-means++-local"]
    for B, tol in [(1, 0), (3, 1e-2)]:
        runs = [
            pc.cluster(
                p.parts,
                n_clusters=p.K,
                graph=p.graph,
                loss=p.loss,
                distance=p.distance,
                weights=p.weights,
                consensus_factor=p.c,
                rho=3.0,
                B=B,
                tol=tol,
                rounds=40,
                init=inits[GRAPHS.index(graph) % 3],
                runtime=runtime,
                random_state=5,
            )
            for runtime in RUNTIMES
        ]
        for run in runs[1:]:
            assert bits(run) == bits(runs[0])
            assert run.certificate == runs[0].certificate
            assert run.status == runs[0].status
