"""Random faults: schedules are the same for the same seed, and a few end as all must."""

import numpy as np
import pytest

from peerclust.bench import chaos

from .schedules import NAMES, draw

# Peers that come back, one that comes too late, a living graph that falls apart, on_loss = "stop".
SEEDS = (404, 429, 431, 440, 464)


def test_the_schedule_of_a_seed_is_the_same_each_time():
    for seed in range(20):
        one, again = draw(seed), draw(seed)
        assert str(one) == str(again)
        for a, b in zip(one.parts, again.parts, strict=True):
            np.testing.assert_array_equal(a, b)
    assert len({str(draw(seed)) for seed in range(20)}) == 20


def test_schedules_have_every_kind_of_event_at_every_moment():
    drawn = [event for seed in range(200) for event in draw(seed).events]
    faults, mendings = {"kill", "terminate", "stop", "cut", "hold"}, {"start", "continue", "mend"}
    assert {event.act for event in drawn} == faults | mendings
    for act in faults | mendings:
        moments = {"start", "near", "end"} | ({"after"} if act in mendings else set())
        assert {event.when for event in drawn if event.act == act} == moments


@pytest.mark.parametrize("seed", range(50))
def test_a_schedule_only_names_what_there_is(seed):
    schedule = draw(seed)
    down = set(schedule.absent)
    for event in schedule.events:
        if len(event.names) == 2:
            assert tuple(sorted(event.names)) in schedule.links
        elif event.act == "start":
            assert event.names[0] in down
            down.discard(event.names[0])
        else:
            assert event.names[0] in set(NAMES) - down
            if event.act in ("kill", "terminate"):
                down.add(event.names[0])


def test_faults_leave_no_hang_and_no_false_success():
    for found in chaos.endure(SEEDS):
        assert not found.findings, found.story
