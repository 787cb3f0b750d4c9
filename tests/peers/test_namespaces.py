"""A cut link between real hosts: peers in network namespaces that the test makes itself."""

import ctypes
import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from peer_runs import check_ended, check_replay, make_cluster, start_paced
from peerclust.testing import preload

pytestmark = pytest.mark.peers

SPACE, NEAR, FAR = "pcl-test", "pcl-near", "pcl-far"
NEAR_HOST, FAR_HOST = "10.213.77.1", "10.213.77.2"


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def run_remotely(arguments, directory):
    """Run a peer in the namespace, as on a host of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(f"/var/run/netns/{SPACE}").open() as space:
        if libc.setns(space.fileno(), 0):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    preload.run_peer(arguments, directory)


@pytest.fixture
def cable():
    """A cable from this host to one in a namespace; yields a function that sets it up or down."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip(
            "network namespaces need the command ip and root; test_links cuts proxies instead"
        )
    with (Path(tempfile.gettempdir()) / f"{SPACE}.lock").open("w") as lock:
        # Tests run in parallel, and there is one namespace.
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield from lay_cable()


def lay_cable():
    try:
        if Path(f"/var/run/netns/{SPACE}").exists():
            # As we have the lock, it is left over from a test that was killed.
            ip("netns", "del", SPACE)
        ip("netns", "add", SPACE)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespace can be made here: {error.stderr.decode().strip()}")
    try:
        ip("link", "add", NEAR, "type", "veth", "peer", "name", FAR, "netns", SPACE)
        ip("addr", "add", f"{NEAR_HOST}/30", "dev", NEAR)
        ip("link", "set", NEAR, "up")
        ip("-n", SPACE, "addr", "add", f"{FAR_HOST}/30", "dev", FAR)
        ip("-n", SPACE, "link", "set", FAR, "up")
        ip("-n", SPACE, "link", "set", "lo", "up")
        yield lambda state: ip("link", "set", NEAR, state)
    finally:
        ip("netns", "del", SPACE)


def test_a_host_whose_cable_is_pulled_is_lost_and_taken_up_when_it_returns(tmp_path, cable):
    hosts = [NEAR_HOST, NEAR_HOST, FAR_HOST]
    with make_cluster(tmp_path, 3, hosts=hosts, rho=600.0) as peers:
        start_paced(peers, "p0", "p1")
        peers.start("p2", run=run_remotely)
        peers.wait_for_round("p0", 200)
        cable("down")
        at = peers.wait_for_round("p0", 300)
        assert "p2 was lost" in peers.log("p0")
        cable("up")
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)
        assert peers.certificate("p0")["rounds"] > at
        assert "p2 and p0 exchange from round" in peers.log("p0")


def test_hosts_on_both_ends_of_a_cut_cable_report_a_partition(tmp_path, cable):
    hosts = [NEAR_HOST, NEAR_HOST, FAR_HOST, FAR_HOST]
    with make_cluster(tmp_path, 4, hosts=hosts, join_timeout=5.0) as peers:
        peers.start("p0", "p1")
        peers.start("p2", "p3", run=run_remotely)
        peers.wait_for_round("p0", 200)
        cable("down")
        start = time.monotonic()
        assert set(peers.wait().values()) == {1}
        assert time.monotonic() - start < 60
        for name in peers.names:
            assert peers.certificate(name)["status"]["name"] == "partitioned"
        check_replay(peers, ["p0", "p1"])
