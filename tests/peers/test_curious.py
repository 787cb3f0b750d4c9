"""What a neighbor learns about a site's rows from the random keys of the draw of initial centers.

It knows the network file, everything that the site sends to it, and everything that all peers know.
"""

import json

import numpy as np
import pytest

import misbehaving_peers
import peerclust as pc
from peer_runs import iris, make_cluster
from peerclust.clustering.problem import draw_seed
from peerclust.peers import setup
from peerclust.runtimes.network.messages import Agreed

pytestmark = pytest.mark.peers

# On a path of 3, the neighbor p0 of the site p1; a maximum takes as many exchanges as the diameter.
SITE, DIAMETER, FEATURES = 1, 2, 4


def read_draws(path):
    """Return the keys that the site sent, one per initial center, and the centers drawn, (K, d).

    A draw is a maximum of one number, of which the site sends its own first, and one of a row.
    """
    heard = [json.loads(line) for line in path.read_text().splitlines()]
    arrays = [
        np.frombuffer(bytes.fromhex(data), dtype).reshape(shape)
        for number, dtype, shape, data in heard
        if number == SITE
    ]
    keys, centers = [], []
    for n, array in enumerate(arrays):
        if array.shape == (1, FEATURES) and arrays[n - 1].shape == (1,):
            keys.append(float(arrays[n - DIAMETER][0]))
            centers.append(arrays[n + DIAMETER - 1][0])
    return np.array(keys), np.array(centers)


def sum_of_squares(rows, centers):
    """Return the number of rows, then their squared distances to the first 1, 2, ... centers."""
    square = ((rows[:, None] - centers) ** 2).sum(axis=2)
    nearest = np.minimum.accumulate(square, axis=1).sum(axis=0)
    return np.concatenate([[len(rows)], nearest[:-1]])


def test_a_neighbor_cannot_recover_a_sites_sum_of_squared_distances(tmp_path):
    parts = iris(3)
    terms = {"rho": 30.0, "tol": 1e-3, "rounds": 50, "n_clusters": 6}
    with make_cluster(tmp_path, 3, pc.graphs.path(3), parts=parts, **terms) as peers:
        peers.start("p0", run=misbehaving_peers.listens)
        peers.start("p1", "p2")
        assert set(peers.wait().values()) <= {0, 1}
        agreed = Agreed(**peers.certificate("p0")["agreed"])
        seed = draw_seed(peers.contract.seed)
        scale = setup.make_scale(peers.contract, agreed)
    keys, centers = read_draws(tmp_path / "heard.jsonl")
    assert len(keys) == 6
    truth = sum_of_squares(scale.forward(parts[SITE]), centers)
    # The streams of the public seed, as the simulator has them.
    streams = [np.random.SeedSequence(seed, spawn_key=(SITE, step)) for step in range(6)]
    noise = np.array([np.random.default_rng(stream).gumbel() for stream in streams])
    error = np.exp(keys - noise) / truth - 1
    assert np.abs(error).min() > 1e-3, f"relative errors {error}"
