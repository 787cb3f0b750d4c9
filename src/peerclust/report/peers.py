"""What a terminal shows of peers: progress of a run, and how a running peer is doing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

# Seconds between two lines of progress where there is no terminal.
_PAUSE = 2.0


@contextmanager
def rounds(*, quiet: bool) -> Iterator[Callable[[int, float, int], None]]:
    """Give what a site tells its rounds to: one changing line on a terminal, else some lines."""
    console = Console(stderr=True, highlight=False)

    def line(round_: int, residual: float, alive: int) -> str:
        return f"round {round_}, residual {residual:.2g}, {alive} neighbors alive"

    if quiet:
        yield lambda *_: None
    elif console.is_terminal:
        with console.status("waiting for the other peers") as shown:
            yield lambda *told: shown.update(line(*told))
    else:
        last = [float("-inf")]

        def tell(*told: Any) -> None:
            if time.monotonic() - last[0] > _PAUSE:
                last[0] = time.monotonic()
                console.print(line(*told), soft_wrap=True)

        yield tell


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
