"""The methods by name, and those that see all rows or one user's beside their definitions."""

from dataclasses import replace
from math import exp

import numpy as np
import pytest
from sklearn.cluster import KMeans as Sklearn

from peerclust import datasets, graphs, methods
from peerclust.errors import InputError, ParameterError
from peerclust.losses import Fair, Huber, KMeans, Logistic
from peerclust.baselines import CGC, LGC, METHODS, SklearnKMeans, Task
from peerclust.baselines.protocol import check_outcome
from peerclust.programs.lsp2p import LSP2P
from peerclust.runtimes import Simulator
from peerclust.users import Users

K, m, ROUNDS = 3, 5, 12


def iris_task(**changes):
    """Iris over 5 users on a ring: one without rows, one with 2."""
    rng = np.random.default_rng(0)
    rows, _ = datasets.iris()
    rows = rows[rng.permutation(len(rows))]
    given = {
        "rows": rows,
        "offsets": np.array([0, 60, 60, 62, 100, 150]),
        "graph": graphs.ring(m),
        "start": rows[rng.choice(150, (m, K))],
        "pooled_start": rows[rng.choice(150, K, replace=False)],
        "rho": 10.0,
        "rounds": ROUNDS,
    }
    return Task(**given | changes)


# grad f(x, y) = gamma(r) (x - y), and the longest step times the number of rows.
STEPS = {
    "KM": (KMeans(), lambda r: 1.0, 0.5),
    "HL": (Huber(0.7), lambda r: min(1.0, 0.7 / r) if r > 0 else 1.0, 0.5),
    "LL": (Logistic(), lambda r: 2 / (1 + exp(-r * r)), 0.99 / Logistic().smoothness),
    "FL": (Fair(1.0), lambda r: 4 * r * r / (1 + r * r), 0.99 / 4.5),
}


def gradient_clustering(x, rows, gamma, step, rounds):
    """x(k) <- x(k) - alpha sum over C(k) of grad f(x(k), y), written out."""
    for _ in range(rounds):
        pull = np.zeros_like(x)
        for y in rows:
            r = [np.linalg.norm(x[k] - y) for k in range(len(x))]
            k = int(np.argmin(r))
            pull[k] += gamma(r[k]) * (x[k] - y)
        x = x - step / max(len(rows), 1) * pull
    return x


@pytest.mark.parametrize("name", STEPS)
def test_cgc_is_gradient_clustering_of_all_rows(name):
    loss, gamma, step = STEPS[name]
    task = iris_task()
    end = CGC(loss).fit(task)
    expected = gradient_clustering(task.pooled_start, task.rows, gamma, step, ROUNDS)
    np.testing.assert_allclose(end.centers, np.repeat(expected[None], m, axis=0), atol=1e-10)
    assert (end.rounds, end.traffic.messages) == (ROUNDS, 0)


@pytest.mark.parametrize("name", STEPS)
def test_lgc_is_cgc_on_each_users_rows_alone(name):
    loss = STEPS[name][0]
    task = iris_task()
    end = LGC(loss).fit(task)
    for i in (0, 2, 3, 4):
        here = slice(task.offsets[i], task.offsets[i + 1])
        rows = task.rows[here]
        alone = iris_task(
            rows=rows, offsets=np.array([0, len(rows)]), graph=graphs.path(1),
            start=task.start[i : i + 1], pooled_start=task.start[i],
        )  # fmt: skip
        own = CGC(loss).fit(alone)
        np.testing.assert_array_equal(end.centers[i], own.centers[0])
        np.testing.assert_array_equal(end.labels[here], own.labels)
    np.testing.assert_array_equal(end.centers[1], task.start[1])  # without rows it stays


@pytest.mark.parametrize("given", [True, False], ids=["start", "k-means++"])
def test_skl_is_scikit_learn(given):
    task = iris_task(rounds=50, seed=3)
    task = iris_task(rounds=50, seed=3, sklearn_start=task.pooled_start if given else None)
    init = task.pooled_start if given else "k-means++"
    starts = 1 if given else 10
    model = Sklearn(3, init=init, n_init=starts, max_iter=50, random_state=3).fit(task.rows)
    end = SklearnKMeans().fit(task)
    np.testing.assert_array_equal(end.centers, np.repeat(model.cluster_centers_[None], m, axis=0))
    np.testing.assert_array_equal(end.labels, model.labels_)
    assert end.rounds == model.n_iter_


def test_lsp2p_floods_the_pooled_start_and_that_is_counted():
    task = iris_task()
    end = methods.get("LSP2P-KM").fit(task)
    users = Users(task.rows, task.offsets)
    start = np.repeat(task.pooled_start[None], m, axis=0)
    run = Simulator(task.graph).run(LSP2P(), users, start, rounds=ROUNDS)
    np.testing.assert_array_equal(end.centers, run.x)
    flood = end.traffic - run.traffic
    # All 5 users send the K x 4 numbers to both neighbors.
    assert (flood.messages, flood.bytes) == (m * 2, m * 2 * K * 4 * 8)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs_with_empty_and_small_users(name):
    task = iris_task(rounds=40)
    kept = [np.array(a) for a in (task.rows, task.start, task.pooled_start)]
    end = methods.get(name).fit(task)
    assert end.centers.shape == (m, K, 4)
    assert np.isfinite(end.centers).all()
    assert end.labels.shape == (150,)
    assert ((end.labels >= 0) & (end.labels < K)).all()
    assert end.rounds >= 1
    assert end.seconds >= 0
    for i in range(m):
        for row in range(task.offsets[i], task.offsets[i + 1]):
            r = np.linalg.norm(end.centers[i] - task.rows[row], axis=1)
            assert r[end.labels[row]] == pytest.approx(r.min())
    for before, after in zip(kept, (task.rows, task.start, task.pooled_start), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_the_same_again(name):
    task = iris_task()
    one, two = (methods.get(name).fit(task) for _ in range(2))
    np.testing.assert_array_equal(one.centers, two.centers)
    np.testing.assert_array_equal(one.labels, two.labels)
    assert one.traffic == two.traffic


def test_every_name_is_in_the_table_of_the_docstring():
    table = [line.split("|")[1] for line in methods.__doc__.splitlines() if line.startswith("|")]
    names = [name.strip() for cell in table[2:] for name in cell.split(",")]
    assert sorted(names) == sorted(METHODS)


def test_an_unknown_name_names_the_nearest():
    with pytest.raises(ParameterError, match=r"Got 'CGC-KN'. Did you mean 'CGC-KM'\?"):
        methods.get("CGC-KN")


def test_a_method_of_ones_own_joins_and_leaves():
    mine = CGC()
    methods.register("MINE", mine)
    try:
        assert methods.get("MINE") is mine
        assert methods.registered() == {"MINE": mine}
        with pytest.raises(ParameterError, match=r"`name` of register must be new\. Got 'MINE'"):
            methods.register("MINE", mine)
    finally:
        methods.unregister("MINE")
    assert methods.registered() == {}
    with pytest.raises(ParameterError, match=r"`name` of methods\.get must be one of"):
        methods.get("MINE")


@pytest.mark.parametrize("name", ["", "DGC-KM", "../X", "A|B", None])
def test_a_name_that_is_taken_or_cannot_name_a_file_is_refused(name):
    with pytest.raises(ParameterError, match="`name` of register must be"):
        methods.register(name, CGC())


def test_what_cannot_fit_is_no_method():
    with pytest.raises(ParameterError, match="`method` of register must have fit"):
        methods.register("MINE", object())
    assert methods.registered() == {}


@pytest.mark.parametrize("name", ["MINE", "DGC-KM"])
def test_only_what_was_registered_can_be_taken_out(name):
    with pytest.raises(ParameterError, match="`name` of unregister must be one that"):
        methods.unregister(name)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"offsets": np.array([0, 3, 140])}, "The offsets of `parts` must be"),
        ({"rows": [[1.0]]}, "`rows` and `offsets` of Task must be arrays."),
        ({"graph": graphs.ring(9)}, "`graph` of Task must have 5 users. Got 9."),
        ({"start": np.zeros((3, 4))}, "`start` of Task must have the shape (5, K, 4). Got (3, 4)."),
        ({"pooled_start": np.zeros((2, 4))}, "`pooled_start` of Task must have the shape (3, 4)."),
        ({"rho": 0.0}, "`rho` of Task must be a number > 0. Got 0.0."),
        ({"rounds": 0}, "`rounds` of Task must be a whole number >= 1. Got 0."),
    ],
)
def test_a_task_that_does_not_fit_together_is_refused(change, sentence):
    with pytest.raises(InputError) as error:
        iris_task(**change)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"labels": None}, "`labels` of the outcome of MINE must be"),
        ({"labels": np.full(150, 9)}, "whole numbers from 0 to 2"),
        ({"centers": np.zeros((3, 4))}, "`centers` of the outcome of MINE must be finite"),
        ({"traffic": None}, "`traffic` of the outcome of MINE must be a Traffic. Got NoneType."),
    ],
)
def test_an_outcome_that_does_not_fit_its_task_is_refused(change, sentence):
    task = iris_task(rounds=1)
    outcome = replace(methods.get("LGC-KM").fit(task), **change)
    with pytest.raises(ParameterError) as error:
        check_outcome(outcome, task, "MINE")
    assert sentence in str(error.value)
    with pytest.raises(ParameterError, match=r"must give an Outcome\. Got NoneType"):
        check_outcome(None, task, "MINE")
