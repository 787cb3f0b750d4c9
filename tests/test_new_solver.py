"""A solver that is one program, its spec and one line of the table runs everywhere."""

from dataclasses import dataclass

import numpy as np
import pytest

import peerclust as pc
from peer_runs import iris, make_path_contract
from peerclust.peers import configuration, setup
from peerclust.peers.rows import Rows
from peerclust.programs.admm import SPEC
from peerclust.programs.dgc import DGC
from peerclust.programs.solver_spec import SolverSpec, penalized_spec
from peerclust.programs.solvers import SOLVERS
from peerclust.runtimes import Simulator, run_program
from peerclust.runtimes.network import contract_validation
from peerclust.testing import Trial, check_program, checks


@dataclass(frozen=True)
class Twin(DGC):
    """DGC by another name."""


@pytest.fixture(autouse=True)
def line(monkeypatch):
    monkeypatch.setitem(SOLVERS, "twin", penalized_spec("twin", "DGC once more", Twin))


@pytest.mark.parametrize("runtime", ["simulator", "loopback"])
def test_cluster_runs_it(runtime):
    given = {"n_clusters": 3, "rho": 20, "rounds": 50, "random_state": 0, "runtime": runtime}
    ends = [pc.cluster(iris(4), solver=name, **given) for name in ("twin", "dgc")]
    assert np.array_equal(ends[0].centers, ends[1].centers)
    assert ends[0].certificate == ends[1].certificate
    assert [end.solver for end in ends] == ["twin", "dgc"]


def test_peers_run_it():
    assert contract_validation._check_solver("twin", "solver", "network.toml") == "twin"
    contract, parts, members = make_path_contract(solver="twin"), iris(4), (0, 1, 2, 3)
    offsets = np.cumsum([0, *map(len, parts)])
    rows = Rows(np.concatenate(parts), offsets, 1.0, members)
    runtime = Simulator(contract.graph)
    agreed, users, x = setup.agree(contract, runtime, rows, members, [], "")
    program = configuration.make_program(contract, agreed)
    assert program == Twin(rho=20.0, alpha=agreed.alpha)
    assert run_program(runtime, program, users, x, rounds=5).rounds == 5
    assert configuration.make_box(contract, agreed).refuse(x[0]) == ""


def test_cluster_runs_a_spec_that_is_not_in_the_table():
    spec = penalized_spec("mine", "DGC once more", Twin)
    given = {"n_clusters": 3, "rho": 20, "rounds": 50, "random_state": 0}
    ends = [pc.cluster(iris(4), solver=solver, **given) for solver in (spec, "dgc")]
    assert np.array_equal(ends[0].centers, ends[1].centers)
    assert [end.solver for end in ends] == ["mine", "dgc"]


def test_a_spec_refuses_what_it_does_not_take():
    spec = SolverSpec(name="mine", summary="DGC", make=lambda t: Twin(rho=5.0, alpha=t.alpha))
    with pytest.raises(pc.errors.ParameterError, match="`rho` of cluster must be 'auto' with"):
        pc.cluster(iris(4), n_clusters=3, solver=spec, rho=3)


def test_a_case_has_what_a_spec_makes_its_program_from():
    cases = [case for case in checks.every_case() if case.name.startswith("Huber(delta=0.7), Eu")]
    check_program(Trial(lambda case: SPEC.make(case.tuning()), rounds=10), cases=cases)
