"""The rows and weights that a caller passes in: each process takes those of its own users.

A process that has all users takes them all. The ranks of a job take only those of their own users.
So of a list of memory maps a rank asks all for their lengths, but reads only its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import graphs
from peerclust.arrays import Array, Ints
from peerclust.errors import DataError, ParameterError
from peerclust.graphs import Graph
from peerclust.ranks.distribution import Distribution, distribute_users
from peerclust.ranks.fingerprint import check_same, digest
from peerclust.ranks.group import ProcessGroup
from peerclust.row_validation import (
    NO_ROWS,
    check_offsets,
    check_parts,
    check_weights,
    is_flat_pair,
    refuse_sparse,
)
from peerclust.text import parameter


def read_shared(
    parts: Any, graph: Any, weights: Any, group: ProcessGroup, common: Mapping[str, object]
) -> tuple[Distribution, NDArray[Any], Ints, float | Array]:
    """Return the distribution of the users, and this process's rows, offsets and weights.

    A collective call; see `cluster` for the parameters. It raises if the `common` arguments of the
    ranks differ, the graph, or the kind of weights: reading them is a matter for all ranks alike.
    """
    m = count_users(parts, group)
    with group.raise_on_all():
        network = graphs.resolve(graph, m)
    kind = weights if isinstance(weights, str | None) else "given"
    check_same(group, dict(common) | {"graph": network, "weights": kind}, "cluster")
    distribution = distribute(parts, network, group)
    rows, offsets = local_rows(parts, distribution)
    return distribution, rows, offsets, local_weights(weights, parts, distribution, offsets)


def count_users(parts: Any, group: ProcessGroup) -> int:
    """Return the number of users in all processes."""
    with group.raise_on_all():
        given = parts.values() if isinstance(parts, Mapping) else parts
        for each in given if isinstance(given, Iterable) else ():
            refuse_sparse(each, "cluster", "a dict of users, or several ranks")
        # The number of users, and a digest of their sizes; none for a mapping of a rank's own.
        if isinstance(parts, Mapping):
            own: tuple[int, str] = len(parts), ""
        else:
            if is_flat_pair(parts):
                check_offsets(parts[1], len(parts[0]))
            sizes = _find_sizes(parts)
            own = len(sizes), digest([sizes])
    of_ranks = group.allgather(own)
    for rank, each in enumerate(of_ranks):
        if each != of_ranks[0] and not each[1] == of_ranks[0][1] == "":
            raise ParameterError(
                parameter("parts", "cluster")
                + " must be the same in all ranks, or a dict of each rank's own"
                f" users. Rank {rank}'s users or row counts differ from rank 0's."
            )
    m = own[0] if own[1] else sum(each[0] for each in of_ranks)
    if m < 1:
        raise DataError(NO_ROWS)
    return m


def distribute(parts: Any, graph: Graph, group: ProcessGroup) -> Distribution:
    """Return the distribution of users: as the ranks' mappings have them, or by the graph."""
    if isinstance(parts, Mapping):
        return _distribute_mapping(parts, graph, group)
    if group.size == 1:
        return Distribution(group, graph, [np.arange(graph.m)])
    check_ranks(group, graph.m)
    return Distribution(group, graph, distribute_users(graph, _find_sizes(parts), group.size))


def check_ranks(group: ProcessGroup, m: int) -> None:
    """Raise if there are fewer users than processes."""
    if group.size > m:
        raise ParameterError(
            parameter("runtime", "cluster")
            + f" must have at most as many ranks as there are users ({m})."
            f" Got {group.size}."
        )


def _distribute_mapping(
    parts: Mapping[Any, Any], graph: Graph, group: ProcessGroup
) -> Distribution:
    members = group.allgather(list(parts))
    if [] in members:
        raise ParameterError(
            f"Each rank must have users in its dict of `parts`. Rank {members.index([])} has none."
        )
    rank_of: dict[Any, int] = {}
    for rank, numbers in enumerate(members):
        for number in numbers:
            if not isinstance(number, Integral) or number < 0:
                raise DataError(
                    parameter("parts", "cluster")
                    + " must be a list of (N_i, d) arrays, one per user, or a dict"
                    " of them by the users' numbers, starting at 0; for rows by name pass"
                    f" list(parts.values()). Got a dict with the key {number!r}."
                )
            if number in rank_of:
                raise DataError(
                    "Each user must be in one rank's dict of `parts` only."
                    f" Got user {number} in ranks {rank_of[number]} and {rank}."
                )
            rank_of[int(number)] = rank
    if missing := sorted(set(range(graph.m)) - set(rank_of)):
        raise DataError(
            "The users in all ranks' dicts of `parts` must be numbered consecutively from 0."
            f" Got {graph.m} of them, but no user {missing[0]}."
        )
    return Distribution(group, graph, [np.array(sorted(each), dtype=np.int64) for each in members])


def local_rows(parts: Any, distribution: Distribution) -> tuple[NDArray[Any], Ints]:
    """Return this process's rows in flat form, checked to have the same features in all processes.

    A collective call, as is `local_weights`.
    """
    group, own = distribution.group, distribution.local.tolist()
    with group.raise_on_all():
        taken = _take(parts, own)
        tables = [(i, each) for i, each in zip(own, taken, strict=True) if each.ndim == 2]
        shapes = [(i, each.shape[1], str(each.dtype)) for i, each in tables if len(each)]
    shapes = sorted(shape for part in group.allgather(shapes) for shape in part)
    with group.raise_on_all():
        if not shapes:
            raise DataError(NO_ROWS)
        flat, offsets = check_parts(taken, ids=own, features=shapes[0][:2])
        single = all(dtype == "float32" for _, _, dtype in shapes)
        return (flat if single else flat.astype(np.float64, copy=False)), offsets


def local_weights(
    weights: Any, parts: Any, distribution: Distribution, offsets: Ints
) -> float | Array:
    """Return this process's weights: one number for all rows, or one per row."""
    group = distribution.group
    n = sum(group.allgather(int(offsets[-1])))
    if weights is None or isinstance(weights, str):
        return check_weights(weights, offsets, of_all=n)
    with group.raise_on_all():
        if group.size > 1 and isinstance(weights, np.ndarray):
            weights = np.concatenate(_take_flat(weights, parts, distribution, n))
        elif group.size > 1 or isinstance(weights, Mapping):
            weights = _take(weights, distribution.local.tolist(), "`weights`")
        given = check_weights(weights, offsets, may_be_zero=True)
    if not distribution.any_rank(bool(np.any(given))):
        raise DataError(parameter("weights", "cluster") + " must not all be zero.")
    return given


def _take(parts: Any, own: Sequence[int], what: str = "The rows") -> list[NDArray[Any]]:
    """Return the parts of these users, as arrays."""
    taken: list[NDArray[Any]] = []
    for i in own:
        try:
            flat = is_flat_pair(parts)
            each = parts[0][parts[1][i] : parts[1][i + 1]] if flat else parts[i]
            taken.append(each if np.ma.isMaskedArray(each) else np.asarray(each))
        except (KeyError, IndexError):
            raise DataError(f"{what} of user {i} must be given. Got none.") from None
        except (TypeError, ValueError) as error:
            raise DataError(f"{what} of user {i} must be an array: {error}.") from None
    return taken


def _take_flat(weights: Array, parts: Any, distribution: Distribution, n: int) -> list[Array]:
    if isinstance(parts, Mapping) or weights.shape != (n,):
        raise DataError(
            parameter("weights", "cluster")
            + f" must have one weight for each of the {n} rows, in the form of"
            f" the parts. Got shape {weights.shape}."
        )
    offsets = np.concatenate([[0], np.cumsum(_find_sizes(parts))])
    return [weights[offsets[i] : offsets[i + 1]] for i in distribution.local.tolist()]


def _find_sizes(parts: Any) -> Ints:
    """Return the number of rows of each user, for parts that have all users."""
    try:
        sizes = np.diff(parts[1]) if is_flat_pair(parts) else [len(part) for part in parts]
    except TypeError:
        raise DataError(
            parameter("parts", "cluster")
            + " must be a list of (N_i, d) arrays, one per user, or (rows,"
            f" offsets); for one user pass [X]. Got {type(parts).__name__}."
        ) from None
    return np.asarray(sizes, dtype=np.int64)
