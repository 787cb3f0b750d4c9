"""Runs of real processes in which a listed peer lies; see `lying_peers`."""

import json

import numpy as np
import pytest

import lying_peers as lies
import peerclust as pc
from peer_runs import check_ended, make_cluster, start_paced

pytestmark = pytest.mark.peers

# A ring of five honest peers, and a liar that is a neighbor of three of them.
HONEST = ["p0", "p1", "p2", "p3", "p4"]
GRAPH = pc.graphs.from_edges([*((i, (i + 1) % 5) for i in range(5)), (5, 0), (5, 2), (5, 3)])


def run_beside(directory, liar, code=0, **settings):
    """Run five honest peers and a liar; return the honest ones' results, by name.

    A liar cannot be kept from delaying a run until it is out of rounds; `code` is 1 then.
    """
    with make_cluster(directory, 6, GRAPH, join_timeout=6.0, **settings) as peers:
        peers.start(*HONEST)
        peers.start("p5", run=liar)
        codes = peers.wait(*HONEST)
        assert codes == dict.fromkeys(HONEST, code), {name: peers.log(name) for name in HONEST}
        for name in HONEST:
            assert np.abs(peers.centers(name)).max() < 100.0
            status = peers.certificate(name)["status"]["name"]
            assert status.startswith("converged" if code == 0 else "ran out of rounds")
            # Nobody honest was dropped.
            assert set(HONEST) <= set(peers.certificate(name)["heard"])
        records = {peers.certificate(name)["record"] for name in HONEST}
        assert len(records) == 1
        return {name: (peers.certificate(name), peers.log(name)) for name in HONEST}


@pytest.mark.parametrize(
    "liar", [lies.forges_the_end, lies.signs_the_forged_end_many_times], ids=lambda f: f.__name__
)
def test_nobody_takes_a_result_from_one_mouth(tmp_path, liar):
    run_beside(tmp_path, liar)


def test_a_peer_that_contradicts_itself_is_dropped_by_all_with_evidence(tmp_path):
    found = run_beside(tmp_path, lies.contradicts_itself)
    for name, (certificate, log) in found.items():
        assert "p5 is dropped: it signed two different views as one" in log
        assert "p5" not in certificate["heard"]
        (evidence,) = json.loads((tmp_path / f"out-{name}" / "evidence.json").read_text())
        assert evidence["peer"] == "p5"
        assert evidence["first"]["seq"] == evidence["second"]["seq"] == 7
        assert evidence["first"]["body"] != evidence["second"]["body"]


@pytest.mark.parametrize(
    "liar", [lies.states_ever_new_views, lies.says_that_it_ended], ids=lambda f: f.__name__
)
def test_views_of_a_liar_harm_nobody_honest(tmp_path, liar):
    run_beside(tmp_path, liar)


def test_peers_with_different_results_of_the_set_up_stop_and_blame_nobody(tmp_path):
    honest = ["p1", "p2", "p3", "p4"]
    with make_cluster(tmp_path, graph=pc.graphs.complete(5), timeout=5.0) as peers:
        # The root of the tree.
        peers.start("p0", run=lies.sends_different_totals_in_the_set_up)
        peers.start(*honest)
        assert peers.wait(*honest) == dict.fromkeys(honest, 2)
        for name in honest:
            *_, last = peers.error(name).splitlines()
            assert last.startswith("The run was stopped: ")
            assert "a site sent them different numbers" in last
            assert "was lost" not in peers.log(name)
            assert "Traceback" not in peers.error(name)


def test_views_far_ahead_ban_nobody(tmp_path):
    run_beside(tmp_path, lies.states_views_far_ahead, code=1, rounds=300)


def test_a_peer_that_returns_after_views_far_ahead_bans_nobody_and_is_not_banned(tmp_path):
    with make_cluster(tmp_path, 6, GRAPH, join_timeout=6.0, rounds=800) as peers:
        start_paced(peers, *HONEST)
        peers.start("p5", run=lies.states_views_ahead_in_steps)
        peers.wait_for_round("p0", 100)
        peers.kill("p1")
        peers.start("p1")
        assert peers.wait(*HONEST) == dict.fromkeys(HONEST, 1)
        for name in HONEST:
            assert set(HONEST) <= set(peers.certificate(name)["heard"]), peers.log(name)
            assert not any(f"{other} is refused" in peers.log(name) for other in HONEST)
        assert "p1 and p0 exchange from round" in peers.log("p0")
        assert "p1 and p2 exchange from round" in peers.log("p2")


def test_a_peer_that_relays_what_nobody_signed_is_dropped(tmp_path):
    found = run_beside(tmp_path, lies.invents_processes)
    for name in ("p0", "p2", "p3"):
        assert "must be signed by its origin" in found[name][1]


def test_a_peer_that_rejoins_again_and_again_is_dropped_and_nobody_else(tmp_path):
    found = run_beside(tmp_path, lies.offers_ever_new_links)
    for name in ("p0", "p2", "p3"):
        assert "p5 is refused: it left and rejoined too often" in found[name][1]


@pytest.mark.parametrize(
    "liar", [lies.pretends_to_make_progress, lies.states_nothing], ids=lambda f: f.__name__
)
def test_nobody_waits_for_ever_for_a_liar_and_only_its_neighbors_drop_it(tmp_path, liar):
    found = run_beside(tmp_path, liar, timeout=1.0)
    for name, (certificate, log) in found.items():
        assert "p5" not in certificate["heard"]
        assert not any(f"{other} was lost" in log for other in HONEST), name


def test_the_record_of_an_earlier_run_is_not_taken_for_that_of_a_new_one(tmp_path):
    with make_cluster(tmp_path, 6, GRAPH, join_timeout=6.0, rounds=20, tol=1e-1) as peers:
        peers.start(*HONEST)
        peers.start("p5", run=lies.saves_its_reply)
        peers.wait()
        before = {peers.certificate(name)["record"] for name in HONEST}
        assert len(before) == 1
        peers.start(*HONEST, options=["--force"])
        peers.start("p5", options=["--force"], run=lies.serves_an_old_record)
        peers.wait(*HONEST)
        for name in HONEST:
            certificate = peers.certificate(name)
            assert not certificate["status"]["name"].startswith("joined late")
            assert certificate["record"] not in before


def test_a_copied_key_and_what_hello_says_do_not_take_the_place_of_a_running_process(tmp_path):
    with make_cluster(tmp_path, rho=400.0, join_timeout=3.0) as peers:
        start_paced(peers)
        peers.wait_for_round("p2", 50)
        first = peers.processes["p2"]
        elsewhere = ("--out", "again", "--listen", "127.0.0.1:19997")
        peers.start("p2", options=elsewhere, run=lies.says_a_process_back)
        assert peers.wait("p2", seconds=40)["p2"] == 2
        peers.processes["p2"] = first
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)
        # p1 dials p2 where the network file says; p2 dials p3.
        assert "p2 was not accepted: A proof must be signed by its origin" in peers.log("p3")
        for name in peers.names:
            assert peers.certificate(name)["events"] == []
