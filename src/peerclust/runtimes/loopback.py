"""Drives a block a user in this process, message by message: the reference for all runtimes.

Nothing is shared between users but the messages they send; it is slow and plain on purpose.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust.graphs import Graph
from peerclust.programs.protocol import HeardMax, HeardSum, Max, Program
from peerclust.runtimes.protocol import Run, Traffic, Watch, check_states
from peerclust.stopping import NEVER, VOTE_BYTES, Vote, first_vote, next_vote
from peerclust.users import Users

Array = NDArray[np.float64]


class Loopback:
    """The users of a graph, each a block of its own with an inbox.

    >>> from peerclust.graphs import path
    >>> from peerclust.programs.dgc import DGC
    >>> users = Users(np.array([[0.0], [2.0]]), np.array([0, 1, 2]))
    >>> run = Loopback(path(2)).run(DGC(rho=1.0, alpha=0.3), users, np.zeros((2, 1, 1)), rounds=99)
    >>> run.x.ravel().round(6).tolist(), run.traffic.messages
    ([0.666667, 1.333333], 198)
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._neighbors = [graph.neighbors(i).tolist() for i in range(graph.m)]
        self._D = int(graph.diameter.value)

    def run(
        self,
        program: Program,
        users: Users,
        x: Array,
        *,
        rounds: int,
        threshold: float = -1.0,
        watch: Watch | None = None,
    ) -> Run:
        """Drive the program; see `Runtime.run`."""
        self._traffic = Traffic()
        blocks = [users.block(i) for i in range(users.m)]
        votes = [first_vote(1) for _ in blocks]
        # Starts differ from user to user (m, K, d), or are common to all (k, d).
        starts = [x[i : i + 1] if x.ndim == 3 else x for i in range(users.m)]
        states = [program.start(b, s) for b, s in zip(blocks, starts, strict=True)]
        with np.errstate(over="ignore", invalid="ignore"):
            while states[0].round < rounds:
                now = states[0].round
                voting = threshold >= 0 and states[0].update == 0
                said = [program.say(state) for state in states]
                heard = self._maxima(said) if isinstance(said[0], Max) else self._totals(said)
                neighbors_votes = [self._least(votes, i) for i in range(users.m)]
                states = [
                    program.hear(b, s, h) for b, s, h in zip(blocks, states, heard, strict=True)
                ]
                if voting:
                    check_states(states, now)
                    votes = [
                        next_vote(vote, least, state.residual <= threshold, now, self._D)
                        for vote, least, state in zip(votes, neighbors_votes, states, strict=True)
                    ]
                if watch is not None and states[0].update == 0:
                    watch(states, blocks)
                if votes[0].due(now) and states[0].update == 0:
                    break
        done = states[0].round
        return Run(states, done, votes[0].due(done - 1), self._traffic)

    def _send(self, letters: list[Array], extra: int) -> list[list[Array]]:
        """Carry each user's letter to its neighbors; an inbox is in ascending order of sender."""
        inboxes: list[list[Array]] = [[] for _ in letters]
        for sender, letter in enumerate(letters):
            for receiver in self._neighbors[sender]:
                inboxes[receiver].append(letter.copy())
                self._traffic += Traffic(1, letter.nbytes + extra)
        return inboxes

    def _totals(self, said: list[Any]) -> list[HeardSum]:
        heard = []
        for inbox, own in zip(self._send([s.x for s in said], VOTE_BYTES), said, strict=True):
            total = np.zeros_like(own.x)
            for letter in inbox:
                total = total + letter
            degree = np.full((1,) * own.x.ndim, float(len(inbox)))
            heard.append(HeardSum(total, degree))
        return heard

    def _maxima(self, said: list[Any]) -> list[HeardMax]:
        """Flood the maximum: after D exchanges everyone has heard of everyone."""
        held = [s.v[0] for s in said]
        for _ in range(self._D):
            inboxes = self._send(held, 0)
            held = [
                np.maximum.reduce([own, *inbox]) for own, inbox in zip(held, inboxes, strict=True)
            ]
        return [HeardMax(v) for v in held]

    def _least(self, votes: list[Vote], i: int) -> Vote:
        heard = [votes[j] for j in self._neighbors[i]]
        s = min((int(vote.s[0]) for vote in heard), default=NEVER)
        R = min((int(vote.R[0]) for vote in heard), default=NEVER)
        return Vote(np.array([s]), np.array([R]))
