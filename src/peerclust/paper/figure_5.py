"""Figure 5: the ring of ten users on which most experiments run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from peerclust import graphs
from peerclust.paper.experiment import Experiment, Job, Line, Row, Settings, Stat, Summary
from peerclust.report.pictures import Network

USERS = 10


def plan(settings: Settings) -> list[Job]:  # noqa: ARG001
    """Make the graph."""
    return [Job("ring", list_links, {"m": USERS})]


def list_links(*, m: int) -> list[dict[str, Any]]:
    """Give the links of a ring."""
    graph = graphs.ring(m)
    return [{"from": i + 1, "to": j + 1} for i, j in graph.pairs]


def summarize(rows: Sequence[Row], settings: Settings) -> Summary:  # noqa: ARG001
    """Draw it, and give what the theory needs of it."""
    graph = graphs.ring(USERS)
    lines = [
        Line({"measure": measure}, Stat(float(value)), None, "scale")
        for measure, value in (
            ("links", len(rows)),
            ("diameter", graph.diameter.value),
            ("lambda_2(L)", graph.lambda_2.value),
            ("lambda_max(L)", graph.lambda_max.value),
        )
    ]
    angle = 2 * np.pi * np.arange(USERS) / USERS
    places = np.column_stack([np.cos(angle), np.sin(angle)])
    links = np.array([(row["from"] - 1, row["to"] - 1) for row in rows], dtype=np.intp)
    return Summary(lines, Network("Ring of ten users", places, links))


EXPERIMENT = Experiment("figure-5", "the ring of ten users", plan, summarize, runs=1, quick_runs=1)
