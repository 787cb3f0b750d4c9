"""Peer processes in which one thing is wrong: each is `peerclust peer run` but for that."""

import errno
import os
import time
from pathlib import Path

import numpy as np

from peerclust.runtimes.network import checkpoint, membership, messages, wire
from peerclust.runtimes.network.lockstep import Post
from peerclust.runtimes.network.transport import Connection
from peerclust.runtimes.network.wire import Kind
from peerclust.testing import preload

# The round from which on a peer misbehaves.
FROM = 100


def _send_instead(words, folder, change):
    """Run a peer that sends the frames `change(data, number)` instead of each frame of a round."""
    send = Connection.send
    frames = {"sent": 0}

    def send_changed(self, message):
        if len(message) > 5 and message[5] == Kind.ROUND:
            frames["sent"] += 1
            if frames["sent"] > FROM:
                for data in change(message, frames["sent"]):
                    send(self, data)
                return
        send(self, message)

    Connection.send = send_changed
    preload.run_peer(words, folder)


def _say_instead(words, folder, change):
    """Run a peer that sends `change(payload)` instead of its centers."""
    encode = wire.encode

    def encode_changed(frame):
        if frame.kind is Kind.ROUND and frame.exchange > FROM:
            frame = frame._replace(payload=change(np.array(frame.payload)))
        return encode(frame)

    wire.encode = encode_changed
    preload.run_peer(words, folder)


def duplicates(words, folder):
    _send_instead(words, folder, lambda data, _: [data, data])


def late(words, folder):
    def slow(data, _):
        time.sleep(0.002)
        return [data]

    _send_instead(words, folder, slow)


def truncates(words, folder):
    _send_instead(words, folder, lambda data, _: [data[:-3]])


def flips_a_bit(words, folder):
    def flip(data, number):
        changed = bytearray(data)
        changed[number * 31 % len(data)] ^= 1 << number % 8
        return [bytes(changed)]

    _send_instead(words, folder, flip)


def hurries(words, folder):
    """Sends a frame of an exchange that is not due for long."""

    def change(data, _):
        frame = wire.decode(data, limit=1 << 20)
        return [wire.encode(frame._replace(exchange=frame.exchange + 7))]

    _send_instead(words, folder, change)


def reorders(words, folder):
    """Sends each frame once more after the next one."""
    before = []

    def change(data, _):
        before.append(data)
        return [data, *before[-3:-1]]

    _send_instead(words, folder, change)


def says_nan(words, folder):
    _say_instead(words, folder, lambda x: np.where(x == x.max(), np.nan, x))


def says_infinite(words, folder):
    _say_instead(words, folder, lambda x: np.where(x == x.max(), np.inf, x))


def says_far_off(words, folder):
    _say_instead(words, folder, lambda x: x + 1e3)


def says_another_shape(words, folder):
    _say_instead(words, folder, lambda x: x[:-1])


def has_a_full_disk(words, folder):
    def save(path, held):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    checkpoint.save = save
    preload.run_peer(words, folder)


def has_a_clock_that_jumps(words, folder):
    real = time.time
    begin = time.monotonic()
    hours = [0, 24 * 3650, -24 * 3650]
    time.time = lambda: real() + 3600 * hours[int(2 * (time.monotonic() - begin)) % 3]
    preload.run_peer(words, folder)


def _exchange_instead(words, folder, change):
    """Run a peer that calls `change` before each exchange, and sends what it returns."""
    exchange = Post.exchange

    async def changed(self, kind, payload, check, **vote):
        return await exchange(self, kind, change(self, kind, payload), check, **vote)

    Post.exchange = changed
    preload.run_peer(words, folder)


def _die_if(words, folder, when):
    def die(node, kind, payload):
        if kind is Kind.AGREE and when(node):
            os._exit(9)
        return payload

    _exchange_instead(words, folder, die)


def dies_in_a_maximum(words, folder):
    _die_if(words, folder, lambda node: node.at == 1)


def dies_in_an_average(words, folder):
    # After two maxima over a ring of 5: of checkpoints, and of the largest numbers.
    _die_if(words, folder, lambda node: node.at == 5)


def dies_at_the_barrier(words, folder):
    _die_if(words, folder, lambda node: node.settled)


def averages_wildly(words, folder):
    def change(node, kind, payload):
        wild = kind is Kind.AGREE and node.at >= 4
        return payload * 1e200 if wild else payload

    _exchange_instead(words, folder, change)


def calls_itself_p0(words, folder):
    hello = messages.Hello
    messages.Hello = membership.Hello = lambda name, *rest: hello("p0", *rest)
    preload.run_peer(words, folder)


def says_it_is_done(words, folder):
    """Says that it has ended, and stays silent until all others have really left."""

    def change(node, kind, payload):
        if kind is Kind.ROUND and node.at == FROM:
            node.broadcast(Kind.ALIVE, messages.Alive("done", True))
            while not Path("out-p0", "certificate.json").exists():
                time.sleep(0.1)
            time.sleep(5)
        return payload

    _exchange_instead(words, folder, change)
