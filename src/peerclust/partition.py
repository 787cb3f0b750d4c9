"""Partitions of the rows of one data set over m users, for experiments and tests.

The functions decide which user has which row, without seeing the rows. Each returns a list of m
integer arrays of row indices: ascending within a user, disjoint, and together all rows (`by_user`
also returns the users' names). Pass `[rows[part] for part in parts]` to `cluster`.

The paper's homogeneous data is `homogeneous`, its heterogeneous data `by_class`, and the random
split of its figure on the number of users is `random`.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerclust.errors import ParameterError
from peerclust.row_validation import check_labels
from peerclust.validation import RandomState, check_count, check_generator, check_name, check_number

Parts = list[NDArray[np.intp]]


def random(n: int, m: int, *, random_state: RandomState = None) -> Parts:
    """Return a uniformly random partition of n rows over m users, of sizes as equal as possible.

    The first n mod m users have one row more than the others; with n < m the last users have none.

    >>> [len(part) for part in random(150, 4, random_state=0)]
    [38, 38, 37, 37]
    """
    n = check_count(n, "n", "random")
    m = check_count(m, "m", "random")
    rng = check_generator(random_state, "random")
    return _parts(rng.permutation(n) % m, m)


def homogeneous(classes: ArrayLike, m: int, *, random_state: RandomState = None) -> Parts:
    """Return a partition of each class over all m users, as equal as possible: homogeneous data.

    `classes` (N,) is the class of each row, as numbers or strings. A user has floor(N_c / m) or one
    more of the N_c rows of class c, and floor(N / m) or one more rows in total.

    >>> classes = np.repeat(["a", "b", "c"], 50)
    >>> parts = homogeneous(classes, 10, random_state=0)
    >>> [int((classes[parts[0]] == c).sum()) for c in "abc"]
    [5, 5, 5]
    """
    _, codes = check_labels(classes, "classes", "homogeneous")
    m = check_count(m, "m", "homogeneous")
    rng = check_generator(random_state, "homogeneous")
    owner = np.empty(len(codes), dtype=np.intp)
    # Dealing continues from one class to the next, so that the remainders rotate over the users.
    owner[_grouped(codes, rng)] = np.arange(len(codes)) % m
    return _parts(owner, m)


def by_class(
    classes: ArrayLike,
    m: int,
    *,
    per_user: int | tuple[int, int] | None = None,
    proportions: Literal["random"] | ArrayLike | None = None,
    random_state: RandomState = None,
) -> Parts:
    """Return a partition in which each of m users has only some classes: heterogeneous data.

    `classes` (N,) is the class of each row; C is the number of distinct classes, in sorted order.
    `per_user` is how many classes a user holds: a number, or a pair (low, high) from which each
    user's number is drawn (and raised where needed for every class to have a holder). Which classes
    a user holds is random, but the classes have numbers of holders as equal as possible. The rows
    of a class are divided among its holders

    - equally (`proportions=None`),
    - in random proportions, Dirichlet(1) (`proportions="random"`), or
    - by `proportions[i, c]` >= 0, an (m, C) array. Each column is scaled to the sum 1. A user holds
      the classes with a proportion above 0, and `per_user` is left out.

    Proportions are rounded by largest remainders. A holder gets no row of its class only if the
    class has fewer rows than holders.

    >>> classes = np.repeat([0, 1, 2], 50)
    >>> parts = by_class(classes, 15, per_user=2, random_state=0)
    >>> {len(set(classes[part].tolist())) for part in parts}
    {2}
    >>> parts = by_class(classes, 2, proportions=[[1, 0, 4], [0, 1, 1]])
    >>> [np.bincount(classes[part], minlength=3).tolist() for part in parts]
    [[50, 0, 40], [0, 50, 10]]
    """
    names, codes = check_labels(classes, "classes", "by_class")
    m = check_count(m, "m", "by_class")
    C = len(names)
    rng = check_generator(random_state, "by_class")
    if proportions is None or isinstance(proportions, str):
        if proportions is not None:
            check_name(proportions, ["random"], "proportions", "by_class")
        low, high = _check_per_user(per_user, m, C)
        held = _holders(m, C, low, high, rng)
        shares = held.astype(np.float64)
        if proportions == "random":
            # Dirichlet(1) proportions are exponential variables over their sum; none is exactly 0.
            shares[held] = np.maximum(rng.standard_exponential(int(held.sum())), 1e-300)
    else:
        shares = _check_proportions(proportions, per_user, m, C)
    counts = np.zeros((m, C), dtype=np.intp)
    for c, total in enumerate(np.bincount(codes, minlength=C)):
        holders = np.flatnonzero(shares[:, c])
        counts[holders, c] = _none_empty(_apportion(int(total), shares[holders, c], rng))
    return _deal(codes, counts, rng)


def dirichlet(
    classes: ArrayLike, m: int, *, concentration: float, random_state: RandomState = None
) -> Parts:
    """Return a partition of each class over m users in Dirichlet(concentration) proportions.

    For each class c, p_c ~ Dirichlet(concentration, ..., concentration) over the m users, and user
    i has the fraction p_c[i] of its rows (rounded by largest remainders). A small concentration
    gives each class to few users; a large one is close to `homogeneous`. Users may end up without
    rows, more often with a smaller concentration.

    Dirichlet label skew is due to Hsu, Qi and Brown (2019, arXiv:1909.06335), who draw each user's
    mix of classes; drawing each class's mix of users, as here, is due to Yurochkin et al. (2019,
    arXiv:1905.12022).

    >>> classes = np.repeat([0, 1, 2], 50)
    >>> parts = dirichlet(classes, 5, concentration=0.5, random_state=0)
    >>> sum(len(part) for part in parts)
    150
    """
    names, codes = check_labels(classes, "classes", "dirichlet")
    m = check_count(m, "m", "dirichlet")
    concentration = check_number(concentration, "concentration", "dirichlet", above=0)
    rng = check_generator(random_state, "dirichlet")
    # Far below this bound all fractions are equal in float64; far above it their sum overflows.
    shares = rng.dirichlet(np.full(m, min(concentration, 1e100)), size=len(names))
    totals = np.bincount(codes, minlength=len(names))
    columns = [_apportion(int(n), p, rng) for n, p in zip(totals, shares, strict=True)]
    return _deal(codes, np.stack(columns, axis=1), rng)


def by_user(users: ArrayLike) -> tuple[NDArray[Any], Parts]:
    """Return the users' names and rows, from an array with the user of each row.

    `users` (N,) has numbers or strings. Returned are the m distinct names, sorted, and a list of m
    arrays of row indices in the same order.

    >>> names, parts = by_user(["Oslo", "Bern", "Oslo"])
    >>> names.tolist(), [part.tolist() for part in parts]
    (['Bern', 'Oslo'], [[1], [0, 2]])
    """
    names, codes = check_labels(users, "users", "by_user")
    return names, _parts(codes, len(names))


def _check_per_user(per_user: Any, m: int, C: int) -> tuple[int, int]:
    pair = (per_user, per_user) if isinstance(per_user, int | np.integer) else per_user
    try:
        low, high = (check_count(value, "per_user", "by_class") for value in pair)
    except (TypeError, ValueError):
        low, high = 0, 0
    if not 1 <= low <= high <= C:
        raise ParameterError(
            "`per_user` of by_class must be a whole number from 1 to the number of classes"
            f" ({C}), or a pair (low, high) of such numbers. Got {per_user!r}."
        )
    if m * high < C:
        raise ParameterError(
            "`per_user` of by_class must be large enough for every class to have a holder:"
            f" m * per_user >= {C} classes. Got {m} * {high} = {m * high}."
        )
    return low, high


def _check_proportions(
    proportions: ArrayLike, per_user: Any, m: int, C: int
) -> NDArray[np.float64]:
    if per_user is not None:
        raise ParameterError(
            "`per_user` of by_class must be None when `proportions` is an array: its nonzero"
            f" entries determine the classes of each user. Got {per_user!r}."
        )
    try:
        shares = np.asarray(proportions, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"`proportions` of by_class must be None, 'random' or an array of numbers. {error}."
        ) from None
    if shares.shape != (m, C):
        raise ParameterError(
            "`proportions` of by_class must be an array of shape (m, number of classes)"
            f" = {(m, C)}. Got shape {shares.shape}."
        )
    if not (np.isfinite(shares).all() and (shares >= 0).all()):
        bad = shares[~(np.isfinite(shares) & (shares >= 0))][0]
        raise ParameterError(f"`proportions` of by_class must be finite and >= 0. Got {bad}.")
    if not shares.any(axis=0).all():
        c = int((~shares.any(axis=0)).argmax())
        raise ParameterError(
            "`proportions` of by_class must give every class to at least one user."
            f" Got no entry above 0 in column {c}."
        )
    return shares


def _holders(m: int, C: int, low: int, high: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return whether user i holds class c, (m, C); numbers of holders differ by at most 1."""
    sizes = rng.integers(low, high, size=m, endpoint=True)
    while sizes.sum() < C:
        sizes[rng.choice(np.flatnonzero(sizes < high))] += 1
    held = np.zeros((m, C), dtype=np.bool_)
    holders = np.zeros(C, dtype=np.intp)
    # A user takes the classes with the fewest holders so far, so that all are taken once before one
    # is taken twice. Users draw in random order, because the last has the least choice.
    for i in rng.permutation(m):
        mine = np.lexsort((rng.random(C), holders))[: sizes[i]]
        held[i, mine] = True
        holders[mine] += 1
    return held


def _apportion(
    total: int, shares: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.intp]:
    """Round total * shares / sum(shares) to whole numbers of sum total, by largest remainders."""
    scaled = shares / shares.max()  # so that the sum cannot overflow
    exact = total * (scaled / scaled.sum())
    counts: NDArray[np.intp] = np.floor(exact).astype(np.intp)
    # Ties are broken at random, or the first users would always have more.
    order = np.lexsort((rng.random(len(shares)), counts - exact))
    counts[order[: total - counts.sum()]] += 1
    return counts


def _none_empty(counts: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return `counts` with one moved from the largest to each 0, if the total suffices."""
    counts = counts.copy()
    if counts.sum() >= len(counts):
        for i in np.flatnonzero(counts == 0):
            counts[counts.argmax()] -= 1
            counts[i] = 1
    return counts


def _deal(codes: NDArray[np.intp], counts: NDArray[np.intp], rng: np.random.Generator) -> Parts:
    """Return a partition with `counts[i, c]` random rows of class c for user i."""
    m, C = counts.shape
    owner = np.empty(len(codes), dtype=np.intp)
    owner[_grouped(codes, rng)] = np.repeat(np.tile(np.arange(m), C), counts.T.ravel())
    return _parts(owner, m)


def _grouped(codes: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """Return all row indices, class by class, in random order within a class."""
    shuffled = rng.permutation(len(codes))
    return shuffled[np.argsort(codes[shuffled], kind="stable")]


def _parts(owner: NDArray[np.intp], m: int) -> Parts:
    """Return each user's rows from each row's user; ascending, because the sort is stable."""
    order = np.argsort(owner, kind="stable")
    return np.split(order, np.cumsum(np.bincount(owner, minlength=m))[:-1])
