"""Convert options of the command line to losses, distances, graphs, numbers and names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from peerclust import distances, graphs, initialize, losses, tables
from peerclust.clustering.checkpoint import Checkpoint
from peerclust.errors import ParameterError
from peerclust.ranks.group import ProcessGroup
from peerclust.validation import check_name


def parse_number(name: str, value: str, *names: str) -> float | str:
    """Return an option's value as a number, or unchanged if it is one of the names.

    >>> parse_number("--rho", "10", "auto"), parse_number("--rho", "auto", "auto")
    (10.0, 'auto')
    """
    if value in names:
        return value
    try:
        return float(value)
    except ValueError:
        must = " or ".join(["a number", *map(repr, names)])
        raise ParameterError(f"`{name}` of fit must be {must}. Got {value!r}.") from None


def split_names(value: str | None) -> list[str] | None:
    """Return the names in a comma-separated list.

    >>> split_names("a, b")
    ['a', 'b']
    """
    if value is None:
        return None
    return [name.strip() for name in value.split(",")]


def parse_scale(value: str) -> str | None:
    """Return `scale` of `cluster`.

    >>> parse_scale("standard"), parse_scale("none")
    ('standard', None)
    """
    known = check_name(value, ("standard", "none"), "--scale", "fit")
    return None if known == "none" else known


def check_start(value: str) -> None:
    """Raise unless --init names a start; `init` of `cluster` may also be centers."""
    check_name(value, initialize.STARTS, "--init", "fit")


def make_loss(name: str, *, delta: float | None, eta: float | None) -> losses.Loss:
    """Return a loss by its name, with its one parameter.

    >>> make_loss("huber", delta=2.0, eta=None)
    Huber(delta=2.0)
    """
    check_name(name, losses.LOSSES, "--loss", "fit")
    given = {"delta": delta, "eta": eta}
    for key, value in given.items():
        owner = losses.PARAMETERS[key]
        if value is not None and name != owner:
            raise ParameterError(f"`--{key}` of fit requires --loss {owner}. Got --loss {name}.")
    return losses.make(name, given)


def make_distance(name: str, matrix: Path | None) -> distances.Distance:
    """Return a distance by its name, with its matrix read from a file."""
    check_name(name, ("euclidean", "mahalanobis"), "--distance", "fit")
    if (name == "mahalanobis") != (matrix is not None):
        got = "no --matrix" if matrix is None else f"--matrix {matrix} and --distance {name}"
        raise ParameterError(
            f"`--distance mahalanobis` and `--matrix` of fit require each other. Got {got}."
        )
    return (
        distances.Euclidean()
        if matrix is None
        else distances.Mahalanobis(tables.read_matrix(matrix))
    )


def make_graph(value: str, users: Sequence[str]) -> graphs.Graph:
    """Return a graph by its name, or from a file that names exactly these users, in their order."""
    if value in graphs.NAMED or not (Path(value).suffix or Path(value).exists()):
        return graphs.resolve(value, len(users))
    found = graphs.from_file(value)
    numbered = tuple(map(str, range(found.m)))
    if found.names is None and set(numbered) != set(users):
        # Users have names, so numbers in the file are names too.
        found = replace(found, names=numbered)
    return found.matched(users, f"The graph file {value}")


def cluster_input(table: tables.Table, group: ProcessGroup) -> dict[str, Any]:
    """Return `parts` and `weights` of `cluster`: flat, or a dict of this rank's own users."""
    users, weights = table.users(), table.weights
    if group.size > 1:
        own = "unit" if weights is None else users.split(weights)
        return {"parts": users.split(table.rows), "weights": own}
    return {
        "parts": (users.take(table.rows), users.offsets),
        "weights": "unit" if weights is None else users.take(weights),
    }


def make_checkpoint(
    folder: Path | None, *, every: int | None, resume: bool, out: Path
) -> Checkpoint | None:
    """Return the checkpoint settings, or None without --checkpoint.

    >>> make_checkpoint(Path("checkpoints"), every=None, resume=True, out=Path("result")).every
    100
    """
    if folder is None:
        for option, given in (("--resume", resume), ("--checkpoint-every", every is not None)):
            if given:
                raise ParameterError(
                    f"`{option}` of fit requires --checkpoint DIR. Got no --checkpoint."
                )
        return None
    if folder.is_file():
        raise ParameterError(
            f"`--checkpoint` of fit must be a directory. Got {folder}, which is a file."
        )
    if out.resolve() in (folder.resolve(), *folder.resolve().parents):
        raise ParameterError(
            f"`--checkpoint` of fit must be outside of --out. Got {folder} with --out {out}."
        )
    return Checkpoint(folder, every=100 if every is None else every, resume=resume)


def check_per_rank(per_rank: bool, runtime: str) -> None:
    """Raise if --per-rank is given without MPI."""
    if per_rank and runtime != "mpi":
        raise ParameterError(
            f"`--per-rank` of fit requires --runtime mpi. Got --runtime {runtime}."
        )
