"""A process group of threads of this process: what ranks do, without MPI."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from peerclust.errors import PeerclustError


class ThreadGroup:
    """One rank of a group of threads; values are copied between them, as between processes."""

    def __init__(self, rank, size, board, barrier):
        self.rank, self.size = rank, size
        self._board, self._barrier = board, barrier

    def allgather(self, value):
        self._board[self.rank] = pickle.dumps(value)
        self._barrier.wait()
        values = [pickle.loads(each) for each in self._board]
        self._barrier.wait()
        return values

    def bcast(self, value):
        return self.allgather(value)[0]

    def gather(self, value):
        values = self.allgather(value)
        return values if self.rank == 0 else None

    @contextmanager
    def raise_on_all(self):
        error = None
        try:
            yield
        except PeerclustError as raised:
            error = raised
        for raised in self.allgather(error):
            if raised is not None:
                raise raised


def run_group(n, call):
    """Return what call(group) returns in each of n threads, or the error it raises, by rank."""
    board, barrier = [None] * n, threading.Barrier(n, timeout=30)

    def run(rank):
        try:
            return call(ThreadGroup(rank, n, board, barrier))
        except threading.BrokenBarrierError:
            raise
        except Exception as error:
            return error

    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(run, range(n)))
