"""Sixty users on a ring, distributed over the ranks of a job; the number of ranks changes no bit.

python cluster_on_mpi.py                            one rank
mpiexec -n 4 python -m mpi4py cluster_on_mpi.py     four ranks
"""

import numpy as np

import peerclust as pc
from peerclust.runtimes.mpi import world

USERS, ROWS = 60, 2000
MEANS = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])


def make_rows(user):
    """Return the rows of one user, mostly of one kind; the same on every rank."""
    rng = np.random.default_rng(user)
    kinds = rng.choice(3, ROWS, p=np.roll([0.8, 0.1, 0.1], user))
    return MEANS[kinds] + rng.normal(size=(ROWS, 2))


ranks = world()
# A contiguous block of the ring per rank: only the two users at its ends have remote neighbors.
own = np.array_split(np.arange(USERS), ranks.size)[ranks.rank].tolist()
solution = pc.cluster(
    {user: make_rows(user) for user in own},
    n_clusters=3,
    graph="ring",
    runtime="mpi",
    gather=False,  # each rank has only its own users' centers and labels
    random_state=0,
)
sizes = np.bincount(np.concatenate(solution.labels), minlength=3)
sizes = np.sum(ranks.allgather(sizes), axis=0)
if ranks.rank == 0:
    print(f"{USERS} users on {ranks.size} ranks, {len(own)} on this one")
    print(f"{solution.status.name} after {solution.certificate.rounds} rounds")
    for center, size in zip(solution.consensus, sizes, strict=True):
        print(f"{size:6d} rows around {center.tolist()}")
