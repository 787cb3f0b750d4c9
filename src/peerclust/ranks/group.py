"""The processes that share a problem's users among them: one alone, or the ranks of an MPI job.

All of them run the same code on their own users and meet in the calls of a `ProcessGroup`, in the same
order. How ranks do that is in `runtimes.mpi`; which users a process has is in `distribution`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class ProcessGroup(Protocol):
    """The processes of a job, seen by one of them."""

    rank: int
    size: int

    def bcast(self, value: Any) -> Any:
        """Give everyone what rank 0 has."""

    def allgather(self, value: Any) -> list[Any]:
        """Give everyone what each has, by rank."""

    def gather(self, value: Any) -> list[Any] | None:
        """Give rank 0 what each has, by rank; the others get None."""

    def alltoall(self, values: Sequence[Any]) -> list[Any]:
        """Give values[r] to rank r; get what each rank has for this one, by rank."""

    def raise_on_all(self) -> AbstractContextManager[None]:
        """Raise, in all processes, the first rank's error that is raised within.

        There is no call of the crew within.
        """

    def abort_on_failure(self) -> AbstractContextManager[None]:
        """End the whole job if one process fails within, and others do not."""


class SingleProcess:
    """The crew of one process.

    >>> SingleProcess().allgather("mine"), SingleProcess().size
    (['mine'], 1)
    """

    rank = 0
    size = 1

    def bcast(self, value: Any) -> Any:
        """Give the value."""
        return value

    def allgather(self, value: Any) -> list[Any]:
        """Give the value alone."""
        return [value]

    def gather(self, value: Any) -> list[Any] | None:
        """Give the value alone."""
        return [value]

    def alltoall(self, values: Sequence[Any]) -> list[Any]:
        """Give the values."""
        return list(values)

    def raise_on_all(self) -> AbstractContextManager[None]:
        """Do nothing: an error is raised anyway."""
        return nullcontext()

    def abort_on_failure(self) -> AbstractContextManager[None]:
        """Do nothing: there is nobody else."""
        return nullcontext()


def run_on_root(group: ProcessGroup, do: Callable[[], T]) -> T:
    """Give everyone what a call gives in rank 0; its error is raised in all processes.

    There is no call of the crew within.

    >>> run_on_root(SingleProcess(), lambda: 3)
    3
    """
    if group.size == 1:
        return do()
    given: T | None = None
    error: Exception | None = None
    if group.rank == 0:
        try:
            given = do()
        except Exception as raised:  # whatever it is, the others must not wait
            error = raised
    given, told = group.bcast((given, error))
    if told is not None:
        # Rank 0 raises its own, which knows where it comes from.
        raise error or told
    return given
