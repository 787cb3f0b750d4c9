import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import peerclust as pc
from peerclust import graphs
from peerclust.cli import app
from peerclust.paper import demo
from peerclust.report import result_directory

NAMES = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
SITES = ("bern", "oslo", "rome")


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def good(*words):
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result


def process(*words, code="from peerclust.cli import main; main()"):
    return subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )


@pytest.fixture(autouse=True)
def parts(tmp_path, monkeypatch):
    """Work in a folder that holds Iris, split over three sites; give their rows."""
    monkeypatch.chdir(tmp_path)
    rows, _ = pc.datasets.iris()
    iris = pl.DataFrame(dict(zip(NAMES, rows.T, strict=True)))
    site = pl.Series("site", [SITES[i % 3] for i in range(150)])
    iris.with_columns(site).write_csv("all.csv")
    iris.with_columns(site).write_parquet("all.parquet")
    for name in SITES:
        iris.filter(site == name).write_csv(f"{name}.csv")
    return [rows[i::3] for i in range(3)]


FILES = tuple(f"{name}.csv" for name in SITES)
FIT = ("fit", *FILES, "--clusters", 3, "--out", "out")
FIT_ALL = ("fit", "all.csv", "--users-column", "site", "--clusters", 3, "--out", "out")


@pytest.mark.parametrize("scale", [None, "standard"])
def test_fit_gives_what_cluster_gives(parts, scale):
    words = ("--scale", "none") if scale is None else ()
    good(*FIT, "--loss", "huber", "--delta", 0.5, "--rho", 20, "--seed", 7, "--updates", 2, *words)
    expected = pc.cluster(
        parts, n_clusters=3, loss=pc.Huber(0.5), rho=20, random_state=7, B=2, scale=scale
    )
    written = pc.Solution.load("out/solution.npz")
    assert np.array_equal(written.centers, expected.centers)
    assert written.status == expected.status
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
    unit = 1.0 if scale is None else np.concatenate(parts).std(axis=0)
    nearest = [
        np.linalg.norm((part[:, None] - x[None]) / unit, axis=2).min(axis=1)
        for part, x in zip(parts, expected.centers, strict=True)
    ]
    np.testing.assert_allclose(labels["outlier_score"], np.concatenate(nearest), rtol=1e-12)


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
    record = json.loads(good(*FIT, "--seed", 5, "--trace", "--json").stdout)
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
    assert trace["round"].to_list() == [*range(1, solution.certificate.rounds + 1)]
    assert np.array_equal(trace["cost"], solution.trace.cost)


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


def test_the_certificate_tells_the_scale():
    good(*FIT)
    scale = json.loads(Path("out/certificate.json").read_text())["scale"]
    rows, _ = pc.datasets.iris()
    np.testing.assert_allclose(scale["mean"], rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(scale["deviation"], rows.std(axis=0), rtol=1e-12)
    good(*FIT, "--force", "--scale", "none")
    assert json.loads(Path("out/certificate.json").read_text())["scale"] is None


def test_running_out_of_rounds_is_a_status_and_no_error():
    result = good(*FIT, "--rounds", 3)
    assert "ran out of rounds" in result.stdout
    assert "round 3: residual" in result.stderr


def test_a_terminal_gets_a_bar_and_json_gets_silence(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    result = good(*FIT, "--rounds", 3)
    assert "\x1b[" in result.stderr
    assert "residual" in result.stderr
    assert good(*FIT, "--force", "--json").stderr == ""


def test_an_earlier_result_is_replaced_only_by_force():
    Path("out").mkdir()
    good(*FIT)
    before = Path("out/centers.csv").read_text()
    result = run(*FIT, "--seed", 1)
    assert result.exit_code == 2
    assert result.stderr == "out holds an earlier result; replace it with --force.\n"
    good(*FIT, "--force", "--columns", "petal_width")
    assert Path("out/centers.csv").read_text() != before


def test_force_never_replaces_what_fit_did_not_write():
    good(*FIT)
    Path("out/thesis.tex").write_text("years of work")
    result = run(*FIT, "--force")
    assert result.exit_code == 2
    assert result.stderr == (
        "`--out` of fit must be new, empty or an earlier result. Got out, which holds thesis.tex.\n"
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


def test_predict_says_in_one_sentence_what_it_cannot_use():
    good(*FIT)
    Path("x.csv").write_text("x\n1\n")
    before = sorted(Path.cwd().rglob("*"))
    for words, sentence in (
        (("out", "x.csv", "--out", "p.csv"), "There is no column 'sepal_length' in x.csv."),
        (("out", "all.csv", "--out", "p.txt"), "The file p.txt must end in .csv or .parquet."),
        (
            ("out", "all.csv", "--out", "x.csv"),
            "`--out` of predict must be a new file, unless --force. Got x.csv.",
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


BAD_OPTIONS = [
    (("--clusters", 200), "`--clusters` of fit must be at most the number of distinct rows"),
    (("--rho", 0.5), "`--rho` of fit must be a number >= 1. Got 0.5."),
    (("--rho", "big"), "`--rho` of fit must be a number or 'auto'. Got 'big'."),
    (("--alpha", "papr"), "`--alpha` of fit must be a number or 'auto' or 'paper'. Got 'papr'."),
    (("--loss", "hubr"), "Got 'hubr'. Did you mean 'huber'?"),
    (("--distance", "euclid"), "Got 'euclid'. Did you mean 'euclidean'?"),
    (("--graph", "rign"), "Got 'rign'. Did you mean 'ring'?"),
    (("--init", "kmeans++"), "Got 'kmeans++'. Did you mean 'k-means++'?"),
    (("--runtime", "simulater"), "Got 'simulater'. Did you mean 'simulator'?"),
    (("--columns", "petal_widht"), "'petal_widht' in bern.csv. Did you mean 'petal_width'?"),
    (("--weights-column", "w"), "There is no column 'w' in bern.csv."),
    (("--scale", "standart"), "Got 'standart'. Did you mean 'standard'?"),
    (("--delta", 1), "`--delta` of fit belongs to --loss huber. Got --loss kmeans."),
    (("--loss", "huber", "--delta", 0), "`delta` of Huber must be a number > 0. Got 0.0."),
    (("--tol", -1), "`--tol` of fit must be a number >= 0. Got -1.0."),
    (
        ("--distance", "mahalanobis"),
        "`--distance mahalanobis` and `--matrix` of fit belong together. Got no --matrix.",
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
    (("--out", "bern.csv"), "`--out` of fit must be a directory. Got bern.csv, which is a file."),
    (("--out", "bern.csv/out"), "bern.csv/out cannot be written: "),
]


@pytest.mark.parametrize(("words", "sentence"), BAD_OPTIONS)
def test_fit_says_in_one_sentence_what_it_cannot_use_and_writes_nothing(words, sentence):
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
        ". must be a file. Got a directory; give the files in it.\n"
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


def test_names_in_brackets_are_not_taken_for_markup():
    Path("x.csv").write_text("[red],:smile:\n0,1\n1,2\n")
    result = good("fit", "x.csv", "--clusters", 2, "--out", "out")
    assert "[red]" in result.stdout
    assert ":smile:" in result.stdout


@pytest.mark.parametrize(
    "words", [("fit", "bern.csv"), ("fit", *FILES, "--clusters", 0, "--out", "out"), ("cluster",)]
)
def test_wrong_usage_exits_with_2(words):
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")


def test_the_demo_judges_by_centers_one_each():
    data = pc.datasets.noisy_iris(random_state=0)
    parts = [data.rows[data.users == i] for i in range(5)]
    at_means = pc.cluster(parts, n_clusters=3, init=data.means, rounds=1, alpha=1e-9, rho=10)
    assert demo._judge("", at_means, data).found == list(demo.NAMES)
    one = np.stack([data.means[0], data.means[1:].mean(axis=0), data.means[0] + 20])
    shared = demo._judge(
        "", pc.cluster(parts, n_clusters=3, init=one, rounds=1, alpha=1e-9, rho=10), data
    )
    assert len(shared.found) == 2
    assert shared.verdict == "2 of 3 true clusters"
    assert shared.distances.max() > 10


def test_the_demo_runs_as_a_module_and_draws_its_picture():
    command = [sys.executable, "-m", "peerclust", "demo", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    result = json.loads(done.stdout)
    kmeans, huber, run_on = result["runs"]
    assert huber["found"] == ["setosa", "versicolor", "virginica"]
    assert huber["auc"] == 1
    assert len(kmeans["found"]) < 3
    assert run_on["status"] == "converged"
    picture = Path(result["picture"])
    assert picture.name == "peerclust-demo.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 200_000


def test_the_demo_says_who_found_the_clusters():
    result = good("demo", "--out", "here.png", "--seed", 1)
    assert "Huber found all 3 true clusters, K-means 2 of 3 true clusters." in result.stdout
    assert "ran out of rounds" in result.stdout
    assert Path("here.png").exists()
    assert run("demo", "--out", "here.pdf").exit_code == 2


@pytest.mark.parametrize(
    ("package", "words", "sentence"),
    [
        ("matplotlib", ("demo",), "Pictures need matplotlib, which is not installed;"),
        ("polars", FIT, "Tables need polars, which is not installed;"),
    ],
)
def test_a_missing_extra_is_named(package, words, sentence):
    code = f"import sys; sys.modules[{package!r}] = None; from peerclust.cli import main; main()"
    done = process(*map(str, words), code=code)
    assert done.returncode == 2
    assert done.stdout == ""
    extra = {"matplotlib": "plots", "polars": "tables"}[package]
    assert done.stderr == f"{sentence} it comes with the extra `{extra}`.\n"


@pytest.mark.parametrize(
    "words", [(), ("demo",), ("fit",), ("predict",), ("reproduce",), ("peer", "init")]
)
def test_help_answers_at_once(words):
    # The seconds of the processor, not of the clock: other tests run beside this one.
    seconds = []
    for _ in range(3):
        before = os.times()
        done = process(*words, "--help")
        after = os.times()
        assert done.returncode == 0
        assert "Usage: peerclust" in done.stdout
        seconds.append(
            after.children_user + after.children_system
            - before.children_user - before.children_system
        )  # fmt: skip
    assert min(seconds) < 0.5


def test_the_command_line_imports_nothing_heavy_before_it_must():
    code = "import sys, peerclust.cli; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = set(process(code=code).stdout.split())
    heavy = {"numpy", "scipy", "numba", "sklearn", "networkx", "polars", "matplotlib"}
    heavy |= {"cryptography", "msgspec", "websockets"}
    assert "typer" in loaded
    assert not loaded & heavy


def test_the_version_is_printed():
    assert good("--version").stdout == f"peerclust {pc.__version__}\n"
