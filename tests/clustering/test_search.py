"""The swap search: what it finds, when it runs, how its moves are judged, and what is counted."""

import dataclasses
import itertools

import numpy as np
import pytest

import peerclust as pc
from instances import spd
from peerclust.clustering.trace import Tracer
from peerclust.errors import ParameterError
from peerclust.programs.solvers import SOLVERS
from peerclust.programs.swaps import MAX_FAILURES, MAX_MOVES

RNG = np.random.default_rng(0)
MEANS = np.array([[10.0, 10.0], [30.0, 12.0], [32.0, 18.0], [12.0, 40.0]])
GROUP = np.repeat(np.arange(4), 25)
ROWS = MEANS[GROUP] + RNG.normal(size=(100, 2))
USER = RNG.permutation(np.arange(100) % 6)
PARTS = [ROWS[i == USER] for i in range(6)]
WEIGHTS = [RNG.integers(1, 4, len(part)).astype(np.float64) for part in PARTS]
# Two centers in the first group, none of their own for the second and the third.
BAD = np.array([[9.0, 10.0], [11.0, 10.0], [31.0, 15.0], [12.0, 40.0]])

PROBLEMS = {
    "kmeans": {},
    "huber": {"loss": pc.Huber(1.0)},
    "logistic": {"loss": "logistic"},
    "fair": {"loss": "fair"},
    "a Bregman loss": {"loss": pc.bregman.generalized_kl(smoothness=0.2), "rho": 100},
    "Mahalanobis": {"distance": pc.Mahalanobis(spd(2))},
    "weights": {"weights": WEIGHTS},
    "scaled": {"scale": "standard"},
}


def bits(solution):
    labels = [part.tobytes() for part in solution.labels]
    return solution.centers.tobytes(), labels, dataclasses.asdict(solution.certificate)


def sorted_rows(x):
    return x[np.lexsort(np.round(x, 1).T)]


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_it_leaves_a_bad_optimum_for_the_best_one(problem):
    options = {"n_clusters": 4, "rounds": 5000, "random_state": 0} | problem
    best = pc.cluster(PARTS, init=MEANS, **options)
    stuck = pc.cluster(PARTS, init=BAD, **options)
    found = pc.cluster(PARTS, init=BAD, search="swaps", **options)
    assert (best.certificate.moves, stuck.certificate.moves) == (0, 0)
    assert stuck.certificate.pooled_cost > 1.2 * best.certificate.pooled_cost
    assert found.status.converged
    assert found.certificate.pooled_cost == pytest.approx(best.certificate.pooled_cost, rel=1e-4)
    np.testing.assert_allclose(sorted_rows(found.consensus), sorted_rows(best.consensus), atol=1e-3)
    assert pc.metrics.ari(np.concatenate(found.labels), np.concatenate(best.labels)) == 1.0
    if not problem:
        groups = np.array([ROWS[k == GROUP].mean(axis=0) for k in range(4)])
        np.testing.assert_allclose(sorted_rows(found.consensus), sorted_rows(groups), atol=1e-4)


@pytest.mark.parametrize("solver", SOLVERS)
def test_it_serves_every_solver(solver):
    options = {"n_clusters": 4, "solver": solver, "rounds": 20_000, "tol": 1e-5, "random_state": 0}
    options |= {"rho": 30} if solver in ("dgc", "accelerated") else {}
    best = pc.cluster(PARTS, init=MEANS, **options)
    found = pc.cluster(PARTS, init=BAD, search="swaps", **options)
    assert found.status.converged
    assert found.certificate.moves_kept > 0
    np.testing.assert_allclose(sorted_rows(found.consensus), sorted_rows(best.consensus), atol=1e-2)


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("solver", ["auto", "accelerated"])
def test_runtimes_agree_to_the_last_bit(problem, solver):
    options = {"n_clusters": 5, "solver": solver, "rho": 30, "tol": 1e-3, "random_state": 1}
    options |= problem
    if solver == "auto" and problem.get("rho") is None:
        options["rho"] = "auto"
    a, b = (pc.cluster(PARTS, runtime=each, **options) for each in ("simulator", "loopback"))
    assert a.certificate.moves > 0
    assert bits(a) == bits(b)
    assert a.status == b.status


def test_weights_equal_repetition():
    repeated = [
        np.repeat(part, times.astype(int), axis=0)
        for part, times in zip(PARTS, WEIGHTS, strict=True)
    ]
    for seed in range(3):
        options = {"n_clusters": 6, "init": ROWS[:6], "search": "swaps", "random_state": seed}
        a = pc.cluster(PARTS, weights=WEIGHTS, **options)
        b = pc.cluster(repeated, **options)
        assert a.certificate.moves_kept > 0
        assert (a.certificate.moves, a.certificate.moves_kept) == (
            b.certificate.moves,
            b.certificate.moves_kept,
        )
        np.testing.assert_allclose(a.centers, b.centers, rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "searches"),
    [
        ({}, True),
        ({"init": "random"}, True),
        ({"init": "k-means++-local", "rho": 30}, True),
        ({"init": pc.initialize.KMeansPlusPlus(cap=0.9)}, True),
        ({"init": BAD}, False),
        ({"init": pc.initialize.Given(BAD)}, False),
        ({"init": pc.initialize.Warm([GROUP[i == USER] for i in range(6)])}, False),
        ({"tol": 0, "rounds": 20}, False),
        ({"search": "none"}, False),
        ({"init": BAD, "search": "swaps"}, True),
        ({"init": pc.initialize.Warm([GROUP[i == USER] for i in range(6)]), "search": "swaps"},
         True),
        # A run that has not converged is no place to begin.
        ({"rounds": 2}, False),
        ({"init": BAD, "search": "swaps", "rounds": 2}, False),
    ],
)  # fmt: skip
def test_when_it_searches(options, searches):
    certificate = pc.cluster(PARTS, **{"n_clusters": 4, "random_state": 1} | options).certificate
    # A search begins with a sum over all users, and makes moves only where these may help.
    assert (certificate.search_messages > 0) == (certificate.search_bytes > 0) == searches
    assert (certificate.moves > 0) == (certificate.search_rounds > 0)
    assert certificate.moves_kept <= certificate.moves
    assert searches or certificate.moves == 0


@pytest.mark.parametrize("search", ["swap", "none ", 3, None, True])
def test_other_names_are_rejected(search):
    with pytest.raises(ParameterError, match="`search` of cluster must be one of 'auto', 'swaps'"):
        pc.cluster(PARTS, n_clusters=4, search=search)


def test_one_center_has_nowhere_to_move():
    for solver in ("auto", "accelerated"):
        end = pc.cluster(PARTS, n_clusters=1, solver=solver, search="swaps", random_state=0)
        assert end.status.converged
        assert end.certificate.moves == 0
        np.testing.assert_allclose(end.consensus[0], ROWS.mean(axis=0), atol=0.5)


def test_a_search_never_costs_more_than_none():
    for seed in range(8):
        options = {"n_clusters": 7, "random_state": seed, "init": "random", "n_init": 1}
        none = pc.cluster(PARTS, search="none", **options)
        found = pc.cluster(PARTS, **options)
        assert found.status.converged
        assert found.certificate.pooled_cost <= none.certificate.pooled_cost
        same = found.certificate.pooled_cost == none.certificate.pooled_cost
        assert same == (found.certificate.moves_kept == 0)
        # The first run is the same, but a coarse one.
        assert found.certificate.rounds <= none.certificate.rounds
        assert found.certificate.messages <= none.certificate.messages


def test_restarts_are_searched_from_the_best_one_only():
    options = {"n_clusters": 6, "init": "random", "random_state": 2}
    ends = [
        pc.cluster(PARTS, n_init=n, search=search, **options)
        for n in (1, 4)
        for search in ("none", "auto")
    ]
    one, one_searched, four, four_searched = (end.certificate for end in ends)
    assert four.pooled_cost <= one.pooled_cost
    assert four_searched.pooled_cost <= four.pooled_cost
    assert one_searched.pooled_cost <= one.pooled_cost
    assert four_searched.moves > 0
    assert four.setup_messages == four_searched.setup_messages
    assert (four.rounds, four.messages) == (four_searched.rounds, four_searched.messages)


@pytest.mark.parametrize("runtime", ["simulator", "loopback"])
@pytest.mark.parametrize("solver", ["exact", "accelerated", "admm"])
def test_a_trace_counts_the_labels_that_differ_from_the_round_before(monkeypatch, solver, runtime):
    seen, call = [], Tracer.__call__

    def observe(self, states, blocks):
        call(self, states, blocks)
        if all(state.assignment for state in states):
            x = np.concatenate([state.assignment.x for state in states])
            far = [((y[:, None] - own) ** 2).sum(axis=2) for y, own in zip(PARTS, x, strict=True)]
            seen.append((len(self.rows), np.concatenate(far).argmin(axis=1)))

    monkeypatch.setattr(Tracer, "__call__", observe)
    options = {"n_clusters": 6, "search": "swaps", "runtime": runtime, "random_state": 0}
    end = pc.cluster(PARTS, solver=solver, trace=True, **options)
    assert end.certificate.moves > 0
    expected = np.zeros(len(end.trace), int)
    expected[seen[0][0] - 1] = sum(map(len, PARTS))
    for (_, before), (number, after) in itertools.pairwise(seen):
        expected[number - 1] = np.count_nonzero(before != after)
    assert end.trace.changed.tolist() == expected.tolist()


def test_its_rounds_are_traced_and_reported_after_those_of_the_first_run():
    calls = []
    options = {"n_clusters": 4, "init": BAD, "search": "swaps", "random_state": 0}
    end = pc.cluster(PARTS, trace=True, progress=lambda *now: calls.append(now), **options)
    certificate = end.certificate
    assert len(end.trace) == certificate.rounds + certificate.search_rounds == len(calls)
    starts = [i for i, (round_, _) in enumerate(calls) if round_ == 1]
    # The first run, one or two after each move, and the last.
    assert 1 + certificate.moves < len(starts) <= 2 + 2 * certificate.moves
    assert starts[1] == certificate.rounds
    assert f"after {len(calls)} rounds" in end.status.advice
    lowest = end.trace.cost.min()
    assert certificate.pooled_cost == pytest.approx(lowest, rel=1e-6)


def test_it_ends_after_some_failures_in_a_row():
    for seed in range(4):
        certificate = pc.cluster(PARTS, n_clusters=12, random_state=seed).certificate
        assert certificate.moves_kept <= certificate.moves <= MAX_MOVES
        assert certificate.moves <= (certificate.moves_kept + 1) * MAX_FAILURES


@pytest.mark.parametrize("solver", ["dgc", "accelerated"])
@pytest.mark.parametrize("rho", [20.0, "auto"])
def test_moves_of_a_penalized_solver_are_judged_by_its_own_cost_at_one_rho(solver, rho):
    options = {"n_clusters": 4, "solver": solver, "rounds": 20_000, "tol": 1e-5, "random_state": 0}
    stuck = pc.cluster(PARTS, init=BAD, rho=rho, **options)
    found = pc.cluster(PARTS, init=BAD, rho=rho, search="swaps", **options)
    assert found.rho == stuck.rho
    assert found.why["rho"] == stuck.why["rho"]
    assert found.certificate.moves_kept > 0
    assert found.certificate.cost < stuck.certificate.cost
    assert found.certificate.setup_messages == stuck.certificate.setup_messages
    # Its end is a fixed point of the same problem.
    again = pc.cluster(PARTS, init=found.centers, rho=found.rho, **options)
    assert again.certificate.cost == pytest.approx(found.certificate.cost, rel=1e-6)
    np.testing.assert_allclose(again.centers, found.centers, atol=1e-3)


@pytest.mark.parametrize("options", [{}, {"rho": 10, "trace": True, "tol": 1e-3}])
def test_a_run_resumes_to_the_same_bits_in_the_middle_of_a_search(options, tmp_path):
    class InterruptedRunError(Exception):
        pass

    options = {"n_clusters": 7, "loss": "huber", "random_state": 2, **options}
    whole = pc.cluster(PARTS, **options)
    assert whole.certificate.moves > 2
    for number, move in enumerate((1, whole.certificate.moves)):
        begun, late, done = 0, 0, 0

        def progress(round_, _, move=move):
            nonlocal begun, late, done
            begun += round_ == 1
            late += begun > move
            if late > 4:
                raise InterruptedRunError
            done += 1

        checkpoint = pc.Checkpoint(tmp_path / str(number), every=3, resume=True)
        with pytest.raises(InterruptedRunError):
            pc.cluster(PARTS, progress=progress, checkpoint=checkpoint, **options)
        calls = []

        def note(*now, calls=calls):
            calls.append(now)

        resumed = pc.cluster(PARTS, progress=note, checkpoint=checkpoint, **options)
        assert bits(resumed) == bits(whole)
        assert resumed.status == whole.status
        # At most three rounds were run again: it was resumed in the middle of the search.
        total = whole.certificate.rounds + whole.certificate.search_rounds
        assert total - done <= len(calls) <= total - done + 3
        if whole.trace is not None:
            for name, value in vars(whole.trace).items():
                np.testing.assert_array_equal(value, getattr(resumed.trace, name), err_msg=name)


def test_equal_groups_are_found_whatever_the_seed():
    rng = np.random.default_rng(5)
    means = rng.uniform(-100, 100, (12, 2))
    rows = means[np.arange(600) % 12] + rng.normal(size=(600, 2))
    parts = np.array_split(rows[rng.permutation(600)], 20)
    best = pc.cluster(parts, n_clusters=12, init=means).certificate.pooled_cost
    for seed in range(5):
        found = pc.cluster(parts, n_clusters=12, init="random", random_state=seed)
        assert found.certificate.pooled_cost == pytest.approx(best, rel=1e-6)
