"""Every runtime, program and loss passes its suite; the suites catch what is wrong.

Each program runs on few cases, in which every pair of properties still meets (see
`conformance_cases`), and on all cases where tests may be slow.
"""

import itertools
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from conformance_cases import covering_trials
from instances import LOSSES
from peerclust import graphs, kernels, testing
from peerclust.errors import DivergedError, ParameterError
from peerclust.losses import KMeans
from peerclust.programs.dgc import DGC
from peerclust.programs.draw import Draw
from peerclust.programs.protocol import HeardSum, HeardTotal, State
from peerclust.ranks.distribution import Distribution
from peerclust.runtimes import RUNTIMES, Loopback, Simulator, resolve, run_program
from peerclust.runtimes.protocol import agreed_ballot
from peerclust.testing import Trial

COVERING = covering_trials()


def is_large(case):
    """Return whether a user has more rows than a chunk of the kernels."""
    return max(case.sizes) > kernels.CHUNK_ROWS


# Loopback is the reference, and each program's check compares the simulator with it.
@pytest.mark.parametrize("name", testing.PROGRAMS)
def test_every_program_conforms_on_the_simulator_and_on_loopback(name):
    testing.check_program(testing.PROGRAMS[name], cases=COVERING[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", testing.PROGRAMS)
def test_every_program_conforms_in_every_case(name):
    testing.check_program(testing.PROGRAMS[name])


def test_there_is_no_runtime_of_one_process_that_no_test_here_compares():
    assert set(RUNTIMES.values()) == {Simulator, Loopback}


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_every_loss_conforms(loss):
    testing.check_loss(loss)


def test_some_cases_stop_by_themselves_and_some_run_out_of_rounds():
    trial = testing.PROGRAMS["dgc"]
    ends = [testing.checks._end(Simulator, trial, case, case.start()) for case in COVERING["dgc"]]
    assert {end["stopped"] for end in ends} == {True, False}


@pytest.mark.parametrize("runtime", [7, lambda graph: graph, Simulator(graphs.ring(3))])
def test_what_does_not_deliver_is_no_runtime(runtime):
    everyone = Distribution.of_all(graphs.ring(3))
    with pytest.raises(ParameterError, match="must be a name or a class that takes a graph"):
        resolve(runtime, everyone)


class Off(Simulator):
    """Hears every sum one bit too large."""

    def deliver(self, said):
        delivered = super().deliver(said)
        (heard,) = delivered.messages
        if isinstance(heard, HeardSum):
            heard = replace(heard, total=np.nextafter(heard.total, np.inf))
        return delivered._replace(messages=[heard])


class Deaf(Simulator):
    """Stops one round late."""

    def __init__(self, graph):
        super().__init__(graph)
        self._D += 1


class Miscounts(Simulator):
    """Hears every total one too large."""

    def deliver(self, said):
        delivered = super().deliver(said)
        (heard,) = delivered.messages
        if isinstance(heard, HeardTotal):
            heard = replace(heard, v=heard.v + np.uint64(1))
        return delivered._replace(messages=[heard])


class Hasty(Simulator):
    """Lets users stop before their neighbors agree."""

    def deliver(self, said):
        return super().deliver(said)._replace(ballot=lambda: agreed_ballot(said.votes))


@pytest.mark.parametrize("runtime", [Off, Deaf, Miscounts, Hasty])
def test_a_wrong_runtime_is_caught(runtime):
    # With wrong totals some programs diverge before they could be compared.
    with pytest.raises((AssertionError, DivergedError)):
        testing.check_runtime(runtime)


@dataclass(frozen=True)
class Forgetful(DGC):
    """Assigns users' rows when it first sees them, and keeps that outside of its state."""

    first: dict = field(default_factory=dict)

    def hear(self, users, state, heard):
        x = state.x
        if users not in self.first:
            self.first[users] = users.assign(x)
        gradient = users.gradient(self.first[users], x) / self.rho + heard.degree * x - heard.total
        moved, residual = x - self.alpha * gradient, np.ones(users.m)
        return State(x=moved, residual=residual, round=state.round + 1)


def test_a_program_that_keeps_more_than_its_state_is_caught():
    with pytest.raises(AssertionError, match="resumed half way"):
        testing.check_program(Trial(lambda case: Forgetful(rho=5.0, alpha=case.step(5.0))))


@dataclass(frozen=True)
class Bad:
    """Wraps a loss and spoils one thing."""

    smoothness: float = 1.0
    factor: float = 1.0

    def value(self, r2):
        return self.factor * KMeans().value(r2)

    def gamma(self, r2):
        return KMeans().gamma(r2)


@dataclass(frozen=True)
class Concave:
    smoothness: float = 1.0

    def value(self, r2):
        return np.log1p(r2)

    def gamma(self, r2):
        return 2 / (1 + np.asarray(r2))


@pytest.mark.parametrize("loss", [Bad(smoothness=0.5), Bad(factor=2.0), Concave()], ids=repr)
def test_a_wrong_loss_is_caught(loss):
    with pytest.raises(AssertionError):
        testing.check_loss(loss)


def test_runtimes_count_the_same_messages():
    case = next(testing.cases())
    program = DGC(rho=5.0, alpha=case.step(5.0), B=2)
    for runtime in (Simulator, Loopback):
        run = run_program(runtime(case.graph), program, case.users(), case.start(), rounds=3)
        assert run.traffic.messages == 3 * 2 * 26
        assert run.traffic.bytes == run.traffic.messages * (4 * 3 * 8 + 16)


@dataclass(frozen=True)
class Writes(DGC):
    """Writes to its start."""

    def start(self, users, x):
        x += 1.0
        return super().start(users, x)


def test_a_program_that_writes_to_its_start_is_caught():
    with pytest.raises(AssertionError, match="wrote to its start"):
        testing.check_program(Trial(lambda case: Writes(rho=5.0, alpha=case.step(5.0))))


@dataclass(frozen=True)
class Stuck(DGC):
    """Hears, but does not go on."""

    def hear(self, users, state, heard):
        return replace(super().hear(users, state, heard), round=state.round)


def test_a_program_that_does_not_advance_is_caught():
    with pytest.raises(RuntimeError, match="hear of Stuck must advance"):
        testing.check_program(Trial(lambda case: Stuck(rho=5.0, alpha=case.step(5.0))))


@dataclass(frozen=True)
class Secret(Draw):
    """Keeps what it drew on the users instead of in its state."""

    def start(self, users, x):
        state = super().start(users, x)
        users.secret = state.values
        return replace(state, values=np.zeros_like(state.values))

    def say(self, state):
        return super().say(state)

    def hear(self, users, state, heard):
        if state.round == 0:
            state = replace(state, values=getattr(users, "secret", state.values))
        return super().hear(users, state, heard)


def test_a_draw_that_keeps_a_secret_is_caught():
    with pytest.raises(AssertionError, match="resumed half way"):
        testing.check_program(Trial(lambda _: Secret(seed=3, step=1, n=5), True, 2, -1.0))


def check_shorter_chunks(names, cases):
    """Check that programs end the same if rows are summed in shorter chunks."""
    for name, case in itertools.product(names, cases):
        x, program = testing.PROGRAMS[name].start(case), testing.PROGRAMS[name].make(case)
        # The parameters may depend on total weights, which are summed in chunks.
        trial = replace(testing.PROGRAMS[name], make=lambda _, program=program: program)
        expected = testing.checks._end(Loopback, trial, case, x)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernels, "CHUNK_ROWS", kernels.CHUNK_ROWS // 2)
            end = testing.checks._end(Simulator, trial, case, x)
        for scale in SCALES.get(name, ()):
            del end[scale], expected[scale]
        assert end == expected, f"{name}, {case.name}"


# Costs, and users' total weights, are summed chunk by chunk.
BY_CHUNK = {"certificate", "dgc, all noise"}
# What the integers of a sum are scaled by depends on total weights, not what is summed.
SCALES = {
    "exact": ("ranges", "largest"),
    "quantile": ("bound", "weights"),
    "quantiles of features": ("bound", "weights"),
}
EXACT = [name for name in testing.PROGRAMS if name not in BY_CHUNK]


@pytest.mark.parametrize("name", EXACT)
def test_how_a_runtime_cuts_rows_makes_no_difference(name):
    large = [case for case in COVERING[name] if is_large(case)]
    assert large
    check_shorter_chunks([name], large)


@pytest.mark.slow
def test_how_a_runtime_cuts_rows_makes_no_difference_in_any_case():
    large = [case for case in testing.cases() if is_large(case)]
    check_shorter_chunks(EXACT, large)
