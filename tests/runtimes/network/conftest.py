"""What tests of the network share: certificates, made once, a plain contract, and one node."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from joined_nodes import make_agreed
from peerclust.runtimes.network.contract import Peer
from peerclust.runtimes.network.contract_validation import make_contract
from peerclust.runtimes.network.identity import (
    client_context,
    make_identity,
    private_key,
    read_certificate,
    server_context,
)
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.statements import Author
from single_node import EVERYONE, RUN_ID, greet, start_setup

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


@pytest.fixture
def start_process(base, identities):
    """Starts the next process of a peer, which signs what it states."""
    starts = itertools.count(1)

    def start(name):
        return Author(base, base.number(name), private_key(identities[name]), next(starts))

    return start


@pytest.fixture
def processes(start_process):
    """The first processes of both neighbors."""
    return {name: start_process(name) for name in ("0", "2")}


@pytest.fixture
def agreeing(base, identities, processes):
    """The peer "10", in the middle of a path, in the set-up, connected to both neighbors."""
    here = Node(base, "10", identities["10"])
    for process in processes.values():
        assert greet(here, process)[1] == ""
    start_setup(here, b"agreeing")
    yield here
    here.session.loop.close()


@pytest.fixture
def node(agreeing, base):
    """The same peer, in round 0 of a run."""
    agreeing.membership.start_run(RUN_ID, make_agreed(EVERYONE), 0)
    for link in agreeing.session.links.values():
        link.connection.said.clear()
    return agreeing
