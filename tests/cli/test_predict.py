"""What `peerclust predict` writes, and its errors."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from command_line import FIT, NAMES, good, run, write_tables


@pytest.fixture(autouse=True)
def parts(tmp_path, monkeypatch):
    """Work in a directory that holds Iris, split over three sites; return their rows."""
    monkeypatch.chdir(tmp_path)
    return write_tables()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_predict_reproduces_the_labels_of_one_user(suffix):
    good("fit", "all.csv", "--columns", ",".join(NAMES), "--clusters", 3, "--out", "out")
    # By name: the columns may come in any order, and others beside them.
    pl.read_csv("all.csv").select("site", *reversed(NAMES)).write_csv("turned.csv")
    out = f"labels.{suffix}"
    summary = json.loads(
        good("predict", "out", "turned.csv", "all.csv", "--out", out, "--json").stdout
    )
    predicted = pl.read_csv(out) if suffix == "csv" else pl.read_parquet(out)
    fitted = pl.read_csv("out/labels.csv")
    assert predicted.columns == ["file", "row", "label", "outlier_score"]
    assert predicted["file"].unique(maintain_order=True).to_list() == ["turned.csv", "all.csv"]
    for name in ("row", "label", "outlier_score"):
        assert predicted[name].to_list() == fitted[name].to_list() * 2
    sizes = np.bincount(predicted["label"]).tolist()
    assert summary == {"out": out, "rows": 300, "cluster_sizes": sizes}


def test_predict_reads_other_delimiters_and_decimal_signs():
    good(*FIT)
    pd.read_csv("all.csv").to_csv("new.csv.gz", sep=";", decimal=",", index=False)
    good("predict", "out", "all.csv", "--out", "plain.csv")
    for words in ((), ("--delimiter", ";", "--decimal", ",")):
        said = good("predict", "out", "new.csv.gz", "--out", "p.csv", "--force", *words).stdout
        assert "Read with ';' as delimiter and ',' as decimal sign: new.csv.gz.\n" in said
        expected = Path("plain.csv").read_text().replace("all.csv", "new.csv.gz")
        assert Path("p.csv").read_text() == expected
    result = run("predict", "out", "new.csv.gz", "--out", "q.csv", "--delimiter", "tab")
    assert result.stderr == (
        "The lines of new.csv.gz must have a tab as delimiter. Got ';'; name it with --delimiter.\n"
    )


def test_an_error_of_predict_is_one_sentence():
    good(*FIT)
    Path("x.csv").write_text("x\n1\n")
    before = sorted(Path.cwd().rglob("*"))
    for words, sentence in (
        (("out", "x.csv", "--out", "p.csv"), "There is no column 'sepal_length' in x.csv."),
        (("out", "all.csv", "--out", "p.txt"), "The file p.txt must end in .csv or .parquet."),
        (
            ("out", "all.csv", "--out", "x.csv"),
            "`--out` of predict must be a new file, unless --force is given. Got x.csv.",
        ),
        (
            ("nowhere", "all.csv", "--out", "p.csv"),
            "nowhere must be a directory that peerclust fit wrote. It has no readable"
            " certificate.json.",
        ),
    ):
        result = run("predict", *words)
        assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"{sentence}\n")
    assert sorted(Path.cwd().rglob("*")) == before
    good("predict", "out", "all.csv", "--out", "x.csv", "--force")
    Path("out/solution.npz").write_text("broken")
    result = run("predict", "out", "all.csv", "--out", "p.csv")
    assert result.exit_code == 2
    assert "is not a solution that peerclust saved" in result.stderr
