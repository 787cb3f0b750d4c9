"""Random schedules of faults for six peers, each drawn completely from its seed. No I/O.

A schedule has a graph, rows and settings, in half of them a peer that lies, and events: which
process, link, disk, clock or checkpoint is hit or repaired, and when. `fault_runner` executes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from peerclust.arrays import Array
from peerclust.graphs import Graph, erdos_renyi, from_edges, ring
from peerclust.losses import LOSSES
from peerclust.programs.solvers import SOLVERS

Rng = np.random.Generator
Pair = tuple[str, str]
Action = tuple[str, tuple[str, ...]]
When = Literal["start", "running", "near", "end", "after"]

PEERS = 6
NAMES = tuple(f"p{i}" for i in range(PEERS))

# Seconds; peers wait for each other only briefly, so that a schedule takes a few seconds.
TIMEOUTS = {"timeout": 1.0, "join_timeout": 6.0, "linger": 1.5, "checkpoint_every": 0.3}

# What a peer lies about: functions of `lying_peers` and `misbehaving_peers`.
LIES = (
    "forges_the_end",
    "signs_the_forged_end_many_times",
    "contradicts_itself",
    "states_views_far_ahead",
    "states_views_ahead_in_steps",
    "states_ever_new_views",
    "says_that_it_ended",
    "invents_processes",
    "offers_ever_new_links",
    "pretends_to_make_progress",
    "states_nothing",
    "sends_different_totals_in_the_set_up",
    "weighs_too_much",
    "is_too_stiff",
    "says_far_off",
    "says_nan",
    "agrees_wildly",
    "hurries",
    "flips_a_bit",
)

# The order of the phases in which events occur.
_PHASES: tuple[When, ...] = ("start", "running", "near", "end")
_DESCRIPTIONS = {
    "kill": "kill -9 {0}",
    "terminate": "SIGTERM to {0}",
    "start": "start {0}",
    "stop": "SIGSTOP to {0}",
    "continue": "SIGCONT to {0}",
    "cut": "cut {0} - {1}",
    "restore": "restore {0} - {1}",
    "stall": "stall {0} to {1}",
    "jitter": "jitter between {0} and {1}",
    "fill": "the disk of {0} is full",
    "unsync": "fsync fails at {0}",
    "repair": "the disk of {0} is good again",
    "clock": "the clock of {0} is off by {amount:.1f} hours",
    "roll-back": "the oldest checkpoint of {0} is put back",
    "copy": "start a second process of {0}",
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
    "jitter": 1,
    "fill": 1.5,
    "unsync": 1,
    "repair": 2,
    "clock": 1,
    "roll-back": 2,
    "copy": 1,
}
# What undoes an action.
_UNDO = {
    "kill": "start",
    "terminate": "start",
    "stop": "continue",
    "cut": "restore",
    "stall": "restore",
    "jitter": "restore",
    "fill": "repair",
    "unsync": "repair",
}


@dataclass(frozen=True)
class Event:
    """A fault or a repair of a process, its machine, or the link between two peers.

    The unit of `at` depends on `when`. "start": seconds after all started peers answer. "running":
    seconds after the first round. "near": the largest residual in multiples of tol. "end": seconds
    after the first peer has ended. "after": seconds after the previous event. `amount` is how many
    hours a clock is off.
    """

    when: When
    at: float
    action: str
    names: tuple[str, ...]
    amount: float = 0.0

    def __str__(self) -> str:
        moments = {
            "start": f"{self.at:.2f} s after the start",
            "running": f"{self.at:.2f} s after the first round",
            "near": f"once all residuals are below {self.at:.2f} tol",
            "end": f"{self.at:.2f} s after the first peer has ended",
            "after": f"{self.at:.2f} s later",
        }
        what = _DESCRIPTIONS[self.action].format(*self.names, amount=self.amount)
        return f"{moments[self.when]}: {what}"


@dataclass(frozen=True, eq=False)
class Schedule:
    """The setting of a run of six peers and its events in order.

    `delay` is the latency of a link in seconds; the peers in `absent` are not started with the
    others; `rest` seconds after the last event all stopped processes are continued. The peer `liar`
    tells the lie of `LIES`, unless both are "".
    """

    seed: int
    graph: Graph
    parts: tuple[Array, ...]
    settings: dict[str, Any]
    delay: float
    absent: tuple[str, ...]
    events: tuple[Event, ...]
    rest: float
    liar: str = ""
    lie: str = ""

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
            *([f"  {self.liar} {self.lie.replace('_', ' ')}"] if self.liar else []),
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
    liar, lie = str(rng.choice(NAMES)), str(rng.choice(LIES))
    if rng.random() < 0.5:
        liar = lie = ""
    settings = _draw_settings(rng)
    parts = _draw_parts(rng, settings["n_clusters"], absent, liar)
    penalized = SOLVERS[settings["solver"]].penalized
    links = [(NAMES[i], NAMES[j]) for i, j in graph.pairs]
    return Schedule(
        seed=seed,
        graph=graph,
        parts=parts,
        settings=settings,
        # The others need fewer rounds, which faults would hardly hit.
        delay=float(rng.choice([0.001, 0.002, 0.003])) * (1 if penalized else 10),
        absent=absent,
        events=tuple(_draw_events(rng, links, absent)),
        rest=float(rng.uniform(0, 3)),
        liar=liar,
        lie=lie,
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
    solver = str(
        rng.choice(
            ["dgc", "accelerated", "admm", "group-lasso", "exact"], p=[0.3, 0.3, 0.15, 0.1, 0.15]
        )
    )
    spec = SOLVERS[solver]
    # With momentum, the same number of rounds needs a larger rho.
    factor = 1.0 if solver == "dgc" else 100.0
    drawn = {
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
    if not spec.penalized:
        drawn |= {"rho": "auto", "B": 1}
    if not spec.survives_loss:
        drawn["on_loss"] = "stop"
    if spec.full_precision:
        drawn["exchange"] = "float64"
    return drawn


def _draw_parts(rng: Rng, K: int, absent: tuple[str, ...], liar: str) -> tuple[Array, ...]:
    """Draw the rows of each peer; those of absent peers mostly lie within the others' range."""
    d = int(rng.integers(2, 5))
    means = 3 * rng.standard_normal((K, d))
    parts = []
    for name in NAMES:
        small = name in absent and rng.random() < 0.8
        n = 20 if small else int(rng.integers(20, 61))
        rows = means[rng.integers(0, K, n)] + rng.standard_normal((n, d))
        parts.append(0.4 * rows if small else rows)
    empty = NAMES[int(rng.integers(PEERS))]
    if rng.random() < 0.15 and empty != liar:
        parts[NAMES.index(empty)] = np.empty((0, d))
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
        for action, names in actions:
            # A clock is off by one hour to two days.
            hours = float(rng.choice([-1, 1]) * np.exp(rng.uniform(0, np.log(48))))
            events.append(Event(when, at, action, names, hours if action == "clock" else 0.0))
        if not late and rng.random() < 0.5:
            delay = float(rng.uniform(0.1, 2.5))
            for action, names in state.undo(actions):
                events.append(Event("after", delay, action, names))
                delay = 0.0
    return events


def _draw_moment(rng: Rng) -> tuple[When, float]:
    when = _PHASES[rng.choice(4, p=[0.3, 0.4, 0.15, 0.15])]
    spans = {"start": (0.0, 3.5), "running": (0.0, 3.5), "near": (1.0, 1.6), "end": (0.0, 1.5)}
    low, high = spans[when]
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
        self.broken, self.faulty, self.copied = set[Pair](), set[str](), False

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
            "jitter": working,
            "fill": [name for name in up if name not in self.faulty],
            "unsync": [name for name in up if name not in self.faulty],
            "repair": sorted(self.faulty),
            "clock": up,
            "roll-back": sorted(self.down),
            "copy": [] if self.copied else active,
        }
        possible = [action for action, targets in choices.items() if targets]
        weights = np.array([_WEIGHTS[action] for action in possible])
        action = str(self.rng.choice(possible, p=weights / weights.sum()))
        target = choices[action][int(self.rng.integers(len(choices[action])))]
        if action in ("cut", "stall", "restore", "partition", "jitter"):
            return self._change_links(action, target, working)
        # A clock matters, and an old checkpoint is read, when a process starts.
        actions = {"clock": ["clock", "kill"], "roll-back": ["roll-back", "start"]}
        for each in actions.setdefault(action, [action]):
            self._change_process(each, target)
        return [(each, (target,)) for each in actions[action]]

    def _change_process(self, action: str, name: str) -> None:
        if action == "stop":
            self.stopped.add(name)
        elif action in ("kill", "terminate", "continue"):
            self.stopped.discard(name)
        if action in ("kill", "terminate"):
            self.down.add(name)
        elif action == "start":
            self.down.discard(name)
        if action in ("fill", "unsync"):
            self.faulty.add(name)
        elif action == "repair":
            self.faulty.discard(name)
        self.copied |= action == "copy"

    def undo(self, actions: list[Action]) -> list[Action]:
        """Return the actions that undo others, where that is possible."""
        undone: list[Action] = []
        for action, names in actions:
            if len(names) == 2 and action in _UNDO:
                link = min(names), max(names)
                self.broken.discard(link)
                undone.append(("restore", link))
            elif action in _UNDO:
                self._change_process(_UNDO[action], names[0])
                undone.append((_UNDO[action], names))
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
