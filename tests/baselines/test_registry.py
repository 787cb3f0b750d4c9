"""The methods by name: all of them run, repeat themselves, and users add their own."""

import numpy as np
import pytest

from peerclust import baselines
from peerclust.baselines import CGC, METHODS
from peerclust.errors import ParameterError


@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs_with_empty_and_small_users_and_repeats_itself(name, iris_task):
    task = iris_task()
    kept = [np.array(a) for a in (task.rows, task.start, task.pooled_start)]
    end, again = (baselines.get(name).fit(task) for _ in range(2))
    assert end.centers.shape == task.start.shape
    assert np.isfinite(end.centers).all()
    assert end.labels.shape == (150,)
    assert ((end.labels >= 0) & (end.labels < task.K)).all()
    assert end.rounds >= 1
    assert end.seconds >= 0
    for i in range(task.graph.m):
        for row in range(task.offsets[i], task.offsets[i + 1]):
            r = np.linalg.norm(end.centers[i] - task.rows[row], axis=1)
            assert r[end.labels[row]] == pytest.approx(r.min())
    for before, after in zip(kept, (task.rows, task.start, task.pooled_start), strict=True):
        np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(end.centers, again.centers)
    np.testing.assert_array_equal(end.labels, again.labels)
    assert end.traffic == again.traffic


def test_every_name_is_in_the_table_of_the_docstring():
    table = [line.split("|")[1] for line in baselines.__doc__.splitlines() if line.startswith("|")]
    names = [name.strip() for cell in table[2:] for name in cell.split(",")]
    assert sorted(names) == sorted(METHODS)


def test_an_unknown_name_names_the_nearest():
    with pytest.raises(ParameterError, match=r"Got 'CGC-KN'. Did you mean 'CGC-KM'\?"):
        baselines.get("CGC-KN")


def test_a_users_own_method_is_added_and_removed():
    mine = CGC()
    baselines.register("MINE", mine)
    try:
        assert baselines.get("MINE") is mine
        assert baselines.registered() == {"MINE": mine}
        with pytest.raises(ParameterError, match=r"`name` of register must be new\. Got 'MINE'"):
            baselines.register("MINE", mine)
    finally:
        baselines.unregister("MINE")
    assert baselines.registered() == {}
    with pytest.raises(ParameterError, match=r"`name` of baselines\.get must be one of"):
        baselines.get("MINE")


@pytest.mark.parametrize("name", ["", "DGC-KM", "../X", "A|B", None])
def test_a_name_that_is_taken_or_cannot_name_a_file_is_refused(name):
    with pytest.raises(ParameterError, match="`name` of register must be"):
        baselines.register(name, CGC())


def test_what_cannot_fit_is_no_method():
    with pytest.raises(ParameterError, match="`method` of register must have fit"):
        baselines.register("MINE", object())
    assert baselines.registered() == {}


@pytest.mark.parametrize("name", ["MINE", "DGC-KM"])
def test_only_registered_methods_can_be_removed(name):
    with pytest.raises(ParameterError, match="`name` of unregister must be one that"):
        baselines.unregister(name)
