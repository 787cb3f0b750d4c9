"""Peers on a terminal: progress, and the tables of peer status, check, replay and demo."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from peerclust.clustering.progress import PAUSE, show_residual
from peerclust.log_events import LogEvent
from peerclust.peers.check import Line
from peerclust.report.terminal import SanitizingConsole
from peerclust.text import LONGEST_LINE, count, sanitize


@contextmanager
def rounds(
    *, quiet: bool, emit: Callable[[str], None] | None = None
) -> Iterator[Callable[[int, float | None, int], None]]:
    """Yield the progress callback of a run: one changing line on a terminal, otherwise lines.

    `emit` is called with the lines, if given, also on a terminal.
    """
    console = SanitizingConsole(stderr=True, highlight=False)

    def line(round_: int, residual: float | None, alive: int) -> str:
        if residual is None:
            return f"round {round_}, {count(alive, 'site')}"
        shown = f"round {round_}, residual {show_residual(residual)}"
        shown = f"{shown}, {count(alive, 'neighbor')} alive"
        return LogEvent("progress", shown, round=round_, residual=residual, neighbors=alive)

    if quiet:
        yield lambda *_: None
    elif console.is_terminal and emit is None:
        with console.status("waiting") as shown:
            yield lambda *progress: shown.update(line(*progress))
    else:
        print_one = emit or (lambda text: console.print(text, soft_wrap=True))
        last = [float("-inf")]

        def print_line(*progress: Any) -> None:
            if time.monotonic() - last[0] > PAUSE:
                last[0] = time.monotonic()
                print_one(line(*progress))

        yield print_line


@contextmanager
def waiting(*, quiet: bool) -> Iterator[Callable[[list[str]], None]]:
    """Yield the callback that shows which neighbors a check is waiting for."""
    console = SanitizingConsole(stderr=True, highlight=False, markup=False)

    def line(names: list[str]) -> str:
        return f"waiting for {', '.join(names)}"

    if quiet:
        yield lambda _: None
    elif console.is_terminal:
        with console.status("") as shown:
            yield lambda names: shown.update(line(names))
    else:
        yield lambda names: console.print(line(names), soft_wrap=True)


def check_table(lines: Sequence[Line]) -> Table:
    """Return the table of a check: green for good, red for bad, yellow for a warning."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for _ in range(3):
        # A fingerprint is wider than some terminals, and must be shown in full.
        table.add_column(overflow="fold")
    for line in lines:
        mark, style = ("good", "green") if line.ok else ("BAD", "red")
        if line.ok and line.warns:
            mark, style = "note", "yellow"
        # Cleaned here, too, as a console does not measure a Text again.
        name, detail = sanitize(line.name), sanitize(line.detail, longest=LONGEST_LINE)
        table.add_row(Text(mark, style=style), Text(name, style=style), Text(detail))
    return table


def status_table(status: dict[str, Any]) -> Table:
    """Return the table of a running peer's status."""
    residual = "-" if status["residual"] is None else f"{status['residual']:.2g}"
    name, phase, serves = status["name"], status["phase"], status["phase"] == "serving"
    title = f"{name} is {phase}: round {status['round']}, residual {residual}"
    if serves:
        title = f"{name} serves the result of round {status['round']}, run {status['run'][:8]}"
    table = Table(title=title, title_justify="left", box=SIMPLE)
    for name in ("neighbor", "", "last heard, s ago", "bytes sent", "bytes received"):
        table.add_column(name, justify="left" if name in ("neighbor", "") else "right")
    for name, link in status["neighbors"].items():
        state = "active" if link["counted"] else "inactive"
        if serves:
            state = "connected" if link["connected"] else "not connected"
        elif not link["connected"]:
            state += ", not connected"
        if link["refused"]:
            state += f": {link['refused']}"
        ago = link["seconds_since_heard"]
        table.add_row(
            name,
            state,
            "-" if ago is None else f"{ago:.1f}",
            f"{link['bytes_sent']:,}",
            f"{link['bytes_heard']:,}",
        )
    return table


def replay_table(replayed: dict[str, Any]) -> Table:
    """Return the table of a replay: each site's rounds, and whether its centers are equal."""
    table = Table(box=SIMPLE)
    for name in ("site", "rounds", "replay"):
        table.add_column(name, justify="right" if name == "rounds" else "left")
    for name, site in replayed.items():
        same = "equal to the last bit" if site["same"] else "DIFFERENT"
        table.add_row(name, str(site["rounds"]), same)
    return table


def demo_table(demo: dict[str, Any]) -> Table:
    """Return the table of the demo of peers."""
    table = Table(show_header=False, box=SIMPLE)
    statuses = sorted(set(demo["status"].values()))
    rounds = sorted(set(demo["rounds"].values()))
    spans = ", ".join(f"{first} to {last}" for first, last in demo["contributed"])
    replayed = "equal to the last bit" if demo["replayed"] else "DIFFERENT"
    for name, value in (
        ("peers", str(len(demo["status"]))),
        ("status", ", ".join(statuses)),
        ("rounds", ", ".join(map(str, rounds))),
        (f"{demo['killed']} killed in round", str(demo["killed_in_round"])),
        (f"{demo['killed']} took part in rounds", spans),
        ("largest residual", f"{demo['largest_residual']:.2g}"),
        ("largest distance from the mean", f"{demo['farthest']:.2g} cm"),
        ("replayed centers", replayed),
        ("total seconds", f"{demo['seconds']:.1f}"),
    ):
        table.add_row(name, value)
    return table
