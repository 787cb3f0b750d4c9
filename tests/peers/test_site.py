"""One site's process: what it says of itself."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace

import pytest

from peerclust import testing
from peerclust.peers.site import Site


@pytest.mark.parametrize(
    "name", [name for name, trial in testing.PROGRAMS.items() if trial.threshold >= 0]
)
def test_the_residual_of_a_peer_before_its_first_round_is_infinite(name):
    # Its status may be asked for at any moment, also between the start and the first round.
    trial, case = testing.PROGRAMS[name], next(iter(testing.cases()))
    state = trial.make(case).start(case.users(), trial.start(case))
    for running in (None, SimpleNamespace(state=state)):
        assert Site._residual(SimpleNamespace(_running=running)) == inf
