"""A block that caches beside one that reads all rows, for the tests of cached assignment."""

from __future__ import annotations

import numpy as np

from peerclust.users import Users
from reference_impl import same

MOVES = ["stay", "creep", "drift", "one", "jump", "far", "swap", "meet", "back", "onto"]


def move(x, how, rows, scale, rng):
    """Return the centers after one more move; `scale` is the size of the rows."""
    m, K = x.shape[:2]
    step = rng.normal(size=x.shape) * scale
    if how == "creep":  # down to steps whose squares underflow, or that rounding swallows
        return x + step * 10.0 ** rng.integers(-20, -5)
    if how == "drift":
        return x + step * 0.02
    if how == "one":
        moved = x.copy()
        moved[:, rng.integers(K)] += step[:, 0]
        return moved
    if how == "jump":
        return step
    if how == "far":  # where squares overflow
        return x + step / scale * 1e155
    if how == "swap":
        return np.ascontiguousarray(x[:, rng.permutation(K)])
    if how == "meet":  # equally near centers
        moved = x.copy()
        moved[:, rng.integers(K)] = moved[:, rng.integers(K)]
        return moved
    if how == "back":
        return np.round(np.clip(x, -1e6 * scale, 1e6 * scale) / scale) * scale
    if how == "onto" and len(rows):
        return rows[rng.integers(len(rows), size=(m, K))].astype(np.float64)
    return x.copy()


def some_rows(shape, kind, scale, rng):
    if kind == "lattice":  # ties and duplicates
        return rng.integers(-2, 3, size=shape) * scale
    if kind == "line":
        return np.linspace(-1.0, 1.0, shape[0])[:, None] * np.ones(shape[1]) * scale
    if kind == "clusters":
        return (rng.normal(size=shape) * 0.1 + rng.integers(-3, 4, size=(shape[0], 1))) * scale
    return rng.normal(size=shape) * scale


def fresh_block(users):
    """Return a block of the same users, whose cache is empty."""
    return Users(
        users.rows, users.offsets, weights=users.weights, loss=users.loss, distance=users.distance
    )


def check_against_fresh(users, x, last=None):
    """Assign x, the assignment after `last`; compare every result with a new block; return it."""
    before = -1 if last is None else last.labels
    with np.errstate(all="ignore"):  # some centers are where squares overflow
        fresh = fresh_block(users)
        expected, assignment = fresh.assign(x), users.assign(x, last)
        same(assignment.labels, expected.labels)
        assert assignment.changed == np.count_nonzero(expected.labels != before)
        assert assignment.rows_scanned <= expected.rows_scanned == len(users.rows)
        check_sums(users, assignment, fresh, expected)
    return assignment


def check_sums(users, assignment, fresh, expected):
    """Compare the sums by label, at the assigned centers, of a block and of a new one."""
    x = assignment.x
    same(users.curvature(assignment, x), fresh.curvature(expected, x))
    terms = (
        block._find_terms(each, x, each.z)
        for block, each in ((users, assignment), (fresh, expected))
    )
    for found, sums in zip(*terms, strict=True):
        if np.isfinite(sums).all():
            same(found, sums)
        np.testing.assert_array_equal(found, sums)  # a NaN may have any sign
