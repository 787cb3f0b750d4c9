"""A run ends only with a certificate: stops that were proposed too early are not the end."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from all_pairs import by_pairs
from instances import GRAPHS
from peerclust import theory
from peerclust.programs.accelerated import Accelerated
from peerclust.programs.admm import ADMM
from peerclust.programs.certificate import Certify
from peerclust.programs.dgc import DGC
from peerclust.programs.exact import Exact
from peerclust.programs.lossy import Lossy
from peerclust.runtimes import Loopback, Simulator, run_program
from peerclust.runtimes.convergence import FIRST_WAIT, Task, carry_out, converge
from peerclust.runtimes.loop import begin
from peerclust.runtimes.protocol import Snapshot, Traffic
from peerclust.runtimes.stopping import first_vote
from peerclust.users import Users

RHO, M, K = 5.0, 7, 3


@dataclass(frozen=True)
class Hurried(DGC):
    """DGC whose users are always quiet: they propose to stop whenever they may."""

    def hear(self, users, state, heard):
        after = super().hear(users, state, heard)
        return replace(after, residual=np.zeros_like(after.residual))


def make(seed=0):
    rng = np.random.default_rng(seed)
    means = 4 * rng.normal(size=(K, 2))
    rows = np.concatenate([means[rng.integers(K, size=8)] for _ in range(M)])
    rows = rows + rng.normal(size=rows.shape)
    return Users(rows, np.arange(0, 8 * M + 1, 8)), means + rng.normal(size=(M, K, 2))


def step_of(graph):
    return 0.99 / (8 / RHO + graph.lambda_max.value)


class Driver:
    """Carries out a plan on a runtime; keeps the tasks, their runs and all checkpoints."""

    def __init__(self, runtime, graph, users):
        self.runtime, self.users = runtime(graph), users
        self.tasks, self.runs, self.snapshots = [], [], []

    def __call__(self, task):
        start = task.start if isinstance(task.start, Snapshot) else None
        x = task.start if start is None else np.concatenate([s.x for s in start.states])
        run = run_program(
            self.runtime, task.program, self.users, x, rounds=task.rounds,
            threshold=task.threshold, resume_from=start,
            on_checkpoint=self.snapshots.append if task.iterates else None,
        )  # fmt: skip
        self.tasks.append(task)
        self.runs.append(run)
        return run

    @property
    def solver(self):
        """The runs of the solver, and the tasks that they were for."""
        pairs = zip(self.runs, self.tasks, strict=True)
        return [(run, task) for run, task in pairs if task.iterates]

    def begin(self, program, x, stiffness=None):
        blocks = self.runtime.blocks(self.users)
        ends = np.cumsum([len(block.ids) for block in blocks])[:-1]
        start = begin(program, blocks, np.split(x, ends))
        if stiffness is None:
            return start
        agreed = zip(start.states, np.split(stiffness, ends), strict=True)
        return replace(start, states=[state.with_stiffness(own) for state, own in agreed])


def check_of(graph, *, penalized=True):
    lambda_2 = graph.lambda_2.value
    return Certify(M, rho=RHO if penalized else None, c=1.0, lambda_2=lambda_2)


def converged(
    program, graph, *, runtime=Simulator, threshold, rounds=3000, stiffness=None, penalized=True
):
    """The end of a run from common users, and what drove it."""
    users, x = make()
    driver, certify = Driver(runtime, graph, users), check_of(graph, penalized=penalized)
    start = driver.begin(program, x, stiffness)
    plan = converge(program, certify, start, rounds=rounds, threshold=threshold)
    return carry_out(plan, driver), driver


def certified(driver, graph, x, *, penalized=True):
    """The residual at some centers, found anew."""
    certify = check_of(graph, penalized=penalized)
    run = run_program(driver.runtime, certify, driver.users, x, rounds=certify.rounds)
    return certify.read(run.states[0]).residual


@by_pairs(make_graph=GRAPHS, runtime=[Simulator, Loopback])
def test_users_that_propose_too_early_continue_and_wait_twice_as_long_each_time(
    make_graph, runtime
):
    graph = make_graph(M)
    program, D = Hurried(rho=RHO, alpha=step_of(graph)), int(graph.diameter.value)
    end, driver = converged(program, graph, runtime=runtime, threshold=1e-6)
    rounds = [run.rounds for run, _ in driver.solver]
    assert len(rounds) > 3
    # Always quiet, they stop after 2 D + 1 rounds in which they vote.
    assert rounds[0] == 2 * D + 1
    waits = np.diff(rounds) - (2 * D + 1)
    assert waits.tolist() == [FIRST_WAIT * 2**i for i in range(len(waits))]
    residuals = [certified(driver, graph, run.x) for run, _ in driver.solver]
    assert all(residual > 1e-6 for residual in residuals[:-1])
    assert end.found.residual == residuals[-1] <= 1e-6
    assert end.run is driver.solver[-1][0]
    assert end.run.stopped
    # The traffic of the run goes on from one proposed stop to the next.
    assert end.run.traffic.messages == 2 * graph.edges * end.run.rounds
    checks = [run.traffic for run, task in zip(driver.runs, driver.tasks, strict=True)
              if not task.iterates]  # fmt: skip
    assert len(checks) == len(rounds)
    assert end.checks == sum(checks, Traffic())


PROGRAMS = {
    "dgc": lambda graph: DGC(rho=RHO, alpha=step_of(graph)),
    "dgc, B = 2": lambda graph: DGC(rho=RHO, alpha=step_of(graph), B=2),
    "accelerated": lambda _: Accelerated(rho=RHO),
    "dgc in float32": lambda graph: Lossy(DGC(rho=RHO, alpha=step_of(graph)), dtype="float32"),
}


@by_pairs(name=PROGRAMS, make_graph=GRAPHS, runtime=[Simulator, Loopback])
def test_a_stiffness_that_is_far_too_large_does_not_end_a_run(name, make_graph, runtime):
    """Residuals are then far too small, until the first check has the right ones."""
    graph = make_graph(M)
    program, wrong = PROGRAMS[name](graph), np.full((M, K), 1e9)
    threshold = 1e-3 if "float32" in name else 1e-6
    end, driver = converged(program, graph, runtime=runtime, threshold=threshold, stiffness=wrong)
    early, *_, last = [run for run, _ in driver.solver]
    if name != "accelerated":  # whose residual is also the motion, by the root of the stiffness
        assert early.rounds == 2 * int(graph.diameter.value) + 1
    assert certified(driver, graph, early.x) > threshold
    assert end.found.residual <= threshold
    assert last.rounds > early.rounds
    # The rest of the run has the stiffness of the certificate, and so has what is within.
    states = end.run.states
    found = np.concatenate([state.stiffness for state in states])
    assert (found < 1e3).all()
    if name == "dgc in float32":
        assert all(state.inner.stiffness is state.stiffness for state in states)


@by_pairs(program=[Exact(M), ADMM(c=4.0, D=6)], make_graph=GRAPHS, runtime=[Simulator, Loopback])
def test_solvers_that_end_in_consensus_are_checked_too(program, make_graph, runtime):
    graph, wrong = make_graph(M), np.full((M, K), 1e9)
    end, driver = converged(
        program, graph, runtime=runtime, threshold=1e-6, stiffness=wrong, penalized=False
    )
    assert end.found.residual <= 1e-6
    assert end.found.residual == max(end.found.pooled_residual, 2 * end.found.radius.max())
    if isinstance(program, Exact):
        # The first sum of gradients comes in the third round, and may end a run at once.
        first, *_ = [run for run, _ in driver.solver]
        assert (first.rounds, first.stopped) == (3, True)
        assert certified(driver, graph, first.x, penalized=False) > 1e-6


@pytest.mark.parametrize("name", PROGRAMS)
def test_runtimes_end_with_the_same_bits_after_the_same_checks(name):
    for make_graph in (GRAPHS[0], GRAPHS[2], GRAPHS[-1]):
        graph = make_graph(M)
        ends = [
            converged(
                PROGRAMS[name](graph), graph, runtime=runtime, threshold=1e-3,
                stiffness=np.full((M, K), 1e9),
            )
            for runtime in (Simulator, Loopback)
        ]  # fmt: skip
        (a, first), (b, second) = ends
        assert a.run.x.tobytes() == b.run.x.tobytes()
        assert (a.run.rounds, a.run.traffic, a.checks) == (b.run.rounds, b.run.traffic, b.checks)
        assert [run.rounds for run in first.runs] == [run.rounds for run in second.runs]
        for name_, value in vars(a.found).items():
            assert np.asarray(value).tobytes() == np.asarray(getattr(b.found, name_)).tobytes()
        assert a.curvature.own.tobytes() == b.curvature.own.tobytes()
        assert a.curvature.mean.tobytes() == b.curvature.mean.tobytes()


def test_the_curvature_at_the_end_is_that_of_the_users():
    graph = GRAPHS[0](M)
    end, driver = converged(PROGRAMS["accelerated"](graph), graph, threshold=1e-6)
    users, x = driver.users, end.run.x
    own = users.local_curvature(users.assign(x), x)
    np.testing.assert_array_equal(end.curvature.own, own)
    np.testing.assert_allclose(end.curvature.mean, own.mean(axis=0), rtol=1e-14)
    # From where the next run can begin.
    pull = RHO * graph.lambda_2.value
    again = theory.Curvature.of(own, own.mean(axis=0), (own * own).mean(axis=0))
    np.testing.assert_allclose(end.curvature.evenness, again.evenness, rtol=1e-14)
    expected = again.stiffness(pull)
    np.testing.assert_allclose(driver.runs[-1].states[0].stiffness, expected, rtol=1e-14)


@pytest.mark.parametrize("runtime", [Simulator, Loopback])
@pytest.mark.parametrize("rounds", [1, 5, 13, 14, 40, 100])
def test_it_ends_at_the_last_round_whatever_the_certificate_says(runtime, rounds):
    graph = GRAPHS[1](M)
    program = Hurried(rho=RHO, alpha=step_of(graph))
    end, driver = converged(program, graph, runtime=runtime, threshold=1e-300, rounds=rounds)
    assert end.run.rounds == rounds
    assert end.found.residual > 1e-300
    assert max(run.rounds for run, _ in driver.solver) == rounds
    assert end.found.residual == certified(driver, graph, end.run.x)


@pytest.mark.parametrize("runtime", [Simulator, Loopback])
def test_with_a_negative_threshold_it_ends_at_the_last_round_only(runtime):
    graph = GRAPHS[0](M)
    program = Hurried(rho=RHO, alpha=step_of(graph))
    end, driver = converged(program, graph, runtime=runtime, threshold=-1.0, rounds=60)
    assert len(driver.runs) == 2
    assert (end.run.rounds, end.run.stopped) == (60, False)


@pytest.mark.parametrize("vote_from", [0, 1, 20])
@pytest.mark.parametrize("runtime", [Simulator, Loopback])
def test_users_do_not_vote_before_the_round_that_a_snapshot_says(runtime, vote_from):
    for graph in (GRAPHS[0](M), GRAPHS[1](M)):
        users, x = make()
        D = int(graph.diameter.value)
        for program, delay in (
            (Hurried(rho=RHO, alpha=step_of(graph)), 2 * D),
            # A sum tells all users the same, but not before the third round.
            (Exact(M), max(0, 2 - vote_from)),
        ):
            driver = Driver(runtime, graph, users)
            start = replace(driver.begin(program, x), vote_from=vote_from)
            run = driver(Task(program, start, 100, 1e3, iterates=True))
            assert run.stopped
            assert run.rounds == vote_from + delay + 1
            assert {each.vote_from for each in driver.snapshots} == {vote_from}


@pytest.mark.parametrize("runtime", [Simulator, Loopback])
def test_a_run_resumed_at_any_round_ends_the_same(runtime):
    graph = GRAPHS[0](M)
    program, threshold = PROGRAMS["accelerated"](graph), 1e-5
    end, driver = converged(
        program, graph, runtime=runtime, threshold=threshold, stiffness=np.full((M, K), 1e9)
    )
    (_, first), (last, second) = driver.solver[0], driver.solver[-1]
    assert second.start.vote_from == driver.solver[0][0].rounds + FIRST_WAIT
    snapshots = [each for each in driver.snapshots if each.vote_from == second.start.vote_from]
    assert len(snapshots) == last.rounds - driver.solver[0][0].rounds
    for snapshot in snapshots[:: max(1, len(snapshots) // 6)]:
        users, _ = make()
        again = Driver(runtime, graph, users)
        resumed = carry_out(
            converge(program, check_of(graph), snapshot, rounds=first.rounds, threshold=threshold),
            again,
        )
        assert resumed.run.x.tobytes() == end.run.x.tobytes()
        assert resumed.run.rounds == end.run.rounds
        assert resumed.run.traffic == end.run.traffic
        assert resumed.found.residual == end.found.residual


def test_votes_begin_anew_after_a_check():
    graph = GRAPHS[0](M)
    program = Hurried(rho=RHO, alpha=step_of(graph))
    _, driver = converged(program, graph, threshold=1e-6)
    for _, task in driver.solver[1:]:
        for vote, state in zip(task.start.votes, task.start.states, strict=True):
            fresh = first_vote(len(state.x))
            np.testing.assert_array_equal(vote.s, fresh.s)
            np.testing.assert_array_equal(vote.R, fresh.R)


def test_a_plan_is_carried_out_task_by_task():
    seen = []

    def plan():
        first = yield "one"
        second = yield f"{first}, two"
        return [first, second]

    def run(task):
        seen.append(task)
        return f"did {task}"

    assert carry_out(plan(), run) == ["did one", "did did one, two"]
    assert seen == ["one", "did one, two"]
