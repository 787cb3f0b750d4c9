"""One node with fake connections that record what is sent, and what its neighbors do."""

import asyncio

import numpy as np

from joined_nodes import make_agreed
from peerclust.runtimes.network import messages, wire
from peerclust.runtimes.network.handshake import Greeting
from peerclust.runtimes.network.messages import (
    Hello,
    Losses,
    Proof,
    Record,
)
from peerclust.runtimes.network.states import Cause, LinkState, RunEvent
from peerclust.runtimes.network.wire import Frame, Kind

RUN_ID = b"the run! And 24 bytes more of it"
RUN = RUN_ID[: wire.TAG_BYTES]
X = np.arange(6.0).reshape(3, 2)
EVERYONE = (0, 1, 2)
OWN, THEIRS = b"the node's nonce, by its 32 bytes", b"its neighbor's, for the same proof"


class Line:
    """A connection that records what is sent."""

    def __init__(self):
        self.said, self.is_open, self.reason = [], True, None
        self.sent = self.heard = 0

    def send(self, data):
        self.said.append(wire.decode(data, limit=1 << 22))

    def close(self, reason="", *, refused=False):
        self.is_open, self.reason = False, reason

    abort = close

    def kinds(self):
        return [frame.kind for frame in self.said]


def greet(node, process, **said):
    """Let a neighbor connect, send HELLO and PROOF; return its connection and the answer."""
    line, name, mine = (
        Line(),
        node.session.contract.names[process.incarnation.peer],
        node.flooding.author.incarnation,
    )
    values = {"known": mine, "phase": "agreeing", "counts": True, **said}
    hello = Hello(name, process.incarnation, nonce=THEIRS, settings="{}", **values)
    frame = Frame(Kind.HELLO, node.session.network, b"", node.session.run, node.session.at)
    proof = Proof(process.prove(mine, THEIRS, OWN))
    greeting = Greeting(node.session.links[name], line, hello, frame, OWN)
    return line, node.handshake.refuse(greeting) or node.handshake.accept(greeting, proof)


def state(node, by, statement):
    """Let a neighbor send a statement."""
    said = messages.pack(statement)
    node.on_frame(
        node.session.links[by],
        Frame(Kind.STATEMENT, node.session.network, said, node.session.run, node.session.at),
    )


def lost(process, *neighbors):
    """Return what a process states about the neighbors that it has lost."""
    return process.sign("losses", messages.pack(Losses(list(neighbors))))


def round_frame(node, x=X, **changes):
    return Frame(Kind.ROUND, node.session.network, x, RUN, node.session.at)._replace(**changes)


def play(node, *frames, check=lambda _: "", x=X):
    """Make an exchange in which these frames come, as (name, frame)."""
    for step, (name, frame) in enumerate(frames):
        node.session.loop.call_later(0.001 * step, node.on_frame, node.session.links[name], frame)

    async def limited():
        async with asyncio.timeout(5):
            return await node.lockstep.exchange(Kind.ROUND, x, check, s=4, R=9, view=7)

    return node.session.loop.run_until_complete(limited())


def come_back(node, process):
    """Lose a neighbor and let it return, so that it is sent the current round."""
    link = node.session.links[node.session.contract.names[process.incarnation.peer]]
    node.membership.drop(link, Cause.SILENT, "it was silent")
    link.detach()
    greet(node, process, phase="running", counts=False)
    assert (link.state, link.offered) == (LinkState.OFFERED, node.session.round)


def link_up(node, link, round_):
    said = messages.pack(messages.LinkUp(round_))
    node.on_frame(link, Frame(Kind.LINK_UP, node.session.network, said, RUN, round_))


def start_setup(node, run, members=EVERYONE):
    """Let a node begin an attempt at the set-up."""
    node.session.move(RunEvent.MEET)
    node.attempts.start(run, members)


def begin_setup(node, processes):
    """Begin a set-up of processes that are all known."""
    for name, process in processes.items():
        state(node, name, lost(process))
    node.session._interrupt = None
    start_setup(node, RUN)


def make_record(members=EVERYONE, **given):
    """Return the record of a run of these members, K = 3 and d = 2."""
    numbers = dict.fromkeys(
        ("residual", "pooled_residual", "disagreement", "cost", "pooled_cost"), 1e-9
    )
    counts = dict.fromkeys(("round", "search_rounds", "moves", "moves_kept", "used"), 3)
    plain = {"centers": messages.pack_centers(X), "took_part": [[(0, 2)]] * 3, "run": RUN_ID}
    return Record(
        agreed=agreed_on(members), members=list(members), stopped=True,
        **numbers, **counts, **plain | given,
    )  # fmt: skip


def agreed_on(members=EVERYONE):
    lost = [(i, i + 1) for i in range(2) if not {i, i + 1} <= set(members)]
    two, three = [1.0, 2.0], [1.0] * 3
    given = {"mean": two, "deviation": two, "low": two, "high": two}
    return make_agreed(members, lost, curvature=three, evenness=three, **given)


def lie_of(process, node, by):
    """Let a neighbor relay two statements in the same place; return both."""
    one = process.sign("presence", b"one", RUN_ID)
    process._seqs["presence"] -= 1
    two = process.sign("presence", b"two", RUN_ID)
    state(node, by, one)
    state(node, by, two)
    return one, two
