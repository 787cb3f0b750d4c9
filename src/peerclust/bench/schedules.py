"""Random schedules of faults for six peers; all of one is drawn from its seed. No I/O.

A schedule has a graph, rows and settings, and events: who is killed, started, stopped or told to
go, and which wires are cut, held or mended, and when. `ordeal` carries it out.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from peerclust.graphs import Graph, erdos_renyi, from_edges, ring
from peerclust.losses import LOSSES
from peerclust.types import Array

Rng = np.random.Generator
Pair = tuple[str, str]
Act = tuple[str, tuple[str, ...]]
When = Literal["start", "near", "end", "after"]

PEERS = 6
NAMES = tuple(f"p{i}" for i in range(PEERS))

# Seconds; what peers wait for each other is short, so that all of it happens in a few seconds.
TIMEOUTS = {"timeout": 1.0, "join_timeout": 6.0, "linger": 1.5, "checkpoint_every": 0.3}

# The order in which moments come.
_MOMENTS: tuple[When, ...] = ("start", "near", "end")
_WORDS = {
    "kill": "kill -9 {0}",
    "terminate": "SIGTERM to {0}",
    "start": "start {0}",
    "stop": "SIGSTOP to {0}",
    "continue": "SIGCONT to {0}",
    "cut": "cut {0} - {1}",
    "mend": "mend {0} - {1}",
    "hold": "hold all from {0} to {1}",
}
# How often each fault is drawn where it is possible; "part" cuts a group of peers off.
_WEIGHTS = {
    "kill": 4,
    "start": 5,
    "terminate": 1.5,
    "stop": 1.5,
    "continue": 4,
    "cut": 2,
    "hold": 1.5,
    "mend": 3,
    "part": 1,
}


@dataclass(frozen=True)
class Event:
    """Something that happens to a peer, or to the wire between two.

    `at` is in seconds after the start, when all who were started answer; "near" the end it is the
    largest residual as a multiple of tol; at the "end", seconds after the first peer has ended;
    "after" the event before this one, seconds.
    """

    when: When
    at: float
    act: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        moment = {
            "start": f"{self.at:.2f} s after the start",
            "near": f"once all residuals are below {self.at:.2f} tol",
            "end": f"{self.at:.2f} s after the first end",
            "after": f"{self.at:.2f} s later",
        }
        return f"{moment[self.when]}: {_WORDS[self.act].format(*self.names)}"


@dataclass(frozen=True, eq=False)
class Schedule:
    """What happens to six peers, in the order of the events.

    `delay` is what bytes take over a wire, in seconds; `absent` are not started with the others;
    `rest` seconds after the last event everything that is stopped goes on.
    """

    seed: int
    graph: Graph
    parts: tuple[Array, ...]
    settings: dict[str, Any]
    delay: float
    absent: tuple[str, ...]
    events: tuple[Event, ...]
    rest: float

    @property
    def links(self) -> list[Pair]:
        """The wires, by the names of their ends."""
        return [(NAMES[i], NAMES[j]) for i, j in self.graph.pairs]

    def __str__(self) -> str:
        links = ", ".join(f"{a} - {b}" for a, b in self.links)
        rows = ", ".join(str(len(part)) for part in self.parts)
        settings = ", ".join(f"{name} = {value}" for name, value in self.settings.items())
        lines = [
            f"schedule {self.seed}: {links}; {rows} rows; {settings}",
            f"  wires take {1e3 * self.delay:g} ms",
            *(f"  {name} is not started with the others" for name in self.absent),
            *(f"  {event}" for event in self.events),
            f"  {self.rest:.2f} s later: SIGCONT to all who are stopped",
        ]
        return "\n".join(lines)


def draw(seed: int) -> Schedule:
    """Draw the schedule of a seed.

    >>> draw(3).events == draw(3).events
    True
    """
    rng = np.random.default_rng(seed)
    graph = _draw_graph(rng)
    absent = tuple(sorted(rng.choice(NAMES, rng.choice([0, 1, 2], p=[0.7, 0.2, 0.1]), False)))
    settings = _draw_settings(rng)
    parts = _draw_parts(rng, settings["n_clusters"], absent)
    links = [(NAMES[i], NAMES[j]) for i, j in graph.pairs]
    return Schedule(
        seed=seed,
        graph=graph,
        parts=parts,
        settings=settings,
        delay=float(rng.choice([0.001, 0.002, 0.003])),
        absent=absent,
        events=tuple(_draw_events(rng, links, absent)),
        rest=float(rng.uniform(0, 3)),
    )


def _draw_graph(rng: Rng) -> Graph:
    kind = rng.choice(
        ["ring", "chords", "erdos_renyi", "star", "path"], p=[0.3, 0.2, 0.3, 0.1, 0.1]
    )
    if kind == "ring":
        return ring(PEERS)
    if kind == "erdos_renyi":
        return erdos_renyi(PEERS, float(rng.uniform(0.4, 0.8)), random_state=rng)
    order = rng.permutation(PEERS).tolist()
    if kind == "star":
        edges = {(order[0], j) for j in order[1:]}
    else:
        edges = set(pairwise(order))
        edges |= {(order[-1], order[0])} if kind == "chords" else set()
    for _ in range(0 if kind == "path" else int(rng.integers(1, 4))):
        i, j = rng.choice(PEERS, 2, replace=False).tolist()
        edges.add((i, j))
    return from_edges(sorted({(min(pair), max(pair)) for pair in edges}), m=PEERS)


def _draw_settings(rng: Rng) -> dict[str, Any]:
    solver = str(rng.choice(["dgc", "accelerated"]))
    # Momentum needs a larger rho for as many rounds.
    more = 1.0 if solver == "dgc" else 100.0
    return {
        "n_clusters": int(rng.integers(2, 5)),
        "loss": str(rng.choice(list(LOSSES))),
        "solver": solver,
        "exchange": str(rng.choice(["float64", "float32", "8-bit"], p=[0.6, 0.1, 0.3])),
        "rho": float(np.round(more * np.exp(rng.uniform(np.log(90), np.log(350))))),
        "B": int(rng.choice([1, 2], p=[0.7, 0.3])),
        "tol": float(rng.choice([1e-4, 1e-5])),
        "rounds": int(rng.choice([4000, 300], p=[0.93, 0.07])),
        "seed": int(rng.integers(1000)),
        "on_absent": str(rng.choice(["start", "stop"], p=[0.8, 0.2])),
        "on_loss": str(rng.choice(["continue", "stop"], p=[0.9, 0.1])),
        **TIMEOUTS,
    }


def _draw_parts(rng: Rng, K: int, absent: tuple[str, ...]) -> tuple[Array, ...]:
    """Draw each peer's rows; those of who comes late often fit into what others agreed on."""
    d = int(rng.integers(2, 5))
    means = 3 * rng.standard_normal((K, d))
    parts = []
    for name in NAMES:
        small = name in absent and rng.random() < 0.8
        n = 20 if small else int(rng.integers(20, 61))
        rows = means[rng.integers(0, K, n)] + rng.standard_normal((n, d))
        parts.append(0.4 * rows if small else rows)
    if rng.random() < 0.15:
        parts[int(rng.integers(PEERS))] = np.empty((0, d))
    return tuple(parts)


def _draw_events(rng: Rng, links: list[Pair], absent: tuple[str, ...]) -> list[Event]:
    """Draw one to six faults and the late starts, in their order."""
    moments: list[tuple[When, float, str]] = [
        (*_draw_moment(rng), "") for _ in range(rng.integers(1, 7))
    ]
    moments += [
        ("start", float(rng.uniform(0.2, 8)), name) for name in absent if rng.random() < 0.7
    ]
    state = _State(rng, links, absent)
    events: list[Event] = []
    for when, at, comes in sorted(moments, key=_place):
        acts: list[Act] = [("start", (comes,))] if comes else state.draw_act()
        state.absent.discard(comes)
        events += [Event(when, at, act, names) for act, names in acts]
        if not comes and rng.random() < 0.5:
            later = float(rng.uniform(0.1, 2.5))
            for act, names in state.undo(acts):
                events.append(Event("after", later, act, names))
                later = 0.0
    return events


def _draw_moment(rng: Rng) -> tuple[When, float]:
    when = _MOMENTS[rng.choice(3, p=[0.65, 0.2, 0.15])]
    low, high = {"start": (0.0, 3.5), "near": (1.0, 1.6), "end": (0.0, 1.5)}[when]
    if when != "near" and rng.random() < 0.3:
        high = 0.3  # while all agree, or before the last have ended
    return when, float(rng.uniform(low, high))


def _place(moment: tuple[When, float, str]) -> tuple[int, float]:
    when, at, _ = moment
    # A residual falls.
    return _MOMENTS.index(when), -at if when == "near" else at


class _State:
    """Who is up and which wires carry, as far as the events drawn so far go."""

    def __init__(self, rng: Rng, links: list[Pair], absent: tuple[str, ...]) -> None:
        self.rng, self.links = rng, links
        self.absent, self.down, self.stopped = set(absent), set[str](), set[str]()
        self.broken: set[Pair] = set()

    def draw_act(self) -> list[Act]:
        """Draw what happens next; one thing, except where many wires are cut or mended."""
        up = [name for name in NAMES if name not in self.down | self.absent]
        going = [name for name in up if name not in self.stopped]
        whole = [link for link in self.links if link not in self.broken]
        choices: dict[str, list[Any]] = {
            "kill": up,
            "start": sorted(self.down),
            "terminate": going,
            "stop": going,
            "continue": sorted(self.stopped),
            "cut": whole,
            "hold": whole,
            "mend": sorted(self.broken),
            "part": whole,
        }
        possible = [act for act, held in choices.items() if held]
        weights = np.array([_WEIGHTS[act] for act in possible])
        act = str(self.rng.choice(possible, p=weights / weights.sum()))
        chosen = choices[act][int(self.rng.integers(len(choices[act])))]
        if act in ("cut", "hold", "mend", "part"):
            return self._change_wires(act, chosen, whole)
        if act == "stop":
            self.stopped.add(chosen)
        else:
            self.stopped.discard(chosen)
        if act in ("kill", "terminate"):
            self.down.add(chosen)
        else:
            self.down.discard(chosen)
        return [(act, (chosen,))]

    def undo(self, acts: list[Act]) -> list[Act]:
        """Give what undoes some acts, as far as it can be undone."""
        undone = []
        for act, names in acts:
            if act in ("kill", "terminate", "stop"):
                self.down.discard(names[0])
                self.stopped.discard(names[0])
                undone.append(("continue" if act == "stop" else "start", names))
            elif act in ("cut", "hold"):
                link = min(names), max(names)
                self.broken.discard(link)
                undone.append(("mend", link))
        return undone

    def _change_wires(self, act: str, chosen: Pair, whole: list[Pair]) -> list[Act]:
        if act == "mend":
            mended = sorted(self.broken) if self.rng.random() < 0.6 else [chosen]
            self.broken -= set(mended)
            return [("mend", link) for link in mended]
        if act == "part":
            side = set(self.rng.choice(NAMES, self.rng.integers(1, 4), replace=False).tolist())
            cut = [link for link in whole if len(side & set(link)) == 1]
            self.broken |= set(cut)
            return [("cut", link) for link in cut]
        self.broken.add(chosen)
        if act == "hold" and self.rng.random() < 0.5:
            chosen = chosen[1], chosen[0]
        return [(act, chosen)]
