"""The ways to drive a program; each delivers what programs say in its own manner.

- `simulator`: one block of all users in this process; a sum over neighbors is a sparse product.
- `loopback`: a block a user, message by message, in this process: the reference.
"""

from __future__ import annotations

from typing import Any

from peerclust.errors import ParameterError
from peerclust.graphs import Graph
from peerclust.names import show
from peerclust.runtimes.loopback import Loopback
from peerclust.runtimes.protocol import Run, Runtime
from peerclust.runtimes.simulator import Simulator
from peerclust.validation import check_name

RUNTIMES: dict[str, type[Any]] = {"simulator": Simulator, "loopback": Loopback}

__all__ = ["RUNTIMES", "Loopback", "Run", "Runtime", "Simulator", "resolve"]


def resolve(runtime: Any, graph: Graph, of: str = "cluster") -> Runtime:
    """Return the runtime over a graph that a name, or a class of the user's own, stands for.

    >>> from peerclust.graphs import ring
    >>> type(resolve("simulator", ring(3))).__name__
    'Simulator'
    """
    if isinstance(runtime, str):
        runtime = RUNTIMES[check_name(runtime, RUNTIMES, "runtime", of)]
    if not callable(runtime) or not hasattr(runtime, "run"):
        raise ParameterError(
            f"`runtime` of {of} must be a name or a class that takes a graph and has run(...)."
            f" Got {show(runtime)}."
        )
    made: Runtime = runtime(graph)
    return made
