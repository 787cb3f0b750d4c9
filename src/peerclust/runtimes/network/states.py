"""The state machine of a peer, of its run and of its links, and who is dropped for what. No I/O.

A run goes through the states of `RunState`, as `RUN` says; an event that it does not list is a bug.
A link to a neighbor goes through those of `LinkState`, as `LINK` says; an event that it does not
list leaves the state as it is. Apart from that, a link is connected or not, and a neighbor may be
banned.

A peer drops neighbors only, each for one `Cause`. It never drops one for what that neighbor relays:
statements are signed, and only their origin is to blame.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from peerclust.runtimes.network.messages import Phase


class RunState(Enum):
    """Where a peer is in a run."""

    MEETING = auto()  # it waits until it knows a process of every peer that can be reached
    SETUP = auto()  # an attempt at the set-up is under way
    SETUP_BARRIER = auto()  # it has all results of the set-up; others may not yet
    ROUNDS = auto()
    AGREEMENT = auto()  # it takes part in an agreement, such as a certificate
    AGREEMENT_BARRIER = auto()  # it has the result of the agreement; others may not yet
    SIGNING = auto()  # it has its result, and makes the record of the run with the others
    ENDED = auto()  # it has signed the record
    SERVING = auto()  # it takes part in no run, and serves the record of one that is over


class RunEvent(Enum):
    """What moves a run to its next state."""

    MEET = auto()  # the set-up begins, or begins again
    ATTEMPT = auto()  # all members are known
    COMPLETE = auto()  # this peer has the result of the set-up, or of an agreement
    START = auto()  # the rounds start, or a neighbor has sent the state of a run that has started
    AGREE = auto()  # an agreement begins, or begins again
    RESUME = auto()  # the rounds go on
    SIGN = auto()  # the rounds are over
    END = auto()
    SERVE = auto()


RUN = {
    RunState.MEETING: {
        RunEvent.MEET: RunState.MEETING,
        RunEvent.ATTEMPT: RunState.SETUP,
        RunEvent.START: RunState.ROUNDS,
        RunEvent.SERVE: RunState.SERVING,
    },
    RunState.SETUP: {
        RunEvent.MEET: RunState.MEETING,
        RunEvent.COMPLETE: RunState.SETUP_BARRIER,
        RunEvent.START: RunState.ROUNDS,
    },
    RunState.SETUP_BARRIER: {
        RunEvent.MEET: RunState.MEETING,
        RunEvent.START: RunState.ROUNDS,
    },
    RunState.ROUNDS: {
        RunEvent.AGREE: RunState.AGREEMENT,
        RunEvent.RESUME: RunState.ROUNDS,
        RunEvent.SIGN: RunState.SIGNING,
    },
    RunState.AGREEMENT: {
        RunEvent.AGREE: RunState.AGREEMENT,
        RunEvent.COMPLETE: RunState.AGREEMENT_BARRIER,
        RunEvent.RESUME: RunState.ROUNDS,
    },
    RunState.AGREEMENT_BARRIER: {
        RunEvent.AGREE: RunState.AGREEMENT,
        RunEvent.RESUME: RunState.ROUNDS,
    },
    RunState.SIGNING: {RunEvent.END: RunState.ENDED},
    RunState.ENDED: {},
    RunState.SERVING: {},
}

_IN_SETUP = (RunState.MEETING, RunState.SETUP, RunState.SETUP_BARRIER)


def phase_of(state: RunState) -> Phase:
    """Return what a peer tells its neighbors of its state.

    >>> phase_of(RunState.SETUP_BARRIER), phase_of(RunState.AGREEMENT)
    ('agreeing', 'running')
    """
    if state in _IN_SETUP:
        return "agreeing"
    return "done" if state in (RunState.ENDED, RunState.SERVING) else "running"


class LinkState(Enum):
    """Whether a neighbor takes part in the exchanges of this peer."""

    OUT = auto()
    OFFERED = auto()  # out; this peer has sent LINK_UP
    ACTIVE = auto()
    LEAVING = auto()  # lost at the barrier of an agreement, which is complete without it


class LinkEvent(Enum):
    """What moves a link to its next state."""

    TAKE_PART = auto()  # it is a link of this attempt at the set-up
    STAY_OUT = auto()  # it is not; or this peer has joined late, and knows no active link yet
    OFFER = auto()  # this peer sends LINK_UP
    REJOIN = auto()  # both ends have sent LINK_UP
    DISCONNECT = auto()
    DROP = auto()
    DROP_AT_BARRIER = auto()  # of an agreement
    RESUME = auto()  # the agreement is over


LINK = {
    LinkState.OUT: {
        LinkEvent.TAKE_PART: LinkState.ACTIVE,
        LinkEvent.OFFER: LinkState.OFFERED,
    },
    LinkState.OFFERED: {
        LinkEvent.TAKE_PART: LinkState.ACTIVE,
        LinkEvent.STAY_OUT: LinkState.OUT,
        LinkEvent.REJOIN: LinkState.ACTIVE,
        LinkEvent.DISCONNECT: LinkState.OUT,
        LinkEvent.DROP: LinkState.OUT,
        LinkEvent.DROP_AT_BARRIER: LinkState.OUT,
    },
    LinkState.ACTIVE: {
        LinkEvent.STAY_OUT: LinkState.OUT,
        LinkEvent.DROP: LinkState.OUT,
        LinkEvent.DROP_AT_BARRIER: LinkState.LEAVING,
    },
    LinkState.LEAVING: {
        LinkEvent.STAY_OUT: LinkState.OUT,
        LinkEvent.DROP: LinkState.OUT,
        LinkEvent.RESUME: LinkState.OUT,
    },
}


class _Consequence(NamedTuple):
    """What follows from a cause: whether the neighbor may return, and has to connect again."""

    returns: bool
    disconnects: bool = True


class Cause(Enum):
    """Why a neighbor is dropped; a contradiction is evidence, for which all peers drop it.

    A neighbor that may return does so in a restarted set-up by a new process, and in a run by
    LINK_UP. One that may not is banned for the rest of the run.
    """

    # Nothing is wrong except that it is not there.
    ABSENT = "it did not connect in time", _Consequence(True)
    SILENT = "nothing was heard from it in time", _Consequence(True)
    STUCK = "it made no progress, and waits for nobody", _Consequence(True)
    LEFT = "it said that it leaves, or refuses this peer", _Consequence(True)
    MISMATCH = (
        "it cannot take part: by its network file, its certificate or its own word",
        _Consequence(True),
    )
    UNCONFIRMED = "it has a result of a run that is over, which too few signed", _Consequence(True)
    # The link stays open, and the neighbor may rejoin over it.
    ENDED = "it has ended the run", _Consequence(True, disconnects=False)
    RESTARTED = "its process was restarted", _Consequence(True, disconnects=False)
    FORGOT = "it had dropped this peer", _Consequence(True, disconnects=False)
    # It violates the protocol.
    INVALID = "what it sent is invalid", _Consequence(False)
    AHEAD = "it is ahead of an exchange that needs this peer", _Consequence(False)
    EXCESS = "it did something too often", _Consequence(False)
    MUTE = "it did not answer LINK_UP", _Consequence(False)
    OTHER_RUN = "it is in another run", _Consequence(False)
    OTHER_VIEWS = "it takes part in agreements with views that nobody stated", _Consequence(False)
    # It signed two different statements as one, which proves its lie to everybody.
    CONTRADICTION = "it contradicts itself", _Consequence(False)

    def __init__(self, description: str, consequence: _Consequence) -> None:
        self.description = description
        self.returns, self.disconnects = consequence
