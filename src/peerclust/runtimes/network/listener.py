"""Accepting connections, such that strangers cannot keep the neighbors out.

An accepted connection has three stages, each with a pool of its own:

- silent: its ClientHello is not complete. It costs a socket and a few bytes.
- unproved: it is in the handshake of TLS.
- proved: it has the certificate of a listed peer, and does not compete with strangers (`release`).

When a pool is full, the source with the most connections loses its oldest one, so that a flood from
one address hits itself. The pools of strangers hold at most half of the process's file descriptors.
"""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
import struct
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import Generic, TypeVar

from peerclust.errors import WireError
from peerclust.runtimes.network.transport import HANDSHAKE_TIMEOUT, Connection, explain

# Maximum number of connections in each of the two pools of strangers.
_MAX_STRANGERS = 256

# Maximum size of a ClientHello, with its TLS record. That of a peer has 230 to 1600 bytes.
_LONGEST_HELLO = 1 << 12

# How many connections the kernel may hold, and how many are accepted at once.
_BACKLOG, _BATCH = 4096, 64

# Seconds until connections are accepted again if there is no file descriptor for any.
_PAUSE = 0.1

_TOO_MANY = "too many others are connecting"

T = TypeVar("T", bound=Hashable)


class Pool(Generic[T]):
    """Connections by source. Of too many, the oldest one of the largest source is evicted.

    >>> pool = Pool(limit=3)
    >>> pool.add(1, "one"), pool.add(2, "other"), pool.add(3, "other"), pool.add(4, "third")
    (None, None, None, 2)
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._source: dict[T, Hashable] = {}
        # The connections of each source, in the order in which they came.
        self._of: dict[Hashable, dict[T, None]] = {}

    def __contains__(self, item: object) -> bool:
        return item in self._source

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._source))

    def add(self, item: T, source: Hashable) -> T | None:
        """Add a connection; return the one that was evicted for it, if any."""
        self._source[item] = source
        self._of.setdefault(source, {})[item] = None
        return self.evict() if len(self._source) > self._limit else None

    def evict(self) -> T | None:
        """Remove and return a connection; None if there is none."""
        largest = max(self._of.values(), key=len, default={})
        item = next(iter(largest), None)
        if item is not None:
            self.discard(item)
        return item

    def discard(self, item: T) -> None:
        """Remove a connection if it is here."""
        if item in self._source:
            source = self._source.pop(item)
            del self._of[source][item]
            if not self._of[source]:
                del self._of[source]


@dataclass(eq=False, slots=True)
class _Silent:
    """A connection whose ClientHello is not complete, and what it has sent so far."""

    socket: socket.socket
    host: str
    held: bytearray = field(default_factory=bytearray)
    deadline: asyncio.TimerHandle = field(init=False)


class Listener:
    """The sockets at which a peer listens, and the strangers there.

    `make` makes a connection from the bytes that were received so far. `refused` gets the host and
    the reason of each stranger that never became a connection.
    """

    def __init__(
        self, make: Callable[[bytes], Connection], refused: Callable[[str, str], None]
    ) -> None:
        self._make, self._refused = make, refused
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        limit = min(_MAX_STRANGERS, descriptors // 4) if descriptors > 0 else _MAX_STRANGERS
        self._silent, self._unproved = Pool[_Silent](limit), Pool[Connection](limit)
        self._starting: set[asyncio.Task[object]] = set()

    async def open(self, host: str, port: int) -> None:
        """Listen on all addresses of a host, or raise an OSError."""
        found = await self._loop.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        unavailable: OSError | None = None
        for family, _, _, _, address in dict.fromkeys(found):
            try:
                listening = socket.create_server(address, family=family, backlog=_BACKLOG)
            except OSError as error:
                # A name may have an address of a family that is switched off.
                if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                    self.close()
                    raise
                unavailable = error
                continue
            listening.setblocking(False)
            self._sockets.append(listening)
            self._resume(listening)
        if unavailable is not None and not self._sockets:
            raise unavailable

    def close(self) -> None:
        """Stop listening, and close the connections of strangers."""
        for listening in self._sockets:
            self._loop.remove_reader(listening)
            listening.close()
        for silent in self._silent:
            self._forget(silent)
            silent.socket.close()
        for connection in self._unproved:
            connection.abort("this peer stops listening")

    def release(self, connection: Connection) -> None:
        """Note that a connection has proved to be a listed peer's, or is closed."""
        self._unproved.discard(connection)

    def _resume(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_BATCH):
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # There is no file descriptor left, so that the socket stays readable.
                if evicted := self._silent.evict():
                    self._drop(evicted, _TOO_MANY)
                    continue
                self._refused("a stranger", f"it cannot be accepted ({explain(error)})")
                self._loop.remove_reader(listening)
                self._loop.call_later(_PAUSE, self._resume, listening)
                return
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
            self._hold(accepted, address[0])

    def _hold(self, accepted: socket.socket, host: str) -> None:
        silent = _Silent(accepted, host)
        late = f"it did not send a ClientHello in {HANDSHAKE_TIMEOUT:g} s"
        silent.deadline = self._loop.call_later(HANDSHAKE_TIMEOUT, self._drop, silent, late)
        self._loop.add_reader(accepted, self._read, silent)
        if evicted := self._silent.add(silent, _source(host)):
            self._drop(evicted, _TOO_MANY)

    def _read(self, silent: _Silent) -> None:
        try:
            data = silent.socket.recv(_LONGEST_HELLO)
            silent.held += data
            complete = has_client_hello(silent.held)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._drop(silent, explain(error))
        except WireError as error:
            self._drop(silent, str(error))
        else:
            if complete:
                self._start_handshake(silent)
            elif not data:
                self._drop(silent, "it closed the connection")

    def _start_handshake(self, silent: _Silent) -> None:
        self._forget(silent)
        connection = self._make(bytes(silent.held))
        if evicted := self._unproved.add(connection, _source(silent.host)):
            evicted.abort(_TOO_MANY)
        start = self._loop.connect_accepted_socket(lambda: connection, silent.socket)
        task: asyncio.Task[object] = self._loop.create_task(start)
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    def _forget(self, silent: _Silent) -> None:
        self._silent.discard(silent)
        silent.deadline.cancel()
        self._loop.remove_reader(silent.socket)

    def _drop(self, silent: _Silent, reason: str) -> None:
        self._forget(silent)
        # With a reset, the kernel need not remember the connection for a minute.
        silent.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        silent.socket.close()
        self._refused(silent.host, reason)


def has_client_hello(held: bytes | bytearray) -> bool:
    r"""Return whether bytes begin with a ClientHello; raise WireError if they never will.

    It must be in one record (RFC 8446, 5.1), as those of all TLS libraries are.

    >>> has_client_hello(b"\x16\x03\x01\x02"), has_client_hello(b"\x16\x03\x01\0\x05\1\0\0\1\0")
    (False, True)
    """
    if held[:2] not in (b"\x16\x03", b"\x16", b""):
        http = bytes(held[:4]) in (b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI")
        raise WireError("it spoke plain HTTP, not TLS" if http else "it did not speak TLS")
    if len(held) < 9:
        return False
    record, message = int.from_bytes(held[3:5], "big"), int.from_bytes(held[6:9], "big")
    if held[5] != 1 or message + 4 != record or record + 5 > _LONGEST_HELLO:
        raise WireError(f"its first record must be a ClientHello of at most {_LONGEST_HELLO} bytes")
    return len(held) >= record + 5


def _source(host: str) -> Hashable:
    """Return what an attacker has only one of: an IPv4 address, or a network of IPv6."""
    return IPv6Address(host).packed[:8] if ":" in host else host
