"""The status socket, whatever is at its path and whoever connects to it."""

import asyncio
import json
import os
import socket
from pathlib import Path

import pytest

import peerclust as pc
from joined_nodes import JoinedNodes
from peerclust.runtimes.network import status
from peerclust.runtimes.network.status import StatusSocket


@pytest.fixture
def session():
    net = JoinedNodes(pc.graphs.path(2))
    yield net.nodes[0].session
    net.close()


def ask_from(session, path):
    return session.loop.run_until_complete(asyncio.to_thread(status.ask, path))


def count_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def wait_until(session, holds):
    async def wait():
        async with asyncio.timeout(20):
            while not holds():
                await asyncio.sleep(0.01)

    session.loop.run_until_complete(wait())


@pytest.mark.parametrize("make", ["file", "link", "dangling link", "socket"])
def test_what_was_left_at_the_path_is_replaced_and_no_link_is_followed(session, tmp_path, make):
    path, other = tmp_path / "status.sock", tmp_path / "other"
    if make == "socket":
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
    elif make == "file":
        path.write_text("mine")
    else:
        path.symlink_to(other)
        if make == "link":
            other.write_text("mine")
    server = StatusSocket(session, path, lambda: 0.5)
    session.loop.run_until_complete(server.open())
    assert path.lstat().st_mode & 0o170777 == 0o140600
    assert other.exists() == (make == "link")
    assert ask_from(session, path)["residual"] == 0.5
    server.close()


def test_a_path_that_cannot_be_used_is_named_in_the_log_and_stops_nothing(session, tmp_path):
    path, lines, umask = tmp_path / "status.sock", [], os.umask(0o022)
    path.mkdir()
    session.log = lines.append
    server = StatusSocket(session, path, lambda: 0.5)
    session.loop.run_until_complete(server.open())
    (line,) = lines
    assert line == (
        f"{path} cannot be listened on: Is a directory. `peerclust peer status` gets no answer;"
        " the process continues."
    )
    assert (line.event, line.fields) == ("file-failed", {"file": str(path)})
    assert os.umask(umask) == 0o022
    server.close()


def test_clients_that_never_read_or_send_garbage_are_not_kept(session, tmp_path, monkeypatch):
    monkeypatch.setattr(status, "_SECONDS", 1.0)
    path, n = tmp_path / "status.sock", 20
    # More than the buffers of a socket take.
    session.events.extend((0, "x" * 1000) for _ in range(1000))
    server = StatusSocket(session, path, lambda: 0.5)
    session.loop.run_until_complete(server.open())
    clients = [socket.socket(socket.AF_UNIX) for _ in range(n)]
    before = count_files()
    for client in clients:
        client.connect(str(path))
        client.send(b"\x00" * 10_000)
    wait_until(session, lambda: count_files() == before + n)
    # It still answers others.
    monkeypatch.setattr(status, "_SECONDS", 5.0)
    assert len(ask_from(session, path)["events"]) == 1000
    wait_until(session, lambda: count_files() == before)
    for client in clients:
        client.close()
    server.close()


def test_the_answer_is_json_in_ascii(session, tmp_path):
    path = tmp_path / "status.sock"
    session.links["p1"].refusal = "\x1b[31m\u202e"
    server = StatusSocket(session, path, lambda: 0.5)
    session.loop.run_until_complete(server.open())
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(path))
        data = session.loop.run_until_complete(asyncio.to_thread(line.recv, 1 << 16))
    assert data.isascii()
    assert b"\x1b" not in data
    assert json.loads(data)["neighbors"]["p1"]["refused"] == "\x1b[31m\u202e"
    server.close()
