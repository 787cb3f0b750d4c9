"""`progress` of cluster: what it may be, and what is shown."""

import numpy as np
import pytest

import peerclust as pc
from peerclust.clustering.progress import reporting
from peerclust.errors import ParameterError

ROWS = np.random.default_rng(0).normal(size=(60, 2))
OPTIONS = {"n_clusters": 3, "rounds": 7, "tol": 0, "random_state": 0}


def test_true_prints_first_and_last_round_on_stderr(capsys):
    pc.cluster([ROWS], progress=True, **OPTIONS)
    shown = capsys.readouterr()
    assert shown.out == ""
    lines = shown.err.splitlines()
    assert lines[0].startswith("round 1: residual ")
    assert lines[-1].startswith("round 7: residual ")


def test_true_draws_a_bar_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    pc.cluster([ROWS], progress=True, **OPTIONS)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "7/7" in shown.err


@pytest.mark.parametrize("progress", [None, False])
def test_nothing_is_shown_unless_asked_for(capsys, progress):
    pc.cluster([ROWS], progress=progress, **OPTIONS)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("progress", [3, "yes"])
def test_anything_else_is_refused(progress):
    with pytest.raises(ParameterError, match="`progress` of cluster must be True, False or a func"):
        pc.cluster([ROWS], progress=progress, **OPTIONS)


def test_only_the_first_rank_reports():
    class Rank:
        def __init__(self, rank):
            self.rank = rank

        def bcast(self, value):
            return True

    calls = []
    for rank in (0, 1):
        with reporting(lambda *call: calls.append(call), 7, Rank(rank)) as report:
            report(rank, 0.5)
    assert calls == [(0, 0.5)]
