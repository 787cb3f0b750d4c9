"""Run by the ranks of a job: checks that MPI ends every program as the simulator does."""

from peerclust import testing
from peerclust.runtimes import Simulator
from peerclust.runtimes.mpi import world
from peerclust.share import Share, share_out

ranks = world()


def runtime(graph):
    sizes = [1] * graph.m
    return ranks.drive(Share(ranks, graph, share_out(graph, sizes, ranks.size)))


with ranks.together():
    testing.check_runtime(runtime, Simulator)
if ranks.rank == 0:
    print(f"conforms on {ranks.size} ranks")
