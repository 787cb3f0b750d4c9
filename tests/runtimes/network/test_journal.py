import errno
import json
import stat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from peerclust.errors import DataError
from peerclust.runtimes.network.journal import (
    Journal,
    find_private_seed,
    pack_array,
    read_journal,
    unpack_array,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


def test_events_come_back_in_order_and_centers_to_the_last_bit(path):
    x = np.array([[0.1, -0.0], [np.nextafter(1, 2), 5e-324]])
    journal = Journal(path, pytest.fail)
    journal.agreed(b"the run!", [0, 1], [(1, 2)], "5f" * 32, b"rows")
    journal.start(0, x)
    journal.heard(0, [1, 2])
    journal.end(14, 7, x[::-1])
    agreed, start, heard, end = read_journal(path)
    assert (agreed["event"], bytes.fromhex(agreed["run"])) == ("agreed", b"the run!")
    assert (agreed["members"], agreed["lost"]) == ([0, 1], [[1, 2]])
    assert (agreed["processes"], bytes.fromhex(agreed["rows"])) == ("5f" * 32, b"rows")
    assert (start["event"], start["round"]) == ("start", 0)
    assert unpack_array(start["x"]).tobytes() == x.tobytes()
    assert heard == {"event": "heard", "exchange": 0, "senders": [1, 2]}
    assert (end["event"], end["exchange"], end["round"]) == ("end", 14, 7)
    assert unpack_array(end["x"]).tobytes() == np.ascontiguousarray(x[::-1]).tobytes()


def test_the_senders_are_written_only_when_they_change(path):
    journal = Journal(path, pytest.fail)
    for exchange, senders in enumerate([[1, 2], [1, 2], [1], [1], [], [1, 2]]):
        journal.heard(exchange, senders)
    written = [(event["exchange"], event["senders"]) for event in read_journal(path)]
    assert written == [(0, [1, 2]), (2, [1]), (4, []), (5, [1, 2])]


def test_the_senders_are_written_again_after_a_start(path):
    journal = Journal(path, pytest.fail)
    journal.heard(3, [1])
    journal.start(9, np.zeros((1, 1)))
    journal.heard(9, [1])
    assert [event["event"] for event in read_journal(path)] == ["heard", "start", "heard"]


def test_the_next_process_continues_the_same_journal(path):
    for round_ in (0, 5):
        Journal(path, pytest.fail).start(round_, np.zeros((1, 1)))
    assert [event["round"] for event in read_journal(path)] == [0, 5]


def test_a_private_seed_is_drawn_once_and_stays_with_its_owner(path):
    path.touch(mode=0o644)
    journal = Journal(path, pytest.fail)
    seed = journal.private_seed
    assert (len(seed), journal.private_seed) == (32, seed)
    journal.start(0, np.zeros((1, 1)))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Journal(path, pytest.fail).private_seed == seed
    assert [event["event"] for event in read_journal(path)] == ["seed", "start"]
    assert find_private_seed(read_journal(path)) == seed


def test_private_seeds_of_two_journals_differ(tmp_path):
    seeds = {Journal(tmp_path / f"{n}.jsonl", pytest.fail).private_seed for n in range(20)}
    assert len(seeds) == 20


@pytest.mark.parametrize("damage", ["", "12", 7, "x" * 64])
def test_a_damaged_private_seed_is_replaced(path, damage):
    path.write_text(json.dumps({"event": "seed", "seed": damage}) + "\n")
    assert find_private_seed(read_journal(path)) is None
    seed = Journal(path, pytest.fail).private_seed
    assert find_private_seed(read_journal(path)) == seed


def test_an_event_is_written_before_anything_that_depends_on_it(path):
    journal = Journal(path, pytest.fail)
    journal.heard(0, [1])
    # Another process would see it now: nothing waits in a buffer of this one.
    assert json.loads(path.read_bytes()) == {"event": "heard", "exchange": 0, "senders": [1]}


def test_a_full_disk_is_reported_once_and_the_run_continues(path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    said = []
    journal = Journal(path, said.append)
    monkeypatch.setattr(Path, "open", full)
    journal.heard(0, [1])
    journal.heard(1, [2])
    assert said == [
        "The journal cannot be written: No space left on device; a replay will not be possible."
    ]


def test_what_is_no_journal_is_a_data_error(path):
    with pytest.raises(DataError, match="There is no journal"):
        read_journal(path)
    for wrong in (b"{\n", b"[]\n", b"{}\n", b"\xff\xfe", b'{"event": "heard"}\nno event\n'):
        path.write_bytes(wrong)
        with pytest.raises(DataError, match="is not a journal that a peer wrote"):
            read_journal(path)


def test_a_line_that_was_not_finished_is_left_out(path):
    path.write_bytes(b'{"event": "heard"}\n{"event": "he')
    assert read_journal(path) == [{"event": "heard"}]
    Journal(path, print).heard(3, [1])
    assert [event.get("exchange") for event in read_journal(path)] == [None, 3]


@given(arrays(np.float64, array_shapes(min_dims=1, max_dims=3, max_side=4)))
def test_an_array_comes_back_from_json_to_the_last_bit(x):
    back = unpack_array(json.loads(json.dumps(pack_array(x))))
    assert (back.shape, back.tobytes()) == (x.shape, x.tobytes())


@given(st.integers(1, 4), st.integers(1, 4))
def test_an_array_that_came_back_may_be_written_to(K, d):
    x = np.zeros((K, d))
    back = unpack_array(pack_array(x))
    back += 1.0
    assert back.sum() == K * d
