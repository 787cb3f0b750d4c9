"""The door `cluster`: what it accepts, refuses, chooses and reports."""

import networkx
import numpy as np
import pytest

import peerclust as pc
from peerclust.errors import DataError, DivergedError, GraphError, InputError, ParameterError

RNG = np.random.default_rng(0)
PARTS = [RNG.normal(size=(n, 2)) + 8 * RNG.integers(0, 3, (n, 1)) for n in (30, 0, 2, 25, 40)]
START = np.array([[0.0, 0.0], [8.0, 8.0], [16.0, 16.0]])
OPTIONS = {"n_clusters": 3, "rho": 50.0, "init": START, "rounds": 100}
# Made without the functions that check.
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
        (PARTS, {"rho": 0.2}, ParameterError, "`rho` of cluster must be a number >= 1. Got 0.2"),
        (PARTS, {"rho": "10"}, ParameterError, "`rho` of cluster must be a number or 'auto'"),
        (PARTS, {"rho": np.nan}, ParameterError, "`rho` of cluster must be a number >= 1. Got nan"),
        (PARTS, {"alpha": 0}, ParameterError, "`alpha` of cluster must be a number > 0"),
        (PARTS, {"alpha": "papre"}, ParameterError, "Did you mean 'paper'"),
        (PARTS, {"B": 0}, ParameterError, "`B` of cluster must be a whole number >= 1"),
        (PARTS, {"rounds": 0}, ParameterError, "`rounds` of cluster"),
        (PARTS, {"n_init": 0}, ParameterError, "`n_init` of cluster"),
        (PARTS, {"tol": -1}, ParameterError, "`tol` of cluster must be a number >= 0"),
        (PARTS, {"consensus_factor": 0}, ParameterError, "`consensus_factor` of cluster"),
        ([PARTS[0] * 1j], {}, DataError, "rows of user 0 must be real numbers. Got complex128"),
        ([[["1", "2"]]], {}, DataError, "rows of user 0 must be real numbers"),
        (PARTS, {"graph": LOOSE}, GraphError, "`graph` of cluster must connect all users"),
        (PARTS, {"consensus_factor": "1/rho"}, ParameterError, "must be a number or '1-1/rho'"),
        (PARTS, {"loss": "hubber"}, ParameterError, "Did you mean 'huber'"),
        (PARTS, {"loss": 3}, ParameterError, "object with value\\(r2\\), gamma"),
        (PARTS, {"distance": "euclid"}, ParameterError, "Did you mean 'euclidean'"),
        (PARTS, {"distance": "mahalanobis"}, ParameterError, "Mahalanobis\\(A\\) with its matrix"),
        (PARTS, {"distance": pc.Mahalanobis(np.eye(3))}, ParameterError, "must be \\(2, 2\\)"),
        (PARTS, {"solver": "dcg"}, ParameterError, "Did you mean 'dgc'"),
        (PARTS, {"solver": 3}, ParameterError, "`solver` of cluster must be a name, or a callable"),
        (PARTS, {"init": pc.initialize.Random}, ParameterError, "must be a start, such as Random"),
        ((PARTS[0], [[1, 2], [3]]), {}, DataError, "rows of a user must be a 2-D array"),
        (PARTS[0], {}, DataError, "for one user pass \\[X\\]. Got ndarray"),
        ({"oslo": PARTS[0]}, {}, DataError, "list of \\(N_i, d\\) arrays.*Got dict"),
        ([np.empty((5, 0))], {}, DataError, "at least one feature"),
        ([np.ma.masked_equal(PARTS[0], 0.0)], {}, DataError, "must not be masked"),
        (PARTS, {"runtime": "simulater"}, ParameterError, "Did you mean 'simulator'"),
        (PARTS, {"init": "kmeans++"}, ParameterError, "Did you mean 'k-means\\+\\+'"),
        (PARTS, {"graph": "rign"}, ParameterError, "Did you mean 'ring'"),
        (PARTS, {"graph": pc.graphs.ring(4)}, GraphError, "as many users as there are parts"),
        (PARTS, {"graph": networkx.empty_graph(5)}, GraphError, "cannot reach"),
        (PARTS, {"weights": "uniform"}, ParameterError, "`weights` of cluster must be one of"),
        (PARTS, {"weights": [np.ones(3)] * 5}, DataError, "one weight for each of the 97 rows"),
        (PARTS, {"weights": -np.ones(97)}, DataError, "finite and >= 0. Got -1.0 for row 0"),
        (PARTS, {"weights": np.zeros(97)}, DataError, "must not all be zero"),
        (PARTS, {"scale": "standrad"}, ParameterError, "`scale` of cluster.*mean 'standard'"),
        (PARTS, {"scale": 2}, ParameterError, "`scale` of cluster must be one of 'standard'"),
        (PARTS, {"scale": "standard", "loss": pc.bregman.squared_euclidean()}, ParameterError,
         "`scale` of cluster must be left out with a Bregman loss"),
        ([PARTS[0]] + [[]] * 1500, {"scale": "standard"}, ParameterError,
         "`scale` of cluster must be none for more than 1500 users.*1501 users"),
        (PARTS, {"random_state": "seed"}, ParameterError, "`random_state` of cluster"),
        ([], {}, DataError, "at least one row"),
        ([[], []], {}, DataError, "at least one row"),
        (5, {}, DataError, "list of \\(N_i, d\\) arrays"),
        ([np.ones(3)], {}, DataError, "rows of user 0 must be a 2-D array.*Got shape \\(3,\\)"),
        ([[["a", None]]], {}, DataError, "rows of user 0 must be numbers"),
        ([PARTS[0], np.ones((2, 3))], {}, DataError, "user 0 has 2, user 1 has 3"),
        ((PARTS[0], np.array([0, 40])), {}, DataError, "rise from 0 to the 30 rows"),
        ((PARTS[0], np.array([0, 20, 10, 30])), {}, DataError, "rise from 0 to the 30 rows"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_clear_sentence(parts, options, kind, sentence):
    with pytest.raises(kind, match=sentence) as caught:
        pc.cluster(parts, **(OPTIONS | options))
    assert isinstance(caught.value, InputError)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)


def test_rows_outside_a_bregman_domain_are_refused_and_so_are_centers_that_leave_it():
    kl = pc.bregman.generalized_kl(smoothness=1.0)
    with pytest.raises(DataError, match=r"domain of the generalized_kl loss\. Row 0 does not"):
        pc.cluster([np.array([[-1.0]]), np.array([[1.0]])], n_clusters=1, loss=kl)
    rows = np.array([[1e-3], [2e-3], [5.0]])
    with pytest.raises(DivergedError, match="left the domain of the generalized_kl loss"):
        pc.cluster([rows], n_clusters=1, loss=kl, init=np.array([[5.0]]), alpha=100.0)
    with pytest.raises(ParameterError, match="left out with a Bregman loss"):
        pc.cluster([rows], n_clusters=1, loss=kl, distance=pc.Mahalanobis([[2.0]]))


@pytest.mark.parametrize("trace", [False, True])
@pytest.mark.parametrize("tol", [0, 1e-6])
def test_too_long_a_step_is_an_error_not_a_result(tol, trace):
    options = OPTIONS | {"alpha": 10.0, "rounds": 2000, "tol": tol, "trace": trace}
    with pytest.raises(DivergedError, match="alpha='auto' is safe"):
        pc.cluster(PARTS, **options)


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


def test_the_certificate_is_what_its_definition_says():
    solution = pc.cluster(PARTS, **OPTIONS, graph="path")
    x, rho = solution.centers, solution.rho
    rows = np.concatenate(PARTS)
    spread = np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean())
    L = pc.graphs.path(5).laplacian.toarray()
    gradient, cost = np.einsum("ij,jkd->ikd", L, x), 0.0
    for i, part in enumerate(PARTS):
        for y in part:
            k = ((x[i] - y) ** 2).sum(axis=1).argmin()
            gradient[i, k] += (x[i, k] - y) / rho
            cost += 0.5 * ((x[i, k] - y) ** 2).sum() / rho
    cost += 0.5 * np.einsum("ikd,ij,jkd->", x, L, x)
    mean = x.mean(axis=0)
    nearest = ((rows[:, None] - mean) ** 2).sum(axis=2).argmin(axis=1)
    pooled = [np.linalg.norm((mean[k] - rows[nearest == k]).sum(axis=0)) for k in range(3)]
    got = solution.certificate
    worst = np.linalg.norm(gradient, axis=2).max()
    assert got.spread == pytest.approx(spread)
    assert got.largest_weight == 40
    assert got.residual == pytest.approx(rho * worst / (40 * spread), rel=1e-6)
    assert got.pooled_residual == pytest.approx(max(pooled) / (97 * spread), rel=1e-6)
    assert got.cost == pytest.approx(cost)
    assert got.pooled_cost == pytest.approx(0.5 * ((rows - mean[nearest]) ** 2).sum())
    assert got.messages == got.rounds * 8
    assert got.bytes == got.messages * (3 * 2 * 8 + 16)


def test_the_residual_has_no_units():
    a = pc.cluster(PARTS, **OPTIONS)
    big = [1000.0 * part for part in PARTS]
    b = pc.cluster(big, **OPTIONS | {"init": 1000.0 * START})
    assert a.certificate.rounds == b.certificate.rounds
    assert a.certificate.residual == pytest.approx(b.certificate.residual, rel=1e-3)
    assert a.certificate.pooled_residual == pytest.approx(b.certificate.pooled_residual, rel=1e-6)
    A = np.array([[2.0, 0.3], [0.3, 1.0]])
    c = pc.cluster(PARTS, **OPTIONS, distance=pc.Mahalanobis(A))
    d = pc.cluster(big, **OPTIONS | {"init": 1000.0 * START}, distance=pc.Mahalanobis(A))
    assert c.certificate.rounds == d.certificate.rounds


def test_the_trace_has_a_row_a_round_and_says_what_happened():
    solution = pc.cluster(PARTS, trace=True, **OPTIONS)
    trace = solution.trace
    assert len(trace) == solution.certificate.rounds
    assert (np.diff(trace.cost) <= 1e-12 * trace.cost[:-1]).all()
    assert trace.changed[0] == 97
    assert trace.cost[-1] == pytest.approx(solution.certificate.cost)
    assert trace.disagreement[-1] == pytest.approx(solution.certificate.disagreement)
    assert trace.disagreement_stacked[-1] == pytest.approx(
        solution.certificate.disagreement_stacked
    )
    assert pc.cluster(PARTS, **OPTIONS).trace is None


@pytest.mark.parametrize("options", [{"rho": "auto"}, {"n_init": 3, "init": "random"}])
def test_traces_are_the_same_on_every_runtime(options):
    options = OPTIONS | {"rounds": 30, "random_state": 0, "trace": True} | options
    ends = [pc.cluster(PARTS, runtime=runtime, **options) for runtime in ("simulator", "loopback")]
    for name, value in vars(ends[0].trace).items():
        assert np.array_equal(value, getattr(ends[1].trace, name)), name
    assert ends[0].trace.changed[0] == 97
    assert ends[0].certificate == ends[1].certificate


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


def test_progress_is_told_after_every_round():
    told = []
    pc.cluster(PARTS, **OPTIONS | {"tol": 0}, progress=lambda *news: told.append(news))
    assert [round_ for round_, _ in told] == list(range(1, 101))
    assert told[-1][1] < told[0][1]


def test_status_says_how_it_ended_with_advice():
    out = pc.cluster(PARTS, **OPTIONS | {"rounds": 2})
    assert out.status.name == "ran out of rounds"
    assert "more `rounds`" in out.status.advice
    assert out.certificate.rounds == 2
    done = pc.cluster(PARTS, **OPTIONS | {"rounds": 10_000, "tol": 1e-4})
    assert done.status.converged
    assert done.certificate.residual <= 1e-4
    two = [PARTS[0] - 4.0, PARTS[3] + 4.0]
    apart = pc.cluster(two, **OPTIONS | {"rounds": 10_000, "tol": 1e-4, "rho": 1})
    assert "a larger `rho`" in apart.status.advice


def test_a_stop_that_did_not_last_is_not_called_converged():
    # With a loose tol a row may change cluster in the rounds until all have heard of the stop.
    rng = np.random.default_rng(4)
    ends = []
    for _ in range(40):
        parts = [rng.normal(size=(6, 2)) for _ in range(8)]
        start = rng.normal(size=(8, 3, 2))
        solution = pc.cluster(parts, n_clusters=3, rho=8, init=start, tol=1e-2, graph="path")
        ends.append(solution.status.name)
        assert solution.status.converged == (solution.certificate.residual <= 1e-2)
    assert set(ends) == {"converged", "stopped"}


def test_more_starts_never_cost_more_and_the_best_is_kept():
    options = OPTIONS | {"init": "random", "random_state": 3}
    costs = [pc.cluster(PARTS, **options, n_init=n).certificate.pooled_cost for n in (1, 3, 6)]
    assert costs[0] >= costs[1] >= costs[2]


def test_seeds_decide_everything():
    options = OPTIONS | {"init": "k-means++"}
    a = pc.cluster(PARTS, **options, random_state=1)
    b = pc.cluster(PARTS, **options, random_state=np.random.default_rng(1))
    c = pc.cluster(PARTS, **options, random_state=2)
    assert np.array_equal(a.centers, b.centers)
    assert not np.array_equal(a.centers, c.centers)


def test_a_solver_of_the_users_own_is_a_callable_that_gives_a_program():
    from peerclust.programs.dgc import DGC

    def slower(*, rho, alpha, B, consensus_factor):
        return DGC(rho=rho, alpha=alpha / 2, B=B, consensus_factor=consensus_factor)

    half = pc.cluster(PARTS, solver=slower, **OPTIONS | {"tol": 0})
    step = pc.cluster(PARTS, **OPTIONS | {"solver": "dgc", "alpha": half.alpha / 2, "tol": 0})
    assert np.array_equal(half.centers, step.centers)


def test_a_graph_may_come_from_networkx():
    a = pc.cluster(PARTS, graph=networkx.cycle_graph(5), **OPTIONS | {"alpha": 0.01})
    b = pc.cluster(PARTS, graph="ring", **OPTIONS | {"alpha": 0.01})
    np.testing.assert_allclose(a.centers, b.centers, rtol=1e-12)


def test_one_user_alone_is_plain_clustering():
    rows = np.concatenate(PARTS)
    solution = pc.cluster([rows], n_clusters=3, init=START, rounds=3000, tol=1e-10)
    assert solution.rho == 1.0
    labels = solution.labels[0]
    for k in range(3):
        np.testing.assert_allclose(solution.consensus[k], rows[labels == k].mean(axis=0), rtol=1e-6)


def test_generalized_kl_runs_and_says_that_it_is_outside_the_theory():
    rng = np.random.default_rng(0)
    parts = [rng.gamma(5.0, m, (40, 2)) for m in (1.0, 1.0, 3.0)]
    kl = pc.bregman.generalized_kl(smoothness=2.0)
    solution = pc.cluster(parts, n_clusters=2, loss=kl, rho=100, rounds=3000, random_state=0)
    assert "outside the theory" in solution.why["alpha"]
    assert solution.certificate.residual < 1e-4


def standardize(parts, mean=None, deviation=None):
    rows = np.concatenate(parts)
    mean = rows.mean(axis=0) if mean is None else mean
    deviation = rows.std(axis=0) if deviation is None else deviation
    return [(np.asarray(part).reshape(-1, rows.shape[1]) - mean) / deviation for part in parts]


@pytest.mark.parametrize("runtime", ["simulator", "loopback"])
@pytest.mark.parametrize("distance", ["euclidean", pc.Mahalanobis([[2.0, 0.3], [0.3, 1.0]])])
def test_scaling_is_clustering_of_scaled_rows_with_centers_in_their_own_units(distance, runtime):
    parts = [part * [1.0, 300.0] + [5.0, -1e4] for part in PARTS]
    rows = np.concatenate(parts)
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    options = OPTIONS | {"init": rows[[0, 40, 80]], "distance": distance, "trace": True}
    scaled = pc.cluster(parts, scale="standard", runtime=runtime, **options)
    options["init"] = (rows[[0, 40, 80]] - mean) / deviation
    by_hand = pc.cluster(standardize(parts), **options)
    np.testing.assert_allclose(scaled.centers, by_hand.centers * deviation + mean, rtol=1e-8)
    assert np.array_equal(np.concatenate(scaled.labels), np.concatenate(by_hand.labels))
    assert scaled.alpha == by_hand.alpha
    assert scaled.certificate.rounds == by_hand.certificate.rounds
    assert scaled.certificate.spread == pytest.approx(np.sqrt(2), rel=1e-12)
    for name in ("cost", "pooled_cost", "disagreement", "spread"):
        ours, theirs = (getattr(each.certificate, name) for each in (scaled, by_hand))
        assert ours == pytest.approx(theirs, rel=1e-7), name
    np.testing.assert_allclose(scaled.trace.cost, by_hand.trace.cost, rtol=1e-7)
    # Two averages of a ring of five: 2 factors and 2 rounds of a maximum, a sum and two sums wide.
    extra = scaled.certificate.setup_messages - by_hand.certificate.setup_messages
    assert extra == 2 * (2 + 2) * 10


@pytest.mark.parametrize("options", [{"init": "k-means++"}, {"init": "random", "rho": "auto"}])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scaled_runs_are_the_same_on_every_runtime(options, dtype):
    parts = [part.astype(dtype) for part in PARTS]
    options = OPTIONS | {"rounds": 30, "random_state": 0, "scale": "standard"} | options
    a, b = (pc.cluster(parts, runtime=each, **options) for each in ("simulator", "loopback"))
    assert np.array_equal(a.centers, b.centers)
    assert np.array_equal(a.scale.mean, b.scale.mean)
    assert np.array_equal(a.scale.deviation, b.scale.deviation)
    assert a.certificate == b.certificate
    assert a.centers.dtype == np.float64


def test_units_of_a_feature_do_not_matter_to_scaled_clustering():
    a = pc.cluster(PARTS, scale="standard", **OPTIONS)
    unit = np.array([1000.0, 1.0])
    b = pc.cluster(
        [part * unit for part in PARTS], scale="standard", **OPTIONS | {"init": START * unit}
    )
    assert np.array_equal(np.concatenate(a.labels), np.concatenate(b.labels))
    np.testing.assert_allclose(b.centers, a.centers * unit, rtol=1e-8)
    assert b.certificate.pooled_cost == pytest.approx(a.certificate.pooled_cost, rel=1e-8)


def test_units_that_are_powers_of_two_do_not_change_a_bit():
    # Other units round otherwise, and what k-means++ draws goes by the bits of the rows.
    options = OPTIONS | {"init": "k-means++", "random_state": 0, "scale": "standard"}
    unit = np.array([1024.0, 0.25])
    a, b = pc.cluster(PARTS, **options), pc.cluster([part * unit for part in PARTS], **options)
    assert np.array_equal(b.centers, a.centers * unit)
    assert b.certificate == a.certificate


def test_scaled_rows_that_are_all_equal_converge():
    solution = pc.cluster([np.full((5, 2), 3.7)] * 3, n_clusters=1, scale="standard")
    assert solution.status.converged
    np.testing.assert_allclose(solution.consensus, 3.7, rtol=1e-12)


def test_without_a_scale_nothing_is_scaled_nor_sent_for_it():
    solution = pc.cluster(PARTS, **OPTIONS)
    assert solution.scale is None
    assert solution.certificate.setup_messages == 0
