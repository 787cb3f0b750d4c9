"""Five users in two dimensions, one without rows and one with two, and options for a short run."""

import numpy as np

RNG = np.random.default_rng(0)


PARTS = [RNG.normal(size=(n, 2)) + 8 * RNG.integers(0, 3, (n, 1)) for n in (30, 0, 2, 25, 40)]


START = np.array([[0.0, 0.0], [8.0, 8.0], [16.0, 16.0]])


OPTIONS = {
    "n_clusters": 3,
    "graph": "ring",
    "rho": 50.0,
    "init": START,
    "search": "none",
    "rounds": 100,
}
