"""The few cases that each program is tried on; all pairs of properties still meet in them."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from peerclust import testing


def properties(name, case):
    """Return what varies in trials: the program, and six properties of the case."""
    bregman = "Bregman" in type(case.loss).__name__
    return (
        name,
        case.loss.name if bregman else repr(case.loss),
        "none" if bregman else type(case.distance).__name__,
        case.graph.name,
        case.sizes,
        np.dtype(case.dtype).name,
        case.weighted,
    )


def all_trials(names=testing.PROGRAMS):
    """Return the full product: (program's name, case)."""
    return [(name, case) for name in names for case in testing.cases()]


def covering_trials(names=testing.PROGRAMS):
    """Return trials that have every pair of properties that any trial of these programs has.

    Deterministic and greedy: always the trial that adds the most pairs for its rows. The result is
    a dict from the program's name to its cases.
    """
    trials = all_trials(names)
    pairs = [set(combinations(enumerate(properties(*trial)), 2)) for trial in trials]
    # A trial costs its rows, and as much as about a thousand rows before the first.
    cost = [1000 + sum(case.sizes) for _, case in trials]
    missing = set().union(*pairs)
    chosen = {name: [] for name in names}
    while missing:
        best = max(range(len(trials)), key=lambda i: (len(pairs[i] & missing) / cost[i], -i))
        name, case = trials[best]
        chosen[name].append(case)
        missing -= pairs[best]
    return chosen
