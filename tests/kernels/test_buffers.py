from __future__ import annotations

import gc

import numpy as np
import pytest

from peerclust.kernels import buffers


@pytest.fixture(autouse=True)
def empty_pool(monkeypatch):
    monkeypatch.setattr(buffers, "MIN_POOLED_SIZE", 10)
    buffers._free.clear()
    yield
    buffers._free.clear()


def place(array):
    return array.ctypes.data


def test_memory_is_used_again_once_it_has_no_references():
    first = buffers.empty((4, 5))
    first[:] = 1.0
    where = place(first)
    del first
    assert place(buffers.empty((2, 10))) == where


def test_memory_is_not_used_again_while_a_view_is_held():
    first = buffers.empty((4, 5))
    first[:] = np.arange(20.0).reshape(4, 5)
    view = first[1:3].reshape(-1)[::2]
    del first
    gc.collect()
    other = buffers.empty((4, 5))
    other[:] = -1.0
    assert view.tolist() == [5.0, 7.0, 9.0, 11.0, 13.0]
    assert not np.shares_memory(view, other)


def test_a_thousand_arrays_share_few_pieces_of_memory():
    held = buffers.empty((30,))
    places = set()
    for _ in range(1000):
        held = buffers.empty((30,))
        places.add(place(held))
    assert len(places) <= 4


def test_arrays_of_another_size_get_their_own():
    first = buffers.empty((20,))
    del first
    other = buffers.empty((30,))
    other[:] = 2.0
    assert other.sum() == 60.0
    assert other.flags.c_contiguous
