"""One site's process: what it says of itself."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace

import pytest

from joined_nodes import JoinedNodes
from peerclust import graphs, testing
from peerclust.peers.site import Site, explain_isolation


@pytest.mark.parametrize(
    "name", [name for name, trial in testing.PROGRAMS.items() if trial.threshold >= 0]
)
def test_the_residual_of_a_peer_before_its_first_round_is_infinite(name):
    # Its status may be asked for at any moment, also between the start and the first round.
    trial, case = testing.PROGRAMS[name], next(iter(testing.cases()))
    state = trial.make(case).start(case.users(), trial.start(case))
    for running in (None, SimpleNamespace(state=state)):
        assert Site._residual(SimpleNamespace(_running=running)) == inf


def test_a_peer_that_is_left_alone_names_neighbors_whose_results_it_does_not_take():
    net = JoinedNodes(graphs.path(3))
    session = net.nodes[1].session
    lost = "p1 lost contact with all its neighbors (p0, p2) in round 0."
    again = "A checkpoint was saved; the same command tries again."
    zero, two = session.links.values()
    zero.refusal = "it left (it was asked to end)"
    zero.detach()
    assert explain_isolation(session) == f"{lost} {again}"
    two.phase, two.refusal = "done", "its run is over, but too few have signed"
    assert explain_isolation(session) == (
        f"{lost} The result of p2, which is connected, is not taken: {two.refusal}. {again}"
    )
    net.close()
