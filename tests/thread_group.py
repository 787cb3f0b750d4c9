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

    def collect(self, value):
        self._board[self.rank] = pickle.dumps(value)
        self._barrier.wait()
        held = [pickle.loads(each) for each in self._board]
        self._barrier.wait()
        return held

    def tell(self, value):
        return self.collect(value)[0]

    def bring(self, value):
        held = self.collect(value)
        return held if self.rank == 0 else None

    @contextmanager
    def checking(self):
        error = None
        try:
            yield
        except PeerclustError as raised:
            error = raised
        for raised in self.collect(error):
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
