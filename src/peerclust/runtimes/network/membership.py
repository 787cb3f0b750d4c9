"""Which neighbors of a peer are active in a run, which are lost and which rejoin.

- After a broken connection, the neighbors reconnect and repeat frames that may have been lost. A
  neighbor is dropped only if this takes too long.
- During the set-up, a lost link makes all peers restart it (`attempts`).
- During the run, each peer publishes its active neighbors (`view_exchange`). A restored link
  becomes active after the later of its two ends' rounds; neither end passes its own round before it
  knows which.
- An agreement of a run (`lockstep`) begins again if a member has lost a link of it. A barrier ends
  it: a peer that has passed it knows that all others have the result, too, so that none begins
  again. A neighbor that is lost at the barrier is therefore dropped only after it.

`states` lists all states, and the causes for which a neighbor is dropped.
"""

from __future__ import annotations

from peerclust.errors import WireError
from peerclust.runtimes.network.attempts import SetupAttempts
from peerclust.runtimes.network.flooding import Flooding
from peerclust.runtimes.network.link import Link
from peerclust.runtimes.network.messages import (
    Agreed,
    Bye,
    Heartbeat,
    LinkUp,
    StateRequest,
)
from peerclust.runtimes.network.record import digest
from peerclust.runtimes.network.session import (
    Agreement,
    RestartSetup,
    Session,
    Stopping,
    ViewChanged,
)
from peerclust.runtimes.network.states import Cause, LinkEvent, LinkState, RunEvent, RunState
from peerclust.runtimes.network.view_exchange import ViewExchange
from peerclust.runtimes.network.views import MembershipViews
from peerclust.runtimes.network.wire import TAG_BYTES, Kind
from peerclust.text import sanitize

# A neighbor may rejoin so many times in `timeout` seconds, and in one agreement, before it is
# dropped. The latter change this peer's own view, at most twice each, so they must be fewer than
# half of the changes that its other neighbors tolerate.
_MAX_REJOINS = 10
_MAX_REJOINS_IN_AGREEMENT = 3

# A neighbor that made no progress, until it was dropped or left, may return so many times.
_MAX_STUCK = 3


class Membership:
    """The neighbors of one peer as they take part, are lost and rejoin."""

    def __init__(
        self,
        session: Session,
        flooding: Flooding,
        attempts: SetupAttempts,
        exchange: ViewExchange,
    ) -> None:
        self._session, self._flooding, self._attempts = session, flooding, attempts
        self._exchange = exchange
        exchange.on_excess = self.drop
        flooding.on_invalid, flooding.on_liar = self.drop, self._drop_liar

    # The run

    def start_run(self, run: bytes, agreed: Agreed, round_: int) -> None:
        """Start a run, with the links that were agreed on and what others say of it, at a round."""
        session = self._session
        session.move(RunEvent.START)
        session.run_id, session.run, session.at = run, run[:TAG_BYTES], round_ * session.contract.B
        session.agreement, session.agreed, session.agreed_view = None, 0, 0
        self._flooding.publish("agreed", digest(agreed))
        session.cancel_interrupt(RestartSetup)
        session.cancel_join()
        views = self._exchange.start(agreed, round_)
        for link in session.links.values():
            if link.number not in views[session.number].counts:
                link.move(LinkEvent.STAY_OUT)
            link.active_from = 0
            link.state_requested = False
            link.refusal = ""
            link.start_run(session.run)
        self._exchange.catch_up()
        for link in session.links.values():
            session.send(link, Kind.HEARTBEAT, Heartbeat(session.phase))
        self.sync_phases()

    @property
    def views(self) -> MembershipViews:
        """The active neighbors of every peer."""
        return self._exchange.views

    def begin_agreement(self) -> tuple[int, ...]:
        """Begin the next agreement, in the present views; return the peers that take part."""
        session = self._session
        session.cancel_interrupt(ViewChanged)
        self.resume_rounds()
        session.move(RunEvent.AGREE)
        view, near = self.views.checksum, self.views.near
        number = session.agreed + 1 if view == session.agreed_view else 1
        members = self._exchange.connected()
        session.agreement = Agreement(
            number, view, {i: near[i] for i in members}, frozenset(near[session.number])
        )
        return members

    def end_agreement(self) -> None:
        """Return to the rounds."""
        session = self._session
        assert session.agreement is not None
        done, session.agreement = session.agreement, None
        session.agreed, session.agreed_view = done.number, done.view
        # Neighbors that were lost at the barrier are dropped when the next round begins.
        session.cancel_interrupt(ViewChanged)
        session.move(RunEvent.RESUME)
        for link in session.links.values():
            link.end_agreement(done.number, done.view)

    def resume_rounds(self) -> None:
        """Go on without the neighbors that were lost at the barrier of an agreement."""
        session = self._session
        session.agreement = None
        session.move(RunEvent.RESUME)
        for link in session.links.values():
            if link.leaving:
                offered = link.offer_received
                self._go_on_without(link, link.lost_for, LinkEvent.RESUME)
                if offered is not None:
                    link.offer_received = offered
                    self.offer_rejoin(link)

    def end_run(self, rounds: int) -> None:
        """End the run in a round, and publish that."""
        self._session.move(RunEvent.END)
        self._exchange.publish(round_=rounds, ended=True)

    # Joining

    def sync_phases(self) -> None:
        """Act on the phases of all neighbors."""
        for link in self._session.links.values():
            self.sync_phase(link)

    def sync_phase(self, link: Link) -> None:
        """Act on the phases of both ends: offer to rejoin, or request the state of the run."""
        session = self._session
        phase = session.phase
        if not link.connected or (link.active and phase == "running"):
            return
        if phase == "agreeing" and link.phase == "done":
            self.request_state(link)
        elif phase == "agreeing" and link.phase == "running":
            # At the barrier of the set-up, a running neighbor is only a few exchanges ahead. If
            # this peer has restarted the set-up, that neighbor waits for it in vain.
            if session.state is not RunState.SETUP_BARRIER:
                self.request_state(link)
        elif phase == "running" and link.phase == "running":
            if link.run == session.run:
                self.offer_rejoin(link)
            else:
                reason = "it is in another run, which started without this one's peers"
                self.drop(link, Cause.OTHER_RUN, reason)

    def request_state(self, link: Link) -> None:
        """Request the state of the run from a neighbor, once per connection."""
        if link.connected and not link.state_requested:
            link.state_requested = True
            self._session.send(link, Kind.STATE_REQUEST, StateRequest())

    def offer_rejoin(self, link: Link) -> None:
        """Send the round after which the link may be active; it is once both ends have sent one."""
        session = self._session
        if session.phase != "running" or link.active:
            return
        if link.state is LinkState.OUT:
            link.move(LinkEvent.OFFER)
            link.offered, link.offered_at = session.round, session.loop.time()
            session.send(link, Kind.LINK_UP, LinkUp(session.round))
        if link.offer_received is None:
            return
        often = link.count_rejoins(session.loop.time(), session.contract.timeout) > _MAX_REJOINS
        if session.agreement is not None:
            place = session.agreed, session.agreed_view
            often |= link.count_rejoins_in(place) > _MAX_REJOINS_IN_AGREEMENT
        if often:
            self.drop(link, Cause.EXCESS, "it left and rejoined too often")
            return
        link.active_from = max(link.offered, link.offer_received) + 1
        link.offer_received = None
        link.move(LinkEvent.REJOIN)
        rejoins = f"{link.name} and {session.name} exchange from round {link.active_from} on"
        session.record_event(link.active_from, rejoins, "rejoined", link.name)
        self._exchange.publish(round_=link.active_from)
        # Before it was in the run, it could not know which views are of this run.
        self._flooding.send_all(link)

    def on_link_up(self, link: Link, up: LinkUp) -> None:
        """Handle a neighbor's offer to rejoin."""
        session = self._session
        if up.round > session.contract.max_round:
            raise WireError("A message of kind LinkUp must have a round of the run.")
        if session.phase != "running":
            return
        if link.active:
            self.drop(link, Cause.FORGOT)
        if link.banned:
            return
        link.phase, link.offer_received = "running", up.round
        self.offer_rejoin(link)
        session.wake()

    # Losses

    def drop(self, link: Link, cause: Cause, reason: str = "") -> None:
        """Go on without a neighbor, for the rest of the run unless it may return."""
        session, reason = self._session, reason or cause.description
        if link.stalled > session.contract.patience / 2:
            # It is no excuse that it left before it was dropped for that.
            link.stalled, link.stuck = 0.0, link.stuck + 1
            cause = cause if link.stuck <= _MAX_STUCK else Cause.EXCESS
        if not cause.returns:
            link.banned = reason
        if session.phase == "agreeing":
            self._attempts.leave_out(link, cause, reason)
        elif link.active:
            self._deactivate(link, cause, reason)
        elif link.banned:
            link.reset()
            refused = f"{link.name} is refused: {reason}"
            session.record_event(session.round, refused, "refused", link.name, cause)
        if link.connection is not None and cause.disconnects:
            # It drops this peer, too.
            if link.banned:
                session.send(link, Kind.BYE, Bye("refuses", sanitize(reason)))
            link.connection.close(reason, refused=bool(link.banned))
        session.wake()

    def _deactivate(self, link: Link, cause: Cause, reason: str) -> None:
        """Go on without an active neighbor; at the barrier of an agreement, once that is passed."""
        session, link.lost_for = self._session, (cause, reason)
        complete = session.state is RunState.AGREEMENT_BARRIER
        when = "after an agreement" if complete else f"in round {session.round}"
        gone = f"{link.name} was lost {when}: {reason}"
        session.record_event(session.round, gone, "lost", link.name, cause)
        if complete:
            link.move(LinkEvent.DROP_AT_BARRIER)
        else:
            self._go_on_without(link, link.lost_for, LinkEvent.DROP)

    def _go_on_without(self, link: Link, why: tuple[Cause, str], event: LinkEvent) -> None:
        """Exclude a lost neighbor from exchanges, or stop if the network file says so.

        One that has ended the run is not lost: this peer came back too late, and gets its result.
        """
        session, (cause, reason) = self._session, why
        link.reset(event)
        self._exchange.publish(f"lost {link.name}: {reason}")
        ended = cause is Cause.ENDED and session.contract.spec.survives_loss
        if session.contract.on_loss == "stop" and not session.has_result and not ended:
            lost = f"{link.name} was lost in round {session.round} ({reason}), and the network file"
            session.interrupt(Stopping(f'{lost} says on_loss = "stop".'))

    def _drop_liar(self, peer: int, reason: str) -> None:
        link = self._session.links.get(self._session.contract.names[peer])
        if link is not None and not link.banned:
            self.drop(link, Cause.CONTRADICTION, reason)
        else:
            self._attempts.restart_if_outdated(tell=True)
