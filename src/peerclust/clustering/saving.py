"""A solution in one .npz file, without pickles."""

from __future__ import annotations

import json
import zipfile
import zlib
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from peerclust import losses
from peerclust.clustering.result import Certificate, Status, Trace
from peerclust.clustering.scaling import Scale
from peerclust.clustering.solution import Partial, Solution
from peerclust.distances import Distance, Euclidean, Mahalanobis
from peerclust.errors import DataError
from peerclust.files import new_file
from peerclust.losses import Loss

# What reading a damaged file may raise; a RuntimeError is about encryption or compression.
_DAMAGED = (
    OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError, IndexError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def write(solution: Solution, path: Path) -> None:
    """Write the whole solution, or nothing; a custom loss is stored by its name only."""
    header = {
        "status": asdict(solution.status),
        "certificate": asdict(solution.certificate),
        "rho": solution.rho,
        "alpha": solution.alpha,
        "why": solution.why,
        "solver": solution.solver,
        "loss": describe_loss(solution.loss),
        "distance": type(solution.distance).__name__,
        "feature_names": solution.feature_names,
        "dtype": solution.dtype,
    }
    arrays: dict[str, ArrayLike] = {
        "header": np.array(json.dumps(header)),
        "centers": solution.centers,
        "labels": np.concatenate(solution.labels),
        "sizes": np.array([len(part) for part in solution.labels]),
    }
    if isinstance(solution.distance, Mahalanobis):
        arrays["A"] = np.asarray(solution.distance.A)
    if solution.scale is not None:
        arrays |= {"scale_mean": solution.scale.mean, "scale_deviation": solution.scale.deviation}
    if solution.part is not None:
        arrays |= {"part_users": solution.part.users, "part_consensus": solution.part.consensus}
    if solution.trace is not None:
        arrays |= {f"trace_{f.name}": getattr(solution.trace, f.name) for f in fields(Trace)}
    with new_file(path) as place, place.open("wb") as file:
        # mypy takes a key for the parameter allow_pickle.
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def read(path: Path, *, loss: Loss | None = None, distance: Distance | None = None) -> Solution:
    """Read what `write` wrote; `loss` and `distance` replace what could not be stored."""
    try:
        # np.load leaves a damaged file open.
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays["header"]))
        stored = header["loss"]
        if loss is None and stored["name"] in losses.LOSSES:
            loss = losses.LOSSES[stored["name"]](**stored["parameters"])
        if distance is None and header["distance"] == "Euclidean":
            distance = Euclidean()
        if distance is None and "A" in arrays:
            distance = Mahalanobis(arrays["A"])
        scale = None
        if "scale_mean" in arrays:
            scale = Scale(arrays["scale_mean"], arrays["scale_deviation"])
        part = None
        if "part_users" in arrays:
            part = Partial(tuple(arrays["part_users"].tolist()), arrays["part_consensus"])
        trace = None
        if "trace_cost" in arrays:
            trace = Trace(**{f.name: arrays[f"trace_{f.name}"] for f in fields(Trace)})
        names = header.get("feature_names")
        return Solution(
            centers=arrays["centers"],
            labels=np.split(arrays["labels"], np.cumsum(arrays["sizes"])[:-1]),
            status=Status(**header["status"]),
            certificate=Certificate(**header["certificate"]),
            rho=header["rho"],
            alpha=header["alpha"],
            why=header["why"],
            trace=trace,
            loss=loss,
            distance=distance,
            scale=scale,
            solver=header.get("solver", "dgc"),
            part=part,
            feature_names=None if names is None else tuple(names),
            dtype=header.get("dtype", "float64"),
        )
    except FileNotFoundError:
        raise DataError(f"There is no file {path}.") from None
    except _DAMAGED:
        raise DataError(f"{path} is not a solution that peerclust saved.") from None


def describe_loss(loss: object) -> dict[str, object]:
    """Return the name and the parameters of a loss; a custom loss has its name only.

    >>> describe_loss(losses.Huber(2.0))
    {'name': 'huber', 'parameters': {'delta': 2.0}}
    """
    for name, kind in losses.LOSSES.items():
        if isinstance(loss, kind):
            return {"name": name, "parameters": vars(loss)}
    return {"name": getattr(loss, "name", type(loss).__name__), "parameters": {}}
