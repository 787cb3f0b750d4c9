"""The runtimes: each delivers what programs say in its own way; `loop` runs a program on one.

- `simulator`: one block of all users in this process; neighbors are summed by a compiled loop.
- `loopback`: one block per user, message by message, in this process: the reference.
- `mpi`: one block of users per rank of an MPI job; only messages between ranks are sent.
- `network`: one user per process, with peers on other machines.
"""

from __future__ import annotations

from collections.abc import Callable

from peerclust.errors import ParameterError
from peerclust.graphs import Graph
from peerclust.ranks.distribution import Distribution
from peerclust.ranks.group import ProcessGroup, SingleProcess
from peerclust.runtimes.loop import run_program
from peerclust.runtimes.loopback import Loopback
from peerclust.runtimes.protocol import Run, Runtime, RuntimeGroup
from peerclust.runtimes.simulator import Simulator
from peerclust.text import parameter, show
from peerclust.validation import check_name

# The runtimes of a single process.
RUNTIMES: dict[str, Callable[[Graph], Runtime]] = {"simulator": Simulator, "loopback": Loopback}

__all__ = [
    "RUNTIMES",
    "Loopback",
    "Run",
    "Runtime",
    "Simulator",
    "process_group",
    "resolve",
    "run_program",
]


def process_group(runtime: object) -> ProcessGroup:
    """Return the process group of a runtime: this process alone, except with MPI.

    >>> process_group("simulator").size
    1
    """
    if isinstance(runtime, str) and runtime == "mpi":
        from peerclust.runtimes.mpi import world

        return world()
    return runtime if isinstance(runtime, RuntimeGroup) else SingleProcess()


def resolve(runtime: object, distribution: Distribution, of: str = "cluster") -> Runtime:
    """Return the runtime that a name or an object stands for, for users distributed like this.

    It may be a custom class, or an `mpi.MPIGroup` of a communicator.

    >>> from peerclust.graphs import ring
    >>> type(resolve("simulator", Distribution.of_all(ring(3)))).__name__
    'Simulator'
    """
    if isinstance(distribution.group, RuntimeGroup):
        return distribution.group.make_runtime(distribution)
    if isinstance(runtime, str):
        return RUNTIMES[check_name(runtime, (*RUNTIMES, "mpi"), "runtime", of)](distribution.graph)
    made, cause = None, None
    try:
        made = runtime(distribution.graph) if callable(runtime) else None
    except TypeError as error:
        cause = error
    if not isinstance(made, Runtime):
        raise ParameterError(
            parameter("runtime", of) + " must be a name or a class that takes a graph and has"
            f" `distribution`, `blocks`, `deliver` and `close`. Got {show(runtime)}."
        ) from cause
    return made
