"""Every script in examples/ runs, and shows what it says."""

import runpy
import sys
from pathlib import Path

import pytest

from mpi_jobs import needs_mpi, run_ranks
from peerclust import baselines, paper

EXAMPLES = Path(__file__).parents[1] / "examples"


def show(name, capsys):
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def test_consensus_by_rho_shows_a_disagreement_that_falls(capsys):
    apart = [
        float(line.split()[1]) for line in show("consensus_by_rho.py", capsys).splitlines()[1:]
    ]
    assert len(apart) == 4
    assert apart == sorted(apart, reverse=True)


def test_robust_to_starts_shows_both_accuracies(capsys):
    users, pooled = show("robust_to_starts.py", capsys).splitlines()
    assert 80 < float(users.split()[3]) < 95
    assert 60 < float(pooled.split()[3]) < 95


def test_outliers_shows_that_kmeans_loses_a_center_and_huber_none(capsys):
    kmeans, huber = show("outliers.py", capsys).splitlines()
    assert float(kmeans.split()[6]) > 10
    assert float(huber.split()[6]) < 1.5
    assert huber.endswith("AUC 1.000")


def test_heterogeneous_users_do_better_together(capsys):
    together, alone = show("heterogeneous_users.py", capsys).splitlines()[1:]
    assert float(together.split()[1]) > float(alone.split()[1]) + 0.1


def test_own_method_joins_a_table(capsys, monkeypatch):
    kept = paper.run
    monkeypatch.setattr(paper, "run", lambda name, *, out, runs: kept(name, out=out, runs=runs - 1))
    try:
        assert "| random | LONG-STEPS | - |" in show("own_method.py", capsys)
    finally:
        baselines.unregister("LONG-STEPS")


@pytest.mark.mpi
@needs_mpi
def test_cluster_on_mpi_shows_the_same_numbers_on_one_rank_as_on_two(capsys):
    head, *alone = show("cluster_on_mpi.py", capsys).splitlines()
    assert head == "60 users on 1 ranks, 60 on this one"
    assert alone[0].startswith("converged")
    job = run_ranks(2, sys.executable, "-m", "mpi4py", EXAMPLES / "cluster_on_mpi.py")
    assert job.returncode == 0, job.stderr
    assert job.stdout.splitlines() == ["60 users on 2 ranks, 30 on this one", *alone]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_every_example_is_tested_here(path):
    assert path.name in Path(__file__).read_text()
