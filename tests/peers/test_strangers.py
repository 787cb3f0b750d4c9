"""Runs of real processes that strangers flood with connections."""

import asyncio
import os
import resource
import socket
import time
from pathlib import Path

import pytest

import peerclust as pc
from network_fixture import trusting_context
from peer_runs import make_cluster, wait_for_log
from peerclust import kernels
from peerclust.errors import PeerError
from peerclust.runtimes.network.identity import load_identity, make_identity
from peerclust.runtimes.network.probe import Probe
from peerclust.testing import preload
from strangers import KINDS, flooding

pytestmark = pytest.mark.peers

# Seconds by which a flood may delay a join.
DELAY = 2.0


def run_with_few_descriptors(arguments, directory):
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    preload.run_peer(arguments, directory)


def run_without_numba(arguments, directory):
    """Run a peer that does not import numba, which takes memory, while strangers come."""
    with kernels.use_mode("never"):
        preload.run_peer(arguments, directory)


def start_middle(peers, run=None):
    """Start p1, which both others dial or are dialed by; return its port once it listens."""
    peers.start("p1", run=run)
    limit = time.monotonic() + 60
    while True:
        try:
            peers.status("p1")
            return peers.contract.peers[1].endpoint[1]
        except PeerError:
            assert time.monotonic() < limit
            time.sleep(0.05)


def seconds_to_answer(peers):
    """Return the time until p1 has answered the HELLO of p0."""
    identity = load_identity("p0", peers.directory / "p0.key", peers.directory / "p0.crt")
    probe = Probe(peers.contract, "p0", identity)
    begin = time.monotonic()
    asyncio.run(probe.run(20, lambda _: None))
    assert probe.results["p1"].answered, probe.results["p1"].reason
    return time.monotonic() - begin


def resident_bytes(pid):
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("kind", KINDS)
def test_strangers_in_thousands_do_not_delay_a_neighbor_fill_memory_or_the_log(tmp_path, kind):
    with make_cluster(tmp_path, 3, pc.graphs.path(3), join_timeout=120.0) as peers:
        make_identity("stranger", tmp_path)
        port, pid = start_middle(peers, run_without_numba), peers.processes["p1"].pid
        before = resident_bytes(pid)
        with flooding(tmp_path, port, kind):
            for _ in range(8):
                assert seconds_to_answer(peers) < DELAY
                assert len(list(Path(f"/proc/{pid}/fd").iterdir())) < 600
            assert resident_bytes(pid) - before < 50e6
        lines = peers.log("p1").splitlines()
        assert len(lines) < 20, lines
        assert any("127.0.0.1 was refused" in line or "p2 was not" in line for line in lines)


@pytest.mark.parametrize("kind", ["silent", "a ClientHello"])
def test_a_flood_does_not_use_up_file_descriptors(tmp_path, kind):
    with make_cluster(tmp_path, 3, pc.graphs.path(3), join_timeout=120.0) as peers:
        port = start_middle(peers, run_with_few_descriptors)
        with flooding(tmp_path, port, kind):
            for _ in range(4):
                assert seconds_to_answer(peers) < DELAY
        assert "Too many open files" not in peers.error("p1")


def test_peers_join_and_end_during_a_flood(tmp_path):
    with make_cluster(tmp_path, 3, pc.graphs.path(3), join_timeout=120.0) as peers:
        port = start_middle(peers)
        with flooding(tmp_path, port, "silent"):
            peers.start("p0", "p2")
            assert set(peers.wait(seconds=120).values()) == {0}
        wait_for_log(peers, "p1", "more connections of strangers were refused: too many others")


def test_control_characters_in_a_header_reach_neither_log_nor_terminal(tmp_path):
    with make_cluster(tmp_path, 3, pc.graphs.path(3), join_timeout=120.0) as peers:
        port = start_middle(peers)
        identity = load_identity("p2", tmp_path / "p2.key", tmp_path / "p2.crt")
        for bad in ("\x9b31mred", "\x1b[31mred", "\u202ered", "\xff"):
            made = socket.create_connection(("127.0.0.1", port), timeout=20)
            with trusting_context(identity).wrap_socket(made) as line:
                line.sendall(
                    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: "
                    + bad.encode("latin-1" if bad == "\xff" else "utf-8")
                    + b"\r\n\r\n"
                )
                while line.recv(4096):
                    pass
        wait_for_log(peers, "p1", "header: ÿ")
        for text in (
            (peers.out("p1") / "log.txt").read_bytes(),
            (tmp_path / "p1.err").read_bytes(),
        ):
            assert b"Traceback" not in text
            assert all(c.isprintable() or c == "\n" for c in text.decode()), text
