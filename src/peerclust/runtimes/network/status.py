"""A local socket on which a running peer reports its status as one JSON object."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

from peerclust.errors import PeerError
from peerclust.log_events import LogEvent
from peerclust.runtimes.network.session import Session
from peerclust.runtimes.network.states import RunState

_SECONDS = 5.0


class StatusSocket:
    """A server on a Unix socket with mode 600, so that only its owner can connect."""

    def __init__(self, session: Session, path: Path, residual: Callable[[], float]) -> None:
        self._session, self._path, self._residual = session, path, residual
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Start answering; a path that cannot be used does not stop a run."""
        umask = os.umask(0o177)
        try:
            self._path.unlink(missing_ok=True)
            self._server = await asyncio.start_unix_server(self._answer, self._path)
        except OSError as error:
            # In a directory for temporary files, something of another user may be in the way.
            why = f"{self._path} cannot be listened on: {error.strerror or error}."
            why = f"{why} `peerclust peer status` gets no answer; the process continues."
            self._session.log(LogEvent("file-failed", why, file=str(self._path)))
        finally:
            os.umask(umask)

    def close(self) -> None:
        """Stop answering."""
        if self._server is not None:
            self._server.close()

    def _answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(json.dumps(describe(self._session, self._residual())).encode())
        writer.close()
        # One that does not read is not waited for.
        self._session.loop.call_later(_SECONDS, writer.transport.abort)


def describe(session: Session, residual: float) -> dict[str, object]:
    """Return the status of a peer: its round, residual, neighbors and bytes."""
    now = session.loop.time()
    neighbors = {}
    total_sent = total_heard = 0
    for name, link in session.links.items():
        sent, heard = link.traffic()
        total_sent, total_heard = total_sent + sent, total_heard + heard
        neighbors[name] = {
            "connected": link.connected,
            "counted": link.active,
            "phase": link.phase,
            "seconds_since_heard": round(now - link.heard_at, 3) if link.seen else None,
            "bytes_sent": sent,
            "bytes_heard": heard,
            "refused": link.banned or link.refusal,
        }
    return {
        "name": session.name,
        "phase": "serving" if session.state is RunState.SERVING else session.phase,
        "run": session.run_id.hex(),
        "round": session.round,
        "residual": residual if residual < float("inf") else None,
        "neighbors": neighbors,
        "bytes_sent": total_sent,
        "bytes_heard": total_heard,
        "events": [what for _, what in session.events],
    }


def ask(path: Path) -> dict[str, object]:
    """Return the status of the peer that listens on a socket."""
    try:
        # One in a directory for temporary files may be anybody's.
        if path.lstat().st_uid != os.geteuid():
            raise PeerError(f"No peer is running in {path.parent}.")
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(_SECONDS)
            line.connect(str(path))
            data = b"".join(iter(lambda: line.recv(1 << 16), b""))
        status: dict[str, object] = json.loads(data)
    except TimeoutError:
        raise PeerError(f"The peer in {path.parent} did not answer in {_SECONDS:g} s.") from None
    except (OSError, ValueError):
        raise PeerError(f"No peer is running in {path.parent}.") from None
    return status
