"""Fleets of real peers for the tests, and what must be true of a run however it went."""

import time

import numpy as np

import peerclust as pc
from peerclust.peers import configuration, setup
from peerclust.peers.commands import read_rows, read_table
from peerclust.runtimes import Simulator
from peerclust.runtimes.network.messages import Agreed
from peerclust.runtimes.network.setup import living_graph
from peerclust.testing.local_cluster import LocalCluster

TOL = 1e-6


def iris(m):
    rows, species = pc.datasets.iris()
    return [rows[mine] for mine in pc.partition.homogeneous(species, m, random_state=0)]


def fleet(folder, m=5, graph=None, **settings):
    """Peers that soon notice losses, and whose run takes thousands of rounds."""
    chosen = {
        "n_clusters": 3, "solver": "dgc", "rho": 150.0, "tol": TOL, "rounds": 30_000,
        "timeout": 2.0,
        "join_timeout": 20.0, "linger": 0.5, "checkpoint_every": 0.1, "on_absent": "start",
    }  # fmt: skip
    parts = settings.pop("parts", None) or iris(m)
    return LocalCluster(folder, parts, graph or pc.graphs.ring(m), **chosen | settings)


def wait_for_log(fleet, name, text, seconds=60.0):
    limit = time.monotonic() + seconds
    while text not in fleet.log(name):
        assert time.monotonic() < limit, fleet.log(name)
        time.sleep(0.05)


def check_ended(fleet, survivors, *, lost=(), cut=()):
    """Check that all survivors converged, name what happened, and are what the replay gives."""
    for name in survivors:
        told = fleet.certificate(name)
        status = "converged without some" if lost else "converged"
        assert told["status"]["name"] == status, fleet.log(name)
        assert told["residual"] <= TOL
        assert told["largest_residual"] <= TOL
        assert sorted(told["heard"]) == sorted(survivors)
        assert "made no progress" not in fleet.log(name)
        for gone in lost:
            assert gone in told["status"]["advice"]
            assert any(gone in event["what"] for event in told["events"])
            assert told["contributed"][gone][-1][1] < told["rounds"] - 1
    assert len({fleet.certificate(name)["rounds"] for name in survivors}) == 1
    check_replay(fleet, survivors, cut)


def check_replay(fleet, survivors, cut=()):
    """Check the replay bit by bit, and the way from the last change on against the simulator."""
    last = max(
        (event["round"] for name in survivors for event in fleet.certificate(name)["events"]),
        default=0,
    )
    seen = {}
    replayed = fleet.replay(lambda round_, here: seen.setdefault(round_, here))
    for name in survivors:
        assert replayed[name]["same"], name
    numbers = tuple(fleet.contract.number(name) for name in survivors)
    # Neighbors count each other out, and in, within a round or two.
    begin = last + 2
    x = np.stack([seen[begin][i] for i in numbers])
    told = fleet.certificate(survivors[0])
    agreed = Agreed(**told["agreed"])
    users = setup.join_rows(
        [
            read_rows(fleet.contract, name, read_table(fleet.contract, fleet.data(name)))
            for name in survivors
        ]
    ).users(fleet.contract, setup.make_scale(fleet.contract, agreed))
    program = configuration.make_program(fleet.contract, agreed)
    run = Simulator(living_graph(fleet.contract.graph, numbers, cut)).run(
        program, users, x, rounds=told["rounds"] - begin
    )
    scale = setup.make_scale(fleet.contract, agreed)
    for k, name in enumerate(survivors):
        assert np.abs(scale.forward(fleet.centers(name)) - run.x[k]).max() < TOL
