"""The state of a run, sent to peers that join late or missed the end, and taken from others.

A peer takes what more than half of all listed peers have signed; `signing` counts them.
"""

from __future__ import annotations

from collections.abc import Callable

from peerclust.errors import WireError
from peerclust.log_events import LogEvent
from peerclust.runtimes.network.link import Link
from peerclust.runtimes.network.membership import Membership
from peerclust.runtimes.network.messages import SignedRecord, StateReply
from peerclust.runtimes.network.session import Session, StateReceived
from peerclust.runtimes.network.signing import RecordSigning
from peerclust.runtimes.network.state_validation import refuse_state
from peerclust.runtimes.network.states import Cause, RunState
from peerclust.runtimes.network.wire import Kind

# A request for the state of the run is answered at most once in so many seconds.
_MIN_WAIT = 0.2


class StateTransfer:
    """Answers STATE_REQUEST with what `make_reply` returns, and handles STATE_REPLY."""

    def __init__(self, session: Session, membership: Membership, signing: RecordSigning) -> None:
        self._session, self._membership, self._signing = session, membership, signing
        self.make_reply: Callable[[], StateReply] | None = None
        # The neighbors whose results were doubted.
        self._doubted: set[Link] = set()

    def answer(self, link: Link) -> None:
        """Answer a request, if this peer has a state that the neighbor needs."""
        if self._session.phase == "running" and link.active:
            # It has restarted the set-up, which is over, and joins late.
            self._membership.drop(link, Cause.FORGOT)
        now = self._session.loop.time()
        if self.make_reply is not None and now > link.state_sent_at + _MIN_WAIT:
            link.state_sent_at = now
            self._session.send(link, Kind.STATE_REPLY, self.make_reply())

    def receive(self, link: Link, reply: StateReply) -> None:
        """Take an answer if enough peers have signed it; raise WireError if it is no state."""
        session = self._session
        must = refuse_state(session.contract, reply.agreed, reply.round, reply.centers)
        if must:
            raise WireError(f"A message of kind StateReply must {must}.")
        alone = session.state is RunState.ROUNDS and not session.active_links()
        done = reply.record is not None
        if not (link.state_requested and (session.phase == "agreeing" or (alone and done))):
            return
        if self._signing.is_confirmed(reply):
            session.interrupt(StateReceived(reply, link))
        else:
            if reply.record is not None:
                self._doubt(link, reply.record)
            # Signatures may still be on their way.
            session.loop.call_later(2 * _MIN_WAIT, self._request_again, link)

    def _doubt(self, link: Link, signed: SignedRecord) -> None:
        """Say why a neighbor's result is not taken; unless that changes in time, it is lost.

        Signatures may come, or the neighbor may start again.
        """
        session = self._session
        link.refusal = self._signing.explain_doubt(signed)
        if link not in self._doubted:
            self._doubted.add(link)
            doubted = f"The result of {link.name} is not taken: {link.refusal}."
            session.log(LogEvent("unconfirmed", doubted, peer=link.name))
            session.loop.call_later(session.contract.join_timeout, self._give_up, link)

    def _give_up(self, link: Link) -> None:
        if self._session.phase == "agreeing" and link.phase == "done" and link.active:
            self._membership.drop(link, Cause.UNCONFIRMED, link.refusal)

    def _request_again(self, link: Link) -> None:
        link.state_requested = False
        self._membership.sync_phase(link)
