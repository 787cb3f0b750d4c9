"""A command as one rank of an MPI job, as far as it can be tested without a job."""

import pytest

from peerclust.cli import mpi_job


@pytest.mark.parametrize(("size", "rank"), mpi_job.LAUNCHER_VARIABLES)
def test_rank_and_size_come_from_the_environment_of_the_launcher(size, rank, monkeypatch):
    for name in (name for pair in mpi_job.LAUNCHER_VARIABLES for name in pair):
        monkeypatch.delenv(name, raising=False)
    assert mpi_job.rank_and_size() == (0, 1)
    monkeypatch.setenv(size, "4")
    assert mpi_job.rank_and_size() == (0, 1)
    monkeypatch.setenv(rank, "2")
    assert mpi_job.rank_and_size() == (2, 4)
