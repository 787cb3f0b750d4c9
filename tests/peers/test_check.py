import shutil
import socket
import threading
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from checked_sites import LONG, NAMES, Net, bad, free_ports
from peerclust.peers.check import check
from peerclust.peers.commands import SiteArguments
from peerclust.runtimes.network import contract_file, probe
from peerclust.runtimes.network.contract import group_hex
from peerclust.runtimes.network.identity import make_identity


@pytest.fixture
def net(tmp_path):
    return Net(tmp_path)


def test_sites_that_check_at_the_same_time_see_each_other(net):
    start = time.monotonic()
    found = net.check_all(NAMES)
    assert time.monotonic() - start < LONG / 2
    for name, near in (("a", ["b"]), ("b", ["a", "c"]), ("c", ["b"])):
        lines = found[name]
        first = ["network file", "key", "certificate", "clock", "port", "data", "ranges"]
        assert [*lines] == [*first, *near]
        assert not bad(lines)
        assert not any(line.warns for line in lines.values())
        assert group_hex(net.contract.digest) in lines["network file"].detail
        assert "mode 600" in lines["key"].detail
        assert net.contract.peers[NAMES.index(name)].fingerprint in lines["key"].detail
        assert "3,649 days left" in lines["certificate"].detail
        assert f"same at {', '.join(near)}" in lines["clock"].detail
        assert "20 rows of finite numbers in x, y" in lines["data"].detail
        for other in near:
            where = f"answers at 127.0.0.1:{net.ports[other]} and agrees; it is checking, too"
            assert lines[other].detail == where


def test_a_missing_neighbor_is_waited_for_and_named(net):
    waited = []
    lines = net.check("b", seconds=0.3, on_wait=waited.append)
    assert waited == [["a", "c"]]
    assert [*bad(lines)] == ["a", "c"]
    assert f"127.0.0.1:{net.ports['a']}: Connection refused, nor did it dial" in lines["a"].detail
    assert f"at 127.0.0.1:{net.ports['c']}: Connection refused. Run" in lines["c"].detail
    assert "no neighbor reported its own" in lines["clock"].detail


def test_a_neighbor_that_answers_but_cannot_be_dialed_as_a_run_would_is_bad(net):
    nowhere = ("127.0.0.1", free_ports(1)[0])
    found = {}
    other = threading.Thread(target=lambda: found.update(net.check("b", seconds=3)))
    other.start()
    lines = net.check("a", seconds=2, dial={"b": nowhere})
    other.join()
    assert "in a run this site dials, and 127.0.0.1:" in bad(lines)["b"]
    # For b it is enough that a, which dials, has connected.
    assert found["a"].ok


def test_without_a_good_network_file_nothing_else_is_checked(net):
    net.file("a").unlink()
    (line,) = net.check("a").values()
    assert (line.name, line.ok) == ("network file", False)
    assert "cannot be read: No such file or directory." in line.detail
    net.file("b").write_text("[clustering]\n")
    (line,) = net.check("b").values()
    assert "`features` of" in line.detail
    (line,) = check(SiteArguments(net.file("c"), "d", net.path / "c" / "rows.csv"))
    assert "`--me` must be a peer of the network file: a, b, c. Got 'd'." in line.detail


def test_a_key_that_others_can_read_is_bad_and_no_neighbor_is_dialed(net):
    (net.path / "a" / "a.key").chmod(0o644)
    lines = net.check("a")
    assert [*bad(lines)] == ["key", "port", "b"]
    assert "Got mode 644; run `chmod 600" in lines["key"].detail
    assert lines["b"].detail.startswith("not tried")


def test_a_key_must_be_that_of_the_network_file(net):
    make_identity("a", net.path / "a", force=True)
    assert "must be that of a in the network file." in bad(net.check("a"))["key"]
    shutil.copy(net.path / "b" / "b.key", net.path / "a" / "a.key")
    assert "does not belong to the certificate" in bad(net.check("a"))["key"]
    (net.path / "a" / "a.key").unlink()
    assert "a.key cannot be read: No such file" in bad(net.check("a"))["key"]


def test_keys_may_be_elsewhere(net):
    (net.path / "a" / "a.key").rename(net.path / "a.key")
    (net.path / "a" / "a.crt").rename(net.path / "a.crt")
    assert net.check("a", seconds=0.1, keys=net.path)["key"].ok


def test_an_expired_certificate_is_bad_at_both_ends(net):
    past = datetime.now(UTC) - timedelta(days=3)
    make_identity("b", net.path / "b", days=1, now=past, force=True)
    net.agree()
    found = net.check_all(("a", "b"), seconds=2)
    assert "expired on" in bad(found["b"])["certificate"]
    assert "peerclust peer keygen NAME --force" in bad(found["b"])["certificate"]
    assert "its certificate has expired: it is valid from" in bad(found["a"])["b"]
    assert (
        "b has to make a new one with `peerclust peer keygen NAME --force`" in bad(found["a"])["b"]
    )
    assert "this site's certificate has expired" in bad(found["b"])["a"]


def test_an_expired_certificate_of_a_peer_that_does_not_answer_is_named_at_all_sites(net):
    past = datetime.now(UTC) - timedelta(days=3)
    make_identity("c", net.path / "c", days=1, now=past, force=True)
    net.agree()
    for name in ("a", "b"):  # c is no neighbor of a
        found = bad(net.check(name, seconds=0.1))["c"]
        assert found.startswith("its certificate has expired: it is valid from")


def test_a_certificate_that_ends_soon_warns(net):
    make_identity("a", net.path / "a", days=10, force=True)
    net.agree()
    found = net.check_all(NAMES)
    assert not bad(found["a"])
    assert found["a"]["certificate"].warns
    assert "only 9 days left" in found["a"]["certificate"].detail
    assert found["b"]["a"].warns
    assert "only 9 days left" in found["b"]["a"].detail


def test_a_clock_before_the_newest_certificate_is_bad(net):
    past = datetime.now(UTC) - timedelta(days=2)
    for name in ("a", "b"):
        make_identity(name, net.path / name, now=past - timedelta(days=3), force=True)
    net.agree()
    lines = net.check("a", seconds=0.1, now=past)
    assert lines["certificate"].ok
    assert "but the certificate of c was made after" in bad(lines)["clock"]
    lines = net.check("a", seconds=0.1, now=past - timedelta(days=30))
    assert "is this site's clock right?" in bad(lines)["certificate"]


@pytest.mark.parametrize(("hours", "side"), [(2, "ahead of"), (-2, "behind")])
def test_a_clock_far_from_a_neighbors_is_bad(net, monkeypatch, hours, side):
    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(hours=hours)

    monkeypatch.setattr(probe, "datetime", Clock)
    detail = bad(net.check_all(NAMES)["b"])["clock"]
    assert "7,200 s" in detail or "7,201 s" in detail or "7,199 s" in detail
    assert f" s {side} a's" in detail
    assert f" s {side} c's" in detail


def test_another_network_file_is_named_by_its_difference_at_both_ends(net):
    contract_file.write(net.file("b"), replace(net.contract, n_clusters=3, seed=5))
    start = time.monotonic()
    found = net.check_all(("a", "b"), seconds=3)
    assert time.monotonic() - start < LONG
    assert "b has n_clusters = 3, here it is 2. b has seed = 5, here" in bad(found["a"])["b"]
    assert "a has n_clusters = 2, here it is 3. a has seed = 0, here" in bad(found["b"])["a"]


def test_a_neighbor_that_does_not_know_this_site_refuses_it(net):
    old = net.file("a").read_bytes()
    make_identity("a", net.path / "a", force=True)
    net.agree()
    new = net.file("a").read_bytes()
    for name in ("b", "c"):
        net.file(name).write_bytes(old)
    net.file("a").write_bytes(new)
    found = net.check_all(("a", "b"), seconds=2)
    assert "it does not know this site's certificate" in bad(found["a"])["b"]
    assert "its certificate is not in the network file" in bad(found["b"])["a"]


def test_a_port_that_another_process_uses_is_bad(net):
    with closing(socket.create_server(("127.0.0.1", net.ports["a"]))):
        detail = bad(net.check("a", seconds=0.1))["port"]
    assert ": Address already in use. Stop the process that uses it" in detail
    lines = net.check("a", seconds=0.1, listen=("192.0.2.1", 4000))
    assert "cannot listen on 192.0.2.1:4000: Cannot assign" in bad(lines)["port"]
    assert "--listen" in bad(lines)["port"]


BAD_TABLES = [
    ("x,z\n1,2\n", "There is no column 'y' in"),
    ("x,y\n1,2\n3,nan\n", "must be finite numbers. Got nan in row 1."),
    ("x,y\n1,2\n3,\n", "must be finite numbers. Got nothing in row 1."),
    ("x,y\n1,two\n", "must be numbers. Got 'two' in row 0"),
]


@pytest.mark.parametrize(("text", "sentence"), BAD_TABLES)
def test_a_table_that_cannot_be_used_is_bad(net, text, sentence):
    (net.path / "a" / "rows.csv").write_text(text)
    assert sentence in bad(net.check("a", seconds=0.1))["data"]


def test_a_table_of_few_rows_warns(net):
    (net.path / "a" / "rows.csv").write_text("x,y\n1,2\n")
    line = net.check("a", seconds=0.1)["data"]
    assert (line.ok, line.warns) == (True, True)
    assert "1 rows of finite numbers in x, y: fewer than mean_of = 5" in line.detail
    assert "There is no file" in bad(net.check("a", seconds=0.1, data=Path("none.csv")))["data"]


def test_weights_are_checked_and_summed(net):
    net.agree(weights_column="w", mean_of=1)
    table = net.path / "a" / "rows.csv"
    table.write_text("x,y,w\n1,2,0.5\n3,4,2\n")
    assert "weights in w with sum 2.5" in net.check("a", seconds=0.1)["data"].detail
    table.write_text("x,y,w\n1,2,0\n")
    assert net.check("a", seconds=0.1)["data"].warns
    table.write_text("x,y,w\n1,2,-1\n")
    assert "must be weights >= 0. Got -1.0 in row 0" in bad(net.check("a", seconds=0.1))["data"]


def test_ranges_are_shown_and_what_is_revealed_without_them(net):
    assert net.check("a", seconds=0.1)["ranges"].detail == (
        "x -9 to 9, y -9 to 9; at most 1e+09 rows per site"
    )
    net.agree(ranges=None, max_weight=30)
    line = net.check("a", seconds=0.1)["ranges"]
    assert line.ok
    assert line.warns
    assert "all sites learn the smallest and the largest value of each feature" in line.detail
    assert "at most 30 rows per site" in line.detail


def test_rows_outside_of_the_ranges_are_bad_before_anything_is_sent(net):
    data = net.path / "a" / "rows.csv"
    data.write_text("x,y\n0,0\n0,11\n10,0\n0,-9.5\n")
    assert bad(net.check("a", seconds=0.1))["data"] == (
        f"Column 'x' of {data} must lie in its range of the network file, -9 to 9. Got 10 in row 2."
    )
    data.write_text("x,y\n0,0\n0,11\n0,-9.5\n")
    assert "-9 to 9. Got 11 in row 1, -9.5 in row 2." in bad(net.check("a", seconds=0.1))["data"]
    net.agree(max_weight=2)
    data.write_text("x,y\n0,0\n0,1\n0,2\n")
    assert (
        "must have at most 2 rows, the max_weight of the network file. Got 3;"
        in (bad(net.check("a", seconds=0.1))["data"])
    )
