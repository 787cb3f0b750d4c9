"""The directory of a site: one process at a time, no result lost, and no other user let in."""

import json
import os
import re
import stat

import pytest

import peerclust as pc
from peer_runs import make_cluster
from peerclust.errors import DataError, ParameterError
from peerclust.log_events import LogEvent
from peerclust.peers.site_directory import SiteDirectory, status_socket
from peerclust.runtimes.network.journal import read_journal
from peerclust.runtimes.network.messages import Evidence, Incarnation, Statement


def test_a_directory_is_locked_by_one_process(tmp_path):
    first = SiteDirectory(tmp_path / "a")
    with pytest.raises(ParameterError, match="A peer is already running in"):
        SiteDirectory(tmp_path / "a")
    first.close()
    SiteDirectory(tmp_path / "a").close()


def test_a_result_is_replaced_only_by_force(tmp_path):
    (tmp_path / "certificate.json").write_text("{}")
    (tmp_path / "journal.jsonl").write_text("{}\n")
    with pytest.raises(ParameterError, match=r"not contain a result yet; .* with --force"):
        SiteDirectory(tmp_path)
    SiteDirectory(tmp_path, force=True).close()
    assert not (tmp_path / "certificate.json").exists()
    with pytest.raises(DataError, match="There is no journal"):
        read_journal(tmp_path / "journal.jsonl")


def test_a_directory_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "a").write_text("")
    with pytest.raises(ParameterError, match="cannot be a directory"):
        SiteDirectory(tmp_path / "a")


def test_evidence_that_cannot_be_kept_is_named_in_the_log(tmp_path):
    (tmp_path / "elsewhere").write_text("[]")
    (tmp_path / "evidence.json").symlink_to("elsewhere")
    said = []
    directory = SiteDirectory(tmp_path, on_log=said.append)
    process = Incarnation(1, 2, bytes(33), b"")
    statement = Statement(process, b"", "view", 1, b"", b"")
    directory.save_evidence("b", Evidence(statement, statement))
    directory.close()
    assert [each.event for each in said] == ["file-failed"]
    assert f"{tmp_path / 'evidence.json'} cannot be used: it must be a regular file" in said[0]
    assert (tmp_path / "elsewhere").read_text() == "[]"


def test_a_socket_s_path_is_short_however_deep_the_directory_is(tmp_path):
    deep = tmp_path / ("x" * 100) / ("y" * 100)
    assert len(str(status_socket(deep))) < 100
    assert status_socket(deep) == status_socket(deep)
    assert status_socket(deep) != status_socket(deep / "z")
    assert status_socket(tmp_path / "a").parent == tmp_path / "a"


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_new_directory_and_its_files_are_private_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        directory = SiteDirectory(tmp_path / "a")
        directory.journal.heard(0, [1])
        directory.close()
        assert os.umask(0) == 0
    finally:
        os.umask(before)
    assert mode(tmp_path / "a") == 0o700
    files = {path.name: mode(path) for path in (tmp_path / "a").iterdir()}
    assert files == {"lock": 0o600, "log.txt": 0o600, "journal.jsonl": 0o600}


def test_files_of_an_earlier_version_are_made_private(tmp_path):
    (tmp_path / "a").mkdir(mode=0o755)
    (tmp_path / "a" / "log.txt").write_text("before\n")
    (tmp_path / "a" / "log.txt").chmod(0o644)
    SiteDirectory(tmp_path / "a").close()
    assert mode(tmp_path / "a" / "log.txt") == 0o600
    assert (tmp_path / "a" / "log.txt").read_text() == "before\n"


@pytest.mark.parametrize("bits", [0o777, 0o775, 0o720, 0o702])
def test_a_directory_that_others_can_write_to_is_refused(tmp_path, bits):
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(bits)
    with pytest.raises(ParameterError, match=f"by its owner only. Got mode {bits:o}; .*chmod 700"):
        SiteDirectory(tmp_path / "a")
    assert not list((tmp_path / "a").iterdir())


def test_a_directory_of_another_user_is_refused(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir(mode=0o700)
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(ParameterError, match="must belong to the user of this process"):
        SiteDirectory(tmp_path / "a")


def test_a_link_to_a_directory_is_refused(tmp_path):
    (tmp_path / "a").mkdir(mode=0o700)
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(ParameterError, match=r"must be a directory\. Got a link"):
        SiteDirectory(tmp_path / "b")


@pytest.mark.parametrize("name", ["lock", "log.txt", "journal.jsonl"])
@pytest.mark.parametrize("make", ["symlink_to", "hardlink_to", "fifo", "dangling"])
def test_nothing_is_opened_through_a_link(tmp_path, name, make):
    (tmp_path / "a").mkdir(mode=0o700)
    target, path = tmp_path / "precious", tmp_path / "a" / name
    target.write_text("precious\n")
    if make == "fifo":
        os.mkfifo(path)
    elif make == "dangling":
        path.symlink_to(tmp_path / "nothing")
    else:
        getattr(path, make)(target)
    with pytest.raises(OSError, match="must be a regular file of this user, and no link; move it"):
        SiteDirectory(tmp_path / "a")
    assert target.read_text() == "precious\n"
    assert not (tmp_path / "nothing").exists()


def test_a_checkpoint_that_is_a_link_is_not_followed(tmp_path):
    contract = make_cluster(tmp_path / "net", 2, pc.graphs.path(2)).contract
    directory = SiteDirectory(tmp_path / "a")
    (tmp_path / "b").write_bytes(b"other")
    directory.checkpoint.symlink_to(tmp_path / "b")
    with pytest.raises(OSError, match="and no link; move it away"):
        directory.load_checkpoint(contract, bytes(32))
    directory.close()


def test_log_lines_have_the_time_in_utc_with_its_zone(tmp_path):
    directory = SiteDirectory(tmp_path)
    directory.log("All is well.")
    directory.close()
    line = (tmp_path / "log.txt").read_text()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ All is well\.\n", line)


def test_a_log_may_be_json_lines_with_names_of_events(tmp_path):
    said = []
    directory = SiteDirectory(tmp_path, log_format="json", on_log=said.append)
    directory.log("All is well.")
    directory.log(LogEvent("lost", "b was lost.", peer="b", round=3, residual=float("inf")))
    directory.close()
    first, second = map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())
    assert (first["event"], first["message"]) == ("note", "All is well.")
    fields = {"event": "lost", "message": "b was lost.", "peer": "b", "round": 3, "residual": None}
    assert {name: value for name, value in second.items() if name != "time"} == fields
    assert said == ["All is well.", "b was lost."]
    assert not (tmp_path / "log.txt").exists()
