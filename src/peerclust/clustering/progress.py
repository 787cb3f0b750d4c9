"""Progress of a run as a person sees it: `progress` of `cluster`, `verbose` of estimators."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from peerclust.clustering.solution import Solution
from peerclust.errors import ParameterError
from peerclust.ranks.group import ProcessGroup
from peerclust.text import parameter, show

if TYPE_CHECKING:  # rich is imported only where progress is shown
    from rich.console import Console

# Called with the round and the largest residual.
OnProgress = Callable[[int, float], None]

# Seconds between two lines of progress if stderr is not a terminal.
PAUSE = 2.0


def check_progress(progress: object) -> None:
    """Raise unless `progress` is what `cluster` accepts."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise ParameterError(
            parameter("progress", "cluster")
            + f" must be True, False or a function of (round, residual). Got {show(progress)}."
        )


@contextmanager
def reporting(
    progress: bool | OnProgress | None, rounds: int, group: ProcessGroup
) -> Iterator[OnProgress | None]:
    """Yield what to call after each round, or None; of several ranks only rank 0 reports."""
    if not group.bcast(progress is not None and progress is not False):
        yield None
    elif group.rank > 0:
        yield lambda *_: None
    elif progress is True:
        with shown_progress(rounds) as shown:
            yield shown
    else:
        assert callable(progress)
        yield progress


@contextmanager
def shown_progress(rounds: int) -> Iterator[OnProgress]:
    """Yield a callback that shows a bar on stderr; a line now and then if it is no terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    console = Console(stderr=True)
    if console.is_terminal:
        columns = (TextColumn("round"), MofNCompleteColumn(), BarColumn(), TimeElapsedColumn(),
                   TextColumn("{task.fields[residual]}"))  # fmt: skip
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("", total=rounds, residual="")
            yield lambda round_, residual: bar.update(
                task, completed=round_, residual=f"residual {show_residual(residual)}"
            )
    else:
        lines = _Lines(console)
        yield lines
        lines.end()


class _Lines:
    """Print a line at the first round, every few seconds, and at the last round."""

    def __init__(self, console: Console) -> None:
        self._console, self._due, self._last, self._printed = console, 0.0, "", ""

    def __call__(self, round_: int, residual: float) -> None:
        self._last = f"round {round_}: residual {show_residual(residual)}"
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + PAUSE
            self.end()

    def end(self) -> None:
        if self._last != self._printed:
            self._console.print(self._last, highlight=False)
            self._printed = self._last


class RunPrinter:
    """Prints on stdout: a line per run and per move, and one per round if `verbose` > 1."""

    def __init__(self, verbose: int) -> None:
        self._verbose, self._runs, self._moves = verbose, 0, 0

    def __call__(self, round_: int, residual: float) -> None:
        """Print the round if asked for."""
        if self._verbose > 1:
            what = f"Iteration {round_}" if round_ else "Pilot run for rho"
            print(f"{what}, residual {show_residual(residual)}.")

    def end_run(self, cost: float, residual: float, rounds: int, kept: bool | None = None) -> None:
        """Print how a run ended; `kept` says whether its move was, if it followed one."""
        if kept is None:
            self._runs += 1
            what, verdict = f"Run {self._runs}", ""
        else:
            self._moves += 1
            what, verdict = f"Move {self._moves}", ", kept" if kept else ", rejected"
        shown = f"iteration {rounds}, cost {cost:.6g}, residual {show_residual(residual)}"
        print(f"{what}: {shown}{verdict}.")

    def end(self, solution: Solution) -> None:
        """Print what came of it all."""
        cost, name = solution.certificate.pooled_cost, solution.status.name
        print(f"{name.capitalize()}, cost {cost:.6g}: {solution.status.advice}")


def show_residual(residual: float) -> str:
    """Format a residual, which some solvers do not know in every round.

    >>> show_residual(0.0123), show_residual(float("nan"))
    ('0.012', 'not known yet')
    """
    return f"{residual:.2g}" if np.isfinite(residual) else "not known yet"
