"""The benchmarks `optimum` and `convergence`, on few problems."""

import pytest

import benchmarks
from benchmarks import convergence, optimum
from benchmarks.convergence import Outcome
from peerclust.programs.solvers import SOLVERS


def test_costs_are_compared_with_the_best_of_many_restarts(monkeypatch):
    monkeypatch.setattr(optimum, "_MIXTURES", 2)
    lines = []
    report = benchmarks.run("optimum", lines.append)
    assert lines == ["kmeans: mixture 0 of 2", "huber: mixture 0 of 2"]
    names = [measure.name for measure in report.measures]
    assert len(set(names)) == len(names)
    assert {name.split("_")[0] for name in names} == {"kmeans", "huber"}


def test_runs_are_counted_that_converge_and_rest(monkeypatch):
    monkeypatch.setattr(convergence, "_SEEDS", 1)
    monkeypatch.setattr(convergence, "_ROUNDS", 100)
    monkeypatch.setattr(convergence, "_CONTINUED", 3)
    report = benchmarks.run("convergence", lambda _: None)
    found = {measure.name: measure.value for measure in report.measures}
    assert 0 <= found["all_but_dgc_converge"] <= 1
    done = sum(found[f"{solver}_converged"] for solver in SOLVERS if solver != "dgc")
    assert found["all_but_dgc_converge"] == pytest.approx(done / (4 * (len(SOLVERS) - 1)))


def test_only_runs_that_converged_must_be_at_rest():
    outcomes = [Outcome(True, 1e-4, 1e-5), Outcome(True, 1.0, 0.0), Outcome(False)]
    rest, converge = convergence._count("some", outcomes, at_least=0.5)
    assert (rest.name, rest.value, rest.holds) == ("some_at_rest", 0.5, False)
    assert (converge.name, converge.value, converge.holds) == ("some_converge", 2 / 3, True)
