"""Ranks compute the simulator's bits, and a rank that fails leaves no other waiting."""

import sys
from pathlib import Path

import pytest

from mpi_jobs import SOON, needs_mpi, run_ranks
from peerclust.graphs import from_edges
from peerclust.ranks.fingerprint import fingerprint

HERE = Path(__file__).parent
PYTHON = (sys.executable, "-m", "mpi4py")

pytestmark = [needs_mpi, pytest.mark.mpi]


@pytest.mark.smoke
def test_two_ranks_have_the_simulators_bits():
    done = run_ranks(2, *PYTHON, HERE / "claims.py", "smoke", timeout=120)
    assert done.stdout == "conforms on 2 ranks\n", done.stderr


def test_every_program_on_seven_ranks_has_the_simulators_bits():
    done = run_ranks(7, *PYTHON, HERE / "claims.py", "conform", timeout=900)
    assert done.stdout == "conforms on 7 ranks\n", done.stderr


@pytest.mark.parametrize("n", [1, 2, 4])
def test_every_program_ends_with_the_simulators_bits_and_so_does_clustering(n):
    done = run_ranks(n, *PYTHON, HERE / "claims.py", "conform", "same", timeout=900)
    assert done.stdout == f"conforms on {n} ranks\nthe same on {n} ranks\n", done.stderr


def test_clustering_in_ten_ranks_is_clustering():
    done = run_ranks(10, *PYTHON, HERE / "claims.py", "some", timeout=600)
    assert done.stdout == "the same on 10 ranks\n", done.stderr


@pytest.mark.slow
def test_every_program_has_the_simulators_bits_in_every_case():
    done = run_ranks(2, *PYTHON, HERE / "conform.py", timeout=900)
    assert done.stdout == "conforms on 2 ranks\n", done.stderr


def test_a_library_without_persistent_collectives_serves_as_well():
    done = run_ranks(3, *PYTHON, HERE / "conform.py", "old", timeout=600)
    assert done.stdout == "conforms on 3 ranks\n", done.stderr


PATH, STAR = (
    from_edges([(at(i), i) for i in range(1, 6)]) for at in (lambda i: i - 1, lambda _: 0)
)
AGREED = {
    "arguments": "All ranks must be given the same `n_clusters` of cluster. Rank 1 has 3, rank 0"
    " has 2.",
    "ranks": "`runtime` of cluster must have at most as many ranks as there are users (2). Got 3.",
    "rows": "Rank 1 of 3: Row 3 of user 2 must be finite and below 1e+150 (no NaN, no infinity)."
    " Got nan in column 1.",
    "features": "Rank 1 of 3: All users must have the same features: user 0 has 2, user 2 has 1.",
    "users": "`parts` of cluster must be the same in all ranks, or a dict of each rank's own users."
    " Rank 2's users or row counts differ from rank 0's.",
    "clusters": "`n_clusters` of cluster must be at most the number of distinct rows"
    " (n_samples=60, 60 of them distinct). Got 61.",
    "weights": "All ranks must be given the same `weights` of cluster. Rank 1 has 'given', rank 0"
    " has 'unit'.",
    "graph": "All ranks must be given the same `graph` of cluster. Rank 1 has"
    f" {fingerprint(STAR)}, rank 0 has {fingerprint(PATH)}.",
    "offsets": "The offsets of `parts` must be whole numbers that increase from 0 to the 60 rows.",
    "detector": "All ranks must be given the same `n_clusters` of PeerOutlierDetector. Rank 1 has"
    " 3, rank 0 has 2.",
    "estimator": "Rank 1 of 3: Row 3 of X must be finite and below 1e+150 (no NaN, no infinity)."
    " Got nan in column 1.",
    "twice": "Each user must be in one rank's dict of `parts` only. Got user 5 in ranks 0 and 1.",
    "missing": "The users in all ranks' dicts of `parts` must be numbered consecutively from 0."
    " Got 3 of them, but no user 1.",
    "none": "Each rank must have users in its dict of `parts`. Rank 1 has none.",
}


def test_an_error_is_the_same_in_all_ranks_and_can_be_caught():
    # One job for all: that it continues with the next mistake is what "can be caught" means.
    done = run_ranks(3, *PYTHON, HERE / "fail.py", *AGREED, timeout=SOON)
    assert done.returncode == 0, done.stderr
    expected = [f"rank {r}, {case}: {text}" for case, text in AGREED.items() for r in range(3)]
    assert sorted(done.stdout.splitlines()) == sorted(expected)


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("loss", "Rank 1 of 3: the loss broke down"),
        ("script", 'KeyError: "a mistake of the script\'s own"'),
        ("killed", "signal 9"),
    ],
)
def test_a_rank_that_fails_alone_ends_the_job(mistake, message):
    done = run_ranks(3, *PYTHON, HERE / "fail.py", mistake, timeout=SOON)
    assert done.returncode != 0
    assert done.stdout == ""
    assert message in done.stderr
