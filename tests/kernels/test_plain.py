"""The versions in numpy compute the same bits as the compiled loops."""

import copy
from pathlib import Path

import numpy as np
import pytest

from all_pairs import by_pairs
from peerclust import graphs, kernels
from peerclust.kernels.exact_sums import no_sums

CODES = {
    "kmeans": (kernels.KMEANS, None),
    "kmeans with a parameter": (kernels.KMEANS, 0.0),
    "huber": (kernels.HUBER, 1.3),
    "logistic": (kernels.LOGISTIC, 0.0),
    "fair": (kernels.FAIR, 2.0),
    "given": (kernels.GIVEN, 0.0),
}
# Users' numbers of rows: some empty, some of several chunks, some with gaps between them.
SIZES = {"one": [70], "few": [3, 0, 5, 1], "many": [200, 0, 17, 64, 65, 300], "none": [0, 0]}
VALUES = ["normal", "lattice", "scales", "far", "tiny", "not finite"]


def some_values(kind, shape, rng):
    """Return numbers of a kind: with ties, of many magnitudes, that overflow, that underflow."""
    values = rng.normal(size=shape)
    if kind == "lattice":
        return np.round(values)
    if kind == "scales":
        return values * 10.0 ** rng.uniform(-40, 40, shape)
    if kind == "far":
        return values * 1e300
    if kind == "tiny":
        return values * 1e-310
    if kind == "not finite":
        values[rng.random(shape) < 0.02] = np.nan
        values[rng.random(shape) < 0.02] = np.inf
    return values


class Block:
    """Rows of some users, cut into chunks of 100, with centers and labels."""

    def __init__(self, values, sizes, dtype="float64", weighted=False, K=3, d=2):
        rng = np.random.default_rng(len(values) + 100 * K + d)
        offsets = np.concatenate([[0], np.cumsum(SIZES[sizes])])
        n, m = offsets[-1], len(offsets) - 1
        with np.errstate(all="ignore"):
            self.rows = some_values(values, (n, d), rng).astype(dtype)
        self.x = some_values(values, (m, K, d), rng)
        self.weights = rng.uniform(0.0, 2.0, n) if weighted else np.empty(0)
        self.offsets, self.K, self.d, self.m, self.n = offsets, K, d, m, n
        self.labels = rng.integers(K, size=n).astype(np.int32)
        pieces = [(i, a) for i in range(m) for a in range(offsets[i], offsets[i + 1], 100)]
        owner, start = np.array(pieces, dtype=np.int64).reshape(-1, 2).T.copy()
        self.chunks = owner, start, np.minimum(start + 100, offsets[owner + 1])
        self.rng = rng

    def data(self, code):
        return self.rows, self.weights, 0.7, *CODES[code]

    def scores(self, affine):
        return (self.x * 2.0, self.x.sum(axis=2)) if affine else (None, None)


def arrays_of(arguments):
    for each in arguments:
        if isinstance(each, tuple):
            yield from arrays_of(each)
        elif isinstance(each, np.ndarray):
            yield each


def check(kernel, *arguments):
    """Run both versions on copies of the arguments; compare what they return and write."""
    ours, theirs = copy.deepcopy(arguments), copy.deepcopy(arguments)
    with np.errstate(all="ignore"):
        assert kernel.plain(*ours) == kernel.compiled(*theirs)
    for plain, compiled in zip(arrays_of(ours), arrays_of(theirs), strict=True):
        same_bits(plain, compiled)


def check_sums(values, kernel, before, sums, *after):
    """Do what `check` does for a kernel that sums rows.

    Terms of very different magnitude span more than 106 bits, so that additions are rounded. Then
    the sums are the same, and what is left of them is the same but for those roundings.
    """
    if values != "scales":
        check(kernel, *before, sums, *after)
        return
    found, expected = copy.deepcopy(sums), copy.deepcopy(sums)
    kernel.plain(*copy.deepcopy(before), found, *copy.deepcopy(after))
    kernel.compiled(*copy.deepcopy(before), expected, *copy.deepcopy(after))
    for hi in (0, 2):
        same_bits(found[hi], expected[hi])
        bound = 2.0**-95 * abs(expected[hi])
        assert (abs(found[hi + 1] - expected[hi + 1]) <= bound).all()


@pytest.fixture(autouse=True)
def compile_always():
    with kernels.use_mode("always"):
        yield


def same_bits(found, expected):
    """Compare to the last bit and the sign of zeros; a NaN may have any sign."""
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(
        np.signbit(found[found == 0]), np.signbit(expected[expected == 0])
    )


@by_pairs(
    values=VALUES,
    sizes=list(SIZES),
    dtype=["float64", "float32"],
    weighted=[False, True],
    code=list(CODES),
    shape=[(1, 1), (3, 2), (5, 7), (9, 3)],
    affine=[False, True],
)
def test_rows_are_assigned_and_summed_alike(values, sizes, dtype, weighted, code, shape, affine):
    if dtype == "float32" and values in ("far", "tiny", "scales"):
        values = "normal"
    affine &= code in ("kmeans", "given")  # those of a Bregman loss
    block = Block(values, sizes, dtype, weighted, *shape)
    data, last = block.data(code), len(block.chunks[0])
    sums, changed = no_sums(last, block.K, block.d), np.full(last, -1)
    scores = block.scores(affine)
    for part in ((0, last), (last // 2, last)):
        before = *part, data, block.chunks, block.x
        check_sums(values, kernels.assign, (*before, *scores, block.labels), tuple(sums), changed)
        given = block.rng.normal(size=block.n)
        check_sums(values, kernels.gradient, (*before, block.labels, given), tuple(sums))
        if last > 0:
            r2 = np.full(block.n, -1.0)
            check(kernels.own_distance2, *part, block.rows, block.chunks, block.x, block.labels, r2)
        others = np.full(block.n, -1, np.int32)
        check(
            kernels.nearest_other, *part, block.rows, block.chunks, block.x, *scores, block.labels,
            others,
        )  # fmt: skip


@by_pairs(
    values=VALUES,
    sizes=list(SIZES),
    dtype=["float64", "float32"],
    shape=[(1, 1), (3, 2), (5, 7), (9, 3)],
    affine=[False, True],
)
def test_rows_are_measured_alike(values, sizes, dtype, shape, affine):
    if dtype == "float32" and values in ("far", "tiny", "scales"):
        values = "normal"
    block = Block(values, sizes, dtype, False, *shape)
    x, n = block.x[0], block.n
    slope, offset = block.scores(affine)
    one = (slope[0], offset[0]) if affine else (None, None)
    for part in ((0, n), (n // 3, n)):
        check(kernels.nearest, *part, block.rows, x, *one, np.zeros(n, np.int32), np.ones(n))
        check(kernels.distances2, *part, block.rows, x, np.ones((n, block.K)))


@by_pairs(
    values=VALUES,
    dtype=["float64", "float32"],
    weighted=[False, True],
    code=list(CODES)[1:-1],
    shape=[(1, 1), (3, 2), (5, 7)],
    alpha=[0.0, 0.3],
)
def test_small_users_are_alike(values, dtype, weighted, code, shape, alpha):
    if dtype == "float32" and values in ("far", "tiny", "scales"):
        values = "normal"
    block = Block(values, "few", dtype, weighted, *shape)
    m, K, d = block.m, block.K, block.d
    members = np.array([0, 2, 3])
    row = (0.0,) * d if d <= 4 else ()
    check(
        kernels.assign_small, 0, 3, block.rows, block.offsets, members, block.x, row, block.labels
    )
    users = members, block.offsets, row, *block.data(code)
    sums = np.zeros((3, K)), np.zeros((3, K, d))
    check(kernels.sum_small, 1, 3, users, block.x, block.labels, *sums)
    users = np.arange(m), *users[1:]
    neighbors = block.rng.normal(size=(m, K, d)), np.arange(float(m))
    results = np.zeros((m, K, d)), np.zeros(m), np.zeros((m, K))
    step, stiffness = (2.0, alpha, 0.7), block.rng.uniform(0.1, 1.0, (m, K))
    check(
        kernels.small_gradient_step, 0, m, users, block.x, block.labels, 1.5, neighbors, step,
        stiffness, results,
    )  # fmt: skip


@by_pairs(values=VALUES, K=[1, 4], d=[1, 3, 4, 9], alpha=[0.0, 0.3])
def test_centers_move_alike(values, K, d, alpha):
    rng, u = np.random.default_rng(K + 10 * d), 6
    flat = [some_values(values, (u, K * d), rng) for _ in range(3)]
    s0, H, stiffness = rng.uniform(0, 2, (3, u, K))
    s0[0], H[0], stiffness[1, 0] = 0.0, 0.0, 0.0
    degree = np.array([0.0, 1, 2, 3, 4, 5])
    results = np.zeros((u, K * d)), np.zeros(u), np.zeros((u, K))
    x, s1, total = flat
    check(
        kernels.gradient_step, 0, u, x, s0, s1, H, (total, degree), (2.0, alpha, 0.7), stiffness,
        results,
    )  # fmt: skip
    y, stepped, x = (each.reshape(u, K, d) for each in flat)
    t, softness = rng.uniform(1, 9, (2, u, K))
    out = np.zeros((u, K, d)), np.zeros((u, K)), np.zeros(u)
    check(kernels.nesterov_extrapolate, 1, u, y, stepped, x, t, softness, *out)
    for matrices in (1, u * K):
        matrix = rng.normal(size=(matrices, d, d))
        check(kernels.matvec, flat[0].reshape(-1, d), matrix, np.zeros((u * K, d)))


@by_pairs(values=VALUES, graph=["path", "complete", "star", "one"], n=[1, 6])
def test_neighbors_are_summed_alike(values, graph, n):
    m = 1 if graph == "one" else 7
    made = graphs.path(1) if graph == "one" else getattr(graphs, graph)(m)
    links = made.indptr, made.indices
    rng = np.random.default_rng(n)
    x = some_values(values, (m, n), rng)
    check(kernels.sum_neighbors, 0, m, *links, x, np.ones((m, n)))
    check(kernels.sum_halo, 0, m, *links, x, x[:0], np.arange(m), np.ones((m, n)))
    check(kernels.sum_energies, 0, m, *links, x, x[:0], np.arange(m), np.ones((m, 1)))
    # Of seven users the last three are on another rank; messages may be longer than n.
    own, messages, users = x[:4], some_values(values, (3, n + 2), rng), np.array([0, 2, 3])
    if m > 4:
        out = np.ones((4, n))
        check(kernels.sum_halo, 1, 3, *links, own, messages, users, out)
        check(kernels.sum_energies, 0, 3, *links, own, messages, users, out)


@pytest.mark.parametrize("values", VALUES)
def test_sums_of_chunks_are_added_alike(values):
    rng = np.random.default_rng(5)
    owner = np.array([0, 0, 0, 2, 3, 3])
    hi, total = some_values(values, (6, 4), rng), np.zeros((5, 4))
    with np.errstate(all="ignore"):
        check(kernels.exact_by_user, owner, hi, hi * 1e-17, total, total.copy())


def test_every_kernel_with_two_versions_is_compared():
    text = Path(__file__).read_text()
    kept = {name: vars(kernels)[name] for name in kernels.__all__}
    names = [name for name, each in kept.items() if isinstance(each, kernels.Kernel) and each.plain]
    assert [name for name in names if f"kernels.{name}," not in text] == []
    assert len(names) > 10
