"""Runs of real processes over TLS in which nothing goes wrong."""

import numpy as np
import pytest
from trials import fleet, iris

import peerclust as pc
from peerclust.initialize import KMeansPlusPlus

GRAPHS = {
    "ring of 5": pc.graphs.ring(5),
    "ring of 10": pc.graphs.ring(10),
    "Erdos-Renyi of 5": pc.graphs.erdos_renyi(5, 0.6, random_state=1),
    "Erdos-Renyi of 10": pc.graphs.erdos_renyi(10, 0.4, random_state=2),
}


@pytest.mark.parametrize("loss", ["kmeans", "huber", "logistic", "fair"])
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_processes_end_where_the_simulator_does_to_the_last_bit(tmp_path, loss, graph):
    given = {"loss": loss, "solver": "accelerated", "rho": 30.0, "tol": 1e-3, "rounds": 150}
    parts = iris(graph.m)
    with fleet(tmp_path, graph.m, graph, **given) as peers:
        peers.start()
        codes = peers.wait()
        solution = pc.cluster(
            parts,
            n_clusters=3,
            graph=peers.contract.graph,
            init=KMeansPlusPlus(mean_of=5),
            scale="standard",
            random_state=0,
            **given,
        )
        for i, name in enumerate(peers.names):
            assert np.array_equal(peers.centers(name), solution.centers[i])
            told = peers.certificate(name)
            assert told["rounds"] == solution.certificate.rounds
            assert (codes[name] == 0) == (told["status"]["name"] == "converged")
            assert np.isclose(told["largest_residual"], solution.certificate.residual, rtol=1e-9)
            assert all(span == [[0, told["rounds"] - 1]] for span in told["contributed"].values())
