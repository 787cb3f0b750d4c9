"""A site's result: its labels belong to its centers, and its status can be read again."""

import csv
import json
from types import SimpleNamespace

import numpy as np
import pytest

import peerclust as pc
from peer_runs import make_cluster, make_empty_record
from peerclust.clustering.result import Status
from peerclust.errors import DataError
from peerclust.peers import setup
from peerclust.peers.result_files import read_status, write_result
from peerclust.peers.rows import Rows, join_rows
from peerclust.peers.site_directory import RESULT, SiteDirectory
from peerclust.peers.verdict import Verdict
from peerclust.runtimes import Simulator
from peerclust.runtimes.network.contract import Contract, Peer
from peerclust.runtimes.network.messages import SignedRecord


def shifted_parts():
    """Return the rows of three sites, shifted so that their own centers differ."""
    rows, species = pc.datasets.iris()
    split = pc.partition.homogeneous(species, 3, random_state=0)
    return [rows[mine] + shift for mine, shift in zip(split, (0.0, 0.8, 1.6), strict=True)]


def nearest(rows, centers, agreed):
    """Return the nearest center of each row, in the coordinates that the sites agreed on."""
    mean, deviation = np.array(agreed["mean"]), np.array(agreed["deviation"])
    y, z = (rows - mean) / deviation, (centers - mean) / deviation
    return ((y[:, None] - z) ** 2).sum(axis=2).argmin(axis=1)


def check_labels(out, rows):
    """Check that all labels of a result are those of its centers; return them."""
    certificate = json.loads((out / "certificate.json").read_text())
    centers = np.loadtxt(out / "centers.csv", delimiter=",", skiprows=1)[:, 1:]
    expected = nearest(rows, centers, certificate["agreed"]).tolist()
    with (out / "labels.csv").open() as file:
        written = list(csv.DictReader(file))
    assert [int(line["row"]) for line in written] == list(range(len(rows)))
    assert [int(line["label"]) for line in written] == expected
    solution = pc.Solution.load(out / "solution.npz")
    assert solution.labels[0].tolist() == expected
    assert solution.feature_names == tuple(certificate["features"])
    assert "agreed" in str(solution)
    assert certificate["cluster_sizes"] == np.bincount(expected, minlength=len(centers)).tolist()
    return expected


@pytest.mark.parametrize("scale", ["standard", "none"])
def test_labels_are_those_of_the_centers_wherever_rows_were_assigned_last(tmp_path, scale):
    parts = shifted_parts()
    contract = Contract(
        peers=tuple(Peer(f"p{i}", f"127.0.0.1:{i + 1}", b"") for i in range(3)),
        links=(("p0", "p1"), ("p1", "p2")),
        features=tuple("abcd"), n_clusters=3, rho=2.0, scale=scale,
    )  # fmt: skip
    sites = [Rows(part, np.array([0, len(part)]), 1.0, (i,)) for i, part in enumerate(parts)]
    joint = join_rows(sites)
    agreed, _, x = setup.agree(contract, Simulator(contract.graph), joint, (0, 1, 2), [], "")
    users = sites[0].users(contract, agreed)
    elsewhere = users.assign(x[:1, ::-1].copy()).labels.tolist()
    directory = SiteDirectory(tmp_path)
    write_result(
        directory, contract, "p0", SimpleNamespace(rows=parts[0], row=np.arange(len(parts[0]))),
        verdict=Verdict(Status("converged", ""), 1), users=users, x=x[0], traffic={},
        signed=SignedRecord(make_empty_record(agreed), []),
    )  # fmt: skip
    directory.close()
    assert check_labels(tmp_path, parts[0]) != elsewhere


@pytest.mark.peers
def test_real_peers_and_one_that_joins_late_write_the_labels_of_their_centers(tmp_path):
    parts = shifted_parts()
    given = {"rho": 2.0, "join_timeout": 3.0, "linger": 60.0}
    with make_cluster(tmp_path, 3, pc.graphs.path(3), parts=parts, **given) as peers:
        # The certificate of these two is computed at their mean centers.
        peers.start("p1", "p2")
        for name in ("p1", "p2"):
            peers.wait_for_end(name)
        # This one dials p1 and gets the record, with the mean centers.
        peers.start("p0")
        assert peers.wait("p0", seconds=60)["p0"] == 0, peers.error("p0")
        mean = (peers.centers("p1") + peers.centers("p2")) / 2
        assert np.allclose(peers.centers("p0"), mean, rtol=0, atol=1e-9)
        labels = {
            name: check_labels(peers.out(name), part)
            for name, part in zip(peers.names, parts, strict=True)
        }
        # The mean of the centers, which the certificate uses, gives other labels.
        others = nearest(parts[1], mean, peers.certificate("p1")["agreed"])
        assert others.tolist() != labels["p1"]


@pytest.mark.parametrize(
    "wrong", [b"", b"{", b"[]", b"{}", b'{"status": 1}', b"\xff", b"[" * 10**5, b'{"status": {}}',
              b'{"status": {"name": 1, "advice": 2}}']
)  # fmt: skip
def test_a_certificate_that_is_none_is_a_data_error(tmp_path, wrong):
    assert read_status(tmp_path) is None
    (tmp_path / "certificate.json").write_bytes(wrong)
    with pytest.raises(DataError, match=r"certificate.json must be .* Move it away"):
        read_status(tmp_path)
    assert "certificate.json" in RESULT
