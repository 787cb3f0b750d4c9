"""What a run reports of itself: certificate, trace, progress and status."""

import numpy as np
import pytest
from five_users import OPTIONS, PARTS, START

import peerclust as pc


@pytest.mark.parametrize("given", [50.0, 3.0])
def test_the_certificate_agrees_with_its_definition(given):
    solution = pc.cluster(PARTS, **OPTIONS | {"graph": "path", "rho": given, "rounds": 20})
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
    # How far a center has to go: by its gradient, over the curvature of what moves with it.
    counts = np.array(
        [np.bincount(labels, minlength=3) for labels in solution.labels], dtype=np.float64
    )
    lambda_2 = 2 - 2 * np.cos(np.pi / 5)
    even = counts.mean(axis=0) ** 2 / (counts**2).mean(axis=0)
    curvature = np.minimum(counts.mean(axis=0), counts + even * rho * lambda_2)
    assert (curvature == counts.mean(axis=0)).all() == (given == 50)
    worst = (rho * np.linalg.norm(gradient, axis=2) / curvature).max()
    pooled /= np.bincount(nearest)
    assert got.spread == pytest.approx(spread)
    assert got.largest_weight == 40
    assert got.residual == pytest.approx(worst / spread, rel=1e-6)
    assert got.pooled_residual == pytest.approx(max(pooled) / spread, rel=1e-6)
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


def test_the_trace_has_one_row_per_round_and_agrees_with_the_certificate():
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


@pytest.mark.parametrize(
    "options",
    [{"rho": "auto"}, {"n_init": 3, "init": "random", "search": "swaps", "n_clusters": 5}],
)
def test_traces_are_the_same_on_every_runtime(options):
    options = OPTIONS | {"rounds": 500, "random_state": 0, "trace": True} | options
    options |= {"solver": "accelerated", "tol": 1e-4}
    ends = [pc.cluster(PARTS, runtime=runtime, **options) for runtime in ("simulator", "loopback")]
    for name, value in vars(ends[0].trace).items():
        assert np.array_equal(value, getattr(ends[1].trace, name)), name
    assert ends[0].trace.changed[0] == 97
    certificate = ends[0].certificate
    assert certificate == ends[1].certificate
    assert len(ends[0].trace) == certificate.rounds + certificate.search_rounds
    assert (certificate.search_rounds > 0) == (options["search"] == "swaps")


def test_progress_is_called_after_every_round():
    calls = []
    pc.cluster(PARTS, **OPTIONS | {"tol": 0}, progress=lambda *call: calls.append(call))
    assert [round_ for round_, _ in calls] == list(range(1, 101))
    assert calls[-1][1] < calls[0][1]


def test_status_reports_how_the_run_ended_with_advice():
    out = pc.cluster(PARTS, **OPTIONS | {"rounds": 2})
    assert out.status.name == "ran out of rounds"
    assert "more `rounds`" in out.status.advice
    assert out.certificate.rounds == 2
    done = pc.cluster(PARTS, **OPTIONS | {"rounds": 10_000, "tol": 1e-4})
    assert done.status.converged
    assert done.certificate.residual <= 1e-4
    two = [PARTS[0] - 4.0, PARTS[3] + 4.0]
    differ = pc.cluster(two, **OPTIONS | {"rounds": 10_000, "tol": 1e-4, "rho": 1})
    assert "a larger `rho`" in differ.status.advice


def test_a_stop_that_comes_too_early_is_not_accepted():
    # Votes count with the curvature at the start, which a path of 8 users agrees on and each check
    # of a stop with the one found then: 14 messages for a sum, 98 for a maximum.
    agree, check = 14 + 98, 14 + 2 * (14 + 98) + 98
    rng = np.random.default_rng(4)
    checks = []
    for _ in range(20):
        parts = [rng.normal(size=(6, 2)) for _ in range(8)]
        start = rng.normal(size=(8, 3, 2))
        solution = pc.cluster(
            parts, n_clusters=3, loss=pc.Fair(1.0), solver="dgc", rho=8, init=start, tol=1e-2,
            graph="path",
        )  # fmt: skip
        assert solution.status.converged
        assert solution.certificate.residual <= 1e-2
        checks.append((solution.certificate.setup_messages - agree) / check)
    assert set(checks) == {1, 2}


def test_the_traffic_of_a_certificate_is_counted():
    certificate = pc.cluster(PARTS, **OPTIONS).certificate
    # A ring of five: 10 messages for an exchange, 20 for a maximum, 8 for a sum.
    agree, check = 20 + 8, 10 + 2 * (20 + 8) + 20
    assert certificate.setup_messages == agree + check
    assert certificate.setup_rounds == 0


@pytest.mark.parametrize("solver", ["exact", "admm", "group-lasso"])
def test_the_residual_of_a_consensus_solver_is_pooled_residual_or_disagreement(solver):
    options = {name: OPTIONS[name] for name in ("n_clusters", "graph", "init", "search")}
    for rounds in (8, 40):
        solution = pc.cluster(PARTS, solver=solver, rounds=rounds, tol=0, **options)
        got, x = solution.certificate, solution.centers
        # The largest over clusters, not a mean.
        radius = np.linalg.norm(x - x.mean(axis=0), axis=2).max()
        expected = max(got.pooled_residual, 2 * radius / got.spread)
        assert got.residual == pytest.approx(expected, rel=1e-9)


def test_the_cost_of_a_penalized_solver_does_not_cancel_far_from_the_origin():
    given = OPTIONS | {"rounds": 20}
    near = pc.cluster(PARTS, **given).certificate
    far = [part + 1e7 for part in PARTS]
    moved = pc.cluster(far, **given | {"init": np.asarray(given["init"]) + 1e7}).certificate
    assert moved.cost == pytest.approx(near.cost, rel=1e-6)


def test_clusters_without_rows_are_reported():
    start = np.concatenate([START, [[90.0, 90.0], [-90.0, 90.0]]])
    for solver in ("exact", "accelerated", "admm"):
        solution = pc.cluster(PARTS, n_clusters=5, solver=solver, init=start, rounds=5000)
        assert solution.status.converged
        assert solution.status.advice.endswith(" Only 3 of 5 clusters have rows.")
