"""Errors of `peerclust fit`: one sentence each, and nothing is written."""

from pathlib import Path

import polars as pl
import pytest

from command_line import FIT, good, run, write_tables
from peerclust.report import result_directory


@pytest.fixture(autouse=True)
def _tables(tmp_path, monkeypatch):
    """Work in a directory that holds Iris, split over three sites."""
    monkeypatch.chdir(tmp_path)
    write_tables()


def test_an_earlier_result_is_replaced_only_by_force():
    Path("out").mkdir()
    good(*FIT)
    before = Path("out/centers.csv").read_text()
    result = run(*FIT, "--seed", 1)
    assert result.exit_code == 2
    assert result.stderr == "out contains an earlier result; replace it with --force.\n"
    good(*FIT, "--force", "--columns", "petal_width")
    assert Path("out/centers.csv").read_text() != before


def test_force_never_replaces_what_fit_did_not_write():
    good(*FIT)
    Path("out/thesis.tex").write_text("years of work")
    result = run(*FIT, "--force")
    assert result.exit_code == 2
    assert result.stderr == (
        "`--out` of fit must be new, empty or an earlier result. Got out, which contains"
        " thesis.tex.\n"
    )
    assert Path("out/thesis.tex").read_text() == "years of work"


def test_a_result_appears_whole_or_not_at_all(monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device", "labels.csv")

    good(*FIT)
    before = sorted(Path.cwd().rglob("*"))
    monkeypatch.setattr(result_directory, "_labels", fail)
    for out in ("out", "new"):
        result = run(*FIT[:-1], out, "--force", "--columns", "petal_width")
        assert result.exit_code == 2
        assert result.stderr.endswith("labels.csv cannot be used: No space left on device.\n")
    assert sorted(Path.cwd().rglob("*")) == before
    assert len(pl.read_csv("out/centers.csv").columns) == 5


BAD_OPTIONS = [
    (("--clusters", 200), "`--clusters` of fit must be at most the number of distinct rows"),
    (("--rho", 0), "`--rho` of fit must be a number > 0. Got 0.0."),
    (("--search", "swap"), "`--search` of fit must be one of 'auto', 'swaps', 'none'. Got 'swap'."),
    (("--rho", "big"), "`--rho` of fit must be a number or 'auto'. Got 'big'."),
    (("--alpha", "papr"), "`--alpha` of fit must be a number or 'auto' or 'paper'. Got 'papr'."),
    (("--loss", "hubr"), "Got 'hubr'. Did you mean 'huber'?"),
    (("--distance", "euclid"), "Got 'euclid'. Did you mean 'euclidean'?"),
    (("--graph", "rign"), "Got 'rign'. Did you mean 'ring'?"),
    (("--init", "kmeans++"), "Got 'kmeans++'. Did you mean 'k-means++'?"),
    (("--runtime", "simulater"), "Got 'simulater'. Did you mean 'simulator'?"),
    (("--columns", "petal_widht"), "'petal_widht' in bern.csv. Did you mean 'petal_width'?"),
    (("--weights-column", "w"), "There is no column 'w' in bern.csv."),
    (
        ("--scale", "standart"),
        "`--scale` of fit must be one of 'none', 'standard', 'robust'. Got 'standart'. Did you mean"
        " 'standard'?",
    ),
    (("--delta", 1), "`--delta` of fit requires --loss huber. Got --loss kmeans."),
    (("--loss", "huber", "--delta", 0), "`--delta` of fit must be a number > 0. Got 0.0."),
    (("--delta", "atuo"), "`--delta` of fit must be a number or 'auto'. Got 'atuo'."),
    (("--tol", -1), "`--tol` of fit must be a number >= 0. Got -1.0."),
    (
        ("--distance", "mahalanobis"),
        "`--distance mahalanobis` and `--matrix` of fit require each other. Got no --matrix.",
    ),
    (("--matrix", "bern.csv"), "Got --matrix bern.csv and --distance euclidean."),
    (("--distance", "mahalanobis", "--matrix", "A.csv"), "There is no file A.csv."),
    (("--graph", "none.txt"), "must be a readable file. Got none.txt: No such file or directory."),
    (("--graph", "apart.txt"), "must connect all users: users oslo, paris cannot reach user bern."),
    (
        ("--graph", "others.txt"),
        "The graph file others.txt must name exactly the users; it adds 'Rome' and lacks 'rome'.",
    ),
    (
        ("--graph", "numbers.txt"),
        "must name exactly the users; it adds '0', '1', '2' and lacks 'bern', 'oslo', 'rome'.",
    ),
    (
        ("--delimiter", "semicolons"),
        "`--delimiter` of fit must be a punctuation mark other than . + - _ and quotes, or one of"
        " comma, semicolon, tab, pipe, space. Got 'semicolons'. Did you mean 'semicolon'?",
    ),
    (("--delimiter", "."), "Got '.'."),
    (("--delimiter", "'"), """Got "'"."""),
    (("--delimiter", "7"), "Got '7'."),
    (("--delimiter", ""), "Got ''."),
    (("--decimal", "dot"), "`--decimal` of fit must be point or comma. Got 'dot'."),
    (
        ("--delimiter", ",", "--decimal", "comma"),
        "`--decimal` of fit must differ from --delimiter. Got ',' for both.",
    ),
    (
        ("--delimiter", "\\t"),
        "The lines of bern.csv must have a tab as delimiter. Got ','; name it with --delimiter.",
    ),
    (("--per-rank",), "`--per-rank` of fit requires --runtime mpi. Got --runtime simulator."),
    (("--checkpoint-every", 5), "`--checkpoint-every` of fit requires --checkpoint DIR."),
    (("--out", "bern.csv"), "`--out` of fit must be a directory. Got bern.csv, which is a file."),
    (("--out", "bern.csv/out"), "bern.csv/out cannot be written: "),
]


@pytest.mark.parametrize(("words", "sentence"), BAD_OPTIONS)
def test_an_error_of_fit_is_one_sentence_and_nothing_is_written(words, sentence):
    Path("apart.txt").write_text("bern rome\noslo paris\n")
    Path("others.txt").write_text("bern Rome\noslo bern\n")
    Path("numbers.txt").write_text("0 1\n1 2\n")
    before = sorted(Path.cwd().rglob("*"))
    result = run(*FIT, *words)
    assert result.exit_code == 2
    assert result.stdout == ""
    said = [line for line in result.stderr.splitlines() if not line.startswith("round ")]
    assert len(said) == 1
    assert sentence in said[0]
    assert sorted(Path.cwd().rglob("*")) == before


def test_files_that_cannot_be_used_are_named():
    assert run("fit", "no.csv", *FIT[4:]).stderr == "There is no file no.csv.\n"
    assert run("fit", ".", *FIT[4:]).stderr == (
        ". must be a file. Got a directory; name the files in it.\n"
    )
    assert run("fit", "all.csv", *FIT[4:]).stderr == (
        "Column 'site' of all.csv must be numbers. Got 'bern' in row 0; choose other columns with"
        " --columns.\n"
    )


def test_a_feature_may_not_be_named_as_a_column_of_the_result():
    Path("x.csv").write_text("cluster,x\n0,1\n1,2\n")
    result = run("fit", "x.csv", "--clusters", 2, "--out", "out")
    assert result.exit_code == 2
    assert "A feature must not be named 'cluster'" in result.stderr
