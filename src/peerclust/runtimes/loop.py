"""The loop over rounds that the runtimes share; each delivers messages in its own way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from peerclust.arrays import Array
from peerclust.programs.protocol import HeardMax, HeardSum, NeighborSum, NetworkMax, Program
from peerclust.runtimes.protocol import OnCheckpoint, OnRound, Run, Snapshot, Traffic, check_finite
from peerclust.runtimes.stopping import Vote, first_vote, next_vote
from peerclust.users import Users

Heard = tuple[Sequence[HeardSum | HeardMax], Traffic]
Deliver = Callable[[Sequence[NeighborSum | NetworkMax], Sequence[Vote]], Heard]
NeighborMin = Callable[[Sequence[Vote]], Sequence[Vote]]


def run_rounds(
    program: Program,
    blocks: Sequence[Users],
    starts: Sequence[Array],
    *,
    deliver: Deliver,
    neighbor_min: NeighborMin,
    D: int,
    rounds: int,
    threshold: float,
    on_round: OnRound | None,
    on_checkpoint: OnCheckpoint | None = None,
    resume_from: Snapshot | None = None,
) -> Run:
    """Run a program on blocks of users until they stop or the rounds run out.

    `neighbor_min` returns the smallest votes among each user's neighbors. Votes are sent with every
    message; they are read in the first exchange of a round.
    """
    if resume_from is None:
        states = [program.start(b, x) for b, x in zip(blocks, starts, strict=True)]
        resume_from = Snapshot(states, [first_vote(block.m) for block in blocks], Traffic())
    else:
        states = [state.attach(b) for b, state in zip(blocks, resume_from.states, strict=True)]
        resume_from = replace(resume_from, states=states)
    states, votes, traffic = list(resume_from.states), resume_from.votes, resume_from.traffic
    with np.errstate(over="ignore", invalid="ignore"):
        while states[0].round < rounds:
            now, voting = states[0].round, threshold >= 0 and states[0].update == 0
            heard, sent = deliver([program.say(state) for state in states], votes)
            traffic += sent
            states = [program.hear(b, s, h) for b, s, h in zip(blocks, states, heard, strict=True)]
            if voting:
                for state in states:
                    check_finite(state.residual, now + 1)
                votes = [
                    next_vote(vote, near, state.residual <= threshold, now, D)
                    for vote, near, state in zip(votes, neighbor_min(votes), states, strict=True)
                ]
            if states[0].update == 0:
                if on_round is not None:
                    on_round(states, blocks)
                if on_checkpoint is not None:
                    on_checkpoint(Snapshot(states, votes, traffic))
                if votes[0].due(now):
                    break
    done = states[0].round
    return Run(states, done, votes[0].due(done - 1), traffic)
