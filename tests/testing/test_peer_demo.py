"""What `peerclust peer demo` shows holds."""

import pytest

from peerclust.testing import peer_demo

pytestmark = pytest.mark.peers


def test_the_demo_holds(tmp_path, monkeypatch):
    # Ten processes beside other tests would take long; five show the same.
    monkeypatch.setattr(peer_demo, "PEERS", 5)
    monkeypatch.setitem(peer_demo._SETTINGS, "rho", 1000.0)
    found = peer_demo.run(tmp_path / "demo", 0, lambda _: None)
    assert found.holds
    # The killed peer took part again, perhaps without a round in which it was missing.
    first, last = found.contributed[0][0], found.contributed[-1][1]
    assert (first, last) == (0, found.rounds["p0"] - 1)
    journal = (tmp_path / "demo" / f"out-{found.killed}" / "journal.jsonl").read_text()
    assert journal.count('"event": "start"') >= 2
    assert f"{found.killed} was lost" in (tmp_path / "demo" / "out-p0" / "log.txt").read_text()
