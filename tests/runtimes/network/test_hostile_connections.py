"""A neighbor that sends anything at all, in any layer, ends its connection and nothing else."""

import asyncio
import ssl
from contextlib import suppress

import numpy as np
import pytest

from chaos.frame_mutations import mutated_frames, valid_frames
from network_fixture import Events, run_scene, trusting_context

OPENING = (
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Memory(asyncio.Transport):
    """A transport whose other end is a TLS client in memory, which reads whatever is written."""

    def __init__(self, client, incoming):
        super().__init__()
        self.client, self.incoming, self.closed = client, incoming, False

    def write(self, data):
        self.incoming.write(data)

    def get_write_buffer_size(self):
        return 0

    def is_closing(self):
        return self.closed

    def close(self):
        self.closed = True

    abort = close


def deliver(connection, data, rng):
    """Feed bytes to a connection in a few pieces."""
    for piece in np.split(
        np.frombuffer(data, np.uint8), np.sort(rng.integers(len(data) + 1, size=2))
    ):
        for at in range(0, len(piece), 4096):
            part = piece[at : at + 4096].tobytes()
            connection.get_buffer(-1)[: len(part)] = part
            connection.buffer_updated(len(part))


def mutate(data, rng):
    changed = bytearray(data)
    for at in rng.integers(len(data), size=rng.integers(1, 4)):
        changed[at] = rng.integers(256)
    if rng.random() < 0.3:
        at = rng.integers(len(data))
        changed[at:at] = rng.bytes(rng.integers(1, 3000))
    return bytes(changed)


async def attack(contexts, sites, layer, rng, frames):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting_context(sites["a"]).wrap_bio(incoming, outgoing)
    events = Events()
    connection = events.make(contexts[1])
    connection.connection_made(Memory(client, incoming))
    for step in range(2):
        with suppress(ssl.SSLError):
            client.do_handshake()
        sent = outgoing.read()
        hostile = layer == "tls" and rng.integers(2) == step
        deliver(connection, mutate(sent, rng) if hostile and sent else sent, rng)
    if layer == "tls":
        connection.connection_lost(None)
        return events
    client.write(mutate(OPENING, rng) if layer == "http" else OPENING)
    deliver(connection, outgoing.read(), rng)
    for _ in range(5 if layer == "frames" else 0):
        client.write(next(frames).websocket)
        deliver(connection, outgoing.read(), rng)
    connection.connection_lost(OSError("reset"))
    return events


@pytest.mark.parametrize("layer", ["tls", "http", "frames"])
def test_hostile_bytes_close_a_connection_once_with_a_printable_reason(sites, contexts, layer):
    rng = np.random.default_rng(0)
    frames = mutated_frames(valid_frames(), 1000, rng)

    async def scene():
        reasons = set()
        for _ in range(150):
            events = await attack(contexts, sites, layer, rng, frames)
            said = [events.said.get_nowait() for _ in range(events.said.qsize())]
            closed = [value for what, value in said if what == "closed"]
            assert len(closed) == 1
            assert said[-1][0] == "closed"
            assert closed[0].isprintable()
            reasons.add(closed[0])
        assert len(reasons) > 3

    run_scene(scene)
