"""The directory that `peerclust fit` leaves, and how it gets there: all of it or nothing.

- centers.csv: the joint centers, a row a cluster;
- user_centers.csv: each user's own;
- labels.csv: user, file, row, label and outlier score (the distance to the nearest of its own
  user's centers, in scaled units if rows were scaled) of each row, in the order of the files;
- certificate.json: how it ended, and everything needed to run it again;
- solution.npz: the `Solution`, from which `predict` works;
- trace.csv, if asked for: a row a round.

Rank 0 of an MPI job writes what all ranks have. In parts, each rank writes of its own users
user_centers-RANK.csv, labels-RANK.csv and solution-RANK.npz (rank 0's is solution.npz).
"""

from __future__ import annotations

import json
import platform
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import peerclust
from peerclust import tables
from peerclust.clustering.solution import Solution
from peerclust.errors import DataError, ParameterError
from peerclust.files import explain, new_directory
from peerclust.ranks.group import ProcessGroup, run_on_root
from peerclust.tables import ByUser, Table

FILES = (
    r"centers\.csv|user_centers(-\d+)?\.csv|labels(-\d+)?\.csv|certificate\.json"
    r"|solution(-\d+)?\.npz|trace\.csv"
)
# Options that say nothing about the result.
APART = ("as_json", "force", "resume")


def describe(
    solution: Solution, table: Table, *, settings: Mapping[str, Any], group: ProcessGroup
) -> dict[str, Any]:
    """Give what certificate.json holds; `settings` are the options that fit was given.

    Called by all processes of a crew at once, each with its own users' solution.
    """
    sizes = count(np.concatenate(solution.labels), solution.centers.shape[1])
    sizes = np.sum(group.allgather(sizes), axis=0).tolist()
    return {
        "status": asdict(solution.status),
        "certificate": asdict(solution.certificate),
        "solver": solution.solver,
        "rho": solution.rho,
        "alpha": solution.alpha,
        "why": solution.why,
        "cluster_sizes": sizes,
        "features": list(table.features),
        "scale": solution.scale and {n: v.tolist() for n, v in vars(solution.scale).items()},
        "users": table.count_rows(),
        "settings": {
            name: value
            for name, value in sorted(plain_settings(settings).items())
            if name not in APART
        },
        "versions": list_versions(),
    }


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Give options as numbers, texts and lists of texts.

    >>> plain_settings({"out": Path("result"), "rounds": 10})
    {'out': 'result', 'rounds': 10}
    """
    return {
        name: value if isinstance(value, int | float | str | None) else _text(value)
        for name, value in settings.items()
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
    record: dict[str, Any],
    *,
    group: ProcessGroup,
    per_rank: bool = False,
    force: bool = False,
) -> None:
    """Write the whole directory, or nothing.

    Called by all processes of a crew at once, each with its own users' solution.
    """
    users = table.users()
    run_on_root(group, lambda: check_directory(out, force=force))
    with group.raise_on_all():
        labels = _labels(solution, table, users)
    if per_rank:
        with _new_directory_of_all(out, group) as folder:
            part = f"-{group.rank}"
            _write_own(folder, part, solution, table, users.numbers, labels)
            if group.rank == 0:
                _write_joint(folder, solution, table, record)
            solution.save(folder / f"solution{part if group.rank else ''}.npz")
        return
    whole, labels = _bring_solution(solution, group), _bring_labels(labels, group)

    def write_all() -> None:
        with new_directory(out) as folder:
            _write_own(folder, "", whole, table, range(len(table.names)), labels)
            _write_joint(folder, whole, table, record)
            whole.save(folder / "solution.npz")

    run_on_root(group, write_all)


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
    held = sorted(path.name for path in out.iterdir())
    if strange := [name for name in held if not re.fullmatch(FILES, name)]:
        raise ParameterError(
            f"`--out` of fit must be new, empty or an earlier result. Got {out}, which holds"
            f" {strange[0]}."
        )
    if held and not force:
        raise ParameterError(f"{out} holds an earlier result; replace it with --force.")


def check_shared(out: Path, group: ProcessGroup) -> None:
    """Raise, in all processes, if not all see what rank 0 writes where `out` is to be."""
    there = next(folder for folder in out.absolute().parents if folder.exists())
    with ExitStack() as stack:
        try:
            made = run_on_root(
                group, lambda: stack.enter_context(tempfile.TemporaryDirectory(dir=there))
            )
        except OSError as error:
            raise ParameterError(f"{out} cannot be written: {error.strerror}.") from None
        seen = group.allgather(Path(made).is_dir())
    if not all(seen):
        raise ParameterError(
            "`--out` of fit must be on a disk of all ranks with --per-rank. Rank"
            f" {seen.index(False)} of {group.size} does not see that of rank 0. Got {out}."
        )


@contextmanager
def _new_directory_of_all(out: Path, group: ProcessGroup) -> Iterator[Path]:
    """Give all processes a place to write a directory that appears once all are done."""
    with ExitStack() as stack:
        folder = run_on_root(group, lambda: stack.enter_context(new_directory(out)))
        with group.raise_on_all():
            try:
                yield folder
            except OSError as error:
                raise DataError(explain(error)) from None
        run_on_root(group, stack.close)


def _write_own(
    folder: Path,
    part: str,
    solution: Solution,
    table: Table,
    numbers: Any,
    labels: dict[str, Any],
) -> None:
    """Write the centers and labels of these users."""
    m, K, d = solution.centers.shape
    user = table.name_users(np.repeat(np.asarray(numbers, np.int64), K))
    own = dict(zip(table.features, solution.centers.reshape(m * K, d).T, strict=True))
    owners = {"user": user, "cluster": np.tile(np.arange(K), m)}
    tables.write(folder / f"user_centers{part}.csv", owners | own)
    named = {"user": table.name_users(labels["user"]), "file": table.name_files(labels["file"])}
    tables.write(folder / f"labels{part}.csv", labels | named)


def _write_joint(folder: Path, solution: Solution, table: Table, record: dict[str, Any]) -> None:
    """Write what is the same for all users."""
    centers = dict(zip(table.features, solution.consensus.T, strict=True))
    clusters = {"cluster": np.arange(len(solution.consensus))}
    tables.write(folder / "centers.csv", clusters | centers)
    (folder / "certificate.json").write_text(json.dumps(record, indent=2) + "\n")
    if solution.trace is not None:
        rounds = {"round": np.arange(1, len(solution.trace) + 1)}
        tables.write(folder / "trace.csv", rounds | vars(solution.trace))


def _labels(solution: Solution, table: Table, users: ByUser) -> dict[str, NDArray[Any]]:
    """Give the columns of labels.csv for own rows, users and files by their places."""
    label = np.empty(len(table.rows), np.int32)
    score = np.empty(len(table.rows))
    label[users.order] = np.concatenate(solution.labels)
    for i in range(len(solution.centers)):
        own = users.order[users.offsets[i] : users.offsets[i + 1]]
        if len(own):
            score[own] = solution.outlier_scores(table.rows[own], user=i)
    where = {"user": table.user, "file": table.file, "row": table.row}
    return where | {"label": label, "outlier_score": score}


def _bring_labels(own: dict[str, NDArray[Any]], group: ProcessGroup) -> dict[str, NDArray[Any]]:
    """Give rank 0 the labels of all rows, in the order of the files."""
    if group.size == 1:
        return own
    # One column after the other: a message is no longer than a column.
    brought = {name: group.gather(column) for name, column in own.items()}
    whole = {name: np.concatenate(parts) for name, parts in brought.items() if parts is not None}
    if not whole:
        return own
    order = np.lexsort((whole["row"], whole["file"]))
    return {name: column[order] for name, column in whole.items()}


def _bring_solution(solution: Solution, group: ProcessGroup) -> Solution:
    """Give rank 0 the whole solution; the others keep their part."""
    if solution.part is None:
        return solution
    numbers = group.gather(solution.part.users)
    centers, labels = group.gather(solution.centers), group.gather(solution.labels)
    if numbers is None or centers is None or labels is None:
        return solution
    order = np.argsort(np.concatenate(numbers))
    of_all = [each for part in labels for each in part]
    return replace(
        solution,
        centers=np.concatenate(centers)[order],
        labels=[of_all[i] for i in order],
        part=None,
    )


def _text(value: Any) -> Any:
    return [str(item) for item in value] if isinstance(value, list) else str(value)
