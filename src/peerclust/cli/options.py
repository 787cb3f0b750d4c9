"""Convert options of the command line to losses, distances, graphs, numbers and names."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from peerclust import distances, graphs, initialize, losses, tables
from peerclust.clustering.checkpoint import Checkpoint
from peerclust.errors import ParameterError
from peerclust.ranks.group import ProcessGroup
from peerclust.text import guess
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


def parse_starts(value: str) -> int | str:
    """Return the value of --starts as a whole number, or "auto".

    >>> parse_starts("3"), parse_starts("auto")
    (3, 'auto')
    """
    if value == "auto":
        return value
    try:
        return int(value)
    except ValueError:
        raise ParameterError(
            f"`--starts` of fit must be a whole number >= 1 or 'auto'. Got {value!r}."
        ) from None


def split_names(value: str | None) -> list[str] | None:
    """Return the names in a comma-separated list.

    >>> split_names("a, b")
    ['a', 'b']
    """
    if value is None:
        return None
    return [name.strip() for name in value.split(",")]


_DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "space": " "}
_DECIMALS = {"point": ".", "comma": ","}


def parse_csv(delimiter: str | None, decimal: str | None, command: str) -> tables.CsvOptions:
    """Return what --delimiter and --decimal say about CSV files.

    >>> parse_csv("semicolon", None, "fit"), parse_csv(":", "comma", "fit").decimal
    (CsvOptions(delimiter=';', decimal=None), ',')
    """
    # Shells pass on the two characters of \t.
    given = tables.CsvOptions(
        {**_DELIMITERS, "\\t": "\t"}.get(delimiter or "", delimiter),
        _DECIMALS.get(decimal or "", decimal),
    )
    # Other characters are parts of numbers, names and quoted fields.
    names = ", ".join(_DELIMITERS)
    if given.delimiter not in {None, "\t", " ", *string.punctuation} - {*"'\".+-_"}:
        raise ParameterError(
            f"`--delimiter` of {command} must be a punctuation mark other than . + - _ and quotes,"
            f" or one of {names}. Got {delimiter!r}.{guess(delimiter, _DELIMITERS)}"
        )
    if given.decimal not in (None, *_DECIMALS.values()):
        raise ParameterError(
            f"`--decimal` of {command} must be point or comma. Got {decimal!r}."
            f"{guess(decimal, _DECIMALS)}"
        )
    if given.delimiter == given.decimal == ",":
        raise ParameterError(
            f"`--decimal` of {command} must differ from --delimiter. Got ',' for both."
        )
    return given


def check_start(value: str) -> None:
    """Raise unless --init names a start; `init` of `cluster` may also be centers."""
    check_name(value, initialize.STARTS, "--init", "fit")


def make_loss(name: str, *, delta: str | None, eta: float | None) -> losses.Loss:
    """Return a loss by its name, with its one parameter.

    >>> make_loss("huber", delta="2", eta=None), make_loss("huber", delta="auto", eta=None)
    (Huber(delta=2.0), Huber(delta='auto'))
    """
    check_name(name, losses.LOSSES, "--loss", "fit")
    number = None if delta is None else parse_number("--delta", delta, "auto")
    given = {"delta": number, "eta": eta}
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
