"""A disk that is full, read-only or broken loses nothing that was there."""

import base64
import errno
import os
import resource
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest

import peerclust as pc
from faulty_disk import FUNCTIONS, failing
from peer_runs import make_cluster, make_empty_record, make_path_contract
from peerclust.clustering.result import Status
from peerclust.errors import PeerclustError
from peerclust.peers import setup
from peerclust.peers.commands import SiteArguments, read_rows, read_table, run_site
from peerclust.peers.rows import join_rows
from peerclust.peers.site_directory import RESULT, SiteDirectory
from peerclust.runtimes import Simulator
from peerclust.runtimes.network import checkpoint
from peerclust.runtimes.network.checkpoint import Checkpoint
from peerclust.runtimes.network.journal import read_journal
from peerclust.runtimes.network.messages import Agreed, SignedRecord, pack, pack_centers
from peerclust.runtimes.network.statements import run_id
from peerclust.runtimes.network.wire import TAG_BYTES
from peerclust.testing import preload

CODES = (errno.ENOSPC, errno.EIO, errno.EROFS)
EACH_FUNCTION = pytest.mark.parametrize(
    ("owner", "name"), FUNCTIONS, ids=[f"{owner.__name__}.{name}" for owner, name in FUNCTIONS]
)
CONTRACT = make_path_contract(3)
X = np.arange(12.0).reshape(3, 4) / 12
AGREED = Agreed(
    [0, 1, 2], [], [0.0] * 4, [1.0] * 4, [-1.0] * 4, [2.0] * 4,
    spread=1.0, weight=10.0, W=6.0, delta=1.0, rho=50.0, alpha=0.01,
    curvature=[1.0] * 3, evenness=[1.0] * 3, lambda_max=4.0, lambda_2=0.5, processes="5f" * 32,
)  # fmt: skip
ROWS = bytes(32)


def save(path, round_):
    run = b"the run!"
    checkpoint.save(path, Checkpoint(CONTRACT.digest, run, ROWS, AGREED, round_, pack_centers(X)))


def take_part(path, rounds):
    """Do with a site's directory what a run does."""
    directory = SiteDirectory(path)
    try:
        directory.log(f"Round {rounds[0]}.")
        directory.journal.agreed(b"the run!", [0, 1, 2], [], "5f" * 32, ROWS)
        directory.journal.start(rounds[0], X)
        for round_ in rounds:
            directory.journal.heard(round_, [round_ % 3])
            save(directory.checkpoint, round_)
        directory.log(f"Round {rounds[-1]}.")
    finally:
        directory.close()


@EACH_FUNCTION
def test_whatever_fails_during_a_run_the_files_of_the_site_stay_valid(
    tmp_path, monkeypatch, owner, name
):
    for n in range(100):
        path = tmp_path / f"{n}"
        take_part(path, [1, 2])
        before, log = read_journal(path / "journal.jsonl"), (path / "log.txt").read_text()
        # A process was killed while it wrote.
        with (path / "journal.jsonl").open("ab") as file:
            file.write(b'{"event": "he')
        code = CODES[n % len(CODES)]
        with failing(monkeypatch, owner, name, n, code, path) as failed:
            try:
                take_part(path, [3, 4])
            except (OSError, PeerclustError) as error:
                said = str(error)
            else:
                said = str(path)
        # It names the file.
        assert str(path) in said, (n, failed)
        events = read_journal(path / "journal.jsonl", CONTRACT)
        assert events[: len(before)] == before
        assert (path / "log.txt").read_text().startswith(log)
        assert checkpoint.load(path / "checkpoint", CONTRACT).round in (2, 3, 4)
        take_part(path, [5, 6])
        assert checkpoint.load(path / "checkpoint", CONTRACT).round == 6
        if not failed:
            assert not list(path.glob(".*"))
            return
    pytest.fail("it never succeeds")


def make_ended_site(folder):
    """Write the files of a site whose run is over, and whose result is only in its checkpoint."""
    peers = make_cluster(folder, 2, pc.graphs.path(2))
    contract = peers.contract
    rows = [
        read_rows(contract, name, read_table(contract, peers.data(name))) for name in peers.names
    ]
    agreed, _, x = setup.agree(contract, Simulator(contract.graph), join_rows(rows), (0, 1), [], "")
    signed = SignedRecord(make_empty_record(agreed), [])
    end = {
        "signed": base64.b64encode(pack(signed)).decode(),
        "verdict": {"status": vars(Status("converged", "every residual is small.")), "rounds": 7},
        "traffic": {"p1": {"sent": 1, "heard": 2}},
    }
    directory = SiteDirectory(peers.out("p0"))
    checkpoint.save(
        directory.checkpoint,
        Checkpoint(
            contract.digest, run_id(contract, agreed)[:TAG_BYTES], rows[0].digest, agreed, 7,
            pack_centers(x[0]), checkpoint.pack_end(end),
        ),
    )  # fmt: skip
    directory.close()
    return peers, SiteArguments(peers.network, "p0", peers.data("p0"), keys=folder)


@EACH_FUNCTION
def test_whatever_fails_when_a_result_is_written_the_same_command_writes_it_later(
    tmp_path, monkeypatch, owner, name
):
    peers, given = make_ended_site(tmp_path)
    out = peers.out("p0")
    kept = (out / "checkpoint").read_bytes()
    for n in range(100):
        shutil.rmtree(out)
        out.mkdir(mode=0o700)
        (out / "checkpoint").write_bytes(kept)
        with failing(monkeypatch, owner, name, n, CODES[n % len(CODES)], out) as failed:
            try:
                run_site(given, out)
            except (OSError, PeerclustError) as error:
                said = str(error)
            else:
                said = str(out)
        assert str(out) in said, (n, said)
        whole = (out / "certificate.json").exists()
        # One of the two is always there.
        assert whole or (out / "checkpoint").read_bytes() == kept
        if not whole:
            if "cannot be written" in said:
                assert "The result is kept in" in said
            run_site(given, out)
        assert {*RESULT} <= {each.name for each in out.iterdir()}
        assert peers.certificate("p0")["rounds"] == 7
        assert peers.certificate("p0")["traffic"] == {"p1": {"sent": 1, "heard": 2}}
        assert pc.Solution.load(out / "solution.npz").status.name == "converged"
        if not failed:
            assert not (out / "checkpoint").exists()
            return
    pytest.fail("it never succeeds")


def test_a_result_replaces_links_and_is_private(tmp_path):
    _, given = make_ended_site(tmp_path)
    out, precious = tmp_path / "out-p0", tmp_path / "precious"
    precious.write_text("precious")
    for name in ("labels.csv", "centers.csv", "solution.npz"):
        (out / name).symlink_to(precious)
    (out / "certificate.json").symlink_to(tmp_path / "nothing")
    run_site(given, out)
    assert precious.read_text() == "precious"
    assert not (tmp_path / "nothing").exists()
    modes = {path.name: path.lstat().st_mode for path in out.iterdir()}
    assert {*RESULT} <= {*modes}
    assert set(modes.values()) == {stat.S_IFREG | 0o600}


def test_a_result_that_is_kept_is_not_lost_to_another_network_file_or_to_other_rows(tmp_path):
    peers, given = make_ended_site(tmp_path)
    kept = (peers.out("p0") / "checkpoint").read_bytes()
    text = peers.network.read_text()
    peers.network.write_text(text.replace("tol = 1e-06", "tol = 1e-05"))
    with pytest.raises(pc.errors.DataError, match="another network file, which is not written yet"):
        run_site(given, peers.out("p0"))
    peers.network.write_text(text)
    lines = peers.data("p0").read_text().splitlines(keepends=True)
    peers.data("p0").write_text("".join(lines[:-1]))
    with pytest.raises(pc.errors.DataError, match="must belong to the given rows"):
        run_site(given, peers.out("p0"))
    assert (peers.out("p0") / "checkpoint").read_bytes() == kept


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"rounds": 7', b'"rounds":""'),
        (b'"traffic"', b'"traffik"'),
        (b'"verdict": {', b'"verdict": ['),
    ],
)
def test_an_end_that_cannot_be_read_is_a_data_error(tmp_path, old, new):
    peers, given = make_ended_site(tmp_path)
    path = peers.out("p0") / "checkpoint"
    saved = checkpoint.load(path, peers.contract)
    assert old in saved.end
    fields = {each: getattr(saved, each) for each in saved.__struct_fields__}
    checkpoint.save(path, Checkpoint(**fields | {"end": saved.end.replace(old, new)}))
    with pytest.raises(pc.errors.DataError, match=r"must say how its run ended\. Move it away"):
        run_site(given, peers.out("p0"))


def test_what_a_killed_process_had_begun_to_write_is_removed(tmp_path):
    SiteDirectory(tmp_path / "a").close()
    (tmp_path / "a" / ".labels.csv.ab12cd_x").mkdir()
    (tmp_path / "a" / ".labels.csv.ab12cd_x" / "labels.csv").write_text("row,label\n")
    (tmp_path / "a" / ".mine").mkdir()
    SiteDirectory(tmp_path / "a").close()
    assert [path.name for path in (tmp_path / "a").glob(".*")] == [".mine"]


# Real processes. A limit on the size of files stands for a disk that is full.


def has_a_small_disk(arguments, directory):
    limit = int((Path(directory) / "limit").read_text())
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    preload.run_peer(arguments, directory)


def make_large_cluster(folder):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(2000, 2)) + 5 * rng.integers(0, 3, size=(2000, 1)) for _ in range(2)]
    return make_cluster(folder, 2, pc.graphs.path(2), parts=parts, rho=20.0, solver="accelerated")


@pytest.mark.peers
def test_a_full_disk_at_the_end_loses_nothing_and_the_same_command_finishes_alone(tmp_path):
    with make_large_cluster(tmp_path) as peers:
        (tmp_path / "limit").write_text("15000")
        peers.start("p0", run=has_a_small_disk)
        peers.start("p1")
        assert peers.wait() == {"p0": 2, "p1": 0}
        *_, last = peers.error("p0").splitlines()
        assert "out-p0/labels.csv cannot be written: File too large" in last
        assert "The result is kept in out-p0/checkpoint: the same command writes it later." in last
        assert last.endswith("(docs/exit-codes.md#an-error)")
        assert not peers.ended("p0")
        assert not list(peers.out("p0").glob(".*"))
        # p1 is gone.
        peers.start("p0")
        assert peers.wait("p0", seconds=30) == {"p0": 0}, peers.error("p0")
        mine, other = peers.certificate("p0"), peers.certificate("p1")
        assert mine["rounds"] == other["rounds"]
        assert mine["status"] == other["status"]
        assert not (peers.out("p0") / "checkpoint").exists()
        assert all(site["same"] for site in peers.replay().values())


@pytest.mark.peers
def test_a_disk_that_is_full_from_the_start_is_named_at_the_end(tmp_path):
    with make_large_cluster(tmp_path) as peers:
        (tmp_path / "limit").write_text("300")
        # Its standard error goes to a file, too.
        peers.start("p0", run=has_a_small_disk)
        peers.start("p1")
        assert peers.wait() == {"p0": 2, "p1": 0}
        assert not peers.ended("p0")
        read_journal(peers.out("p0") / "journal.jsonl")
        assert os.stat(peers.out("p0") / "log.txt").st_size <= 300  # noqa: PTH116
