"""One connection: TCP from asyncio, TLS 1.3 from ssl, and a websocket on top.

TLS and the websocket are used without their own I/O, so that the reason why a stranger was refused
is known. The TLS context decides who may connect; the websockets library reads and writes HTTP and
frames; `node` interprets the messages.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from collections.abc import Callable, Iterator

from websockets.client import ClientProtocol
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import Protocol, State
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from peerclust.errors import WireError
from peerclust.runtimes.network.connection_errors import explain_tls
from peerclust.text import sanitize

# Seconds in which both handshakes must be finished.
HANDSHAKE_TIMEOUT = 5.0

# The maximum number of bytes read at once: from a listed peer, and from a side that has proved
# nothing yet.
_READ, _READ_UNPROVED = 1 << 18, 1 << 12
# The maximum size of the HTTP request or response that opens a websocket.
_LONGEST_OPENING = 1 << 13
# The maximum size of a TLS record. No more is decrypted at once: the websocket makes an object for
# each frame, and the shortest frames have 2 bytes.
_RECORD = 1 << 14
_ENDED = "it closed the connection"


class Connection(asyncio.BufferedProtocol):
    """A websocket over TLS, with the callbacks `secured`, `opened`, `received` and `closed`.

    `secured` is called when the other side has proved its certificate. `closed` is called once,
    with a reason, whichever side closed and even if it never opened. `server_name` is sent when
    dialing, and `first` has the bytes that were received before. Until the other side has proved
    its certificate, little memory is allocated.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        *,
        uri: str | None,
        limit: int,
        opened: Callable[[Connection], None],
        received: Callable[[Connection, bytes | memoryview], None],
        closed: Callable[[Connection, str], None],
        secured: Callable[[Connection], None] = lambda _: None,
        server_name: str | None = None,
        first: bytes = b"",
    ) -> None:
        self._buffer = memoryview(bytearray(_READ_UNPROVED))
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=uri is None, server_hostname=server_name
        )
        self._incoming.write(first)
        self._uri, self._limit = uri, limit
        # The maximum number of bytes that wait to be sent.
        self._max_backlog = (1 << 20) + 4 * limit
        self._ws: ServerProtocol | ClientProtocol
        self._opening = b""
        self._secured, self._opened, self._received = secured, opened, received
        self._closed = closed
        self._is_secured = self._is_open = self._is_closed = False
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self.certificate = b""
        # The HTTP date of the other side when it opened the websocket.
        self.date = ""
        self.gone = asyncio.Event()
        self.sent = self.heard = 0

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""
        return self._is_open and not self._is_closed and self._ws.state is State.OPEN

    @property
    def host(self) -> str:
        """The address of the other side, without its port, which differs each time."""
        address = self._transport.get_extra_info("peername") if self._transport else None
        return str(address[0]) if address else "a stranger"

    def has_unread(self) -> bool:
        """Return whether bytes have arrived that this process has had no time to read."""
        if self._transport is None:
            return False
        received = select.poll()
        received.register(self._transport.get_extra_info("socket"), select.POLLIN)
        return bool(received.poll(0))

    def send(self, message: bytes) -> None:
        """Send a message; do nothing if the connection is not open."""
        if self.is_open:
            self.sent += len(message)
            self._ws.send_binary(message)
            self._write()

    def close(self, reason: str = "", *, refused: bool = False) -> None:
        """Close the connection with a close frame."""
        if self._is_open and not self._is_closed:
            if self._ws.state is State.OPEN:
                # A close frame has at most 123 bytes for the reason.
                short = reason.encode()[:120].decode(errors="ignore")
                code = CloseCode.POLICY_VIOLATION if refused else CloseCode.NORMAL_CLOSURE
                self._ws.send_close(code, short)
            self._write()
        self._end(reason)

    def abort(self, reason: str) -> None:
        """Close the connection immediately; unsent data is lost."""
        if self._transport is not None:
            self._transport.abort()
        self._end(reason)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the handshakes."""
        assert isinstance(transport, asyncio.Transport)
        if self._is_closed:
            transport.abort()
            return
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        late = f"it did not finish its handshake in {HANDSHAKE_TIMEOUT:g} s"
        self._deadline = self._loop.call_later(HANDSHAKE_TIMEOUT, self.abort, late)
        self._advance()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Return the buffer for received bytes, the same one each time."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Process received bytes."""
        if self._is_closed:
            return
        self._incoming.write(self._buffer[:nbytes])
        self._advance()

    def eof_received(self) -> bool:
        """Close when the other side has closed."""
        self._end(_ENDED)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the loss of the connection."""
        self._end(str(exc) if exc else _ENDED)
        if self._deadline is not None:
            self._deadline.cancel()

    def _advance(self) -> None:
        try:
            if not self._is_secured:
                self._tls.do_handshake()
                self._secure()
            if not self._is_open and not self._is_closed:
                self._read_opening()
            if self._is_open:
                self._read()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._flush()
            self._end(explain_tls(error))
        except WireError as error:
            self.close(str(error), refused=True)
        if self._outgoing.pending:
            self._flush()

    def _secure(self) -> None:
        """Prepare the websocket, now that TLS is established."""
        self._is_secured = True
        self.certificate = self._tls.getpeercert(binary_form=True) or b""
        self._buffer = memoryview(bytearray(_READ))
        if self._uri is None:
            self._ws = ServerProtocol(max_size=self._limit)
        else:
            self._ws = ClientProtocol(parse_uri(self._uri), max_size=self._limit)
            self._ws.send_request(self._ws.connect())
            self._write()
        self._secured(self)

    def _read_opening(self) -> None:
        """Read to the end of the HTTP request or response that opens the websocket."""
        while self._incoming.pending or self._tls.pending():
            part = self._tls.read(_LONGEST_OPENING)
            if not part:
                self._end(_ENDED)
                return
            self._opening += part
            head, end, rest = self._opening.partition(b"\r\n\r\n")
            if end:
                self._open(head + end, rest)
                return
            if len(self._opening) > _LONGEST_OPENING:
                raise WireError("it did not open a websocket")

    def _open(self, head: bytes, rest: bytes) -> None:
        """Open the websocket; `rest` are bytes of frames that came with the HTTP headers.

        These are kept apart, since the library would otherwise read frames before it has answered.
        """
        self._ws.receive_data(head)
        for event in self._ws.events_received():
            assert isinstance(event, Request | Response)
            self.date = next(iter(event.headers.get_all("Date")), "")
            if isinstance(event, Request) and isinstance(self._ws, ServerProtocol):
                self._ws.send_response(self._ws.accept(event))
                self._write()
        if self._ws.state is not State.OPEN:
            raise WireError(str(self._ws.handshake_exc or "it did not open a websocket"))
        if self._deadline is not None:
            self._deadline.cancel()
        self._is_open = True
        self._opened(self)
        if rest and not self._is_closed:
            self._take(rest)

    def _read(self) -> None:
        """Read all received frames."""
        # Reading when nothing is pending would raise an exception, which is slow.
        while not self._is_closed and (self._incoming.pending or self._tls.pending()):
            data = self._tls.read(_RECORD)
            if not data:
                self._end(_ENDED)
                return
            self._take(data)

    def _take(self, data: bytes) -> None:
        for message in read_messages(self._ws, data):
            self.heard += len(message)
            self._received(self, message)
            if self._is_closed:
                return
        self._write()  # the answer to a ping or a close frame
        if self._ws.close_rcvd is not None:
            self._end(self._ws.close_rcvd.reason or _ENDED)

    def _write(self) -> None:
        """Send what the websocket has to send."""
        data = b"".join(self._ws.data_to_send())
        if not data:
            return
        try:
            self._tls.write(data)
        except ssl.SSLError:
            return
        self._flush()

    def _flush(self) -> None:
        data = self._outgoing.read()
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)
            if self._transport.get_write_buffer_size() > self._max_backlog:
                self.abort("it does not read what is sent to it")

    def _end(self, reason: str) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._deadline is not None:
            self._deadline.cancel()
        if self._transport is not None:
            self._transport.close()
            # Do not wait long for the other side to read the last bytes.
            self._deadline = self._loop.call_later(HANDSHAKE_TIMEOUT, self._transport.abort)
        self.gone.set()
        # Part of a reason may be what the other side sent, in any layer.
        self._closed(self, sanitize(reason))


def read_messages(ws: Protocol, data: bytes) -> Iterator[memoryview]:
    r"""Yield the messages that are complete with these bytes, or raise WireError.

    A message is one binary frame, so no more is held than a frame of at most `max_size` bytes.

    >>> ws = ClientProtocol(parse_uri("wss://a/"), state=State.OPEN, max_size=100)
    >>> [bytes(message) for message in read_messages(ws, b"\x82\x05hello\x82\x05he")]
    [b'hello']
    """
    ws.receive_data(data)
    for frame in ws.events_received():
        assert isinstance(frame, Frame)
        if frame.opcode is Opcode.BINARY and frame.fin:
            yield memoryview(frame.data).toreadonly()
        elif frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            raise WireError("a message must be one binary frame")
    if ws.parser_exc is not None:
        raise WireError(f"it sent an invalid websocket frame ({ws.parser_exc})")
