"""A solution saved and loaded is the same solution; a failed save leaves nothing behind."""

import copy
import hashlib
import pickle
from dataclasses import replace

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest

import peerclust as pc
from peerclust.clustering import pickles
from peerclust.errors import DataError, ParameterError

RNG = np.random.default_rng(0)
PARTS = [RNG.normal(size=(n, 2)) for n in (12, 0, 9)]


def solve(**options):
    return pc.cluster(PARTS, n_clusters=2, rho=20, rounds=30, random_state=0, **options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"loss": pc.Huber(0.3), "trace": True},
        {"scale": "standard"},
        {"loss": pc.Fair(2.0), "distance": pc.Mahalanobis([[2.0, 0.5], [0.5, 1.0]])},
    ],
)
def test_a_loaded_solution_is_the_one_that_was_saved(tmp_path, options):
    solution = solve(**options)
    path = tmp_path / "solution.npz"
    solution.save(path)
    loaded = pc.Solution.load(path)
    assert np.array_equal(loaded.centers, solution.centers)
    assert [part.tolist() for part in loaded.labels] == [part.tolist() for part in solution.labels]
    assert loaded.status == solution.status
    assert loaded.certificate == solution.certificate
    assert (loaded.rho, loaded.alpha, loaded.why) == (solution.rho, solution.alpha, solution.why)
    assert loaded.loss == solution.loss
    assert (loaded.scale is None) == ("scale" not in options)
    rows = RNG.normal(size=(50, 2))
    assert np.array_equal(loaded.predict(rows), solution.predict(rows))
    assert np.array_equal(loaded.outlier_scores(rows), solution.outlier_scores(rows))
    assert loaded.feature_names is None
    if solution.trace is not None:
        assert np.array_equal(loaded.trace.cost, solution.trace.cost)


def test_predictions_are_the_nearest_consensus_centers():
    A = np.array([[2.0, 0.5], [0.5, 1.0]])
    solution = solve(distance=pc.Mahalanobis(A))
    rows = RNG.normal(size=(50, 2))
    step = rows[:, None] - solution.consensus[None]
    squared = np.einsum("nki,ij,nkj->nk", step, A, step)
    assert np.array_equal(solution.predict(rows), squared.argmin(axis=1))
    np.testing.assert_allclose(solution.outlier_scores(rows), np.sqrt(squared.min(axis=1)))


def test_scaled_predictions_are_nearest_in_scaled_units():
    parts = [part * [1.0, 500.0] for part in PARTS]
    solution = pc.cluster(parts, n_clusters=2, rho=20, rounds=30, random_state=0, scale="standard")
    deviation = np.concatenate(parts).std(axis=0)
    rows = RNG.normal(size=(50, 2)) * [1.0, 500.0]
    for centers, scores in (
        (solution.consensus, solution.outlier_scores(rows)),
        (solution.centers[2], solution.outlier_scores(rows, user=2)),
    ):
        far = np.linalg.norm((rows[:, None] - centers[None]) / deviation, axis=2)
        np.testing.assert_allclose(scores, far.min(axis=1), rtol=1e-9)
    far = np.linalg.norm((rows[:, None] - solution.consensus) / deviation, axis=2)
    assert np.array_equal(solution.predict(rows), far.argmin(axis=1))
    for i, part in enumerate(parts):
        far = np.linalg.norm((part[:, None] - solution.centers[i]) / deviation, axis=2)
        assert np.array_equal(solution.labels[i], far.argmin(axis=1))


def test_a_custom_loss_must_be_passed_again(tmp_path):
    solution = solve(loss=pc.bregman.squared_euclidean())
    path = tmp_path / "solution.npz"
    solution.save(path)
    with pytest.raises(ParameterError, match="load it with"):
        pc.Solution.load(path).predict(PARTS[0])
    again = pc.Solution.load(path, loss=pc.bregman.squared_euclidean())
    assert np.array_equal(again.predict(PARTS[0]), solution.predict(PARTS[0]))


def test_a_failed_save_keeps_the_old_file_and_leaves_no_other(tmp_path, monkeypatch):
    path = tmp_path / "solution.npz"
    solve().save(path)
    before = path.read_bytes()

    def fail(file, **_):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(OSError, match="disk full"):
        solve().save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_damaged_file_does_no_more_than_raise_a_data_error(tmp_path):
    path, rng = tmp_path / "solution.npz", np.random.default_rng(0)
    solve().save(path)
    whole = np.frombuffer(path.read_bytes(), np.uint8)
    refused = 0
    for _ in range(200):
        damaged = whole.copy()
        damaged[rng.integers(len(whole), size=3)] = rng.integers(256, size=3)
        path.write_bytes(damaged.tobytes())
        try:
            pc.Solution.load(path)
        except DataError:
            refused += 1
    assert refused > 100


def test_bad_files_and_rows_get_one_sentence(tmp_path):
    with pytest.raises(DataError, match="There is no file"):
        pc.Solution.load(tmp_path / "nothing.npz")
    other = tmp_path / "other.npz"
    np.savez(other, a=np.zeros(3))
    with pytest.raises(DataError, match="not a solution that peerclust saved"):
        pc.Solution.load(other)
    text = tmp_path / "text.npz"
    text.write_text("hello")
    with pytest.raises(DataError, match="not a solution that peerclust saved"):
        pc.Solution.load(text)
    for method in ("predict", "outlier_scores"):
        with pytest.raises(DataError, match=rf"^The rows of {method} must have 2 features\. Got 3"):
            getattr(solve(), method)(np.zeros((1, 3)))
    with pytest.raises(DataError, match="Row 1 of predict must be finite"):
        solve().predict(np.array([[0.0, 0.0], [np.nan, 0.0]]))


def test_feature_names_are_saved(tmp_path):
    replace(solve(), feature_names=("a", "b")).save(tmp_path / "solution.npz")
    assert pc.Solution.load(tmp_path / "solution.npz").feature_names == ("a", "b")


def through_joblib(solution, folder):
    joblib.dump(solution, folder / "solution.joblib")
    return joblib.load(folder / "solution.joblib")


@pytest.mark.parametrize(
    "carry",
    [
        lambda solution, _: pickle.loads(pickle.dumps(solution)),
        lambda solution, _: pickle.loads(pickle.dumps(solution, protocol=0)),
        through_joblib,
        lambda solution, _: copy.deepcopy(solution),
    ],
)
def test_a_pickled_solution_is_the_same_in_the_same_version(carry, tmp_path):
    solution = solve(scale="standard", trace=True)
    again = carry(solution, tmp_path)
    assert vars(again).keys() == vars(solution).keys()
    assert np.array_equal(again.centers, solution.centers)
    assert (again.status, again.certificate) == (solution.status, solution.certificate)
    assert np.array_equal(again.trace.cost, solution.trace.cost)
    assert np.array_equal(again.predict(PARTS[0]), solution.predict(PARTS[0]))


def test_a_pickle_of_another_version_is_refused_with_both_versions(monkeypatch, tmp_path):
    model = pc.PeerClustering(2, random_state=0).fit(PARTS[0])
    monkeypatch.setattr(pc, "__version__", "0.0.9")
    joblib.dump(model.solution_, tmp_path / "solution.joblib")
    written = pickle.dumps(model)
    monkeypatch.setattr(pc, "__version__", "7.1")
    for load in (
        lambda: pickle.loads(written),
        lambda: joblib.load(tmp_path / "solution.joblib"),
    ):
        with pytest.raises(DataError, match=r"by peerclust 0\.0\.9 .* is peerclust 7\.1 "):
            load()


def test_a_pickle_of_another_format_is_refused(monkeypatch):
    written = pickle.dumps(solve())
    monkeypatch.setattr(pickles, "FORMAT", pickles.FORMAT + 1)
    with pytest.raises(DataError, match=r"by peerclust .* \(format 2\), .* \(format 3\)\."):
        pickle.loads(written)


def attributes(value):
    """Return the attributes of a value and of its own values that are of peerclust, by class."""
    found = {type(value).__name__: sorted(vars(value))}
    for each in vars(value).values():
        if type(each).__module__.startswith("peerclust") and hasattr(each, "__dict__"):
            found |= attributes(each)
    return found


def test_what_is_pickled_has_the_attributes_of_the_recorded_format():
    pooled = np.concatenate(PARTS)
    held = attributes(solve(scale="standard", trace=True))
    for kind in (pc.PeerClustering, pc.PeerOutlierDetector):
        held |= attributes(kind(2, random_state=0).fit(pooled))
    found = hashlib.sha256(repr(sorted(held.items())).encode()).hexdigest()[:16]
    # If this fails, raise FORMAT and record the new digest.
    assert (pickles.FORMAT, found) == (2, "b4a0f82b9335d849")


def test_a_pickle_of_another_version_is_refused_before_its_contents_are_read(monkeypatch):
    written = pickle.dumps(replace(solve(), part=WillBeGone()))
    monkeypatch.delattr(f"{__name__}.WillBeGone")
    monkeypatch.setattr(pc, "__version__", "7.1")
    with pytest.raises(DataError, match="only the same version can load it"):
        pickle.loads(written)


class WillBeGone:
    pass


def test_a_pickle_without_a_version_is_refused():
    solution = object.__new__(pc.Solution)
    with pytest.raises(DataError, match="pickled by an earlier version of peerclust"):
        solution.__setstate__(vars(solve()))


def test_columns_of_a_frame_are_matched_by_name():
    rows = np.random.default_rng(0).normal(size=(60, 3))
    frame = pd.DataFrame(rows, columns=list("abc"))
    solution = pc.PeerClustering(3, random_state=0).fit(frame).solution_
    expected = solution.predict(rows)
    for other in (frame[list("cab")], frame.assign(site="x"), pl.DataFrame(rows, list("abc"))):
        assert np.array_equal(solution.predict(other), expected)
    with pytest.raises(ValueError, match=r"must have the columns a, b, c\. There is no 'b'"):
        solution.predict(frame[["a", "c"]])
