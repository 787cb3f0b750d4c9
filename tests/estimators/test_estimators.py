"""`PeerClustering` and `PeerOutlierDetector`: scikit-learn's checks, and their own features."""

import pickle
import re
import unittest
from functools import partial

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks, get_tags

import peerclust as pc
from peerclust.errors import DataError, InputError

X, CLASSES = load_iris(return_X_y=True)


SITE = np.array(["north", "south", "west", "east"])[np.arange(150) % 4]


ESTIMATORS = [
    pc.PeerClustering(),
    pc.PeerClustering(loss="huber", init="random"),
    pc.PeerClustering(n_clusters=2, loss="fair", n_init=2),
    pc.PeerOutlierDetector(),
]


# Checks of scikit-learn's own estimators that `check_estimator` leaves out.
MORE_CHECKS = ["check_dataframe_column_names_consistency", "check_inplace_ensure_writeable"]
TRANSFORMER_CHECKS = [
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_global_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_global_set_output_transform_polars",
]


def all_checks(estimator):
    sparse = get_tags(estimator).input_tags.sparse
    for _, check in estimator_checks.estimator_checks_generator(estimator):
        # scikit-learn 1.6 has it for estimators that take no sparse rows, too.
        if sparse or check.func.__name__ != "check_sample_weight_equivalence_on_sparse_data":
            yield check
    for name in MORE_CHECKS + TRANSFORMER_CHECKS * hasattr(estimator, "transform"):
        yield partial(getattr(estimator_checks, name), type(estimator).__name__)


@pytest.mark.parametrize(
    ("estimator", "check"),
    [(estimator, check) for estimator in ESTIMATORS for check in all_checks(estimator)],
    ids=lambda value: getattr(getattr(value, "func", None), "__name__", None) or repr(value),
)
# Checks of set_output fit frames and transform arrays, and the other way round.
@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names:UserWarning")
def test_scikit_learns_own_checks_pass(estimator, check, monkeypatch):
    # Without it scikit-learn skips its array API check.
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    try:
        check(clone(estimator))
    except unittest.SkipTest as skipped:
        pytest.fail(f"scikit-learn skipped it: {skipped}")


def test_the_checks_include_weights_equal_repetition_and_float32():
    for estimator in ESTIMATORS:
        names = [check.func.__name__ for check in all_checks(estimator)]
        assert "check_sample_weight_equivalence_on_dense_data" in names
    tags = pc.PeerClustering().__sklearn_tags__()
    assert tags.transformer_tags.preserves_dtype == ["float64", "float32"]


def test_users_take_part_and_rows_keep_their_order():
    model = pc.PeerClustering(n_clusters=3, random_state=0).fit(X, users=SITE)
    assert model.user_names_.tolist() == ["east", "north", "south", "west"]
    assert model.user_centers_.shape == (4, 3, 4)
    for i, name in enumerate(model.user_names_):
        mine = name == SITE
        squared = ((X[mine][:, None] - model.user_centers_[i]) ** 2).sum(axis=2)
        assert np.array_equal(model.labels_[mine], squared.argmin(axis=1))
    parts = [X[name == SITE] for name in model.user_names_]
    start = model.cluster_centers_
    direct = pc.cluster(parts, n_clusters=3, rho=50, rounds=7, tol=0, init=start)
    again = pc.PeerClustering(n_clusters=3, rho=50, max_iter=7, tol=0, init=start).fit(
        X, users=SITE
    )
    assert np.array_equal(again.user_centers_, direct.centers)


def test_one_user_finds_what_kmeans_finds():
    rows, _ = make_blobs(500, centers=4, cluster_std=0.5, random_state=0)
    ours = pc.PeerClustering(n_clusters=4, n_init=3, tol=1e-8, max_iter=3000, random_state=0).fit(
        rows
    )
    theirs = KMeans(n_clusters=4, n_init=3, random_state=0).fit(rows)
    assert pc.metrics.ari(ours.labels_, theirs.labels_) == 1.0
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-6)
    assert ours.score(rows) == pytest.approx(theirs.score(rows) / 2, rel=1e-6)


def test_transform_and_predict_agree():
    model = pc.PeerClustering(n_clusters=3, random_state=0).fit(X)
    far = model.transform(X)
    expected = np.sqrt(((X[:, None] - model.cluster_centers_[None]) ** 2).sum(axis=2))
    np.testing.assert_allclose(far, expected, atol=1e-12)
    assert np.array_equal(model.predict(X), expected.argmin(axis=1))
    assert np.array_equal(model.fit_transform(X), far)


def test_sample_weights_count_in_inertia_and_score():
    w = np.random.default_rng(0).integers(0, 4, 150).astype(float)
    model = pc.PeerClustering(n_clusters=3, random_state=0).fit(X, sample_weight=w, users=SITE)
    squared = ((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2).min(axis=1)
    assert model.inertia_ == pytest.approx(w @ squared)
    assert model.score(X, sample_weight=w) == pytest.approx(-0.5 * w @ squared)


def test_weights_equal_repetition_with_users_and_a_start_of_their_own():
    w = np.random.default_rng(0).integers(0, 4, 150)
    a = pc.PeerClustering(n_clusters=3, random_state=0).fit(X, sample_weight=w, users=SITE)
    b = pc.PeerClustering(n_clusters=3, random_state=0)
    b.fit(np.repeat(X, w, axis=0), users=np.repeat(SITE, w))
    np.testing.assert_allclose(a.user_centers_, b.user_centers_, rtol=1e-9)


def test_data_frames_keep_their_names():
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = (
        pc.PeerClustering(n_clusters=3, random_state=0).set_output(transform="pandas").fit(frame)
    )
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.transform(frame).columns.tolist() == [f"peerclustering{k}" for k in range(3)]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"a": "z"}))


def test_it_works_in_a_pipeline_with_every_loss_and_distance():
    distance = pc.Mahalanobis(np.linalg.inv(np.cov((X - X.mean(0)).T)))
    for loss in ("kmeans", "huber", "logistic", "fair", pc.bregman.squared_euclidean()):
        labels = make_pipeline(
            StandardScaler(), pc.PeerClustering(n_clusters=3, loss=loss)
        ).fit_predict(X)
        assert set(labels) <= {0, 1, 2}
    model = pc.PeerClustering(n_clusters=3, distance=distance, random_state=0).fit(X)
    assert np.array_equal(model.predict(X), model.transform(X).argmin(axis=1))


@pytest.mark.parametrize("kind", [pc.PeerClustering, pc.PeerOutlierDetector])
def test_advice_names_the_parameters_of_the_estimator(kind):
    model = kind(max_iter=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="^ran out of rounds: .*more `max_iter`, or a larg"):
        status = model.fit(X, users=SITE).solution_.status
    assert status.name == "ran out of rounds"
    assert "Allow more `max_iter`, or a larger `tol`" in status.advice


@pytest.mark.parametrize("kind", [pc.PeerClustering, pc.PeerOutlierDetector])
def test_a_run_that_converged_or_was_not_to_stop_warns_of_nothing(kind):
    # Warnings are errors here.
    done = kind(n_clusters=3, random_state=0).fit(X, users=SITE)
    assert done.solution_.status.converged
    short = kind(n_clusters=3, max_iter=2, tol=0, random_state=0).fit(X, users=SITE)
    assert short.solution_.status.name == "ran out of rounds"


def test_clusters_without_rows_are_reported():
    rows = np.repeat(np.arange(11.0), 5)[:, None] * [1.0, 2.0]
    start = np.concatenate([rows[:45:5], [[500.0, 0.0], [0.0, 500.0]]])
    model = pc.PeerClustering(n_clusters=11, init=start).fit(rows, users=np.arange(55) % 4)
    assert model.solution_.status.converged
    assert "Only 9 of 11 clusters have rows" in model.solution_.status.advice
    # Where the start is drawn, each group has its own center.
    model = pc.PeerClustering(n_clusters=11, random_state=0).fit(rows, users=np.arange(55) % 4)
    assert "clusters have rows" not in model.solution_.status.advice
    assert model.inertia_ == pytest.approx(0, abs=1e-9)


def test_a_second_fit_replaces_the_users_of_the_first():
    model = pc.PeerClustering(n_clusters=2, random_state=0).fit(X, users=SITE).fit(X)
    assert model.user_names_.tolist() == [0]
    assert len(model.user_centers_) == 1


def test_parameters_set_after_a_fit_do_not_change_the_fitted_model():
    model = pc.PeerClustering(n_clusters=2, random_state=0).fit(X)
    before = model.transform(X)
    model.set_params(distance=pc.Mahalanobis(5 * np.eye(4)))
    assert np.array_equal(model.transform(X), before)


@pytest.mark.parametrize(
    "graph",
    [
        nx.Graph([("west", "north"), ("west", "south"), ("west", "east")]),
        pc.graphs.from_edges([("west", "north"), ("west", "south"), ("west", "east")]),
    ],
)
def test_a_graph_that_names_its_users_is_matched_by_name(graph):
    options = {"n_clusters": 3, "rho": 10, "max_iter": 9, "tol": 0, "init": X[:3] * [1, 2, 3, 4]}
    model = pc.PeerClustering(graph=graph, **options).fit(X, users=SITE)
    # Users come in the order east, north, south, west, so that west is user 3.
    hub = pc.graphs.from_edges([(3, 0), (3, 1), (3, 2)])
    same = pc.PeerClustering(graph=hub, **options).fit(X, users=SITE)
    np.testing.assert_allclose(model.user_centers_, same.user_centers_, rtol=1e-12)


def test_a_graph_with_other_names_is_rejected():
    graph = pc.graphs.from_edges([("west", "north"), ("west", "south"), ("west", "paris")])
    with pytest.raises(InputError, match="exactly the users; it adds 'paris' and lacks 'east'"):
        pc.PeerClustering(n_clusters=3, graph=graph).fit(X, users=SITE)


def test_the_same_seed_gives_what_cluster_gives():
    model = pc.PeerClustering(n_clusters=3, rho=20, max_iter=50, random_state=7).fit(X)
    direct = pc.cluster([X], n_clusters=3, rho=20, rounds=50, tol=1e-4, random_state=7)
    assert np.array_equal(model.user_centers_, direct.centers)


def test_search_is_that_of_cluster_and_not_of_the_detector():
    options = {"n_clusters": 6, "random_state": 3}
    for search in ("none", "swaps", "auto"):
        model = pc.PeerClustering(search=search, **options).fit(X)
        direct = pc.cluster([X], search=search, tol=1e-4, **options)
        assert np.array_equal(model.user_centers_, direct.centers)
        assert (model.solution_.certificate.moves > 0) == (search != "none")
    assert pc.PeerOutlierDetector(**options).fit(X).solution_.certificate.moves == 0
    with pytest.raises(InputError, match=r"`search` of PeerClustering must be .*mean 'swaps'"):
        pc.PeerClustering(search="swap").fit(X)


def test_transform_of_a_bregman_loss_agrees_with_predict():
    loss = pc.bregman.squared_mahalanobis(np.diag([1.0, 5.0, 0.2, 1.0]))
    model = pc.PeerClustering(n_clusters=4, loss=loss, random_state=0).fit(X)
    assert np.array_equal(model.transform(X).argmin(axis=1), model.predict(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_centers_and_distances_have_the_precision_of_the_rows(dtype):
    rows = X.astype(dtype)
    ours = pc.PeerClustering(random_state=0).fit(rows, users=SITE)
    theirs = KMeans(3, random_state=0).fit(rows)
    other = np.float64 if dtype == np.float32 else np.float32
    for model in (ours, theirs):
        assert model.cluster_centers_.dtype == dtype
        assert model.transform(rows).dtype == dtype
        assert model.transform(rows.astype(other)).dtype == np.float64
        assert model.labels_.dtype == model.predict(rows).dtype == np.int32
    assert ours.user_centers_.dtype == dtype
    assert ours.fit_transform(rows, users=SITE).dtype == dtype
    assert pc.PeerOutlierDetector(random_state=0).fit(rows).cluster_centers_.dtype == dtype
    # Centers are rounded, not computed, in the precision of the rows.
    assert ours.solution_.centers.dtype == np.float64
    assert np.array_equal(ours.labels_, ours.predict(rows))


REPEATED = np.repeat([[0.0, 0.0], [0.0, 9.0], [9.0, 0.0]], 4, axis=0)


@pytest.mark.parametrize(
    "model",
    [
        pc.PeerClustering(5, random_state=0),
        pc.PeerClustering(5, init=np.ones((5, 2))),
        pc.PeerClustering(5, init="random", solver="accelerated", rho=10, random_state=0),
        pc.PeerOutlierDetector(5, random_state=0),
        KMeans(5, random_state=0),
    ],
    ids=repr,
)
def test_more_clusters_than_distinct_rows_repeat_centers_as_in_scikit_learn(model):
    sentence = r"clusters \(3\) found smaller than n_clusters \(5\)"
    with pytest.warns(ConvergenceWarning, match=sentence):
        model.fit(REPEATED)
    assert model.cluster_centers_.shape == (5, 2)
    assert np.unique(model.cluster_centers_.round(2), axis=0).tolist() == [[0, 0], [0, 9], [9, 0]]
    assert len(set(model.labels_)) == 3
    if hasattr(model, "transform"):
        assert np.array_equal(model.labels_, model.predict(REPEATED))
        assert model.transform(REPEATED).shape == (12, 5)
        assert model.inertia_ == pytest.approx(0, abs=1e-3)


def test_repeated_rows_do_not_excuse_centers_of_the_wrong_shape():
    with pytest.raises(InputError, match=r"`init` of PeerClustering must have the shape \(5, 2\)"):
        pc.PeerClustering(5, init=np.ones((4, 2))).fit(REPEATED)
    with pytest.raises(InputError, match="at most the number of distinct rows"):
        pc.cluster([REPEATED], n_clusters=5)


def test_n_init_auto_is_scikit_learns_where_no_search_follows():
    # All restarts count in the set-up, so their number shows in its messages.
    def messages(**options):
        found = pc.PeerClustering(6, random_state=0, **options).fit(X, users=SITE)
        return found.solution_.certificate.setup_messages

    for options, restarts in (
        ({"init": "random", "search": "none"}, 10),
        ({"init": "random"}, 1),
        ({"init": "k-means++", "search": "none"}, 1),
        ({"init": "k-means++-local", "search": "none"}, 1),
        ({"init": X[::25]}, 1),
    ):
        assert messages(**options) == messages(n_init=restarts, **options)
        assert messages(**options) != messages(n_init=restarts + 1, **options)


def test_verbose_prints_runs_and_rounds(capsys):
    def lines(verbose, **options):
        pc.PeerClustering(random_state=0, verbose=verbose, **options).fit(X, users=SITE)
        printed = capsys.readouterr()
        assert printed.err == ""
        return printed.out.splitlines()

    options = {"n_init": 2, "search": "none"}
    assert lines(0, **options) == lines(False, **options) == []
    few, many = lines(1, **options), lines(2, **options)
    assert [line.split(":")[0] for line in few[:2]] == ["Run 1", "Run 2"]
    assert few[2].startswith("Converged, cost 39.4")
    assert len(few) == 3
    rounds = [int(line.split()[3].rstrip(",")) for line in few[:2]]
    assert [line for line in many if not line.startswith("Iteration")] == few
    expected = [f"Iteration {n + 1}," for length in rounds for n in range(length)]
    assert [" ".join(line.split()[:2]) for line in many if line.startswith("It")] == expected
    assert lines(2, solver="accelerated")[0].startswith("Pilot run for rho, residual 0.")


def test_verbose_prints_the_cost_of_each_run_and_of_each_move(capsys):
    model = pc.PeerClustering(random_state=3, verbose=1).fit(X)
    printed = capsys.readouterr().out
    number = r"([\d.e+-]+)"
    shown = rf": iteration (\d+), cost {number}, residual {number}"
    (run,) = re.findall(rf"^Run 1{shown}\.$", printed, flags=re.MULTILINE)
    moves = re.findall(rf"^Move (\d+){shown}, (kept|rejected)\.$", printed, flags=re.MULTILINE)
    certificate = model.solution_.certificate
    assert [int(each[0]) for each in moves] == [*range(1, certificate.moves + 1)]
    kept = [float(each[2]) for each in moves if each[4] == "kept"]
    assert len(kept) == certificate.moves_kept > 0
    assert kept == sorted(kept, reverse=True)
    assert kept[0] < float(run[1])
    assert int(run[0]) == certificate.rounds
    assert sum(int(each[1]) for each in moves) <= certificate.search_rounds
    assert printed.splitlines()[-1].startswith(f"Converged, cost {certificate.pooled_cost:.6g}")


@pytest.mark.parametrize("kind", [pc.PeerClustering, pc.PeerOutlierDetector])
def test_estimators_show_in_a_notebook(kind):
    model = kind(n_clusters=2, random_state=0)
    assert "n_clusters" in model._repr_html_()
    fitted = model.fit(X, users=SITE)._repr_html_()
    assert "Fitted" in fitted
    assert kind.__name__ in fitted


@pytest.mark.parametrize("kind", [pc.PeerClustering, pc.PeerOutlierDetector])
def test_pickles_of_another_version_are_refused(kind, monkeypatch):
    model = kind(random_state=0).fit(X, users=SITE)
    same = pickle.loads(pickle.dumps(model))
    assert np.array_equal(same.predict(X), model.predict(X))
    monkeypatch.setattr(pc, "__version__", "0.0.1")
    old = pickle.dumps(model)
    monkeypatch.undo()
    with pytest.raises(
        DataError, match=rf"^This {kind.__name__} was pickled by peerclust 0\.0\.1 "
    ):
        pickle.loads(old)
    with pytest.raises(DataError, match="by an earlier version of peerclust"):
        kind().__setstate__({"n_clusters": 3})
