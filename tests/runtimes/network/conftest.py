"""What tests of the network share: certificates, made once, and a plain contract."""

from datetime import UTC, datetime, timedelta

import pytest

from peerclust.runtimes.network.contract import Peer
from peerclust.runtimes.network.contract_validation import make_contract
from peerclust.runtimes.network.identity import (
    client_context,
    make_identity,
    read_certificate,
    server_context,
)

NAMES = ("0", "10", "2", "Hospital-A", "b.north_1", "c")


@pytest.fixture(scope="module")
def identities(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    return {n: make_identity(n, folder) for n in NAMES}


@pytest.fixture(scope="module")
def certificates(identities):
    return {n: read_certificate(identity.certificate) for n, identity in identities.items()}


@pytest.fixture(scope="module")
def base(certificates):
    """Three peers on a path, with nothing special."""
    peers = [Peer(n, f"host:{4000 + i}", certificates[n]) for i, n in enumerate(NAMES[:3])]
    links = [("2", "10"), ("0", "10")]
    values = {"links": links, "features": ["x", "y"], "n_clusters": 3}
    return make_contract(peers, values, "here")


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """Identities of three sites, of one that has expired and of one that is not valid yet."""
    folder = tmp_path_factory.mktemp("sites")
    made = {name: make_identity(name, folder) for name in "abc"}
    now = datetime.now(UTC)
    made["old"] = make_identity("old", folder, days=2, now=now - timedelta(days=30))
    made["early"] = make_identity("early", folder, now=now + timedelta(days=2))
    return made


@pytest.fixture
def contexts(sites):
    """How a dials b, and how b answers a."""
    a, b = sites["a"], sites["b"]
    known = {site: read_certificate(site.certificate) for site in (a, b)}
    return client_context(a, known[b]), server_context(b, [known[a]])
