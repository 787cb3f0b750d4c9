"""Runs of real processes over TLS without faults."""

import numpy as np
import pytest

import peer_runs
import peerclust as pc
from peer_runs import iris, simulate
from peerclust.initialize import KMeansPlusPlus

pytestmark = pytest.mark.peers


LOSSES = ("kmeans", "huber", "logistic", "fair")
GRAPHS = {
    "ring of 5": pc.graphs.ring(5),
    "ring of 10": pc.graphs.ring(10),
    "Erdos-Renyi of 5": pc.graphs.erdos_renyi(5, 0.6, random_state=1),
    "Erdos-Renyi of 10": pc.graphs.erdos_renyi(10, 0.4, random_state=2),
}
PRODUCT = [(loss, name) for loss in LOSSES for name in GRAPHS]
# Each loss once, and each graph once.
ONCE = [*zip(LOSSES, GRAPHS, strict=True)]


SHARED = ("cost", "pooled_cost", "pooled_residual")
SEARCH = ("search_rounds", "moves", "moves_kept")


def make_cluster(*arguments, **settings):
    """Return peers that search, as they do by default, and that a busy machine does not lose."""
    return peer_runs.make_cluster(*arguments, **{"search": "auto", "timeout": 30.0} | settings)


def check_run(directory, loss, graph, rho=30.0, parts=None, n_clusters=3, **more):
    """Check that a run of real processes ends where the simulator does, to the last bit."""
    given = {"solver": "accelerated", "rho": rho, "tol": 1e-3, "rounds": 150} | more
    stops = given["solver"] not in ("accelerated", "dgc")
    terms = given | {"n_clusters": n_clusters, "on_loss": "stop" if stops else "continue"}
    terms |= {"loss": loss} if isinstance(loss, str) else {"loss": "huber", "delta": loss.delta}
    parts = iris(graph.m) if parts is None else parts
    with make_cluster(directory, graph.m, graph, parts=parts, **terms) as peers:
        peers.start()
        codes = peers.wait()
        solution = simulate(
            peers,
            parts,
            n_clusters=n_clusters,
            init=KMeansPlusPlus(mean_of=5),
            random_state=0,
            loss=loss,
            **{"scale": "standard"} | given,
        )
        end = solution.certificate
        for i, name in enumerate(peers.names):
            assert np.array_equal(peers.centers(name), solution.centers[i])
            record = peers.certificate(name)
            assert record["rounds"] == end.rounds + end.search_rounds
            assert [record[each] for each in SEARCH] == [getattr(end, each) for each in SEARCH]
            assert solution.rho is None or record["agreed"]["rho"] == solution.rho
            assert (codes[name] == 0) == (record["status"]["name"] == "converged")
            for mine, name in (("largest_residual", "residual"), *((n, n) for n in SHARED)):
                assert record[mine] == getattr(end, name), name
            spans = record["contributed"].values()
            assert all(span == [[0, record["rounds"] - 1]] for span in spans)
        assert all(each["same"] for each in peers.replay().values())
    return solution


@pytest.mark.smoke
def test_three_processes_end_where_the_simulator_does_to_the_last_bit(tmp_path):
    check_run(tmp_path, "kmeans", pc.graphs.path(3))


def test_rho_auto_of_processes_is_that_of_the_simulator_to_the_last_bit(tmp_path):
    check_run(tmp_path, "kmeans", pc.graphs.ring(5), rho="auto")


def test_scale_and_delta_of_processes_are_those_of_the_simulator_to_the_last_bit(tmp_path):
    check_run(tmp_path, pc.Huber("auto"), pc.graphs.ring(4), scale="robust")


@pytest.mark.parametrize("solver", ["accelerated", "admm", "exact"])
def test_a_search_of_processes_is_that_of_the_simulator_to_the_last_bit(tmp_path, solver):
    rng = np.random.default_rng(3)
    means = 3 * rng.normal(size=(6, 2))
    parts = [means[rng.integers(6, size=60)] + rng.normal(size=(60, 2)) for _ in range(4)]
    rho = "auto" if solver != "accelerated" else 30.0
    more = {"solver": solver, "tol": 1e-6, "rounds": 1000, "n_clusters": 6, "parts": parts}
    solution = check_run(tmp_path, "kmeans", pc.graphs.ring(4), rho, **more)
    assert solution.certificate.moves_kept > 0
    assert solution.status.converged


@pytest.mark.parametrize(("loss", "graph"), ONCE)
def test_processes_end_where_the_simulator_does_to_the_last_bit(tmp_path, loss, graph):
    check_run(tmp_path, loss, GRAPHS[graph])


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "graph"), [each for each in PRODUCT if each not in ONCE])
def test_processes_end_where_the_simulator_does_with_every_loss_on_every_graph(
    tmp_path, loss, graph
):
    check_run(tmp_path, loss, GRAPHS[graph])


def test_weights_a_matrix_and_several_updates_are_as_in_the_simulator(tmp_path):
    rng = np.random.default_rng(0)
    parts = [np.column_stack([part, rng.uniform(0.5, 2.0, len(part))]) for part in iris(4)]
    A = np.diag([2.0, 1.0, 1.0, 3.0])
    given = {"solver": "dgc", "rho": 30.0, "tol": 0.0, "rounds": 60, "B": 3}
    terms = {"weights_column": "x4", "matrix": A.tolist(), "scale": "none"}
    with make_cluster(tmp_path, 4, parts=parts, **given, **terms) as peers:
        peers.start()
        assert set(peers.wait().values()) == {1}  # out of rounds, as tol = 0 asks
        solution = simulate(
            peers,
            [part[:, :4] for part in parts],
            n_clusters=3,
            distance=pc.Mahalanobis(A),
            weights=[part[:, 4] for part in parts],
            init=KMeansPlusPlus(mean_of=5),
            random_state=0,
            **given,
        )
        for i, name in enumerate(peers.names):
            assert np.array_equal(peers.centers(name), solution.centers[i])
        assert all(each["same"] for each in peers.replay().values())


@pytest.mark.parametrize(
    ("solver", "rho", "exchange"),
    [
        ("admm", "auto", "float64"),
        ("admm", "auto", "8-bit"),
        ("group-lasso", "auto", "float64"),
        ("exact", "auto", "float64"),
        ("accelerated", 150.0, "8-bit"),
        ("dgc", 30.0, "float32"),
        ("dgc", 1.0, "8-bit"),
    ],
)
def test_every_solver_ends_where_its_replay_and_the_pooled_problem_do(
    tmp_path, solver, rho, exchange
):
    on_loss = "continue" if solver in ("dgc", "accelerated") else "stop"
    tol = 1e-4 if exchange == "float32" else 1e-5
    given = {"solver": solver, "rho": rho, "exchange": exchange, "on_loss": on_loss, "tol": tol}
    with make_cluster(tmp_path, scale="none", **given) as peers:
        peers.start()
        assert set(peers.wait().values()) == {0}
        assert all(each["same"] for each in peers.replay().values())
        rows = np.concatenate(iris(5))
        records = [peers.certificate(name) for name in peers.names]
        centers = [pc.Solution.load(peers.out(name) / "solution.npz").consensus
                   for name in peers.names]  # fmt: skip
        mean = np.mean(centers, axis=0)
        square = ((rows[:, None] - mean) ** 2).sum(axis=2)
        # What the peers computed together is what the pooled rows give.
        assert {each["pooled_cost"] for each in records} == {records[0]["pooled_cost"]}
        assert np.isclose(records[0]["pooled_cost"], 0.5 * square.min(axis=1).sum(), rtol=1e-9)
        labels = square.argmin(axis=1)
        gradient = [len(rows[labels == k]) * mean[k] - rows[labels == k].sum(axis=0)
                    for k in range(3)]  # fmt: skip
        spread = np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean())
        sizes = np.sum([each["cluster_sizes"] for each in records], axis=0)
        residual = (np.linalg.norm(gradient, axis=1) / sizes).max() / spread
        assert np.isclose(records[0]["pooled_residual"], residual, rtol=1e-6, atol=1e-12)
        if on_loss == "stop":
            assert residual < 1e-5


def test_an_empty_site_takes_part(tmp_path):
    rows, _ = pc.datasets.iris()
    parts = [rows[::2], rows[:0], rows[1:3], rows[3::2]]
    with make_cluster(tmp_path, 4, parts=parts, rho=30.0, tol=1e-4) as peers:
        peers.start()
        assert set(peers.wait().values()) == {0}
        assert peers.certificate("p1")["rows"] == 0
        assert all(each["same"] for each in peers.replay().values())


def test_more_clusters_than_rows_is_an_error_of_one_sentence_at_every_site(tmp_path):
    rows, _ = pc.datasets.iris()
    parts = [rows[:1], rows[1:2], rows[2:3]]
    with make_cluster(tmp_path, 3, parts=parts, n_clusters=5, mean_of=1) as peers:
        peers.start()
        assert set(peers.wait(seconds=30).values()) == {2}
        for name in peers.names:
            last = peers.error(name).splitlines()[-1]
            assert "must be at most the number of rows of all sites, 3. Got 5." in last
