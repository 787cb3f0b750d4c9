"""What `cluster` accepts and chooses."""

import networkx
import numpy as np
import pytest
from five_users import OPTIONS, PARTS, RNG, START

import peerclust as pc
from peerclust.errors import DataError


def test_flat_parts_and_lists_give_the_same_bits():
    rows, offsets = np.concatenate(PARTS), np.array([0, 30, 30, 32, 57, 97])
    a, b = pc.cluster(PARTS, **OPTIONS), pc.cluster((rows, offsets), **OPTIONS)
    assert np.array_equal(a.centers, b.centers)
    for left, right in zip(a.labels, b.labels, strict=True):
        assert np.array_equal(left, right)


def test_input_is_never_written_to():
    rows, offsets, x = np.concatenate(PARTS), np.array([0, 30, 30, 32, 57, 97]), START.copy()
    for array in (rows, offsets, x):
        array.flags.writeable = False
    pc.cluster((rows, offsets), **OPTIONS | {"init": x})


def test_float32_rows_stay_float32_and_give_float64_centers():
    rows, offsets = np.concatenate(PARTS).astype(np.float32), np.array([0, 30, 30, 32, 57, 97])
    single = pc.cluster((rows, offsets), **OPTIONS)
    double = pc.cluster((rows.astype(np.float64), offsets), **OPTIONS)
    assert single.centers.dtype == np.float64
    assert np.array_equal(single.centers, double.centers)


def test_normalized_weights_are_unit_weights_with_a_larger_rho():
    a = pc.cluster(PARTS, **OPTIONS | {"weights": "normalized", "rho": 2.0})
    b = pc.cluster(PARTS, **OPTIONS | {"rho": 2.0 * 97})
    np.testing.assert_allclose(a.centers, b.centers, rtol=1e-9)
    assert a.certificate.residual == pytest.approx(b.certificate.residual, rel=1e-6)


def test_given_weights_equal_repetition():
    times = RNG.integers(1, 4, 97)
    offsets = np.array([0, 30, 30, 32, 57, 97])
    weights = np.split(times.astype(float), offsets[1:-1])
    repeated = [np.repeat(p, w.astype(int), axis=0) for p, w in zip(PARTS, weights, strict=True)]
    a = pc.cluster(PARTS, weights=weights, **OPTIONS)
    b = pc.cluster(repeated, **OPTIONS)
    np.testing.assert_allclose(a.centers, b.centers, rtol=1e-10)


@pytest.mark.parametrize("offset", [0.0, 0.1, 3.7, 1e6])
def test_rows_that_are_all_equal_converge(offset):
    solution = pc.cluster([np.full((5, 2), offset)] * 3, n_clusters=1, random_state=0)
    assert solution.status.converged
    np.testing.assert_allclose(solution.consensus, offset, rtol=1e-12, atol=1e-12)


def test_bregman_labels_and_predictions_agree_far_from_the_origin():
    rows = np.random.default_rng(0).normal(size=(500, 2)) + 1e6
    loss = pc.bregman.squared_euclidean()
    solution = pc.cluster([rows], n_clusters=4, loss=loss, rounds=50, random_state=0)
    assert np.array_equal(solution.labels[0], solution.predict(rows))


def test_generalized_kl_never_starts_at_a_row_outside_its_domain():
    rng = np.random.default_rng(0)
    parts = [rng.poisson(1.0, size=(40, 2)).astype(float) for _ in range(3)]
    kl = pc.bregman.generalized_kl(smoothness=20.0)
    solution = pc.cluster(parts, n_clusters=3, loss=kl, rho=50, rounds=50, random_state=0)
    assert (solution.centers > 0).all()
    with pytest.raises(DataError, match="The start must lie in the domain of the generalized_kl"):
        pc.cluster(parts, n_clusters=2, loss=kl, rho=50, init=np.zeros((2, 2)))


def test_more_restarts_never_cost_more_and_the_best_is_returned():
    options = OPTIONS | {"init": "random", "random_state": 3}
    costs = [pc.cluster(PARTS, **options, n_init=n).certificate.pooled_cost for n in (1, 3, 6)]
    assert costs[0] >= costs[1] >= costs[2]


def test_the_seed_determines_the_result():
    options = OPTIONS | {"init": "k-means++"}
    a = pc.cluster(PARTS, **options, random_state=1)
    b = pc.cluster(PARTS, **options, random_state=np.random.default_rng(1))
    c = pc.cluster(PARTS, **options, random_state=2)
    assert np.array_equal(a.centers, b.centers)
    assert not np.array_equal(a.centers, c.centers)


def test_a_custom_solver_is_a_callable_that_returns_a_program():
    from peerclust.programs.dgc import DGC

    def slower(*, rho, alpha, B, consensus_factor):
        return DGC(rho=rho, alpha=alpha / 2, B=B, consensus_factor=consensus_factor)

    half = pc.cluster(PARTS, solver=slower, **OPTIONS | {"tol": 0})
    step = pc.cluster(PARTS, **OPTIONS | {"solver": "dgc", "alpha": half.alpha / 2, "tol": 0})
    assert np.array_equal(half.centers, step.centers)


def test_a_graph_may_come_from_networkx():
    a = pc.cluster(PARTS, **OPTIONS | {"graph": networkx.cycle_graph(5), "alpha": 0.01})
    b = pc.cluster(PARTS, **OPTIONS | {"graph": "ring", "alpha": 0.01})
    np.testing.assert_allclose(a.centers, b.centers, rtol=1e-12)


def test_a_single_user_is_plain_clustering():
    rows = np.concatenate(PARTS)
    solution = pc.cluster(
        [rows], n_clusters=3, solver="accelerated", init=START, rounds=3000, tol=1e-10
    )
    assert solution.rho == 1.0
    labels = solution.labels[0]
    for k in range(3):
        np.testing.assert_allclose(solution.consensus[k], rows[labels == k].mean(axis=0), rtol=1e-6)


def test_generalized_kl_runs_and_reports_that_it_is_outside_the_theory():
    rng = np.random.default_rng(0)
    parts = [rng.gamma(5.0, m, (40, 2)) for m in (1.0, 1.0, 3.0)]
    kl = pc.bregman.generalized_kl(smoothness=2.0)
    options = {"n_clusters": 2, "loss": kl, "rho": 10, "rounds": 3000, "random_state": 0}
    solution = pc.cluster(parts, solver="dgc", **options)
    assert "outside the theory" in solution.why["alpha"]
    assert solution.status.converged
    solution = pc.cluster(parts, solver="accelerated", **options)
    assert solution.status.converged
    assert solution.alpha is None
    assert "for each user and center" in solution.why["alpha"]
