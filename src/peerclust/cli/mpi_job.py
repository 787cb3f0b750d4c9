"""A command as one rank of an MPI job: rank 0 reports errors, all ranks have the same options."""

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

# Environment variables with the number of ranks and the rank of this process: of Open MPI; of MPICH
# and its relatives; of Slurm, which sets its first variable in jobs without ranks too.
LAUNCHER_VARIABLES = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("PMI_SIZE", "PMI_RANK"),
    ("SLURM_STEP_NUM_TASKS", "PMIX_RANK"),
)
# Seconds for which other ranks wait while rank 0 reports the error that all of them have.
ROOT_REPORTS_WITHIN = 5.0


@contextmanager
def process_group(runtime: str) -> Iterator[ProcessGroup]:
    """Yield the process group of a runtime; only rank 0 reports an error of all ranks."""
    from peerclust import runtimes

    check_runtime(runtime)
    try:
        group = runtimes.process_group(runtime)
    except MissingExtraError:
        wait_for_root()
        raise
    try:
        with group.abort_on_failure():
            yield group
    except (PeerclustError, OSError):
        if group.rank > 0:
            raise typer.Exit(2) from None
        raise


def check_runtime(runtime: str) -> None:
    """Raise if this is one of several ranks, but the runtime is not mpi."""
    _, size = rank_and_size()
    if size == 1 or runtime == "mpi":
        return
    wait_for_root()
    raise ParameterError(
        f"`--runtime` of fit must be mpi in a job of {size} processes; otherwise each of them would"
        f" do all of the work. Got {runtime!r}."
    )


def wait_for_root() -> None:
    """Wait unless this is rank 0: its exit ends the job, so that only its message is printed."""
    if rank_and_size()[0] > 0:
        time.sleep(ROOT_REPORTS_WITHIN)


def rank_and_size() -> tuple[int, int]:
    """Return the rank of this process and the number of ranks, from the launcher's environment."""
    for size, rank in LAUNCHER_VARIABLES:
        if size in os.environ and rank in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1


def check_same_options(group: ProcessGroup, options: Mapping[str, Any]) -> None:
    """Raise, on all ranks, if an option of one rank differs from rank 0's."""
    from peerclust.ranks.fingerprint import check_same
    from peerclust.report.result_directory import plain_settings

    names = {"as_json": "--json", "files": "FILE"}
    named = {
        names.get(name, f"--{name.replace('_', '-')}"): value
        for name, value in plain_settings(options).items()
    }
    check_same(group, named, "fit")
