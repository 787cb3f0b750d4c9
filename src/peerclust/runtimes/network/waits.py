"""For whom peers wait, so that a peer that waits for others is not taken for stuck."""

from __future__ import annotations

from collections.abc import Callable, Collection

from peerclust.errors import WireError
from peerclust.runtimes.network import messages
from peerclust.runtimes.network.flooding import Flooding
from peerclust.runtimes.network.link import Link
from peerclust.runtimes.network.lockstep import Lockstep
from peerclust.runtimes.network.messages import Statement, Waits
from peerclust.runtimes.network.session import Session


class WaitsFor:
    """The graph of who waits for whom; `connected` returns the peers of this peer's component."""

    def __init__(
        self,
        session: Session,
        flooding: Flooding,
        lockstep: Lockstep,
        connected: Callable[[], Collection[int]],
    ) -> None:
        self._session, self._flooding, self._lockstep = session, flooding, lockstep
        self._connected = connected
        flooding.readers["waits"] = self._read
        # What peers said, and when; and when this peer last did.
        self._stated: dict[int, tuple[Waits, float]] = {}
        self._stated_at = 0.0

    def state(self, now: float) -> None:
        """State for whom this peer waits if it has done so for a while."""
        session, lockstep = self._session, self._lockstep
        since = max(lockstep.awaited_since, self._stated_at)
        if lockstep.awaited is None or now - since < session.contract.timeout / 2:
            return
        self._stated_at = now
        waits = Waits(session.run, sorted(lockstep.missing))
        self._flooding.publish("waits", messages.pack(waits))

    def count_awaited(self, link: Link, now: float) -> int:
        """Return for how many others a neighbor waits whose frame is missing, by what peers say.

        It counts those for which these wait in turn. It is 0 if the neighbor says to wait for this
        peer, which has sent its frame. A peer waits longer for one that waits for others than these
        wait for each other, so that those next to a liar, or to a peer that is stuck, drop it.
        """
        me = {self._session.number}
        edge = self._awaited_by(link.number, now)
        if edge & me:
            return 0
        seen: set[int] = set()
        while edge:
            seen |= edge
            edge = set().union(*(self._awaited_by(i, now) for i in edge)) - seen - me
        return len(seen)

    def _awaited_by(self, peer: int, now: float) -> set[int]:
        """Return the peers for which a peer says to wait, but those that are lost."""
        session = self._session
        waits, at = self._stated.get(peer, (None, 0.0))
        fresh = now - at <= 2.0 * session.contract.timeout
        if waits is None or not fresh or waits.run != session.run:
            return set()
        awaited = set(waits.neighbors)
        return awaited & set(self._connected()) if session.phase == "running" else awaited

    def _read(self, statement: Statement) -> None:
        waits, peer = messages.unpack(statement.body, Waits), statement.origin.peer
        near = self._session.contract.graph.neighbors(peer).tolist()
        if not set(waits.neighbors) <= set(near):
            raise WireError("A peer must wait only for neighbors.")
        self._stated[peer] = waits, self._session.loop.time()
