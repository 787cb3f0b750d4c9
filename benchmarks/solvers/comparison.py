"""The rounds, bytes and seconds of each solver over data sets, graphs and splits.

A level is reached in the first round after which the gap (see `trajectories`) stays at or below it
until the run ends. A run ends when its users stop it, at a tenth of the smallest level, or after
3000 rounds. `dgc` and `accelerated` have rho = 1000, at which users' centers still differ; the
others have no parameter. All start from the same k-means++ centers, whose cost is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, isinf
from os import PathLike
from pathlib import Path
from statistics import median

from benchmarks.measures import Measure, Progress, check_picture, or_not_reached
from benchmarks.solvers.cases import DATA, GRAPHS, RHO, SPLITS, Case, choose_auto, tune
from benchmarks.solvers.claims import measure_claims
from benchmarks.solvers.message_formats import measure_formats, trace_formats
from benchmarks.solvers.trajectories import Effort, Trajectory, format_level, record
from peerclust.arrays import Array
from peerclust.files import new_file
from peerclust.losses import KMeans
from peerclust.programs.solvers import SOLVERS

LEVELS = (1e-3, 1e-6)
SEEDS = range(5)
ROUNDS = 3000

# Solvers that send their neighbors centers only, neither sums nor counts.
CENTERS_ONLY = tuple(name for name, spec in SOLVERS.items() if not spec.sends_sums)


@dataclass(frozen=True)
class Row:
    """The effort of a solver to reach a level in a case: medians over seeds.

    `reached` is the number of seeds that reached it, `ended` the number of rounds of a run.
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
            detail = f"within {self.ended:g} rounds"
        if 0 < self.reached < len(SEEDS):
            detail += f"; reached with {self.reached} of {len(SEEDS)} seeds"
        name = f"{self.case} {self.solver} {format_level(self.level)}"
        return Measure(name, or_not_reached(self.median.rounds), detail)


def measure(
    progress: Progress, *, out: str | PathLike[str] = "peerclust-solvers.png"
) -> Iterator[Measure]:
    """Yield the measures; two figures are saved, to `out` and beside it (NAME-exchange.png)."""
    path = Path(out)
    check_picture(out)
    yield from measure_claims(progress)
    yield from measure_formats(progress)
    auto = choose_auto(KMeans())
    rows: list[Row] = []
    for case in (Case(*names) for names in product(DATA, GRAPHS, SPLITS)):
        progress(f"{case}, {len(SEEDS)} seeds")
        rows += compare_solvers(case, auto)
    for level in LEVELS:
        yield from rate_auto([row for row in rows if row.level == level], auto)
    yield from (row.measure for row in rows)
    progress("figures")
    _draw(rows, auto, path)


def compare_solvers(case: Case, auto: str) -> list[Row]:
    """Return the rows of every solver and level; `auto` is the solver that "auto" stands for."""
    paths: dict[str, list[Trajectory]] = {solver: [] for solver in SOLVERS}
    for seed in SEEDS:
        problem, x = case.prepare(seed)
        for solver, mine in paths.items():
            tuned = tune(problem, x, solver)
            tol, cutoff = min(LEVELS) / 10, max(LEVELS)
            mine.append(record(problem, tuned, x, rounds=ROUNDS, tol=tol, cutoff=cutoff))
    paths["auto"] = paths[auto]
    return [
        _summarize(case, solver, level, paths[solver])
        for solver, level in product(("auto", *SOLVERS), LEVELS)
    ]


def _summarize(case: Case, solver: str, level: float, paths: Sequence[Trajectory]) -> Row:
    efforts = [path.reach(level) for path in paths]
    typical = Effort(
        median(each.rounds for each in efforts),
        median(each.bytes for each in efforts),
        median(each.seconds for each in efforts),
    )
    reached = sum(not isinf(each.rounds) for each in efforts)
    return Row(case, solver, level, typical, reached, median(len(path.gap) for path in paths))


def rate_auto(rows: Sequence[Row], auto: str) -> Iterator[Measure]:
    """Yield the rounds of "auto" / those of the best solver that sends only centers.

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
        f"auto_{format_level(level)}_median",
        or_not_reached(typical),
        f"rounds of auto, which is {auto}, / those of the best solver that sends only centers:"
        f" median of {len(ratios)} cases; no such solver solves {len(cases) - len(ratios)} more",
        at_most=1.5,
    )
    order = sorted(ratios, key=lambda case: -ratios[case])[:3]
    detail = "; ".join(
        f"{case} {ratios[case]:.3g} ({rounds[case, 'auto']:g}, {best[case]}"
        f" {rounds[case, best[case]]:g})"
        for case in order
    )
    worst = max(ratios.values(), default=inf)
    yield Measure(f"auto_{format_level(level)}_worst", or_not_reached(worst), detail, at_most=3.0)


def _draw(rows: Sequence[Row], auto: str, path: Path) -> None:
    """Draw the rounds in all cases, and the trajectory of each solver and format on Iris."""
    from benchmarks.solvers import figures

    case, level = Case("iris", "ring(10)", "het"), min(LEVELS)
    problem, x = case.prepare(SEEDS[0])
    gaps: dict[str, Array] = {}
    rounds: dict[str, list[float]] = {}
    for solver, spec in SOLVERS.items():
        label = solver + (" (auto)" if solver == auto else "")
        label += f", rho = {RHO:g}" if spec.penalized else ""
        tuned = tune(problem, x, solver)
        gaps[label] = record(problem, tuned, x, rounds=ROUNDS, tol=level / 10).gap
        here = [row for row in rows if row.solver == solver and row.level == level]
        rounds[label] = [row.median.rounds for row in here]
    titles = f"K-means, {case}", f"K-means, rounds to {format_level(level)}"
    with new_file(path) as file:
        figures.draw_solvers(gaps, rounds, [str(row.case) for row in here], titles, file)
    with new_file(path.with_name(f"{path.stem}-exchange.png")) as file:
        figures.draw_formats(trace_formats(), file)
