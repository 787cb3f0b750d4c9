"""What a site says, here and to its neighbors, when it cannot take part."""

from types import SimpleNamespace

import pytest

from joined_nodes import identity_of, make_contract
from peerclust import graphs
from peerclust.errors import ParameterError
from peerclust.peers import farewell


def fail(monkeypatch, *waiting):
    """Let a site with two neighbors fail, and wait for some of them; return what it logs."""

    async def run(_seconds, on_wait):
        for names in waiting:
            on_wait(names)

    logged = []
    monkeypatch.setattr(farewell, "Probe", lambda *_, **__: SimpleNamespace(run=run))
    with (
        pytest.raises(ParameterError),
        farewell.telling_neighbors(
            make_contract(graphs.path(3)), "p1", identity_of("p1"), "its disk is full",
            listen=None, dial={}, log=logged.append,
        ),
    ):  # fmt: skip
        raise ParameterError("`--out` must be new.")
    return logged


def test_an_error_is_logged_once_before_neighbors_are_told(monkeypatch):
    logged = fail(monkeypatch, ["p0", "p2"], ["p2"])
    assert logged == ["`--out` must be new. Telling p0, p2, if they are there."]


def test_nobody_is_said_to_be_told_if_nobody_is(monkeypatch):
    assert fail(monkeypatch) == []
