"""Runs of real processes whose links break, are cut, work in one direction only, or are slow."""

import pytest

import peerclust as pc
from peer_runs import check_ended, check_replay, make_cluster, wait_for_log

pytestmark = pytest.mark.peers


def test_links_that_are_cut_or_work_in_one_direction_only_are_dropped_by_both_sides(tmp_path):
    with make_cluster(tmp_path, graph=pc.graphs.complete(5), proxied=True) as peers:
        peers.start()
        peers.wait_for_round("p0", 200)
        peers.proxy("p1", "p2").stall(from_dialer=True)
        peers.proxy("p3", "p4").stall(from_dialer=False)
        peers.proxy("p0", "p1").cut()
        for one, other in (("p0", "p1"), ("p1", "p0")):
            wait_for_log(peers, one, f"{other} was lost")
        # This one is restored, and the peers rejoin.
        peers.proxy("p0", "p1").restore()
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names, cut=[(1, 2), (3, 4)])
        for pair in (("p0", "p1"), ("p1", "p2"), ("p3", "p4")):
            for one, other in (pair, pair[::-1]):
                assert f"{other} was lost" in peers.log(one)
                rejoined = f"{other} and {one} exchange from round" in peers.log(one)
                assert rejoined == (pair == ("p0", "p1"))


def test_links_that_break_briefly_corrupt_bytes_or_are_slow_change_nothing(tmp_path):
    with make_cluster(tmp_path, proxied=True, timeout=10.0) as peers:
        peers.proxy("p2", "p3").delay(0.002)
        peers.start()
        for round_ in (100, 200, 300):
            peers.wait_for_round("p0", round_)
            peers.proxy("p0", "p1").cut()
            peers.proxy("p0", "p1").restore()
        changed = []

        def flip_once(data, from_dialer):
            changed.append(len(data))
            return data if len(changed) > 1 else data[:-5] + bytes([data[-5] ^ 1]) + data[-4:]

        peers.proxy("p3", "p4").corrupt(flip_once)
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)
        assert changed
        assert "The connection to p1 broke" in peers.log("p0")
        assert "broke" in peers.log("p3") + peers.log("p4")
        assert all(not peers.certificate(name)["events"] for name in peers.names)


def test_partitions_claim_no_success(tmp_path):
    with make_cluster(tmp_path, 6, proxied=True) as peers:
        peers.start()
        peers.wait_for_round("p0", 200)
        peers.proxy("p0", "p5").cut()
        peers.proxy("p2", "p3").cut()
        assert set(peers.wait().values()) == {1}
        for part in (["p0", "p1", "p2"], ["p3", "p4", "p5"]):
            for name in part:
                record = peers.certificate(name)
                assert record["status"]["name"] == "partitioned"
                assert record["heard"] == part
                # That is known, and said, as soon as the links are lost.
                lost = "The majority is lost: 3 of 6 peers are left"
                assert (
                    f"{lost}, and the run cannot converge unless 1 more peer returns."
                    in peers.log(name)
                )
                assert "partitioned" in (peers.directory / f"{name}.out").read_text()
        check_replay(peers, ["p0", "p1", "p2"])
