"""How connections are opened, or are not, within their time limit."""

import asyncio

import pytest

from network_fixture import Events, Listener, run_scene, trusting_context
from peerclust.runtimes.network import transport


@pytest.mark.parametrize("data", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["silent", "a start"])
def test_a_client_that_never_finishes_its_handshake_is_refused(contexts, data, monkeypatch):
    monkeypatch.setattr(transport, "HANDSHAKE_TIMEOUT", 0.2)

    async def scene():
        async with Listener(contexts[1]) as listener:
            await listener.connect_and_send(data)
            reason = await listener.events.next("closed")
            assert reason == "it did not finish its handshake in 0.2 s"
            await listener.events.settled()

    run_scene(scene)


def test_a_neighbor_that_speaks_tls_but_no_websocket_is_refused(sites, contexts, monkeypatch):
    monkeypatch.setattr(transport, "HANDSHAKE_TIMEOUT", 0.2)

    async def scene():
        for data in (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x00" * 50, b"x" * 100_000):
            async with Listener(contexts[1]) as listener:
                await listener.connect_and_send(data, tls=trusting_context(sites["a"]))
                assert await listener.events.next("closed")
                await listener.events.settled()

    run_scene(scene)


def test_an_open_connection_outlives_the_time_limit_of_handshakes(contexts, monkeypatch):
    monkeypatch.setattr(transport, "HANDSHAKE_TIMEOUT", 0.3)

    async def scene():
        async with Listener(contexts[1]) as listener:
            events, one, two = await listener.open_pair(contexts[0])
            late = asyncio.get_running_loop().time() + 0.4
            asyncio.get_running_loop().call_at(late, two.send, b"still here")
            assert await events.next("received") == b"still here"
            one.close()
            await events.next("closed")

    run_scene(scene)


def test_a_connection_that_was_aborted_before_it_was_made_is_closed_at_once(contexts):
    class Wire(asyncio.Transport):
        cut = False

        def abort(self):
            self.cut = True

        def close(self):
            self.cut = True

    async def scene():
        events, wire = Events(), Wire()
        connection = events.make(contexts[1])
        # As happens where too many are in their handshakes.
        connection.abort("too many others are connecting")
        connection.connection_made(wire)
        assert await events.next("closed") == "too many others are connecting"
        assert wire.cut
        connection.get_buffer(-1)[:1000] = bytes(1000)
        connection.buffer_updated(1000)
        assert connection._incoming.pending == 0

    run_scene(scene)


def test_frames_that_come_with_the_opening_are_read(contexts):
    client, server = contexts
    long = bytes(range(256)) * 500

    async def scene():
        async with Listener(server) as listener:
            events = Events()

            def make():
                made = events.make(client, f"wss://127.0.0.1:{listener.port}/")
                advance = made._advance
                # Reads only once the answer, and all that follows it, has come.
                made._advance = lambda: (
                    None if made._is_secured and not ready.is_set() else advance()
                )
                return made

            ready = asyncio.Event()
            await asyncio.get_running_loop().create_connection(make, "127.0.0.1", listener.port)
            there = await listener.events.next("opened")
            there.send(b"first")
            there.send(long)
            await asyncio.sleep(0.1)
            ready.set()
            events.connections[0]._advance()
            await events.next("opened")
            assert await events.next("received") == b"first"
            assert await events.next("received") == long

    run_scene(scene)


def test_what_comes_with_an_opening_that_is_refused_is_not_read(sites, contexts):
    refused = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"

    async def scene():
        # A text, a close frame, one that is not masked, and an opcode that does not exist.
        for frames in (b"\x81\x80abcd", b"\x88\x80abcd", b"\x82\x01a", b"\xff\xff"):
            async with Listener(contexts[1]) as listener:
                await listener.connect_and_send(refused + frames, tls=trusting_context(sites["a"]))
                assert "Connection" in await listener.events.next("closed")
                await listener.events.settled()

    run_scene(scene)


@pytest.mark.parametrize("dates", [0, 1, 2])
def test_an_opening_may_be_dated_or_not_and_even_twice(sites, contexts, dates):
    asked = (
        b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        + b"Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n" * dates
        + b"\r\n"
    )

    async def scene():
        async with Listener(contexts[1]) as listener:
            visit = asyncio.create_task(
                listener.connect_and_send(asked, tls=trusting_context(sites["a"]))
            )
            opened = await listener.events.next("opened")
            assert opened.date == ("Thu, 01 Jan 2026 00:00:00 GMT" if dates else "")
            opened.abort("enough")
            await visit

    run_scene(scene)
