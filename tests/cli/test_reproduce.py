"""What `peerclust reproduce` lists, runs, resumes and rejects."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from peerclust import baselines, paper
from peerclust.cli import app
from peerclust.errors import DataError

OWN = """
from peerclust import baselines
from peerclust.programs.dgc import DGC

def program(task):
    return DGC(rho=task.rho, alpha=0.01)

baselines.register("MINE", baselines.OverNetwork(program))
"""


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_list_names_every_experiment():
    result = run("reproduce", "--list")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in paper.NAMES)
    listed = json.loads(run("reproduce", "--list", "--json").stdout)
    assert list(listed) == list(paper.NAMES)


def test_a_figure_is_written_and_shown(folder):
    result = run("reproduce", "figure-5", "--out", "results")
    assert result.exit_code == 0, result.output
    assert "| 10 | 5 | 0.382 | 4 |" in result.stdout
    assert "Written to results/figure-5." in result.stdout
    names = {path.name for path in Path("results/figure-5").iterdir()}
    assert names == {"runs", "runs.csv", "table.md", "figure.png", "config.json"}


def test_json_is_one_object_and_nothing_else():
    result = run("reproduce", "table-6", "--runs", 1, "--workers", 1, "--json")
    assert result.exit_code == 0
    assert not result.stderr
    (found,) = json.loads(result.stdout)["results"]
    assert found["name"] == "table-6"
    assert len(found["lines"]) == 12
    assert {"method", "rho", "paper", "ours", "agrees", "form"} <= set(found["lines"][0])


def test_a_second_run_reuses_the_first():
    run("reproduce", "figure-5")
    assert "1 of 1 already done" in run("reproduce", "figure-5").stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["tabel-1"], "Got 'tabel-1'. Did you mean 'table-1'?"),
        ([], "`NAME` of reproduce is required; --list shows the names."),
        (["table-1", "--data", "iris"], "`--data` of reproduce must be left out with table-1."),
        (["table-5", "--data", "irs-het"], "Did you mean 'iris-het'?"),
        (["table-2", "--methods", "no.py"], "`--methods` of reproduce must be a Python file."),
        (["table-3", "--data-dir", "nowhere"], "nowhere"),
    ],
)
def test_an_error_is_one_sentence(folder, words, sentence):
    result = run("reproduce", *words, "--workers", 1)
    assert result.exit_code == 2
    assert sentence in result.stderr.splitlines()[-1]
    assert not list(folder.rglob("*.md"))


def test_all_skips_experiments_without_data_and_names_them(monkeypatch):
    done = []

    def fake(name, **given):
        if name in ("table-3", "figure-4"):
            raise DataError("There is no file mnist.npz.")
        done.append(name)
        return kept("figure-5", out=given["out"])

    kept = paper.run
    monkeypatch.setattr(paper, "run", fake)
    result = run("reproduce", "all", "--quick")
    assert result.exit_code == 1
    assert "table-3 was skipped. There is no file mnist.npz." in result.stderr
    assert done == [name for name in paper.NAMES if name not in ("table-3", "figure-4")]


def test_own_methods_are_loaded_from_a_file_and_reach_other_processes(folder):
    (folder / "mine.py").write_text(OWN)
    code = "from peerclust.cli import main; main()"
    words = ["reproduce", "table-2", "--runs", "1", "--workers", "2", "--methods", "mine.py"]
    result = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "| random | MINE | - |" in result.stdout


def test_a_file_that_registers_nothing_is_refused(folder):
    (folder / "empty.py").write_text("x = 1\n")
    result = run("reproduce", "table-2", "--methods", "empty.py")
    assert result.exit_code == 2
    assert "must be a file that runs and calls baselines.register. Got empty.py." in result.stderr
    assert baselines.shared() == ([], {})


def test_a_file_that_fails_is_reported_and_registers_nothing(folder):
    (folder / "bad.py").write_text(OWN + "raise RuntimeError('boom')\n")
    result = run("reproduce", "table-2", "--methods", "bad.py")
    assert result.exit_code == 2
    assert "Got bad.py. RuntimeError: boom (bad.py, line 9)." in result.stderr
    assert baselines.shared() == ([], {})


@pytest.fixture
def started(folder):
    """Start a run with two workers, in a process group of its own, and wait for its first job."""
    code = "from peerclust.cli import main; main()"
    words = ["reproduce", "table-7", "--workers", "2", "--out", "out"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        # A shell starts processes in the background with SIGINT ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    # The first line says that nothing is done yet, the second comes after a job.
    next(process.stderr)
    next(process.stderr)
    yield process
    process.kill()


def check_gone(group):
    """Check that the last process of a group ends; Python's resource tracker takes a moment."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
    pytest.fail("a process was left behind")


def test_an_interrupted_run_keeps_what_is_done_and_leaves_no_process_behind(started):
    os.killpg(started.pid, signal.SIGINT)
    rest = started.communicate(timeout=60)[1]
    assert started.returncode == 130
    assert "Interrupted; run the same command again to resume." in rest
    assert "Traceback" not in rest
    assert list(Path("out/table-7/runs").glob("*.json"))
    assert not Path("out/table-7/table.md").exists()
    check_gone(started.pid)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_run(started, end):
    started.send_signal(end)
    started.communicate(timeout=60)
    check_gone(started.pid)
