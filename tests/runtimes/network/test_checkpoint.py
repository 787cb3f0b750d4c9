import errno
import hashlib
import os
import struct

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from peer_runs import make_path_contract
from peerclust.errors import DataError
from peerclust.runtimes.network import checkpoint
from peerclust.runtimes.network.checkpoint import Checkpoint, save
from peerclust.runtimes.network.messages import Agreed, pack, unpack_centers

CONTRACT = make_path_contract(3, features=("a", "b"), rounds=100, search="none")
AGREED = Agreed(
    [0, 1], [(1, 2)], [0.5, 0.0], [1.0, 2.0], [-1.0, -1.0], [2.0, 2.0],
    spread=1.0, weight=10.0, W=6.0, delta=1.0, rho=50.0, alpha=0.01,
    curvature=[3.0, 0.0, 1.0], evenness=[0.5, 1.0, 1.0], lambda_max=4.0, lambda_2=0.5,
    processes="5f" * 32,
)  # fmt: skip
CENTERS = np.array([[0.1, 0.2], [-0.0, 5e-324], [1e300, 3.0]])
OLD = Checkpoint(
    CONTRACT.digest, b"the run!", b"the rows", AGREED, 41, CENTERS.tobytes(), b'{"status": 1}'
)
NEW = Checkpoint(CONTRACT.digest, b"the run!", b"the rows", AGREED, 42, CENTERS[::-1].tobytes())


def load(path):
    return checkpoint.load(path, CONTRACT)


def write_signed(path, data):
    """Write a checkpoint with a checksum that matches, whatever it contains."""
    path.write_bytes(hashlib.sha256(data).digest() + data)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoint"


def test_a_checkpoint_comes_back_to_the_last_bit(path):
    assert load(path) is None
    save(path, OLD)
    held = load(path)
    assert held == OLD
    x = unpack_centers(held.centers, 3)[None]
    assert (x.shape, x.tobytes()) == ((1, 3, 2), CENTERS.tobytes())
    x[:] = 0.0  # a copy of its own
    assert held.centers == CENTERS.tobytes()


def test_the_later_checkpoint_takes_the_place_of_the_one_before(path):
    save(path, OLD)
    save(path, NEW)
    assert load(path) == NEW
    assert list(path.parent.iterdir()) == [path]


def test_a_checkpoint_torn_at_any_length_is_a_data_error(path):
    save(path, OLD)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(DataError, match=r"must be whole\. Move it away"):
            load(path)
    for more in (b"\0", data):
        path.write_bytes(data + more)
        with pytest.raises(DataError, match=r"must be whole\. Move it away"):
            load(path)


def test_a_checkpoint_with_a_bit_of_any_byte_flipped_is_a_data_error(path):
    save(path, OLD)
    data = path.read_bytes()
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        with pytest.raises(DataError, match=r"must be whole\. Move it away"):
            load(path)


def test_a_checkpoint_over_which_another_was_half_written_is_a_data_error(path):
    save(path, NEW)
    new = path.read_bytes()
    save(path, OLD)
    old = path.read_bytes()
    for length in range(1, len(new)):
        mixed = new[:length] + old[length:]
        path.write_bytes(mixed)
        if mixed == new:
            assert load(path) == NEW
        elif mixed == old:
            assert load(path) == OLD
        else:
            with pytest.raises(DataError, match=r"must be whole\. Move it away"):
                load(path)


def test_a_checkpoint_of_another_version_is_a_data_error(path):
    for held in ({"run": b"x"}, [1, 2], {"what": 1}):
        write_signed(path, msgspec.msgpack.encode(held))
        with pytest.raises(DataError, match=r"must be of this version of peerclust\. Move it away"):
            load(path)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"centers": CENTERS[:2].tobytes()}, "3 centers of 2 numbers"),
        ({"centers": b""}, "3 centers of 2 numbers"),
        ({"centers": CENTERS.tobytes()[:-1]}, "3 centers of 2 numbers"),
        ({"centers": np.full((3, 2), np.nan).tobytes()}, "finite centers"),
        ({"round": 101}, "a round of the run"),
        ({"agreed": {"mean": [0.5]}}, "2 finite numbers each"),
        ({"agreed": {"low": [float("nan"), 0.0]}}, "2 finite numbers each"),
        ({"agreed": {"low": [3.0, 0.0]}}, "its lower bounds below the upper ones"),
        ({"agreed": {"deviation": [1.0, 0.0]}}, "positive finite numbers"),
        ({"agreed": {"spread": float("inf")}}, "positive finite numbers"),
        ({"agreed": {"curvature": [1.0]}}, "3 curvatures"),
        ({"agreed": {"evenness": [1.0, 1.0, -1.0]}}, "curvatures of at least 0"),
        ({"agreed": {"members": [0, 3]}}, "peers and links of the network"),
        ({"agreed": {"lost": [(0, 2)]}}, "peers and links of the network"),
        ({"agreed": {"members": []}}, "members that reach each other"),
        ({"agreed": {"members": [0, 2]}}, "members that reach each other"),
    ],
    ids=str,
)
def test_a_checkpoint_with_a_mended_checksum_is_refused_for_its_content(path, changes, sentence):
    given = {**changes}
    if "agreed" in given:
        given["agreed"] = msgspec.structs.replace(AGREED, **given["agreed"])
    write_signed(path, pack(msgspec.structs.replace(OLD, **given)))
    with pytest.raises(DataError, match=f"{path} must .*{sentence}. Move it away"):
        load(path)


def test_a_checkpoint_of_another_network_file_is_not_judged_by_this_one(path):
    other = msgspec.structs.replace(OLD, network=bytes(32), centers=b"")
    save(path, other)
    assert load(path) == other


VALUES = st.one_of(
    st.none(), st.integers(-(1 << 63), (1 << 64) - 1), st.floats(), st.text(max_size=3),
    st.binary(max_size=60), st.lists(st.one_of(st.integers(-1, 5), st.floats()), max_size=4),
    st.lists(st.tuples(st.integers(-1, 4), st.integers(-1, 4)), max_size=3),
)  # fmt: skip


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_content_of_a_checkpoint_does_more_than_raise_a_data_error(path, data):
    fields = msgspec.msgpack.decode(pack(OLD))
    for _ in range(data.draw(st.integers(1, 3))):
        table = data.draw(st.sampled_from([fields, fields["agreed"]]))
        if not isinstance(table, dict):
            break
        table[data.draw(st.sampled_from(sorted(table)))] = data.draw(VALUES)
        if not isinstance(fields["agreed"], dict):
            break
    packed = bytearray(msgspec.msgpack.encode(fields))
    for _ in range(data.draw(st.integers(0, 2))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    write_signed(path, bytes(packed))
    try:
        held = load(path)
    except DataError as error:
        said = str(error)
    else:
        said = f"{path} Move it away"
        if held.network == CONTRACT.digest:
            assert len(struct.unpack("<6d", held.centers)) == 6
    assert str(path) in said
    assert "Move it away" in said


@given(st.one_of(VALUES, st.dictionaries(st.text(max_size=3), VALUES)))
def test_no_end_in_a_checkpoint_does_more_than_raise_a_value_error(value):
    try:
        data = checkpoint.pack_end(value)
    except TypeError:  # bytes are no JSON
        data = value if isinstance(value, bytes) else b"[" * 100_000
    with pytest.raises(ValueError, match=r"\w"):
        checkpoint.unpack_end(data, Agreed)


@pytest.mark.parametrize("function", ["fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_checkpoint_that_cannot_be_written_leaves_the_old_one_whole(
    path, monkeypatch, function, code
):
    def fail(*_):
        raise OSError(code, os.strerror(code))

    save(path, OLD)
    monkeypatch.setattr(os, function, fail)
    with pytest.raises(OSError, match=os.strerror(code)):
        save(path, NEW)
    assert load(path) == OLD
    assert list(path.parent.iterdir()) == [path]


def test_a_disk_that_is_really_full_leaves_the_old_one_whole(path):
    save(path, OLD)
    # A limit on the size of files stands for the disk; its signal is ignored, as it is by Python.
    resource = pytest.importorskip("resource", reason="needs a limit on the size of files")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            save(path, NEW)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert load(path) == OLD
    assert list(path.parent.iterdir()) == [path]
