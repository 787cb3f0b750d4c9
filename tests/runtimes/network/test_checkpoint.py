import errno
import hashlib
import os

import msgspec
import numpy as np
import pytest

from peerclust.errors import DataError
from peerclust.runtimes.network.checkpoint import Checkpoint, load, save
from peerclust.runtimes.network.messages import Agreed, unpack_centers

AGREED = Agreed(
    [0, 1], [(1, 2)], [0.5], [1.0], [-1.0], [2.0],
    spread=1.0, weight=10.0, W=6.0, delta=1.0, rho=50.0, alpha=0.01,
    curvature=[3.0, 0.0], evenness=[0.5, 1.0], lambda_max=4.0, lambda_2=0.5, processes="5f" * 32,
)  # fmt: skip
CENTERS = np.array([[0.1, 0.2], [-0.0, 5e-324], [1e300, 3.0]])
OLD = Checkpoint(b"the run!", b"the rows", AGREED, 41, CENTERS.tobytes())
NEW = Checkpoint(b"the run!", b"the rows", AGREED, 42, CENTERS[::-1].tobytes())


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
        with pytest.raises(DataError, match="is not whole"):
            load(path)
    for more in (b"\0", data):
        path.write_bytes(data + more)
        with pytest.raises(DataError, match="is not whole"):
            load(path)


def test_a_checkpoint_with_a_bit_of_any_byte_flipped_is_a_data_error(path):
    save(path, OLD)
    data = path.read_bytes()
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        with pytest.raises(DataError, match="is not whole"):
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
            with pytest.raises(DataError, match="is not whole"):
                load(path)


def test_a_checkpoint_of_another_version_is_a_data_error(path):
    for held in ({"run": b"x"}, [1, 2], {"what": 1}):
        data = msgspec.msgpack.encode(held)
        path.write_bytes(hashlib.sha256(data).digest() + data)
        with pytest.raises(DataError, match="is of another version"):
            load(path)


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
