"""What `cluster` rejects, in one sentence each."""

import networkx
import numpy as np
import pytest
from five_users import OPTIONS, PARTS

import peerclust as pc
from peerclust.errors import DataError, DivergedError, GraphError, InputError, ParameterError

# Made without the functions that check graphs.
LOOSE = pc.Graph(5, np.zeros(6, np.int32), np.empty(0, np.int32), "loose")


def changed(row, column, value):
    parts = [part.copy() for part in PARTS]
    parts[3][row, column] = value
    return parts


@pytest.mark.parametrize(
    ("parts", "options", "kind", "sentence"),
    [
        (changed(4, 1, np.nan), {}, DataError, "Row 4 of user 3 must be finite.*nan in column 1"),
        (changed(7, 0, -np.inf), {}, DataError, "Row 7 of user 3 must be finite.*-inf in col"),
        (changed(0, 0, 1e200), {}, DataError, "Row 0 of user 3 must be finite and below 1e\\+150"),
        (PARTS, {"n_clusters": 98}, DataError, "at most the number of distinct rows.*97.*Got 98"),
        ([np.ones((9, 2))], {"n_clusters": 2}, DataError, "n_samples=9, 1 of them distinct"),
        (PARTS, {"n_clusters": 0}, ParameterError, "`n_clusters` of cluster must be a whole"),
        (PARTS, {"n_clusters": 2.5}, ParameterError, "`n_clusters` of cluster must be a whole"),
        (PARTS, {"rho": 0}, ParameterError, "`rho` of cluster must be a number > 0. Got 0"),
        (PARTS, {"rho": -2}, ParameterError, "`rho` of cluster must be a number > 0. Got -2"),
        (PARTS, {"rho": 1, "consensus_factor": "1-1/rho"}, ParameterError,
         "`rho` of cluster must be a number > 1 with `consensus_factor` = '1-1/rho'. Got 1"),
        (PARTS, {"rho": "10"}, ParameterError, "`rho` of cluster must be a number > 0 or 'auto'"),
        (PARTS, {"rho": np.nan}, ParameterError, "`rho` of cluster must be a number > 0. Got nan"),
        (PARTS, {"alpha": 0}, ParameterError, "`alpha` of cluster must be a number > 0"),
        (PARTS, {"alpha": "papre"}, ParameterError, "Did you mean 'paper'"),
        (PARTS, {"B": 0}, ParameterError, "`B` of cluster must be a whole number >= 1"),
        (PARTS, {"rounds": 0}, ParameterError, "`rounds` of cluster"),
        (PARTS, {"n_init": 0}, ParameterError, "`n_init` of cluster"),
        (PARTS, {"search": "swap"}, ParameterError, "`search` of cluster.*Did you mean 'swaps'"),
        (PARTS, {"search": None}, ParameterError, "`search` of cluster must be one of 'auto', 'sw"),
        (PARTS, {"search": "swaps", "tol": 0}, ParameterError,
         "`search` of cluster must be 'auto' or 'none' with `tol` = 0.*converged. Got 'swaps'"),
        (PARTS, {"tol": -1}, ParameterError, "`tol` of cluster must be a number >= 0"),
        (PARTS, {"consensus_factor": 0}, ParameterError, "`consensus_factor` of cluster"),
        ([PARTS[0] * 1j], {}, DataError, "rows of user 0 must be real numbers. Got complex128"),
        ([[["1", "2"]]], {}, DataError, "rows of user 0 must be real numbers"),
        (PARTS, {"graph": LOOSE}, GraphError, "`graph` of cluster must connect all users"),
        (PARTS, {"consensus_factor": "1/rho"}, ParameterError, "a number > 0 or '1-1/rho'"),
        (PARTS, {"loss": "hubber"}, ParameterError, "Did you mean 'huber'"),
        (PARTS, {"loss": 3}, ParameterError, "object with value\\(r2\\), gamma"),
        (PARTS, {"distance": "euclid"}, ParameterError, "Did you mean 'euclidean'"),
        (PARTS, {"distance": "mahalanobis"}, ParameterError, "Mahalanobis\\(A\\) with its matrix"),
        (PARTS, {"distance": pc.Mahalanobis(np.eye(3))}, ParameterError, "must be \\(2, 2\\)"),
        (PARTS, {"solver": "dcg"}, ParameterError, "Did you mean 'dgc'"),
        (PARTS, {"solver": 3}, ParameterError, "`solver` of cluster must be a name, a SolverSpec"),
        (PARTS, {"init": pc.initialize.Random}, ParameterError, "must be a start, such as Random"),
        ((PARTS[0], [[1, 2], [3]]), {}, DataError, "rows of a user must be a 2-D array"),
        (PARTS[0], {}, DataError, "for one user pass \\[X\\]. Got ndarray"),
        ({"oslo": PARTS[0]}, {}, DataError,
         "by name pass list\\(parts.values\\(\\)\\). Got a dict with the key 'oslo'"),
        ([np.empty((5, 0))], {}, DataError, "at least one feature"),
        ([np.ma.masked_equal(PARTS[0], 0.0)], {}, DataError, "must not be masked"),
        (PARTS, {"runtime": "simulater"}, ParameterError, "Did you mean 'simulator'"),
        (PARTS, {"runtime": int}, ParameterError, "`runtime` of cluster must be a name or a class"),
        (PARTS, {"init": "kmeans++"}, ParameterError, "Did you mean 'k-means\\+\\+'"),
        (PARTS, {"graph": "rign"}, ParameterError, "Did you mean 'ring'"),
        (PARTS, {"graph": pc.graphs.ring(4)}, GraphError, "as many nodes as there are users"),
        (PARTS, {"graph": networkx.empty_graph(5)}, GraphError, "cannot reach"),
        (PARTS, {"weights": "uniform"}, ParameterError, "`weights` of cluster must be one of"),
        (PARTS, {"weights": [np.ones(3)] * 5}, DataError, "one weight for each of the 97 rows"),
        (PARTS, {"weights": -np.ones(97)}, DataError, "finite and >= 0. Got -1.0 for row 0"),
        (PARTS, {"weights": np.zeros(97)}, DataError, "must not all be zero"),
        (PARTS, {"scale": "standrad"}, ParameterError, "`scale` of cluster.*mean 'standard'"),
        (PARTS, {"scale": 2}, ParameterError, "`scale` of cluster must be one of 'none', "),
        (PARTS, {"scale": None}, ParameterError, "Got None. Did you mean 'none'"),
        (PARTS, {"scale": np.ones(2)}, ParameterError, r"`scale` of cluster.*Got array\("),
        (PARTS, {"scale": "standard", "loss": pc.bregman.squared_euclidean()}, ParameterError,
         "`scale` of cluster must be 'none' with a Bregman loss"),
        (PARTS, {"random_state": "seed"}, ParameterError, "`random_state` of cluster"),
        ([], {}, DataError, "at least one row"),
        ([[], []], {}, DataError, "at least one row"),
        (5, {}, DataError, "list of \\(N_i, d\\) arrays"),
        ([np.ones(3)], {}, DataError, "rows of user 0 must be a 2-D array.*Got shape \\(3,\\)"),
        ([[["a", None]]], {}, DataError, "rows of user 0 must be numbers"),
        ([PARTS[0], np.ones((2, 3))], {}, DataError, "user 0 has 2, user 1 has 3"),
        ((PARTS[0], np.array([0, 40])), {}, DataError, "increase from 0 to the 30 rows"),
        ((PARTS[0], np.array([0, 20, 10, 30])), {}, DataError, "increase from 0 to the 30 rows"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_clear_sentence(parts, options, kind, sentence):
    with pytest.raises(kind, match=sentence) as caught:
        pc.cluster(parts, **(OPTIONS | options))
    assert isinstance(caught.value, InputError)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)


def test_rows_outside_a_bregman_domain_and_centers_that_leave_it_are_rejected():
    kl = pc.bregman.generalized_kl(smoothness=1.0)
    with pytest.raises(DataError, match=r"domain of the generalized_kl loss\. Row 0 is not"):
        pc.cluster([np.array([[-1.0]]), np.array([[1.0]])], n_clusters=1, loss=kl)
    rows = np.array([[1e-3], [2e-3], [5.0]])
    with pytest.raises(DivergedError, match="left the domain of the generalized_kl loss"):
        pc.cluster([rows], n_clusters=1, loss=kl, init=np.array([[5.0]]), alpha=100.0)
    with pytest.raises(ParameterError, match="left out with a Bregman loss"):
        pc.cluster([rows], n_clusters=1, loss=kl, distance=pc.Mahalanobis([[2.0]]))


@pytest.mark.parametrize("trace", [False, True])
@pytest.mark.parametrize("tol", [0, 1e-6])
def test_a_step_size_that_is_too_large_raises_an_error(tol, trace):
    options = OPTIONS | {"alpha": 10.0, "rounds": 2000, "tol": tol, "trace": trace}
    with pytest.raises(DivergedError, match="`alpha` = 'auto' is safe"):
        pc.cluster(PARTS, **options)
