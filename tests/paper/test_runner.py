"""Running an experiment: what is written, resumed, run by several processes, and refused."""

import csv
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from peerclust import baselines, paper
from peerclust.errors import JobError, ParameterError
from peerclust.paper import published, tables
from peerclust.paper.comparison import stat
from peerclust.paper.curves import curve
from peerclust.paper.experiment import Experiment, Job, Line, RunOptions, Summary
from peerclust.paper.runner import run_experiment
from peerclust.report.pictures import CurvePanel, Curves, Series


def count(*, seed, folder, fail=None):
    """Leave a mark, so that a test can see which jobs were run."""
    if seed == fail:
        raise KeyboardInterrupt
    with Path(folder, "marks").open("a") as file:
        file.write(f"{seed}\n")
    return [{"seed": seed, "round": t, "value": 10.0 * seed + t} for t in (1, 2)]


def make(folder, fail=None, name="toy"):
    def plan(settings):
        return [
            Job(f"job-{seed}", count, {"seed": seed, "folder": str(folder)} | more)
            for seed in settings.seeds()
            for more in [{"fail": fail} if fail == seed else {}]
        ]

    def summarize(rows, settings):
        series = Series("v", *curve(rows, "value"))
        line = Line({"what": "value"}, stat(rows, "value"), form="scale")
        return Summary([line], Curves([CurvePanel("", [series], "x", "y")]), ["A note."])

    return Experiment(name, "a toy", plan, summarize, runs=3)


def marks(folder):
    path = Path(folder, "marks")
    return sorted(map(int, path.read_text().split())) if path.exists() else []


@pytest.mark.parametrize("workers", [1, 2])
def test_an_experiment_writes_runs_table_picture_and_configuration(tmp_path, workers):
    settings = RunOptions(runs=3, seed=5)
    result = run_experiment(make(tmp_path), settings, tmp_path / "out", workers=workers)
    assert result.directory == tmp_path / "out" / "toy"
    with (result.directory / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["seed"], row["round"], row["value"]) for row in rows] == [
        ("5", "1", "51.0"), ("5", "2", "52.0"), ("6", "1", "61.0"), ("6", "2", "62.0"),
        ("7", "1", "71.0"), ("7", "2", "72.0"),
    ]  # fmt: skip
    page = (result.directory / "table.md").read_text()
    assert "# toy: a toy" in page
    assert "3 runs per cell, seed 5." in page
    assert "A note." in page
    assert "| value | 61.5 ± 8.18 |" in page
    config = json.loads((result.directory / "config.json").read_text())
    assert config["settings"]["seed"] == 5
    assert [job["given"]["seed"] for job in config["jobs"]] == [5, 6, 7]
    assert {"numpy", "peerclust"} <= set(config["machine"]["versions"])
    assert (result.directory / "figure.png").read_bytes()[:4] == b"\x89PNG"


def test_a_quick_run_is_marked_as_such(tmp_path):
    result = run_experiment(make(tmp_path), RunOptions(runs=1, quick=True), tmp_path)
    assert "**Quick version" in result.page


def test_what_was_done_is_not_done_again_and_more_runs_add_to_it(tmp_path):
    run_experiment(make(tmp_path), RunOptions(runs=2), tmp_path)
    assert marks(tmp_path) == [0, 1]
    result = run_experiment(make(tmp_path), RunOptions(runs=3), tmp_path)
    assert marks(tmp_path) == [0, 1, 2]
    assert result.summary.lines[0].ours.mean == pytest.approx(11.5)


def test_an_interrupted_run_resumes_where_it_stopped(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_experiment(make(tmp_path, fail=1), RunOptions(runs=3), tmp_path)
    assert marks(tmp_path) == [0]
    assert not (tmp_path / "toy" / "table.md").exists()
    run_experiment(make(tmp_path), RunOptions(runs=3), tmp_path)
    assert marks(tmp_path) == [0, 1, 2]


@pytest.mark.parametrize("damage", ["", "{", '{"rows": []}', "[]"])
def test_a_damaged_or_foreign_record_is_run_again(tmp_path, damage):
    run_experiment(make(tmp_path), RunOptions(runs=2), tmp_path)
    (tmp_path / "toy" / "runs" / "job-1.json").write_text(damage)
    run_experiment(make(tmp_path), RunOptions(runs=2), tmp_path)
    assert marks(tmp_path) == [0, 1, 1]


def test_progress_reports_what_is_done_of_all(tmp_path):
    calls = []
    run_experiment(make(tmp_path), RunOptions(runs=2), tmp_path)
    run_experiment(
        make(tmp_path), RunOptions(runs=4), tmp_path, progress=lambda *args: calls.append(args)
    )
    assert calls == [
        (2.0, 4.0, "2 of 4 already done"), (3.0, 4.0, "job-2"), (4.0, 4.0, "job-3")
    ]  # fmt: skip


def fail(*, seed):
    raise ParameterError(f"seed {seed} is no good.")


def test_an_error_of_a_worker_is_the_callers_error(tmp_path):
    experiment = Experiment(
        "bad",
        "",
        lambda s: [Job(str(i), fail, {"seed": i}) for i in s.seeds()],
        make(tmp_path).summarize,
    )
    with pytest.raises(ParameterError, match="is no good"):
        run_experiment(experiment, RunOptions(runs=2), tmp_path, workers=2)


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("table-9", {}, "Did you mean 'table-"),
        ("table-1", {"runs": 0}, "`runs` of paper.run must be a whole number >= 1. Got 0."),
        ("table-1", {"seed": -1}, "`seed` of paper.run must be a whole number >= 0."),
        ("table-1", {"workers": 0}, "`workers` of paper.run"),
        ("table-1", {"data": ["iris"]}, "must be left out with table-1"),
        ("table-3", {"data": ["mnist8"]}, "Got 'mnist8'. Did you mean 'mnist'?"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(tmp_path, name, given, sentence):
    with pytest.raises(ParameterError) as error:
        paper.run(name, out=tmp_path, **given)
    assert sentence in str(error.value)
    assert not list(tmp_path.iterdir())


class Mine:
    """A user's own method that counts how often it is run."""

    runs = 0

    def fit(self, task, on_round=None):
        Mine.runs += 1
        return baselines.get("LGC-KM").fit(task, on_round)


@pytest.fixture
def mine():
    Mine.runs = 0
    baselines.register("MINE", Mine())
    yield
    baselines.unregister("MINE")


def test_a_users_own_method_joins_the_tables_and_is_always_run_again(tmp_path, mine, monkeypatch):
    monkeypatch.setattr(published, "STARTS", {"LGC-KM": published.STARTS["LGC-KM"]})
    monkeypatch.setattr(tables, "UNPUBLISHED", ())
    for _ in range(2):
        result = paper.run("table-2", out=tmp_path, runs=1)
    assert Mine.runs == 2 * 2
    ours = {
        (line.where["start"], line.where["method"]): line.ours.mean for line in result.summary.lines
    }
    assert ours["random", "MINE"] == ours["random", "LGC-KM"]
    jobs = json.loads((tmp_path / "table-2" / "config.json").read_text())["jobs"]
    assert any(job["given"]["method"] == "MINE" for job in jobs)


@pytest.mark.slow
def test_a_script_that_registers_may_have_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from peerclust import baselines, paper\n"
        "from peerclust.paper import published, tables\n"
        "from peerclust.programs.dgc import DGC\n"
        "published.STARTS, tables.UNPUBLISHED = {}, ('CORESET-KM',)\n"
        "def program(task):\n"
        "    return DGC(rho=task.rho, alpha=0.01)\n"
        "baselines.register('MINE', baselines.OverNetwork(program))\n"
        "if __name__ == '__main__':\n"
        "    print(paper.run('table-2', out='out', runs=1, workers=2).page)\n"
    )
    run = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "| random | MINE |" in run.stdout


@pytest.mark.parametrize("change", ["versions", "given", "work"])
def test_a_record_of_another_version_or_other_arguments_is_run_again(tmp_path, change):
    run_experiment(make(tmp_path), RunOptions(runs=2), tmp_path)
    path = tmp_path / "toy" / "runs" / "job-1.json"
    record = json.loads(path.read_text())
    record[change] = {"numpy": "0"} if change != "work" else "other"
    path.write_text(json.dumps(record))
    run_experiment(make(tmp_path), RunOptions(runs=2), tmp_path)
    assert marks(tmp_path) == [0, 1, 1]


def test_times_are_always_measured_again_and_one_at_a_time(tmp_path):
    timed = replace(make(tmp_path), timed=True)
    for _ in range(2):
        run_experiment(timed, RunOptions(runs=2), tmp_path, workers=2)
    assert marks(tmp_path) == [0, 0, 1, 1]


def test_a_quick_run_leaves_the_full_one_alone(tmp_path):
    run_experiment(make(tmp_path), RunOptions(runs=2), tmp_path)
    result = run_experiment(make(tmp_path), RunOptions(runs=1, quick=True), tmp_path)
    assert result.directory.name == "toy-quick"
    assert (tmp_path / "toy" / "table.md").exists()


def break_down(*, seed):
    if seed == 1:
        raise ZeroDivisionError("no good")
    return [{"seed": seed, "round": 1, "value": 1.0}]


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_job_that_fails_is_named_and_the_others_are_kept(tmp_path, workers):
    jobs = [Job(f"job-{i}", break_down, {"seed": i}, 3.0 - i) for i in range(2)]
    experiment = Experiment("bad", "", lambda settings: jobs, make(tmp_path).summarize)
    with pytest.raises(JobError) as error:
        run_experiment(experiment, RunOptions(runs=2), tmp_path, workers=workers)
    assert str(error.value).startswith(
        "The job job-1 failed with ZeroDivisionError: no good (test_runner.py, line "
    )


def end_process(*, seed):
    os._exit(7)


@pytest.mark.slow
def test_a_process_that_dies_is_reported_in_a_sentence(tmp_path):
    jobs = [Job(f"job-{i}", end_process, {"seed": i}) for i in range(2)]
    experiment = Experiment("bad", "", lambda settings: jobs, make(tmp_path).summarize)
    with pytest.raises(JobError, match="A worker process died: out of memory"):
        run_experiment(experiment, RunOptions(runs=2), tmp_path, workers=2)


def test_a_directory_that_cannot_be_written_is_reported_before_the_first_job(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ParameterError, match="cannot be written"):
        run_experiment(make(tmp_path), RunOptions(runs=1), tmp_path / "file")
    assert marks(tmp_path) == []
