"""Process groups: a single process, or the ranks of an MPI job.

All processes run the same code on their own users. They synchronize in the collective calls of a
`ProcessGroup`, which all make in the same order. Those of ranks are in `runtimes.mpi.group`; which
users a process has is in `distribution`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class ProcessGroup(Protocol):
    """The processes of a job, as one of them sees them."""

    rank: int
    size: int

    def bcast(self, value: Any) -> Any:
        """Return the value of rank 0, on all ranks."""

    def allgather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, on all ranks."""

    def gather(self, value: Any) -> list[Any] | None:
        """Return the values of all ranks on rank 0, and None on the others."""

    def alltoall(self, values: Sequence[Any]) -> list[Any]:
        """Send values[r] to rank r; return what each rank sent to this one, by rank."""

    def raise_on_all(self) -> AbstractContextManager[None]:
        """Raise, on all ranks, the error of the lowest rank that raises one within.

        No collective call may be made within.
        """

    def abort_on_failure(self) -> AbstractContextManager[None]:
        """Abort the job if a rank fails within and not all others do."""


class SingleProcess:
    """The group of a single process.

    >>> SingleProcess().allgather("mine"), SingleProcess().size
    (['mine'], 1)
    """

    rank = 0
    size = 1
    # An error is raised anyway, and there are no other processes to abort.
    raise_on_all = abort_on_failure = staticmethod(nullcontext)

    def bcast(self, value: Any) -> Any:
        """Return the value."""
        return value

    def allgather(self, value: Any) -> list[Any]:
        """Return a list of the value."""
        return [value]

    def gather(self, value: Any) -> list[Any] | None:
        """Return a list of the value."""
        return [value]

    def alltoall(self, values: Sequence[Any]) -> list[Any]:
        """Return the values."""
        return list(values)


def run_on_root(group: ProcessGroup, call: Callable[[], T]) -> T:
    """Return, on all ranks, what a call returns on rank 0; its error is raised on all ranks.

    The call itself may not make collective calls.

    >>> run_on_root(SingleProcess(), lambda: 3)
    3
    """
    if group.size == 1:
        return call()
    result: T | None = None
    error: Exception | None = None
    if group.rank == 0:
        try:
            result = call()
        except Exception as raised:  # whatever it is, the others must not wait
            error = raised
    result, received = group.bcast((result, error))
    if received is not None:
        # Rank 0 raises the original, which has its traceback.
        raise error or received
    return result
