"""What `peerclust fit` writes and prints."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import peerclust as pc
from command_line import FILES, FIT, FIT_ALL, NAMES, SITES, good, write_tables
from peerclust import graphs


@pytest.fixture(autouse=True)
def parts(tmp_path, monkeypatch):
    """Work in a directory that holds Iris, split over three sites; return their rows."""
    monkeypatch.chdir(tmp_path)
    return write_tables()


@pytest.mark.parametrize("scale", ["none", "standard"])
def test_fit_gives_what_cluster_gives(parts, scale):
    words = ("--scale", "none") if scale == "none" else ()
    good(*FIT, "--loss", "huber", "--delta", 0.5, "--rho", 20, "--seed", 7, "--updates", 2, *words)
    expected = pc.cluster(
        parts, n_clusters=3, loss=pc.Huber(0.5), rho=20, random_state=7, B=2, scale=scale
    )
    written = pc.Solution.load("out/solution.npz")
    assert np.array_equal(written.centers, expected.centers)
    assert written.status == expected.status
    assert written.feature_names == tuple(NAMES)
    centers = pl.read_csv("out/centers.csv")
    assert centers.columns == ["cluster", *NAMES]
    assert centers["cluster"].to_list() == [0, 1, 2]
    assert np.array_equal(centers.select(NAMES).to_numpy(), expected.consensus)
    own = pl.read_csv("out/user_centers.csv")
    assert own["user"].to_list() == [name for name in SITES for _ in range(3)]
    assert np.array_equal(own.select(NAMES).to_numpy().reshape(3, 3, 4), expected.centers)
    labels = pl.read_csv("out/labels.csv")
    assert labels.columns == ["user", "file", "row", "label", "outlier_score"]
    assert labels["file"].to_list() == [name for name in FILES for _ in range(50)]
    assert labels["row"].to_list() == [*range(50)] * 3
    assert np.array_equal(labels["label"], np.concatenate(expected.labels))
    unit = 1.0 if scale == "none" else np.concatenate(parts).std(axis=0)
    nearest = [
        np.linalg.norm((part[:, None] - x[None]) / unit, axis=2).min(axis=1)
        for part, x in zip(parts, expected.centers, strict=True)
    ]
    np.testing.assert_allclose(labels["outlier_score"], np.concatenate(nearest), rtol=1e-12)


def test_delta_auto_in_robust_units_is_that_of_cluster_and_predict_agrees(parts):
    words = ("--scale", "robust", "--loss", "huber", "--delta", "auto", "--seed", 7)
    out = good(*FIT, *words).stdout
    expected = pc.cluster(
        parts, n_clusters=3, loss=pc.Huber("auto"), random_state=7, scale="robust"
    )
    written = pc.Solution.load("out/solution.npz")
    assert np.array_equal(written.centers, expected.centers)
    assert written.loss == expected.loss
    assert np.array_equal(written.scale.deviation, expected.scale.deviation)
    record = json.loads(Path("out/certificate.json").read_text())
    assert record["loss"] == {"name": "huber", "parameters": {"delta": expected.loss.delta}}
    assert record["settings"]["delta"] == "auto"
    assert f"{expected.loss.delta:.6g}" in out
    good("predict", "out", *FILES, "--out", "new.csv")
    predicted, fitted = pl.read_csv("new.csv"), pl.read_csv("out/labels.csv")
    assert predicted["label"].to_list() == fitted["label"].to_list()
    np.testing.assert_allclose(predicted["outlier_score"], fitted["outlier_score"], rtol=1e-6)


def test_every_option_reaches_cluster(parts):
    Path("A.csv").write_text("2,0,0,0\n0,1,0,0\n0,0,1,0\n0,0,0,3\n")
    good(
        *FIT, "--loss", "fair", "--eta", 2, "--distance", "mahalanobis", "--matrix", "A.csv",
        "--graph", "path", "--rho", 5, "--alpha", "paper", "--rounds", 40, "--tol", 1e-3,
        "--init", "random", "--starts", 2, "--runtime", "loopback", "--seed", 3, "--scale", "none",
    )  # fmt: skip
    expected = pc.cluster(
        parts, n_clusters=3, loss=pc.Fair(2), distance=pc.Mahalanobis(np.diag([2, 1, 1, 3])),
        graph="path", rho=5, alpha="paper", rounds=40, tol=1e-3, init="random", n_init=2,
        random_state=3,
    )  # fmt: skip
    assert np.array_equal(pc.Solution.load("out/solution.npz").centers, expected.centers)


def test_rows_with_a_users_column_are_labeled_in_their_own_order(parts):
    good(*FIT_ALL)
    good("fit", *FILES, "--clusters", 3, "--out", "apart")
    labels = pl.read_csv("out/labels.csv")
    assert labels["row"].to_list() == [*range(150)]
    assert labels["user"].to_list()[:3] == list(SITES)
    apart = pl.read_csv("apart/labels.csv")
    for name in SITES:
        here = labels.filter(pl.col("user") == name)["label", "outlier_score"]
        assert here.equals(apart.filter(pl.col("user") == name)["label", "outlier_score"])


def test_parquet_gives_what_csv_gives():
    good(*FIT_ALL)
    good("fit", "all.parquet", "--users-column", "site", "--clusters", 3, "--out", "parquet")
    for name in ("centers.csv", "user_centers.csv"):
        assert Path("out", name).read_bytes() == Path("parquet", name).read_bytes()


@pytest.mark.parametrize(
    ("name", "delimiter", "decimal", "words"),
    [
        ("all.tsv", "\t", ".", ()),
        ("all.csv.gz", ";", ",", ()),
        ("all.tsv.gz", "|", ",", ("--delimiter", "pipe", "--decimal", "comma")),
        ("colons.csv", ":", ".", ("--delimiter", ":")),
    ],
)
def test_other_delimiters_and_decimal_signs_give_what_plain_csv_gives(
    name, delimiter, decimal, words
):
    frame = pd.read_csv("all.csv")
    frame.to_csv(name, sep=delimiter, decimal=decimal, index=False)
    good(*FIT_ALL)
    said = good("fit", name, *FIT_ALL[2:-1], "other", *words).stdout
    for each in ("centers.csv", "user_centers.csv"):
        assert Path("out", each).read_bytes() == Path("other", each).read_bytes()
    shown = "a tab" if delimiter == "\t" else repr(delimiter)
    assert f"Read with {shown} as delimiter and {decimal!r} as decimal sign: {name}.\n" in said
    record = json.loads(Path("other/certificate.json").read_text())
    assert record["dialects"] == {name: {"delimiter": delimiter, "decimal": decimal}}
    assert "Read with" not in good(*FIT_ALL, "--force").stdout


def test_columns_and_weights_are_chosen_by_name(parts):
    frame = pl.read_csv("all.csv").with_columns(w=pl.Series(np.arange(150) / 10))
    frame.write_csv("weighted.csv")
    good(
        "fit", "weighted.csv", "--users-column", "site", "--weights-column", "w", "--columns",
        "petal_width, petal_length", "--clusters", 2, "--rho", 10, "--out", "out",
        "--scale", "none",
    )  # fmt: skip
    expected = pc.cluster(
        [part[:, [3, 2]] for part in parts], n_clusters=2, rho=10, random_state=0,
        weights=[np.arange(i, 150, 3) / 10 for i in range(3)],
    )  # fmt: skip
    assert np.array_equal(pc.Solution.load("out/solution.npz").centers, expected.centers)
    assert json.loads(Path("out/certificate.json").read_text())["features"] == [
        "petal_width", "petal_length",
    ]  # fmt: skip


def test_a_graph_file_goes_by_names(parts):
    Path("sites.txt").write_text("rome bern\nbern oslo\n")
    good(*FIT_ALL, "--graph", "sites.txt", "--rho", 10, "--scale", "none")
    expected = pc.cluster(
        parts, n_clusters=3, rho=10, random_state=0, graph=graphs.from_edges([(2, 0), (0, 1)])
    )
    assert np.array_equal(pc.Solution.load("out/solution.npz").centers, expected.centers)


def test_the_certificate_says_how_to_run_it_again():
    words = (*FIT, "--seed", 5, "--trace", "--json", "--solver", "accelerated", "--clusters", 4)
    record = json.loads(good(*words).stdout)
    assert record.pop("out") == "out"
    assert record == json.loads(Path("out/certificate.json").read_text())
    solution = pc.Solution.load("out/solution.npz")
    assert record["status"]["name"] == solution.status.name
    assert record["certificate"]["rounds"] == solution.certificate.rounds
    assert (record["rho"], record["alpha"]) == (solution.rho, solution.alpha)
    assert "disagree" in record["why"]["rho"]
    assert record["users"] == dict.fromkeys(SITES, 50)
    assert record["features"] == NAMES
    assert sum(record["cluster_sizes"]) == 150
    assert record["settings"]["seed"] == 5
    assert record["settings"]["files"] == list(FILES)
    assert set(record["versions"]) == {"peerclust", "numpy", "numba", "python"}
    trace = pl.read_csv("out/trace.csv")
    searched = record["certificate"]["search_rounds"]
    assert searched > 0
    assert trace["round"].to_list() == [*range(1, solution.certificate.rounds + searched + 1)]
    assert np.array_equal(trace["cost"], solution.trace.cost)


def test_fit_searches_unless_it_is_told_not_to(parts):
    for search, moves in (("auto", True), ("swaps", True), ("none", False)):
        words = ("--clusters", 6, "--search", search, "--scale", "none", "--seed", 1)
        record = json.loads(good(*FIT, *words, "--json", "--force").stdout)
        assert record["settings"]["search"] == search
        assert (record["certificate"]["moves"] > 0) == moves
        expected = pc.cluster(parts, n_clusters=6, search=search, random_state=1)
        assert np.array_equal(pc.Solution.load("out/solution.npz").centers, expected.centers)
        assert record["solver"] == "exact"


def test_a_table_in_other_units_gives_the_same_clusters_unless_not_scaled():
    frame = pl.read_csv("all.csv")
    frame.with_columns(pl.col("petal_length") * 1024).write_csv("small.csv")
    for out, words in (("cm", ()), ("small", ()), ("as-is", ("--scale", "none"))):
        name = "all.csv" if out == "cm" else "small.csv"
        words = (*words, "--clusters", 3, "--rho", 20, "--out", out)
        good("fit", name, "--users-column", "site", *words)
    cm, small, as_is = (pl.read_csv(f"{out}/labels.csv") for out in ("cm", "small", "as-is"))
    assert cm["label"].to_list() == small["label"].to_list()
    np.testing.assert_allclose(cm["outlier_score"], small["outlier_score"], rtol=1e-9)
    assert as_is["outlier_score"].max() > 100
    centers = [pl.read_csv(f"{out}/centers.csv")["petal_length"] for out in ("cm", "small")]
    np.testing.assert_allclose(centers[1], 1024 * centers[0], rtol=1e-9)


def test_the_certificate_has_the_scale():
    good(*FIT)
    scale = json.loads(Path("out/certificate.json").read_text())["scale"]
    rows, _ = pc.datasets.iris()
    np.testing.assert_allclose(scale["mean"], rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(scale["deviation"], rows.std(axis=0), rtol=1e-12)
    good(*FIT, "--force", "--scale", "none")
    assert json.loads(Path("out/certificate.json").read_text())["scale"] is None


def test_running_out_of_rounds_is_a_status_not_an_error():
    result = good(*FIT, "--rounds", 3)
    assert "ran out of rounds" in result.stdout
    assert "round 3: residual" in result.stderr


def test_a_terminal_gets_a_bar_and_json_gets_silence(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    result = good(*FIT, "--rounds", 3)
    assert "\x1b[" in result.stderr
    assert "residual" in result.stderr
    assert good(*FIT, "--force", "--json").stderr == ""


def test_names_in_brackets_are_not_taken_for_markup():
    Path("x.csv").write_text("[red],:smile:\n0,1\n1,2\n")
    result = good("fit", "x.csv", "--clusters", 2, "--out", "out")
    assert "[red]" in result.stdout
    assert ":smile:" in result.stdout


def test_a_run_with_checkpoints_writes_what_one_without_writes():
    words = (*FIT_ALL[:-2], "--rho", 20, "--rounds", 60, "--tol", 0)
    keep = ("--checkpoint", "kept", "--checkpoint-every", 10)
    good(*words, "--out", "plain")
    good(*words, *keep, "--out", "first")
    good(*words, *keep, "--resume", "--out", "second")
    for out in ("first", "second"):
        for name in ("centers.csv", "user_centers.csv", "labels.csv"):
            assert Path(out, name).read_bytes() == Path("plain", name).read_bytes()
        records = [
            json.loads(Path(each, "certificate.json").read_text()) for each in ("plain", out)
        ]
        for record in records:
            for option in ("out", "checkpoint", "checkpoint_every"):
                record["settings"].pop(option, None)
        assert records[0] == records[1]
        centers = [pc.Solution.load(f"{each}/solution.npz").centers for each in ("plain", out)]
        assert np.array_equal(*centers)
