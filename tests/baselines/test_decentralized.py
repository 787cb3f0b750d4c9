"""Methods that run as programs: what they send beside the program's own messages."""

import numpy as np

from peerclust import baselines
from peerclust.programs.lsp2p import LSP2P
from peerclust.runtimes import Simulator, run_program
from peerclust.users import Users


def test_lsp2p_floods_the_pooled_start_and_that_is_counted(iris_task):
    task = iris_task()
    m, K = task.graph.m, task.K
    end = baselines.get("LSP2P-KM").fit(task)
    users = Users(task.rows, task.offsets)
    start = np.repeat(task.pooled_start[None], m, axis=0)
    run = run_program(Simulator(task.graph), LSP2P(), users, start, rounds=task.rounds)
    np.testing.assert_array_equal(end.centers, run.x)
    flood = end.traffic - run.traffic
    # All 5 users send the K x 4 numbers to both neighbors.
    assert (flood.messages, flood.bytes) == (m * 2, m * 2 * K * 4 * 8)
