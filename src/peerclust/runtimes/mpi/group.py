"""The ranks of an MPI job: what they tell each other, and how all end if one fails."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from mpi4py import MPI

from peerclust.errors import PeerclustError
from peerclust.ranks.distribution import Distribution
from peerclust.runtimes.mpi.runtime import MPIRuntime

# How long a rank that failed waits for all others to fail, too, before it ends the job.
GRACE = 1.0


@lru_cache(maxsize=1)
def world() -> MPIGroup:
    """Give all ranks of this job."""
    return MPIGroup(MPI.COMM_WORLD)


class MPIGroup:
    """The ranks of a communicator, as a crew (see `group`).

    >>> ranks = world()
    >>> ranks.allgather("mine")[ranks.rank]
    'mine'
    """

    def __init__(self, comm: MPI.Intracomm) -> None:
        self.comm = comm.Dup()
        # Nobody who waits in `comm` is disturbed by what a rank that failed does in this one.
        self._alarm = comm.Dup()
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self._inside = False

    def make_runtime(self, distribution: Distribution) -> MPIRuntime:
        """Give the runtime for users shared out so."""
        return MPIRuntime(distribution, self.comm)

    def bcast(self, value: Any) -> Any:
        """Give everyone what rank 0 has."""
        return self.comm.bcast(value)

    def allgather(self, value: Any) -> list[Any]:
        """Give everyone what each has, by rank."""
        return self.comm.allgather(value)

    def gather(self, value: Any) -> list[Any] | None:
        """Give rank 0 what each has, by rank; the others get None."""
        return self.comm.gather(value)

    def alltoall(self, values: Sequence[Any]) -> list[Any]:
        """Give values[r] to rank r; get what each rank has for this one, by rank."""
        return self.comm.alltoall(list(values))

    @contextmanager
    def raise_on_all(self) -> Iterator[None]:
        """Raise, in all ranks, the first rank's error that is raised within."""
        error: Exception | None = None
        try:
            yield
        except Exception as raised:  # whatever it is, the others must not wait
            error = raised
        said = self.allgather(None if error is None else (type(error), str(error)))
        first = next((r for r, each in enumerate(said) if each is not None), None)
        if first is None:
            return
        kind, text = said[first]
        if error is not None and all(each == said[0] for each in said):
            raise error
        if error is not None and not isinstance(error, PeerclustError | OSError):
            # A mistake, which knows where it comes from.
            raise error
        kind = kind if issubclass(kind, PeerclustError) else PeerclustError
        raise kind(f"Rank {first} of {self.size}: {text}") from None

    @contextmanager
    def abort_on_failure(self) -> Iterator[None]:
        """End the whole job if this rank fails within, and others do not."""
        if self._inside:
            yield
            return
        self._inside = True
        try:
            yield
        except BaseException as error:
            if self._all_fail():
                raise
            self._end(error)
        finally:
            self._inside = False

    def _all_fail(self) -> bool:
        """Tell whether all ranks get here within a moment: then all raise, and no one waits."""
        everyone, deadline = self._alarm.Ibarrier(), time.monotonic() + GRACE
        while not everyone.Test():
            if time.monotonic() > deadline:
                return False
            time.sleep(1e-3)
        return True

    def _end(self, error: BaseException) -> None:
        where = f"Rank {self.rank} of {self.size}"
        if not isinstance(error, PeerclustError | OSError | KeyboardInterrupt):
            traceback.print_exception(error)
        print(f"{where}: {error or type(error).__name__}", file=sys.stderr, flush=True)
        self.comm.Abort(2)
