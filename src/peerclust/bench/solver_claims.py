"""What is claimed of the solvers on Iris over ring(10), each from several seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

import numpy as np

from peerclust.bench import Measure
from peerclust.bench.solver_cases import RING_IRIS, Case, tune
from peerclust.bench.solver_courses import count_rounds, follow, show_level, show_rounds
from peerclust.clustering.certificate import solver_cost
from peerclust.clustering.problem import Problem
from peerclust.clustering.solvers import Tuned
from peerclust.types import Array

SEEDS = range(10)

# Within this of a fixed point is near; the run that finds it goes on for at most so many rounds.
_NEAR = 1e-3
_MOST_ROUNDS = 60_000


@dataclass(frozen=True)
class End:
    """Where a penalized solver ended: the rounds until it was near, and J_rho."""

    rounds: int
    cost: float


def measure_claims(say: Callable[[str], None]) -> Iterator[Measure]:
    """Yield the measures of all claims."""
    for rho, to in ((100.0, 1 / 12), (1000.0, 1 / 25)):
        say(f"accelerated beside dgc at rho = {rho:g}, {RING_IRIS}")
        yield from _beside_dgc(rho, to)
    for loss, most in (("kmeans", 100), ("huber", 200), ("logistic", 350), ("fair", 600)):
        say(f"exact with the {loss} loss, {RING_IRIS}")
        yield _most_rounds(f"exact_{loss}", "exact", RING_IRIS, loss, level=1e-9, most=most)
    for case in (RING_IRIS, Case("iris", "ring(10)", "het")):
        say(f"admm, {case}")
        yield _most_rounds(f"admm_{case.split}", "admm", case, "kmeans", level=1e-6, most=250)


def _beside_dgc(rho: float, to: float) -> Iterator[Measure]:
    """Give the rounds and the cost of `accelerated` in those of `dgc` with the paper's step."""
    ours, theirs = [], []
    for seed in SEEDS:
        problem, x = RING_IRIS.prepare(seed, init="random")
        ours.append(find_end(problem, tune(problem, "accelerated", rho=rho), x))
        paper = tune(problem, "dgc", rho=rho, alpha="paper")
        theirs.append(find_end(problem, paper, x))
    pairs = list(zip(ours, theirs, strict=True))
    share = median(a.rounds / b.rounds for a, b in pairs)
    yield Measure(
        f"accelerated_rounds_rho_{rho:g}",
        share,
        f"of dgc's with the paper's step (1/{1 / share:.1f}), until every center is within"
        f" {_NEAR:g} of where it ends; medians {median(a.rounds for a in ours):g} and"
        f" {median(b.rounds for b in theirs):g}; median of {len(pairs)} random starts",
        at_most=to,
    )
    yield Measure(
        f"accelerated_cost_rho_{rho:g}",
        max(a.cost / b.cost for a, b in pairs),
        f"J_rho at the end, of dgc's there; largest of {len(pairs)}",
        at_most=1.001,
    )


def find_end(problem: Problem, tuned: Tuned, x: Array) -> End:
    """Run a penalized solver to its fixed point, and say when it was near."""
    passed: list[Array] = []
    run = problem.run(
        tuned.program, x, _MOST_ROUNDS, 1e-8, lambda states, _: passed.append(states[0].x)
    )
    far = np.array([np.linalg.norm(each - run.x, axis=2).max() for each in passed])
    rounds = count_rounds(far, _NEAR)
    assert rounds is not None  # the last is where it ends
    problem.users.assign(run.x)
    return End(rounds, solver_cost(problem, problem.users.cost(run.x), run.x, tuned))


def _most_rounds(
    name: str, solver: str, case: Case, loss: str, *, level: float, most: int
) -> Measure:
    """Give the most rounds of all seeds until a level."""
    found = []
    for seed in SEEDS:
        problem, x = case.prepare(seed, loss=loss)
        program = tune(problem, solver).program
        course = follow(problem, program, x, rounds=5000, tol=level / 10, beyond=level)
        found.append(course.reach(level).rounds)
    return Measure(
        f"{name}_rounds",
        show_rounds(max(found)),
        f"to a residual and disagreement of {show_level(level)}, {case}; most of {len(found)}"
        f" seeds, median {median(found):g}",
        at_most=most,
    )
