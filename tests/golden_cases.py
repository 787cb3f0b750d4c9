"""The clusterings whose numbers are kept by `golden`: small, and together every choice there is.

Each case is a dict of arguments of `cluster`. `FIXED` cases leave nothing to a heuristic: start,
step, rho and number of rounds are given, `tol` is 0 and rows are not scaled. Their numbers may
change only if the mathematics does. `CHOSEN` cases start, scale and stop by themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import peerclust as pc
from instances import PseudoHuber, spd

Options = dict[str, Any]


def gaussian_rows(n: int, d: int, seed: int) -> np.ndarray:
    """Return n rows around three centers in d dimensions, all of them above zero."""
    rng = np.random.default_rng((seed, n, d))
    centers = rng.uniform(10.0, 16.0, (3, d))
    return centers[rng.integers(3, size=n)] + rng.normal(size=(n, d))


def data(name: str) -> list[np.ndarray]:
    """Return each user's rows; users differ in size, and one is empty."""
    if name == "small":  # a few rows each, and a user with none
        return np.split(gaussian_rows(50, 2, 1), [4, 9, 9, 22, 30, 41])
    if name == "iris":
        rows, species = pc.datasets.iris()
        users = pc.partition.homogeneous(species, 6, random_state=0)
        return [rows[mine] for mine in users]
    if name == "boxed":  # many rows of few features
        return np.split(gaussian_rows(4000, 2, 2), [1500, 1900, 3200])
    if name == "bounded":  # many features
        return np.split(gaussian_rows(300, 20, 3), [60, 130, 200, 290])
    if name == "float32":
        return [part.astype(np.float32) for part in np.split(gaussian_rows(240, 3, 4), 4)]
    raise ValueError(name)


def _weights(parts: list[np.ndarray]) -> list[np.ndarray]:
    return [np.random.default_rng(i).uniform(0.0, 2.0, len(part)) for i, part in enumerate(parts)]


def _graph(name: str, m: int) -> Any:
    made = {
        "erdos_renyi": lambda: pc.graphs.erdos_renyi(m, 0.6, random_state=1),
        "geometric": lambda: pc.graphs.geometric(m, 0.7, random_state=2),
    }
    return made[name]() if name in made else name


def _case(of: str, solver: str, loss: Any, graph: str, **options: Any) -> Options:
    parts = data(of)
    if options.get("weights") == "given":
        options["weights"] = _weights(parts)
    common = {"n_clusters": 3, "rounds": 60, "random_state": 11}
    return common | {
        "parts": parts,
        "solver": solver,
        "loss": loss,
        "graph": _graph(graph, len(parts)),
        **options,
    }


def _fixed(
    of: str,
    solver: str,
    loss: Any,
    graph: str,
    *,
    rho: float = 20.0,
    alpha: float = 0.002,
    **more: Any,
) -> Options:
    parts = data(of)
    rows = np.concatenate(parts)
    start = np.stack([rows[i :: len(rows) // 3][:3] for i in range(len(parts))]).astype(float)
    if solver in ("dgc", "accelerated"):
        more |= {"rho": rho, "alpha": alpha}
    elif solver == "group-lasso":
        more["rho"] = rho
    return _case(of, solver, loss, graph, init=start, tol=0, **more)


FIXED: dict[str, Options] = {
    "fixed-01": _fixed("small", "dgc", "kmeans", "ring"),
    "fixed-02": _fixed("iris", "dgc", pc.Huber(1.5), "path", weights="normalized", alpha=0.02),
    "fixed-03": _fixed("boxed", "dgc", "logistic", "star", rho=500.0),
    "fixed-04": _fixed("bounded", "dgc", pc.Fair(0.5), "complete", weights="given"),
    "fixed-05": _fixed("float32", "dgc", PseudoHuber(0.7), "grid", B=3),
    "fixed-06": _fixed("small", "accelerated", pc.Huber(5.0), "erdos_renyi", weights="given"),
    "fixed-07": _fixed(
        "iris", "accelerated", "logistic", "geometric", distance=pc.Mahalanobis(spd(4))
    ),
    "fixed-08": _fixed("boxed", "accelerated", "kmeans", "ring", rho=900.0),
    "fixed-09": _fixed("bounded", "accelerated", "huber", "path", exchange="float32"),
    "fixed-10": _fixed("float32", "accelerated", "fair", "star", consensus_factor="1-1/rho"),
    "fixed-11": _fixed("small", "admm", "kmeans", "complete", weights="normalized"),
    "fixed-12": _fixed("iris", "admm", pc.Huber(1.5), "erdos_renyi"),
    "fixed-13": _fixed("boxed", "admm", "fair", "grid"),
    "fixed-14": _fixed("bounded", "admm", "logistic", "ring", exchange="8-bit"),
    "fixed-15": _fixed("float32", "admm", "kmeans", "path", distance=pc.Mahalanobis(spd(3))),
    "fixed-16": _fixed("small", "group-lasso", "fair", "geometric"),
    "fixed-17": _fixed("iris", "group-lasso", "kmeans", "star", weights="given"),
    "fixed-18": _fixed("boxed", "group-lasso", pc.Huber(0.5), "path"),
    "fixed-19": _fixed("float32", "group-lasso", "logistic", "complete", exchange="float32"),
    "fixed-20": _fixed("iris", "dgc", pc.bregman.generalized_kl(smoothness=2.0), "ring"),
    "fixed-21": _fixed("small", "accelerated", pc.bregman.squared_mahalanobis(spd(2)), "grid"),
    "fixed-22": _fixed(
        "small", "dgc", "kmeans", "star", exchange={"noise": 1e-3, "drop": 0.1, "seed": 5}
    ),
    "fixed-23": _fixed("iris", "accelerated", "huber", "ring", exchange="8-bit", B=2),
    "fixed-24": _fixed("small", "exact", "kmeans", "path"),
    "fixed-25": _fixed("iris", "exact", "logistic", "complete", weights="given"),
    "fixed-26": _fixed("boxed", "dgc", "huber", "complete", runtime="loopback", trace=True),
}

CHOSEN: dict[str, Options] = {
    "chosen-01": _case("iris", "accelerated", "kmeans", "ring", rho=50.0),
    "chosen-02": _case("iris", "accelerated", "huber", "path", rho="auto", rounds=300, tol=1e-3),
    "chosen-03": _case("small", "dgc", "logistic", "star", rho=5.0, scale="standard"),
    "chosen-04": _case("boxed", "accelerated", "kmeans", "complete", rho=100.0, n_init=3),
    "chosen-05": _case("bounded", "admm", "huber", "grid", scale="standard", rounds=200),
    "chosen-06": _case("float32", "admm", "fair", "erdos_renyi", weights="normalized", rounds=200),
    "chosen-07": _case("iris", "exact", "huber", "ring", scale="standard", weights="given"),
    "chosen-08": _case("small", "exact", "fair", "complete"),
    "chosen-09": _case("iris", "group-lasso", "kmeans", "geometric", rho="auto", rounds=200),
    "chosen-10": _case("boxed", "dgc", pc.Huber(3.0), "path", rho=10.0, alpha="paper"),
    "chosen-11": _case("iris", "auto", "kmeans", "auto", rounds=200),
    "chosen-12": _case("iris", "auto", "logistic", "star", rho=30.0, search="none"),
    "chosen-13": _case("small", "accelerated", "fair", "ring", rho=8.0, init="random"),
    "chosen-14": _case(
        "boxed", "accelerated", "logistic", "grid", rho=40.0, init="k-means++-local"
    ),
    "chosen-15": _case(
        "bounded", "dgc", "kmeans", "geometric", rho=15.0, exchange="float16", scale="standard"
    ),
    "chosen-16": _case("iris", "admm", "kmeans", "path", exchange="float32", rounds=200),
    "chosen-17": _case(
        "iris",
        "accelerated",
        "fair",
        "complete",
        rho=20.0,
        distance=pc.Mahalanobis(spd(4)),
        scale="standard",
    ),
    "chosen-18": _case(
        "small", "accelerated", PseudoHuber(), "path", rho=6.0, weights="given", trace=True
    ),
    "chosen-19": _case(
        "float32",
        "dgc",
        "huber",
        "ring",
        rho=12.0,
        B=4,
        init=pc.initialize.KMeansPlusPlus(mean_of=5),
    ),
    "chosen-20": _case(
        "iris",
        "dgc",
        "kmeans",
        "erdos_renyi",
        rho=30.0,
        exchange={"gradient_noise": 1e-3, "seed": 3},
    ),
    "chosen-21": _case("iris", "accelerated", pc.bregman.squared_euclidean(), "ring", rho=25.0),
    "chosen-22": _case("boxed", "exact", "kmeans", "star", rounds=100, n_clusters=8),
    "chosen-23": _case(
        "iris", "admm", "huber", "ring", n_clusters=5, rounds=300, tol=1e-4, trace=True
    ),
    "chosen-24": _case("iris", "auto", "huber", "ring", init=pc.initialize.KMeansPlusPlus(cap=0.9)),
}

CASES = FIXED | CHOSEN

# Run again as the ranks of an MPI job, which must give the numbers of the simulator.
ON_MPI = ("fixed-06", "chosen-05")

# Settings of a network of three sites.
PEERS: dict[str, Options] = {
    "peers-1": {"solver": "accelerated", "loss": "huber", "rho": 30.0, "tol": 1e-3, "rounds": 200},
    "peers-2": {"solver": "admm", "loss": "kmeans", "tol": 1e-4, "rounds": 300, "on_loss": "stop"},
}
