"""A solution as a fitted model of scikit-learn, which other tools can read."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from peerclust import losses
from peerclust.arrays import Array
from peerclust.clustering.scaling import Scale
from peerclust.clustering.solution import Solution
from peerclust.distances import Euclidean, Linear
from peerclust.errors import ParameterError


def to_sklearn(solution: Solution) -> BaseEstimator:
    """Return a fitted KMeans with the joint centers, after a StandardScaler if rows are scaled."""
    geometry = solution.geometry
    if not (isinstance(geometry, Linear) and isinstance(geometry.distance, Euclidean)):
        raise ParameterError(
            "A solution must have the Euclidean distance to become a KMeans of scikit-learn, which"
            f" has no other. Got {geometry.name}."
        )
    if solution.scale is None:
        return _named(_kmeans(solution, solution.consensus), solution)
    centers = np.asarray(solution.scale.forward(solution.consensus))
    scaler = _named(_scaler(solution.scale), solution)
    return make_pipeline(scaler, _kmeans(solution, centers))


def _kmeans(solution: Solution, centers: Array) -> KMeans:
    K, d = centers.shape
    # Fitted to anything: scikit-learn then sets what it needs besides, private attributes included.
    points = np.repeat(np.arange(K, dtype=solution.dtype)[:, None], d, axis=1)
    model = KMeans(K, init=points, n_init=1, max_iter=1).fit(points)
    model.set_params(**KMeans(K).get_params())
    certificate, is_kmeans = solution.certificate, isinstance(solution.loss, losses.KMeans)
    # scikit-learn compares only rows and centers of one format.
    model.cluster_centers_ = centers.astype(solution.dtype)
    model.labels_ = np.concatenate(solution.labels)
    model.inertia_ = 2.0 * certificate.pooled_cost if is_kmeans else float("nan")
    model.n_iter_ = certificate.rounds + certificate.search_rounds
    return model


def _scaler(scale: Scale) -> StandardScaler:
    scaler = StandardScaler().fit(np.zeros((1, len(scale.mean))))
    scaler.mean_, scaler.scale_ = scale.mean.copy(), scale.deviation.copy()
    scaler.var_ = scaler.scale_**2
    return scaler


def _named(model: BaseEstimator, solution: Solution) -> BaseEstimator:
    """Return the model, which sees the rows first, with the names of the features."""
    if solution.feature_names is not None:
        model.feature_names_in_ = np.array(solution.feature_names, dtype=object)
    return model
