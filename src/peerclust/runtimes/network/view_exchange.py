"""How a peer publishes its active neighbors in a run, and follows the views of the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from peerclust.errors import WireError
from peerclust.log_events import LogEvent
from peerclust.runtimes.network import messages
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.flooding import Flooding
from peerclust.runtimes.network.link import Link
from peerclust.runtimes.network.messages import Agreed, Statement, View
from peerclust.runtimes.network.record import Span, is_majority, merge
from peerclust.runtimes.network.session import Session, Stopping, ViewChanged
from peerclust.runtimes.network.states import Cause, LinkState, RunState
from peerclust.runtimes.network.views import MembershipViews
from peerclust.text import sanitize

# Maximum number of changes of a peer's own neighbors of which it reports the rounds.
MAX_SPANS = 64

# The view of a peer may change so many times in an agreement, for each of its links, before its
# neighbors drop it: the agreement begins again each time.
_MAX_CHANGES = 8


class ViewExchange:
    """The views of all peers, as one of them learns of them.

    `changed_at` is when the last one came, and `first_round` the first round of this process in the
    run. `on_excess` is called with a neighbor that changes its view too often.
    """

    def __init__(self, session: Session, flooding: Flooding) -> None:
        self._session, self._flooding = session, flooding
        flooding.readers["view"] = self._read
        self.on_excess: Callable[[Link, Cause, str], None] = lambda *_: None
        graph = session.contract.graph
        self.views = MembershipViews(graph, range(graph.m), (), session.number)
        self.changed_at = 0.0
        self.first_round = 0
        # Whether too few peers are left, and whether this peer ever had others in the run.
        self._majority_lost = self._was_connected = False
        # The neighbors with which this peer exchanged, from a round on.
        self._spans: deque[tuple[int, tuple[int, ...]]] = deque(maxlen=MAX_SPANS)

    def start(self, agreed: Agreed, round_: int) -> MembershipViews:
        """Start from what was agreed on, at a round; return the views."""
        session = self._session
        graph, me = session.contract.graph, session.number
        self.views = MembershipViews(graph, agreed.members, agreed.lost, me)
        self.first_round = round_
        self._flooding.gossip.drop_other_runs("view", session.run_id)
        return self.views

    def catch_up(self) -> None:
        """Publish this peer's view if it differs from what was agreed on, and read the others'."""
        session = self._session
        active = [link.number for link in session.links.values() if link.active]
        self._spans.append((self.first_round, tuple(active)))
        self.publish()
        # Others may have started before.
        for peer in range(session.contract.graph.m):
            statement = self._flooding.gossip.latest(peer, "view")
            if statement is not None and peer != session.number:
                self._read(statement)

    def skip_rounds(self, round_: int) -> None:
        """Note that this peer goes on in a later round, its first one if it was in none before."""
        if self._session.round == self.first_round:
            self.first_round = round_

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

    def publish(self, reason: str = "", *, round_: int | None = None, ended: bool = False) -> None:
        """Publish this peer's active neighbors from a round on (default: this one), or its end."""
        session, author = self._session, self._flooding.author
        # The view with which a peer ends is its last.
        if session.phase == "agreeing" or (session.phase == "done" and not ended):
            return
        links = session.links.values()
        counts = sorted(link.number for link in links if link.state is LinkState.ACTIVE)
        if counts == list(self.views[session.number].counts) and not ended:
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
        self._store(view)

    def _read(self, statement: Statement) -> None:
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
        if link is not None and view.ended:
            link.phase = "done"
        self._store(view)

    def _store(self, view: View) -> None:
        session = self._session
        lost = set(self.views[view.peer].counts) - set(view.counts)
        if not self.views.update(view):
            return
        self.changed_at = session.loop.time()
        self._check_majority()
        now = session.agreement
        if now is not None:
            has_result = view.agreed_view == now.view and view.agreed >= now.number
            gone = set(now.near.get(view.peer, ())) - set(view.counts)
            if gone and not has_result:
                session.interrupt(ViewChanged())
            self._count_change(view.peer)
        if lost and view.peer != session.number:
            self._stop_if_fixed(view, lost)
        session.wake()

    def _stop_if_fixed(self, view: View, lost: Iterable[int]) -> None:
        """Stop if another peer has lost neighbors and the solver cannot go on without them.

        The peer stops, too, if it is honest.
        """
        session, spec = self._session, self._session.contract.spec
        if spec.survives_loss or session.has_result:
            return
        names = session.contract.names
        gone = " and ".join(names[j] for j in sorted(lost))
        reason = f"{names[view.peer]} {sanitize(view.reason) or 'gives no reason'}"
        fixed = f"and the solver {spec.name!r} needs a fixed graph"
        session.interrupt(Stopping(f"{gone} was lost in round {view.round} ({reason}), {fixed}."))

    def _count_change(self, peer: int) -> None:
        """Drop a neighbor whose views make an agreement begin again and again."""
        session, contract = self._session, self._session.contract
        limit = _MAX_CHANGES * len(contract.graph.neighbors(peer))
        link = session.links.get(contract.names[peer])
        last = session.agreed, session.agreed_view
        if link is not None and not link.banned and link.count_changes(last) > limit:
            self.on_excess(
                link, Cause.EXCESS, f"its view changed {limit + 1} times in an agreement"
            )

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
                f" converge unless {more} more {'peer returns' if more == 1 else 'peers return'}."
            )
        event = "majority-lost" if lost else "majority-back"
        session.log(LogEvent(event, sentence, connected=here))


def check_view(view: View, contract: Contract) -> None:
    """Raise WireError if a view is not possible in this network."""
    near = contract.graph.neighbors(view.peer).tolist()
    if not set(view.counts) <= set(near):
        raise WireError("A view must list only neighbors of its peer.")
    if view.round > contract.max_round + 1:
        raise WireError("A view must have a round of the run.")
