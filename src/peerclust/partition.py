"""Ways to spread the rows of one data set over m users, for experiments and tests.

What belongs here decides which user holds which row, and never sees the rows themselves. Every way
gives a list of m integer arrays of row numbers, ascending within a user, disjoint, and together
every row (`by_user` gives the users' names too). `[rows[part] for part in parts]` is then what
`cluster` takes.

The paper's homogeneous data is `homogeneous`, its heterogeneous data `by_class`, and the random
split of its figure on the number of users is `random`.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerclust.errors import ParameterError
from peerclust.validation import (
    RandomState,
    check_count,
    check_generator,
    check_labels,
    check_name,
    check_number,
)

Parts = list[NDArray[np.intp]]


def random(n: int, m: int, *, random_state: RandomState = None) -> Parts:
    """Spread n rows over m users uniformly at random, with sizes as equal as possible.

    The first n mod m users hold one row more than the others; with n < m the last users hold none.

    >>> [len(part) for part in random(150, 4, random_state=0)]
    [38, 38, 37, 37]
    """
    n = check_count(n, "n", "random")
    m = check_count(m, "m", "random")
    rng = check_generator(random_state, "random")
    return _parts(rng.permutation(n) % m, m)


def homogeneous(classes: ArrayLike, m: int, *, random_state: RandomState = None) -> Parts:
    """Spread each class over all m users as equally as possible: the paper's homogeneous data.

    `classes` (N,) names the class of each row, by numbers or strings. A user holds
    floor(N_c / m) or one more of the N_c rows of class c, and floor(N / m) or one more rows in all.

    >>> classes = np.repeat(["a", "b", "c"], 50)
    >>> parts = homogeneous(classes, 10, random_state=0)
    >>> [int((classes[parts[0]] == c).sum()) for c in "abc"]
    [5, 5, 5]
    """
    _, codes = check_labels(classes, "classes", "homogeneous")
    m = check_count(m, "m", "homogeneous")
    rng = check_generator(random_state, "homogeneous")
    owner = np.empty(len(codes), dtype=np.intp)
    # Dealing on from one class to the next, as with cards, rotates the remainders over the users.
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
    """Let each of m users see only some of the classes: the paper's heterogeneous data.

    `classes` (N,) names the class of each row; C is the number of different classes, taken in
    sorted order. `per_user` is how many classes a user holds: a number, or a pair (low, high) from
    which each user's number is drawn (and raised where needed for every class to have a holder).
    Which classes is random, but they have as equal numbers of holders as possible. A class's rows
    are shared among its holders

    - equally (`proportions=None`),
    - in random proportions, Dirichlet(1) (`proportions="random"`), or
    - as `proportions[i, c]` >= 0, an (m, C) array, says. Each column is scaled to the sum 1, a user
      holds the classes with a share above 0, and `per_user` is left out.

    Shares are rounded by largest remainders. A holder is left without a row of its class only where
    the class has fewer rows than holders.

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
            # Dirichlet(1) shares are exponential variables over their sum; none is exactly 0.
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
    """Split each class over m users in Dirichlet(concentration) proportions.

    For each class c, p_c ~ Dirichlet(concentration, ..., concentration) over the m users, and user
    i holds the share p_c[i] of its rows (rounded by largest remainders). A small concentration
    gives each class to few users, a large one comes near `homogeneous`. Users may end up with no
    rows at all, the more so the smaller the concentration.

    Dirichlet label skew is due to Hsu, Qi and Brown (2019, arXiv:1909.06335), who draw each user's
    mix of classes; drawing each class's mix of users, as here, is Yurochkin et al. (2019,
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
    # Far below this bound all shares are equal in float64; far above it their sum overflows.
    shares = rng.dirichlet(np.full(m, min(concentration, 1e100)), size=len(names))
    totals = np.bincount(codes, minlength=len(names))
    columns = [_apportion(int(n), p, rng) for n, p in zip(totals, shares, strict=True)]
    return _deal(codes, np.stack(columns, axis=1), rng)


def by_user(users: ArrayLike) -> tuple[NDArray[Any], Parts]:
    """Collect the rows of each user from an array that names each row's user.

    `users` (N,) holds numbers or strings. Returns the m different names, sorted, and a list of m
    arrays of row numbers in the same order.

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
            f" ({C}), or a pair (low, high) of such. Got {per_user!r}."
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
            "`per_user` of by_class must be None when `proportions` is an array, whose nonzero"
            f" shares say who holds what. Got {per_user!r}."
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
            f" Got no share above 0 in column {c}."
        )
    return shares


def _holders(m: int, C: int, low: int, high: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return who holds which class, (m, C); the numbers of holders differ by at most 1."""
    sizes = rng.integers(low, high, size=m, endpoint=True)
    while sizes.sum() < C:
        sizes[rng.choice(np.flatnonzero(sizes < high))] += 1
    held = np.zeros((m, C), dtype=np.bool_)
    holders = np.zeros(C, dtype=np.intp)
    # A user takes the classes with the fewest holders so far, so that all are taken once before one
    # is taken twice; the users draw in random order, for the last has the least choice.
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
    # Ties are drawn, or the first users would always hold more.
    order = np.lexsort((rng.random(len(shares)), counts - exact))
    counts[order[: total - counts.sum()]] += 1
    return counts


def _none_empty(counts: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return `counts` with one moved from the largest to each 0, where there are enough in all."""
    counts = counts.copy()
    if counts.sum() >= len(counts):
        for i in np.flatnonzero(counts == 0):
            counts[counts.argmax()] -= 1
            counts[i] = 1
    return counts


def _deal(codes: NDArray[np.intp], counts: NDArray[np.intp], rng: np.random.Generator) -> Parts:
    """Give user i random rows of class c, `counts[i, c]` of them."""
    m, C = counts.shape
    owner = np.empty(len(codes), dtype=np.intp)
    owner[_grouped(codes, rng)] = np.repeat(np.tile(np.arange(m), C), counts.T.ravel())
    return _parts(owner, m)


def _grouped(codes: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """Return all row numbers, class after class, in random order within a class."""
    shuffled = rng.permutation(len(codes))
    return shuffled[np.argsort(codes[shuffled], kind="stable")]


def _parts(owner: NDArray[np.intp], m: int) -> Parts:
    """Turn each row's user into each user's rows, ascending as the sort is stable."""
    order = np.argsort(owner, kind="stable")
    return np.split(order, np.cumsum(np.bincount(owner, minlength=m))[:-1])
