import asyncio

import pytest
from stage import Ear, Stage, believing, der, play
from websockets.frames import Frame, Opcode

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
