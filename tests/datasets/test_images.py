"""Which files are found, what OpenML may return, and the subsets of images."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import sklearn.datasets
from published import (
    ALL,
    COLOR_LABELS,
    COLORS,
    COUNT,
    DIGIT_LABELS,
    DIGITS,
    batches,
    check,
    inside,
    rejected,
    write_binary,
    write_idx,
    write_npz,
    write_pickles,
)

from peerclust import datasets
from peerclust.datasets import images as module
from peerclust.errors import DataError, ParameterError


@pytest.fixture(autouse=True)
def few_images(monkeypatch):
    monkeypatch.setattr(module, "N_IMAGES", COUNT)

    def offline(*args, **kwargs):
        raise AssertionError("a test reached for the network")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", offline)


def test_the_first_format_is_read_where_there_are_several(tmp_path):
    write_npz(tmp_path / "mnist.npz", DIGITS[::-1], DIGIT_LABELS[::-1])
    write_idx(tmp_path)
    assert datasets.mnist(tmp_path)[1].tolist() == DIGIT_LABELS[::-1][:COUNT].tolist()
    inside("cifar-10-batches-py", write_pickles)(tmp_path)
    for i in range(1, 6):
        (tmp_path / f"data_batch_{i}.bin").write_bytes(b"not read")
    check(datasets.cifar10(tmp_path), COLORS, COLOR_LABELS)


def test_a_complete_format_is_preferred_to_an_incomplete_one(tmp_path):
    write_pickles(tmp_path)
    (tmp_path / "data_batch_4").unlink()
    write_binary(tmp_path)
    check(datasets.cifar10(tmp_path), COLORS, COLOR_LABELS)


def test_a_folder_without_the_files_is_rejected_naming_them_and_their_publisher(tmp_path):
    assert rejected(datasets.mnist, tmp_path) == (
        "`data_dir` of mnist must have mnist.npz (the Keras file of that name) or, there or in"
        " MNIST/raw, the official train-images-idx3-ubyte and train-labels-idx1-ubyte (or these as"
        f" .gz). Got {tmp_path}, with none of them."
    )
    assert rejected(datasets.cifar10, tmp_path) == (
        "`data_dir` of cifar10 must have cifar10.npz (arrays X_train and y_train) or, unpacked"
        " from the official cifar-10-python.tar.gz or cifar-10-binary.tar.gz, data_batch_1 to"
        " data_batch_5 or data_batch_1.bin to data_batch_5.bin."
        f" Got {tmp_path}, with none of them."
    )


def test_the_file_that_is_missing_among_others_is_named(tmp_path):
    write_idx(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").unlink()
    sentence = rejected(datasets.mnist, tmp_path)
    assert sentence.endswith(f"Got {tmp_path}, with no train-labels-idx1-ubyte in {tmp_path}.")
    inside("cifar-10-batches-py", write_pickles)(tmp_path)
    folder = tmp_path / "cifar-10-batches-py"
    (folder / "data_batch_3").unlink()
    assert rejected(datasets.cifar10, tmp_path).endswith(f", with no data_batch_3 in {folder}.")


@pytest.mark.parametrize("given", ["nowhere", 5, "a.npz", "a\0b"])
def test_what_is_not_a_folder_is_rejected(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.npz").touch()
    sentence = rejected(datasets.mnist, given)
    assert sentence == f"`data_dir` of mnist must be a folder. Got {given}."


def test_a_folder_that_may_not_be_read_is_rejected(tmp_path, monkeypatch):
    def deny(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_file", deny)
    sentence = rejected(datasets.mnist, tmp_path)
    assert sentence == f"The folder {tmp_path} cannot be read: Permission denied."


def test_too_few_images_are_rejected_with_the_names_of_all_files(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "N_IMAGES", 26)
    write_binary(tmp_path)
    names = ", ".join(f"data_batch_{i}.bin" for i in range(1, 6))
    sentence = rejected(datasets.cifar10, tmp_path)
    assert sentence == f"There must be 26 images in {names} in {tmp_path}. Got 25."


@pytest.mark.parametrize("kind", [np.float64, np.int64, object])
@pytest.mark.parametrize("named", [str, int])
def test_openml_gives_the_same_rows(kind, named, monkeypatch):
    planes = np.concatenate([planes for _, planes, _ in batches()])

    def fetch(name=None, *, version="active", data_id=None, **options):
        assert options.pop("parser") in ("pandas", "liac-arff")
        assert options == {"as_frame": False, "return_X_y": True}
        assert (name, version, data_id) in [("mnist_784", 1, None), (None, "active", 40927)]
        rows, labels = (DIGITS, DIGIT_LABELS) if name else (planes, COLOR_LABELS)
        return rows.reshape(ALL, -1).astype(kind), np.array([*map(named, labels)], dtype=object)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    check(datasets.mnist(), DIGITS, DIGIT_LABELS)
    check(datasets.cifar10(), COLORS, COLOR_LABELS)


@pytest.mark.parametrize("pandas", [None, "here"])
def test_openml_is_read_without_pandas_where_there_is_none(pandas, monkeypatch):
    parsers = []

    def fetch(*args, parser, **options):
        parsers.append(parser)
        return DIGITS.reshape(ALL, 784), DIGIT_LABELS

    monkeypatch.setattr(module, "find_spec", lambda name: pandas)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    datasets.mnist()
    assert parsers == ["pandas" if pandas else "liac-arff"]


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (URLError("no route"), "<urlopen error no route>"),
        (TimeoutError(), "TimeoutError"),
        (ValueError("md5 checksum\ndoes not match."), "md5 checksum does not match"),
    ],
)
@pytest.mark.parametrize("load", [datasets.mnist, datasets.cifar10])
def test_openml_out_of_reach_is_one_sentence_and_no_warning(load, error, why, monkeypatch):
    def fail(*args, **kwargs):
        warnings.warn("A network error occurred while downloading. Retrying...", stacklevel=1)
        raise error

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fail)
    sentence = rejected(load)
    name = load.__name__
    assert sentence.startswith(f"Cannot download the images of {name} from OpenML ({why}); pass")
    assert f"pass `data_dir`, a folder that contains {name}.npz" in sentence


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (DIGITS.reshape(ALL, 784) + 1.0, "pixels outside 0 to 255"),
        (DIGITS.reshape(ALL, 784)[:9], "There must be 20 images in mnist at OpenML. Got 9"),
        (DIGITS.reshape(ALL, 784)[:, 1:], r"The images of mnist at OpenML .* 783\)"),
    ],
)
def test_openml_with_other_rows_is_rejected(rows, sentence, monkeypatch):
    found = rows, DIGIT_LABELS[: len(rows)]
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", lambda *args, **kwargs: found)
    assert re.search(sentence, rejected(datasets.mnist))


# Labels in no order for the subsets, with a class 9 that is never requested.
NAMES = np.random.default_rng(3).choice([0, 1, 2, 9], p=[0.5, 0.2, 0.2, 0.1], size=600)
ROWS = np.arange(1200, dtype=np.float32).reshape(600, 2)


def test_first_classes_has_equally_many_rows_of_each_class_in_their_order():
    rows, classes = datasets.first_classes(ROWS, NAMES, 3, 40, random_state=0)
    chosen = rows[:, 0].astype(int) // 2
    assert rows.dtype == np.float32
    assert (np.diff(chosen) > 0).all()
    assert np.array_equal(rows, ROWS[chosen])
    assert np.array_equal(classes, NAMES[chosen])
    assert np.bincount(classes).tolist() == [40, 40, 40]


def test_uneven_classes_draws_rows_uniformly_and_classes_in_random_proportions():
    share, ratios = np.zeros(600), []
    for seed in range(2000):
        rows, classes = datasets.uneven_classes(ROWS, NAMES, 2, 100, random_state=seed)
        chosen = rows[:, 0].astype(int) // 2
        assert len(chosen) == 100
        assert (np.diff(chosen) > 0).all()
        share[chosen] += 1 / 2000
        ratios.append((classes == 0).mean())
    assert np.array_equal(classes, NAMES[chosen])
    assert not share[NAMES == 2].any()
    for c in (0, 1):
        # five standard errors for some 200 rows that are equally likely
        p = share[c == NAMES].mean()
        off = 5 * np.sqrt(p * (1 - p) / 2000)
        np.testing.assert_allclose(share[c == NAMES], p, atol=off)
    # a share of Dirichlet(10, 10) has the mean 1/2 and the variance 1/84
    assert np.mean(ratios) == pytest.approx(0.5, abs=0.05)  # drawn without replacement
    assert np.std(ratios) == pytest.approx(84**-0.5, rel=0.25)


@pytest.mark.parametrize("cut", [datasets.first_classes, datasets.uneven_classes])
def test_a_seed_fixes_the_subset_and_another_changes_it(cut):
    first, same, generator, other = (
        cut(ROWS, NAMES, 3, 30, random_state=seed)[0]
        for seed in (1, 1, np.random.default_rng(1), 2)
    )
    assert np.array_equal(first, same)
    assert np.array_equal(first, generator)
    assert not np.array_equal(first, other)


def test_subsets_may_be_all_rows_and_never_touch_what_was_given():
    rows, classes = np.eye(4, dtype=np.uint8), [1, 0, 0, 1]
    found = [
        datasets.first_classes(rows, classes, 2, 2),
        datasets.uneven_classes(rows, classes, 2, 4),
    ]
    for mine, labels in found:
        assert np.array_equal(mine, rows)
        assert labels.tolist() == classes
        mine[:] = 7
    assert np.array_equal(rows, np.eye(4))


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (
            lambda: datasets.first_classes(ROWS, [0] * 599 + [1], 2, 2),
            ParameterError,
            "`per_class` of first_classes must be at most 1, the rows of class 1. Got 2.",
        ),
        (
            lambda: datasets.first_classes(ROWS, NAMES, 10, 2),
            ParameterError,
            "`n_classes` of first_classes must be at most 3, as class 3 has no rows. Got 10.",
        ),
        (
            lambda: datasets.uneven_classes(ROWS, NAMES, 10**30, 2),
            ParameterError,
            "`n_classes` of uneven_classes must be at most 3, as class 3 has no rows.",
        ),
        (
            lambda: datasets.uneven_classes(ROWS, [0, 1, 2] * 200, 2, 401),
            ParameterError,
            "`n` of uneven_classes must be at most 400, the rows of the first 2 classes. Got 401.",
        ),
        (
            lambda: datasets.first_classes(ROWS, NAMES, 3, 0),
            ParameterError,
            "`per_class` of first_classes must be a whole number >= 1. Got 0.",
        ),
        (
            lambda: datasets.uneven_classes(ROWS, NAMES, 3, 2.5),
            ParameterError,
            "`n` of uneven_classes must be a whole number >= 1. Got 2.5.",
        ),
        (
            lambda: datasets.uneven_classes(ROWS, NAMES, 0, 2),
            ParameterError,
            "`n_classes` of uneven_classes must be a whole number >= 1. Got 0.",
        ),
        (
            lambda: datasets.first_classes(ROWS, NAMES, 3, 5, random_state="a"),
            ParameterError,
            "`random_state` of first_classes must be None",
        ),
        (
            lambda: datasets.first_classes(ROWS, NAMES[1:], 3, 5),
            DataError,
            "`classes` of first_classes must be a whole number for each of the rows, of shape"
            " (600, 2). Got int64 of shape (599,).",
        ),
        (
            lambda: datasets.uneven_classes(ROWS, NAMES / 2, 3, 5),
            DataError,
            "Got float64 of shape (600,).",
        ),
        (
            lambda: datasets.uneven_classes([[1], [1, 2]], [0, 0], 1, 1),
            DataError,
            "`rows` and `classes` of uneven_classes must be arrays.",
        ),
    ],
)
def test_an_impossible_subset_is_rejected_with_a_sentence(call, error, sentence):
    with pytest.raises(error, match=re.escape(sentence)):
        call()
