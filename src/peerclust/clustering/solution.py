"""The result of a clustering: centers and labels, with its status, certificate and trace.

Those are in `result`; what is made of a solution is in `saving`, `pickles`, `display`, `plotting`
and `export`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerclust import distances, losses
from peerclust.arrays import Array
from peerclust.clustering import pickles
from peerclust.clustering.result import Certificate, Status, Trace
from peerclust.clustering.scaling import Scale, Scaled
from peerclust.distances import Distance, Euclidean, Geometry
from peerclust.errors import DataError, ParameterError
from peerclust.losses import KMeans, Loss, geometry_of
from peerclust.ranks.distribution import Distribution, add_up
from peerclust.row_validation import check_any_rows
from peerclust.sparse import is_sparse
from peerclust.text import count, guess
from peerclust.users.nearest import nearest

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from peerclust.plots import Axes


class Partial(NamedTuple):
    """What a partial solution records of the whole: its users, and the mean of all centers."""

    users: tuple[int, ...]
    consensus: Array


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """The result of `cluster`.

    Attributes
    ----------
    centers : (m, K, d) array
        Each user's own centers, in the units of the rows.
    labels : list of m int arrays
        Each row's cluster, by its own user's centers.
    status : Status
        How the run ended, with a sentence of advice.
    certificate : Certificate
        The numbers that show how good it is.
    rho, alpha : float or None
        The penalty and the step size that were used, if the solver has them.
    why : dict
        How "solver", and "rho" and "alpha" if the solver has them, were chosen.
    trace : Trace or None
        One row per round, if requested.
    loss, distance
        The loss and the distance; None after loading ones that are not built in.
    scale : Scale or None
        The coordinates in which distances are measured, if the rows were scaled.
    solver : str
        The name of the solver.
    part : Partial or None
        If this solution has the centers and labels of some users only: which, `part.users`.
    feature_names : tuple of str or None
        The names of the features, if the rows had any: from an estimator, `fit` or a peer.
    dtype : str
        The number format of the rows, "float64" or "float32"; centers are float64.

    Examples
    --------
    >>> import peerclust as pc
    >>> parts = [np.array([[0.0], [0.2]]), np.array([[9.8], [10.0]])]
    >>> solution = pc.cluster(parts, n_clusters=2, rho=50, random_state=0)
    >>> np.sort(solution.consensus.ravel()).round(1).tolist(), solution.status.name
    ([0.1, 9.9], 'converged')
    >>> solution
    <Solution: m=2, K=2, d=1, converged after ... rounds>
    """

    centers: Array
    labels: list[NDArray[np.int32]]
    status: Status
    certificate: Certificate
    rho: float | None
    alpha: float | None
    why: dict[str, str]
    trace: Trace | None = None
    loss: Loss | None = field(default_factory=KMeans)
    distance: Distance | None = field(default_factory=Euclidean)
    scale: Scale | None = None
    solver: str = "dgc"
    part: Partial | None = None
    feature_names: tuple[str, ...] | None = None
    dtype: str = "float64"

    def __repr__(self) -> str:
        m, K, d = self.centers.shape
        rounds = self.certificate.rounds + self.certificate.search_rounds
        name = "Solution" if self.part is None else "Part of a solution"
        return f"<{name}: m={m}, K={K}, d={d}, {self.status.name} after {count(rounds, 'round')}>"

    def __str__(self) -> str:
        from peerclust.clustering import display

        return display.solution_text(self)

    def _repr_html_(self) -> str:
        from peerclust.clustering import display

        return display.solution_html(self)

    @property
    def consensus(self) -> Array:
        """The mean of all users' centers, (K, d)."""
        return (
            add_up(self.centers) / len(self.centers) if self.part is None else self.part.consensus
        )

    @property
    def cluster_sizes(self) -> list[int]:
        """The number of rows of each cluster, of the users that are here.

        >>> import peerclust as pc
        >>> parts = [np.array([[0.0], [0.2]]), np.array([[10.0]])]
        >>> sorted(pc.cluster(parts, n_clusters=2, random_state=0).cluster_sizes)
        [1, 2]
        """
        labels = np.concatenate(self.labels)
        sizes: list[int] = np.bincount(labels, minlength=self.centers.shape[1]).tolist()
        return sizes

    def gathered(self, distribution: Distribution) -> Solution:
        """Return the whole solution, gathered from all processes."""
        if self.part is None:
            return self
        labels = distribution.gather_lists(self.labels)
        return replace(
            self, centers=distribution.gather_users(self.centers), labels=labels, part=None
        )

    @property
    def geometry(self) -> Geometry:
        """How rows and centers, in the rows' own units, are compared.

        Raises if the loss or the distance is not known.
        """
        if self.loss is None or self.distance is None:
            raise ParameterError(
                "This solution was made with a custom loss or distance; load it with"
                " Solution.load(path, loss=..., distance=...)."
            )
        if self.scale is not None:
            return Scaled(self.distance, self.scale)
        return geometry_of(self.loss, self.distance)

    def predict(self, rows: ArrayLike) -> NDArray[np.int32]:
        """Return the index of the nearest consensus center for each row (N, d)."""
        return find_nearest(self, rows, self.consensus, "predict")[0]

    def outlier_scores(self, rows: ArrayLike, *, user: int | None = None) -> Array:
        """Return the distance of each row (N, d) to the nearest consensus center.

        If a `user` is given, to the nearest of its own. In scaled units if the rows were scaled.
        """
        centers = self.consensus if user is None else self.centers[user]
        return np.sqrt(find_nearest(self, rows, centers, "outlier_scores")[1])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole solution to one .npz file, or nothing.

        A custom loss or distance is stored by its name only.
        """
        from peerclust.clustering import saving

        saving.write(self, Path(path))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        loss: str | Loss | None = None,
        distance: str | Distance | None = None,
    ) -> Solution:
        """Read what `save` wrote; `loss` and `distance` replace what could not be stored."""
        from peerclust.clustering import saving

        return saving.read(
            Path(path),
            loss=None if loss is None else losses.resolve(loss, "Solution.load"),
            distance=None if distance is None else distances.resolve(distance, "Solution.load"),
        )

    def __reduce__(self) -> tuple[object, ...]:
        return pickles.reduce(self, vars(self))

    def __setstate__(self, state: tuple[dict[str, object]]) -> None:
        vars(self).update(pickles.read_state(type(self), state))

    def to_sklearn(self) -> BaseEstimator:
        """Return a fitted KMeans of scikit-learn with the joint centers, for tools that read one.

        It predicts what `predict` does, except for rows about equally near to two centers, as
        scikit-learn computes distances by another formula. If the rows were scaled, it is a
        pipeline of a StandardScaler and a KMeans in scaled units, so that it takes rows as they are
        and still measures distances as the clustering did. `labels_` are the users' labels, user
        after user. `inertia_` is that of all rows, and NaN for other losses than K-means. If the
        rows were float32, it is a model of float32 rows. Raise if distances are not Euclidean.

        >>> import peerclust as pc
        >>> parts = [np.array([[0.0], [0.2]]), np.array([[9.8], [10.0]])]
        >>> model = pc.cluster(parts, n_clusters=2, random_state=0).to_sklearn()
        >>> model.cluster_centers_[model.predict([[9.0]])].round(1).tolist()
        [[9.9]]
        """
        from peerclust.clustering import export

        return export.to_sklearn(self)

    def plot(self, rows: object = None, *, ax: Axes | None = None) -> Axes:
        """Plot rows by cluster, with the joint centers, and return the axes.

        `rows` are an (N, d) array or a list or dict of users' rows; each is in the cluster that
        `predict` returns. Without rows the users' own centers are plotted. More than two features
        are projected to the first two principal components, in scaled units if the rows were
        scaled; of one feature there is a histogram. At most about 5000 rows are drawn, at equal
        intervals. Without `ax`, a new figure of pyplot is made. Needs matplotlib (the extra
        `plots`).

        >>> import peerclust as pc
        >>> X, _ = pc.datasets.iris()
        >>> axes = pc.cluster([X], n_clusters=3, random_state=0).plot(X)
        >>> axes.get_xlabel()
        'first principal component'
        """
        from peerclust.clustering import plotting

        return plotting.plot(self, rows, ax)

    def plot_trace(self, *, ax: Axes | None = None) -> Axes:
        """Plot cost, residual and disagreement by round, and return the axes.

        Needs a solution of `cluster(trace=True)` or `fit --trace`. Residual and disagreement are
        fractions of the data's spread, on a logarithmic axis to the right. Without `ax`, a new
        figure of pyplot is made. Needs matplotlib (the extra `plots`).

        >>> import peerclust as pc
        >>> X, _ = pc.datasets.iris()
        >>> solution = pc.cluster([X[::2], X[1::2]], n_clusters=3, trace=True, random_state=0)
        >>> solution.plot_trace().get_xlabel()
        'round'
        """
        from peerclust.clustering import plotting

        return plotting.plot_trace(self, ax)


def find_nearest(
    solution: Solution, rows: ArrayLike, centers: Array, of: str
) -> tuple[NDArray[np.int32], Array]:
    """Return each row's nearest center and its squared distance; `of` is the method, for errors."""
    y, d = check_any_rows(_select_features(rows, solution, of), of), solution.centers.shape[2]
    if y.shape[1] != d:
        raise DataError(f"The rows of {of} must have {d} features. Got {y.shape[1]}.")
    geometry = solution.geometry
    if is_sparse(y):
        geometry.check_rows(y, of)
    return nearest(y, centers, geometry)


def _select_features(rows: ArrayLike, solution: Solution, of: str) -> ArrayLike:
    """Return the columns of a data frame that are features of the solution, in their order."""
    columns, names = getattr(rows, "columns", None), solution.feature_names
    if columns is None or names is None:
        return rows
    missing = [name for name in names if name not in list(columns)]
    if missing:
        raise DataError(
            f"The rows of {of} must have the columns {', '.join(map(str, names))}."
            f" There is no {missing[0]!r}.{guess(missing[0], map(str, columns))}"
        )
    chosen: ArrayLike = getattr(rows, "__getitem__")(list(names))  # noqa: B009 - of any data frame
    return chosen
