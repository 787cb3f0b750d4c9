"""What a site checks before it runs."""

from datetime import UTC, datetime, timedelta

import pytest

import peerclust as pc
from peer_runs import make_cluster
from peerclust.peers.commands import check_dates, find_identity


def test_an_expired_certificate_ends_a_peer_at_once(tmp_path):
    with make_cluster(tmp_path) as peers:
        identity = find_identity(peers.contract, "p2", tmp_path)
        check_dates(identity, datetime.now(UTC))
        for days in (4000, -1):
            with pytest.raises(pc.errors.ParameterError, match="must be valid now"):
                check_dates(identity, datetime.now(UTC) + timedelta(days=days))
