"""What a site checks before it runs."""

from datetime import UTC, datetime, timedelta

import pytest

import peerclust as pc
from peer_runs import make_cluster
from peerclust.peers.commands import SiteArguments, check_own_dates


def test_an_expired_certificate_ends_a_peer_at_once(tmp_path):
    with make_cluster(tmp_path) as peers:
        given = SiteArguments(peers.network, "p2", tmp_path / "rows.csv", keys=tmp_path)
        identity = given.load_identity(peers.contract)
        check_own_dates(identity, datetime.now(UTC))
        for days in (4000, -1):
            with pytest.raises(pc.errors.ParameterError, match="must be valid now"):
                check_own_dates(identity, datetime.now(UTC) + timedelta(days=days))
