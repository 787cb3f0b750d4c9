"""A replay of a run, from the rows and journals of all sites."""

import shutil

import pytest

import peerclust as pc
from peer_runs import check_replay, make_cluster

pytestmark = pytest.mark.peers


def test_a_replay_needs_every_site_that_agreed_and_the_rows_of_the_run(tmp_path):
    with make_cluster(tmp_path, rho=30.0) as peers:
        peers.start()
        peers.wait()
        check_replay(peers, peers.names)
        rows = peers.data("p3").read_text()
        peers.data("p3").write_text(peers.data("p1").read_text())
        with pytest.raises(pc.errors.DataError, match=r"The rows of p3 must be those of the run"):
            peers.replay()
        peers.data("p3").write_text(rows)
        shutil.rmtree(peers.out("p1"))
        with pytest.raises(pc.errors.DataError, match="Got none of p1"):
            peers.replay()
