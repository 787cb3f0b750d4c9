"""All users stop in the same round, and only after a round in which all of them were quiet."""

from collections import deque
from dataclasses import replace

import numpy as np
import pytest

import peerclust as pc
from all_pairs import by_pairs
from instances import GRAPHS, LOSSES
from peerclust.graphs import Known
from peerclust.programs.dgc import DGC
from peerclust.runtimes import RUNTIMES, run_program
from peerclust.runtimes.stopping import NEVER, Vote, first_vote, next_vote
from peerclust.users import Users

CASES = 1500


# --- The rule, on made-up residuals --------------------------------------------------------------


def random_neighbors(rng, m):
    """A random tree with some more edges, as lists of neighbors."""
    edges = {(int(rng.integers(i)), i) for i in range(1, m)}
    for _ in range(int(rng.integers(m + 1))):
        i, j = sorted(rng.integers(m, size=2).tolist())
        if i < j:
            edges.add((i, j))
    return [sorted({a + b - i for a, b in edges if i in (a, b)}) for i in range(m)]


def distances(neighbors):
    """How many edges lie between any two users, by breadth-first search."""
    m = len(neighbors)
    far = np.full((m, m), -1)
    for source in range(m):
        far[source, source] = 0
        line = deque([source])
        while line:
            i = line.popleft()
            for j in neighbors[i]:
                if far[source, j] < 0:
                    far[source, j] = far[source, i] + 1
                    line.append(j)
    return far


def random_quiet(rng, rounds, m):
    """Who is quiet in which round: noise, noise with quiet stretches, or a lasting quiet."""
    quiet = rng.random((rounds, m)) < rng.choice([0.3, 0.7, 0.95, 0.99])
    kind = rng.integers(4)
    if kind == 1:
        for _ in range(3):
            begin = int(rng.integers(rounds))
            quiet[begin : begin + int(rng.integers(1, 12))] = True
    elif kind == 2:
        quiet[int(rng.integers(rounds)) :] = True
    elif kind == 3:  # never all of them at once
        quiet[np.arange(rounds), rng.integers(m, size=rounds)] = False
    return quiet


def stops(neighbors, quiet, D):
    """The round after which each user stops, by `next_vote` with its neighbors' minima."""
    m = len(neighbors)
    vote, stop = first_vote(m), [None] * m
    for t, row in enumerate(quiet):
        heard = Vote(
            np.array([min((vote.s[j] for j in near), default=NEVER) for near in neighbors]),
            np.array([min((vote.R[j] for j in near), default=NEVER) for near in neighbors]),
        )
        vote = next_vote(vote, heard, row, t, D)
        for i in range(m):
            if stop[i] is None and vote.R[i] <= t:
                stop[i] = t
    return stop


def stops_one_by_one(neighbors, quiet, D):
    """The same by its definition, one user and one integer at a time."""
    m = len(neighbors)
    s, R, stop = [0] * m, [NEVER] * m, [None] * m
    for t, row in enumerate(quiet):
        heard_s, heard_R = list(s), list(R)
        for i in range(m):
            s[i] = 1 + min([heard_s[i], *(heard_s[j] for j in neighbors[i])]) if row[i] else 0
            R[i] = min([heard_R[i], *(heard_R[j] for j in neighbors[i])])
            if s[i] > D:
                R[i] = min(R[i], t + D)
            if stop[i] is None and R[i] <= t:
                stop[i] = t
    return stop


def first_possible(far, quiet, D):
    """When a user could first know that all were quiet: the round t in which some user i saw
    everyone within distance b quiet b rounds ago, for b = 0, ..., D."""
    for t in range(D, len(quiet)):
        for near in far:
            if all(quiet[t - b][near <= b].all() for b in range(D + 1)):
                return t
    return None


def test_all_stop_in_the_same_round_and_only_after_all_were_quiet():
    rng = np.random.default_rng(0)
    stopped = never = 0
    for case in range(CASES):
        m, rounds = int(rng.integers(1, 10)), int(rng.integers(5, 50))
        neighbors = random_neighbors(rng, m)
        far = distances(neighbors)
        D = int(far.max()) + int(rng.choice([0, 0, 1, 4]))
        quiet = random_quiet(rng, rounds, m)
        stop = stops(neighbors, quiet, D)
        at = stop[0]
        assert stop == [at] * m, f"case {case}"
        assert stop == stops_one_by_one(neighbors, quiet, D), f"case {case}"
        known = first_possible(far, quiet, D)
        in_time = known is not None and known + D < rounds
        assert at == (known + D if in_time else None), f"case {case}"
        if at is None:
            never += 1
        else:
            stopped += 1
            assert quiet[at - 2 * D].all(), f"case {case}"
        if not quiet.all(axis=1).any():
            assert at is None, f"case {case}"
    # Both ends must have been tried often.
    assert stopped > CASES // 5
    assert never > CASES // 5


def test_a_lasting_quiet_is_noticed_within_twice_D_rounds():
    rng = np.random.default_rng(1)
    for case in range(100):
        m = int(rng.integers(1, 10))
        neighbors = random_neighbors(rng, m)
        D = int(distances(neighbors).max()) + int(rng.integers(3))
        begin = int(rng.integers(10))
        quiet = np.zeros((begin + 2 * D + 1, m), bool)
        quiet[begin:] = True
        assert stops(neighbors, quiet, D) == [begin + 2 * D] * m, f"case {case}"
        assert stops(neighbors, quiet[:-1], D) == [None] * m, f"case {case}"


def test_one_loud_user_keeps_all_from_stopping():
    rng = np.random.default_rng(2)
    for _ in range(50):
        m = int(rng.integers(1, 10))
        neighbors = random_neighbors(rng, m)
        quiet = np.ones((60, m), bool)
        quiet[:, rng.integers(m)] = False
        assert stops(neighbors, quiet, int(distances(neighbors).max())) == [None] * m


# --- Runs ----------------------------------------------------------------------------------------


def job(seed, loss, graph):
    rng = np.random.default_rng(seed)
    m = graph.m
    centers = rng.normal(size=(3, 2)) * 3
    parts = [centers[rng.integers(3, size=6)] + rng.normal(size=(6, 2)) for _ in range(m)]
    return parts, rng.normal(size=(m, 3, 2)) * 2, {"loss": loss, "graph": graph}


@pytest.mark.parametrize("graph", GRAPHS[::3], ids=repr)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_runtimes_stop_in_the_same_round_with_a_residual_below_tol(loss, graph):
    # A fair loss has no curvature at a row: some runs take thousands of rounds for a digit.
    strict = 1e-3 if isinstance(loss, pc.Fair) else 1e-4
    for seed, (B, tol) in enumerate([(1, 1e-2), (3, strict)]):
        parts, x, options = job(seed, loss, graph(6))
        D = int(options["graph"].diameter.value)
        ends = []
        for runtime in RUNTIMES:
            largest = []
            run = pc.cluster(
                parts, n_clusters=3, init=x, rho=5, B=B, tol=tol, rounds=5000, runtime=runtime,
                solver="accelerated",
                progress=lambda _, residual, largest=largest: largest.append(residual), **options,
            )  # fmt: skip
            assert run.status.converged
            assert run.certificate.rounds == len(largest)
            assert largest[-1 - 2 * D] <= tol
            assert run.certificate.residual <= tol
            ends.append((run.certificate, run.centers.tobytes()))
        assert all(end == ends[0] for end in ends), dict(zip(RUNTIMES, ends, strict=True))


@by_pairs(graph=GRAPHS, runtime=RUNTIMES, extra=[0, 3])
def test_runs_stop_when_the_rule_says(graph, runtime, extra):
    graph = graph(6)
    far = distances([graph.neighbors(i).tolist() for i in range(graph.m)])
    D = int(far.max()) + extra  # what is known of the diameter may be a bound
    graph = replace(graph, known=Known(graph.lambda_max.value, graph.lambda_2.value, D))
    parts, x, _ = job(0, None, graph)
    users = Users(np.concatenate(parts), np.arange(0, 6 * graph.m + 1, 6))
    residuals = []

    def record(states, _):
        residuals.append(np.concatenate([state.residual for state in states]))

    program = DGC(rho=5.0, alpha=0.99 / (6 / 5 + graph.lambda_max.value), B=2)
    run = run_program(
        RUNTIMES[runtime](graph), program, users, x, rounds=5000, threshold=1e-3, on_round=record
    )
    quiet = np.array(residuals) <= 1e-3
    # Later rounds in which no user is quiet do not change when that was.
    known = first_possible(far, np.concatenate([quiet, np.zeros((2 * D, graph.m), bool)]), D)
    assert run.stopped
    assert run.rounds == len(residuals) == known + D + 1
    assert quiet[known - D].all()


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_without_a_tolerance_users_never_stop(runtime):
    """Not even where every residual is exactly zero."""
    parts = [np.array([[1.0, 2.0]])] * 3
    options = {"n_clusters": 1, "init": np.array([[1.0, 2.0]]), "rho": 1, "runtime": runtime}
    options |= {"graph": "ring", "solver": "accelerated"}
    run = pc.cluster(parts, rounds=50, tol=0, **options)
    assert run.certificate.residual == 0
    assert (run.certificate.rounds, run.status.name) == (50, "ran out of rounds")
    run = pc.cluster(parts, rounds=50, tol=1e-300, **options)
    assert (run.certificate.rounds, run.status.name) == (3, "converged")  # 2 D + 1 rounds


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_one_user_alone_stops_in_its_first_quiet_round(runtime):
    rng = np.random.default_rng(3)
    users, x, residuals = (
        Users(rng.normal(size=(30, 2)), np.array([0, 30])),
        rng.normal(size=(1, 2, 2)),
        [],
    )
    run = run_program(
        RUNTIMES[runtime](pc.graphs.path(1)), DGC(rho=1.0, alpha=0.02), users, x, rounds=5000,
        threshold=1e-3, on_round=lambda states, _: residuals.append(states[0].residual[0]),
    )  # fmt: skip
    assert run.stopped
    assert [residual <= 1e-3 for residual in residuals] == [False] * (len(residuals) - 1) + [True]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_rounds_that_run_out_before_the_agreed_stop_are_not_called_a_stop(runtime):
    graph = pc.graphs.path(6)
    parts, x, options = job(1, "kmeans", graph)
    options |= {"n_clusters": 3, "init": x, "rho": 5, "tol": 1e-3, "runtime": runtime}
    options["solver"] = "accelerated"
    enough = pc.cluster(parts, rounds=5000, **options).certificate.rounds
    ends = [pc.cluster(parts, rounds=enough + more, **options).status for more in (-2, -1, 0, 1)]
    assert [end.converged for end in ends] == [False, False, True, True]
