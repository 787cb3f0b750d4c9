"""The data sets of the paper and the benchmarks that a seed or scikit-learn provides.

Each function returns arrays in memory; `random_state` is None, a whole number or a
`numpy.random.Generator`. `partition` distributes rows over users, except for the noisy Iris data,
which the paper defines together with its users.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerclust import partition
from peerclust.arrays import Classes
from peerclust.errors import ParameterError
from peerclust.row_validation import check_rows
from peerclust.validation import RandomState, check_count, check_generator

Rows = NDArray[np.float64]


@dataclass(frozen=True, eq=False)  # == of arrays is not a bool
class NoisyIris:
    """The Iris data with a fifth of its rows turned into outliers; see `noisy_iris`.

    rows
        (150, 4) rows; an outlier replaces the row from which it was made.
    classes
        (150,) ints: 0, 1, 2 for the inliers, 3 for the outliers.
    outlier
        (150,) bools.
    users
        (150,) ints: the user, 0 to 4, of each row.
    means
        (3, 4) means of the inliers of each class.
    """

    rows: Rows
    classes: Classes
    outlier: NDArray[np.bool_]
    users: Classes
    means: Rows


def iris() -> tuple[Rows, Classes]:
    """Return the Iris data: rows (150, 4) in cm, and classes (150,), 50 rows each of 0, 1, 2.

    >>> rows, classes = iris()
    >>> rows.shape, np.bincount(classes).tolist()
    ((150, 4), [50, 50, 50])
    """
    from sklearn.datasets import load_iris

    rows, classes = load_iris(return_X_y=True)
    return np.array(rows, dtype=np.float64), np.array(classes, dtype=np.intp)


def noisy_iris(*, random_state: RandomState = None) -> NoisyIris:
    """Return Iris with 20 % outliers over 5 users, as in the paper's outlier experiment.

    Ten random rows of each class get Gaussian noise of mean 11 and variance 1 added to each
    component and become a fourth class, the outliers. Each of 5 users has 24 inliers (8 of each
    class) and 6 outliers.

    >>> data = noisy_iris(random_state=0)
    >>> int(data.outlier.sum()), np.bincount(data.classes[data.users == 0]).tolist()
    (30, [8, 8, 8, 6])
    """
    rng = check_generator(random_state, "noisy_iris")
    rows, classes = iris()
    chosen = [rng.choice(np.flatnonzero(classes == c), size=10, replace=False) for c in range(3)]
    outlier = np.zeros(len(rows), dtype=np.bool_)
    outlier[np.concatenate(chosen)] = True
    means = np.stack([rows[(classes == c) & ~outlier].mean(axis=0) for c in range(3)])
    rows[outlier] += rng.normal(11, 1, size=(30, 4))
    classes[outlier] = 3
    users = np.empty(len(rows), dtype=np.intp)
    for i, part in enumerate(partition.homogeneous(classes, 5, random_state=rng)):
        users[part] = i
    return NoisyIris(rows=rows, classes=classes, outlier=outlier, users=users, means=means)


def noisy_means(means: ArrayLike, m: int, *, random_state: RandomState = None) -> Rows:
    """Return the initial centers of the paper's outlier experiment: true means plus noise.

    x_i(k) = means[k] + e_i(k) with e_i(k) white Gaussian noise of variance 1. `means` is (K, d),
    the result (m, K, d). With the same seed, user i's centers do not depend on m.

    >>> noisy_means(noisy_iris(random_state=0).means, 5, random_state=0).shape
    (5, 3, 4)
    """
    x = check_rows(means, "`means` of noisy_means")
    m = check_count(m, "m", "noisy_means")
    rng = check_generator(random_state, "noisy_means")
    return x + rng.standard_normal((m, *x.shape))


def gaussians(n: int, *, random_state: RandomState = None) -> tuple[Rows, Classes]:
    """Return n rows of four Gaussians at (+-1, +-1): the paper's huge data set.

    Class 0 is drawn from N((1, 1), I), 1 from N((-1, 1), I), 2 from N((1, -1), I), 3 from
    N((-1, -1), I); n / 4 rows each, class after class. Rows are (n, 2), classes (n,). The paper has
    n = 2,000,000.

    >>> rows, classes = gaussians(4000, random_state=0)
    >>> rows.shape, np.bincount(classes).tolist()
    ((4000, 2), [1000, 1000, 1000, 1000])
    """
    n = check_count(n, "n", "gaussians", at_least=4)
    if n % 4:
        raise ParameterError(f"`n` of gaussians must be a multiple of 4. Got {n}.")
    rng = check_generator(random_state, "gaussians")
    means = np.array([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
    rows = rng.standard_normal((4, n // 4, 2))
    rows += means[:, None, :]
    return rows.reshape(n, 2), np.repeat(np.arange(4, dtype=np.intp), n // 4)


def scattered_outliers(*, random_state: RandomState = None) -> tuple[Rows, NDArray[np.bool_]]:
    """Return 900 rows of 5 Gaussian clusters and 100 outliers scattered over five times their box.

    The clusters' centers are uniform in [-10, 10]^2, with 180 rows of unit variance each; the
    outliers are uniform in [-50, 50]^2. Shuffled: rows (1000, 2) and outlier (1000,) of bools. A
    few outliers fall among the clusters, where nothing can distinguish them.

    >>> rows, outlier = scattered_outliers(random_state=0)
    >>> rows.shape, int(outlier.sum())
    ((1000, 2), 100)
    """
    rng = check_generator(random_state, "scattered_outliers")
    centers = rng.uniform(-10, 10, size=(5, 2))
    good = np.repeat(centers, 180, axis=0) + rng.standard_normal((900, 2))
    rows = np.concatenate([good, rng.uniform(-50, 50, size=(100, 2))])
    order = rng.permutation(1000)
    return rows[order], order >= 900
