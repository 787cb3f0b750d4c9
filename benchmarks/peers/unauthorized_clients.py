"""Clients that connect to a peer's port without being allowed to, one function per kind."""

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
from peerclust.runtimes.network.identity import Identity, make_identity, private_key
from peerclust.runtimes.network.messages import Hello
from peerclust.runtimes.network.statements import Author, draw_nonce
from peerclust.runtimes.network.wire import Frame, Kind

Address = tuple[str, int]

# Seconds after which a client gives up.
_TIMEOUT = 2.0


class UnauthorizedClients:
    """Within its context, clients of each kind in turn connect to a peer at a given rate.

    `directory` has the keys of all peers; the clients' own keys go to a subdirectory of it. They
    wait until `is_running` returns True: two kinds have the key of a neighbor, which is believed as
    long as that one is not connected.
    """

    def __init__(
        self,
        contract: Contract,
        me: str,
        directory: Path,
        *,
        per_second: float,
        is_running: Callable[[], bool],
    ) -> None:
        self._address: Address = contract.peer(me).endpoint
        self._interval = 1 / per_second
        self._kinds = make_kinds(contract, me, directory)
        self._is_running, self._stop = is_running, threading.Event()
        self._thread = threading.Thread(target=self._connect)
        # Connections that the peer accepted.
        self.accepted = 0

    def __enter__(self) -> UnauthorizedClients:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _connect(self) -> None:
        while not self._is_running():
            if self._stop.wait(self._interval):
                return
        due = time.monotonic()
        for kind in cycle(self._kinds.values()):
            if self._stop.wait(max(0.0, due - time.monotonic())):
                return
            due = max(due + self._interval, time.monotonic())
            try:
                with socket.create_connection(self._address, _TIMEOUT) as connection:
                    self.accepted += 1
                    with suppress(OSError):
                        kind(connection)
            except OSError:
                continue


def make_kinds(
    contract: Contract, me: str, directory: Path
) -> dict[str, Callable[[socket.socket], None]]:
    """Return what each kind of client does on its connection to the peer `me`."""
    neighbor, own = contract.neighbors(me)[0], directory / "unauthorized"
    own.mkdir(exist_ok=True)
    outsider = make_identity("outsider", own, force=True)
    expired = make_identity(
        "expired", own, days=1, force=True, now=datetime.now(UTC) - timedelta(days=9)
    )
    listed = Identity(neighbor, directory / f"{neighbor}.key", directory / f"{neighbor}.crt")
    anonymous, old = _context(), _context(outsider)
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_2
    unlisted, late, right = map(_context, (outsider, expired, listed))
    network = contract.digest[: wire.TAG_BYTES]
    author = Author(contract, contract.number(neighbor), private_key(listed), time.time_ns())
    another_name = _hello(me, network, author)
    another_file = _hello(neighbor, bytes(wire.TAG_BYTES), author)
    return {
        "plain TCP": lambda connection: _send(connection, b"Is anybody there?\n"),
        "plain HTTP": lambda connection: _send(
            connection, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        ),
        "TLS 1.2": lambda connection: _shake_hands(connection, old),
        "no certificate": lambda connection: _shake_hands(connection, anonymous),
        "unlisted certificate": lambda connection: _shake_hands(connection, unlisted),
        "unlisted and expired": lambda connection: _shake_hands(connection, late),
        "another peer's name": lambda connection: _send_hello(connection, right, another_name),
        "another network file": lambda connection: _send_hello(connection, right, another_file),
    }


def _hello(name: str, network: bytes, author: Author) -> bytes:
    message = Hello(name, author.incarnation, None, draw_nonce(), "agreeing", False, "{}")
    return wire.encode(Frame(Kind.HELLO, network, messages.pack(message)))


def _context(identity: Identity | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if identity is not None:
        context.load_cert_chain(identity.certificate, identity.key)
    return context


def _send(connection: socket.socket, data: bytes) -> None:
    connection.sendall(data)
    _read_to_end(connection)


def _shake_hands(connection: socket.socket, context: ssl.SSLContext) -> None:
    with context.wrap_socket(connection) as secured:
        # A TLS 1.3 client learns of its rejection only after its own handshake.
        _read_to_end(secured)


def _send_hello(connection: socket.socket, context: ssl.SSLContext, hello: bytes) -> None:
    with (
        suppress(WebSocketException),
        connect(
            "wss://localhost/",
            sock=connection,
            ssl=context,
            compression=None,
            open_timeout=_TIMEOUT,
        ) as link,
    ):
        link.send(hello)
        while True:
            link.recv(_TIMEOUT)


def _read_to_end(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass
