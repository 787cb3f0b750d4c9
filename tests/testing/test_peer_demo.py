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
    assert len(found.contributed) >= 2
