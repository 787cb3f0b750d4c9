"""The tables of the state machine: every state can be reached and left, and docs list them all."""

import re
from pathlib import Path

import pytest

from peerclust.runtimes.network import states
from peerclust.runtimes.network.states import (
    LINK,
    RUN,
    Cause,
    LinkEvent,
    LinkState,
    RunEvent,
    RunState,
)

NETWORK = Path(states.__file__).parent


def reachable(table, start):
    found, edge = {start}, [start]
    while edge:
        fresh = {after for state in edge for after in table[state].values()} - found
        found, edge = found | fresh, list(fresh)
    return found


def test_every_state_of_a_run_can_be_reached_and_only_its_end_and_serving_are_final():
    assert set(RUN) == set(RunState) == reachable(RUN, RunState.MEETING)
    assert {state for state in RunState if not RUN[state]} == {RunState.ENDED, RunState.SERVING}
    for state in set(RunState) - {RunState.SERVING}:
        assert RunState.ENDED in reachable(RUN, state)


def test_a_run_never_returns_to_its_set_up():
    for state in RunState:
        if states.phase_of(state) != "agreeing":
            phases = {states.phase_of(after) for after in RUN[state].values()}
            assert "agreeing" not in phases


def test_an_agreement_ends_before_the_run_does():
    before = [state for state in RunState if RunState.ENDED in RUN[state].values()]
    assert before == [RunState.SIGNING]
    before = [state for state in RunState if RunState.SIGNING in RUN[state].values()]
    assert before == [RunState.ROUNDS]


def test_every_state_of_a_link_can_be_reached_and_left():
    assert set(LINK) == set(LinkState)
    for state in LinkState:
        assert reachable(LINK, state) == set(LinkState)


def test_a_link_becomes_active_only_in_the_set_up_or_after_an_offer():
    ways = {
        (state, event)
        for state, row in LINK.items()
        for event, after in row.items()
        if after is LinkState.ACTIVE
    }
    assert ways == {
        (LinkState.OUT, LinkEvent.TAKE_PART),
        (LinkState.OFFERED, LinkEvent.TAKE_PART),
        (LinkState.OFFERED, LinkEvent.REJOIN),
    }


@pytest.mark.parametrize("event", [LinkEvent.DROP, LinkEvent.STAY_OUT])
def test_a_link_that_is_dropped_or_stays_out_is_out_whatever_it_was(event):
    assert {LINK[state].get(event, state) for state in LinkState} == {LinkState.OUT}


@pytest.mark.parametrize("kind", [RunEvent, LinkEvent, Cause])
def test_every_event_and_cause_occurs_in_the_code(kind):
    code = "".join(path.read_text() for path in NETWORK.glob("*.py") if path.name != "states.py")
    unused = [each.name for each in kind if f"{kind.__name__}.{each.name}" not in code]
    assert unused == []


def test_the_docs_say_who_is_dropped_for_what():
    text = (NETWORK.parents[3] / "docs" / "wire.md").read_text()
    rows = re.findall(r"^\| `([A-Z_]+)` \| (.*?) \| (.*?) \|$", text, re.MULTILINE)
    listed = {name: (description, outcome) for name, description, outcome in rows}
    expected = {}
    for cause in Cause:
        outcome = "it may return" if cause.returns else "banned for the rest of the run"
        if cause is Cause.CONTRADICTION:
            outcome += ", by all peers"
        expected[cause.name] = cause.description, outcome
    assert {name: listed.get(name) for name in expected} == expected
