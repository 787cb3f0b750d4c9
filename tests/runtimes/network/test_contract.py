import re
from dataclasses import fields, replace

import pytest

import peerclust as pc
from peerclust.errors import InputError
from peerclust.runtimes.network.contract import Contract, Peer, group_hex
from peerclust.runtimes.network.contract_differences import differences
from peerclust.runtimes.network.contract_validation import check_address


def test_peers_are_numbered_by_name_and_linked_as_configured(base):
    assert base.names == ("0", "10", "2")
    assert [base.number(name) for name in base.names] == [0, 1, 2]
    assert base.links == (("0", "10"), ("10", "2"))
    assert [base.neighbors(name) for name in base.names] == [["10"], ["0", "2"], ["10"]]
    assert base.graph == pc.graphs.path(3)
    assert base.graph.names == base.names
    assert base.graph.lambda_max.value == pytest.approx(3)


def test_endpoints_have_no_brackets():
    for address, endpoint in (("host:1", ("host", 1)), ("[fe80::1]:65535", ("fe80::1", 65535))):
        assert Peer("a", check_address(address, "a"), b"").endpoint == endpoint


@pytest.mark.parametrize(
    "address", ["host", "host:", ":1", "host:0", "host:65536", "host:x", "::1:3", "[::1]", "[x]:1",
                "a b:1", "a:1\n", "a/b:1", "a:١", None, 3, "[]:1", "u@h:1"],
)  # fmt: skip
def test_addresses_are_host_and_port(address):
    with pytest.raises(InputError, match="`address` of peer a must be host:port"):
        check_address(address, "peer a")


def test_losses_and_distances_are_those_of_the_settings(base):
    assert base.make_loss() == pc.KMeans()
    assert base.make_distance() == pc.Euclidean()
    assert replace(base, loss="huber").make_loss() == pc.Huber()
    assert replace(base, loss="huber", delta=2.0).make_loss() == pc.Huber(2.0)
    assert replace(base, loss="huber", delta="auto").make_loss(3.0) == pc.Huber(3.0)
    assert replace(base, loss="fair", eta=3.0).make_loss() == pc.Fair(3.0)
    assert replace(base, loss="logistic").make_loss() == pc.Logistic()
    assert replace(base, matrix=((4.0, 0.0), (0.0, 1.0))).make_distance().largest == 4


def test_the_digest_changes_with_every_field(base, certificates):
    first, *rest = base.peers
    changes = {
        "peers": [
            (replace(first, address="host:1"), *rest),
            (replace(first, certificate=certificates["c"]), *rest),
        ],
        "links": [(("0", "10"), ("0", "2")), (*base.links, ("0", "2"))],
        "features": [("y", "x"), ("x",), ("x", "y", "z")],
        "weights_column": ["w"],
        "scale": ["none", "robust"],
        "n_clusters": [4],
        "loss": ["huber"],
        "delta": [1.0, "auto"],
        "eta": [1.0],
        "matrix": [((1.0, 0.0), (0.0, 1.0))],
        "ranges": [((0.0, 1.0), (0.0, 2.0)), ((0.0, 1.0), (0.0, 3.0))],
        "max_weight": [1.0],
        "solver": ["admm"],
        "rho": [10.0, 10.000000000000002],
        "B": [2],
        "exchange": ["8-bit"],
        "rounds": [1],
        "tol": [0.0],
        "search": ["swaps", "none"],
        "seed": [1],
        "mean_of": [1, 7],
        "timeout": [1.0],
        "join_timeout": [1.0],
        "linger": [1.0],
        "checkpoint_every": [1.0],
        "on_loss": ["stop"],
        "on_absent": ["start"],
    }
    assert changes.keys() == {each.name for each in fields(Contract)}
    changed = [replace(base, **{k: v}) for k, values in changes.items() for v in values]
    digests = {each.digest for each in [base, *changed]}
    assert len(digests) == 1 + len(changed)
    for each in changed:
        said = differences(base.settings(), each.settings(), "bern")
        assert len(said) >= 1
        assert all(len(sentence) < 300 for sentence in said)
    assert differences(base.settings(), base.settings(), "bern") == []


def test_a_digest_is_shown_in_groups_of_four_digits(base):
    assert group_hex(base.digest).split(" ") == re.findall("....", base.digest.hex())
