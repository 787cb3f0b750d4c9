"""Random schedules of faults for six peers, each drawn completely from its seed. No I/O.

A schedule has a graph, rows and settings, and events: which process is killed, terminated, stopped,
continued or started, and which link is cut, stalled or restored, and when. `fault_runner` executes
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from peerclust.arrays import Array
from peerclust.graphs import Graph, erdos_renyi, from_edges, ring
from peerclust.losses import LOSSES

Rng = np.random.Generator
Pair = tuple[str, str]
Action = tuple[str, tuple[str, ...]]
When = Literal["start", "near", "end", "after"]

PEERS = 6
NAMES = tuple(f"p{i}" for i in range(PEERS))

# Seconds; peers wait for each other only briefly, so that a schedule takes a few seconds.
TIMEOUTS = {"timeout": 1.0, "join_timeout": 6.0, "linger": 1.5, "checkpoint_every": 0.3}

# The order of the phases in which events occur.
_PHASES: tuple[When, ...] = ("start", "near", "end")
_DESCRIPTIONS = {
    "kill": "kill -9 {0}",
    "terminate": "SIGTERM to {0}",
    "start": "start {0}",
    "stop": "SIGSTOP to {0}",
    "continue": "SIGCONT to {0}",
    "cut": "cut {0} - {1}",
    "restore": "restore {0} - {1}",
    "stall": "stall {0} to {1}",
}
# Relative frequency of each action where it is possible; "partition" cuts off a group of peers.
_WEIGHTS = {
    "kill": 4,
    "start": 5,
    "terminate": 1.5,
    "stop": 1.5,
    "continue": 4,
    "cut": 2,
    "stall": 1.5,
    "restore": 3,
    "partition": 1,
}


@dataclass(frozen=True)
class Event:
    """A fault or a repair of a process or of the link between two peers.

    The unit of `at` depends on `when`. "start": seconds after all started peers answer. "near": the
    largest residual in multiples of tol. "end": seconds after the first peer has ended. "after":
    seconds after the previous event.
    """

    when: When
    at: float
    action: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        moments = {
            "start": f"{self.at:.2f} s after the start",
            "near": f"once all residuals are below {self.at:.2f} tol",
            "end": f"{self.at:.2f} s after the first peer has ended",
            "after": f"{self.at:.2f} s later",
        }
        return f"{moments[self.when]}: {_DESCRIPTIONS[self.action].format(*self.names)}"


@dataclass(frozen=True, eq=False)
class Schedule:
    """The setting of a run of six peers and its events in order.

    `delay` is the latency of a link in seconds; the peers in `absent` are not started with the
    others; `rest` seconds after the last event all stopped processes are continued.
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
        """The links, by the names of the peers at their ends."""
        return [(NAMES[i], NAMES[j]) for i, j in self.graph.pairs]

    def __str__(self) -> str:
        links = ", ".join(f"{a} - {b}" for a, b in self.links)
        rows = ", ".join(str(len(part)) for part in self.parts)
        settings = ", ".join(f"{name} = {value}" for name, value in self.settings.items())
        lines = [
            f"schedule {self.seed}: {links}; {rows} rows; {settings}",
            f"  latency {1e3 * self.delay:g} ms",
            *(f"  {name} is not started with the others" for name in self.absent),
            *(f"  {event}" for event in self.events),
            f"  {self.rest:.2f} s later: SIGCONT to all stopped processes",
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
    # With momentum, the same number of rounds needs a larger rho.
    factor = 1.0 if solver == "dgc" else 100.0
    return {
        "n_clusters": int(rng.integers(2, 5)),
        "loss": str(rng.choice(list(LOSSES))),
        "solver": solver,
        "exchange": str(rng.choice(["float64", "float32", "8-bit"], p=[0.6, 0.1, 0.3])),
        "rho": float(np.round(factor * np.exp(rng.uniform(np.log(90), np.log(350))))),
        "B": int(rng.choice([1, 2], p=[0.7, 0.3])),
        "tol": float(rng.choice([1e-4, 1e-5])),
        "rounds": int(rng.choice([4000, 300], p=[0.93, 0.07])),
        "seed": int(rng.integers(1000)),
        "on_absent": str(rng.choice(["start", "stop"], p=[0.8, 0.2])),
        "on_loss": str(rng.choice(["continue", "stop"], p=[0.9, 0.1])),
        **TIMEOUTS,
    }


def _draw_parts(rng: Rng, K: int, absent: tuple[str, ...]) -> tuple[Array, ...]:
    """Draw the rows of each peer; those of absent peers mostly lie within the others' range."""
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
    """Draw one to six faults and the late starts, in order."""
    moments: list[tuple[When, float, str]] = [
        (*_draw_moment(rng), "") for _ in range(rng.integers(1, 7))
    ]
    moments += [
        ("start", float(rng.uniform(0.2, 8)), name) for name in absent if rng.random() < 0.7
    ]
    state = _State(rng, links, absent)
    events: list[Event] = []
    for when, at, late in sorted(moments, key=_order):
        actions: list[Action] = [("start", (late,))] if late else state.draw_actions()
        state.absent.discard(late)
        events += [Event(when, at, action, names) for action, names in actions]
        if not late and rng.random() < 0.5:
            delay = float(rng.uniform(0.1, 2.5))
            for action, names in state.undo(actions):
                events.append(Event("after", delay, action, names))
                delay = 0.0
    return events


def _draw_moment(rng: Rng) -> tuple[When, float]:
    when = _PHASES[rng.choice(3, p=[0.65, 0.2, 0.15])]
    low, high = {"start": (0.0, 3.5), "near": (1.0, 1.6), "end": (0.0, 1.5)}[when]
    if when != "near" and rng.random() < 0.3:
        high = 0.3  # during the set-up, or before the last peer has ended
    return when, float(rng.uniform(low, high))


def _order(moment: tuple[When, float, str]) -> tuple[int, float]:
    when, at, _ = moment
    # The residual decreases with time.
    return _PHASES.index(when), -at if when == "near" else at


class _State:
    """The processes that run and the links that work after the events drawn so far."""

    def __init__(self, rng: Rng, links: list[Pair], absent: tuple[str, ...]) -> None:
        self.rng, self.links = rng, links
        self.absent, self.down, self.stopped = set(absent), set[str](), set[str]()
        self.broken: set[Pair] = set()

    def draw_actions(self) -> list[Action]:
        """Draw the next action, or several where many links are cut or restored at once."""
        up = [name for name in NAMES if name not in self.down | self.absent]
        active = [name for name in up if name not in self.stopped]
        working = [link for link in self.links if link not in self.broken]
        choices: dict[str, list[Any]] = {
            "kill": up,
            "start": sorted(self.down),
            "terminate": active,
            "stop": active,
            "continue": sorted(self.stopped),
            "cut": working,
            "stall": working,
            "restore": sorted(self.broken),
            "partition": working,
        }
        possible = [action for action, targets in choices.items() if targets]
        weights = np.array([_WEIGHTS[action] for action in possible])
        action = str(self.rng.choice(possible, p=weights / weights.sum()))
        target = choices[action][int(self.rng.integers(len(choices[action])))]
        if action in ("cut", "stall", "restore", "partition"):
            return self._change_links(action, target, working)
        if action == "stop":
            self.stopped.add(target)
        else:
            self.stopped.discard(target)
        if action in ("kill", "terminate"):
            self.down.add(target)
        else:
            self.down.discard(target)
        return [(action, (target,))]

    def undo(self, actions: list[Action]) -> list[Action]:
        """Return the actions that undo others, where that is possible."""
        undone = []
        for action, names in actions:
            if action in ("kill", "terminate", "stop"):
                self.down.discard(names[0])
                self.stopped.discard(names[0])
                undone.append(("continue" if action == "stop" else "start", names))
            elif action in ("cut", "stall"):
                link = min(names), max(names)
                self.broken.discard(link)
                undone.append(("restore", link))
        return undone

    def _change_links(self, action: str, target: Pair, working: list[Pair]) -> list[Action]:
        if action == "restore":
            restored = sorted(self.broken) if self.rng.random() < 0.6 else [target]
            self.broken -= set(restored)
            return [("restore", link) for link in restored]
        if action == "partition":
            side = set(self.rng.choice(NAMES, self.rng.integers(1, 4), replace=False).tolist())
            cut = [link for link in working if len(side & set(link)) == 1]
            self.broken |= set(cut)
            return [("cut", link) for link in cut]
        self.broken.add(target)
        if action == "stall" and self.rng.random() < 0.5:
            target = target[1], target[0]
        return [(action, target)]
