"""Nodes of peers in one event loop, joined by connections in memory; a test may cut a peer off."""

import asyncio
import random
import tempfile
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from peer_runs import make_path_contract
from peerclust import theory
from peerclust.peers.verdict import make_record
from peerclust.programs.certificate import Certify
from peerclust.programs.dgc import DGC
from peerclust.runtimes.network import wire
from peerclust.runtimes.network.collectives import active_graph
from peerclust.runtimes.network.identity import make_identity, read_certificate
from peerclust.runtimes.network.messages import Agreed
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.plan import RunPlan
from peerclust.runtimes.network.rounds import IsolatedError, RoundLoop
from peerclust.runtimes.network.statements import run_id
from peerclust.runtimes.network.states import Cause
from peerclust.theory import Curvature
from peerclust.users import Users


@cache
def _key_directory():
    return tempfile.TemporaryDirectory()


@cache
def identity_of(name):
    """Return an identity, made once for all tests."""
    return make_identity(name, Path(_key_directory().name))


def make_contract(graph, **settings):
    links = tuple((f"p{i}", f"p{j}") for i, j in graph.pairs)
    contract = make_path_contract(graph.m, links=links, **{"search": "none"} | settings)
    return replace(contract, peers=tuple(map(_with_certificate, contract.peers)))


def _with_certificate(peer):
    return replace(peer, certificate=read_certificate(identity_of(peer.name).certificate))


def make_agreed(members, lost=(), **given):
    """Return an agreement of these members, on numbers that no test depends on."""
    plain = {
        "mean": [0.0], "deviation": [1.0], "low": [-9.0], "high": [9.0], "spread": 1.0,
        "weight": 100.0, "W": 20.0, "delta": 1.0, "rho": 2.0, "alpha": 0.01, "curvature": [1.0] * 2,
        "evenness": [1.0] * 2, "lambda_max": 4.0, "lambda_2": 0.5, "processes": "5f" * 32,
    }  # fmt: skip
    return Agreed(list(members), list(lost), **plain | given)


class Line:
    """One end of a connection: frames reach the other end in order, after a random delay."""

    def __init__(self, net, sender, receiver):
        self.net, self.sender, self.receiver = net, sender, receiver
        self.is_open, self.sent, self.heard, self.frames = True, 0, 0, []

    def send(self, data):
        if self.is_open:
            frame = wire.decode(data, limit=1 << 22)
            self.frames.append(frame)
            self.net.later(self, lambda: self._arrive(frame))

    def _arrive(self, frame):
        node = self.net.nodes[self.receiver]
        if self.receiver not in self.net.dead:
            node.on_frame(node.session.links[f"p{self.sender}"], frame)

    def close(self, reason="", *, refused=False):
        self.is_open = False

    abort = close


class JoinedNodes:
    """The nodes of a graph's peers, all of them active in round 0 of a run, or in its set-up."""

    def __init__(self, graph, *, seed=0, running=True, **settings):
        self.contract = make_contract(graph, **settings)
        self.loop, self.dead = asyncio.new_event_loop(), set()
        self.random, self._queues = random.Random(seed), {}
        self.nodes = []
        for name in self.contract.names:
            node = Node(self.contract, name, identity_of(name))
            node.session.loop.close()
            node.session.loop = self.loop
            self.nodes.append(node)
        everyone = tuple(range(graph.m))
        self.agreed = make_agreed(everyone)
        for i, node in enumerate(self.nodes):
            for link in node.session.links.values():
                link.connection, link.seen = Line(self, i, link.number), True
            node.attempts.start(b"a set-up", everyone)
            if running:
                for link in node.session.links.values():
                    link.phase = "running"
                node.membership.start_run(run_id(self.contract, self.agreed), self.agreed, 0)
        self.sent = {}
        for i, node in enumerate(self.nodes):
            for link in node.session.links.values():
                self.sent[i, link.number] = link.connection.frames

    def later(self, line, call):
        """Call in the order of the calls for this line, after some steps of the loop."""
        queue = self._queues.setdefault(line, [])
        queue.append(call)
        if len(queue) == 1:
            self._step(queue, self.random.randrange(3))

    def _step(self, queue, wait):
        if wait:
            self.loop.call_soon(self._step, queue, wait - 1)
            return
        queue[0]()
        queue.pop(0)
        if queue:
            self._step_soon(queue)

    def _step_soon(self, queue):
        self.loop.call_soon(self._step, queue, self.random.randrange(3))

    def cut_off(self, i):
        """Lose a peer: its neighbors notice that one after the other."""
        self.dead.add(i)
        for link in self.nodes[i].session.links.values():
            if link.connection is not None:
                link.connection.is_open = False
            other = self.nodes[link.number]
            self.loop.call_later(
                0.002 * self.random.random(), self._notice, other, other.session.links[f"p{i}"]
            )

    def _notice(self, node, link):
        if node.session.phase != "done" and node.session.number not in self.dead:
            link.detach()
            node.membership.drop(link, Cause.SILENT, "it was silent")

    def run(self, coroutines):
        """Run one coroutine per peer, but those that are cut off; return their results."""

        async def limited():
            tasks = {i: self.loop.create_task(each) for i, each in enumerate(coroutines)}
            async with asyncio.timeout(20):
                while waiting := {t for i, t in tasks.items() if i not in self.dead}:
                    _, left = await asyncio.wait(waiting, timeout=0.02)
                    if not left:
                        break
            for i in self.dead:
                tasks[i].cancel()
            return {i: task.result() for i, task in tasks.items() if i not in self.dead}

        return self.loop.run_until_complete(limited())

    def settle(self):
        """Let all frames arrive that are under way."""

        async def wait():
            async with asyncio.timeout(20):
                while any(self._queues.values()) or any(n.flooding._waiting for n in self.nodes):
                    await asyncio.sleep(0.01)

        self.loop.run_until_complete(wait())

    def close(self):
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


class Run:
    """A run of DGC by joined nodes, K = 2 on rows (n, 1) of each peer."""

    def __init__(self, graph, parts, *, rho=2.0, tol=1e-3, rounds=400, curvature=None, **given):
        given = {"on_loss": "continue", "join_timeout": 0.1, "timeout": 0.2} | given
        self.net = JoinedNodes(graph, tol=tol, rounds=rounds, **given)
        self.parts, self.records = parts, {}
        lambda_max, lambda_2 = graph.lambda_max.value, graph.lambda_2.value
        W = max(len(part) for part in parts)
        alpha = theory.safe_step(beta=1.0, W=W, rho=rho, lambda_max=lambda_max)
        self.program = DGC(rho=rho, alpha=alpha)
        self.x = np.array([[[-1.0], [1.0]]])
        rows = np.concatenate(parts)
        half = np.array([(rows < 0).sum(), (rows >= 0).sum()]) / graph.m
        self.spread = float(rows.std())
        self.certify = Certify(graph.m, rho=rho, lambda_2=lambda_2)
        self.journals = [[] for _ in parts]
        self.loops = [
            RoundLoop(
                node,
                RunPlan(
                    self.net.contract,
                    self.program,
                    self.certify,
                    Users(part, np.array([0, len(part)])),
                    spread=self.spread,
                ),
                self.x,
                0,
                curvature=Curvature(
                    np.empty((0, 2)), half if curvature is None else curvature, np.ones(2)
                ),
                check=lambda _: "",
                journal=self._make_journal(i),
            )
            for i, (node, part) in enumerate(zip(self.net.nodes, parts, strict=True))
        ]

    def _make_journal(self, i):
        def write(event):
            return lambda *values: self.journals[i].append((event, *values))

        return SimpleNamespace(start=write("start"), heard=write("heard"), end=write("end"))

    def outcomes(self, plan=lambda loop, start: loop.plan.first(start)):
        """Return the outcome of each peer that was not cut off, and is not left alone."""

        async def try_to_run(i, loop):
            with suppress(IsolatedError):
                outcome = await loop._run(partial(plan, loop))
                make = partial(make_record, self.net.contract, self.net.agreed, outcome)
                self.records[i] = await loop.sign_record(outcome, make)
                return outcome

        try:
            ended = self.net.run([try_to_run(i, each) for i, each in enumerate(self.loops)])
            self.net.settle()
            return {i: outcome for i, outcome in ended.items() if outcome is not None}
        finally:
            self.net.close()

    def living(self, members):
        graph = self.net.contract.graph
        lost = self.net.nodes[members[0]].membership.views.lost_links(members)
        return active_graph(graph, tuple(members), lost)
