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
        waits = Waits(session.run, *self._place(), sorted(lockstep.missing))
        self._flooding.publish("waits", messages.pack(waits))

    def measure_chain(self, link: Link, now: float) -> int:
        """Return how many peers wait for each other, one after the other, from a neighbor on.

        It is 0 if the neighbor waits for nobody. A peer waits only for others that are in an
        earlier exchange than itself, so what says otherwise is a lie and ends the chain. Whatever a
        liar says, a chain is longer by one for a peer that waits for a neighbor of the liar than
        for that neighbor itself. So the neighbor, which is less patient, drops the liar first.
        """
        number, exchange = self._place()
        known: dict[int, int] = {}

        def measure(peer: int, before: int) -> int:
            waits = self._latest(peer, now)
            if waits is None or waits.agreement != number or waits.exchange >= before:
                return 0
            if peer not in known:
                awaited = self._taking_part(waits.neighbors)
                known[peer] = max((1 + measure(i, waits.exchange) for i in awaited), default=0)
            return known[peer]

        return measure(link.number, exchange)

    def _place(self) -> tuple[int, int]:
        """Return the agreement, 0 if there is none, and the exchange in which this peer is."""
        now = self._session.agreement
        return (0, self._session.at) if now is None else (now.number, now.at)

    def _latest(self, peer: int, now: float) -> Waits | None:
        """Return what a peer said lately about this run."""
        waits, at = self._stated.get(peer, (None, 0.0))
        fresh = now - at <= 2.0 * self._session.contract.timeout
        return waits if waits is not None and fresh and waits.run == self._session.run else None

    def _taking_part(self, peers: list[int]) -> set[int]:
        """Return those of some peers that are not lost."""
        connected = self._connected() if self._session.phase == "running" else peers
        return set(peers) & set(connected)

    def _read(self, statement: Statement) -> None:
        waits, peer = messages.unpack(statement.body, Waits), statement.origin.peer
        near = self._session.contract.graph.neighbors(peer).tolist()
        if not set(waits.neighbors) <= set(near):
            raise WireError("A peer must wait only for neighbors.")
        self._stated[peer] = waits, self._session.loop.time()
