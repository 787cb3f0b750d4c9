"""Files read by the processes of a crew: each reads its own users' rows, and no others.

A process alone reads all. Ranks first look who has which file: a disk may be of one machine only.
If each file is a user, a rank opens the files of its own users. If a column names the users, ranks
share the work of surveying the files (who is in it, with how many rows), and each then reads the
rows of its own users from the files that have such.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from peerclust.errors import DataError
from peerclust.graphs import Graph
from peerclust.ranks.distribution import distribute_users
from peerclust.ranks.group import ProcessGroup, run_on_root
from peerclust.ranks.inputs import check_ranks
from peerclust.tables.columns import (
    Complaint,
    Piece,
    choose_features,
    find_users,
    name_users,
    open_each,
    settle,
)
from peerclust.tables.frames import Kinds, Scan, scan_file
from peerclust.tables.reading import Asked, no_rows, place_users, put_together, read, read_pieces
from peerclust.tables.table import Table, check_names
from peerclust.text import sort_names
from peerclust.types import Ints

T = TypeVar("T")
MakeGraph = Callable[[Sequence[str]], Graph]

# Instead of a file's bytes, where there is none.
_MISSING, _DIRECTORY = -1, -2


def read_own(
    files: Sequence[Path],
    *,
    columns: Sequence[str] | None,
    users_column: str | None,
    weights_column: str | None,
    make_graph: MakeGraph,
    group: ProcessGroup,
) -> tuple[Table, Graph]:
    """Give the rows of this process's users, and the graph of all users, made for their names.

    What cannot be used is said as `read` says it, in all processes, whoever has the file.
    """
    if group.size == 1:
        table = read(
            files, columns=columns, users_column=users_column, weights_column=weights_column
        )
        return table, make_graph(table.names)
    asked = Asked(files, columns, users_column, weights_column)
    found = _find_files(files, group)
    if users_column is None:
        return _read_files(asked, found, make_graph, group)
    return _read_rows(asked, users_column, found, make_graph, group)


def _find_files(files: Sequence[Path], group: ProcessGroup) -> Ints:
    """Give the bytes of each file as each rank sees it, (ranks, files), below 0 if it does not."""
    found = np.array(group.allgather([_stat(path) for path in files]), dtype=np.int64)
    for i, path in enumerate(files):
        if found[:, i].max() < 0:
            if _DIRECTORY in found[:, i]:
                raise DataError(f"{path} must be a file. Got a directory; give the files in it.")
            raise DataError(f"There is no file {path} for any of the {group.size} ranks.")
    return found


def _stat(path: Path) -> int:
    try:
        return _DIRECTORY if path.is_dir() else path.stat().st_size
    except OSError:
        return _MISSING


def _share(
    names: Sequence[str], sizes: Ints, make_graph: MakeGraph, group: ProcessGroup
) -> tuple[list[int], Graph]:
    """Give this rank's users, and the graph."""
    check_ranks(group, len(names))
    graph = run_on_root(group, lambda: make_graph(names))
    own: list[int] = distribute_users(graph, sizes, group.size)[group.rank].tolist()
    return own, graph


def _read_files(
    asked: Asked, found: Ints, make_graph: MakeGraph, group: ProcessGroup
) -> tuple[Table, Graph]:
    """Read the files of own users; each file is one."""
    names = tuple(path.stem for path in asked.files)
    check_names(names, asked.files)
    own, graph = _share(names, found.max(axis=0), make_graph, group)
    _check_here(asked.files, found, {i: names[i] for i in own}, group)
    pieces = read_pieces(asked, own, group)
    here = [(each.number, each.frame.columns, each.frame.height) for each in pieces]
    of_all = sorted(each for part in group.allgather(here) for each in part)
    held = [columns for _, columns, _ in of_all]
    features = choose_features(asked.files, held, asked.columns, asked.beside)
    table = Table(
        names=names,
        user=np.repeat(own, [each.frame.height for each in pieces]),
        own=tuple(own),
        sizes=np.array([height for *_, height in of_all]),
        **put_together(asked, pieces, features, group),
    )
    return table, graph


def _read_rows(
    asked: Asked, column: str, found: Ints, make_graph: MakeGraph, group: ProcessGroup
) -> tuple[Table, Graph]:
    """Read the rows of own users; a column names them."""
    survey = _survey(asked, column, found, group)
    total = Counter[str]()
    for counts in survey.counts:
        total.update(counts)
    if not total:
        raise no_rows(asked.files)
    names = tuple(sort_names(total))
    sizes = np.array([total[name] for name in names])
    own, graph = _share(names, sizes, make_graph, group)
    mine = {names[i] for i in own}
    who = {i: sorted(mine & counts.keys()) for i, counts in enumerate(survey.counts)}
    _check_here(asked.files, found, {i: those[0] for i, those in who.items() if those}, group)
    wanted = list(dict.fromkeys([*survey.features, *asked.beside]))

    def read_some(i: int) -> Piece:
        scan = scan_file(asked.files[i], column, survey.kinds[i])
        frame, row = scan.fetch_rows(name_users(column).is_in(who[i]), wanted)
        return Piece(i, asked.files[i], frame, row)

    pieces = list(open_each([i for i in who if who[i]], read_some, group).values())
    table = Table(
        names=names,
        user=place_users(pieces, column, names),
        own=tuple(own),
        sizes=sizes,
        **put_together(asked, pieces, survey.features, group),
    )
    return table, graph


@dataclass(frozen=True, eq=False)
class _Survey:
    """The features of all files, and for each file its users' rows and the kinds of columns."""

    features: list[str]
    counts: list[Mapping[str, int]]
    kinds: list[Kinds | None]


def _survey(asked: Asked, column: str, found: Ints, group: ProcessGroup) -> _Survey:
    """Give what is in each file, to which the ranks look in turn."""
    files = range(len(asked.files))
    scans = open_each(
        [i for i in files if _find_surveyor(i, found[:, i]) == group.rank],
        lambda i: scan_file(asked.files[i], column),
        group,
    )
    looks = _merge(group, {i: (scan.columns, scan.kinds) for i, scan in scans.items()})
    held = [columns for columns, _ in looks]
    features = choose_features(asked.files, held, asked.columns, asked.beside)
    complaints: list[Complaint] = []

    def count(i: int, scan: Scan) -> dict[str, int]:
        users = find_users(i, scan.path, scan.fetch(column), column, complaints)
        return dict(users.value_counts().iter_rows())

    counts = open_each(scans, lambda i: count(i, scans[i]), group)
    settle(group, complaints)
    return _Survey(features, _merge(group, counts), [kinds for _, kinds in looks])


def _find_surveyor(i: int, found: Ints) -> int:
    """Give the rank that looks at file i: the one whose turn it is, or the next that has it."""
    in_turn = ((i + step) % len(found) for step in range(len(found)))
    return next(rank for rank in in_turn if found[rank] >= 0)


def _check_here(
    files: Sequence[Path], found: Ints, who: Mapping[int, str], group: ProcessGroup
) -> None:
    """Raise, in all processes, if a rank lacks a file; `who` are users of this one, by file."""
    complaints = [
        Complaint(
            i, 0, 0,
            f"There is no file {files[i]} for rank {group.rank} of {group.size}, which has the user"
            f" {name!r} in it.",
        )
        for i, name in who.items()
        if found[group.rank, i] < 0
    ]  # fmt: skip
    settle(group, complaints)


def _merge(group: ProcessGroup, own: Mapping[int, T]) -> list[T]:
    """Give what is known of each file, from what this process knows of some."""
    known = {i: each for part in group.allgather(dict(own)) for i, each in part.items()}
    return [known[i] for i in range(len(known))]
