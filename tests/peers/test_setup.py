"""What sites do before the first round, on runtimes of this process."""

import msgspec
import numpy as np
import pytest

import peerclust as pc
from peer_runs import RANGES, iris, make_path_contract, rows_of
from peerclust.errors import DataError
from peerclust.initialize import KMeansPlusPlus
from peerclust.peers import configuration, setup
from peerclust.peers.setup_validation import refuse_agreed
from peerclust.runtimes import Loopback, Simulator, run_program


@pytest.mark.parametrize("runtime", [Simulator, Loopback])
@pytest.mark.parametrize("scale", ["standard", "robust", "none"])
def test_sites_agree_on_the_step_and_start_of_cluster(runtime, scale):
    terms = make_path_contract(scale=scale, loss="huber", delta=0.5)
    parts = iris(4)
    agreed, _, x = setup.agree(terms, runtime(terms.graph), rows_of(parts), (0, 1, 2, 3), [], "")
    solution = pc.cluster(
        parts,
        n_clusters=3,
        graph=terms.graph,
        loss=pc.Huber(0.5),
        rho=20.0,
        init=KMeansPlusPlus(mean_of=5),
        scale=scale,
        random_state=3,
        rounds=1,
    )
    assert (agreed.alpha, solution.alpha) == (0.0, None)  # each center has its own
    assert solution.certificate.largest_weight == agreed.W
    assert np.isclose(agreed.spread, solution.certificate.spread, rtol=1e-12)
    pooled = np.concatenate(parts)
    median = np.quantile(pooled, 0.5, axis=0, method="inverted_cdf")
    mean = {"standard": pooled.mean(axis=0), "robust": median, "none": np.zeros(4)}[scale]
    assert np.allclose(agreed.mean, mean, rtol=1e-12)
    low = (pooled.min(axis=0) - np.array(agreed.mean)) / np.array(agreed.deviation)
    assert np.allclose(agreed.low, low, rtol=1e-9)
    assert (x == x[0]).all()
    box = configuration.make_box(terms, agreed)
    assert box.refuse(x[0]) == ""


@pytest.mark.parametrize("runtime", [Simulator, Loopback])
@pytest.mark.parametrize("solver", ["dgc", "accelerated"])
def test_rho_auto_start_and_step_are_those_of_cluster_to_the_last_bit(runtime, solver):
    terms = make_path_contract(rho="auto", solver=solver)
    parts = iris(4)
    agreed, _, x = setup.agree(terms, runtime(terms.graph), rows_of(parts), (0, 1, 2, 3), [], "")
    given = {
        "n_clusters": 3, "graph": terms.graph, "solver": solver, "random_state": 3, "rounds": 1,
        "init": KMeansPlusPlus(mean_of=5), "scale": "standard",
    }  # fmt: skip
    solution = pc.cluster(parts, rho="auto", **given)
    assert agreed.rho == solution.rho
    assert agreed.alpha == (solution.alpha or 0.0)
    assert agreed.spread == solution.certificate.spread
    program = configuration.make_program(terms, agreed)
    users = rows_of(parts).users(terms, agreed)
    run = run_program(Simulator(terms.graph), program, users, x, rounds=1)
    assert np.array_equal(configuration.make_scale(terms, agreed).back(run.x), solution.centers)


@pytest.mark.parametrize("runtime", [Simulator, Loopback])
def test_delta_auto_and_the_robust_scale_are_those_of_cluster_to_the_last_bit(runtime):
    terms = make_path_contract(scale="robust", loss="huber", delta="auto")
    parts = iris(4)
    agreed, users, _ = setup.agree(
        terms, runtime(terms.graph), rows_of(parts), (0, 1, 2, 3), [], ""
    )
    solution = pc.cluster(
        parts, n_clusters=3, graph=terms.graph, loss=pc.Huber("auto"), rho=20.0, scale="robust",
        init=KMeansPlusPlus(mean_of=5), random_state=3, rounds=1,
    )  # fmt: skip
    assert pc.Huber(agreed.delta) == solution.loss == users.loss
    assert rows_of(parts).users(terms, agreed).loss == solution.loss
    assert np.array_equal(agreed.mean, solution.scale.mean)
    assert np.array_equal(agreed.deviation, solution.scale.deviation)
    assert agreed.spread == solution.certificate.spread


def test_sites_agree_on_eigenvalues_and_on_the_curvature_at_the_start():
    terms = make_path_contract(solver="admm", rho="auto", on_loss="stop")
    agreed, users, x = setup.agree(
        terms, Simulator(terms.graph), rows_of(iris(4)), (0, 1, 2, 3), [], ""
    )
    eigenvalues = np.linalg.eigvalsh(terms.graph.laplacian.toarray())
    assert np.allclose([agreed.lambda_2, agreed.lambda_max], eigenvalues[[1, 3]], rtol=1e-12)
    # For K-means, the curvature of a center is the number of its rows.
    rows = users.rows
    labels = ((rows[:, None] - x[0]) ** 2).sum(axis=2).argmin(axis=1)
    assert np.allclose(agreed.curvature, np.bincount(labels, minlength=3) / 4)


def test_a_site_that_claims_more_weight_than_all_sites_together_is_refused(monkeypatch):
    terms = make_path_contract()
    honest = setup._extremes

    def lie(*given):
        W, *others = honest(*given)
        return 5 * W, *others

    monkeypatch.setattr(setup, "_extremes", lie)
    with pytest.raises(DataError, match=r"A site has the total weight 190, .* together have 150"):
        setup.agree(terms, Simulator(terms.graph), rows_of(iris(4)), (0, 1, 2, 3), [], "")


def test_sites_resume_only_if_all_have_a_checkpoint_of_the_same_run():
    terms = make_path_contract(3)
    users = rows_of(iris(3)).users(terms)
    runtime = Simulator(terms.graph)
    assert setup.agree_to_resume(terms, runtime, users, b"\0\x01\xff45678", 17) == 17
    assert setup.agree_to_resume(terms, runtime, users, None, 0) is None


@pytest.mark.parametrize("runtime", [Simulator, Loopback])
@pytest.mark.parametrize("scale", ["standard", "robust", "none"])
def test_with_ranges_the_box_is_theirs_and_all_else_is_the_same(runtime, scale):
    found = []
    for ranges in (None, RANGES):
        terms = make_path_contract(scale=scale, ranges=ranges, max_weight=38.0)
        rows = rows_of(iris(4))
        found.append(setup.agree(terms, runtime(terms.graph), rows, (0, 1, 2, 3), [], "")[0])
        assert refuse_agreed(terms, found[-1]) == ""
    low, high = np.array(RANGES).T
    mean, deviation = np.array(found[1].mean), np.array(found[1].deviation)
    assert np.array_equal(found[1].low, (low - mean) / deviation)
    assert np.array_equal(found[1].high, (high - mean) / deviation)
    plain, public = ({**msgspec.structs.asdict(each), "low": 0, "high": 0} for each in found)
    assert plain == public
