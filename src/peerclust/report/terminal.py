"""What a terminal shows: tables of results on stdout, progress of experiments on stderr."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.box import SIMPLE
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from peerclust.clustering.display import summarize
from peerclust.clustering.progress import PAUSE
from peerclust.clustering.solution import Solution
from peerclust.text import LONGEST_LINE, sanitize

# A table of centers shows at most this many features.
MAX_FEATURES = 6


class SanitizingConsole(Console):
    """A console that writes its own control characters, and none of those in what it prints."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments of what is printed."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=_clean(segment.text))

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a string as text, before its width is measured."""
        return super().render_str(_clean(text), **options)


def _clean(text: str) -> str:
    return "\n".join(sanitize(line, longest=LONGEST_LINE) for line in text.split("\n"))


def show(*things: Any, plain: bool = False) -> None:
    """Print to stdout; names from the user's data are never interpreted as markup.

    `plain` omits colors even if stdout is a terminal.
    """
    terminal = False if plain else None
    console = SanitizingConsole(markup=False, emoji=False, highlight=False, force_terminal=terminal)
    for thing in things:
        console.print(thing, soft_wrap=isinstance(thing, str))


@contextmanager
def job_progress(name: str, *, quiet: bool) -> Iterator[Callable[[float, float, str], None]]:
    """Yield a callback for the jobs of an experiment: a bar with the time left, or lines."""
    console = SanitizingConsole(stderr=True)
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
    table = Table(show_header=False)
    for name, value in summarize(solution, users):
        table.add_row(name, value)
    return table


def experiments_table(rows: Sequence[tuple[str, str, int, tuple[str, ...]]]) -> Table:
    """Return a table of the experiments: name, title, runs, and the data needed from files."""
    table = Table("name", "what it shows", "runs", "data from files", box=SIMPLE, pad_edge=False)
    for name, title, runs, needs in rows:
        table.add_row(name, title, str(runs), ", ".join(needs))
    return table
