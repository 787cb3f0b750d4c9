"""`peerclust fit` on the ranks of an MPI job: one job per number of ranks."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import peerclust as pc
from mpi_jobs import SOON, find_ranks, needs_mpi, run_ranks, start_ranks
from peerclust.cli import app

pytestmark = [needs_mpi, pytest.mark.mpi]

PEERCLUST = (sys.executable, "-m", "peerclust")
USERS = [f"u{i}" for i in range(11)]
FILES = [f"{name}.csv" for name in USERS]
BY_FILE = ("fit", *FILES, "--weights-column", "w", "--clusters", "3", "--loss", "huber")
BY_COLUMN = ("fit", "one.parquet", "two.csv", "--users-column", "site", "--clusters", "3",
             "--rho", "20", "--rounds", "60")  # fmt: skip
MPI = ("--runtime", "mpi")


@pytest.fixture(autouse=True)
def _iris(tmp_path, monkeypatch):
    """Work in a directory that holds Iris, split over ten users and one without rows."""
    monkeypatch.chdir(tmp_path)
    rows, _ = pc.datasets.iris()
    frame = pl.DataFrame(dict(zip("abcd", rows.T, strict=True)))
    frame = frame.with_columns(
        w=np.arange(1, 151) / 10, site=pl.Series([USERS[(i * i + i // 7) % 10] for i in range(150)])
    )
    for name, path in zip(USERS, FILES, strict=True):
        frame.filter(pl.col("site") == name).drop("site").write_csv(path)
    frame[:70].drop("w").write_parquet("one.parquet")
    frame[70:].drop("w").write_csv("two.csv")


def good(*words):
    result = CliRunner().invoke(app, [*map(str, words)])
    assert result.exit_code == 0, result.output
    return result


def run_many(n, *commands):
    """Return for each command the exit code, stdout and stderr of each of n ranks."""
    Path("commands.json").write_text(json.dumps(commands))
    script = Path(__file__).with_name("many_fits.py")
    done = run_ranks(n, sys.executable, script, "commands.json", "answers.json", timeout=240)
    assert done.returncode == 0, done.stderr
    return json.loads(Path("answers.json").read_text())


def check_same_result(one, two):
    """Check that two directories hold the same bytes, but for the options in the certificate."""
    names = sorted(path.name for path in Path(one).iterdir())
    assert names == sorted(path.name for path in Path(two).iterdir())
    for name in names:
        if name.endswith(".csv"):
            assert Path(one, name).read_bytes() == Path(two, name).read_bytes(), name
    records = [json.loads(Path(each, "certificate.json").read_text()) for each in (one, two)]
    apart = ("out", "runtime", "checkpoint", "checkpoint_every")
    for record in records:
        record["settings"] = {k: v for k, v in record["settings"].items() if k not in apart}
    assert records[0] == records[1]
    centers = [pc.Solution.load(Path(each, "solution.npz")).centers for each in (one, two)]
    assert np.array_equal(*centers)


def check_parts(whole, parts, n):
    """Check that n ranks wrote, each of its own users, what one process writes of all."""
    tables = ("user_centers", "labels")
    names = {f"{name}-{r}.csv" for name in tables for r in range(n)}
    names |= {"solution.npz", *(f"solution-{r}.npz" for r in range(1, n))}
    names |= {"centers.csv", "certificate.json"}
    assert {path.name for path in Path(parts).iterdir()} == names
    assert Path(parts, "centers.csv").read_bytes() == Path(whole, "centers.csv").read_bytes()
    for name in tables:
        joined = pl.concat([pl.read_csv(f"{parts}/{name}-{r}.csv") for r in range(n)])
        expected = pl.read_csv(f"{whole}/{name}.csv")
        by = [each for each in ("user", "file", "row", "cluster") if each in expected.columns]
        assert joined.sort(by).equals(expected.sort(by))


ADMM = ("--graph", "graph.txt", "--solver", "admm", "--rounds", "60")


def fit_in_one_process():
    """Write the results that those of ranks are compared with."""
    Path("graph.txt").write_text("\n".join(f"u{i} u{i // 2}" for i in range(1, 11)))
    good(*BY_FILE, "--trace", "--out", "files")
    good(*BY_COLUMN, "--out", "columns")
    good(*BY_FILE, *ADMM, "--out", "admm")


def fits(n):
    """Return the commands whose results in n ranks are compared with those of one process."""
    return (
        (*BY_FILE, *MPI, "--trace", "--out", f"files-{n}", "--json"),
        (*BY_COLUMN, *MPI, "--out", f"columns-{n}"),
        (*BY_FILE, *MPI, *ADMM, "--out", f"admm-{n}"),
    )


def check_fits(n, answers):
    """Check that n ranks wrote what one process writes, and that only rank 0 printed."""
    assert [code for each in answers for code, *_ in each] == [0] * 3 * n
    # Rank 0 is quiet when asked for JSON.
    assert json.loads(answers[0][0][1])["out"] == f"files-{n}"
    assert answers[0][0][2] == ""
    assert f"Written to columns-{n}." in answers[1][0][1]
    assert "round" in answers[1][0][2]
    assert all(said == [0, "", ""] for answer in answers for said in answer[1:])
    for name in ("files", "columns", "admm"):
        check_same_result(name, f"{name}-{n}")


def test_one_rank_writes_what_one_process_writes():
    fit_in_one_process()
    check_fits(1, run_many(1, *fits(1)))


def test_ten_ranks_write_their_own_parts_from_which_predict_works():
    good(*BY_COLUMN, "--out", "whole")
    users = pl.read_csv("whole/user_centers.csv")["user"].n_unique()
    assert users == 10
    done = run_ranks(10, Path(sys.prefix, "bin", "peerclust"), *BY_COLUMN, *MPI, "--per-rank",
                     "--out", "parts", timeout=240)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Written to parts.") == 1
    assert "users        │ 10 " in done.stdout
    check_parts("whole", "parts", 10)
    for name in ("whole", "parts"):
        good("predict", name, "two.csv", "--out", f"{name}.csv")
    assert Path("whole.csv").read_bytes() == Path("parts.csv").read_bytes()
    # An earlier result in parts may be replaced, and leaves nothing behind.
    good(*BY_COLUMN, "--out", "parts", "--force")
    check_same_result("whole", "parts")


def test_a_run_that_lost_a_rank_resumes_from_its_checkpoint():
    words = (*BY_FILE, "--rho", "10", "--rounds", "1000", "--tol", "0", "--trace", "--json")
    keep = ("--checkpoint", "kept", "--checkpoint-every", "50", "--resume")
    with start_ranks(2, *PEERCLUST, *words, *MPI, *keep, "--out", "out") as started:
        until = time.monotonic() + 120
        while not Path("kept", "journal.json").exists():
            assert started.poll() is None, started.communicate()
            assert time.monotonic() < until
            time.sleep(0.01)
        os.kill(find_ranks(started)[1], signal.SIGKILL)
        begin = time.monotonic()
        out, _ = started.communicate(timeout=SOON)
        assert started.returncode != 0
        assert time.monotonic() - begin < SOON
    assert out == ""
    assert not Path("out").exists()
    assert json.loads(Path("kept/journal.json").read_text())["done"] is False
    refused, resumed, again = run_many(
        2,
        (*words, *MPI, *keep[:-1], "--out", "out"),
        (*words, *MPI, *keep, "--out", "out"),
        (*words[:-1], *MPI, *keep, "--seed", "1", "--out", "again"),
    )
    assert refused[0][0] == 2
    assert "kept contains an unfinished run; continue it with --resume" in refused[0][2]
    assert [code for code, *_ in resumed] == [0, 0]
    assert "Cannot resume from kept: it was started with --seed " in again[0][2]
    good(*words, "--out", "whole")
    check_same_result("whole", "out")


BAD = [
    (("--rho", "0"), "`--rho` of fit must be a number > 0. Got 0.0."),
    (("--loss", "hubr"), "Got 'hubr'. Did you mean 'huber'?"),
    (("--graph", "none.txt"), "must be a readable file. Got none.txt: No such file or directory."),
    (("--resume",), "`--resume` of fit requires --checkpoint DIR. Got no --checkpoint."),
    (("--clusters", "200"), "`--clusters` of fit must be at most the number of distinct rows"),
    (("--weights-column", "v"), "There is no column 'v' in u0.csv."),
    (("missing.csv",), "There is no file missing.csv for any of the 4 ranks."),
    (("text.csv",), "Column 'b' of text.csv must be numbers. Got 'x' in row 1; choose other"),
    (("other.csv",), "must have the same columns. Compared with u0.csv, other.csv lacks 'd'; choo"),
    (
        ("sub/u1.csv",),
        "Each file must be a different user, named by the file. Got u1.csv and sub/u1",
    ),
    (("--out", "sub"), "`--out` of fit must be new, empty or an earlier result. Got sub, which"),
    (("--out", "u0.csv/out"), "u0.csv/out cannot be written: "),
    (("--out", "u0.csv/out", "--per-rank"), "u0.csv/out cannot be written: "),
    (("--checkpoint", "out"), "`--checkpoint` of fit must be outside of --out. Got out with"),
    (("--checkpoint", "u0.csv"), "`--checkpoint` of fit must be a directory. Got u0.csv, which"),
]


def check_errors(answers, sentences):
    """Check that all ranks ended with 2, and that only rank 0 printed an error, in one sentence."""
    for answer, sentence in zip(answers, sentences, strict=True):
        assert [code for code, *_ in answer] == [2] * len(answer), sentence
        assert [out for _, out, _ in answer] == [""] * len(answer)
        assert [err for *_, err in answer[1:]] == [""] * (len(answer) - 1)
        said = [line for line in answer[0][2].splitlines() if not line.startswith("round ")]
        assert len(said) == 1
        assert sentence in said[0]


def test_four_ranks_write_what_one_process_writes_and_report_an_error_once():
    fit_in_one_process()
    Path("text.csv").write_text("a,b,c,d,w\n1,2,3,4,1\n1,x,3,4,1\n")
    Path("other.csv").write_text("a,b,c,w\n1,2,3,1\n")
    Path("sub").mkdir()
    Path("sub/u1.csv").write_text("a,b,c,d,w\n1,2,3,4,1\n")
    before = {*Path.cwd().rglob("*")}
    bad = [(*BY_FILE, *MPI, "--out", "out", "--rounds", "5", *words) for words, _ in BAD]
    bad.append((*BY_FILE[:3], *BY_FILE[-6:], *MPI, "--out", "out"))
    answers = run_many(4, *fits(4), *bad)
    check_fits(4, answers[:3])
    sentences = [sentence for _, sentence in BAD]
    check_errors(answers[3:], [*sentences, "as many ranks as there are users (2). Got 4."])
    # The commands that failed have written nothing.
    made = ("commands.json", "answers.json", "files-4", "columns-4", "admm-4")
    new = {path.relative_to(Path.cwd()).parts[0] for path in {*Path.cwd().rglob("*")} - before}
    assert new == {*made}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            (*BY_FILE, *MPI, "--out", "out", ":", "-n", "1", *PEERCLUST, *BY_FILE, *MPI, "--out",
             "other", "--checkpoint-every", "5"),
            "All ranks must be given the same `--out` of fit. Rank 1 has 'other', rank 0 has"
            " 'out'.",
        ),
        (
            (*BY_FILE, "--out", "out"),
            "`--runtime` of fit must be mpi in a job of 2 processes; otherwise each of them would"
            " do all of the work. Got 'simulator'.",
        ),
        ((*BY_FILE, *MPI), "Missing option '--out'."),
    ],
    ids=["other words", "no runtime", "no directory"],
)  # fmt: skip
def test_jobs_started_wrongly_end_at_once(words, sentence):
    before = sorted(Path.cwd().rglob("*"))
    n = 1 if ":" in words else 2
    done = run_ranks(n, *PEERCLUST, *words, timeout=SOON)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count(sentence) == 1
    assert "Traceback" not in done.stderr
    assert sorted(Path.cwd().rglob("*")) == before
