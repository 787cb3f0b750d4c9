"""The ways to drive a program; each delivers what programs say in its own manner.

- `simulator`: one block of all users in this process; a sum over neighbors is a sparse product.
- `loopback`: a block a user, message by message, in this process: the reference.
- `mpi`: a block of users a rank of an MPI job; only letters between ranks travel.
"""

from __future__ import annotations

from typing import Any

from peerclust.errors import ParameterError
from peerclust.ranks.distribution import Distribution
from peerclust.ranks.group import ProcessGroup, SingleProcess
from peerclust.runtimes.loopback import Loopback
from peerclust.runtimes.protocol import Run, Runtime
from peerclust.runtimes.simulator import Simulator
from peerclust.text import show
from peerclust.validation import check_name

# Those that run in this process alone.
RUNTIMES: dict[str, type[Any]] = {"simulator": Simulator, "loopback": Loopback}

__all__ = ["RUNTIMES", "Loopback", "Run", "Runtime", "Simulator", "process_group", "resolve"]


def process_group(runtime: Any) -> ProcessGroup:
    """Give the processes that a runtime runs in: this one alone, but for MPI.

    >>> process_group("simulator").size
    1
    """
    if isinstance(runtime, str) and runtime == "mpi":
        from peerclust.runtimes.mpi import world

        return world()
    group: ProcessGroup = runtime if hasattr(runtime, "make_runtime") else SingleProcess()
    return group


def resolve(runtime: Any, distribution: Distribution, of: str = "cluster") -> Runtime:
    """Return the runtime for users shared out so that a name or an object stands for.

    It may be a class of the user's own, or `mpi.MPIGroup` of a communicator.

    >>> from peerclust.graphs import ring
    >>> type(resolve("simulator", Distribution.of_all(ring(3)))).__name__
    'Simulator'
    """
    group: Any = distribution.group
    made: Runtime
    if hasattr(group, "make_runtime"):
        made = group.make_runtime(distribution)
        return made
    if isinstance(runtime, str):
        runtime = RUNTIMES[check_name(runtime, (*RUNTIMES, "mpi"), "runtime", of)]
    if not callable(runtime) or not hasattr(runtime, "run"):
        raise ParameterError(
            f"`runtime` of {of} must be a name or a class that takes a graph and has run(...)."
            f" Got {show(runtime)}."
        )
    made = runtime(distribution.graph)
    return made
