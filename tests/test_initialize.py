"""Starts: which centers they choose for which users, and what they reject."""

import numpy as np
import pytest

from peerclust import Euclidean, KMeans, initialize
from peerclust.clustering.problem import prepare
from peerclust.errors import DataError, ParameterError
from peerclust.initialize import KMeansPlusPlus, KMeansPlusPlusLocal, Random, Warm

RNG = np.random.default_rng(0)
PARTS = [RNG.normal(size=(n, 2)) + 5 * RNG.integers(0, 3, (n, 1)) for n in (30, 0, 2, 25, 40)]
ALL = np.concatenate(PARTS)
CLASSES = [np.arange(len(part)) % 3 for part in PARTS]
STARTS = [KMeansPlusPlus(), KMeansPlusPlus(cap=0.9), KMeansPlusPlusLocal(), Random(), Warm(CLASSES)]


def prepared(parts, K, runtime="simulator"):
    return prepare(
        parts,
        n_clusters=K,
        graph="ring",
        loss=KMeans(),
        distance=Euclidean(),
        weights="unit",
        runtime=runtime,
        random_state=None,
    )


def start(init, parts=PARTS, K=3, seed=0, runtime="simulator"):
    problem = prepared(parts, K, runtime)
    return init.centers(problem.runtime, problem.users, K, seed)


def are_rows_of(centers, rows):
    return (centers[:, None] == rows[None]).all(axis=2).any(axis=1).all()


@pytest.mark.parametrize("init", STARTS, ids=repr)
def test_starts_are_rows_of_the_data_and_reproducible_on_every_runtime(init):
    x, traffic = start(init)
    assert x.shape == (5, 3, 2)
    assert are_rows_of(x.reshape(-1, 2), ALL)
    again, same_traffic = start(init, runtime="loopback")
    assert np.array_equal(x, again)
    assert traffic == same_traffic
    assert not np.array_equal(x, start(init, seed=1)[0])


@pytest.mark.parametrize("init", STARTS, ids=repr)
def test_centers_of_a_start_are_distinct(init):
    x, _ = start(init)
    for own in x:
        assert len(np.unique(own, axis=0)) == 3


@pytest.mark.parametrize("init", [KMeansPlusPlus(), KMeansPlusPlus(mean_of=3)], ids=repr)
def test_distributed_kmeans_plus_plus_is_common_to_all_users(init):
    x, traffic = start(init)
    assert (x == x[0]).all()
    assert traffic.messages > 0


@pytest.mark.parametrize("init", [Random(), KMeansPlusPlusLocal()], ids=repr)
def test_users_choose_their_own_rows_and_those_with_few_take_the_common_start(init):
    x, traffic = start(init)
    for i in (0, 3, 4):
        assert are_rows_of(x[i], PARTS[i])
    common, _ = start(KMeansPlusPlus())
    assert np.array_equal(x[1], common[1])  # no rows
    assert np.array_equal(x[2], common[2])  # two rows, three clusters
    assert traffic.messages > 0
    rich = [PARTS[i] for i in (0, 3, 4)]
    assert start(init, parts=rich)[1].messages == 0


def test_warm_start_takes_a_row_of_each_class_its_own_where_it_can():
    x, _ = start(Warm(CLASSES))
    for i, (part, classes) in enumerate(zip(PARTS, CLASSES, strict=True)):
        for k in range(3):
            own = part[classes == k]
            joint = ALL[np.concatenate(CLASSES) == k]
            assert are_rows_of(x[i, k][None], own if len(own) else joint)


def test_warm_start_accepts_flat_classes():
    assert np.array_equal(start(Warm(CLASSES))[0], start(Warm(np.concatenate(CLASSES)))[0])


def test_capped_starts_seldom_draw_far_rows():
    rng = np.random.default_rng(1)
    good, far = rng.normal(size=(190, 2)), rng.uniform(500, 1000, (10, 2))
    parts = np.array_split(rng.permutation(np.concatenate([good, far])), 5)

    def far_draws(init):
        x = [start(init, parts=parts, K=2, seed=seed)[0][0] for seed in range(40)]
        return sum((np.abs(centers) > 100).any() for centers in x)

    assert far_draws(KMeansPlusPlus()) >= 36
    assert far_draws(KMeansPlusPlus(cap=0.9)) <= 20


def test_the_joint_quantile_is_that_of_all_rows():
    problem = prepared(PARTS, 3)
    centers = ALL[[0, 40]]
    squared = ((ALL[:, None] - centers) ** 2).sum(axis=2).min(axis=1)
    for q in (0.1, 0.5, 0.9):
        found, _ = initialize.joint_quantile(problem.runtime, problem.users, centers, q)
        expected = np.quantile(squared, q, method="inverted_cdf")
        assert found == pytest.approx(expected, rel=1e-12)


def test_given_centers_are_copied_to_every_user_and_checked():
    given = np.arange(6.0).reshape(3, 2)
    x, traffic = start(initialize.resolve(given))
    assert (x == given).all()
    assert traffic.messages == 0
    x[0] = 0
    assert given[2, 1] == 5.0
    own = np.arange(30.0).reshape(5, 3, 2)
    assert np.array_equal(start(initialize.resolve(own))[0], own)


@pytest.mark.parametrize(
    ("init", "sentence"),
    [
        (np.zeros((2, 2)), r"`init` of cluster must have the shape \(3, 2\) or \(5, 3, 2\)"),
        (np.full((3, 2), np.nan), "`init` of cluster must be finite"),
        ([["a", "b"]] * 3, "`init` of cluster must be an array of numbers"),
        (Warm([0, 1, 2]), "`classes` of Warm must name the class of each of the 97 rows"),
        (Warm(np.arange(97) % 2), "must have as many classes as `n_clusters`"),
    ],
)
def test_unusable_starts_are_rejected(init, sentence):
    with pytest.raises(ParameterError, match=sentence):
        start(initialize.resolve(init))


def test_unknown_names_and_options_are_rejected():
    with pytest.raises(ParameterError, match="Did you mean 'k-means\\+\\+'"):
        initialize.resolve("kmeans++")
    for cap in (90, "0.9", 0, 1):
        with pytest.raises(ParameterError, match="`cap` of KMeansPlusPlus must be a number > 0"):
            KMeansPlusPlus(cap=cap)
    with pytest.raises(ParameterError, match="`mean_of` of KMeansPlusPlus"):
        KMeansPlusPlus(mean_of=0)
    with pytest.raises(ParameterError, match=r"must be a start, such as KMeansPlusPlus\(\)"):
        initialize.resolve(KMeansPlusPlus)


def test_fewer_distinct_rows_than_clusters_show_in_the_draw_itself():
    problem = prepared([np.ones((3, 1)), np.zeros((2, 1))], 2)
    with pytest.raises(DataError, match=r"at most the number of distinct rows, 2\. Got 3"):
        KMeansPlusPlus().centers(problem.runtime, problem.users, 3, 0)
