"""Runs of real peers on this machine, and the checks that every run must pass."""

import time
from functools import partialmethod
from unittest import mock

import numpy as np

import misbehaving_peers
import peerclust as pc
from peerclust.peers import configuration
from peerclust.peers.commands import read_rows, read_table
from peerclust.peers.rows import Rows, join_rows
from peerclust.runtimes import Simulator, run_program
from peerclust.runtimes.network.collectives import active_graph
from peerclust.runtimes.network.contract import Contract, Peer
from peerclust.runtimes.network.journal import find_private_seed, read_journal
from peerclust.runtimes.network.messages import Agreed, Record
from peerclust.testing.local_cluster import LocalCluster
from peerclust.users import Users

TOL = 1e-6

# Public ranges of the features of `iris`.
RANGES = ((4.0, 8.0), (1.0, 5.0), (0.5, 8.0), (0.0, 3.0))


def iris(m):
    rows, species = pc.datasets.iris()
    return [rows[mine] for mine in pc.partition.homogeneous(species, m, random_state=0)]


def rows_of(parts, weights=1.0):
    """Return the rows of all sites as one block."""
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    return Rows(np.concatenate(parts), offsets, weights, tuple(range(len(parts))))


def make_path_contract(m=4, **settings):
    """Return a contract of sites on a path; no process runs them."""
    names = [f"p{i}" for i in range(m)]
    links = tuple((names[i], names[i + 1]) for i in range(m - 1))
    given = {"features": tuple("abcd"), "n_clusters": 3, "rho": 20.0, "seed": 3, "links": links}
    peers = tuple(Peer(name, f"127.0.0.1:{i + 1}", b"") for i, name in enumerate(names))
    return Contract(peers=peers, **given | settings)


def make_empty_record(agreed):
    """Return a record of which only what was agreed matters."""
    numbers = dict.fromkeys(
        ("residual", "pooled_residual", "disagreement", "cost", "pooled_cost"), 0.0
    )
    counts = dict.fromkeys(("round", "search_rounds", "moves", "moves_kept", "used"), 0)
    return Record(
        run=b"", agreed=agreed, members=[], took_part=[], stopped=True, centers=b"",
        **numbers, **counts,
    )  # fmt: skip


def make_cluster(directory, m=5, graph=None, **settings):
    """Return peers that notice losses quickly, and whose run takes thousands of rounds."""
    chosen = {
        "n_clusters": 3, "solver": "dgc", "rho": 150.0, "tol": TOL, "rounds": 30_000,
        "search": "none",
        "timeout": 2.0,
        "join_timeout": 20.0, "linger": 0.5, "checkpoint_every": 0.1, "on_absent": "start",
    }  # fmt: skip
    parts = settings.pop("parts", None) or iris(m)
    return LocalCluster(directory, parts, graph or pc.graphs.ring(m), **chosen | settings)


def read_seed(peers, name):
    """Return the private seed that a peer keeps in its journal."""
    return find_private_seed(read_journal(peers.out(name) / "journal.jsonl"))


def simulate(peers, parts, **settings):
    """Return the result of `cluster` on the simulator, with the peers' own private seeds."""
    seeds = {i: read_seed(peers, name) for i, name in enumerate(peers.names)}
    seeded = partialmethod(Users.__init__, private_seeds=seeds)
    with mock.patch.object(Users, "__init__", seeded):
        return pc.cluster(parts, graph=peers.contract.graph, **settings)


def start_paced(peers, *names):
    """Start peers, all if none is named; the first one sends late, so that a run takes seconds.

    A test then has time to act on the run, at little computing cost.
    """
    first, *others = names or peers.names
    peers.start(first, run=misbehaving_peers.late)
    peers.start(*others)


def wait_for_log(peers, name, text, seconds=60.0):
    limit = time.monotonic() + seconds
    while text not in peers.log(name):
        assert time.monotonic() < limit, peers.log(name)
        time.sleep(0.05)


def check_ended(peers, survivors, *, lost=(), cut=()):
    """Check that all survivors converged, report what happened, and end where the replay does."""
    for name in survivors:
        record = peers.certificate(name)
        status = "converged without some peers" if lost else "converged"
        assert record["status"]["name"] == status, peers.log(name)
        assert record["residual"] <= TOL
        assert record["largest_residual"] <= TOL
        assert sorted(record["heard"]) == sorted(survivors)
        assert "made no progress" not in peers.log(name)
        for gone in lost:
            assert gone in record["status"]["advice"]
            assert any(gone in event["what"] for event in record["events"])
            assert record["contributed"][gone][-1][1] < record["rounds"] - 1
    assert len({peers.certificate(name)["rounds"] for name in survivors}) == 1
    check_replay(peers, survivors, cut)


def check_replay(peers, survivors, cut=()):
    """Check the replay bit by bit, and all rounds after the last change against the simulator."""
    last = max(
        (event["round"] for name in survivors for event in peers.certificate(name)["events"]),
        default=0,
    )
    seen = {}
    replayed = peers.replay(lambda round_, here: seen.setdefault(round_, here))
    for name in survivors:
        assert replayed[name]["same"], name
    numbers = tuple(peers.contract.number(name) for name in survivors)
    # Neighbors drop each other, and rejoin, within a round or two.
    start = last + 2
    x = np.stack([seen[start][i] for i in numbers])
    record = peers.certificate(survivors[0])
    agreed = Agreed(**record["agreed"])
    users = join_rows(
        [
            read_rows(peers.contract, name, read_table(peers.contract, peers.data(name)))
            for name in survivors
        ]
    ).users(peers.contract, agreed)
    program = configuration.make_program(peers.contract, agreed)
    run = run_program(
        Simulator(active_graph(peers.contract.graph, numbers, cut)),
        program,
        users,
        x,
        rounds=record["rounds"] - start,
    )
    scale = configuration.make_scale(peers.contract, agreed)
    for k, name in enumerate(survivors):
        assert np.abs(scale.forward(peers.centers(name)) - run.x[k]).max() < TOL
