"""Those who knock at a peer's port and have no business there, one kind a function."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from peerclust.runtimes.network import messages, wire
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.identity import Identity, make_identity
from peerclust.runtimes.network.messages import Hello
from peerclust.runtimes.network.wire import Frame, Kind

Address = tuple[str, int]

# Seconds after which a stranger gives up.
_PATIENCE = 2.0


class Strangers:
    """While open, strangers of each kind in turn connect to a peer, so many a second.

    The `folder` has the keys of all peers; the strangers' own are put into one within it.
    """

    def __init__(self, contract: Contract, me: str, folder: Path, *, a_second: float) -> None:
        self._address: Address = contract.peers[contract.number(me)].endpoint
        self._pause = 1 / a_second
        self._kinds = make_kinds(contract, me, folder)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._knock)
        # Those whom somebody answered or refused; nobody listens before the peer has started.
        self.knocks = 0

    def __enter__(self) -> Strangers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _knock(self) -> None:
        due = time.monotonic()
        for kind in cycle(self._kinds.values()):
            if self._over.wait(max(0.0, due - time.monotonic())):
                return
            due = max(due + self._pause, time.monotonic())
            try:
                with socket.create_connection(self._address, _PATIENCE) as line:
                    self.knocks += 1
                    with suppress(OSError):
                        kind(line)
            except OSError:
                continue


def make_kinds(
    contract: Contract, me: str, folder: Path
) -> dict[str, Callable[[socket.socket], None]]:
    """Give what each kind of stranger does on its connection to the peer `me`."""
    neighbor, own = contract.neighbors(me)[0], folder / "strangers"
    own.mkdir(exist_ok=True)
    stranger = make_identity("stranger", own, force=True)
    expired = make_identity(
        "expired", own, days=1, force=True, now=datetime.now(UTC) - timedelta(days=9)
    )
    listed = Identity(neighbor, folder / f"{neighbor}.key", folder / f"{neighbor}.crt")
    nobody, old = _context(), _context(stranger)
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_2
    unlisted, late, right = map(_context, (stranger, expired, listed))
    network = contract.digest[: wire.TAG_BYTES]
    another_name = _hello(me, network)
    another_file = _hello(neighbor, bytes(wire.TAG_BYTES))
    return {
        "plain TCP": lambda line: _say(line, b"Is anybody there?\n"),
        "plain HTTP": lambda line: _say(line, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        "TLS 1.2": lambda line: _shake_hands(line, old),
        "no certificate": lambda line: _shake_hands(line, nobody),
        "unlisted certificate": lambda line: _shake_hands(line, unlisted),
        "unlisted and expired": lambda line: _shake_hands(line, late),
        "another peer's name": lambda line: _say_hello(line, right, another_name),
        "another network file": lambda line: _say_hello(line, right, another_file),
    }


def _hello(name: str, network: bytes) -> bytes:
    said = Hello(name, "0" * 16, "", "agreeing", counts=False, settings="{}")
    return wire.encode(Frame(Kind.HELLO, network, messages.pack(said)))


def _context(identity: Identity | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if identity is not None:
        context.load_cert_chain(identity.certificate, identity.key)
    return context


def _say(line: socket.socket, data: bytes) -> None:
    line.sendall(data)
    _wait_for_end(line)


def _shake_hands(line: socket.socket, context: ssl.SSLContext) -> None:
    with context.wrap_socket(line) as secured:
        # A TLS 1.3 client hears of its refusal only after its own handshake.
        _wait_for_end(secured)


def _say_hello(line: socket.socket, context: ssl.SSLContext, hello: bytes) -> None:
    with (
        suppress(WebSocketException),
        connect("wss://localhost/", sock=line, ssl=context, compression=None) as link,
    ):
        link.send(hello)
        while True:
            link.recv(_PATIENCE)


def _wait_for_end(line: socket.socket) -> None:
    while line.recv(4096):
        pass
