"""Unauthorized clients are rejected, with a reason."""

import ssl

import pytest

from network_fixture import Listener, der, run_scene, trusting_context
from peerclust.runtimes.network.identity import client_context, server_context


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x00" * 100, "it did not speak TLS"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "it did not speak TLS"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "it spoke plain HTTP, not TLS"),
    ],
    ids=["zeros", "ssh", "http"],
)
def test_plain_bytes_are_refused_with_their_reason_once(contexts, data, reason):
    async def scene():
        async with Listener(contexts[1]) as listener:
            await listener.connect_and_send(data)
            assert await listener.events.next("closed") == reason
            await listener.events.settled()

    run_scene(scene)


def test_tls_1_2_is_refused_with_its_reason_once(contexts):
    old = trusting_context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2

    async def scene():
        async with Listener(contexts[1]) as listener:
            await listener.connect_and_send(tls=old)
            assert await listener.events.next("closed") == "it does not speak TLS 1.3"
            await listener.events.settled()

    run_scene(scene)


@pytest.mark.parametrize(
    ("who", "reason"),
    [
        (None, "it presented no certificate"),
        ("c", "its certificate is not in the network file (self-signed certificate)"),
        ("old", "its certificate has expired"),
        ("early", "its certificate is not valid yet"),
    ],
)
def test_a_client_that_cannot_prove_to_be_a_neighbor_is_refused_with_the_reason_once(
    sites, who, reason
):
    listed = [der(sites[name]) for name in ("a", "old", "early")]
    server = server_context(sites["b"], listed)
    tls = trusting_context(sites.get(who))

    async def scene():
        async with Listener(server) as listener:
            await listener.connect_and_send(b"GET / HTTP/1.1\r\n\r\n", tls=tls)
            assert await listener.events.next("closed") == reason
            await listener.events.settled()

    run_scene(scene)


@pytest.mark.parametrize(
    ("who", "reason"),
    [
        ("c", "it does not know this site's certificate"),
        ("old", "it says that this site's certificate has expired"),
    ],
)
def test_a_client_that_is_refused_learns_why(sites, who, reason):
    server = server_context(sites["b"], [der(sites["a"]), der(sites["old"])])

    async def scene():
        async with Listener(server) as listener:
            events = await listener.dial(client_context(sites[who], der(sites["b"])))
            assert await events.next("closed") == reason
            assert await listener.events.next("closed")
            await events.settled()

    run_scene(scene)


def test_a_server_that_is_another_than_the_one_called_is_refused(sites, contexts):
    async def scene():
        async with Listener(contexts[1]) as listener:
            events = await listener.dial(client_context(sites["a"], der(sites["c"])))
            reason = await events.next("closed")
            assert reason.startswith("its certificate is not in the network file")
            assert await listener.events.next("closed")
            await events.settled()

    run_scene(scene)
