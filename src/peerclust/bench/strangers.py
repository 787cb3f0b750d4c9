"""Those who knock at a peer's port and have no business there, one kind a function."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import cycle
from pathlib import Path

from peerclust.runtimes.network.identity import make_identity

Address = tuple[str, int]

# Seconds after which a stranger gives up.
_PATIENCE = 2.0


class Strangers:
    """While open, strangers of each kind in turn connect to an address, so many a second."""

    def __init__(self, address: Address, folder: Path, *, a_second: float) -> None:
        self._address, self._pause = address, 1 / a_second
        self._kinds = make_kinds(folder)
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


def make_kinds(folder: Path) -> dict[str, Callable[[socket.socket], None]]:
    """Give what each kind of stranger does on its connection; a key is put into a folder."""
    stranger = make_identity("stranger", folder, force=True)
    old, nobody, unlisted = _context(), _context(), _context()
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_2
    for context in (old, unlisted):
        context.load_cert_chain(stranger.certificate, stranger.key)
    return {
        "plain TCP": lambda line: _say(line, b"Is anybody there?\n"),
        "plain HTTP": lambda line: _say(line, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        "TLS 1.2": lambda line: _shake_hands(line, old),
        "no certificate": lambda line: _shake_hands(line, nobody),
        "unlisted certificate": lambda line: _shake_hands(line, unlisted),
    }


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _say(line: socket.socket, data: bytes) -> None:
    line.sendall(data)
    _wait_for_end(line)


def _shake_hands(line: socket.socket, context: ssl.SSLContext) -> None:
    with context.wrap_socket(line) as secured:
        # A TLS 1.3 client hears of its refusal only after its own handshake.
        _wait_for_end(secured)


def _wait_for_end(line: socket.socket) -> None:
    while line.recv(4096):
        pass
