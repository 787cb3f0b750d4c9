"""Public ranges of features: what users then say, and what rows they allow."""

import numpy as np
import pytest

import peerclust as pc
from peerclust.clustering.problem import prepare
from peerclust.programs.exact import Exact
from peerclust.programs.protocol import NetworkMax
from peerclust.runtimes import Simulator, run_program


class Overheard(Simulator):
    """A simulator that keeps the maxima that users said."""

    def __init__(self, graph):
        super().__init__(graph)
        self.maxima = []

    def deliver(self, said):
        self.maxima += [each.v for each in said.messages if isinstance(each, NetworkMax)]
        return super().deliver(said)


@pytest.mark.parametrize("scale", ["none", "standard", "robust"])
def test_with_public_ranges_no_user_says_an_extreme_value_of_its_rows(scale):
    rng = np.random.default_rng(5)
    parts = [rng.normal(size=(20, 2)) for _ in range(3)]
    ranges = [(-8.0, 9.0), (-7.0, 6.0)]
    said = {}
    for given in (None, ranges):
        problem = prepare(
            parts, n_clusters=2, graph="path", loss=pc.KMeans(), distance=pc.Euclidean(),
            weights="unit", scale=scale, ranges=given, runtime="simulator", random_state=0,
        )  # fmt: skip
        runtime, users = Overheard(problem.graph), problem.users
        x = users.broadcast_centers(users.rows[:2].astype(float))
        run_program(runtime, Exact(3, curvature=60.0), users, x, rounds=4)
        (said[given is not None],) = runtime.maxima
    extremes = np.concatenate([each.ravel() for each in users.ranges])
    assert set(np.abs(extremes)) & set(np.abs(said[False][:, 1:]).ravel())
    assert not set(np.abs(extremes)) & set(np.abs(said[True][:, 1:]).ravel())
    low, high = np.array(ranges).T
    if problem.scale is not None:
        low, high = problem.scale.forward(low), problem.scale.forward(high)
    assert np.array_equal(said[True][:, 1:], np.tile(np.concatenate([high, -low]), (3, 1)))


@pytest.mark.parametrize("solver", ["exact", "admm", "accelerated"])
def test_ranges_change_nothing_but_the_last_digits_on_every_runtime(solver):
    rng = np.random.default_rng(6)
    parts = [rng.normal(size=(20, 2)) for _ in range(3)]
    given = {"n_clusters": 2, "solver": solver, "scale": "standard", "random_state": 0}
    plain = pc.cluster(parts, **given)
    with_ranges = pc.cluster(parts, ranges=[(-9, 9)] * 2, **given)
    loopback = pc.cluster(parts, ranges=[(-9, 9)] * 2, runtime="loopback", **given)
    assert np.allclose(plain.centers, with_ranges.centers, rtol=0, atol=1e-9)
    assert np.array_equal(with_ranges.centers, loopback.centers)


@pytest.mark.parametrize(
    ("ranges", "sentence"),
    [
        ([(0, 1)], r"of each of the 2 features. Got shape \(1, 2\)"),
        ("wide", "of each of the 2 features. Got 'wide'"),
        ([(0, 1), (2, 2)], "finite and low < high"),
        ([(0, 1), (0, np.inf)], "finite and low < high"),
        ([(0, 5), (0, 2)], "must contain all rows. Got 3 in column 1 of user 1, outside of 0 to 2"),
        ([(1, 5), (0, 9)], "must contain all rows. Got 0 in column 0 of user 0, outside of 1 to 5"),
    ],
)
def test_ranges_must_be_pairs_and_contain_all_rows(ranges, sentence):
    parts = [[[0.0, 1.0], [1.0, 2.0]], [[2.0, 3.0]]]
    with pytest.raises(pc.errors.InputError, match=sentence):
        pc.cluster(parts, n_clusters=1, ranges=ranges)
