"""Run by the ranks of a job: clusters with many options and compares with the simulator."""

import dataclasses

import numpy as np

import peerclust as pc
from peerclust.runtimes.mpi import world

ranks = world()
rows, classes = pc.datasets.iris()
users = np.array_split(np.argsort(classes, kind="stable"), 13)
parts = [rows[i] for i in users]
parts[3] = np.empty((0, 4))
weights = [np.random.default_rng(i).uniform(0.5, 2.0, len(part)) for i, part in enumerate(parts)]
flat = np.concatenate(parts), np.concatenate([[0], np.cumsum([len(part) for part in parts])])
given = np.stack([rows[i : i + 3] for i in range(13)])

OPTIONS = [
    {},
    # Searches that move centers.
    {"n_clusters": 6, "loss": "huber"},
    {"n_clusters": 6, "init": "random", "solver": "accelerated", "rho": 10, "tol": 1e-3},
    {"loss": "huber", "rho": 10, "trace": True},
    {"loss": pc.Huber("auto"), "scale": "robust", "weights": weights},
    {"loss": "fair", "rho": 10, "weights": weights, "n_init": 2},
    {"loss": "logistic", "solver": "admm", "scale": "standard"},
    {"solver": "exact", "weights": "normalized", "graph": "exponential"},
    {"solver": "group-lasso", "graph": "path", "rounds": 100},
    {"solver": "dgc", "init": "random", "exchange": "8-bit", "rho": 10, "rounds": 100},
    {"init": "k-means++-local", "rho": 10, "alpha": "paper", "rounds": 50},
    {"rho": 0.1, "solver": "accelerated", "B": 2, "tol": 1e-3},
    {
        "init": pc.initialize.Warm(
            [classes[i] if len(p) else classes[:0] for i, p in zip(users, parts, strict=True)]
        ),
        "rho": 10,
        "rounds": 50,
    },
    {"init": given, "rho": 10, "rounds": 50, "exchange": {"noise": 1e-3, "drop": 0.1}},
    {"distance": pc.Mahalanobis(np.diag([1.0, 2.0, 3.0, 4.0])), "rho": 10},
]


def numbers(solution):
    """Return all that two solutions are compared by; their arrays as bytes, at the end."""
    certificate = dataclasses.asdict(solution.certificate)
    trace = solution.trace and [each.tolist() for each in vars(solution.trace).values()]
    arrays = [
        solution.centers.tobytes(),
        solution.consensus.tobytes(),
        *(each.tobytes() for each in solution.labels),
    ]
    return (
        certificate,
        str(solution.status),
        solution.why,
        solution.rho,
        solution.loss,
        trace,
        arrays,
    )


def main(chosen=OPTIONS):
    check_cluster(chosen)
    check_estimators()
    if ranks.rank == 0:
        print(f"the same on {ranks.size} ranks")


def check_cluster(chosen):
    for each in chosen:
        options = {"n_clusters": 3, "random_state": 7} | each
        alone = numbers(pc.cluster(parts, **options))
        together = numbers(pc.cluster(parts, runtime="mpi", **options))
        for a, b in zip(alone, together, strict=True):
            assert a == b, (each, a, b)
        # How rows are given and results gathered shows in few rounds as well.
        options["rounds"] = 20
        alone = numbers(pc.cluster(parts, **options))
        if "weights" not in each:
            assert numbers(pc.cluster(flat, runtime="mpi", **options))[-1] == alone[-1], each
            own = {i: parts[i] for i in range(13) if i % ranks.size == ranks.rank}
            assert numbers(pc.cluster(own, runtime="mpi", **options))[-1] == alone[-1], each
        part = pc.cluster(parts, runtime="mpi", gather=False, **options)
        assert part.consensus.tobytes() == alone[-1][1], each


def check_estimators():
    site = np.arange(150) % 13
    for kind in (pc.PeerClustering, pc.PeerOutlierDetector):
        alone, together = (
            kind(n_clusters=3, random_state=0, runtime=runtime).fit(rows, users=site)
            for runtime in ("simulator", "mpi")
        )
        assert np.array_equal(alone.labels_, together.labels_), kind
        assert alone.user_centers_.tobytes() == together.user_centers_.tobytes(), kind


if __name__ == "__main__":
    with ranks.abort_on_failure():
        main()
