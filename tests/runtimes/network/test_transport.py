import asyncio
import ssl
from contextlib import suppress
from types import SimpleNamespace

import pytest
from websockets.frames import Frame, Opcode

from network_fixture import Ear, Stage, believing, der, play
from peerclust.runtimes.network import transport


def test_messages_go_both_ways_in_order_and_each_end_knows_the_other(sites, contexts):
    client, server = contexts

    async def scene():
        async with Stage(server) as stage:
            ear, one, two = await stage.open_pair(client)
            assert one.is_open
            assert (one.certificate, two.certificate) == (der(sites["b"]), der(sites["a"]))
            assert one.host == "127.0.0.1"
            said = [b"", b"hello", bytes(range(256)) * 300]
            for message in said:
                one.send(message)
                two.send(message[::-1])
            assert [await stage.ear.next("received") for _ in said] == said
            assert [await ear.next("received") for _ in said] == [each[::-1] for each in said]
            assert one.sent == one.heard == two.sent == two.heard == sum(map(len, said))
            one.close("it is late")
            assert await ear.next("closed") == "it is late"
            assert await stage.ear.next("closed")
            assert not one.is_open
            assert one.gone.is_set()
            one.send(b"too late")
            one.close("again")
            two.abort("again")
            await ear.settled()
            await stage.ear.settled()

    play(scene)


def test_a_message_as_long_as_the_limit_goes_through_and_a_longer_one_closes(contexts):
    client, server = contexts

    async def scene():
        async with Stage(server, limit=1_500_000) as stage:
            ear, one, two = await stage.open_pair(client)
            long = b"0123456789abcdef" * (1_500_000 // 16)
            one.send(long)
            assert await stage.ear.next("received") == long
            two.send(long)
            assert await ear.next("received") == long
            one.send(long + b"!")
            assert "1500001" in (await stage.ear.next("closed")).replace(",", "")
            assert await ear.next("closed")
            await stage.ear.settled()

    play(scene)


@pytest.mark.parametrize(
    "frames",
    [
        [Frame(Opcode.TEXT, b"text")],
        [Frame(Opcode.BINARY, b"one", fin=False), Frame(Opcode.CONT, b"half")],
    ],
    ids=["text", "fragments"],
)
def test_a_message_that_is_not_one_binary_frame_is_refused(contexts, frames):
    client, server = contexts

    async def scene():
        async with Stage(server) as stage:
            ear, one, _ = await stage.open_pair(client)
            for frame in frames:
                one._tls.write(frame.serialize(mask=True))
            one._flush()
            assert await stage.ear.next("closed") == "a message must be one binary frame"
            assert await ear.next("closed")
            await stage.ear.settled()
            await ear.settled()

    play(scene)


def test_a_reason_is_told_to_the_other_side(contexts):
    client, server = contexts

    async def scene():
        async with Stage(server) as stage:
            _, one, _ = await stage.open_pair(client)
            one.close("it is late")
            assert await stage.ear.next("closed") == "it is late"

    play(scene)


def test_a_reason_longer_than_a_close_frame_is_no_error(contexts):
    client, server = contexts

    async def scene():
        async with Stage(server) as stage:
            ear, one, _ = await stage.open_pair(client)
            one.close("é" * 500, refused=True)
            assert await ear.next("closed") == "é" * 500
            assert await stage.ear.next("closed")

    play(scene)


def test_an_end_that_is_cut_off_is_told_to_the_other(contexts):
    client, server = contexts

    async def scene():
        async with Stage(server) as stage:
            ear, one, _ = await stage.open_pair(client)
            one.abort("the line broke")
            assert await ear.next("closed") == "the line broke"
            assert await stage.ear.next("closed")
            await stage.ear.settled()

    play(scene)


@pytest.mark.parametrize("data", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["silent", "a start"])
def test_who_never_finishes_its_handshake_is_turned_away(contexts, data, monkeypatch):
    monkeypatch.setattr(transport, "HANDSHAKE_TIMEOUT", 0.2)

    async def scene():
        async with Stage(contexts[1]) as stage:
            await stage.visit(data)
            reason = await stage.ear.next("closed")
            assert reason == "it did not finish its handshake in 0.2 s"
            await stage.ear.settled()

    play(scene)


def test_a_neighbor_that_speaks_tls_but_no_websocket_is_turned_away(sites, contexts, monkeypatch):
    monkeypatch.setattr(transport, "HANDSHAKE_TIMEOUT", 0.2)

    async def scene():
        for data in (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x00" * 50, b"x" * 100_000):
            async with Stage(contexts[1]) as stage:
                await stage.visit(data, tls=believing(sites["a"]))
                assert await stage.ear.next("closed")
                await stage.ear.settled()

    play(scene)


def test_an_open_connection_is_not_turned_away_when_the_time_for_handshakes_is_over(
    contexts, monkeypatch
):
    monkeypatch.setattr(transport, "HANDSHAKE_TIMEOUT", 0.3)

    async def scene():
        async with Stage(contexts[1]) as stage:
            ear, one, two = await stage.open_pair(contexts[0])
            late = asyncio.get_running_loop().time() + 0.4
            asyncio.get_running_loop().call_at(late, two.send, b"still here")
            assert await ear.next("received") == b"still here"
            one.close()
            await ear.next("closed")

    play(scene)


def test_a_connection_that_was_turned_away_before_it_was_made_is_cut_at_once(contexts):
    class Wire(asyncio.Transport):
        cut = False

        def abort(self):
            self.cut = True

        def close(self):
            self.cut = True

    async def scene():
        ear, wire = Ear(), Wire()
        connection = ear.make(contexts[1])
        # As the switchboard does where too many are in their handshakes.
        connection.abort("too many others are connecting")
        connection.connection_made(wire)
        assert await ear.next("closed") == "too many others are connecting"
        assert wire.cut
        connection.get_buffer(-1)[:1000] = bytes(1000)
        connection.buffer_updated(1000)
        assert connection._incoming.pending == 0

    play(scene)


def test_a_ping_is_answered_and_a_close_frame_s_reason_is_tamed(contexts):
    client, server = contexts

    async def scene():
        async with Stage(server) as stage:
            ear, one, two = await stage.open_pair(client)
            said = []
            one._reader = SimpleNamespace(
                room=one._reader.room, took=lambda n, took=one._reader.took: keep(said, took(n))
            )
            one._tls.write(Frame(Opcode.PING, b"are you there?").serialize(mask=True))
            one._flush()
            one.send(b"then")
            assert await stage.ear.next("received") == b"then"
            two.send(b"now")
            assert await ear.next("received") == b"now"
            assert said[0] == (Opcode.PONG, b"are you there?")
            one._tls.write(Frame(Opcode.CLOSE, b"\x03\xe8bad\n\x1b[31m").serialize(mask=True))
            one._flush()
            assert await stage.ear.next("closed") == "bad??[31m"

    play(scene)


def keep(said, frames):
    for opcode, data in frames:
        said.append((opcode, bytes(data)))
        yield opcode, data


def test_frames_that_come_with_the_opening_are_read(contexts):
    client, server = contexts
    long = bytes(range(256)) * 500

    async def scene():
        async with Stage(server) as stage:
            ear = Ear()

            def make():
                made = ear.make(client, f"wss://127.0.0.1:{stage.port}/")
                advance = made._advance
                # Reads only once the answer, and all that follows it, has come.
                made._advance = lambda: None if made._secured and not ready.is_set() else advance()
                return made

            ready = asyncio.Event()
            await asyncio.get_running_loop().create_connection(make, "127.0.0.1", stage.port)
            there = await stage.ear.next("opened")
            there.send(b"first")
            there.send(long)
            await asyncio.sleep(0.1)
            ready.set()
            ear.connections[0]._advance()
            await ear.next("opened")
            assert await ear.next("received") == b"first"
            assert await ear.next("received") == long

    play(scene)


def test_who_closes_in_the_middle_of_what_has_come_hears_no_more(contexts):
    client, server = contexts

    async def scene():
        async with Stage(server) as stage:
            _, one, two = await stage.open_pair(client)
            heard = []

            def received(connection, data):
                heard.append(bytes(data))
                connection.close("enough")

            two._received = received
            one._tls.write(Frame(Opcode.BINARY, b"x").serialize(mask=True) * 9)
            one._flush()
            assert await stage.ear.next("closed") == "enough"
            await stage.ear.settled()
            assert heard == [b"x"]

    play(scene)


def test_a_neighbor_that_ends_tls_is_gone_and_what_it_sends_then_is_not_kept(contexts):
    client, server = contexts

    async def scene():
        async with Stage(server) as stage:
            _, one, two = await stage.open_pair(client)
            one.send(b"last")
            with suppress(ssl.SSLError):
                one._tls.unwrap()
            one._flush()
            assert await stage.ear.next("received") == b"last"
            assert await stage.ear.next("closed") == "it closed the connection"
            two.get_buffer(-1)[:100] = bytes(100)
            two.buffer_updated(100)
            assert two._incoming.pending == 0

    play(scene)


@pytest.mark.parametrize("dates", [0, 1, 2])
def test_an_opening_may_be_dated_or_not_and_even_twice(sites, contexts, dates):
    asked = (
        b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        + b"Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n" * dates
        + b"\r\n"
    )

    async def scene():
        async with Stage(contexts[1]) as stage:
            visit = asyncio.create_task(stage.visit(asked, tls=believing(sites["a"])))
            opened = await stage.ear.next("opened")
            assert opened.date == ("Thu, 01 Jan 2026 00:00:00 GMT" if dates else "")
            opened.abort("enough")
            await visit

    play(scene)
