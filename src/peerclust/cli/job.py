"""A command as one of the ranks of an MPI job: who speaks, and what all must have been told."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from peerclust.errors import MissingExtraError, ParameterError, PeerclustError

if TYPE_CHECKING:
    from peerclust.ranks.group import ProcessGroup

# Where those who start ranks say how many there are, and which one this is: Open MPI; MPICH and its
# kin; Slurm, whose first name alone is there in jobs without ranks, too.
STARTERS = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("PMI_SIZE", "PMI_RANK"),
    ("SLURM_STEP_NUM_TASKS", "PMIX_RANK"),
)
# Seconds for which ranks let rank 0 say what they would say, too.
PAUSE = 5.0


@contextmanager
def together(runtime: str) -> Iterator[ProcessGroup]:
    """Give the processes of a command; of an error in all of them only rank 0 speaks."""
    from peerclust import runtimes

    check_started(runtime)
    try:
        group = runtimes.process_group(runtime)
    except MissingExtraError:
        let_first_speak()
        raise
    try:
        with group.abort_on_failure():
            yield group
    except (PeerclustError, OSError):
        if group.rank > 0:
            raise typer.Exit(2) from None
        raise


def check_started(runtime: str) -> None:
    """Raise if this is one of several processes that were started as ranks, but not told so."""
    _, size = find_rank()
    if size == 1 or runtime == "mpi":
        return
    let_first_speak()
    raise ParameterError(
        f"`--runtime` of fit must be mpi in a job of {size} processes, or each would do the same;"
        f" say --runtime mpi. Got {runtime!r}."
    )


def let_first_speak() -> None:
    """Wait, unless this is rank 0: where all say the same, what it says ends the job."""
    if find_rank()[0] > 0:
        time.sleep(PAUSE)


def find_rank() -> tuple[int, int]:
    """Give this process's rank, and how many there are, as those who started it say."""
    for size, rank in STARTERS:
        if size in os.environ and rank in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1


def check_same_options(group: ProcessGroup, options: Mapping[str, Any]) -> None:
    """Raise, in all ranks, if one was given another option than rank 0."""
    from peerclust.ranks.fingerprint import check_same
    from peerclust.report.result_directory import plain_settings

    words = {"as_json": "`--json`", "files": "FILE"}
    named = {
        words.get(name, f"`--{name.replace('_', '-')}`"): value
        for name, value in plain_settings(options).items()
    }
    check_same(group, named, "{} of fit")
