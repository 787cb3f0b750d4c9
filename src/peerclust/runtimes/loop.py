"""The loop over rounds: what blocks say, hear and vote; not how their messages are delivered.

`converse` is that loop, for every runtime: a generator that yields what the blocks say and is sent
what they hear. `run_program` delivers with a runtime. Peers and replays deliver in other ways, and
advance the generator themselves.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from peerclust.arrays import Array
from peerclust.errors import DivergedError
from peerclust.programs.protocol import H, Program, S
from peerclust.runtimes.protocol import (
    Delivered,
    OnCheckpoint,
    OnRound,
    Run,
    Runtime,
    Said,
    Snapshot,
    Traffic,
)
from peerclust.runtimes.stopping import first_vote, next_vote
from peerclust.text import count
from peerclust.users import Users

Conversation = Generator[Said, Delivered | None, Run[S]]


def run_program(
    runtime: Runtime,
    program: Program[S, H],
    users: Users,
    x: Array,
    *,
    rounds: int,
    threshold: float = -1.0,
    on_round: OnRound | None = None,
    on_checkpoint: OnCheckpoint | None = None,
    resume_from: Snapshot[S] | None = None,
) -> Run[S]:
    """Start a program at x and run it for at most `rounds` rounds.

    `users` are those of this process, and x, (u, K, d), their own centers. The users stop by
    themselves once every residual has been at most `threshold` (see `stopping`); with a negative
    threshold they never do. `on_checkpoint` is called after `on_round`. With `resume_from`, the
    program does not start at x but continues from a snapshot.

    >>> from peerclust.graphs import path
    >>> from peerclust.programs.dgc import DGC
    >>> from peerclust.runtimes import Simulator
    >>> users = Users(np.array([[0.0], [2.0]]), np.array([0, 1, 2]))
    >>> program = DGC(rho=1.0, alpha=0.3)
    >>> run = run_program(Simulator(path(2)), program, users, np.zeros((2, 1, 1)), rounds=99)
    >>> run.x.ravel().round(6).tolist(), run.traffic.messages
    ([0.666667, 1.333333], 198)
    """
    blocks = runtime.blocks(users)
    if resume_from is None:
        resume_from = begin(program, blocks, split_blocks(x, blocks))
    else:
        states = zip(blocks, resume_from.states, strict=True)
        resume_from = replace(resume_from, states=[state.attach(block) for block, state in states])
    conversation = converse(
        program,
        blocks,
        resume_from,
        rounds=rounds,
        threshold=threshold,
        on_round=on_round,
        on_checkpoint=on_checkpoint,
    )
    with np.errstate(over="ignore", invalid="ignore"):
        at = advance(conversation)
        while isinstance(at, Said):
            at = advance(conversation, runtime.deliver(at))
    return at


def split_blocks(values: Array, blocks: Sequence[Users]) -> list[Array]:
    """Return the part of each block, in a list, of an array with a row per user."""
    if len(blocks) == 1:
        return [values]
    return np.split(values, np.cumsum([block.m for block in blocks])[:-1])


def begin(
    program: Program[S, H],
    blocks: Sequence[Users],
    starts: Sequence[Array],
    round_: int = 0,
    *,
    stiffness: Sequence[Array] | None = None,
) -> Snapshot[S]:
    """Return the snapshot of blocks that start at these centers, before a round.

    `stiffness`, if users have agreed on it, is that of each block.
    """
    states = [program.start(block, x) for block, x in zip(blocks, starts, strict=True)]
    if stiffness is not None:
        states = [s.with_stiffness(own) for s, own in zip(states, stiffness, strict=True)]
    if round_ > 0:
        states = [state.at_round(round_) for state in states]
    return Snapshot(states, [first_vote(len(x)) for x in starts], Traffic())


def converse(
    program: Program[S, H],
    blocks: Sequence[Users],
    snapshot: Snapshot[S],
    *,
    rounds: int,
    threshold: float = -1.0,
    on_round: OnRound | None = None,
    on_checkpoint: OnCheckpoint | None = None,
) -> Conversation[S]:
    """Yield what the blocks say from a snapshot on, and be sent what they hear; return the run.

    Votes are sent with every message; they are read in the first exchange of a round.
    """
    states, votes = list(snapshot.states), snapshot.votes
    messages, size = snapshot.traffic.messages, snapshot.traffic.bytes
    while states[0].round < rounds:
        now, update = states[0].round, states[0].update
        voting = threshold >= 0 and update == 0 and now >= snapshot.vote_from
        delivered = yield Said([program.say(state) for state in states], votes, states)
        assert delivered is not None
        messages, size = messages + delivered.traffic.messages, size + delivered.traffic.bytes
        # The type of a message determines what is heard in reply.
        heard = cast("Sequence[H]", delivered.messages)
        states = [program.hear(b, s, h) for b, s, h in zip(blocks, states, heard, strict=True)]
        if states[0].round == now and states[0].update == update:
            raise RuntimeError(
                f"hear of {type(program).__name__} must advance `round` or `update` of the state"
            )
        if voting:
            for state in states:
                check_finite(state.residual, now + 1)
            ballot = delivered.ballot()
            votes = [
                next_vote(own, near, state.residual <= threshold, now, ballot.D)
                for own, near, state in zip(ballot.own, ballot.heard, states, strict=True)
            ]
        if states[0].update == 0:
            if on_round is not None:
                on_round(states, blocks)
            if on_checkpoint is not None:
                on_checkpoint(Snapshot(states, votes, Traffic(messages, size), snapshot.vote_from))
            if threshold >= 0 and votes[0].due(now):
                break
    done = states[0].round
    stopped = threshold >= 0 and votes[0].due(done - 1)
    return Run(states, done, stopped, Traffic(messages, size))


def advance(conversation: Conversation[S], delivered: Delivered | None = None) -> Said | Run[S]:
    """Send what the blocks heard; return what they say next, or the run if that was the end.

    Nothing is sent to a conversation that has not begun.
    """
    try:
        return conversation.send(delivered)
    except StopIteration as end:
        # A StopIteration could not leave a thread or a coroutine.
        ended: Run[S] = end.value
        return ended


def check_finite(values: Array, round_: int) -> None:
    """Raise if residuals or centers are not finite: the run has diverged."""
    if not np.isfinite(values).all():
        raise DivergedError(
            f"Diverged after {count(round_, 'round')}: some numbers are no longer finite."
        )
