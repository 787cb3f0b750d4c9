"""The table of solvers is the only place that knows them: all else follows it, or matches it."""

import re
from pathlib import Path

import numpy as np
import pytest

from peerclust import graphs
from peerclust.cli.help import HELP
from peerclust.errors import ParameterError
from peerclust.programs.protocol import NetworkSum
from peerclust.programs.solver_spec import PARAMETERS, Tuning
from peerclust.programs.solvers import SOLVERS
from peerclust.runtimes import Simulator, run_program
from peerclust.runtimes.network import contract_file
from peerclust.theory import Scales
from peerclust.users import Users

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "peerclust"
METHOD = HELP["Method"]
SCALES = Scales(W=10.0, W_total=30.0, beta=1.0, spread=2.0)


class SumsToAll(Simulator):
    """Notes whether integers are summed over the whole network."""

    def __init__(self, graph):
        super().__init__(graph)
        self.sums = False

    def deliver(self, said):
        self.sums |= isinstance(said.messages[0], NetworkSum)
        return super().deliver(said)


def named(text):
    """Return the solvers that a text names."""
    return {name for name in SOLVERS if re.search(rf"(?<![\w-]){name}(?![\w-])", text)}


def taking(parameter):
    return {name for name, spec in SOLVERS.items() if spec.takes(parameter)}


def documented_rows():
    """Return the cells of each row of the table in docs/solvers.md, by solver."""
    text = (ROOT / "docs" / "solvers.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return {row[0].split("`")[1]: row for row in rows if len(row) == 7}


def test_no_other_module_compares_solvers_by_name():
    """Defaults are names, but nothing is decided by them."""
    names = "|".join(SOLVERS)
    compares = re.compile(rf"""(==|!=|\bin\b) *\(?["']({names})["']""")
    offenders = [
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] not in ("paper", "testing", "baselines")
        for line in path.read_text().splitlines()
        if compares.search(line)
    ]
    assert offenders == []


def test_the_documented_table_has_every_solver_with_its_properties():
    rows = documented_rows()
    assert list(rows) == list(SOLVERS)
    for name, (_, _, same, sent, lost, losses, parameters) in rows.items():
        spec = SOLVERS[name]
        assert (same.startswith("no") or same == "the same") == spec.penalized, name
        assert ("sums" in sent) == spec.sends_sums, name
        assert lost == ("continues" if spec.survives_loss else "stops"), name
        assert (losses == "all") == spec.bregman, name
        if parameters != "the same":
            taken = tuple(re.findall(r"`(\w+)`", parameters))
            assert taken == spec.parameters, name


def test_the_documents_describe_every_solver_in_a_section_that_starts_with_its_summary():
    text = (ROOT / "docs" / "solvers.md").read_text()
    for name, spec in SOLVERS.items():
        assert f"## {name}\n\n*In short:* {spec.summary}.\n" in text, name


@pytest.mark.parametrize("key", ["solver", "peer_solver"])
def test_the_help_names_every_solver(key):
    assert named(METHOD[key]) == set(SOLVERS)
    sending = re.findall(r"([\w-]+) \(which sends", METHOD[key])
    assert sending == [name for name, spec in SOLVERS.items() if spec.sends_sums]


def test_the_help_says_which_solvers_have_an_option():
    unused = METHOD["rho"].split("Not used by")[1]
    assert named(unused) == set(SOLVERS) - taking("rho")
    assert named(METHOD["alpha"]) == taking("alpha")
    assert named(METHOD["updates"]) == taking("B")
    surviving = {name for name, spec in SOLVERS.items() if spec.survives_loss}
    assert named(HELP["Network"]["on_loss"]) == surviving


def test_the_network_file_names_every_solver():
    assert named(contract_file.SECTIONS["clustering"]["solver"]) == set(SOLVERS)


@pytest.mark.parametrize("spec", SOLVERS.values(), ids=list(SOLVERS))
def test_a_spec_makes_a_solver_that_sends_what_it_says(spec):
    alpha = 0.0 if spec.own_steps else 0.1
    tuning = Tuning(make_graph=lambda: graphs.ring(3), curvature=np.array([4.0, 9.0]), alpha=alpha)
    program, runtime = spec.make(tuning), SumsToAll(graphs.ring(3))
    users = Users(np.arange(12.0)[:, None], np.array([0, 4, 8, 12]))
    x = np.array([[[0.0], [9.0]]] * 3)
    run = run_program(runtime, program, users, x, rounds=12)
    assert (run.rounds, np.isfinite(run.x).all()) == (12, True)
    assert runtime.sums == spec.sends_sums
    assert spec.max_overshoot(1.0) >= 0.0
    assert set(spec.parameters) <= set(PARAMETERS)


@pytest.mark.parametrize("spec", SOLVERS.values(), ids=list(SOLVERS))
def test_only_a_solver_that_takes_alpha_may_have_steps_of_each_users_own(spec):
    assert spec.takes("alpha") or not spec.own_steps
    if spec.own_steps:
        program = spec.make(Tuning(lambda: graphs.ring(3), curvature=np.ones(2)))
        assert program.alpha == 0.0


@pytest.mark.parametrize("spec", SOLVERS.values(), ids=list(SOLVERS))
def test_options_of_other_solvers_are_rejected(spec):
    others = {"rho": 5.0, "alpha": 0.1, "B": 2, "consensus_factor": 0.5}
    others |= {"exchange": "8-bit", "on_loss": "continue"}
    fits = {name: spec.takes(name) for name in PARAMETERS}
    fits |= {"exchange": not spec.full_precision, "on_loss": spec.survives_loss}
    spec.check_options(PARAMETERS | {"exchange": "float64", "on_loss": "stop"}, "cluster")
    for name, value in others.items():
        if fits[name]:
            spec.check_options({name: value}, "cluster")
            continue
        with pytest.raises(ParameterError, match=f"`{name}` of cluster must be .* {spec.name!r}"):
            spec.check_options({name: value}, "cluster")


def test_a_given_rho_comes_before_a_formula():
    assert SOLVERS["group-lasso"].find_rho(7, SCALES) == 7.0
    assert SOLVERS["group-lasso"].find_rho("auto", SCALES) == 1.0 * 30.0 * 2.0
    assert SOLVERS["dgc"].find_rho("auto", SCALES) is None


def test_each_center_has_a_penalty_for_the_curvature_that_users_agreed_on():
    tuning = Tuning(make_graph=lambda: graphs.ring(4), curvature=np.array([3.75, 0.0, 12.0]))
    # 0.8 H / sqrt(lambda_2 lambda_max); the empty cluster takes the largest.
    expected = 0.8 * np.array([3.75, 12.0, 12.0]) / (2.0 * 4.0) ** 0.5
    assert tuning.penalties == pytest.approx(expected)
    assert tuning.disagreement_weight == pytest.approx(1 / 2.0)
    for name in ("admm", "group-lasso"):
        program = SOLVERS[name].make(tuning)
        assert program.c == tuning.penalties
        assert program.disagreement_weight == tuning.disagreement_weight
    assert SOLVERS["admm"].make(tuning).D == 2


def test_exact_estimates_the_sum_of_all_users_curvatures():
    tuning = Tuning(make_graph=lambda: graphs.ring(4), curvature=np.array([3.75, 0.0, 12.0]))
    program = SOLVERS["exact"].make(tuning)
    assert (program.m, program.curvature) == (4, (15.0, 0.0, 48.0))


def test_one_user_alone_has_penalties_too():
    tuning = Tuning(make_graph=lambda: graphs.path(1), curvature=np.array([2.0, 0.0]))
    assert all(np.isfinite(tuning.penalties))
    assert all(c > 0 for c in tuning.penalties)
    assert tuning.disagreement_weight == 0.0


def test_a_penalized_solver_does_not_ask_for_the_graph():
    def refuse():
        raise AssertionError

    tuning = Tuning(make_graph=refuse, curvature=np.ones(2))
    for spec in SOLVERS.values():
        if spec.penalized:
            spec.make(tuning)
