"""Files read by the processes of a group: each reads its own users' rows, and no others.

A single process reads all. Several ranks first find out which rank sees which file, because a disk
may belong to one machine only. If each file is a user, a rank opens the files of its own users. If
a column names the users, the ranks divide the files among them and count the rows of each user.
Each rank then reads the rows of its own users from the files that contain them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from peerclust.arrays import Ints
from peerclust.errors import DataError
from peerclust.graphs import Graph
from peerclust.ranks.distribution import distribute_users
from peerclust.ranks.group import ProcessGroup, run_on_root
from peerclust.ranks.inputs import check_ranks
from peerclust.tables.columns import (
    LocatedError,
    Piece,
    choose_features,
    name_users,
    open_each,
    parse_users,
    raise_first,
)
from peerclust.tables.dialect import DETECT_ALL, CsvOptions, title
from peerclust.tables.frames import Known, Scan, scan_file
from peerclust.tables.reading import ReadRequest, combine, index_users, no_rows, read, read_pieces
from peerclust.tables.table import Table, check_names, name_files
from peerclust.text import sort_names

T = TypeVar("T")
MakeGraph = Callable[[Sequence[str]], Graph]

# In place of the size of a file, if there is no such file.
_MISSING, _DIRECTORY = -1, -2


def read_own(
    files: Sequence[Path],
    *,
    columns: Sequence[str] | None,
    users_column: str | None,
    weights_column: str | None,
    csv: CsvOptions = DETECT_ALL,
    make_graph: MakeGraph,
    group: ProcessGroup,
) -> tuple[Table, Graph]:
    """Return the rows of this process's users, and the graph of all users, made for their names.

    All processes raise the same errors as `read`, whichever of them has the file.
    """
    if group.size == 1:
        table = read(
            files,
            columns=columns,
            users_column=users_column,
            weights_column=weights_column,
            csv=csv,
        )
        return table, make_graph(table.names)
    request = ReadRequest(files, columns, users_column, weights_column, csv)
    found = _find_files(files, group)
    if users_column is None:
        return _read_files(request, found, make_graph, group)
    return _read_rows(request, users_column, found, make_graph, group)


def _find_files(files: Sequence[Path], group: ProcessGroup) -> Ints:
    """Return each file's size as each rank sees it, (ranks, files), below 0 if it does not."""
    found = np.array(group.allgather([_stat(path) for path in files]), dtype=np.int64)
    for i, path in enumerate(files):
        if found[:, i].max() < 0:
            if _DIRECTORY in found[:, i]:
                raise DataError(f"{path} must be a file. Got a directory; name the files in it.")
            raise DataError(f"There is no file {path} for any of the {group.size} ranks.")
    return found


def _stat(path: Path) -> int:
    try:
        return _DIRECTORY if path.is_dir() else path.stat().st_size
    except OSError:
        return _MISSING


def _distribute(
    names: Sequence[str], sizes: Ints, make_graph: MakeGraph, group: ProcessGroup
) -> tuple[list[int], Graph]:
    """Return this rank's users, and the graph."""
    check_ranks(group, len(names))
    graph = run_on_root(group, lambda: make_graph(names))
    own: list[int] = distribute_users(graph, sizes, group.size)[group.rank].tolist()
    return own, graph


def _read_files(
    request: ReadRequest, found: Ints, make_graph: MakeGraph, group: ProcessGroup
) -> tuple[Table, Graph]:
    """Read the files of this rank's users; each file is one user."""
    names = name_files(request.files)
    check_names(names, request.files)
    own, graph = _distribute(names, found.max(axis=0), make_graph, group)
    _check_here(request.files, found, {i: names[i] for i in own}, group)
    pieces = read_pieces(request, own, group)
    here = {each.number: (each.frame.columns, each.frame.height, each.dialect) for each in pieces}
    columns, heights, dialects = zip(*_merge(group, here), strict=True)
    titles = [*map(title, request.files, dialects)]
    features = choose_features(titles, columns, request.columns, request.non_features)
    table = Table(
        names=names,
        user=np.repeat(own, [each.frame.height for each in pieces]),
        own=tuple(own),
        sizes=np.array(heights),
        dialects=dialects,
        **combine(request, pieces, features, group),
    )
    return table, graph


def _read_rows(
    request: ReadRequest, column: str, found: Ints, make_graph: MakeGraph, group: ProcessGroup
) -> tuple[Table, Graph]:
    """Read the rows of this rank's users; a column names them."""
    survey = _survey(request, column, found, group)
    total = Counter[str]()
    for counts in survey.counts:
        total.update(counts)
    if not total:
        raise no_rows(request.files)
    names = tuple(sort_names(total))
    sizes = np.array([total[name] for name in names])
    own, graph = _distribute(names, sizes, make_graph, group)
    mine = {names[i] for i in own}
    users = {i: sorted(mine & counts.keys()) for i, counts in enumerate(survey.counts)}
    _check_here(request.files, found, {i: some[0] for i, some in users.items() if some}, group)
    wanted = list(dict.fromkeys([*survey.features, *request.non_features]))

    def read_some(i: int) -> Piece:
        scan = scan_file(request.files[i], column, request.csv, survey.known[i])
        frame, row = scan.fetch_rows(name_users(column).is_in(users[i]), wanted)
        return Piece(i, request.files[i], frame, row, scan.dialect)

    pieces = list(open_each([i for i in users if users[i]], read_some, group).values())
    table = Table(
        names=names,
        user=index_users(pieces, column, names),
        own=tuple(own),
        sizes=sizes,
        dialects=tuple(known and known[0] for known in survey.known),
        **combine(request, pieces, survey.features, group),
    )
    return table, graph


@dataclass(frozen=True, eq=False)
class _Survey:
    """The features of all files, and for each file its users' numbers of rows and what is known."""

    features: list[str]
    counts: list[Mapping[str, int]]
    known: list[Known | None]


def _survey(request: ReadRequest, column: str, found: Ints, group: ProcessGroup) -> _Survey:
    """Survey all files; the ranks take turns."""
    files = range(len(request.files))
    scans = open_each(
        [i for i in files if _find_surveyor(i, found[:, i]) == group.rank],
        lambda i: scan_file(request.files[i], column, request.csv),
        group,
    )
    surveyed = _merge(group, {i: (scan.columns, scan.known) for i, scan in scans.items()})
    columns = [columns for columns, _ in surveyed]
    known = [each for _, each in surveyed]
    titles = [
        title(path, each and each[0]) for path, each in zip(request.files, known, strict=True)
    ]
    features = choose_features(titles, columns, request.columns, request.non_features)
    errors: list[LocatedError] = []

    def count(i: int, scan: Scan) -> dict[str, int]:
        users = parse_users(i, titles[i], scan.fetch(column), column, errors)
        return dict(users.value_counts().iter_rows())

    counts = open_each(scans, lambda i: count(i, scans[i]), group)
    raise_first(group, errors)
    return _Survey(features, _merge(group, counts), known)


def _find_surveyor(i: int, found: Ints) -> int:
    """Return the rank that surveys file i: the one whose turn it is, or the next that has it."""
    in_turn = ((i + step) % len(found) for step in range(len(found)))
    return next(rank for rank in in_turn if found[rank] >= 0)


def _check_here(
    files: Sequence[Path], found: Ints, users: Mapping[int, str], group: ProcessGroup
) -> None:
    """Raise, in all processes, if a rank lacks a file; `users` has one of its users per file."""
    errors = [
        LocatedError(
            i, 0, 0,
            f"There is no file {files[i]} for rank {group.rank} of {group.size}, which has the user"
            f" {name!r} in it.",
        )
        for i, name in users.items()
        if found[group.rank, i] < 0
    ]  # fmt: skip
    raise_first(group, errors)


def _merge(group: ProcessGroup, own: Mapping[int, T]) -> list[T]:
    """Return what is known of each file, from what each process knows of some."""
    known = {i: each for part in group.allgather(dict(own)) for i, each in part.items()}
    return [known[i] for i in range(len(known))]
