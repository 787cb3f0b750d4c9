"""Table 5 in short: users that each have two of three classes find all three together."""

import numpy as np

import peerclust as pc

rows, classes = pc.datasets.iris()
users = pc.partition.by_class(classes, 15, per_user=2, random_state=0)
parts = [rows[i] for i in users]

together = pc.cluster(
    parts,
    n_clusters=3,
    graph=pc.graphs.ring(15),
    solver="dgc",
    rho=100,
    alpha="paper",
    tol=0,
    init="random",
    n_init=1,
    random_state=0,
)
# Alone, a user clusters only its own rows, and its centers say little about the others' rows.
alone = [pc.cluster([part], n_clusters=3, random_state=0).consensus for part in parts]


def score(centers):
    """Return the adjusted Rand index of all rows, labeled by one user's centers."""
    nearest = np.linalg.norm(rows[:, None] - centers[None], axis=2).argmin(axis=1)
    return pc.metrics.ari(classes, nearest)


print("ARI of all rows by each user's centers, mean over users")
print(f"  together: {np.mean([score(x) for x in together.centers]):.2f}")
print(f"  alone:    {np.mean([score(x) for x in alone]):.2f}")
