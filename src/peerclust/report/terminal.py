"""What a terminal shows: tables of results on stdout, progress on stderr."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from peerclust.clustering.solution import Certificate, Solution

# Seconds between two lines of progress if stderr is not a terminal.
PAUSE = 2.0
# A table of centers shows at most this many features.
MAX_FEATURES = 6


def show(*things: Any, plain: bool = False) -> None:
    """Print to stdout; names from the user's data are never interpreted as markup.

    `plain` omits colors even if stdout is a terminal.
    """
    terminal = False if plain else None
    console = Console(markup=False, emoji=False, highlight=False, force_terminal=terminal)
    for thing in things:
        console.print(thing, soft_wrap=isinstance(thing, str))


@contextmanager
def progress(rounds: int, *, quiet: bool) -> Iterator[Callable[[int, float], None] | None]:
    """Yield a `progress` callback for `cluster`: a bar on a terminal, else a line now and then."""
    console = Console(stderr=True)
    if quiet:
        yield None
    elif console.is_terminal:
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


@contextmanager
def job_progress(name: str, *, quiet: bool) -> Iterator[Callable[[float, float, str], None]]:
    """Yield a callback for the jobs of an experiment: a bar with the time left, or lines."""
    console = Console(stderr=True)
    if quiet:
        yield lambda *_: None
    elif console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(),
                   TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
                   TextColumn("{task.fields[what]}"))  # fmt: skip
        # The speed is estimated from all jobs so far, because they differ in length.
        with Progress(*columns, console=console, transient=True, speed_estimate_period=1e9) as bar:
            task = bar.add_task(name, total=1.0, what="")
            yield lambda done, total, what: bar.update(task, completed=done, total=total, what=what)
    else:
        start, due = time.monotonic(), 0.0
        before: float | None = None

        def line(done: float, total: float, what: str) -> None:
            nonlocal due, before
            now = time.monotonic()
            before = done if before is None else before
            if now < due and done < total:
                return
            due = now + PAUSE
            left = (now - start) * (total - done) / (done - before) if done > before else None
            remaining = f", about {_span(left)} left" if left and done < total else ""
            detail = f": {what}" if what else ""
            console.print(f"{name} {done / total:.0%}{remaining}{detail}", highlight=False)

        yield line


def _span(seconds: float) -> str:
    """Format a time: 40 s, 3 min, 2.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


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


def clusters_table(solution: Solution, features: tuple[str, ...], sizes: list[int]) -> Table:
    """Return a table of the joint centers, with the number of rows of each."""
    shown = features[:MAX_FEATURES]
    table = Table("cluster", title="Joint centers")
    table.add_column("rows", justify="right")
    for name in shown:
        table.add_column(name, justify="right")
    if len(features) > len(shown):
        table.add_column(f"... {len(features)} in all")
    for k, center in enumerate(solution.consensus):
        table.add_row(str(k), f"{sizes[k]:,}", *(f"{value:.4g}" for value in center[: len(shown)]))
    return table


def solution_table(solution: Solution, users: int) -> Table:
    """Return a table of the status and the certificate of a solution, one line per number."""
    certificate = solution.certificate
    unit = "data's spread" if solution.scale is None else "spread of the scaled data"
    relative = certificate.disagreement / certificate.spread
    bound = "" if certificate.disagreement_exact else "at most "
    sent = certificate.bytes + certificate.setup_bytes + certificate.search_bytes
    table = Table(show_header=False)
    for name, value in (
        ("status", str(solution.status)),
        ("users", f"{users:,}"),
        ("rounds", f"{certificate.rounds:,}"),
        *([("search", _describe_search(certificate))] if certificate.moves else []),
        ("residual", f"{certificate.residual:.3g}"),
        ("disagreement", f"{bound}{certificate.disagreement:.3g} ({relative:.2%} of the {unit})"),
        ("pooled cost", f"{certificate.pooled_cost:.6g} of all rows at the joint centers"),
        ("solver", f"{solution.solver}: {solution.why['solver']}"),
        *([("rho", f"{solution.rho:.6g}: {solution.why['rho']}")] if solution.rho else []),
        ("sent", f"{sent:,} bytes between the users"),
    ):
        table.add_row(name, value)
    return table


def _describe_search(certificate: Certificate) -> str:
    """Return what a search for a better optimum did."""
    return (
        f"{certificate.moves_kept} of {certificate.moves} moves of a center lowered the cost, in"
        f" {certificate.search_rounds:,} more rounds"
    )


def experiments_table(rows: Sequence[tuple[str, str, int, tuple[str, ...]]]) -> Table:
    """Return a table of the experiments: name, title, runs, and the data needed from files."""
    table = Table("name", "what it shows", "runs", "data from files", box=SIMPLE, pad_edge=False)
    for name, title, runs, needs in rows:
        table.add_row(name, title, str(runs), ", ".join(needs))
    return table


def show_residual(residual: float) -> str:
    """Format a residual, which some solvers do not know in every round.

    >>> show_residual(0.0123), show_residual(float("nan"))
    ('0.012', 'not known yet')
    """
    return f"{residual:.2g}" if np.isfinite(residual) else "not known yet"
