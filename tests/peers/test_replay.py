"""A replay of a run, from the rows and journals of all sites."""

import shutil

import pytest

import peerclust as pc
from command_line import good, run
from peer_runs import check_replay, make_cluster

pytestmark = pytest.mark.peers


def test_a_replay_needs_every_site_that_agreed_and_the_rows_of_the_run(tmp_path):
    with make_cluster(tmp_path, rho=30.0) as peers:
        peers.start()
        peers.wait()
        check_replay(peers, peers.names)
        rows = peers.data("p3").read_text()
        peers.data("p3").write_text(peers.data("p1").read_text())
        with pytest.raises(pc.errors.DataError, match=r"The rows of p3 must be those of the run"):
            peers.replay()
        peers.data("p3").write_text(rows)
        journal = peers.out("p2") / "journal.jsonl"
        seed, *lines = journal.read_text().splitlines(keepends=True)
        journal.write_text("".join(lines))
        with pytest.raises(pc.errors.DataError, match=r"the private seed.* Got none of p2"):
            peers.replay()
        journal.write_text("".join([seed, *lines]))
        shutil.rmtree(peers.out("p1"))
        with pytest.raises(pc.errors.DataError, match="Got none of p1"):
            peers.replay()


def test_a_run_on_other_delimiters_and_decimal_signs_is_replayed(tmp_path):
    with make_cluster(tmp_path, m=3, rho=30.0) as peers:
        plain = {name: peers.data(name).read_text() for name in peers.names}
        for name, text in plain.items():
            peers.data(name).write_text(text.replace(",", ";").replace(".", ","))
        signs = ("--delimiter", ";", "--decimal", "comma")
        peers.start("p0", options=signs)
        peers.start("p1", "p2")
        peers.wait()
        for name in peers.names:
            said = f"Read with ';' as delimiter and ',' as decimal sign: {name}.csv."
            assert said in peers.log(name)
        assert all(each["same"] for each in peers.replay().values())
        sites = [f"--site={name}={peers.data(name)}={peers.out(name)}" for name in peers.names]
        words = ("peer", "replay", "--network", peers.network, *sites)
        good(*words, *signs)
        assert run(*words, "--delimiter", "tab").exit_code == 2
        # The rows are those of the plain files, to the last bit.
        for name, text in plain.items():
            peers.data(name).write_text(text)
        check_replay(peers, peers.names)
