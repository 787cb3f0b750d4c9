"""What a terminal shows of peers: progress, how a running peer is doing, and what a check found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from peerclust.peers.check import Line
from peerclust.report.terminal import PAUSE, show_residual


@contextmanager
def rounds(*, quiet: bool) -> Iterator[Callable[[int, float | None, int], None]]:
    """Give what a site tells its rounds to: one changing line on a terminal, else some lines."""
    console = Console(stderr=True, highlight=False)

    def line(round_: int, residual: float | None, alive: int) -> str:
        if residual is None:
            return f"round {round_}, {alive} sites"
        neighbors = "1 neighbor" if alive == 1 else f"{alive} neighbors"
        return f"round {round_}, residual {show_residual(residual)}, {neighbors} alive"

    if quiet:
        yield lambda *_: None
    elif console.is_terminal:
        with console.status("waiting") as shown:
            yield lambda *told: shown.update(line(*told))
    else:
        last = [float("-inf")]

        def tell(*told: Any) -> None:
            if time.monotonic() - last[0] > PAUSE:
                last[0] = time.monotonic()
                console.print(line(*told), soft_wrap=True)

        yield tell


@contextmanager
def waiting(*, quiet: bool) -> Iterator[Callable[[list[str]], None]]:
    """Give what a check tells whom it waits for: one that changes on a terminal, else lines."""
    console = Console(stderr=True, highlight=False, markup=False)

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
    """Give the table of what a check found: green and red, yellow what is good for now."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for _ in range(3):
        # A fingerprint is wider than some terminals, and is to be read to its end.
        table.add_column(overflow="fold")
    for line in lines:
        mark, style = ("good", "green") if line.ok else ("BAD", "red")
        if line.ok and line.warns:
            mark, style = "note", "yellow"
        table.add_row(*(Text(text, style=style) for text in (mark, line.name)), Text(line.detail))
    return table


def status_table(told: dict[str, Any]) -> Table:
    """Give the table of a running peer's answer."""
    residual = "-" if told["residual"] is None else f"{told['residual']:.2g}"
    title = f"{told['name']} is {told['phase']}: round {told['round']}, residual {residual}"
    table = Table(title=title, title_justify="left", box=SIMPLE)
    for name in ("neighbor", "", "heard, seconds ago", "bytes sent", "bytes heard"):
        table.add_column(name, justify="left" if name in ("neighbor", "") else "right")
    for name, link in told["neighbors"].items():
        state = "counted" if link["counted"] else "not counted"
        if not link["connected"]:
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


def replay_table(told: dict[str, Any]) -> Table:
    """Give the table of a replay: each site's last round, and whether its centers came out."""
    table = Table(box=SIMPLE)
    for name in ("site", "last round", "computed again"):
        table.add_column(name, justify="right" if name == "last round" else "left")
    for name, site in told.items():
        same = "the same to the last bit" if site["same"] else "DIFFERENT"
        table.add_row(name, str(site["rounds"]), same)
    return table


def demo_table(told: dict[str, Any]) -> Table:
    """Give the table of the demo of peers."""
    table = Table(show_header=False, box=SIMPLE)
    statuses = sorted(set(told["status"].values()))
    rounds = sorted(set(told["rounds"].values()))
    spans = ", ".join(f"{first} to {last}" for first, last in told["contributed"])
    replayed = "the same centers to the last bit" if told["replayed"] else "OTHER CENTERS"
    for name, value in (
        ("peers", str(len(told["status"]))),
        ("status", ", ".join(statuses)),
        ("last round", ", ".join(map(str, rounds))),
        (f"{told['killed']} killed in round", str(told["killed_in_round"])),
        (f"{told['killed']} took part in rounds", spans),
        ("largest residual", f"{told['largest_residual']:.2g}"),
        ("farthest center from the mean", f"{told['farthest']:.2g} cm"),
        ("computed again, it gives", replayed),
        ("seconds in all", f"{told['seconds']:.1f}"),
    ):
        table.add_row(name, value)
    return table
