"""The bounds of cached assignment hold for any rounding, scale and movement of centers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from cached_blocks import check_against_fresh, fresh_block

from assignment_modes import MODES, use_mode
from peerclust import kernels
from peerclust.losses import KMeans
from peerclust.users import Users
from reference_impl import same

modes = pytest.mark.parametrize("mode", MODES)


def next_to_a_tie(n, rng):
    """Rows whose two nearest centers are equally near, or nearly: a few last bits decide."""
    x = np.array([[[-1.0, 0.3], [1.0, 0.3], [40.0, 0.0]]])
    rows = np.column_stack([rng.integers(-40, 41, n) * 2.0**-54, rng.normal(size=n)])
    return rows, x


@modes
def test_rows_whose_label_depends_on_rounding_are_read_again(mode, monkeypatch):
    use_mode(monkeypatch, mode)
    rng = np.random.default_rng(0)
    rows, x = next_to_a_tie(400, rng)
    users, last = Users(rows, np.array([0, 400])), None
    for _ in range(60):
        last = check_against_fresh(users, x, last)
        x = x + rng.integers(-3, 4, size=x.shape) * 2.0**-53


@modes
@pytest.mark.parametrize("scale", [1e-150, 1e-100, 1.0, 1e100, 1e150])
def test_a_row_is_read_just_before_its_label_changes(mode, scale, monkeypatch):
    use_mode(monkeypatch, mode)
    # The far center comes in 1000 steps; the row at 0 is nearer to it once it is within 1.
    users = Users(np.array([[0.0], [-0.9 * scale]]), np.array([0, 2]))
    found, last = [], None
    for step in range(1000):
        x = np.array([[[-1.0], [2.0 - 1.5 * step / 1000]]]) * scale
        last = users.assign(x, last)
        found.append((last.labels[0], last.rows_scanned))
    label, scanned = np.array(found).T
    turn = int(np.argmax(label == 1))
    assert turn == math.floor(1000 / 1.5) + 1
    assert scanned[turn] >= 1
    assert scanned[:2].tolist() == [2, 2]
    # Bounds are float32, which cannot represent such scales.
    if mode != "with bounds" or scale == 1.0:
        assert scanned[2:].sum() < 60


@modes
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_centers_that_leave_all_bounds_skip_nothing(mode, bad, monkeypatch):
    use_mode(monkeypatch, mode)
    rng = np.random.default_rng(0)
    users = Users(rng.normal(size=(300, 2)), np.array([0, 100, 300]))
    x = rng.normal(size=(2, 3, 2))
    path = x.copy()
    path[0, 1, 0] = bad
    last = None
    for at in (x, x.copy(), path, path.copy(), x, x + 0.01):
        last = users.assign(at, last)
        same(last.labels, fresh_block(users).assign(at).labels)
        assert last.rows_scanned >= (0 if bad == 1e200 and at is x else 100)


@modes
@pytest.mark.parametrize("scale", [1e40, 1e150])
def test_a_long_path_of_huge_numbers_changes_no_label(mode, scale, monkeypatch):
    use_mode(monkeypatch, mode)
    rng = np.random.default_rng(0)
    users = Users(rng.normal(size=(200, 16)) * scale, np.array([0, 200]))
    x, last = rng.normal(size=(1, 4, 16)) * scale, None
    for _ in range(150):
        x = x + rng.normal(size=x.shape) * 0.05 * scale
        last = check_against_fresh(users, x, last)


@modes
def test_a_huge_row_that_leaves_a_cluster_leaves_nothing_behind(mode, monkeypatch):
    use_mode(monkeypatch, mode)
    rows = np.random.default_rng(0).normal(size=(60, 2))
    rows[7] = [1e150, 1e149]
    users = Users(rows, np.array([0, 60]), loss=KMeans())
    near, far = np.array([[0.5, 0.0], [0.0, 0.5]]), np.array([[0.5, 0.0], [1e150, 1e149]])
    last = None
    for x in (near, near, far, near, far):
        last = check_against_fresh(users, x[None].copy(), last)


@pytest.mark.parametrize(
    "sizes",
    [[1e-165] * 60, [1.0] + [1e-17] * 1000, [1.0, 1e-3] * 30],
    ids=["squares underflow", "sums swallow", "ordinary"],
)
def test_drifts_are_never_too_small(sizes):
    rng = np.random.default_rng(0)
    last, path, drift, max_drift = np.zeros((1, 4, 3)), *np.zeros((2, 1, 4)), np.zeros(1)
    own, both, fastest = [Fraction(0)] * 4, [Fraction(0)] * 4, Fraction(0)
    for size in sizes:
        x = rng.normal(size=(1, 4, 3)) * size
        ways = []
        for a, b in zip(x[0], last[0], strict=True):
            r2 = sum((Fraction(p) - Fraction(q)) ** 2 for p, q in zip(a, b, strict=True))
            ways.append(Fraction(math.isqrt(int(r2 * 10**400)), 10**200))  # the root, cut off
        own = [e + ways[k] for k, e in enumerate(own)]
        both = [e + ways[k] + max(ways[:k] + ways[k + 1 :]) for k, e in enumerate(both)]
        fastest += sum(sorted(ways)[-2:])
        kernels.add_drift(x, np.array([0]), last, path, drift, max_drift)
        last = x
        for found, exact in ((path[0], own), (drift[0], both), (max_drift, [fastest])):
            assert all(Fraction(f) >= e for f, e in zip(found, exact, strict=True))
    for found, exact in ((path[0], own), (drift[0], both), (max_drift, [fastest])):
        np.testing.assert_allclose(found, [float(e) for e in exact], rtol=1e-11, atol=1e-150)
