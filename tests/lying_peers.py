"""Peer processes that lie to their neighbors: apart from it, each is `peerclust peer run`."""

import itertools

import numpy as np
from msgspec import structs

from peerclust.peers import site
from peerclust.runtimes.network import (
    flooding,
    handshake,
    lockstep,
    messages,
    node,
    session,
    wire,
)
from peerclust.runtimes.network.messages import (
    Heartbeat,
    Hello,
    LinkUp,
    Record,
    SignedRecord,
    Statement,
    StateReply,
    View,
)
from peerclust.runtimes.network.record import digest
from peerclust.runtimes.network.statements import run_id
from peerclust.runtimes.network.wire import Frame, Kind
from peerclust.testing import preload

# The centers of a forged result.
FORGED = 123456.0


def _make_agreed(contract):
    d, K = len(contract.features), contract.n_clusters
    return messages.Agreed(
        members=list(range(len(contract.peers))), lost=[], mean=[0.0] * d, deviation=[1.0] * d,
        low=[-1e6] * d, high=[1e6] * d, spread=1.0, weight=100.0, W=100.0, delta=1.0, rho=1.0,
        alpha=0.1, curvature=[1.0] * K, evenness=[1.0] * K, lambda_max=4.0, lambda_2=1.0,
        processes="",
    )  # fmt: skip


def _forge(peer, copies):
    """Return a reply with a forged record, which the liar has signed as often as it likes."""
    contract = peer.session.contract
    agreed, m = _make_agreed(contract), len(contract.peers)
    centers = np.full((contract.n_clusters, len(contract.features)), FORGED)
    record = Record(
        run=run_id(contract, agreed), agreed=agreed, members=list(range(m)),
        took_part=[[(0, 9)]] * m, round=10, stopped=True, search_rounds=0, moves=0, moves_kept=0,
        residual=0.0, pooled_residual=0.0, disagreement=0.0, cost=0.0, pooled_cost=0.0,
        used=contract.n_clusters, centers=messages.pack_centers(centers),
    )  # fmt: skip
    signed, author = [], peer.flooding.author
    for _ in range(copies):
        author._seqs["record"] = 0  # a process signs only one
        signed.append(author.sign("record", digest(record), record.run))
    return StateReply(agreed, 10, record.centers, SignedRecord(record, signed))


def _says_done(arguments, directory, forge):
    """Run a peer that says that the run is over, and answers with a result of its own."""

    pack = messages.pack

    def pack_done(message):
        if isinstance(message, Hello):
            message = structs.replace(message, phase="done", counts=True)
        elif isinstance(message, Heartbeat):
            message = structs.replace(message, phase="done")
        return pack(message)

    messages.pack = pack_done
    before = node.Node.open

    def open_and_forge(self):
        self.state_transfer.make_reply = lambda: forge(self)
        before(self)

    node.Node.open = open_and_forge
    site.Site._state_reply = lambda self: forge(self.node)
    receive = node.Node._receive_message

    def answer_always(self, link, frame):
        if frame.kind is Kind.STATE_REQUEST:
            self.session.send(link, Kind.STATE_REPLY, forge(self))
        else:
            receive(self, link, frame)

    node.Node._receive_message = answer_always
    preload.run_peer(arguments, directory)


def forges_the_end(arguments, directory):
    _says_done(arguments, directory, lambda peer: _forge(peer, 1))


def signs_the_forged_end_many_times(arguments, directory):
    _says_done(arguments, directory, lambda peer: _forge(peer, 20))


def _during_the_run(arguments, directory, act, every=1):
    """Run a peer that calls act(node, n) after its n-th exchange of rounds."""
    nodes, count, create, exchange = [], {"n": 0}, node.Node.__init__, lockstep.Lockstep.exchange

    def keep(self, *given, **more):
        create(self, *given, **more)
        nodes.append(self)

    async def changed(self, kind, *rest, **more):
        heard = await exchange(self, kind, *rest, **more)
        if kind is Kind.ROUND and self._session.phase == "running":
            count["n"] += 1
            if count["n"] % every == 0:
                act(nodes[0], count["n"])
        return heard

    node.Node.__init__, lockstep.Lockstep.exchange = keep, changed
    preload.run_peer(arguments, directory)


def _state_view(self, seq, reason="", to=None, ended=False):
    """Sign a view with a sequence number of the liar's choice, and send it."""
    session, author = self.session, self.flooding.author
    near = sorted(link.number for link in session.links.values() if link.active)
    start, round_ = author.incarnation.start, session.round
    view = View(session.number, start, seq, round_, near, reason, ended)
    before = author._seqs.get("view", 0)
    author._seqs["view"] = seq - 1
    statement = author.sign("view", messages.pack(view), session.run_id)
    author._seqs["view"] = before
    assert isinstance(statement, Statement)
    for link in session.links.values():
        if to is None or link.name == to:
            session.send(link, Kind.STATEMENT, statement)


def contradicts_itself(arguments, directory):
    """Tells each neighbor another view, with the same sequence number."""

    def act(self, n):
        if n == 50:
            for name in self.session.links:
                _state_view(self, 7, reason=f"as told to {name}", to=name)

    _during_the_run(arguments, directory, act)


def states_views_far_ahead(arguments, directory):
    def act(self, n):
        if n in (50, 60):
            _state_view(self, (1 << 61) + n)

    _during_the_run(arguments, directory, act)


def states_views_ahead_in_steps(arguments, directory):
    """States two views, each further ahead than a peer that has missed the first may expect."""

    def act(self, n):
        if n in (50, 60):
            _state_view(self, (n - 40) // 10 << 20)

    _during_the_run(arguments, directory, act)


def states_ever_new_views(arguments, directory):
    def act(self, n):
        for each in range(50):
            _state_view(self, 50 * n + each, reason="x" * 900)

    _during_the_run(arguments, directory, act)


def says_that_it_ended(arguments, directory):
    """Says in its view that it has ended, and goes on."""

    def act(self, n):
        if n == 50:
            _state_view(self, 7, ended=True)

    _during_the_run(arguments, directory, act)


def invents_processes(arguments, directory):
    """Relays statements of made-up processes of others, which it cannot sign."""

    def act(self, n):
        if n == 50:
            mine = self.flooding.gossip.latest(self.session.number, "losses")
            for i in range(len(self.session.contract.peers)):
                origin = messages.Incarnation(i, 1 << 61, mine.origin.key, mine.origin.signature)
                forged = Statement(origin, b"", "losses", 1, mine.body, mine.signature)
                self.session.broadcast(Kind.STATEMENT, forged)

    _during_the_run(arguments, directory, act)


def offers_ever_new_links(arguments, directory):
    """Sends LINK_UP again and again, and states nothing itself."""

    def act(self, n):
        if n == 50:
            self.flooding.publish = lambda *_: None
            self.membership.on_link_up = lambda *_: None

            def again():
                for _ in range(20):
                    self.session.broadcast(Kind.LINK_UP, LinkUp(self.session.round))
                self.session.loop.call_later(0.02, again)

            again()

    _during_the_run(arguments, directory, act)


def pretends_to_make_progress(arguments, directory):
    """Sends no more arrays, but heartbeats of ever another exchange."""

    def act(self, n):
        if n == 50:
            session, send = self.session, self.session.send_frame
            beats = itertools.count()

            def again():
                beat = messages.pack(Heartbeat("running"))
                at = session.at + next(beats) % 2
                frame = wire.encode(Frame(Kind.HEARTBEAT, session.network, beat, session.run, at))
                for link in session.links.values():
                    send(link, frame)
                session.loop.call_later(0.1, again)

            again()
            session.send_frame = lambda link, data: (
                None if data[5] in wire.ARRAYS else send(link, data)
            )
            self.membership.drop = lambda *_: None

    _during_the_run(arguments, directory, act)


def states_nothing(arguments, directory):
    """Connects to its neighbors in the set-up, but its process is known to nobody."""
    flooding.Flooding.publish = flooding.Flooding.send_all = lambda *_: None
    preload.run_peer(arguments, directory)


def saves_its_reply(arguments, directory):
    """Keeps what it answers at the end, the signed record of the run, in the file `old`."""
    leave = site.Site.leave

    def save_and_leave(self):
        (directory / "old").write_bytes(messages.pack(self._state_reply()))
        leave(self)

    site.Site.leave = save_and_leave
    preload.run_peer(arguments, directory)


def serves_an_old_record(arguments, directory):
    """Answers with the record of an earlier run of the same network file, signed by all."""
    old = messages.unpack((directory / "old").read_bytes(), StateReply)
    _says_done(arguments, directory, lambda _: old)


def says_a_process_back(arguments, directory):
    """Says that it is the process of its peer that its neighbor names in HELLO."""
    hello, refuse, seen = handshake.Handshake.hello, handshake.Handshake.refuse, []

    def listen(self, greeting):
        seen.append(greeting.hello.known)
        refuse(self, greeting)
        return ""

    def repeat(self, link, nonce):
        frame = wire.decode(hello(self, link, nonce), limit=1 << 20)
        said = messages.unpack(frame.message, Hello)
        if seen and seen[-1] is not None:
            said = structs.replace(said, process=seen[-1], phase="running", counts=True)
        return wire.encode(frame._replace(payload=messages.pack(said)))

    handshake.Handshake.hello, handshake.Handshake.refuse = repeat, listen
    preload.run_peer(arguments, directory)


def sends_different_totals_in_the_set_up(arguments, directory):
    """Adds something to the sums of the set-up, for every other neighbor."""
    send = session.Session.send_frame

    def send_changed(self, link, data):
        if self.phase == "agreeing" and data[5] == Kind.AGREE and link.number % 2:
            frame = wire.decode(data, limit=1 << 20)
            if frame.dtype == wire.UINT64 and frame.payload.size >= 4:
                changed = frame.payload.copy()
                changed[-1] += np.uint64(1 << 30)
                data = wire.encode(frame._replace(payload=changed))
        send(self, link, data)

    session.Session.send_frame = send_changed
    preload.run_peer(arguments, directory)
