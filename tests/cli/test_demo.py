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
    data = demo.make_data(0)
    still = {"n_clusters": 5, "rounds": 1, "alpha": 1e-9, "rho": 10, "search": "none"}
    at_means = demo.judge("", pc.cluster(data.parts, init=data.means, **still), data)
    assert at_means.found == 5
    assert at_means.verdict == "all 5 true clusters"
    shared = np.concatenate([data.means[:3], data.means[:1] + 0.1, data.means[:1] + 0.2])
    two_missed = demo.judge("", pc.cluster(data.parts, init=shared, **still), data)
    assert two_missed.verdict == "3 of 5 true clusters"
    assert two_missed.distances.max() > 10


def test_the_demo_runs_as_a_module_and_draws_its_picture():
    command = [sys.executable, "-m", "peerclust", "demo", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    result = json.loads(done.stdout)
    kmeans, huber, penalized = result["runs"]
    assert [each["status"] for each in result["runs"]] == 3 * ["converged"]
    assert max(each["residual"] for each in result["runs"]) < 1e-6
    assert huber["found"] == penalized["found"] == 5
    assert huber["auc"] > 0.99 > kmeans["auc"]
    assert kmeans["found"] < 5
    assert penalized["disagreement"] > huber["disagreement"] == 0
    picture = Path(result["picture"])
    assert picture.name == "peerclust-demo.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 200_000


def test_the_demo_says_which_losses_found_the_clusters():
    result = good("demo", "--out", "here.png", "--seed", 1)
    said = " ".join(result.stdout.split())
    assert "K-means found 0 of 5 true clusters, and Huber all 5 true clusters." in said
    assert "ran out of rounds" not in said
    assert Path("here.png").exists()
    assert run("demo", "--out", "here.pdf").exit_code == 2
