"""The paper's settings: subsets, splits, graphs and starts as it describes them."""

from dataclasses import replace

import numpy as np
import pytest

from peerclust import datasets
from peerclust.experiments import setting as module
from peerclust.experiments.setting import SETTINGS, make_scene, make_task


@pytest.fixture
def images(monkeypatch):
    """Small stand-ins for MNIST and CIFAR-10: rows of three numbers, the first of them unique."""

    def make(data_dir=None):
        rng = np.random.default_rng(0)
        classes = rng.integers(0, 10, 20_000).astype(np.intp)
        rows = rng.random((20_000, 3), dtype=np.float32) + classes[:, None].astype(np.float32)
        rows[:, 0] = np.arange(20_000)
        return rows, classes

    monkeypatch.setattr(datasets, "mnist", make)
    monkeypatch.setattr(datasets, "cifar10", make)
    module.load.cache_clear()
    yield make
    module.load.cache_clear()


def counts(scene):
    parts = np.split(scene.classes, scene.offsets[1:-1])
    return np.array([np.bincount(part, minlength=scene.K) for part in parts])


def test_homogeneous_iris_gives_each_of_ten_users_five_rows_of_each_class():
    scene = make_scene(SETTINGS["iris"], 0)
    assert (counts(scene) == 5).all()
    assert counts(scene).shape == (10, 3)
    assert scene.graph.name == "ring(10)"


def test_heterogeneous_iris_gives_each_of_fifteen_users_two_classes():
    table = counts(make_scene(SETTINGS["iris-het"], 0))
    assert table.shape == (15, 3)
    assert ((table > 0).sum(axis=1) == 2).all()
    assert table.sum() == 150


def test_mnist7_has_a_thousand_rows_of_each_of_seven_digits(images):
    table = counts(make_scene(SETTINGS["mnist7"], 0))
    assert table.shape == (10, 7)
    assert (table == 100).all()


def test_heterogeneous_mnist7_has_8380_rows_and_three_to_five_classes_a_user(images):
    scene = make_scene(SETTINGS["mnist7-het"], 0)
    table = counts(scene)
    held = (table > 0).sum(axis=1)
    assert table.sum() == 8380
    assert held.min() >= 3
    assert held.max() <= 5
    assert len(set(table.sum(axis=0).tolist())) > 1
    assert (table.sum(axis=0) > 0).all()
    assert scene.graph.m == 10


def test_cifar3_is_three_classes_and_heterogeneous_users_have_two_of_them(images):
    assert (counts(make_scene(SETTINGS["cifar3"], 0)) == 100).all()
    table = counts(make_scene(SETTINGS["cifar3-het"], 0))
    assert ((table > 0).sum(axis=1) == 2).all()
    assert table.sum(axis=0).tolist() == [1000, 1000, 1000]


@pytest.mark.parametrize("name", ["cifar8", "mnist", "cifar10"])
def test_the_larger_sets_are_spread_copy_with(images, name):
    table = counts(make_scene(SETTINGS[name], 0))
    assert np.ptp(table, axis=0).max() <= 1
    assert table.sum() == {"cifar8": 8000}.get(name, 20_000)


def test_the_gaussian_set_has_the_rows_asked_for():
    scene = make_scene(SETTINGS["gaussians"], 3, n=4000)
    assert counts(scene).tolist() == [[100] * 4] * 10


def test_rows_and_classes_stay_together(images):
    classes = images()[1]
    scene = make_scene(SETTINGS["mnist7-het"], 5)
    assert np.array_equal(classes[scene.rows[:, 0].astype(int)], scene.classes)


@pytest.mark.parametrize("name", ["iris", "iris-het"])
def test_a_seed_fixes_a_scene_and_its_starts_and_another_changes_them(name):
    first, again, other = (make_scene(SETTINGS[name], seed) for seed in (1, 1, 2))
    assert np.array_equal(first.rows, again.rows)
    assert not np.array_equal(first.rows, other.rows)
    tasks = [make_task(s, start="random", rho=10, rounds=1) for s in (first, again, other)]
    assert np.array_equal(tasks[0].start, tasks[1].start)
    assert not np.array_equal(tasks[0].start, tasks[2].start)
    assert tasks[0].seed == tasks[1].seed != tasks[2].seed


def test_a_warm_start_has_a_row_of_each_class_and_users_start_at_rows_of_their_own():
    scene = make_scene(SETTINGS["iris"], 4)
    parts = list(zip(scene.parts, np.split(scene.classes, scene.offsets[1:-1]), strict=True))
    warm = make_task(scene, start="warm", rho=10, rounds=1)
    for (rows, classes), x in zip(parts, warm.start, strict=True):
        for k in range(3):
            assert any(np.array_equal(x[k], row) for row in rows[classes == k])
    for k in range(3):
        pooled = scene.rows[scene.classes == k]
        assert any(np.array_equal(warm.pooled_start[k], row) for row in pooled)
    random = make_task(scene, start="random", rho=10, rounds=1)
    for (rows, _), x in zip(parts, random.start, strict=True):
        assert all(any(np.array_equal(center, row) for row in rows) for center in x)


def test_scikit_learn_starts_by_itself_unless_it_is_to_share_the_start_of_cgc():
    scene = make_scene(SETTINGS["iris"], 4)
    assert make_task(scene, start="random", rho=1, rounds=1).sklearn_start is None
    shared = make_task(scene, start="random", rho=1, rounds=1, sklearn="pooled")
    assert np.array_equal(shared.sklearn_start, shared.pooled_start)


def test_every_setting_is_connected_and_names_its_data():
    for setting in SETTINGS.values():
        assert setting.data in ("iris", "gaussians", "mnist", "cifar10")
        module.make_graph(replace(setting), 0).check_connected("the graph")
