"""How strangers are held, evicted and refused before they have proved anything."""

import asyncio
import errno
import socket
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest

from network_fixture import Events, der, run_scene
from peerclust.errors import WireError
from peerclust.runtimes.network import listener, transport
from peerclust.runtimes.network.identity import server_name
from peerclust.runtimes.network.listener import Listener, Pool, has_client_hello
from peerclust.runtimes.network.refusal_log import RefusalLog
from strangers import client_hello

HELLO = client_hello()


class Door:
    """A listener on loopback; `refused` has the reasons of those that were turned away."""

    def __init__(self, context, name="our name"):
        self.events, self.refused = Events(), []
        self.listener = Listener(self.make, lambda _, reason: self.refused.append(reason), name)
        self.context = context

    def make(self, first):
        made = self.events.make(self.context)
        made._incoming.write(first)
        return made

    async def __aenter__(self):
        await self.listener.open("127.0.0.1", 0)
        self.port = self.listener._sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.listener.close()
        await self.events.end()

    async def connect(self, data=b"", host="127.0.0.1"):
        loop = asyncio.get_running_loop()
        line = socket.socket()
        line.setblocking(False)
        line.bind((host, 0))
        await loop.sock_connect(line, ("127.0.0.1", self.port))
        await loop.sock_sendall(line, data)
        return line


async def until(condition):
    while not condition():
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("end", range(len(HELLO)))
def test_a_client_hello_is_complete_only_with_its_last_byte(end):
    assert not has_client_hello(HELLO[:end])


def test_what_follows_a_client_hello_does_not_matter():
    assert has_client_hello(HELLO + b"more")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1", "plain HTTP"),
        (b"G", "did not speak TLS"),
        (b"\x16\x04", "did not speak TLS"),
        (b"SSH-2.0", "did not speak TLS"),
        (b"\x16\x03\x01\x40\x00\x01\xff\xff\xff", "at most 4096 bytes"),
        (b"\x16\x03\x01\x10\x00\x01\x00\x0f\xfc", "at most 4096 bytes"),
        (b"\x16\x03\x01\x00\x05\x02\x00\x00\x01", "must be a ClientHello"),
        (b"\x16\x03\x01\x00\x00\x01\x00\x00\x01", "must be a ClientHello"),
    ],
)
def test_what_is_no_client_hello_is_refused_as_soon_as_that_is_known(data, reason):
    with pytest.raises(WireError, match=reason):
        has_client_hello(data)


def test_random_bytes_are_a_client_hello_or_not_but_no_crash():
    rng = np.random.default_rng(0)
    for _ in range(5000):
        data = bytearray(HELLO[: rng.integers(len(HELLO) + 1)])
        for at in rng.integers(len(data), size=3) if data else ():
            data[at] = rng.integers(256)
        with suppress(WireError):
            assert has_client_hello(data) in (True, False)


def test_a_pool_evicts_the_oldest_of_the_largest_source_and_spares_who_knows_the_network():
    pool = Pool(limit=4)
    flood, neighbor = (False, "flood"), (False, "neighbor")
    assert pool.add("n", neighbor) is None
    evicted = [pool.add(i, flood) for i in range(10)]
    assert evicted == [None, None, None, 0, 1, 2, 3, 4, 5, 6]
    assert [pool.add(name, (True, "flood")) for name in "abcd"] == [7, 8, "n", 9]
    assert pool.add("n", neighbor) == "n"
    assert pool.add("e", (True, "other")) == "a"
    assert [pool.take() for _ in range(5)] == ["e", "d", "c", "b", None]
    assert pool.evict() is None


def test_a_pool_takes_from_the_smallest_source_the_newest_first():
    pool = Pool(limit=10)
    for item, host in ((1, "a"), (2, "a"), (3, "b"), (4, "c"), (5, "c")):
        pool.add(item, (False, host))
    assert [pool.take() for _ in range(6)] == [3, 2, 1, 5, 4, None]


def test_busy_connections_are_evicted_last():
    pool = Pool(limit=2, busy=lambda item: item < 3)
    assert [pool.add(i, (False, "")) for i in (1, 2, 3, 4)] == [None, None, 3, 4]
    pool._busy = lambda _: True
    assert pool.add(5, (False, "")) == 1


def test_silent_strangers_are_bounded_and_a_neighbor_comes_through(sites, contexts, monkeypatch):
    monkeypatch.setattr(listener, "_MAX_STRANGERS", 5)

    async def scene():
        async with Door(contexts[1]) as door:
            lines = [await door.connect(HELLO[: i % 50]) for i in range(20)]
            await until(lambda: len(door.refused) == 15)
            assert set(door.refused) == {"too many others are connecting"}
            assert len(list(door.listener._silent)) == 5
            assert not door.events.connections
            events = Events()
            uri = f"wss://127.0.0.1:{door.port}/"
            await asyncio.get_running_loop().create_connection(
                lambda: events.make(contexts[0], uri), "127.0.0.1", door.port
            )
            await events.next("opened")
            for line in lines:
                line.close()

    run_scene(scene)


def test_a_handshake_from_another_address_outlives_a_flood(contexts, monkeypatch):
    monkeypatch.setattr(listener, "_MAX_STRANGERS", 5)

    async def scene():
        async with Door(contexts[1]) as door:
            first = await door.connect(HELLO, host="127.0.0.9")
            await until(lambda: len(list(door.listener._unproved)) == 1)
            lines = [await door.connect(HELLO) for _ in range(30)]
            await until(lambda: len(door.refused) + len(door.events.connections) == 31)
            assert door.events.connections[0] in door.listener._unproved
            assert len(list(door.listener._unproved)) == 5
            for line in (first, *lines):
                line.close()

    run_scene(scene)


def test_who_calls_this_peer_by_its_server_name_is_served_first(sites, contexts, monkeypatch):
    monkeypatch.setattr(listener, "_MAX_STRANGERS", 1)
    name = server_name(b"digest", der(sites["b"]))

    async def scene():
        async with Door(contexts[1], name) as door:
            door.listener._starting.cancel()
            lines = [await door.connect(HELLO) for _ in range(3)]
            await until(lambda: len(door.refused) == 2)
            events = Events()
            uri = f"wss://127.0.0.1:{door.port}/"

            def make():
                return transport.Connection(
                    contexts[0], uri=uri, limit=100, server_name=name, opened=print,
                    received=print, closed=lambda _, reason: events.said.put_nowait(reason),
                )  # fmt: skip

            await asyncio.get_running_loop().create_connection(make, "127.0.0.1", door.port)
            await until(lambda: len(door.refused) == 3)
            (waiting,) = door.listener._waiting
            assert waiting.source == (True, "127.0.0.1")
            for line in lines:
                line.close()

    run_scene(scene)


def test_a_stranger_that_is_silent_or_closes_is_dropped(contexts, monkeypatch):
    monkeypatch.setattr(listener, "HANDSHAKE_TIMEOUT", 0.1)

    async def scene():
        async with Door(contexts[1]) as door:
            line = await door.connect()
            await until(lambda: door.refused)
            (await door.connect(b"\x16")).close()
            await until(lambda: len(door.refused) == 2)
            assert door.refused == [
                "it did not send a ClientHello in 0.1 s", "it closed the connection",
            ]  # fmt: skip
            line.close()

    run_scene(scene)


def test_no_file_descriptor_for_a_connection_evicts_a_silent_one_or_waits(contexts, monkeypatch):
    monkeypatch.setattr(listener, "_PAUSE", 0.05)
    tries = []

    def accept():
        tries.append(1)
        raise OSError(errno.EMFILE, "no")

    async def scene():
        async with Door(contexts[1]) as door:
            silent = await door.connect()
            await until(lambda: list(door.listener._silent))
            (real,) = door.listener._sockets
            full = SimpleNamespace(accept=accept, fileno=real.fileno)
            door.listener._accept(full)
            assert door.refused == [
                "too many others are connecting", "it cannot be accepted (Too many open files)",
            ]  # fmt: skip
            assert len(tries) == 2
            late = await door.connect()
            # It is accepted after the pause, by the usual way again.
            real_resume = door.listener._resume
            await until(lambda: len(tries) >= 3)
            real_resume(real)
            await until(lambda: list(door.listener._silent))
            assert len(tries) < 10
            silent.close()
            late.close()

    run_scene(scene)


def test_a_host_that_has_no_address_here_is_an_error():
    async def scene():
        made = Listener(lambda _: None, lambda *_: None, "name")
        with pytest.raises(OSError, match="address"):
            await made.open("192.0.2.1", 1)

    run_scene(scene)


def test_a_flood_of_strangers_is_one_line_per_reason_and_minute():
    now, lines = [0.0], []
    log = RefusalLog(lines.append, clock=lambda: now[0])
    for i in range(100_000):
        now[0] = i / 1000
        log.note_stranger(f"10.0.0.{i % 200}", "it was silent" if i % 4 else "it spoke plain HTTP")
    log.close()
    assert lines == [
        "10.0.0.0 was refused: it spoke plain HTTP.",
        "10.0.0.1 was refused: it was silent.",
        "10.0.0.0 and 14,999 more connections were refused: it spoke plain HTTP.",
        "10.0.0.1 and 44,999 more connections were refused: it was silent.",
        "9,999 more connections of strangers were refused: it spoke plain HTTP.",
        "29,999 more connections of strangers were refused: it was silent.",
    ]


def test_ever_new_reasons_of_strangers_or_of_a_neighbor_fill_neither_log_nor_memory():
    lines = []
    log = RefusalLog(lines.append, clock=lambda: 0.0)
    for i in range(10_000):
        log.note_stranger("10.0.0.1", f"reason {i}")
        log.note_neighbor("p1", f"calls itself {i}")
        log.note_neighbor("p2", "calls itself p1")
    log.close()
    assert len(lines) < 210
    assert lines.count("p2 calls itself p1.") == 1
    assert lines[-1] == "9,899 more connections of strangers were refused: for yet another reason."
