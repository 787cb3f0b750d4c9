"""The directory that `peerclust fit` leaves, and how it gets there: all of it or nothing.

- centers.csv: the joint centers, a row a cluster;
- user_centers.csv: each user's own;
- labels.csv: user, file, row, label and outlier score (the distance to the nearest of its own
  user's centers, in scaled units if rows were scaled) of each row, in the order of the files;
- certificate.json: how it ended, and everything needed to run it again;
- solution.npz: the `Solution`, from which `predict` works;
- trace.csv, if asked for: a row a round.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import peerclust
from peerclust import tables
from peerclust.errors import DataError, ParameterError
from peerclust.files import new_directory
from peerclust.solution import Solution
from peerclust.tables import ByUser, Table

FILES = {
    "centers.csv",
    "user_centers.csv",
    "labels.csv",
    "certificate.json",
    "solution.npz",
    "trace.csv",
}


def describe(
    solution: Solution, table: Table, users: ByUser, *, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Give what certificate.json holds; `settings` are the options that fit was given."""
    labels = np.concatenate(solution.labels)
    return {
        "status": asdict(solution.status),
        "certificate": asdict(solution.certificate),
        "solver": solution.solver,
        "rho": solution.rho,
        "alpha": solution.alpha,
        "why": solution.why,
        "cluster_sizes": count(labels, solution.centers.shape[1]),
        "features": list(table.features),
        "scale": solution.scale and {n: v.tolist() for n, v in vars(solution.scale).items()},
        "users": dict(zip(users.names, np.diff(users.offsets).tolist(), strict=True)),
        "settings": {
            name: value if isinstance(value, int | float | str | None) else _text(value)
            for name, value in sorted(settings.items())
            if name not in ("as_json", "force")
        },
        "versions": list_versions(),
    }


def list_versions() -> dict[str, str]:
    """Give the versions on which the bits of a result depend."""
    return {
        "peerclust": peerclust.__version__,
        "numpy": np.__version__,
        "numba": version("numba"),
        "python": platform.python_version(),
    }


def count(labels: NDArray[np.int32], K: int) -> list[int]:
    """Give how many rows each of K clusters has."""
    sizes: list[int] = np.bincount(labels, minlength=K).tolist()
    return sizes


def write(
    out: Path,
    solution: Solution,
    table: Table,
    users: ByUser,
    record: dict[str, Any],
    *,
    force: bool = False,
) -> None:
    """Write the whole directory, or nothing."""
    check_directory(out, force=force)
    m, K, d = solution.centers.shape
    with new_directory(out) as folder:
        centers = dict(zip(table.features, solution.consensus.T, strict=True))
        tables.write(folder / "centers.csv", {"cluster": np.arange(K)} | centers)
        owners = {"user": np.repeat(users.names, K), "cluster": np.tile(np.arange(K), m)}
        own = dict(zip(table.features, solution.centers.reshape(m * K, d).T, strict=True))
        tables.write(folder / "user_centers.csv", owners | own)
        tables.write(folder / "labels.csv", _labels(solution, table, users))
        (folder / "certificate.json").write_text(json.dumps(record, indent=2) + "\n")
        solution.save(folder / "solution.npz")
        if solution.trace is not None:
            rounds = {"round": np.arange(1, len(solution.trace) + 1)}
            tables.write(folder / "trace.csv", rounds | vars(solution.trace))


def read(directory: Path) -> tuple[Solution, list[str]]:
    """Read the solution and the names of its features from a directory that `write` left."""
    try:
        features = json.loads((directory / "certificate.json").read_text())["features"]
        return Solution.load(directory / "solution.npz"), features
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = error if isinstance(error, DataError) else "It has no readable certificate.json."
        raise DataError(
            f"{directory} must be a directory that peerclust fit wrote. {why}"
        ) from None


def check_features(table: Table) -> None:
    """Raise if a feature would collide with a column of the files to be written."""
    for name in ("user", "cluster"):
        if name in table.features:
            raise DataError(
                f"A feature must not be named {name!r}, which is a column of user_centers.csv;"
                " rename it, or choose columns with --columns."
            )


def check_directory(out: Path, *, force: bool) -> None:
    """Raise unless `out` is new, empty, or an earlier result to be replaced."""
    if not out.exists():
        return
    if not out.is_dir():
        raise ParameterError(f"`--out` of fit must be a directory. Got {out}, which is a file.")
    held = {path.name for path in out.iterdir()}
    if strange := sorted(held - FILES):
        raise ParameterError(
            f"`--out` of fit must be new, empty or an earlier result. Got {out}, which holds"
            f" {strange[0]}."
        )
    if held and not force:
        raise ParameterError(f"{out} holds an earlier result; replace it with --force.")


def _labels(solution: Solution, table: Table, users: ByUser) -> dict[str, Any]:
    label = np.empty(len(table.rows), np.int32)
    score = np.empty(len(table.rows))
    label[users.order] = np.concatenate(solution.labels)
    for i in range(len(solution.centers)):
        own = users.order[users.offsets[i] : users.offsets[i + 1]]
        if len(own):
            score[own] = solution.outlier_scores(table.rows[own], user=i)
    return {"user": table.user_names()} | table.places() | {"label": label, "outlier_score": score}


def _text(value: Any) -> Any:
    return [str(item) for item in value] if isinstance(value, list) else str(value)
