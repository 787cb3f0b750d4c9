from __future__ import annotations

from itertools import combinations, permutations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.cluster import KMeans

from all_pairs import by_pairs
from instances import DISTANCES, LOSSES
from peerclust import datasets, metrics
from peerclust.errors import DataError, InputError

two_labelings = st.integers(1, 30).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 4), min_size=n, max_size=n),
        st.lists(st.sampled_from("pqrs"), min_size=n, max_size=n),
    )
)


def accuracy_by_permutations(true, predicted):
    """Try every way to name the predicted labels, some of them by no true label at all."""
    found = sorted(set(predicted))
    names = [*sorted(set(true)), *[object() for _ in found]]
    return max(
        sum(
            t == dict(zip(found, order, strict=True))[p]
            for t, p in zip(true, predicted, strict=True)
        )
        for order in permutations(names, len(found))
    ) / len(true)


def ari_by_pairs(true, predicted):
    """Hubert and Arabie's index from the definition, pair of rows by pair of rows."""
    pairs = list(combinations(range(len(true)), 2))
    a = sum(true[i] == true[j] for i, j in pairs)
    b = sum(predicted[i] == predicted[j] for i, j in pairs)
    both = sum(true[i] == true[j] and predicted[i] == predicted[j] for i, j in pairs)
    expected = a * b / comb(len(true), 2)
    return (both - expected) / ((a + b) / 2 - expected)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(two_labelings)
def test_accuracy_is_the_best_of_all_permutations(labelings):
    true, predicted = labelings
    assert metrics.accuracy(true, predicted) == pytest.approx(
        accuracy_by_permutations(true, predicted)
    )
    assert metrics.accuracy(predicted, true) == pytest.approx(metrics.accuracy(true, predicted))


def test_accuracy_matches_one_to_one_even_where_greedy_matching_is_worse():
    # Taking the largest cell first (4) leaves 0; the best matching takes 3 + 3.
    true = [0] * 7 + [1] * 3
    predicted = ["x"] * 4 + ["y"] * 3 + ["x"] * 3
    assert metrics.accuracy(true, predicted) == pytest.approx(0.6)


def test_clusters_beyond_the_classes_count_as_wrong():
    assert metrics.accuracy([0, 0, 0, 0], [5, 5, 5, 9]) == 0.75
    assert metrics.accuracy([5, 5, 5, 9], [0, 0, 0, 0]) == 0.75


@settings(max_examples=50, deadline=None, derandomize=True)
@given(two_labelings)
def test_ari_is_the_index_of_hubert_and_arabie(labelings):
    true, predicted = labelings
    trivial = {1, len(true)}
    if len(set(true)) in trivial and len(set(predicted)) in trivial:
        return  # 0/0 in the formula
    assert metrics.ari(true, predicted) == pytest.approx(ari_by_pairs(true, predicted), abs=1e-12)


def test_ari_does_not_mind_many_labels():
    assert metrics.ari(np.arange(60), np.arange(60)[::-1]) == 1.0


@pytest.mark.parametrize("metric", [metrics.accuracy, metrics.ari])
@pytest.mark.parametrize(
    ("true", "predicted", "sentence"),
    [
        ([0, 1], [0, 1, 1], "one label for each of the 2 of `true`. Got 3"),
        ([], [], r"`true` of \w+ must be a 1-D array of at least one label"),
        ([0, 1], [[0, 1]], r"`predicted` of \w+ must be a 1-D .* Got shape \(1, 2\)"),
        ([0.0, np.nan], [0, 1], "Row 1 is nan"),
    ],
)
def test_bad_labels_are_refused_with_a_sentence(metric, true, predicted, sentence):
    with pytest.raises(DataError, match=sentence):
        metric(true, predicted)


def disagreement_by_loops(x):
    m, K, _ = x.shape
    pairs = [(i, j) for i in range(m) for j in range(m)]
    mean = np.mean([max(np.linalg.norm(x[i, k] - x[j, k]) for i, j in pairs) for k in range(K)])
    return mean, max(np.linalg.norm(x[i] - x[j]) for i, j in pairs)


@pytest.mark.parametrize("spread", [1.0, 1e-12])
@pytest.mark.parametrize("shape", [(2, 1, 1), (7, 3, 4), (12, 2, 1), (5, 1, 30)])
def test_disagreement_is_the_largest_distance_of_all_pairs(shape, spread):
    rng = np.random.default_rng(0)
    x = 1.0 + spread * rng.standard_normal(shape)
    found = metrics.disagreement(x)
    assert found.exact
    assert (found.mean, found.stacked) == pytest.approx(disagreement_by_loops(x), rel=1e-12, abs=0)


def test_one_user_agrees_with_itself():
    assert metrics.disagreement(np.ones((1, 3, 2))) == metrics.Disagreement(0.0, 0.0, True)


def test_users_that_agree_have_no_disagreement():
    assert metrics.disagreement(np.full((9, 3, 2), 0.1)) == metrics.Disagreement(0.0, 0.0, True)


def test_many_users_get_an_upper_bound_within_its_stated_factor():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2001, 3, 2))
    bound, inner = metrics.disagreement(x), metrics.disagreement(x[:2000])
    assert inner.exact
    assert not bound.exact
    true = [
        np.mean(
            [max(np.linalg.norm(x[:, k] - one, axis=1).max() for one in x[:, k]) for k in range(3)]
        ),
        max(np.linalg.norm(x - one, axis=(1, 2)).max() for one in x),
    ]
    assert true[0] <= bound.mean <= np.sqrt(2) * true[0]
    assert true[1] <= bound.stacked <= np.sqrt(6) * true[1]


def test_float32_centers_are_compared_in_float64():
    x = np.array([[[1e-30]], [[3e-30]]], dtype=np.float32)
    assert metrics.disagreement(x).mean == pytest.approx(2e-30, rel=1e-6)


@pytest.mark.parametrize(
    ("centers", "sentence"),
    [
        (np.ones((3, 2)), r"must be an array \(users, K, d\).* Got shape \(3, 2\)"),
        (np.ones((0, 3, 2)), r"Got shape \(0, 3, 2\)"),
        ([[["a"]]], "`centers` of disagreement must be numbers"),
        ([[[0.0]], [[np.inf]]], "must be finite. User 1 has inf"),
    ],
)
def test_bad_centers_are_refused_with_a_sentence(centers, sentence):
    with pytest.raises(DataError, match=sentence):
        metrics.disagreement(centers)


# Cost


@by_pairs(loss=LOSSES, distance=DISTANCES, weighted=[False, True])
def test_cost_is_the_weighted_sum_of_the_least_losses(loss, distance, weighted):
    rng, weights = np.random.default_rng(0), np.linspace(0, 2, 40) if weighted else None
    rows, centers = rng.normal(size=(40, 3)), rng.normal(size=(4, 3))
    metric = distance(3)
    A = np.asarray(getattr(metric, "A", np.eye(3)))
    step = rows[:, None] - centers
    least = loss.value(np.einsum("nki,ij,nkj->nk", step, A, step)).min(axis=1)
    expected = least.sum() if weights is None else weights @ least
    got = metrics.cost(rows, centers, loss=loss, distance=metric, weights=weights)
    assert got == pytest.approx(expected, rel=1e-12)


def test_cost_is_half_the_inertia_of_scikit_learn():
    rows, _ = datasets.iris()
    model = KMeans(n_clusters=3, n_init=1, random_state=0).fit(rows)
    assert metrics.cost(rows, model.cluster_centers_) == pytest.approx(model.inertia_ / 2)


def test_cost_refuses_what_does_not_fit():
    rows = np.ones((5, 2))
    with pytest.raises(DataError, match="`centers` of cost must have the rows' 2 features"):
        metrics.cost(rows, np.ones((3, 4)))
    with pytest.raises(DataError, match="one weight for each of the 5 rows"):
        metrics.cost(rows, rows, weights=np.ones(4))
    with pytest.raises(DataError, match="Row 1 of cost must be finite"):
        metrics.cost([[0.0], [np.nan]], [[0.0]])
    with pytest.raises(InputError, match="Did you mean 'fair'"):
        metrics.cost(rows, rows, loss="fiar")
