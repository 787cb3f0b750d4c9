"""Every runtime, program and loss passes its suite; the suites catch what is wrong."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from instances import LOSSES
from peerclust import testing
from peerclust.losses import Huber, KMeans
from peerclust.programs.dgc import DGC
from peerclust.runtimes import RUNTIMES, Loopback, Simulator


@pytest.mark.parametrize("runtime", RUNTIMES.values(), ids=RUNTIMES)
def test_every_runtime_conforms(runtime):
    testing.check_runtime(runtime)


@pytest.mark.parametrize("make", testing.PROGRAMS.values(), ids=testing.PROGRAMS)
def test_every_program_conforms(make):
    testing.check_program(make)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_every_loss_conforms(loss):
    testing.check_loss(loss)


def test_some_cases_stop_by_themselves_and_some_run_out_of_rounds():
    make = testing.PROGRAMS["dgc"]
    stopped = {testing._end(Simulator, make(c), c)["stopped"] for c in testing.cases()}
    assert stopped == {True, False}


class Off(Simulator):
    """Sums neighbors in the wrong order."""

    def deliver(self, said):
        heard, traffic = super().deliver(said)
        if hasattr(heard, "total"):
            heard = replace(heard, total=np.nextafter(heard.total, np.inf))
        return heard, traffic


class Deaf(Simulator):
    """Stops one round late."""

    def __init__(self, graph):
        super().__init__(graph)
        self._D += 1


@pytest.mark.parametrize("runtime", [Off, Deaf])
def test_a_wrong_runtime_is_caught(runtime):
    with pytest.raises(AssertionError):
        testing.check_runtime(runtime)


@dataclass(frozen=True)
class Forgetful(DGC):
    """Keeps its labels from the first round only."""

    def hear(self, users, state, heard):
        if state.round == 0:
            users.assign(state.x)
        gradient = users.pull(state.x) / self.rho + heard.degree * state.x - heard.total
        return state.next(state.x - self.alpha * gradient, np.ones(users.m), self.B)


def test_a_program_that_keeps_more_than_its_state_is_caught():
    with pytest.raises(AssertionError):
        testing.check_program(lambda case: Forgetful(rho=5.0, alpha=case.step(5.0)))


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
        run = runtime(case.graph).run(program, case.users(), case.start(), rounds=3)
        assert run.traffic.messages == 3 * 2 * 26
        assert run.traffic.bytes == run.traffic.messages * (4 * 3 * 8 + 16)


def test_huber_is_in_the_suite():
    assert any(isinstance(case.loss, Huber) for case in testing.cases())
