"""Sites that have ended serve the result to those that have missed the end: real processes."""

import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import lying_peers as lies
import peerclust as pc
from joined_nodes import JoinedNodes
from peer_runs import make_cluster, make_empty_record, start_paced, wait_for_log
from peerclust.errors import DataError
from peerclust.peers import serve
from peerclust.peers.serve import read_record
from peerclust.runtimes.network import contract_file, wire
from peerclust.runtimes.network.messages import LinkUp, SignedRecord, pack, unpack, unpack_centers
from peerclust.runtimes.network.record import digest
from peerclust.runtimes.network.states import RunState
from peerclust.runtimes.network.wire import Kind
from peerclust.testing import preload

# A peer ends within 2 s; this machine may have other work.
SECONDS = 4.0


def load(path):
    return unpack(path.read_bytes(), SignedRecord)


def wait_until_serving(peers, *names):
    for name in names:
        wait_for_log(peers, name, f"{name} serves the result of the run")


def check_fetched(peers, name, like):
    """Check that a peer has the result that another one has, in every bit."""
    record = peers.certificate(name)
    assert record["status"]["name"] == "joined late", record["status"]
    theirs = peers.certificate(like)
    for field in ("run", "record", "contributed", "pooled_cost", "heard", "agreed"):
        assert record[field] == theirs[field], field
    mine = load(peers.out(name) / "record").record
    assert pack(mine) == pack(load(peers.out(like) / "record").record)
    assert digest(mine).hex() == record["record"]
    solution = pc.Solution.load(peers.out(name) / "solution.npz")
    served = unpack_centers(mine.centers, peers.contract.n_clusters)
    scale = solution.scale
    assert np.array_equal(solution.centers[0], served if scale is None else scale.back(served))
    assert (peers.out(name) / "record").stat().st_mode & 0o777 == 0o600
    assert f"sent the result of the run {record['run'][:8]} of 20" in peers.log(name)


@pytest.mark.peers
def test_sites_that_missed_the_end_fetch_the_result_at_once_from_those_that_serve(tmp_path):
    # Nobody waits for the join timeout.
    with make_cluster(tmp_path, rho=300.0, join_timeout=300.0) as peers:
        start_paced(peers)
        peers.wait_for_round("p3", 50)
        peers.kill("p3")
        others = ["p0", "p1", "p2", "p4"]
        assert peers.wait(*others) == dict.fromkeys(others, 0)
        peers.serve("p2", "p4")
        wait_until_serving(peers, "p2", "p4")
        # Its earlier process took part.
        peers.start("p3")
        assert peers.wait("p3", seconds=60) == {"p3": 0}
        check_fetched(peers, "p3", like="p4")
        # The earlier process of this one signed; of its neighbors only p4 serves.
        shutil.rmtree(peers.out("p0"))
        peers.start("p0")
        assert peers.wait("p0", seconds=60) == {"p0": 0}
        check_fetched(peers, "p0", like="p2")
        for file in ("record", "centers.csv"):
            assert (peers.out("p0") / file).read_bytes() == (peers.out("p3") / file).read_bytes()
        # One that has fetched a result serves it, too.
        peers.signal("p4", signal.SIGTERM)
        assert peers.wait("p4", seconds=SECONDS) == {"p4": 0}
        shutil.rmtree(peers.out("p4"))
        peers.signal("p2", signal.SIGINT)
        assert peers.wait("p2", seconds=SECONDS) == {"p2": 0}
        peers.serve("p3")
        wait_until_serving(peers, "p3")
        peers.start("p4")
        assert peers.wait("p4", seconds=60) == {"p4": 0}
        check_fetched(peers, "p4", like="p1")


@pytest.fixture
def ended(tmp_path):
    """Two peers whose run is over, with a short timeout."""
    with make_cluster(tmp_path, 2, pc.graphs.path(2), rho=2.0, join_timeout=10.0) as peers:
        peers.start()
        assert peers.wait() == {"p0": 0, "p1": 0}
        yield peers


@pytest.mark.peers
def test_a_site_takes_what_its_earlier_process_signed_but_not_what_it_has_discarded(ended):
    peers = ended
    peers.serve("p1")
    wait_until_serving(peers, "p1")
    peers.start("p0", options=["--force"])
    assert peers.wait("p0", seconds=60) == {"p0": 2}
    *_, last = peers.error("p0").splitlines()
    run = peers.certificate("p1")["run"][:8]
    assert last.startswith(f"p0 could reach none of its neighbors: p1: its run {run} of 20")
    assert "is over, and was discarded here by --force" in last
    assert "The result of p1 is not taken" in peers.log("p0")
    # Nor has the new process displaced the one that serves.
    shutil.rmtree(peers.out("p0"))
    peers.start("p0")
    assert peers.wait("p0", seconds=60) == {"p0": 0}
    check_fetched(peers, "p0", like="p1")


@pytest.mark.peers
def test_a_directory_that_is_served_is_in_use_and_has_a_status(ended):
    peers = ended
    before = {each.name: each.read_bytes() for each in peers.out("p1").iterdir()}
    peers.serve("p1")
    wait_until_serving(peers, "p1")
    first = peers.processes["p1"]
    status, rounds = peers.status("p1"), peers.certificate("p1")["rounds"]
    assert (status["phase"], status["round"]) == ("serving", rounds)
    assert status["run"] == peers.certificate("p1")["run"]
    assert not status["neighbors"]["p0"]["connected"]
    shown = subprocess.run(
        [sys.executable, "-m", "peerclust", "peer", "status", peers.out("p1")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert f"p1 serves the result of round {rounds}, run {status['run'][:8]}" in shown.stdout
    assert "not connected" in shown.stdout
    for again in (peers.serve, lambda name: peers.start(name, options=["--force"])):
        again("p1")
        assert peers.wait("p1", seconds=60) == {"p1": 2}
        *_, last = peers.error("p1").splitlines()
        assert last.startswith("A peer is already running in out-p1;")
    peers.processes["p1"] = first
    peers.signal("p1", signal.SIGTERM)
    assert peers.wait("p1", seconds=SECONDS) == {"p1": 0}
    after = {each.name: each.read_bytes() for each in peers.out("p1").iterdir()}
    assert after.pop("log.txt").startswith(before.pop("log.txt"))
    assert after == before
    assert peers.log("p1").splitlines()[-1].endswith("Z p1 was asked to end.")


@pytest.mark.peers
def test_a_peer_that_starts_to_serve_ends_on_request_at_any_moment(ended):
    command = [sys.executable, "-m", "peerclust", "peer", "serve", "--network", "network.toml"]
    command += ["--me", "p1", "--out", "out-p1"]
    for n, number in enumerate((signal.SIGTERM, signal.SIGINT) * 3):
        process = subprocess.Popen(
            command, cwd=ended.directory, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        time.sleep(0.3 + 0.5 * n)
        process.send_signal(number)
        begun = time.monotonic()
        _, said = process.communicate(timeout=20)
        assert time.monotonic() - begun < SECONDS
        # Before the first line of its code, Python ends as any process does.
        assert process.returncode in (0, 130, -number), said
        assert "Traceback" not in said or process.returncode == -number


def serves_whatever_it_has(arguments, directory):
    """Serves a record without a look at its signatures."""
    serve.is_majority = lambda *_: True
    preload.run_peer(arguments, directory)


@pytest.mark.peers
def test_a_record_with_too_few_signatures_is_neither_served_nor_believed(ended):
    peers = ended
    path = peers.out("p1") / "record"
    signed = load(path)
    path.write_bytes(pack(SignedRecord(signed.record, signed.signatures[1:])))
    (signer,) = (peers.names[each.origin.peer] for each in signed.signatures[1:])
    (missing,) = {*peers.names} - {signer}
    peers.serve("p1")
    assert peers.wait("p1", seconds=60) == {"p1": 2}
    *_, last = peers.error("p1").splitlines()
    assert last == (
        "The record out-p1/record must be signed by more than half of 2 peers. Got the signatures"
        f" of 1, not of {missing}. It is not a joint result; run again."
        " (docs/exit-codes.md#an-error)"
    )
    peers.serve("p1", run=serves_whatever_it_has)
    wait_until_serving(peers, "p1")
    shutil.rmtree(peers.out("p0"))
    peers.start("p0")
    assert peers.wait("p0", seconds=60) == {"p0": 2}
    *_, last = peers.error("p0").splitlines()
    assert f"signed by more than half of 2 peers, and is signed by 1, not by {missing}" in last
    assert not peers.ended("p0")


@pytest.mark.peers
def test_a_forged_record_is_not_believed_and_does_not_hide_the_true_one(tmp_path):
    with make_cluster(tmp_path, rho=2.0, join_timeout=6.0) as peers:
        others = ["p0", "p1", "p2", "p4"]
        peers.start(*others)
        assert peers.wait(*others) == dict.fromkeys(others, 0)
        peers.start("p2", options=["--force"], run=lies.signs_the_forged_end_many_times)
        peers.start("p3")
        assert peers.wait("p3", seconds=60) == {"p3": 2}
        *_, last = peers.error("p3").splitlines()
        assert "half of 5 peers, and is signed by 1, not by p0, p1, p3, p4" in last
        peers.wait("p2", seconds=60)
        peers.start("p2", options=["--force"], run=lies.signs_the_forged_end_many_times)
        peers.serve("p4")
        peers.start("p3")
        assert peers.wait("p3", seconds=60) == {"p3": 0}
        check_fetched(peers, "p3", like="p4")


@pytest.mark.peers
def test_a_run_with_another_network_file_is_told_how_it_differs(tmp_path):
    with make_cluster(tmp_path, 3, pc.graphs.ring(3), rho=2.0, join_timeout=20.0) as peers:
        peers.start()
        assert set(peers.wait().values()) == {0}
        peers.serve("p1")
        wait_until_serving(peers, "p1")
        contract_file.write(tmp_path / "other.toml", replace(peers.contract, n_clusters=2))
        peers.start("p0", "p2", options=["--force", "--network", "other.toml"])
        assert peers.wait("p0", "p2") == {"p0": 0, "p2": 0}
        for name in ("p0", "p2"):
            status = peers.certificate(name)["status"]
            assert status["name"] == "converged without some peers"
            assert "p1 does not take part: it" in peers.log(name)
            assert "network file differs" in peers.log(name)
            said = f"its network file differs: {name} has n_clusters = 2, here it is 3."
            assert f"{name} was not accepted: {said}" in peers.log("p1")
        assert peers.status("p1")["phase"] == "serving"


@pytest.mark.peers
def test_a_record_file_that_is_damaged_or_of_another_network_is_a_data_error(ended, tmp_path):
    peers, path = ended, ended.out("p1") / "record"
    good = path.read_bytes()
    assert len(read_record(path, peers.contract).signatures) == 2
    rng = np.random.default_rng(0)
    for place in rng.choice(len(good), 300, replace=False):
        for bad in (good[:place], good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :]):
            path.write_bytes(bad)
            with pytest.raises(DataError, match=rf"^The record {path} must "):
                read_record(path, peers.contract)
    path.write_bytes(good)
    other = replace(peers.contract, seed=99)
    with pytest.raises(DataError, match="must be that of a run with this network file"):
        read_record(path, other)
    path.write_bytes(good[:-3])
    peers.serve("p1")
    assert peers.wait("p1", seconds=60) == {"p1": 2}
    *_, last = peers.error("p1").splitlines()
    assert last.startswith("The record out-p1/record must be whole, and of this version")
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_bytes(good)
    peers.serve("p1")
    assert peers.wait("p1", seconds=60) == {"p1": 2}
    *_, last = peers.error("p1").splitlines()
    assert "it must be a regular file of this user, and no link" in last
    path.unlink()
    peers.serve("p1")
    assert peers.wait("p1", seconds=60) == {"p1": 2}
    *_, last = peers.error("p1").splitlines()
    assert last.startswith("`--out` of peer serve must be the directory of a peer run that has")


def test_a_process_that_serves_states_nothing_and_heeds_only_requests():
    net = JoinedNodes(pc.graphs.path(2), timeout=0.2)
    node, other = net.nodes
    # One that took part before is in a run of its own.
    net.settle()
    known = dict(node.flooding.gossip.processes)
    node.session.state = other.session.state = RunState.MEETING
    node.serve(SignedRecord(make_empty_record(net.agreed), []))
    for line in net.sent.values():
        line.clear()
    other.flooding.publish("view", b"not a view")
    other.attempts.state_losses()
    net.settle()
    assert not node.session.links["p1"].banned
    assert node.flooding.gossip.processes == known
    other.membership.request_state(other.session.links["p0"])
    net.settle()
    assert [frame.kind for frame in net.sent[0, 1]] == [Kind.STATE_REPLY]
    net.close()


def test_a_process_that_serves_bans_nobody_for_an_invalid_message():
    net = JoinedNodes(pc.graphs.path(2), timeout=0.2)
    node, lines = net.nodes[0], []
    node._connections.refusals._log = lines.append
    net.settle()
    node.session.state = RunState.MEETING
    node.serve(SignedRecord(make_empty_record(net.agreed), []))
    link = node.session.links["p1"]
    line, request = link.connection, net.nodes[1].session.make_frame(Kind.STATE_REQUEST, LinkUp(3))
    for _ in range(3):
        line.is_open = True
        node.on_frame(link, wire.decode(request, limit=1000))
        assert not line.is_open
        assert not link.banned
    assert line.frames[-1].kind is Kind.BYE
    (said,) = lines
    assert said.startswith("p1 was refused: A message of kind StateRequest cannot be read: ")
    assert not said.endswith("..")
    net.close()
