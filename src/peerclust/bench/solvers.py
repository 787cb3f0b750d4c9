"""How many rounds, bytes and seconds each solver takes, over data sets, graphs and splits.

A level is reached in the first round after which both the pooled residual at the users' mean
centers and their disagreement, as a fraction of the data's spread, stay at or below it until the
run ends. A run ends when its users stop it, at a tenth of the smallest level, or after 3000 rounds.
`dgc` and `accelerated` have rho = 1000, at which they keep users' centers apart; the others have no
parameter. All begin with the same k-means++ start, which is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, isinf
from os import PathLike
from pathlib import Path
from statistics import median

from peerclust.bench import Measure, check_picture
from peerclust.bench.solver_cases import DATA, GRAPHS, RHO, SPLITS, Case, choose_auto, tune
from peerclust.bench.solver_claims import measure_claims
from peerclust.bench.solver_courses import Course, Effort, follow, show_level, show_rounds
from peerclust.bench.solver_exchange import measure_exchange, trace_forms
from peerclust.clustering.solvers import PENALIZED, SOLVERS
from peerclust.files import new_file
from peerclust.losses import KMeans
from peerclust.types import Array

LEVELS = (1e-3, 1e-6)
SEEDS = range(5)
ROUNDS = 3000

# Those that tell their neighbors centers, and no sums or counts.
CENTERS_ONLY = ("dgc", "accelerated", "admm", "group-lasso")


@dataclass(frozen=True)
class Row:
    """What a solver took to reach a level in a case: medians over seeds.

    `reached` counts the seeds that did; `ended` is after how many rounds runs were over.
    """

    case: Case
    solver: str
    level: float
    median: Effort
    reached: int
    ended: float

    @property
    def measure(self) -> Measure:
        """The rounds, with bytes and seconds beside them."""
        detail = f"rounds; {self.median.bytes / 1e6:.3g} MB, {self.median.seconds:.3g} s"
        if isinf(self.median.rounds):
            detail = f"by the end, after {self.ended:g} rounds"
        if 0 < self.reached < len(SEEDS):
            detail += f"; reached from {self.reached} of {len(SEEDS)} seeds"
        name = f"{self.case} {self.solver} {show_level(self.level)}"
        return Measure(name, show_rounds(self.median.rounds), detail)


def measure(
    say: Callable[[str], None], *, out: str | PathLike[str] = "peerclust-solvers.png"
) -> Iterator[Measure]:
    """Yield the measures; `out` is the picture of them, with one of messages' forms beside it."""
    path = Path(out)
    check_picture(out)
    yield from measure_claims(say)
    yield from measure_exchange(say)
    auto = choose_auto(KMeans())
    rows: list[Row] = []
    for case in (Case(*names) for names in product(DATA, GRAPHS, SPLITS)):
        say(f"{case}, {len(SEEDS)} seeds")
        rows += compare(case, auto)
    for level in LEVELS:
        yield from judge_auto([row for row in rows if row.level == level], auto)
    yield from (row.measure for row in rows)
    say("pictures")
    _draw(rows, auto, path)


def compare(case: Case, auto: str) -> list[Row]:
    """Give the rows of every solver and level; `auto` is the solver that "auto" stands for."""
    found: dict[str, list[Course]] = {solver: [] for solver in SOLVERS if solver != "auto"}
    for seed in SEEDS:
        problem, x = case.prepare(seed)
        for solver, courses in found.items():
            program = tune(problem, solver).program
            tol, beyond = min(LEVELS) / 10, max(LEVELS)
            courses.append(follow(problem, program, x, rounds=ROUNDS, tol=tol, beyond=beyond))
    found["auto"] = found[auto]
    return [
        _summarize(case, solver, level, found[solver]) for solver, level in product(SOLVERS, LEVELS)
    ]


def _summarize(case: Case, solver: str, level: float, courses: Sequence[Course]) -> Row:
    efforts = [course.reach(level) for course in courses]
    typical = Effort(
        median(each.rounds for each in efforts),
        median(each.bytes for each in efforts),
        median(each.seconds for each in efforts),
    )
    reached = sum(not isinf(each.rounds) for each in efforts)
    return Row(case, solver, level, typical, reached, median(len(each.far) for each in courses))


def judge_auto(rows: Sequence[Row], auto: str) -> Iterator[Measure]:
    """Give the rounds of "auto" in those of the best solver that tells only centers.

    The rows are those of one level. A case that no such solver solves is left out.
    """
    level = rows[0].level
    rounds = {(row.case, row.solver): row.median.rounds for row in rows}
    cases = list(dict.fromkeys(row.case for row in rows))
    best = {case: min(CENTERS_ONLY, key=lambda solver: rounds[case, solver]) for case in cases}
    ratios = {
        case: rounds[case, "auto"] / rounds[case, best[case]]
        for case in cases
        if not isinf(rounds[case, best[case]])
    }
    typical = median(ratios.values()) if ratios else inf
    yield Measure(
        f"auto_{show_level(level)}_median",
        show_rounds(typical),
        f"rounds of auto, which is {auto}, in those of the best solver that tells only centers:"
        f" median of {len(ratios)} cases; no such solver solves {len(cases) - len(ratios)} others",
        at_most=1.5,
    )
    order = sorted(ratios, key=lambda case: -ratios[case])[:3]
    told = "; ".join(
        f"{case} {ratios[case]:.3g} ({rounds[case, 'auto']:g} beside {rounds[case, best[case]]:g}"
        f" of {best[case]})"
        for case in order
    )
    worst = max(ratios.values(), default=inf)
    yield Measure(f"auto_{show_level(level)}_worst", show_rounds(worst), told, at_most=3.0)


def _draw(rows: Sequence[Row], auto: str, path: Path) -> None:
    """Draw what was found, and courses of every solver and form of message on Iris."""
    from peerclust.report import solvers as pictures

    case, level = Case("iris", "ring(10)", "het"), min(LEVELS)
    problem, x = case.prepare(SEEDS[0])
    courses: dict[str, Array] = {}
    rounds: dict[str, list[float]] = {}
    for solver in SOLVERS[1:]:
        label = solver + (" (auto)" if solver == auto else "")
        label += f", rho = {RHO:g}" if solver in PENALIZED else ""
        program = tune(problem, solver).program
        courses[label] = follow(problem, program, x, rounds=ROUNDS, tol=level / 10).far
        here = [row for row in rows if row.solver == solver and row.level == level]
        rounds[label] = [row.median.rounds for row in here]
    titles = f"K-means, {case}", f"K-means, rounds to {show_level(level)}"
    with new_file(path) as file:
        pictures.draw_solvers(courses, rounds, [str(row.case) for row in here], titles, file)
    with new_file(path.with_name(f"{path.stem}-exchange.png")) as file:
        pictures.draw_exchange(trace_forms(), file)
