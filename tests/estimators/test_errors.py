"""Errors of both estimators: each names the parameter that the caller passed."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

import peerclust as pc
from peerclust.errors import InputError

X, CLASSES = load_iris(return_X_y=True)
SITE = np.array(["north", "south", "west", "east"])[np.arange(150) % 4]
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(site=SITE)
KINDS = [pc.PeerClustering, pc.PeerOutlierDetector]


def with_row(row, value):
    return np.where(np.arange(150)[:, None] == row, value, X)


# Options, arguments of fit besides X and users, and the sentence; {} is the estimator.
BOTH = [
    ({"n_clusters": 0}, {}, "`n_clusters` of {} must be a whole number >= 1. Got 0."),
    ({"n_clusters": 200}, {}, "`n_clusters` of {} must be at most the number of rows .*Got 200."),
    ({"distance": "euclid"}, {}, "`distance` of {} .* Did you mean 'euclidean'"),
    ({"distance": pc.Mahalanobis(np.eye(3))}, {}, r"`A` of Mahalanobis must be \(4, 4\)"),
    ({"graph": "rnig"}, {}, "`graph` of {} must be one of .* Did you mean 'ring'"),
    ({"graph": 3}, {}, "`graph` of {} must be a Graph"),
    ({"graph": nx.empty_graph(4)}, {}, "`graph` of {} must connect all users"),
    ({"graph": pc.graphs.ring(5)}, {}, "Got 5 nodes in ring.5. and 4 users.$"),
    ({"solver": "dcg"}, {}, "`solver` of {} must be one of .* Did you mean 'dgc'"),
    ({"solver": "exact", "rho": 3}, {}, "`rho` of {} must be 'auto' with the solver 'exact'"),
    ({"solver": "admm", "B": 2}, {}, "`B` of {} must be 1 with the solver 'admm'"),
    ({"rho": 0}, {}, "`rho` of {} must be a number > 0. Got 0."),
    ({"rho": "atuo"}, {}, "`rho` of {} must be a number > 0 or 'auto'. .* Did you mean 'auto'"),
    ({"rho": None}, {}, "`rho` of {} must be a number > 0 or 'auto'. Got None."),
    ({"alpha": -1}, {}, "`alpha` of {} must be a number > 0"),
    ({"B": 0}, {}, "`B` of {} must be a whole number >= 1"),
    ({"max_iter": 0}, {}, "`max_iter` of {} must be a whole number >= 1. Got 0."),
    ({"tol": -1}, {}, "`tol` of {} must be a number >= 0"),
    ({"init": "kmeans"}, {}, "`init` of {} must be one of .* Did you mean 'k-means..'"),
    ({"init": pc.initialize.Random}, {}, r"`init` of {} must be a start, .*Got the class Random."),
    ({"init": np.zeros((2, 4))}, {}, "`init` of {} must have the shape"),
    ({"init": np.full((3, 4), np.nan)}, {}, "`init` of {} must be finite"),
    ({"init": [["a"]]}, {}, "`init` of {} must be an array of numbers.* Got .*'a'"),
    ({"init": None}, {}, "`init` of {} must be an array of numbers, a start or its name. Got None"),
    ({"init": max}, {}, "`init` of {} must be an array of numbers, a start or its name. Got <bui"),
    ({"init": pc.initialize.Warm(SITE)}, {}, "as many classes as `n_clusters` = 3. Got 4."),
    ({"n_init": 0}, {}, "`n_init` of {} must be 'auto' or a whole number >= 1"),
    ({"n_init": "many"}, {}, "`n_init` of {} must be 'auto' or a whole number >= 1"),
    ({"runtime": "mip"}, {}, "`runtime` of {} must be one of .* Did you mean 'mpi'"),
    ({"verbose": -1}, {}, "`verbose` of {} must be a whole number >= 0"),
    ({"random_state": "seed"}, {}, "`random_state` of {} must be None"),
    ({}, {"X": with_row(7, np.nan)}, "Row 7 of X must be finite"),
    ({}, {"X": with_row(9, np.inf)}, "Row 9 of X must be finite"),
    (
        {"scale": "none"},
        {"X": 1e149 * X},
        "squares of the rows, times their weights, must not overflow",
    ),
    ({}, {"X": X[:, 0]}, "Expected 2D array"),
    ({}, {"X": {}, "users": None}, "`X` of {} must hold at least one row"),
    ({}, {"X": {"a": X[:0]}, "users": None}, "`X` of {} must hold at least one row"),
    ({}, {"X": {"a": X, 2: X[:, :2]}, "users": None}, "rows of user 2 .* X has 2 features"),
    ({}, {"X": {"a": X, "b": with_row(7, np.nan)}, "users": None}, "Row 7 of user 'b' must be f"),
    (
        {},
        {"X": {"a": FRAME[["a", "b"]], "b": FRAME[["b", "c"]]}, "users": None},
        "^The rows of user 'b' must have the columns a, b, in this order. Got b, c.$",
    ),
    (
        {},
        {"X": FRAME.rename(columns={"a": "b"}), "users": "site"},
        "^`X` of {} must have columns of different names. Got 'b' 2 times.$",
    ),
    (
        {},
        {"X": FRAME[["site"]], "users": "site"},
        "^`X` of {} must have columns besides that of the users, 'site'. Got none.$",
    ),
    ({}, {"X": {"a": X}}, "`users` of {} must be left out if `X` is a dict"),
    ({}, {"users": SITE[:10]}, "`users` of {} must name the user of each of the 150 rows. Got 10"),
    ({}, {"users": SITE[:, None]}, "`users` of {} must be a 1-D array"),
    ({}, {"users": [None, "a"] * 75}, "`users` of {} must have no missing labels"),
    ({}, {"users": [np.nan, *range(149)]}, "`users` of {} must have no missing labels"),
    ({}, {"users": ["a", np.nan] * 75}, "`users` of {} must have no missing labels. Row 1 is nan"),
    ({}, {"users": [1, "a"] * 75}, "`users` of {} must be all numbers or all strings"),
    (
        {},
        {"users": np.ma.array(SITE, mask=np.arange(150) == 9)},
        "`users` of {} must have no missing labels. Row 9 is masked",
    ),
    ({}, {"users": "site"}, "`users` of {} must be an array .* if `X` is a DataFrame. Got 'site'"),
    ({}, {"X": FRAME, "users": "stie"}, "`users` of {} must be a column of `X`.*mean 'site'"),
    (
        {},
        {"X": FRAME.rename(columns={"a": "Age", "b": "wage"}), "users": "age"},
        "`users` of {} must be a column of `X`.*mean 'Age'",
    ),
    ({}, {"sample_weight": -np.ones(150)}, "Negative values in data passed to `sample_weight`"),
    ({}, {"sample_weight": {"a": 1}}, "`sample_weight` of {} must be an array"),
    ({}, {"sample_weight": np.ones(3)}, r"sample_weight.shape == \(3,\)"),
]
CLUSTERING = [
    ({"loss": "hubr"}, {}, "`loss` of {} must be one of .* Did you mean 'huber'"),
    ({"loss": pc.Huber}, {}, "`loss` of {} must be .* a class: pass an instance"),
    ({"search": "swap"}, {}, "`search` of {} must be .* Did you mean 'swaps'"),
    ({"search": "swaps", "tol": 0}, {}, "`search` of {} must be .* with `tol` = 0"),
    (
        {"loss": pc.bregman.squared_euclidean(), "distance": pc.Mahalanobis(np.eye(4))},
        {},
        "`distance` of {} must be left out with a Bregman loss",
    ),
    (
        {"loss": pc.bregman.generalized_kl(smoothness=1.0)},
        {"X": with_row(8, -1.0)},
        "The rows of X must be in the domain of the .* loss. Row 8 is not.",
    ),
]
DETECTOR = [
    ({"contamination": 0.6}, {}, "`contamination` of {} must be a number > 0 and <= 0.5"),
    ({"contamination": "many"}, {}, "`contamination` of {} .* <= 0.5 or 'auto'. Got 'many'."),
    ({"contamination": None}, {}, "`contamination` of {} .* > 0 and <= 0.5 or 'auto'. Got None."),
    ({"delta": -1}, {}, "`delta` of {} must be a number > 0"),
]
CASES = [
    *((kind, *case) for kind in KINDS for case in BOTH),
    *((pc.PeerClustering, *case) for case in CLUSTERING),
    *((pc.PeerOutlierDetector, *case) for case in DETECTOR),
]


@pytest.mark.parametrize(("kind", "options", "fit", "sentence"), CASES)
def test_bad_input_gets_one_clear_sentence(kind, options, fit, sentence):
    with pytest.raises(ValueError, match=sentence.replace("{}", kind.__name__)) as raised:
        kind(**options).fit(**{"X": X, "users": SITE} | fit)
    for name in ("of cluster", "of by_user", "estimate_delta", "`parts`", "`weights`", "`rounds`"):
        assert name not in str(raised.value)


METHODS = [
    *((pc.PeerClustering, method) for method in ("predict", "transform", "score")),
    *(
        (pc.PeerOutlierDetector, method)
        for method in ("predict", "score_samples", "decision_function")
    ),
]


@pytest.mark.parametrize(("kind", "method"), METHODS)
def test_a_fitted_model_refuses_rows_that_do_not_fit(kind, method):
    model = kind(random_state=0).fit(FRAME, users="site")
    for rows, sentence in (
        (FRAME.assign(b=np.nan), "Row 0 of X must be finite"),
        (FRAME.rename(columns={"a": "z"}), "feature names should match"),
        (FRAME[["a", "b"]], "feature names should match"),
        ({}, f"`X` of {kind.__name__} must hold at least one row"),
        ({"a": FRAME}, "rows of user 'a' must have the columns a, b, c, d, in this .* d, site.$"),
        (FRAME[:0], "Found array with 0 sample"),
    ):
        with pytest.raises(ValueError, match=sentence):
            getattr(model, method)(rows)


@pytest.mark.parametrize(("kind", "method"), METHODS)
def test_a_model_whose_fit_failed_is_not_fitted(kind, method):
    model = kind(n_clusters=0)
    with pytest.raises(InputError, match="n_clusters"):
        model.fit(X)
    with pytest.raises(NotFittedError, match=f"This {kind.__name__} instance is not fitted yet"):
        getattr(model, method)(X)


@pytest.mark.parametrize("method", ["predict", "transform", "score"])
def test_rows_outside_the_domain_of_a_bregman_loss_are_refused(method):
    loss = pc.bregman.generalized_kl(smoothness=10.0)
    model = pc.PeerClustering(loss=loss, random_state=0).fit(X)
    with pytest.raises(InputError, match=r"rows of X must be in the domain .* Row 4 is not"):
        getattr(model, method)(with_row(4, -1.0))
