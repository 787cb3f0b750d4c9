"""How a run ended, in words: the same for `cluster` and for peers."""

import re
from dataclasses import replace

import pytest

from peerclust.clustering.status import Ending, decide_peer_status, decide_status, joined_late
from peerclust.programs.solvers import SOLVERS

END = Ending(
    spec=SOLVERS["dgc"], rho=20.0, rounds=7, stopped=True, tol=1e-3, residual=1e-4,
    disagreement=0.0, used=9, K=9,
)  # fmt: skip
ADMM, LASSO = {"spec": SOLVERS["admm"], "rho": None}, {"spec": SOLVERS["group-lasso"]}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "converged: every residual is below 0.001 after 7 rounds."),
        ({"rounds": 1}, r"converged: every residual is below 0.001 after 1 round\.$"),
        ({"disagreement": 0.2}, "centers still differ by 20% .* a larger `rho` brings them closer"),
        (ADMM | {"disagreement": 0.2}, "more `rounds` bring them closer"),
        ({"used": 8}, "^converged: .* after 7 rounds. Only 8 of 9 clusters have rows.$"),
        ({"used": 8, "stopped": False, "residual": 1.0}, "faster. Only 8 of 9 clusters have row"),
        ({"aimed": True, "disagreement": 0.015}, "^converged: .* after 7 rounds.$"),
        (
            {"aimed": True, "disagreement": 0.02},
            "centers differ by 2.0% .* where `rho` = 'auto' aims at 1%: give a larger `rho`.$",
        ),
        ({"residual": 1.0}, "^ran out of rounds: the residual is 1 after 7 rounds, above `tol` = "),
        (
            LASSO | {"residual": 0.2, "disagreement": 0.2},
            "^ran out of rounds: users' centers differ by 0.2 .* a `rho` above 20.$",
        ),
        (
            ADMM | {"residual": 0.2},
            "^ran out of rounds: .* above `tol` = 0.001. Allow more `rounds`, or a larger `tol`.$",
        ),
        (ADMM | {"residual": 0.2, "noisy": True}, "a wrong point; use 'accelerated'"),
        ({"stopped": False, "tol": 0.0}, "ran out of rounds: `tol` = 0 runs all 7 rounds"),
        ({"stopped": False}, "below 0.001, but the users had not yet agreed to stop"),
        ({"stopped": False, "residual": 1.0}, "above `tol` = 0.001. .* a smaller `rho` converges"),
        (
            {"stopped": False, "residual": 1.0, "dtype": "float32"},
            "above `tol` = 0.001. .*; float32 may be too coarse for this `tol`, '8-bit' is not.$",
        ),
        (
            {"stopped": False, "dtype": "float32"},
            "below 0.001, but the users .* `rounds`; float32 may be too coarse for this `tol`, ",
        ),
        ({"stopped": False, "residual": 1.0, "noisy": True}, "so 0.001 may be out of reach"),
    ],
)
def test_peers_and_cluster_have_the_same_words(changes, sentence):
    end = replace(END, **changes)
    status = decide_status(end)
    assert re.search(sentence, str(status)), str(status)
    assert decide_peer_status(end, unheard=0, missing=[]) == status


def test_missing_peers_are_named_and_a_peer_that_is_not_heard_is_no_success():
    status = decide_peer_status(END, unheard=0, missing=["b", "c"])
    assert status.name == "converged without some peers"
    assert status.advice.endswith(" Without b, c; the events have the reasons.")
    status = decide_peer_status(END, unheard=2, missing=[])
    assert (status.name, "2 of them have not signed" in status.advice) == ("stopped", True)


def test_a_peer_that_joins_late_succeeds_as_the_signers_of_the_record_did():
    late = joined_late(9, decide_peer_status(END, unheard=0, missing=["b"]), 3, 5)
    assert late.name == "joined late"
    assert "ended in round 9 as 'converged without some peers'" in late.advice
    assert "3 of 5 peers have signed" in late.advice
    stopped = decide_peer_status(END, unheard=2, missing=[])
    assert joined_late(9, stopped, 3, 5).name == "joined late, not converged"
