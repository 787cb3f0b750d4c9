"""Run by the ranks of a job: checks that MPI ends every program as the simulator does."""

import sys

from conformance_cases import covering_trials
from peerclust import testing
from peerclust.ranks.distribution import Distribution, distribute_users
from peerclust.runtimes import Simulator
from peerclust.runtimes.mpi import world

ranks = world()


class Old:
    """A communicator of an MPI library without persistent collectives."""

    def __init__(self, comm):
        self._comm = comm

    def Neighbor_alltoallv_init(self, *_):
        raise NotImplementedError

    def __getattr__(self, name):
        return getattr(self._comm, name)


def runtime(graph):
    made = ranks.make_runtime(
        Distribution(ranks, graph, distribute_users(graph, [1] * graph.m, ranks.size))
    )
    if "old" in sys.argv:
        made._neighborhood = Old(made._neighborhood)
        made._exchanges.clear()
        made._last = made._exchange(2)
    return made


def check(programs, cases):
    """Check these programs in these cases."""
    testing.check_runtime(runtime, Simulator, programs=programs, cases=cases)
    if ranks.rank == 0:
        print(f"conforms on {ranks.size} ranks")


def check_covering(programs=testing.PROGRAMS):
    """Check these programs, in few cases that have every pair of properties."""
    for name, cases in covering_trials(programs).items():
        testing.check_runtime(runtime, Simulator, programs=[name], cases=cases)
    if ranks.rank == 0:
        print(f"conforms on {ranks.size} ranks")


if __name__ == "__main__":
    with ranks.abort_on_failure():
        if "old" in sys.argv:
            check_covering(["dgc", "accelerated", "admm", "group lasso", "draw"])
        else:
            check(testing.PROGRAMS, list(testing.cases()))
