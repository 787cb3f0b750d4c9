"""Which neighbors of a peer are active in a run, which are lost and which rejoin.

- After a broken connection, the neighbors reconnect and repeat frames that may have been lost. A
  neighbor is dropped only if this takes too long.
- During the set-up, a lost link makes all peers restart it (`attempts`).
- During the run, each peer publishes its active neighbors (`views`). A restored link becomes active
  after the later of its two ends' rounds; neither end passes its own round before it knows which.
- An agreement of a run (`lockstep`) begins again if a member has lost a link of it. A barrier ends
  it: a peer that has passed it knows that all others have the result, too, so that none begins
  again. A neighbor that is lost at the barrier is therefore dropped only after it.

`states` lists all states, and the causes for which a neighbor is dropped.
"""

from __future__ import annotations

import math
from collections import deque

from peerclust.errors import WireError
from peerclust.log_events import LogEvent
from peerclust.runtimes.network import messages
from peerclust.runtimes.network.attempts import SetupAttempts
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.flooding import Flooding
from peerclust.runtimes.network.link import Link
from peerclust.runtimes.network.messages import (
    Agreed,
    Bye,
    Ended,
    Heartbeat,
    LinkUp,
    Statement,
    StateRequest,
    View,
)
from peerclust.runtimes.network.record import Span, digest, is_majority, merge
from peerclust.runtimes.network.session import (
    Agreement,
    RestartSetup,
    Session,
    Stopping,
    ViewChanged,
)
from peerclust.runtimes.network.states import Cause, LinkEvent, LinkState, RunEvent, RunState
from peerclust.runtimes.network.views import MembershipViews
from peerclust.runtimes.network.wire import TAG_BYTES, Kind
from peerclust.text import sanitize

# Maximum number of changes of a peer's own neighbors of which it reports the rounds.
MAX_SPANS = 64

# The view of a peer may change so many times in an agreement, for each of its links, before its
# neighbors drop it: the agreement begins again each time.
_MAX_CHANGES = 8

# A neighbor may rejoin so many times in `timeout` seconds, and in one agreement, before it is
# dropped. The latter change this peer's own view, at most twice each, so they must be fewer than
# half of the changes that its other neighbors tolerate.
_MAX_REJOINS = 10
_MAX_REJOINS_IN_AGREEMENT = 3

# A neighbor that made no progress, until it was dropped or left, may return so many times.
_MAX_STUCK = 3


class Membership:
    """The neighbors of one peer as they take part, are lost and rejoin."""

    def __init__(self, session: Session, flooding: Flooding, attempts: SetupAttempts) -> None:
        self._session, self._flooding, self._attempts = session, flooding, attempts
        flooding.readers["view"] = self._read_view
        flooding.on_invalid, flooding.on_liar = self.drop, self._drop_liar
        graph = session.contract.graph
        self.views = MembershipViews(graph, range(graph.m), (), session.number)
        self.views_changed_at = 0.0
        self.first_round = 0
        # Whether too few peers are left, and whether this peer ever had others in the run.
        self._majority_lost = self._was_connected = False
        # The neighbors with which this peer exchanged, from a round on.
        self._spans: deque[tuple[int, tuple[int, ...]]] = deque(maxlen=MAX_SPANS)

    # The run

    def start_run(self, run: bytes, agreed: Agreed, round_: int) -> None:
        """Start a run, with the links that were agreed on and what others say of it, at a round."""
        session, gossip = self._session, self._flooding.gossip
        graph, me = session.contract.graph, session.number
        views = MembershipViews(graph, agreed.members, agreed.lost, me)
        session.move(RunEvent.START)
        session.run_id, session.run, session.at = run, run[:TAG_BYTES], round_ * session.contract.B
        session.agreement, session.agreed, session.agreed_view = None, 0, 0
        self.views, self.first_round = views, round_
        self._flooding.publish("agreed", digest(agreed))
        gossip.drop_other_runs("view", run)
        session.cancel_interrupt(RestartSetup)
        session.cancel_join()
        mine = views[session.number].counts
        for link in session.links.values():
            if link.number not in mine:
                link.move(LinkEvent.STAY_OUT)
            link.active_from = 0
            link.state_requested = False
            link.refusal = ""
        active = [link.number for link in session.links.values() if link.active]
        self._spans.append((round_, tuple(active)))
        self._publish_view()
        # Others may have started before.
        for peer in range(session.contract.graph.m):
            statement = gossip.latest(peer, "view")
            if statement is not None and peer != session.number:
                self._read_view(statement)
        for link in session.links.values():
            session.send(link, Kind.HEARTBEAT, Heartbeat(session.phase, link.active))
        self.sync_phases()

    def begin_agreement(self) -> tuple[int, ...]:
        """Begin the next agreement, in the present views; return the peers that take part."""
        session = self._session
        session.cancel_interrupt(ViewChanged)
        self.resume_rounds()
        session.move(RunEvent.AGREE)
        view, near = self.views.checksum, self.views.near
        number = session.agreed + 1 if view == session.agreed_view else 1
        members = self.connected()
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
                self._deactivate(link, None, "it was lost after an agreement", LinkEvent.RESUME)
                if offered is not None:
                    link.offer_received = offered
                    self.offer_rejoin(link)

    def end_run(self, rounds: int, residual: float) -> None:
        """End the run in a round, and publish that."""
        self._session.move(RunEvent.END)
        self._publish_view(round_=rounds, ended=Ended(rounds, residual))

    def connected(self) -> tuple[int, ...]:
        """Return the peers that can be reached over active links, and this one."""
        return self.views.component(self._session.number)

    def list_spans(self, rounds: int) -> list[tuple[int, int, int]]:
        """Return (neighbor, first, last) for the rounds in which this peer exchanged with it."""
        spans: dict[int, list[Span]] = {}
        for n, (first, counts) in enumerate(self._spans):
            last = self._spans[n + 1][0] if n + 1 < len(self._spans) else rounds
            for j in counts:
                spans.setdefault(j, []).append((first, last - 1))
        return [(j, *span) for j in sorted(spans) for span in merge(spans[j])]

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
        elif phase == "agreeing" and link.phase == "running" and not link.counts_me:
            # At the barrier of the set-up, a running neighbor is only a few exchanges ahead.
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
        rejoins = f"{link.name} rejoins from round {link.active_from} on"
        session.record_event(link.active_from, rejoins, "rejoined", link.name)
        self._publish_view(round_=link.active_from)
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

    def _deactivate(
        self, link: Link, cause: Cause | None, reason: str, event: LinkEvent = LinkEvent.DROP
    ) -> None:
        """Go on without an active neighbor, or stop if the network file says so.

        One that has ended the run is not lost: this peer came back too late, and gets its result.
        """
        session = self._session
        round_ = session.round
        if session.state is RunState.AGREEMENT_BARRIER:
            link.move(LinkEvent.DROP_AT_BARRIER)
            gone = f"{link.name} was lost after an agreement: {reason}"
            session.record_event(round_, gone, "lost", link.name, cause)
            return
        link.reset(event)
        gone = f"{link.name} was lost in round {round_}: {reason}"
        session.record_event(round_, gone, "lost", link.name, cause)
        self._publish_view(f"lost {link.name}: {reason}")
        ended = cause is Cause.ENDED and session.contract.spec.survives_loss
        if session.contract.on_loss == "stop" and not session.has_result and not ended:
            why = f"{link.name} was lost in round {round_} ({reason}), and the network file"
            session.interrupt(Stopping(f'{why} says on_loss = "stop".'))

    def _drop_liar(self, peer: int, reason: str) -> None:
        link = self._session.links.get(self._session.contract.names[peer])
        if link is not None and not link.banned:
            self.drop(link, Cause.CONTRADICTION, reason)
        else:
            self._attempts.restart_if_outdated(tell=True)

    # Views

    def _publish_view(
        self, reason: str = "", *, round_: int | None = None, ended: Ended | None = None
    ) -> None:
        """Publish this peer's active neighbors from a round on (default: this one), or its end."""
        session, author = self._session, self._flooding.author
        # The view with which a peer ends is its last.
        if session.phase == "agreeing" or (session.phase == "done" and ended is None):
            return
        links = session.links.values()
        counts = sorted(link.number for link in links if link.state is LinkState.ACTIVE)
        if counts == list(self.views[session.number].counts) and ended is None:
            return
        agreed, agreed_view = session.agreed, session.agreed_view
        if session.state is RunState.AGREEMENT_BARRIER and session.agreement is not None:
            agreed, agreed_view = session.agreement.number, session.agreement.view
        round_ = session.round if round_ is None else round_
        view = View(
            session.number, author.incarnation.start, author.next_seq("view"), round_,
            counts, sanitize(reason), ended, agreed, agreed_view,
        )  # fmt: skip
        self._flooding.publish("view", messages.pack(view))
        self._spans.append((round_, tuple(counts)))
        self._store_view(view)

    def _read_view(self, statement: Statement) -> None:
        """Store the view of another peer of this run; raise WireError if it is invalid."""
        session, view = self._session, messages.unpack(statement.body, View)
        stated = statement.origin.peer, statement.origin.start, statement.seq
        if (view.peer, view.start, view.seq) != stated:
            raise WireError("A view must be that of its origin.")
        check_view(view, session.contract)
        if session.phase == "agreeing":
            return  # it is stored when the run starts
        if statement.run != session.run_id:
            raise WireError("A view must be of this run.")
        link = session.links.get(session.contract.names[view.peer])
        if link is not None and view.ended is not None:
            link.phase = "done"
        self._store_view(view)

    def _store_view(self, view: View) -> None:
        session = self._session
        if not self.views.update(view):
            return
        self.views_changed_at = session.loop.time()
        self._check_majority()
        now = session.agreement
        if now is not None:
            has_result = view.agreed_view == now.view and view.agreed >= now.number
            gone = set(now.near.get(view.peer, ())) - set(view.counts)
            if gone and not has_result:
                session.interrupt(ViewChanged())
            self._count_change(view.peer)
        session.wake()

    def _count_change(self, peer: int) -> None:
        """Drop a neighbor whose views make an agreement begin again and again."""
        session, contract = self._session, self._session.contract
        limit = _MAX_CHANGES * len(contract.graph.neighbors(peer))
        link = session.links.get(contract.names[peer])
        last = session.agreed, session.agreed_view
        if link is not None and not link.banned and link.count_changes(last) > limit:
            self.drop(link, Cause.EXCESS, f"its view changed {limit + 1} times in an agreement")

    def _check_majority(self) -> None:
        """Say so at once if the peers that are left cannot end the run, and if they can again."""
        session, m = self._session, self._session.contract.graph.m
        here = len(self.connected())
        lost = not is_majority(here, m)
        # A peer that joins late is alone until its first link is active.
        self._was_connected |= here > 1
        if lost == self._majority_lost or session.phase != "running" or not self._was_connected:
            return
        self._majority_lost = lost
        more = m // 2 + 1 - here
        sentence = f"The majority is back: {here} of {m} peers are connected."
        if lost:
            sentence = (
                f"The majority is lost: {here} of {m} peers are left, and the run cannot"
                f" converge unless {more} return{'s' * (more == 1)}."
            )
        event = "majority-lost" if lost else "majority-back"
        session.log(LogEvent(event, sentence, connected=here))


def check_view(view: View, contract: Contract) -> None:
    """Raise WireError if a view is not possible in this network."""
    near = contract.graph.neighbors(view.peer).tolist()
    if not set(view.counts) <= set(near):
        raise WireError("A view must list only neighbors of its peer.")
    finite = view.ended is None or math.isfinite(view.ended.residual)
    if not finite or view.round > contract.max_round + 1:
        raise WireError("A view must have finite numbers and a valid round.")
