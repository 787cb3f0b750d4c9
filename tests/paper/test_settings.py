"""The paper's settings: subsets, splits, graphs and starts as it describes them."""

import numpy as np
import pytest

from peerclust.paper.settings import SETTINGS, draw_instance, make_graph, make_task


def counts(instance):
    parts = instance.split(instance.classes)
    return np.array([np.bincount(part, minlength=instance.K) for part in parts])


def test_homogeneous_iris_gives_each_of_ten_users_five_rows_of_each_class():
    instance = draw_instance(SETTINGS["iris"], 0)
    assert (counts(instance) == 5).all()
    assert counts(instance).shape == (10, 3)
    assert instance.graph.name == "ring(10)"


def test_heterogeneous_iris_gives_each_of_fifteen_users_two_classes():
    table = counts(draw_instance(SETTINGS["iris-het"], 0))
    assert table.shape == (15, 3)
    assert ((table > 0).sum(axis=1) == 2).all()
    assert table.sum() == 150


def test_mnist7_has_a_thousand_rows_of_each_of_seven_digits(images):
    table = counts(draw_instance(SETTINGS["mnist7"], 0))
    assert table.shape == (10, 7)
    assert (table == 100).all()


def test_heterogeneous_mnist7_has_8380_rows_and_three_to_five_classes_per_user(images):
    instance = draw_instance(SETTINGS["mnist7-het"], 0)
    table = counts(instance)
    held = (table > 0).sum(axis=1)
    assert table.sum() == 8380
    assert held.min() >= 3
    assert held.max() <= 5
    assert len(set(table.sum(axis=0).tolist())) > 1
    assert (table.sum(axis=0) > 0).all()
    assert instance.graph.m == 10


def test_cifar3_is_three_classes_and_heterogeneous_users_have_two_of_them(images):
    assert (counts(draw_instance(SETTINGS["cifar3"], 0)) == 100).all()
    table = counts(draw_instance(SETTINGS["cifar3-het"], 0))
    assert ((table > 0).sum(axis=1) == 2).all()
    assert table.sum(axis=0).tolist() == [1000, 1000, 1000]


@pytest.mark.parametrize("name", ["cifar8", "mnist", "cifar10"])
def test_the_larger_sets_are_split_evenly(images, name):
    table = counts(draw_instance(SETTINGS[name], 0))
    assert np.ptp(table, axis=0).max() <= 1
    assert table.sum() == {"cifar8": 8000}.get(name, 20_000)


def test_the_gaussian_set_has_the_rows_asked_for():
    instance = draw_instance(SETTINGS["gaussians"], 3, n=4000)
    assert counts(instance).tolist() == [[100] * 4] * 10


def test_rows_and_classes_stay_together(images):
    classes = images()[1]
    instance = draw_instance(SETTINGS["mnist7-het"], 5)
    assert np.array_equal(classes[np.rint(instance.rows[:, 0] * 1e4).astype(int)], instance.classes)


@pytest.mark.parametrize("name", ["iris", "iris-het"])
def test_a_seed_fixes_an_instance_and_its_starts_and_another_changes_them(name):
    first, again, other = (draw_instance(SETTINGS[name], seed) for seed in (1, 1, 2))
    assert np.array_equal(first.rows, again.rows)
    assert not np.array_equal(first.rows, other.rows)
    tasks = [make_task(s, start="random", rho=10, rounds=1) for s in (first, again, other)]
    assert np.array_equal(tasks[0].start, tasks[1].start)
    assert not np.array_equal(tasks[0].start, tasks[2].start)
    assert tasks[0].seed == tasks[1].seed != tasks[2].seed


def test_a_warm_start_has_a_row_of_each_class_and_users_start_at_rows_of_their_own():
    instance = draw_instance(SETTINGS["iris"], 4)
    parts = list(zip(instance.split(instance.rows), instance.split(instance.classes), strict=True))
    warm = make_task(instance, start="warm", rho=10, rounds=1)
    for (rows, classes), x in zip(parts, warm.start, strict=True):
        for k in range(3):
            assert any(np.array_equal(x[k], row) for row in rows[classes == k])
    for k in range(3):
        pooled = instance.rows[instance.classes == k]
        assert any(np.array_equal(warm.pooled_start[k], row) for row in pooled)
    random = make_task(instance, start="random", rho=10, rounds=1)
    for (rows, _), x in zip(parts, random.start, strict=True):
        assert all(any(np.array_equal(center, row) for row in rows) for center in x)


def test_scikit_learn_starts_by_itself_unless_it_is_to_share_the_start_of_cgc():
    instance = draw_instance(SETTINGS["iris"], 4)
    assert make_task(instance, start="random", rho=1, rounds=1).sklearn_start is None
    shared = make_task(instance, start="random", rho=1, rounds=1, sklearn="pooled")
    assert np.array_equal(shared.sklearn_start, shared.pooled_start)


def test_every_setting_is_connected_and_names_its_data():
    for setting in SETTINGS.values():
        assert setting.data in ("iris", "gaussians", "mnist", "cifar10")
        make_graph(setting, 0).check_connected("the graph")
