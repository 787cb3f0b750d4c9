import json
import random
import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import peerclust as pc
from peerclust.errors import InputError
from peerclust.runtimes.network import contract_file
from peerclust.runtimes.network.contract import Contract, Peer
from peerclust.runtimes.network.contract_validation import make_contract


@pytest.fixture
def written(base, tmp_path, monkeypatch):
    """The lines of the base contract's file, network.toml in the current folder."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "network.toml"
    contract_file.write(file, base)
    return file.read_text()


def read(text):
    file = Path("network.toml")
    file.write_text(text)
    return contract_file.read(file)


columns = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
positive = st.floats(min_value=5e-324, allow_infinity=False, allow_nan=False)
whole = st.integers(1, 2**63 - 1)
pairs = st.tuples(st.floats(-1e9, 0), st.floats(0, 1e9, exclude_min=True))


@st.composite
def contracts(draw, known):
    """Peers' names and addresses, and all else that makes a contract."""
    names = draw(st.lists(st.sampled_from(known), min_size=2, unique=True))
    ports = draw(
        st.lists(
            st.integers(1, 65535), min_size=len(names), max_size=len(names), unique=True
        )
    )  # fmt: skip
    host = st.sampled_from(["localhost", "10.0.0.1", "[::1]", "[fe80::1%eth0]", "A-b.example"])
    addresses = [f"{draw(host)}:{port}" for port in ports]
    tree = [(b, draw(st.sampled_from(names[:i]))) for i, b in enumerate(names) if i]
    extra = draw(st.lists(st.lists(st.sampled_from(names), min_size=2, max_size=2, unique=True)))
    texts = draw(st.lists(columns, min_size=1, max_size=5, unique=True))
    d = len(texts) - (len(texts) > 1 and draw(st.booleans()))
    loss, solver = draw(st.sampled_from(list(pc.losses.LOSSES))), draw(
        st.sampled_from(["dgc", "accelerated", "admm"])
    )  # fmt: skip
    diagonal = draw(st.lists(st.floats(1e-3, 1e3), min_size=d, max_size=d))
    dgc = solver != "admm"
    return list(zip(names, addresses, strict=True)), {
        "links": tree + extra,
        "features": texts[:d],
        "weights_column": texts[-1] if d < len(texts) else None,
        "scale": draw(st.sampled_from(["standard", "robust", "none"])),
        "n_clusters": draw(whole),
        "loss": loss,
        "delta": draw(st.sampled_from([None, "auto"]) | positive) if loss == "huber" else None,
        "eta": draw(st.none() | positive) if loss == "fair" else None,
        "matrix": draw(st.sampled_from([None, np.diag(diagonal).tolist()])),
        "ranges": draw(st.none() | st.fixed_dictionaries(dict.fromkeys(texts[:d], pairs))),
        "max_weight": draw(st.none() | st.floats(1e-3, 1e12)),
        "solver": solver,
        "rho": draw(
            st.just("auto") | st.floats(1, allow_infinity=False) | st.integers(1, 10**9)
            if dgc else st.just("auto")
        ),
        "exchange": draw(st.sampled_from(["float64", "float32", "8-bit"])),
        "B": draw(whole) if dgc else 1,
        "rounds": draw(whole),
        "tol": draw(st.just(0) | positive),
        "seed": draw(whole | st.just(0)),
        "mean_of": draw(st.integers(1, 10**9)),
        "timeout": draw(positive),
        "join_timeout": draw(positive),
        "linger": draw(st.just(0) | positive),
        "checkpoint_every": draw(positive),
        "on_loss": draw(st.sampled_from(["continue", "stop"])) if dgc else "stop",
        "on_absent": draw(st.sampled_from(["start", "stop"])),
    }  # fmt: skip


@settings(deadline=None)
@given(st.data(), st.randoms())
def test_a_contract_reads_back_as_it_was_written(certificates, tmp_path_factory, data, shuffle):
    peers, values = data.draw(contracts(list(certificates)))
    peers = [Peer(name, address, certificates[name]) for name, address in peers]
    contract = make_contract(peers, values, "here")
    file = tmp_path_factory.mktemp("written") / "network.toml"
    contract_file.write(file, contract)
    again = contract_file.read(file)
    assert again == contract
    assert again.digest == contract.digest
    kinds = [type(getattr(again, each.name)) for each in fields(Contract)]
    assert kinds == [type(getattr(contract, each.name)) for each in fields(Contract)]
    assert json.loads(json.dumps(contract.settings())) == contract.settings()
    assert contract.make_loss() == again.make_loss()
    # in whatever order the peers and links were given
    shuffle.shuffle(peers)
    links = [random.Random(i).sample(link, 2) for i, link in enumerate(values["links"])]
    shuffle.shuffle(links)
    assert make_contract(peers, values | {"links": links}, "here") == contract


def test_the_digest_is_that_of_the_settings_not_of_the_layout(base, written):
    assert len(base.digest) == 32
    bare = re.sub(r"(?m)^#.*\n|^\n", "", written)
    assert len(bare) < len(written)
    assert read(bare).digest == base.digest
    turned = "\n".join(reversed(re.split(r"\n(?=\[)", bare)))
    assert turned.startswith("[[peer]]")
    assert read(turned).digest == base.digest
    # what has a default may be left out
    assert read(re.sub(r"(?s)\[timing\].*(?=\[graph\])", "", bare)).digest == base.digest
    assert read(bare.replace("tol = 1e-06", "tol = 0.000_001")).digest == base.digest
    assert replace(base, rho=10, timeout=10).digest == replace(base, rho=10.0).digest


BAD_FILES = [
    ("seed = 0", "sede = 0", "has an unknown key 'sede' in [clustering]. Did you mean 'seed'?"),
    ("[timing]", "[clustering.ranges]\nx = [0, 1]\n[timing]", "Got none for 'y'."),
    ("seed = 0", "seed = 0\nranges = 3", "must be a (low, high) for each feature, by name. Got 3."),
    ("seed = 0", "seed = 0\nranges = {x = [0, 1], y = 2}", "low < high, for each feature. Got 2"),
    ("max_weight = 1000000000.0", "max_weight = 0", "must be a number > 0 and <= 1e+80. Got 0."),
    ("[timing]", "[timign]", "has an unknown key 'timign'. Did you mean 'timing'?"),
    ("name = ", "nane = ", "has an unknown key 'nane' in [[peer]] number 1. Did you mean 'name'?"),
    ("n_clusters = 3\n", "", "`n_clusters` of network.toml must be given in [clustering]."),
    ('address = "host:4000"\n', "", "`address` of network.toml must be given in [[peer]] number 1"),
    ("seed = 0", "seed = ", "network.toml must be TOML in UTF-8. Invalid value (at line "),
    ("seed = 0", "seed = " + "9" * 5000, "network.toml must be TOML in UTF-8. Exceeds"),
    ("seed = 0", "seed = 0x" + "f" * 5000, "below 2**63. Got int of too many digits."),
    ("seed = 0", "seed = " + "[" * 9999, "network.toml must be TOML in UTF-8."),
    ("seed = 0", "seed = -1", "`seed` of network.toml must be a whole number >= 0. Got -1."),
    ("seed = 0", "seed = 9223372036854775808", "`seed` of network.toml must be below 2**63."),
    ("n_clusters = 3", "n_clusters = 3.0", "must be a whole number >= 1. Got 3.0."),
    ("n_clusters = 3", "n_clusters = true", "must be a whole number >= 1. Got True."),
    ("n_clusters = 3", 'n_clusters = "3"', "must be a whole number >= 1. Got '3'."),
    ('rho = "auto"', "rho = -0.2", "`rho` of network.toml must be a number > 0. Got -0.2."),
    ('rho = "auto"', 'rho = "big"', "must be a number or 'auto'. Got 'big'."),
    ("tol = 1e-06", "tol = nan", "`tol` of network.toml must be a number >= 0. Got nan."),
    ("timeout = 10.0", "timeout = 0", "`timeout` of network.toml must be a number > 0. Got 0."),
    ("linger = 60.0", "linger = 1979-05-27", "`linger` of network.toml must be a number >= 0."),
    ('loss = "kmeans"', 'loss = "hubber"', "Got 'hubber'. Did you mean 'huber'?"),
    ('loss = "kmeans"', "loss = [1]", "`loss` of network.toml must be one of 'kmeans', "),
    ('loss = "kmeans"', 'loss = "kmeans"\ndelta = 1', "`delta` of network.toml belongs to the loss"
     " 'huber'. Got the loss 'kmeans'."),
    ('loss = "kmeans"', 'loss = "huber"\neta = 1', "belongs to the loss 'fair'. Got the loss"),
    ('loss = "kmeans"', 'loss = "huber"\ndelta = 0', "must be a number > 0. Got 0."),
    ('loss = "kmeans"', 'loss = "kmeans"\nmatrix = [[1]]', "`matrix` of network.toml cannot be"
     " used. `A` of Mahalanobis must be (2, 2)"),
    ('loss = "kmeans"', 'loss = "kmeans"\nmatrix = [[1, 2], [2, 1]]', "must be positive definite"),
    ('loss = "kmeans"', 'loss = "kmeans"\nmatrix = [[1, 2], 3]', "must be a list of rows."),
    ('loss = "kmeans"', 'loss = "kmeans"\nmatrix = [[1, 2], [3]]', "must be a matrix of numbers"),
    ('"x", "y"', '"x", "x"', "`features` of network.toml must be different. Got 'x' twice."),
    ('"x", "y"', '"x", ""', "`features` of network.toml must be a column's name. Got ''."),
    ('"x", "y"', '"x", 3', "`features` of network.toml must be a column's name. Got 3."),
    ('"x", "y"', "", "must be a list of at least one column's name. Got []."),
    ('["x", "y"]', '"x"', "must be a list of at least one column's name. Got 'x'."),
    ("seed = 0", 'seed = 0\nweights_column = "x"', "`weights_column` of network.toml must not be a"
     " feature too. Got 'x'."),
    ('solver = "accelerated"', 'solver = "admm"', "`on_loss` of network.toml must be 'stop'"),
    ('on_loss = "continue"', 'on_loss = "contine"', "Got 'contine'. Did you mean 'continue'?"),
    ('on_absent = "stop"', 'on_absent = "wait"', "must be one of 'start', 'stop'. Got 'wait'."),
    ('["0", "10"]', '["0", "11"]', "must name its peers. Got '11'. Did you mean '10'?"),
    ('["0", "10"]', '["0", 10]', "`links` of network.toml must name its peers. Got 10."),
    ('["0", "10"]', '["10", "10"]', "`links` of network.toml must join two peers."),
    ('["0", "10"]', '["0"]', "`links` of network.toml must be pairs of names. Got ['0']."),
    ('["0", "10"],', "", "`links` of network.toml must connect all users: user 0 cannot reach user"
     " 10."),
    ('name = "10"', 'name = "0"', "The peers of network.toml must have different names. Got 0"),
    ('name = "0"', 'name = "../0"', "The name of a peer in network.toml must be 1 to 64 "),
    ('name = "0"', "name = 0", "`name` of peer number 1 in network.toml must be text in quotes."),
    ('name = "0"', 'name = "c"', "`certificate` of peer c in network.toml must be its own. Got that"
     " of '0'."),
    ("host:4001", "HOST:4000", "must have different addresses. Got HOST:4000 for 0 and 10."),
    ("host:4001", "host", "`address` of peer 10 in network.toml must be host:port"),
    ('certificate = "MI', 'certificate = "é', "of peer '0' in network.toml must be the base64"),
    ('certificate = "MI', 'certificate = "MIAAAA', "must be that of its certificate, sha256:"),
    ('fingerprint = "sha256:', 'fingerprint = "sha256:0', "`fingerprint` of peer '0' in network"),
    ("[[peer]]", "[peer]", "must be TOML in UTF-8."),
    ("[absence]", "[[absence]]", "`absence` of network.toml must be a section, [absence]."),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "sentence"), BAD_FILES, ids=range(len(BAD_FILES)))
def test_one_sentence_says_why_a_file_cannot_be_used(written, old, new, sentence):
    assert old in written
    with pytest.raises(InputError) as error:
        read(written.replace(old, new, 1))
    assert sentence in str(error.value)
    assert "network.toml" in str(error.value)
    assert str(error.value).isprintable()


def test_a_network_has_at_least_two_peers(written):
    blocks = written.split("\n[[peer]]")
    for text, n in ((blocks[0], 0), (f"{blocks[0]}\n[[peer]]{blocks[1]}", 1)):
        with pytest.raises(InputError, match=rf"at least 2 peers\. Got {n} in network\.toml"):
            read(text)
    with pytest.raises(InputError, match=r"must be sections, one \[\[peer\]\]"):
        read(f"peer = 3\n{blocks[0]}")


def test_admm_needs_a_fixed_graph_one_update_and_no_rho(written):
    text = written.replace('solver = "accelerated"', 'solver = "admm"').replace(
        '"continue"', '"stop"'
    )
    assert read(text).rho == "auto"
    with pytest.raises(InputError, match="must be 'auto' with the solver 'admm'"):
        read(text.replace('rho = "auto"', "rho = 5.0"))
    assert read(text.replace('"kmeans"', '"huber"')).loss == "huber"  # it takes every radial loss
    with pytest.raises(InputError, match=r"`B` of network\.toml must be 1 with the solver 'admm'"):
        read(text.replace("B = 1", "B = 2"))


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(InputError, match=r"no\.toml cannot be read: No such file or directory\."):
        contract_file.read(tmp_path / "no.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"bytes\.toml must be TOML in UTF-8\."):
        contract_file.read(tmp_path / "bytes.toml")


def test_every_setting_is_explained_in_the_file(written):
    lines = written.splitlines()
    places = [i for i, line in enumerate(lines) if re.match(r"[\w]+ = ", line)]
    explained = {lines[i].split(" ")[0] for i in places if lines[i - 1].startswith("# ")}
    assert explained == {lines[i].split(" ")[0] for i in places}
    assert not {"weights_column", "delta", "eta", "matrix"} & explained
