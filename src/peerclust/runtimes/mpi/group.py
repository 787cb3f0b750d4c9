"""The ranks of an MPI job: their collective calls, and how the job ends if one of them fails."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeVar

from mpi4py import MPI

from peerclust.errors import PeerclustError
from peerclust.ranks.distribution import Distribution
from peerclust.runtimes.mpi.runtime import MPIRuntime

# Seconds that a rank that failed waits for all others to fail as well, before it aborts the job.
GRACE = 1.0

T = TypeVar("T")


@lru_cache(maxsize=1)
def world() -> MPIGroup:
    """Return the group of all ranks of this job.

    There is one per process, as there is one COMM_WORLD: making a group is a collective call, and
    callers that are nested in each other must share it, so that one of them aborts the job.
    """
    return MPIGroup(MPI.COMM_WORLD)


class MPIGroup:
    """The ranks of a communicator, as a `ProcessGroup`.

    >>> group = world()
    >>> group.allgather("mine")[group.rank]
    'mine'
    """

    def __init__(self, comm: MPI.Intracomm) -> None:
        self.comm = comm.Dup()
        # Used by ranks that failed, so that they do not disturb those that wait in `comm`.
        self._failures = comm.Dup()
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self._inside = False

    def make_runtime(self, distribution: Distribution) -> MPIRuntime:
        """Return the runtime for users distributed like this."""
        return MPIRuntime(distribution, self.comm)

    def bcast(self, value: T) -> T:
        """Return the value of rank 0, on all ranks."""
        received: T = self.comm.bcast(value)
        return received

    def allgather(self, value: T) -> list[T]:
        """Return the values of all ranks, on all ranks."""
        return self.comm.allgather(value)

    def gather(self, value: T) -> list[T] | None:
        """Return the values of all ranks on rank 0, and None on the others."""
        return self.comm.gather(value)

    def alltoall(self, values: Sequence[T]) -> list[T]:
        """Send values[r] to rank r; return what each rank sent to this one, by rank."""
        return self.comm.alltoall(list(values))

    @contextmanager
    def raise_on_all(self) -> Iterator[None]:
        """Raise, on all ranks, the error of the lowest rank that raises one within."""
        error: Exception | None = None
        try:
            yield
        except Exception as raised:  # whatever it is, the others must not wait
            error = raised
        sentence = error.sentence if isinstance(error, PeerclustError) else str(error)
        errors = self.allgather(None if error is None else (type(error), sentence))
        failed = [(r, *each) for r, each in enumerate(errors) if each is not None]
        if not failed:
            return
        first, kind, text = failed[0]
        if error is not None and all(each == errors[0] for each in errors):
            raise error
        if error is not None and not isinstance(error, PeerclustError | OSError):
            # A bug: its own traceback says where.
            raise error
        kind = kind if issubclass(kind, PeerclustError) else PeerclustError
        raise kind(f"Rank {first} of {self.size}: " + text) from None

    @contextmanager
    def abort_on_failure(self) -> Iterator[None]:
        """Abort the job if this rank fails within and not all others do."""
        if self._inside:
            yield
            return
        self._inside = True
        try:
            yield
        except BaseException as error:
            if self._all_fail():
                raise
            self._abort(error)
        finally:
            self._inside = False

    def _all_fail(self) -> bool:
        """Return whether all ranks get here within `GRACE`: then all raise, and none waits."""
        barrier, deadline = self._failures.Ibarrier(), time.monotonic() + GRACE
        while not barrier.Test():
            if time.monotonic() > deadline:
                return False
            time.sleep(1e-3)
        return True

    def _abort(self, error: BaseException) -> None:
        where = f"Rank {self.rank} of {self.size}"
        if not isinstance(error, PeerclustError | OSError | KeyboardInterrupt):
            traceback.print_exception(error)
        print(f"{where}: {error or type(error).__name__}", file=sys.stderr, flush=True)
        self.comm.Abort(2)
