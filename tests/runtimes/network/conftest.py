"""What tests of the network share: certificates, made once, and a plain contract."""

import pytest

from peerclust.runtimes.network.contract import Peer
from peerclust.runtimes.network.identity import make_identity, read_certificate
from peerclust.runtimes.network.terms import make_contract

NAMES = ("0", "10", "2", "Hospital-A", "b.north_1", "c")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    return {n: read_certificate(make_identity(n, folder).certificate) for n in NAMES}


@pytest.fixture(scope="module")
def base(certificates):
    """Three peers on a path, with nothing special."""
    peers = [Peer(n, f"host:{4000 + i}", certificates[n]) for i, n in enumerate(NAMES[:3])]
    links = [("2", "10"), ("0", "10")]
    values = {"peers": peers, "links": links, "features": ["x", "y"], "n_clusters": 3}
    return make_contract(values, "here")
