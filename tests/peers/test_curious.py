"""What a neighbor learns about a site's rows from the random keys of the draw of initial centers.

It knows the network file, everything that the site sends to it, and everything that all peers know.
"""

import base64
import json
import stat

import numpy as np
import pytest

import misbehaving_peers
import peerclust as pc
from peer_runs import iris, make_cluster, read_seed, start_paced
from peerclust.clustering.problem import draw_seed
from peerclust.peers import configuration
from peerclust.programs.draw import Draw
from peerclust.runtimes.network.messages import Agreed
from peerclust.users import Users

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


TERMS = {"rho": 30.0, "tol": 1e-3, "rounds": 50, "n_clusters": 6}


def run_with_a_listener(directory, **settings):
    """Return three peers on a path that have run; p0 wrote down what it heard of p1."""
    with make_cluster(directory, 3, pc.graphs.path(3), **TERMS | settings) as peers:
        peers.start("p0", run=misbehaving_peers.listens)
        peers.start("p1", "p2")
        assert set(peers.wait().values()) <= {0, 1}
    return peers


def test_a_neighbor_cannot_recover_a_sites_sum_of_squared_distances(tmp_path):
    parts = iris(3)
    peers = run_with_a_listener(tmp_path, parts=parts)
    agreed = Agreed(**peers.certificate("p0")["agreed"])
    scale = configuration.make_scale(peers.contract, agreed)
    keys, centers = read_draws(tmp_path / "heard.jsonl")
    assert len(keys) == 6
    truth = sum_of_squares(scale.forward(parts[SITE]), centers)
    # The streams of the public seed, as the simulator has them.
    seed = draw_seed(peers.contract.seed)
    streams = [np.random.SeedSequence(seed, spawn_key=(SITE, step)) for step in range(6)]
    noise = np.array([np.random.default_rng(stream).gumbel() for stream in streams])
    error = np.exp(keys - noise) / truth - 1
    assert np.abs(error).min() > 1e-3, f"relative errors {error}"
    # They are the keys of the draw: with the private seed they can be computed, to the last bit.
    private = {SITE: read_seed(peers, "p1")}
    rows = scale.forward(parts[SITE])
    users = Users(rows, np.array([0, len(rows)]), ids=[SITE], private_seeds=private)
    for step, key in enumerate(keys):
        assert Draw(seed, step, mean_of=5).start(users, centers[None, :step]).keys[0, 0] == key


def test_a_private_seed_is_in_the_journal_of_its_site_and_nowhere_else(tmp_path):
    peers = run_with_a_listener(tmp_path, fixed_seeds=False, exchange="8-bit")
    seeds = {name: read_seed(peers, name) for name in peers.names}
    assert len(set(seeds.values())) == 3
    for name, seed in seeds.items():
        journal = peers.out(name) / "journal.jsonl"
        assert stat.S_IMODE(journal.stat().st_mode) == 0o600
        forms = (
            seed,
            seed.hex().encode(),
            base64.b64encode(seed),
            str(int.from_bytes(seed)).encode(),
        )
        for path in tmp_path.rglob("*"):
            if path.is_file() and path != journal:
                assert not any(form in path.read_bytes() for form in forms), path
    assert all(each["same"] for each in peers.replay().values())


def test_two_runs_of_one_network_file_have_different_private_seeds(tmp_path):
    with make_cluster(tmp_path, 3, fixed_seeds=False, **TERMS) as peers:
        seeds = []
        for options in ((), ("--force",)):
            peers.start(options=options)
            peers.wait()
            seeds += [read_seed(peers, name) for name in peers.names]
            assert all(each["same"] for each in peers.replay().values())
    assert len(set(seeds)) == 6


def test_a_process_that_returns_continues_with_the_private_seed_of_its_site(tmp_path):
    with make_cluster(tmp_path, fixed_seeds=False, exchange="8-bit", linger=60.0) as peers:
        start_paced(peers)
        peers.wait_for_round("p3", 50)
        seed = read_seed(peers, "p3")
        peers.kill("p3")
        peers.start("p3")
        peers.wait()
        assert read_seed(peers, "p3") == seed
        assert all(each["same"] for each in peers.replay().values())
