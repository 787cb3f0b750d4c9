"""The ways to drive a program; each delivers what programs say in its own manner.

- `simulator`: one block of all users in this process; a sum over neighbors is a sparse product.
- `loopback`: a block a user, message by message, in this process: the reference.
- `mpi`: a block of users a rank of an MPI job; only letters between ranks travel.
"""

from __future__ import annotations

from typing import Any

from peerclust.errors import ParameterError
from peerclust.ranks.distribution import Share
from peerclust.ranks.group import Alone, Crew
from peerclust.runtimes.loopback import Loopback
from peerclust.runtimes.protocol import Run, Runtime
from peerclust.runtimes.simulator import Simulator
from peerclust.text import show
from peerclust.validation import check_name

# Those that run in this process alone.
RUNTIMES: dict[str, type[Any]] = {"simulator": Simulator, "loopback": Loopback}

__all__ = ["RUNTIMES", "Loopback", "Run", "Runtime", "Simulator", "muster", "resolve"]


def muster(runtime: Any) -> Crew:
    """Give the processes that a runtime runs in: this one alone, but for MPI.

    >>> muster("simulator").size
    1
    """
    if isinstance(runtime, str) and runtime == "mpi":
        from peerclust.runtimes.mpi import world

        return world()
    crew: Crew = runtime if hasattr(runtime, "drive") else Alone()
    return crew


def resolve(runtime: Any, share: Share, of: str = "cluster") -> Runtime:
    """Return the runtime for users shared out so that a name or an object stands for.

    It may be a class of the user's own, or `mpi.Ranks` of a communicator.

    >>> from peerclust.graphs import ring
    >>> type(resolve("simulator", Share.of_all(ring(3)))).__name__
    'Simulator'
    """
    crew: Any = share.crew
    made: Runtime
    if hasattr(crew, "drive"):
        made = crew.drive(share)
        return made
    if isinstance(runtime, str):
        runtime = RUNTIMES[check_name(runtime, (*RUNTIMES, "mpi"), "runtime", of)]
    if not callable(runtime) or not hasattr(runtime, "run"):
        raise ParameterError(
            f"`runtime` of {of} must be a name or a class that takes a graph and has run(...)."
            f" Got {show(runtime)}."
        )
    made = runtime(share.graph)
    return made
