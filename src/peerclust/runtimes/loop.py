"""The loop that every runtime in this process shares; how messages travel is the runtime's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from peerclust.programs.protocol import HeardMax, HeardSum, Max, Program, Sum
from peerclust.runtimes.protocol import Keep, Middle, Run, Traffic, Watch, check_finite
from peerclust.runtimes.stopping import Vote, first_vote, next_vote
from peerclust.types import Array
from peerclust.users import Users

Heard = tuple[Sequence[HeardSum | HeardMax], Traffic]
Deliver = Callable[[Sequence[Sum | Max], Sequence[Vote]], Heard]
Least = Callable[[Sequence[Vote]], Sequence[Vote]]


def drive(
    program: Program,
    blocks: Sequence[Users],
    starts: Sequence[Array],
    *,
    deliver: Deliver,
    least: Least,
    D: int,
    rounds: int,
    threshold: float,
    watch: Watch | None,
    keep: Keep | None = None,
    middle: Middle | None = None,
) -> Run:
    """Give where the blocks end; `least` gives the least votes among each user's neighbors.

    Votes go with what is said; they are read in a round's first exchange.
    """
    for block in blocks:
        block.forget()
    if middle is None:
        states = [program.start(b, x) for b, x in zip(blocks, starts, strict=True)]
        middle = Middle(states, [first_vote(block.m) for block in blocks], Traffic())
    states, votes, traffic = list(middle.states), middle.votes, middle.traffic
    for block, labels in zip(blocks, middle.labels, strict=False):
        block.forget(labels)
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
                    for vote, near, state in zip(votes, least(votes), states, strict=True)
                ]
            if states[0].update == 0:
                if watch is not None:
                    watch(states, blocks)
                if keep is not None:
                    keep(Middle(states, votes, traffic), blocks)
                if votes[0].due(now):
                    break
    done = states[0].round
    return Run(states, done, votes[0].due(done - 1), traffic)
