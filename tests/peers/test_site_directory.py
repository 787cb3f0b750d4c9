"""The directory of a site: one process at a time, and no result lost."""

import pytest

from peerclust.errors import DataError, ParameterError
from peerclust.peers.site_directory import SiteDirectory, status_socket
from peerclust.runtimes.network.journal import read_journal


def test_a_directory_is_locked_by_one_process(tmp_path):
    first = SiteDirectory(tmp_path / "a")
    with pytest.raises(ParameterError, match="A peer is already running in"):
        SiteDirectory(tmp_path / "a")
    first.close()
    SiteDirectory(tmp_path / "a").close()


def test_a_result_is_replaced_only_by_force(tmp_path):
    (tmp_path / "certificate.json").write_text("{}")
    (tmp_path / "journal.jsonl").write_text("{}\n")
    with pytest.raises(ParameterError, match="unless --force"):
        SiteDirectory(tmp_path)
    SiteDirectory(tmp_path, force=True).close()
    assert not (tmp_path / "certificate.json").exists()
    with pytest.raises(DataError, match="There is no journal"):
        read_journal(tmp_path / "journal.jsonl")


def test_a_directory_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "a").write_text("")
    with pytest.raises(ParameterError, match="cannot be a directory"):
        SiteDirectory(tmp_path / "a")


def test_a_socket_s_path_is_short_however_deep_the_directory_is(tmp_path):
    deep = tmp_path / ("x" * 100) / ("y" * 100)
    assert len(str(status_socket(deep))) < 100
    assert status_socket(deep) == status_socket(deep)
    assert status_socket(deep) != status_socket(deep / "z")
    assert status_socket(tmp_path / "a").parent == tmp_path / "a"
