"""A command as one of the ranks of an MPI job, as far as this needs no job."""

import pytest

from peerclust.cli import job


@pytest.mark.parametrize(("size", "rank"), job.STARTERS)
def test_the_environment_says_how_many_ranks_there_are_and_which_this_one_is(
    size, rank, monkeypatch
):
    for name in (name for pair in job.STARTERS for name in pair):
        monkeypatch.delenv(name, raising=False)
    assert job.find_rank() == (0, 1)
    monkeypatch.setenv(size, "4")
    assert job.find_rank() == (0, 1)
    monkeypatch.setenv(rank, "2")
    assert job.find_rank() == (2, 4)
