"""Messages over open connections, and how these end."""

import ssl
from contextlib import suppress

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode, Frame, Opcode

from hostile_texts import HOSTILE
from network_fixture import Listener, der, run_pair, run_scene, trusting_context


def test_messages_go_both_ways_in_order_and_each_end_knows_the_other(sites, contexts):
    async def scene(listener, events, one, two):
        assert one.is_open
        assert (one.certificate, two.certificate) == (der(sites["b"]), der(sites["a"]))
        assert one.host == "127.0.0.1"
        said = [b"", b"hello", bytes(range(256)) * 300]
        for message in said:
            one.send(message)
            two.send(message[::-1])
        assert [await listener.events.next("received") for _ in said] == said
        assert [await events.next("received") for _ in said] == [each[::-1] for each in said]
        assert one.sent == one.heard == two.sent == two.heard == sum(map(len, said))
        one.close("it is late")
        assert await events.next("closed") == "it is late"
        assert await listener.events.next("closed")
        assert not one.is_open
        assert one.gone.is_set()
        one.send(b"too late")
        one.close("again")
        two.abort("again")
        await events.settled()
        await listener.events.settled()

    run_pair(contexts, scene)


def test_a_message_as_long_as_the_limit_goes_through_and_a_longer_one_closes(contexts):
    client, server = contexts

    async def scene():
        async with Listener(server, limit=1_500_000) as listener:
            events, one, two = await listener.open_pair(client)
            long = b"0123456789abcdef" * (1_500_000 // 16)
            one.send(long)
            assert await listener.events.next("received") == long
            two.send(long)
            assert await events.next("received") == long
            one.send(long + b"!")
            assert "1500001" in (await listener.events.next("closed")).replace(",", "")
            assert await events.next("closed")
            await listener.events.settled()

    run_scene(scene)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (Frame(Opcode.TEXT, b"text").serialize(mask=True), "must be one binary frame"),
        (Frame(Opcode.BINARY, b"one", fin=False).serialize(mask=True), "must be one binary frame"),
        # All of it is read before the first of it is refused.
        (
            Frame(Opcode.BINARY, b"one", fin=False).serialize(mask=True)
            + Frame(Opcode.CLOSE, b"\x03\xe8bye").serialize(mask=True),
            "must be one binary frame",
        ),
        (Frame(Opcode.BINARY, b"plain").serialize(mask=False), "masking"),
        (b"\x82\xff" + b"\xff" * 8, "18446744073709551615"),
    ],
    ids=["text", "fragment", "fragment and close", "not masked", "too large"],
)
def test_anything_but_one_binary_frame_is_refused_and_both_sides_know(contexts, data, reason):
    async def scene(listener, events, one, _two):
        one._tls.write(data)
        one._flush()
        assert reason in await listener.events.next("closed")
        assert await events.next("closed") != "it closed the connection"
        await listener.events.settled()
        await events.settled()

    run_pair(contexts, scene)


def test_the_other_side_gets_the_reason_of_a_close(contexts):
    async def scene(listener, _events, one, _two):
        one.close("it is late")
        assert await listener.events.next("closed") == "it is late"

    run_pair(contexts, scene)


def test_a_reason_longer_than_a_close_frame_is_no_error(contexts):
    async def scene(listener, events, one, _two):
        one.close("é" * 500, refused=True)
        assert await events.next("closed") == "é" * 500
        assert await listener.events.next("closed")

    run_pair(contexts, scene)


def test_both_ends_learn_that_a_connection_was_aborted(contexts):
    async def scene(listener, events, one, _two):
        one.abort("the line broke")
        assert await events.next("closed") == "the line broke"
        assert await listener.events.next("closed")
        await listener.events.settled()

    run_pair(contexts, scene)


def test_the_library_s_own_client_is_understood_and_its_pings_are_answered(sites, contexts):
    async def scene():
        async with Listener(contexts[1]) as listener:
            tls = trusting_context(sites["a"])
            uri = f"wss://127.0.0.1:{listener.port}/"
            async with connect(uri, ssl=tls, proxy=None) as client:
                two = await listener.events.next("opened")
                assert client.protocol.extensions == []
                await (await client.ping(b"are you there?"))
                await client.send(b"hello")
                assert await listener.events.next("received") == b"hello"
                two.send(b"and you?")
                assert await client.recv() == b"and you?"
                two.close("it is late", refused=True)
                with pytest.raises(ConnectionClosed) as end:
                    await client.recv()
            assert end.value.rcvd.code == CloseCode.POLICY_VIOLATION
            assert end.value.rcvd.reason == "it is late"

    run_scene(scene)


def test_the_reason_of_a_close_frame_is_sanitized(contexts):
    async def scene(listener, _events, one, _two):
        one._ws.send_close(1000, "bad\n\x1b[31m")
        one._write()
        assert await listener.events.next("closed") == "bad??[31m"

    run_pair(contexts, scene)


def test_an_answer_to_a_message_after_which_the_other_side_closed_is_not_sent(contexts):
    async def scene(listener, events, one, two):
        two._received = lambda connection, _: connection.send(b"too late")
        one._ws.send_binary(b"last")
        one._ws.send_close(1000, "bye")
        one._write()
        assert await listener.events.next("closed") == "bye"
        assert two.sent == 0
        assert await events.next("closed")

    run_pair(contexts, scene)


def test_an_end_that_closes_while_it_reads_gets_no_more_messages(contexts):
    async def scene(listener, _events, one, two):
        heard = []

        def received(connection, data):
            heard.append(bytes(data))
            connection.close("enough")

        two._received = received
        one._tls.write(Frame(Opcode.BINARY, b"x").serialize(mask=True) * 9)
        one._flush()
        assert await listener.events.next("closed") == "enough"
        await listener.events.settled()
        assert heard == [b"x"]

    run_pair(contexts, scene)


def test_a_neighbor_that_ends_tls_is_gone_and_what_it_sends_later_is_not_kept(contexts):
    async def scene(listener, _events, one, two):
        one.send(b"last")
        with suppress(ssl.SSLError):
            one._tls.unwrap()
        one._flush()
        assert await listener.events.next("received") == b"last"
        assert await listener.events.next("closed") == "it closed the connection"
        two.get_buffer(-1)[:100] = bytes(100)
        two.buffer_updated(100)
        assert two._incoming.pending == 0

    run_pair(contexts, scene)


def test_reasons_of_closed_connections_are_printable(sites, contexts):
    opening = (
        b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: %b\r\n\r\n"
    )

    async def scene():
        for text in HOSTILE.values():
            data = text.encode(errors="surrogatepass")
            async with Listener(contexts[1]) as listener:
                await listener.connect_and_send(opening % data, tls=trusting_context(sites["a"]))
                assert (await listener.events.next("closed")).isprintable()
            async with Listener(contexts[1]) as listener:
                _, one, _ = await listener.open_pair(contexts[0])
                one._tls.write(Frame(Opcode.CLOSE, b"\x03\xe8" + data).serialize(mask=True))
                one._flush()
                assert (await listener.events.next("closed")).isprintable()

    run_scene(scene)
