"""Peer processes with one fault each: apart from it, each is `peerclust peer run`."""

import errno
import json
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from peerclust.peers import commands
from peerclust.runtimes.network import checkpoint, handshake, messages, wire
from peerclust.runtimes.network.lockstep import Lockstep
from peerclust.runtimes.network.states import RunState
from peerclust.runtimes.network.transport import Connection
from peerclust.runtimes.network.wire import Kind
from peerclust.testing import preload
from peerclust.users import Users

# The round in which a peer starts to misbehave.
FROM = 100


def _send_instead(arguments, directory, change):
    """Run a peer that sends the frames `change(data, number)` in place of each round frame."""
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
    preload.run_peer(arguments, directory)


def _say_instead(arguments, directory, change):
    """Run a peer that sends `change(payload)` instead of its centers."""
    encode = wire.encode

    def encode_changed(frame):
        # Codes are differences, which are left as they are.
        centers = frame.kind is Kind.ROUND and isinstance(frame.payload, np.ndarray)
        if centers and frame.exchange > FROM:
            frame = frame._replace(payload=change(np.array(frame.payload)))
        return encode(frame)

    wire.encode = encode_changed
    preload.run_peer(arguments, directory)


def duplicates(arguments, directory):
    _send_instead(arguments, directory, lambda data, _: [data, data])


def late(arguments, directory):
    def slow(data, _):
        time.sleep(0.002)
        return [data]

    _send_instead(arguments, directory, slow)


def truncates(arguments, directory):
    _send_instead(arguments, directory, lambda data, _: [data[:-3]])


def flips_a_bit(arguments, directory):
    def flip(data, number):
        changed = bytearray(data)
        changed[number * 31 % len(data)] ^= 1 << number % 8
        return [bytes(changed)]

    _send_instead(arguments, directory, flip)


def hurries(arguments, directory):
    """Sends a frame of an exchange far in the future."""

    def change(data, _):
        frame = wire.decode(data, limit=1 << 20)
        return [wire.encode(frame._replace(exchange=frame.exchange + 7))]

    _send_instead(arguments, directory, change)


def reorders(arguments, directory):
    """Sends each frame again after the next one."""
    before = []

    def change(data, _):
        before.append(data)
        return [data, *before[-3:-1]]

    _send_instead(arguments, directory, change)


def says_nan(arguments, directory):
    _say_instead(arguments, directory, lambda x: np.where(x == x.max(), np.nan, x))


def says_infinite(arguments, directory):
    _say_instead(arguments, directory, lambda x: np.where(x == x.max(), np.inf, x))


def says_far_off(arguments, directory):
    _say_instead(arguments, directory, lambda x: x + 1e3)


def says_another_shape(arguments, directory):
    _say_instead(arguments, directory, lambda x: x[:-1])


def has_a_full_disk(arguments, directory):
    def save(path, saved):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    checkpoint.save = save
    preload.run_peer(arguments, directory)


def has_a_clock_that_jumps(arguments, directory):
    real = time.time
    start = time.monotonic()
    hours = [0, 24 * 3650, -24 * 3650]
    time.time = lambda: real() + 3600 * hours[int(2 * (time.monotonic() - start)) % 3]
    time.time_ns = lambda: int(time.time() * 1e9)
    preload.run_peer(arguments, directory)


def _exchange_instead(arguments, directory, change):
    """Run a peer that sends what `change(session, kind, payload)` returns, in each exchange."""
    exchange = Lockstep.exchange

    async def changed(self, kind, payload, check, **vote):
        return await exchange(self, kind, change(self._session, kind, payload), check, **vote)

    Lockstep.exchange = changed
    preload.run_peer(arguments, directory)


def _die_if(arguments, directory, when):
    def die(session, kind, payload):
        if kind is Kind.AGREE and when(session):
            os._exit(9)
        return payload

    _exchange_instead(arguments, directory, die)


def dies_in_a_maximum(arguments, directory):
    _die_if(arguments, directory, lambda session: session.at == 1)


def dies_in_a_sum(arguments, directory):
    # After two maxima over a ring of 5: that of the checkpoints and that of the largest numbers.
    _die_if(arguments, directory, lambda session: session.at == 5)


def dies_at_the_barrier(arguments, directory):
    _die_if(arguments, directory, lambda session: session.state is RunState.SETUP_BARRIER)


def dies_in_the_last_exchange_of_the_barrier(arguments, directory):
    made = []

    def is_last(session):
        made.extend([session.at] * (session.state is RunState.SETUP_BARRIER))
        return len(made) == len(session.contract.peers)

    _die_if(arguments, directory, is_last)


def agrees_wildly(arguments, directory):
    def change(session, kind, payload):
        wild = kind is Kind.AGREE and session.at >= 4 and payload.dtype == np.float64
        return payload * 1e200 if wild else payload

    _exchange_instead(arguments, directory, change)


def sends_integers_where_none_are_due(arguments, directory):
    exchange = Lockstep.exchange

    async def changed(self, kind, payload, check, *, flow=None, **vote):
        everyone = frozenset(link.number for link in self._session.links.values())
        flow = None if flow is None else flow._replace(to=everyone)
        return await exchange(self, kind, payload, check, flow=flow, **vote)

    Lockstep.exchange = changed
    preload.run_peer(arguments, directory)


def dies_in_the_certificate(arguments, directory):
    _die_if(
        arguments,
        directory,
        lambda session: session.phase == "running" and session.agreement.at == 4,
    )


def calls_itself_p0(arguments, directory):
    hello = messages.Hello
    messages.Hello = handshake.Hello = lambda name, *rest: hello("p0", *rest)
    preload.run_peer(arguments, directory)


def says_it_is_done(arguments, directory):
    """Reports that it has ended, and is silent until all others have left."""

    def change(session, kind, payload):
        if kind is Kind.ROUND and session.at == FROM:
            session.broadcast(Kind.HEARTBEAT, messages.Heartbeat("done"))
            while not Path("out-p0", "certificate.json").exists():
                time.sleep(0.1)
            time.sleep(5)
        return payload

    _exchange_instead(arguments, directory, change)


def listens(arguments, directory):
    """Follows the protocol, and writes down what its neighbors send: number, shape and bytes."""
    exchange = Lockstep.exchange

    async def listening(self, kind, payload, check, **vote):
        frames = await exchange(self, kind, payload, check, **vote)
        with Path("heard.jsonl").open("a") as file:
            for number, frame in frames.items():
                array = np.asarray(frame.payload)
                event = [number, array.dtype.str, list(array.shape), array.tobytes().hex()]
                file.write(json.dumps(event) + "\n")
        return frames

    Lockstep.exchange = listening
    preload.run_peer(arguments, directory)


def weighs_too_much(arguments, directory):
    """Claims a total weight of 1e12 for its few rows."""
    read = commands.read_rows

    def read_heavy(*given):
        rows = read(*given)
        return replace(rows, weights=1e12 / len(rows.rows))

    commands.read_rows = read_heavy
    preload.run_peer(arguments, directory)


def is_too_stiff(arguments, directory):
    """Claims a curvature of 1e12, by which residuals are divided."""
    Users.local_curvature = lambda self, assignment, x: np.full(x.shape[:2], 1e12)
    preload.run_peer(arguments, directory)


def is_too_stiff_in_the_end(arguments, directory):
    """Claims the curvature only where the run is over, in its certificate."""
    honest = Users.local_curvature

    def lie(self, assignment, x):
        ended = Path(os.curdir, "out-p2", "journal.jsonl").exists()
        return np.full(x.shape[:2], 1e12) if ended else honest(self, assignment, x)

    Users.local_curvature = lie
    preload.run_peer(arguments, directory)


def is_too_steep_in_a_sum(arguments, directory):
    """Claims, after its first sum of `exact`, that its numbers are larger than any."""
    honest, calls = Users.curvature, []

    def lie(self, assignment, x):
        calls.append(x)
        return honest(self, assignment, x) * (1e12 if len(calls) > 1 else 1.0)

    Users.curvature = lie
    preload.run_peer(arguments, directory)
