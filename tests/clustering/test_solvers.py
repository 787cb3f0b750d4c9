"""Every solver ends where it should, for every loss, computed from all rows with plain numpy."""

import numpy as np
import pytest

import peerclust as pc
from all_pairs import by_pairs
from peerclust import graphs, partition
from peerclust.clustering.solvers import SolverRequest, choose
from peerclust.errors import ParameterError
from peerclust.programs.solvers import SOLVERS

ROWS, CLASSES = pc.datasets.iris()
LOSSES = [pc.KMeans(), pc.Huber(1.0), pc.Huber(0.3), pc.Logistic(), pc.Fair(1.0)]
CONSENSUS = [name for name, spec in SOLVERS.items() if not spec.penalized]
NAMES = ["auto", *SOLVERS]
GRAPHS = [graphs.ring(8), graphs.star(8), graphs.erdos_renyi(8, 0.4, random_state=0)]
SPREAD = np.sqrt(((ROWS - ROWS.mean(axis=0)) ** 2).sum(axis=1).mean())


def parts_of(split, m=8, seed=0):
    if split == "homogeneous":
        users = partition.homogeneous(CLASSES, m, random_state=seed)
    else:
        users = partition.by_class(CLASSES, m, per_user=(1, 2), random_state=seed)
    return [ROWS[i] for i in users]


def pooled_residual(x, loss, A=None):
    """Return the norm of the pooled gradient at common centers x, free of units."""
    A = np.eye(4) if A is None else A
    off = x[None] - ROWS[:, None]
    r2 = np.einsum("nki,ij,nkj->nk", off, A, off)
    labels = r2.argmin(axis=1)
    worst = 0.0
    for k in range(len(x)):
        mine = labels == k
        gamma = np.asarray(loss.gamma(r2[mine, k]))
        worst = max(worst, np.linalg.norm(A @ (gamma[:, None] * off[mine, k]).sum(axis=0)))
    return worst / (len(ROWS) * SPREAD * np.linalg.eigvalsh(A)[-1])


def disagreement(x):
    """Return the largest distance of two users' centers, free of units."""
    return max(np.linalg.norm(a - b, axis=1).max() for a in x for b in x) / SPREAD


@by_pairs(solver=CONSENSUS, loss=LOSSES, graph=GRAPHS, split=["homogeneous", "heterogeneous"])
def test_exact_consensus_is_at_a_stationary_point_of_the_pooled_problem(solver, loss, graph, split):
    end = pc.cluster(
        parts_of(split), n_clusters=3, graph=graph, loss=loss, solver=solver,
        rounds=20_000, tol=1e-7, random_state=1,
    )  # fmt: skip
    assert end.status.converged, end.status
    assert pooled_residual(end.consensus, loss) < 1e-6
    assert disagreement(end.centers) < 1e-6
    assert end.certificate.residual <= 1e-7


@pytest.mark.parametrize("loss", LOSSES[:3], ids=repr)
@pytest.mark.parametrize("solver", CONSENSUS)
def test_exact_consensus_holds_with_a_mahalanobis_distance(solver, loss):
    A = np.diag([3.0, 1.0, 2.0, 1.0]) + 0.3
    end = pc.cluster(
        parts_of("heterogeneous"), n_clusters=3, graph="ring", loss=loss, solver=solver,
        distance=pc.Mahalanobis(A), rounds=20_000, tol=1e-7, random_state=1,
    )  # fmt: skip
    assert end.status.converged, end.status
    assert pooled_residual(end.consensus, loss, A) < 1e-6
    assert disagreement(end.centers) < 1e-6


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_exact_with_a_mahalanobis_distance_is_exact_in_the_coordinates_of_its_matrix(loss):
    # The inverse covariance, of condition 177.
    A = np.linalg.inv(np.cov(ROWS.T))
    factor = np.linalg.cholesky(A)
    parts, start = parts_of("heterogeneous"), ROWS[[3, 60, 110]]
    options = {"n_clusters": 3, "loss": loss, "solver": "exact", "tol": 1e-9}
    found = pc.cluster(parts, distance=pc.Mahalanobis(A), init=start, **options)
    there = pc.cluster([part @ factor for part in parts], init=start @ factor, **options)
    assert found.status.converged, found.status
    assert found.certificate.rounds <= 1.5 * there.certificate.rounds
    assert found.certificate.pooled_cost == pytest.approx(there.certificate.pooled_cost, rel=1e-9)
    np.testing.assert_allclose(found.consensus @ factor, there.consensus, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("solver", ["dgc", "accelerated"])
def test_penalized_solvers_end_at_their_own_fixed_point_and_near_the_pooled_one(solver, loss):
    parts, x, rhos = parts_of("homogeneous"), None, (30, 300, 3000)
    residuals = []
    for rho in rhos:
        # Each starts where the last one ended, so that all are near one solution.
        given = {"init": "k-means++" if x is None else x, "random_state": 1}
        end = pc.cluster(
            parts, n_clusters=3, loss=loss, solver=solver, rho=rho, rounds=200_000, tol=1e-7,
            **given,
        )  # fmt: skip
        assert end.certificate.residual < 1e-6
        x = end.centers
        residuals.append(pooled_residual(end.consensus, loss))
    falls = np.diff(np.log(residuals)) / np.diff(np.log(rhos))
    assert -1.2 < falls[-1] < -0.8, residuals


@pytest.mark.parametrize("solver", NAMES)
def test_users_without_rows_or_with_few_take_part(solver):
    parts = [ROWS[:70], ROWS[:0], ROWS[70:71], ROWS[71:]]
    end = pc.cluster(parts, n_clusters=3, solver=solver, rounds=20_000, tol=1e-6, random_state=0)
    assert end.status.converged, end.status
    assert end.centers.shape == (4, 3, 4)


@pytest.mark.parametrize("solver", NAMES)
def test_a_single_user_clusters_its_rows(solver):
    end = pc.cluster([ROWS], n_clusters=3, solver=solver, tol=1e-7, random_state=0)
    assert end.status.converged, end.status
    assert pooled_residual(end.consensus, pc.KMeans()) < 1e-6


@pytest.mark.parametrize("solver", NAMES)
def test_weights_count(solver):
    parts = parts_of("homogeneous")
    rng = np.random.default_rng(0)
    counts = [rng.integers(1, 4, len(part)) for part in parts]
    given = {
        "n_clusters": 3,
        "solver": solver,
        "rounds": 20_000,
        "tol": 1e-8,
        "init": ROWS[[3, 60, 110]],
    }
    weighted = pc.cluster(parts, weights=[c.astype(float) for c in counts], **given)
    repeated = pc.cluster(
        [np.repeat(p, c, axis=0) for p, c in zip(parts, counts, strict=True)], **given
    )
    assert np.abs(weighted.centers - repeated.centers).max() < 1e-6


def test_auto_is_exact_and_reports_why():
    end = pc.cluster(parts_of("homogeneous"), n_clusters=3, random_state=0)
    assert (end.solver, end.rho, end.alpha) == ("exact", None, None)
    assert "by exact sums over all users" in end.why["solver"]
    given = pc.cluster(parts_of("homogeneous"), n_clusters=3, rho=50, random_state=0)
    assert (given.solver, given.rho) == ("accelerated", 50.0)
    assert "a given rho requires DGC" in given.why["solver"]
    coarse = pc.cluster(
        parts_of("homogeneous"), n_clusters=3, exchange="8-bit", rounds=5, random_state=0
    )
    assert coarse.solver == "accelerated"
    assert "an exchange format requires DGC" in coarse.why["solver"]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "exact"),
        ({"alpha": "paper"}, "accelerated"),
        ({"rho": 10.0}, "accelerated"),
        ({"alpha": 0.1}, "accelerated"),
        ({"B": 3}, "accelerated"),
        ({"consensus_factor": 0.5}, "accelerated"),
        ({"consensus_factor": "1-1/rho"}, "accelerated"),
        ({"solver": "dgc"}, "dgc"),
        ({"solver": "admm"}, "admm"),
    ],
)
def test_auto_follows_from_the_parameters(changes, name):
    request = {"solver": "auto", "rho": "auto", "alpha": "auto", "B": 1, "consensus_factor": 1.0}
    assert choose(SolverRequest(**request | changes), pc.KMeans(), pc.Euclidean()).spec.name == name


def test_auto_is_accelerated_for_a_bregman_loss():
    request = SolverRequest("auto", "auto", "auto", 1, 1.0)
    assert (
        choose(request, pc.bregman.squared_euclidean(), pc.Euclidean()).spec.name == "accelerated"
    )


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"solver": "adm"}, "Did you mean 'admm'?"),
        ({"solver": 3}, "`solver` of cluster must be a name, a SolverSpec, or a callable"),
        ({"solver": "admm", "rho": 10}, "`rho` of cluster must be 'auto' with the solver"),
        ({"solver": "exact", "alpha": 0.1}, "`alpha` of cluster must be 'auto' with the"),
        ({"solver": "admm", "B": 2}, "`B` of cluster must be 1 with the solver 'admm'"),
        (
            {"solver": "exact", "exchange": "float32"},
            "`exchange` of cluster must be 'float64' with the solver 'exact'",
        ),
    ],
)
def test_incompatible_options_get_one_sentence(given, sentence):
    with pytest.raises(ParameterError) as error:
        pc.cluster(parts_of("homogeneous"), n_clusters=3, **given)
    assert sentence in str(error.value)


def test_a_group_lasso_without_consensus_is_reported():
    end = pc.cluster(
        parts_of("heterogeneous"), n_clusters=3, graph="ring", solver="group-lasso", rho=1,
        rounds=3000, tol=1e-5, random_state=0,
    )  # fmt: skip
    assert end.status.name == "ran out of rounds"
    assert "users' centers differ by 0.26 of the data's spread" in end.status.advice
    assert "if they do not come closer, a `rho` above 1." in end.status.advice


def test_a_run_that_ends_just_before_users_agree_to_stop_is_reported():
    given = {"n_clusters": 3, "random_state": 0, "tol": 1e-5, "graph": "ring", "search": "none"}
    whole = pc.cluster(parts_of("homogeneous"), solver="admm", **given)
    short = pc.cluster(
        parts_of("homogeneous"), solver="admm", rounds=whole.certificate.rounds - 1, **given
    )
    assert short.status.name == "ran out of rounds"
    assert "the users had not yet agreed to stop" in short.status.advice


def test_an_unknown_residual_is_nan_in_the_trace():
    end = pc.cluster(
        parts_of("homogeneous"), n_clusters=3, solver="exact", random_state=0, trace=True
    )
    assert np.isnan(end.trace.residual[0])
    assert np.isfinite(end.trace.residual[-1])


def test_a_saved_solution_has_its_solver(tmp_path):
    end = pc.cluster(parts_of("homogeneous"), n_clusters=3, solver="admm", random_state=0)
    end.save(tmp_path / "end.npz")
    back = pc.Solution.load(tmp_path / "end.npz")
    assert (back.solver, back.rho, back.alpha, back.why) == ("admm", None, None, end.why)


def test_estimators_take_a_solver():
    site = np.arange(150) % 5
    model = pc.PeerClustering(n_clusters=3, solver="admm", random_state=0).fit(ROWS, users=site)
    assert model.solution_.solver == "admm"
    assert np.ptp(model.user_centers_, axis=0).max() < 1e-3
