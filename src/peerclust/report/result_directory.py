"""The files of a result, and the directory that `peerclust fit` writes, all of it or nothing.

- centers.csv: the joint centers, one row per cluster;
- user_centers.csv: each user's own centers;
- labels.csv: user, file, row, label and outlier score (the distance to the nearest of its own
  user's centers, in scaled units if rows were scaled) of each row, in the order of the files;
- certificate.json: how the run ended, and everything needed to run it again;
- solution.npz: the `Solution`, which `predict` reads;
- trace.csv, if requested: one row per round.

`write_files` writes them, also for a site (`peers.result_files`). Rank 0 of an MPI job writes
what all ranks have. With --per-rank, each rank writes user_centers-RANK.csv, labels-RANK.csv and
solution-RANK.npz (rank 0: solution.npz) for its own users.
"""

from __future__ import annotations

import json
import platform
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import peerclust
from peerclust import tables
from peerclust.arrays import Array
from peerclust.clustering.saving import describe_loss
from peerclust.clustering.solution import Solution
from peerclust.errors import DataError, ParameterError
from peerclust.files import explain, new_directory, new_file
from peerclust.ranks.group import ProcessGroup, run_on_root
from peerclust.tables import ByUser, Table

FILES = (
    r"centers\.csv|user_centers(-\d+)?\.csv|labels(-\d+)?\.csv|certificate\.json"
    r"|solution(-\d+)?\.npz|trace\.csv"
)
# Options that do not affect the result.
NOT_RECORDED = ("as_json", "force", "resume")


def describe(
    solution: Solution, table: Table, *, settings: Mapping[str, Any], group: ProcessGroup
) -> dict[str, Any]:
    """Return the contents of certificate.json; `settings` are the options of fit.

    Collective: each process passes its own users' solution.
    """
    sizes = np.sum(group.allgather(solution.cluster_sizes), axis=0).tolist()
    return {
        "status": asdict(solution.status),
        "certificate": asdict(solution.certificate),
        "solver": solution.solver,
        "loss": describe_loss(solution.loss),
        "rho": solution.rho,
        "alpha": solution.alpha,
        "why": solution.why,
        "cluster_sizes": sizes,
        "features": list(table.features),
        "scale": solution.scale and {n: v.tolist() for n, v in vars(solution.scale).items()},
        "users": table.count_rows(),
        "dialects": table.record_dialects(),
        "settings": {
            name: value
            for name, value in sorted(plain_settings(settings).items())
            if name not in NOT_RECORDED
        },
        "versions": list_versions(),
    }


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as numbers, strings and lists of strings.

    >>> plain_settings({"out": Path("result"), "rounds": 10})
    {'out': 'result', 'rounds': 10}
    """
    return {
        name: value if isinstance(value, int | float | str | None) else _text(value)
        for name, value in settings.items()
    }


def list_versions() -> dict[str, str]:
    """Return the versions on which the bits of a result depend."""
    return {
        "peerclust": peerclust.__version__,
        "numpy": np.__version__,
        "numba": version("numba"),
        "python": platform.python_version(),
    }


def count(labels: NDArray[np.int32], K: int) -> list[int]:
    """Return the number of rows of each of K clusters."""
    sizes: list[int] = np.bincount(labels, minlength=K).tolist()
    return sizes


def write(
    out: Path,
    solution: Solution,
    table: Table,
    record: dict[str, Any],
    *,
    group: ProcessGroup,
    per_rank: bool = False,
    force: bool = False,
) -> None:
    """Write the whole directory, or nothing.

    Collective: each process passes its own users' solution.
    """
    users = table.users()
    run_on_root(group, lambda: check_directory(out, force=force))
    with group.raise_on_all():
        labels = _labels(solution, table, users)
    if per_rank:
        part = f"-{group.rank}"
        with _new_shared_directory(out, group) as folder:
            files = _own_files(part, solution, table, users.ids, labels)
            files[f"solution{part if group.rank else ''}.npz"] = solution
            write_files(folder, files | _joint_files(solution, table, record, group))
        return
    whole, labels = _gather_solution(solution, group), _gather_labels(labels, group)

    def write_all() -> None:
        files = _own_files("", whole, table, range(len(table.names)), labels)
        files |= {"solution.npz": whole} | _joint_files(whole, table, record, group)
        with new_directory(out) as folder:
            write_files(folder, files)

    run_on_root(group, write_all)


def write_files(folder: Path, files: Mapping[str, Solution | Mapping[str, Any]]) -> None:
    """Write files by their names, in order, each whole or not at all.

    A .npz is a solution, a .json a record, and any other file a table of columns.
    """
    for name, content in files.items():
        if isinstance(content, Solution):
            content.save(folder / name)
            continue
        with new_file(folder / name) as place:
            if place.suffix == ".json":
                place.write_text(json.dumps(content, indent=2) + "\n")
            else:
                tables.write(place, content)


def center_columns(features: Sequence[str], centers: Array) -> dict[str, Any]:
    """Return the columns of centers.csv for centers (K, d)."""
    columns = dict(zip(features, centers.T, strict=True))
    return {"cluster": np.arange(len(centers))} | columns


def read(directory: Path) -> tuple[Solution, list[str]]:
    """Read the solution and the names of its features from a directory that `write` wrote."""
    try:
        features = json.loads((directory / "certificate.json").read_text())["features"]
        return Solution.load(directory / "solution.npz"), features
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = error if isinstance(error, DataError) else "It has no readable certificate.json."
        raise DataError(
            f"{directory} must be a directory that peerclust fit wrote. {why}"
        ) from None


def check_features(table: Table) -> None:
    """Raise if a feature has the name of another column of the files to be written."""
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
    names = sorted(path.name for path in out.iterdir())
    if unknown := [name for name in names if not re.fullmatch(FILES, name)]:
        raise ParameterError(
            f"`--out` of fit must be new, empty or an earlier result. Got {out}, which contains"
            f" {unknown[0]}."
        )
    if names and not force:
        raise ParameterError(f"{out} contains an earlier result; replace it with --force.")


def check_shared(out: Path, group: ProcessGroup) -> None:
    """Raise, in all processes, unless all of them see what rank 0 writes to the place of `out`."""
    parent = next(folder for folder in out.absolute().parents if folder.exists())
    with ExitStack() as stack:
        try:
            made = run_on_root(
                group, lambda: stack.enter_context(tempfile.TemporaryDirectory(dir=parent))
            )
        except OSError as error:
            raise ParameterError(f"{out} cannot be written: {error.strerror}.") from None
        seen = group.allgather(Path(made).is_dir())
    if not all(seen):
        raise ParameterError(
            "`--out` of fit must be on a file system that all ranks share with --per-rank. Rank"
            f" {seen.index(False)} of {group.size} does not see that of rank 0. Got {out}."
        )


@contextmanager
def _new_shared_directory(out: Path, group: ProcessGroup) -> Iterator[Path]:
    """Yield a directory to which all processes write, and that appears once all are done."""
    with ExitStack() as stack:
        folder = run_on_root(group, lambda: stack.enter_context(new_directory(out)))
        with group.raise_on_all():
            try:
                yield folder
            except OSError as error:
                raise DataError(explain(error)) from None
        run_on_root(group, stack.close)


def _own_files(
    part: str, solution: Solution, table: Table, ids: Sequence[int], labels: dict[str, Any]
) -> dict[str, Any]:
    """Return the files with the centers and labels of these users."""
    m, K, d = solution.centers.shape
    user = {"user": table.name_users(np.repeat(np.asarray(ids, np.int64), K))}
    own = center_columns(table.features, solution.centers.reshape(m * K, d))
    own["cluster"] = np.tile(np.arange(K), m)
    named = {"user": table.name_users(labels["user"]), "file": table.name_files(labels["file"])}
    return {f"user_centers{part}.csv": user | own, f"labels{part}.csv": labels | named}


def _joint_files(
    solution: Solution, table: Table, record: dict[str, Any], group: ProcessGroup
) -> dict[str, Any]:
    """Return the files that are the same for all users; only rank 0 writes them."""
    if group.rank > 0:
        return {}
    files = {"centers.csv": center_columns(table.features, solution.consensus)}
    if solution.trace is not None:
        rounds = {"round": np.arange(1, len(solution.trace) + 1)}
        files["trace.csv"] = rounds | vars(solution.trace)
    return files | {"certificate.json": record}


def _labels(solution: Solution, table: Table, users: ByUser) -> dict[str, NDArray[Any]]:
    """Return the columns of labels.csv for this process's rows, users and files by index."""
    label = np.empty(len(table.rows), np.int32)
    score = np.empty(len(table.rows))
    label[users.order] = np.concatenate(solution.labels)
    for i in range(len(solution.centers)):
        own = users.order[users.offsets[i] : users.offsets[i + 1]]
        if len(own):
            score[own] = solution.outlier_scores(table.rows[own], user=i)
    where = {"user": table.user, "file": table.file, "row": table.row}
    return where | {"label": label, "outlier_score": score}


def _gather_labels(own: dict[str, NDArray[Any]], group: ProcessGroup) -> dict[str, NDArray[Any]]:
    """Return the labels of all rows, in the order of the files, on rank 0."""
    if group.size == 1:
        return own
    # One column at a time, so that a message is no longer than a column.
    gathered = {name: group.gather(column) for name, column in own.items()}
    whole = {name: np.concatenate(parts) for name, parts in gathered.items() if parts is not None}
    if not whole:
        return own
    order = np.lexsort((whole["row"], whole["file"]))
    return {name: column[order] for name, column in whole.items()}


def _gather_solution(solution: Solution, group: ProcessGroup) -> Solution:
    """Return the whole solution on rank 0; the others return their part."""
    if solution.part is None:
        return solution
    ids = group.gather(solution.part.users)
    centers, labels = group.gather(solution.centers), group.gather(solution.labels)
    if ids is None or centers is None or labels is None:
        return solution
    order = np.argsort(np.concatenate(ids))
    whole = [each for part in labels for each in part]
    return replace(
        solution,
        centers=np.concatenate(centers)[order],
        labels=[whole[i] for i in order],
        part=None,
    )


def _text(value: Any) -> Any:
    return [str(item) for item in value] if isinstance(value, list) else str(value)
