"""What follows from what sites agreed on."""

import numpy as np

from peer_runs import iris, make_path_contract, rows_of
from peerclust.peers import configuration, setup
from peerclust.runtimes import Simulator


def test_a_box_is_wider_for_programs_that_may_overshoot():
    terms = make_path_contract(
        solver="dgc", matrix=((4.0, 0, 0, 0), (0, 1.0, 0, 0), (0, 0, 1.0, 0), (0, 0, 0, 1.0))
    )
    agreed, _, _ = setup.agree(
        terms, Simulator(terms.graph), rows_of(iris(4)), (0, 1, 2, 3), [], ""
    )
    low, high = np.array(agreed.low), np.array(agreed.high)
    box = configuration.make_box(terms, agreed)
    assert np.allclose(box.center_box[1] - high, 3 * (high - low), rtol=1e-4)
    plain = configuration.make_box(make_path_contract(solver="dgc"), agreed)
    assert plain.refuse(np.array([high + 1e-9])) == ""
    assert "outside the box" in plain.refuse(np.array([high + 0.1]))
    assert "not finite" in plain.refuse(np.array([high * np.nan]))
