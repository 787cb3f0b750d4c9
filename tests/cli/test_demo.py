"""What `peerclust demo` prints and draws."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import peerclust as pc
from command_line import good, run
from peerclust.paper import demo


@pytest.fixture(autouse=True)
def _work_in_a_directory_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_demo_matches_each_true_mean_to_one_center():
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


def test_the_demo_says_which_losses_found_the_clusters():
    result = good("demo", "--out", "here.png", "--seed", 1)
    assert "Huber found all 3 true clusters, K-means 2 of 3 true clusters." in result.stdout
    assert "ran out of rounds" in result.stdout
    assert Path("here.png").exists()
    assert run("demo", "--out", "here.pdf").exit_code == 2
