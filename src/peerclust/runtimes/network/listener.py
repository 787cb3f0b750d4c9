"""Accepting connections, such that strangers cannot keep the neighbors out.

An accepted connection has four stages, each with a pool of its own:

- silent: its ClientHello is not complete. It costs a socket and a few bytes.
- waiting: it waits for its handshake to start, which costs most of what a stranger can cause.
  Handshakes are started for at most half of the time, the source with the fewest first.
- unproved: it is in its TLS handshake.
- proved: it has the certificate of a listed peer, and does not compete with strangers (`release`).

When a pool is full, the source with the most connections loses its oldest one, so that a flood from
one address hits itself. Connections whose ClientHello has the server name that only those with the
network file know (`identity.server_name`) come before all others. The pools of strangers hold at
most half of the process's file descriptors.
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
from time import thread_time
from typing import Generic, TypeVar

from peerclust.errors import WireError
from peerclust.runtimes.network.connection_errors import explain
from peerclust.runtimes.network.transport import HANDSHAKE_TIMEOUT, Connection

# Maximum number of connections in each of the three pools of strangers.
_MAX_STRANGERS = 256

# Maximum size of a ClientHello, with its TLS record. That of a peer has 230 to 1600 bytes.
_LONGEST_HELLO = 1 << 12

# How many connections the kernel may hold, how many are accepted at once, and how many handshakes
# are started at once.
_BACKLOG, _BATCH, _STARTS = 4096, 16, 4

# Seconds until connections are accepted again if there is no file descriptor for any.
_PAUSE = 0.1

_TOO_MANY = "too many others are connecting"

T = TypeVar("T", bound=Hashable)

# Whether a connection knows the network, and where it comes from.
Source = tuple[bool, Hashable]


class Pool(Generic[T]):
    """Connections by source. If there are too many, the largest source loses its oldest one.

    Those that are `busy` are spared if the source has others.

    >>> pool, a, b = Pool(limit=3), (False, "10.0.0.1"), (False, "10.0.0.2")
    >>> pool.add(1, a), pool.add(2, b), pool.add(3, b), pool.add(4, a), pool.add(5, (True, ""))
    (None, None, None, 1, 2)
    """

    def __init__(self, limit: int, busy: Callable[[T], bool] = lambda _: False) -> None:
        self._limit, self._busy = limit, busy
        self._source: dict[T, Source] = {}
        # The connections of each source, in the order in which they came.
        self._of: dict[Source, dict[T, None]] = {}

    def __contains__(self, item: object) -> bool:
        return item in self._source

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._source))

    def add(self, item: T, source: Source) -> T | None:
        """Add a connection; return the one that was evicted for it, if any."""
        self._source[item] = source
        self._of.setdefault(source, {})[item] = None
        return self.evict() if len(self._source) > self._limit else None

    def take(self) -> T | None:
        """Remove and return the newest connection of the smallest source; None if there is none."""
        if not self._of:
            return None
        item = next(reversed(self._of[min(self._of, key=self._rank)]))
        self.discard(item)
        return item

    def evict(self) -> T | None:
        """Remove and return a connection; None if there is none."""
        if not self._of:
            return None
        largest = self._of[max(self._of, key=self._rank)]
        item = next((each for each in largest if not self._busy(each)), next(iter(largest)))
        self.discard(item)
        return item

    def _rank(self, source: Source) -> tuple[bool, int]:
        return not source[0], len(self._of[source])

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
    source: Source
    held: bytearray = field(default_factory=bytearray)
    deadline: asyncio.TimerHandle = field(init=False)


class Listener:
    """The sockets at which a peer listens, and the strangers there.

    `make` makes a connection from the bytes that were received so far. `refused` gets the host and
    the reason of each stranger that never became a connection. `server_name` is this peer's.
    """

    def __init__(
        self,
        make: Callable[[bytes], Connection],
        refused: Callable[[str, str], None],
        server_name: str,
    ) -> None:
        self._make, self._refused, self._server_name = make, refused, server_name.encode()
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        limit = min(_MAX_STRANGERS, descriptors // 6) if descriptors > 0 else _MAX_STRANGERS
        self._silent, self._waiting = Pool[_Silent](limit), Pool[_Silent](limit)
        # What is unread may well be the end of the handshake.
        self._unproved = Pool[Connection](limit, busy=Connection.has_unread)
        self._arrived = asyncio.Event()
        self._starting: asyncio.Task[None] | None = None

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
        self._starting = self._loop.create_task(self._start_handshakes())

    def close(self) -> None:
        """Stop listening, and close the connections of strangers."""
        for listening in self._sockets:
            self._loop.remove_reader(listening)
            listening.close()
        if self._starting is not None:
            self._starting.cancel()
        for silent in (*self._silent, *self._waiting):
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
                # No file descriptor is left, so the socket stays readable.
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
        # What an attacker has only one of: an IPv4 address, or an IPv6 network.
        place = IPv6Address(host).packed[:8] if ":" in host else host
        silent = _Silent(accepted, host, (False, place))
        late = f"it did not send a ClientHello in {HANDSHAKE_TIMEOUT:g} s"
        silent.deadline = self._loop.call_later(HANDSHAKE_TIMEOUT, self._drop, silent, late)
        self._loop.add_reader(accepted, self._read, silent)
        if evicted := self._silent.add(silent, silent.source):
            self._drop(evicted, _TOO_MANY)
        self._read(silent)  # its ClientHello has usually arrived already

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
                self._loop.remove_reader(silent.socket)
                self._silent.discard(silent)
                self._arrived.set()
                silent.source = (self._server_name in silent.held, silent.source[1])
                if evicted := self._waiting.add(silent, silent.source):
                    self._drop(evicted, _TOO_MANY)
            elif not data:
                self._drop(silent, "it closed the connection")

    async def _start_handshakes(self) -> None:
        while True:
            await self._arrived.wait()
            begin = thread_time()
            for _ in range(_STARTS):
                await self._start_handshake()
            # Leave as much time for everything else.
            await asyncio.sleep(thread_time() - begin)

    async def _start_handshake(self) -> None:
        silent = self._waiting.take()
        if silent is None:
            self._arrived.clear()
            return
        silent.deadline.cancel()
        connection = self._make(bytes(silent.held))
        if evicted := self._unproved.add(connection, silent.source):
            evicted.abort(_TOO_MANY)
        await self._loop.connect_accepted_socket(lambda: connection, silent.socket)

    def _forget(self, silent: _Silent) -> None:
        self._silent.discard(silent)
        self._waiting.discard(silent)
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
