from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from peerclust import partition
from peerclust.errors import DataError, ParameterError

labels = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=60)
users = st.integers(1, 12)
seeds = st.integers(0, 2**32)

# Every kind of partition, as a function of (classes, m, seed); a new one joins all laws here.
WAYS = {
    "random": lambda c, m, s: partition.random(len(c), m, random_state=s),
    "homogeneous": lambda c, m, s: partition.homogeneous(c, m, random_state=s),
    "by_class": lambda c, m, s: partition.by_class(c, m, per_user=len(set(c)), random_state=s),
    "by_class, one to all": lambda c, m, s: partition.by_class(
        c, m, per_user=(1, len(set(c))), proportions="random", random_state=s
    ),
    "by_class, given": lambda c, m, s: partition.by_class(
        c, m, proportions=np.random.default_rng(s).random((m, len(set(c)))) ** 9, random_state=s
    ),
    "dirichlet, skewed": lambda c, m, s: partition.dirichlet(
        c, m, concentration=0.01, random_state=s
    ),
    "dirichlet, even": lambda c, m, s: partition.dirichlet(
        c, m, concentration=1e308, random_state=s
    ),
}


def counts(classes, parts):
    """Count each user's rows of each class by plain Python: a list of Counters."""
    return [Counter(classes[r] for r in part) for part in parts]


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(classes=labels, m=users, seed=seeds)
def test_every_row_has_exactly_one_user_and_rows_ascend(way, classes, m, seed):
    parts = WAYS[way](classes, m, seed)
    assert len(parts) == m
    assert all(part.dtype == np.intp for part in parts)
    assert all(list(part) == sorted(set(part.tolist())) for part in parts)
    assert sorted(r for part in parts for r in part.tolist()) == list(range(len(classes)))


@pytest.mark.parametrize("way", WAYS)
def test_a_seed_fixes_the_parts_and_another_changes_them(way):
    classes = list("abc" * 40)
    first, again, other = (WAYS[way](classes, 4, s) for s in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_a_generator_is_used_and_advanced():
    rng = np.random.default_rng(3)
    first = partition.random(100, 2, random_state=rng)
    second = partition.random(100, 2, random_state=rng)
    assert np.array_equal(first[0], partition.random(100, 2, random_state=3)[0])
    assert not np.array_equal(first[0], second[0])


@settings(deadline=None, derandomize=True)
@given(n=st.integers(1, 200), m=users, seed=seeds)
def test_random_sizes_differ_by_at_most_one(n, m, seed):
    sizes = [len(part) for part in partition.random(n, m, random_state=seed)]
    assert max(sizes) - min(sizes) <= 1


def test_random_puts_each_row_with_each_user_equally_often():
    rng = np.random.default_rng(0)
    with_user_0 = np.zeros(6)
    for _ in range(3000):
        with_user_0[partition.random(6, 3, random_state=rng)[0]] += 1
    # Each row is there with probability 1/3: standard deviation 0.0086.
    np.testing.assert_allclose(with_user_0 / 3000, 1 / 3, atol=0.04)


@settings(deadline=None, derandomize=True)
@given(classes=labels, m=users, seed=seeds)
def test_homogeneous_spreads_each_class_and_all_rows_equally(classes, m, seed):
    parts = partition.homogeneous(classes, m, random_state=seed)
    tables = counts(classes, parts)
    for c in set(classes):
        held = [table[c] for table in tables]
        assert max(held) - min(held) <= 1
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@settings(deadline=None, derandomize=True)
@given(
    classes=labels,
    m=users,
    proportions=st.sampled_from([None, "random"]),
    data=st.data(),
    seed=seeds,
)
def test_by_class_gives_each_user_its_number_of_classes(classes, m, proportions, data, seed):
    C = len(set(classes))
    low = data.draw(st.integers(1, C))
    high = data.draw(st.integers(max(low, -(-C // m)), C))
    # With m copies of every row no class has fewer rows than holders.
    classes = classes * m
    parts = partition.by_class(
        classes, m, per_user=(low, high), proportions=proportions, random_state=seed
    )
    tables = counts(classes, parts)
    assert all(low <= len(table) <= high for table in tables)
    holders = [sum(c in table for table in tables) for c in set(classes)]
    assert min(holders) >= 1
    assert max(holders) - min(holders) <= 1
    if proportions is None:
        for c in set(classes):
            held = [table[c] for table in tables if c in table]
            assert max(held) - min(held) <= 1


def test_by_class_makes_the_heterogeneous_iris_of_the_paper():
    classes = np.repeat([0, 1, 2], 50)
    tables = counts(classes, partition.by_class(classes, 15, per_user=2, random_state=0))
    assert all(sorted(table.values()) == [5, 5] for table in tables)
    assert len({tuple(sorted(table)) for table in tables}) == 3


def test_by_class_draws_all_numbers_between_low_and_high():
    classes = np.repeat(np.arange(7), 200)
    parts = partition.by_class(classes, 40, per_user=(3, 5), proportions="random", random_state=0)
    assert {len(table) for table in counts(classes, parts)} == {3, 4, 5}


def test_random_proportions_have_the_spread_of_dirichlet_one():
    # A share of Dirichlet(1) over 4 users has mean 1/4 and variance 3/80.
    rng = np.random.default_rng(1)
    classes = np.zeros(1000, dtype=int)
    shares = [
        len(part) / 1000
        for _ in range(500)
        for part in partition.by_class(
            classes, 4, per_user=1, proportions="random", random_state=rng
        )
    ]
    assert np.var(shares) == pytest.approx(3 / 80, rel=0.1)


@settings(deadline=None, derandomize=True)
@given(
    classes=labels,
    m=users,
    data=st.data(),
    seed=seeds,
)
def test_given_proportions_are_met_to_the_nearest_rows(classes, m, data, seed):
    names = sorted(set(classes))
    # Shares above 1/60 of a class of at least 60 rows: no user is rounded to 0.
    classes = classes * 60
    share = st.sampled_from([0.0, 1.0, 2.0, 5.0])
    shares = np.array([[data.draw(share) for _ in names] for _ in range(m)])
    shares[data.draw(st.integers(0, m - 1))] += 1.0
    parts = partition.by_class(classes, m, proportions=shares, random_state=seed)
    tables = counts(classes, parts)
    for c, name in enumerate(names):
        for i in range(m):
            exact = classes.count(name) * shares[i, c] / shares[:, c].sum()
            assert abs(tables[i][name] - exact) < 1 + 1e-9
            assert (tables[i][name] > 0) == (shares[i, c] > 0)


@pytest.mark.parametrize("big", [1.0, 1e308])
def test_a_tiny_proportion_still_brings_a_row_when_there_are_enough(big):
    classes = ["a"] * 4
    shares = [[5e-324], [big], [big], [0.0]]
    parts = partition.by_class(classes, 4, proportions=shares, random_state=0)
    sizes = [len(part) for part in parts]
    assert sizes[0] == 1
    assert sorted(sizes[1:3]) == [1, 2]
    assert sizes[3] == 0


def test_more_holders_than_rows_leaves_some_holders_without():
    parts = partition.by_class(["a", "a"], 5, per_user=1, random_state=0)
    assert sorted(len(part) for part in parts) == [0, 0, 0, 1, 1]


def test_ties_of_rounding_do_not_favor_the_first_users():
    rng = np.random.default_rng(0)
    most = [
        int(
            np.argmax(
                [len(p) for p in partition.by_class([0] * 4, 3, per_user=1, random_state=rng)]
            )
        )
        for _ in range(900)
    ]
    # Each user is the one with 2 rows in 300 runs on average: standard deviation 14.
    assert np.bincount(most, minlength=3).min() > 230


def test_dirichlet_shares_have_the_variance_of_their_concentration():
    # Var p_i = (1/m)(1 - 1/m) / (m * concentration + 1).
    rng = np.random.default_rng(0)
    classes = np.repeat(np.arange(400), 500)
    for concentration in (0.1, 1.0, 10.0):
        parts = partition.dirichlet(classes, 5, concentration=concentration, random_state=rng)
        shares = np.stack([np.bincount(classes[part], minlength=400) for part in parts]) / 500
        assert np.var(shares) == pytest.approx(0.2 * 0.8 / (5 * concentration + 1), rel=0.15)


def test_dirichlet_may_leave_a_user_empty():
    parts = partition.dirichlet([0] * 20, 8, concentration=1e-3, random_state=0)
    assert min(len(part) for part in parts) == 0


@settings(deadline=None, derandomize=True)
@given(names=st.lists(st.sampled_from([3, 7, -1, 10]), min_size=1, max_size=40))
def test_by_user_undoes_naming(names):
    found, parts = partition.by_user(names)
    assert found.tolist() == sorted(set(names))
    for name, part in zip(found, parts, strict=True):
        assert part.tolist() == [r for r, other in enumerate(names) if other == name]


def test_by_user_takes_strings_and_pandas_columns():
    pandas = pytest.importorskip("pandas")
    for given_names in (["b", "a", "b"], pandas.Series(["b", "a", "b"]), np.array(["b", "a", "b"])):
        names, parts = partition.by_user(given_names)
        assert names.tolist() == ["a", "b"]
        assert [part.tolist() for part in parts] == [[1], [0, 2]]


CLASSES = [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: partition.random(0, 2), ParameterError, "`n` of random must be a whole number"),
        (lambda: partition.random(5, 0), ParameterError, "`m` of random must be a whole number"),
        (lambda: partition.homogeneous(CLASSES, 1.5), ParameterError, "Got 1.5"),
        (lambda: partition.homogeneous([[0, 1]], 2), DataError, r"1-D .* Got shape \(1, 2\)"),
        (lambda: partition.homogeneous([[0, 1], [2]], 2), DataError, "`classes` of homogeneous"),
        (lambda: partition.homogeneous([], 2), DataError, r"at least one label. Got shape \(0,\)"),
        (lambda: partition.homogeneous([1.0, np.nan], 2), DataError, "Row 1 is nan"),
        (lambda: partition.by_user(["a", None]), DataError, "Row 1 is None"),
        (
            lambda: partition.random(5, 2, random_state="x"),
            ParameterError,
            "`random_state` of random must be None, .* Got 'x'",
        ),
        (lambda: partition.random(5, 2, random_state=-1), ParameterError, "Got -1"),
        (
            lambda: partition.dirichlet(CLASSES, 2, concentration=0),
            ParameterError,
            "`concentration` of dirichlet must be a number > 0. Got 0",
        ),
        (lambda: partition.by_class(CLASSES, 2), ParameterError, "`per_user` .* Got None"),
        (lambda: partition.by_class(CLASSES, 2, per_user=4), ParameterError, r"classes \(3\)"),
        (lambda: partition.by_class(CLASSES, 2, per_user=True), ParameterError, "Got True"),
        (lambda: partition.by_class(CLASSES, 2, per_user="12"), ParameterError, "Got '12'"),
        (lambda: partition.by_class(CLASSES, 2, per_user=(3, 2)), ParameterError, r"\(3, 2\)"),
        (lambda: partition.by_class(CLASSES, 2, per_user=(1, 2, 3)), ParameterError, "a pair"),
        (
            lambda: partition.by_class(CLASSES, 2, per_user=1),
            ParameterError,
            r"every class to have a holder: m \* per_user >= 3 classes. Got 2 \* 1 = 2",
        ),
        (
            lambda: partition.by_class(CLASSES, 2, per_user=2, proportions="randon"),
            ParameterError,
            "Did you mean 'random'",
        ),
        (
            lambda: partition.by_class(CLASSES, 2, per_user=2, proportions=np.ones((2, 3))),
            ParameterError,
            "`per_user` of by_class must be None when",
        ),
        (
            lambda: partition.by_class(CLASSES, 2, proportions=np.ones((3, 2))),
            ParameterError,
            r"= \(2, 3\). Got shape \(3, 2\)",
        ),
        (
            lambda: partition.by_class(CLASSES, 2, proportions=[[1, 1, 1], [1, -1, 1]]),
            ParameterError,
            "finite and >= 0. Got -1",
        ),
        (
            lambda: partition.by_class(CLASSES, 2, proportions=[[1, 0, 1], [1, 0, 1]]),
            ParameterError,
            "no entry above 0 in column 1",
        ),
        (
            lambda: partition.by_class(CLASSES, 2, proportions=[["a"]]),
            ParameterError,
            "`proportions` of by_class must be None, 'random' or",
        ),
    ],
)
def test_bad_input_is_refused_with_a_sentence(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
