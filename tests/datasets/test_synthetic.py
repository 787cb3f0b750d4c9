from __future__ import annotations

import numpy as np
import pytest

from peerclust import datasets
from peerclust.errors import DataError, ParameterError


def test_iris_is_fishers():
    rows, classes = datasets.iris()
    assert rows.shape == (150, 4)
    assert rows[0].tolist() == [5.1, 3.5, 1.4, 0.2]
    # Fisher's means (1936). The UCI copy of his data has two wrong rows, and 3.418 here.
    setosa = [5.006, 3.428, 1.462, 0.246]
    np.testing.assert_allclose(rows[classes == 0].mean(axis=0), setosa, atol=1e-9)


def test_iris_gives_fresh_arrays_each_time():
    datasets.iris()[0][:] = 0
    assert datasets.iris()[0].all()


@pytest.mark.parametrize("seed", range(5))
def test_noisy_iris_has_the_numbers_of_the_paper(seed):
    data = datasets.noisy_iris(random_state=seed)
    rows, classes = datasets.iris()
    assert np.bincount(classes[data.outlier]).tolist() == [10, 10, 10]
    assert np.array_equal(data.rows[~data.outlier], rows[~data.outlier])
    assert np.array_equal(data.classes, np.where(data.outlier, 3, classes))
    for i in range(5):
        mine = data.classes[data.users == i]
        assert np.bincount(mine).tolist() == [8, 8, 8, 6]
    for c in range(3):
        good = [rows[r] for r in range(150) if classes[r] == c and not data.outlier[r]]
        np.testing.assert_allclose(data.means[c], np.mean(good, axis=0))


def test_noise_of_noisy_iris_has_mean_11_and_variance_1():
    rows, _ = datasets.iris()
    noise = []
    for seed in range(40):
        data = datasets.noisy_iris(random_state=seed)
        noise.append((data.rows - rows)[data.outlier])
    # 4800 numbers: standard errors 0.0144 of the mean, 0.0204 of the variance.
    assert np.mean(noise) == pytest.approx(11, abs=0.06)
    assert np.var(noise) == pytest.approx(1, abs=0.09)


def test_noisy_means_scatter_around_the_means_with_variance_1():
    means = np.array([[0.0, 100.0], [-50.0, 7.0], [1.0, 1.0]])
    x = datasets.noisy_means(means, 3000, random_state=0)
    assert x.shape == (3000, 3, 2)
    np.testing.assert_allclose(x.mean(axis=0), means, atol=0.1)
    np.testing.assert_allclose(np.cov(x.reshape(3000, 6).T), np.eye(6), atol=0.12)


def test_noisy_means_of_a_user_do_not_depend_on_how_many_users_there_are():
    few = datasets.noisy_means(np.zeros((3, 4)), 2, random_state=5)
    many = datasets.noisy_means(np.zeros((3, 4)), 9, random_state=5)
    assert np.array_equal(few, many[:2])


def test_gaussians_sit_at_the_four_corners_with_identity_covariance():
    rows, classes = datasets.gaussians(40_000, random_state=0)
    assert rows.shape == (40_000, 2)
    for c, corner in enumerate([(1, 1), (-1, 1), (1, -1), (-1, -1)]):
        mine = rows[classes == c]
        assert len(mine) == 10_000
        np.testing.assert_allclose(mine.mean(axis=0), corner, atol=0.05)
        np.testing.assert_allclose(np.cov(mine.T), np.eye(2), atol=0.07)


def test_nearest_corner_labels_gaussians_as_well_as_theory_says():
    # Both signs must be right: Phi(1)^2 = 0.7079, the 70.8 % that no clustering can much exceed.
    rows, classes = datasets.gaussians(40_000, random_state=1)
    nearest = (rows[:, 0] < 0) + 2 * (rows[:, 1] < 0)
    assert np.mean(nearest == classes) == pytest.approx(0.8413447**2, abs=0.012)


@pytest.mark.parametrize("seed", range(5))
def test_scattered_outliers_are_a_tenth_and_five_times_as_wide(seed):
    rows, outlier = datasets.scattered_outliers(random_state=seed)
    assert rows.shape == (1000, 2)
    assert outlier.sum() == 100
    assert np.abs(rows[~outlier]).max() < 10 + 6
    assert 40 < np.abs(rows[outlier]).max() <= 50
    # Shuffled: outliers are in both halves.
    assert 30 < outlier[:500].sum() < 70


def test_the_good_rows_of_scattered_outliers_form_five_unit_clusters():
    from sklearn.cluster import KMeans

    rows, outlier = datasets.scattered_outliers(random_state=0)
    good = rows[~outlier]
    inertia = KMeans(5, n_init=10, random_state=0).fit(good).inertia_
    # Two features of variance 1 per row; overlapping clusters make it a little less.
    assert 1.6 < inertia / 900 < 2.1


@pytest.mark.parametrize(
    "make",
    [
        lambda s: datasets.noisy_iris(random_state=s).rows,
        lambda s: datasets.noisy_means(np.zeros((2, 2)), 3, random_state=s),
        lambda s: datasets.gaussians(40, random_state=s)[0],
        lambda s: datasets.scattered_outliers(random_state=s)[0],
    ],
)
def test_a_seed_fixes_the_data_and_another_changes_it(make):
    assert np.array_equal(make(1), make(1))
    assert np.array_equal(make(1), make(np.random.default_rng(1)))
    assert not np.array_equal(make(1), make(2))


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: datasets.gaussians(10), ParameterError, "a multiple of 4. Got 10"),
        (lambda: datasets.gaussians(0), ParameterError, "`n` of gaussians must be a whole number"),
        (lambda: datasets.noisy_means([1.0, 2.0], 3), DataError, r"2-D .* Got shape \(2,\)"),
        (lambda: datasets.noisy_means([[np.nan]], 3), DataError, "must be finite"),
        (lambda: datasets.noisy_means([[1.0]], 0), ParameterError, "`m` of noisy_means"),
        (
            lambda: datasets.noisy_iris(random_state=0.5),
            ParameterError,
            "`random_state` of noisy_iris must be None",
        ),
    ],
)
def test_bad_input_is_rejected_with_a_sentence(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
