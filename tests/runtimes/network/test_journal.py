import errno
import json
import os
import stat

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from peer_runs import make_path_contract
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


@pytest.fixture
def whole(path):
    """Return the bytes of a journal with an event of each kind."""
    journal, x = Journal(path, pytest.fail), np.zeros((3, 4))
    journal.agreed(b"the run!", [0, 1], [(1, 2)], "5f" * 32, b"rows")
    journal.start(0, x)
    journal.heard(0, [1, 2])
    journal.end(14, 7, x)
    return path.read_bytes()


def test_events_come_back_in_order_and_centers_to_the_last_bit(path):
    x = np.array([[0.1, -0.0], [np.nextafter(1, 2), 5e-324]])
    journal = Journal(path, pytest.fail)
    journal.agreed(b"the run!", [0, 1], [(1, 2)], "5f" * 32, b"rows")
    journal.start(0, x)
    journal.heard(0, [1, 2])
    journal.end(14, 7, x[::-1])
    agreed, start, heard, end = read_journal(path)
    assert (agreed["event"], bytes.fromhex(agreed["run"])) == ("agreed", b"the run!")
    assert (agreed["members"], agreed["lost"]) == ([0, 1], [(1, 2)])
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


@pytest.mark.parametrize("damage", ["", 7, "x" * 64])
def test_a_damaged_private_seed_is_a_data_error(path, damage):
    path.write_text(json.dumps({"event": "seed", "seed": damage}) + "\n")
    with pytest.raises(DataError, match=r"Line 1 of the journal .* Move it away"):
        _ = Journal(path, pytest.fail).private_seed


def test_a_short_private_seed_is_replaced(path):
    path.write_text(json.dumps({"event": "seed", "seed": "12"}) + "\n")
    seed = Journal(path, pytest.fail).private_seed
    assert find_private_seed(read_journal(path)) == seed


def test_an_event_is_written_before_anything_that_depends_on_it(path):
    journal = Journal(path, pytest.fail)
    journal.heard(0, [1])
    # Another process would see it now: nothing waits in a buffer of this one.
    assert json.loads(path.read_bytes()) == {"event": "heard", "exchange": 0, "senders": [1]}


@pytest.mark.parametrize("function", ["write", "fsync"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_bad_disk_is_reported_once_and_what_was_written_stays(path, monkeypatch, function, code):
    def fail(file, *data):
        for each in data:
            real(file, each[:7])  # part of it is written, and then no more
        raise OSError(code, os.strerror(code))

    said, real = [], os.write
    journal = Journal(path, said.append)
    journal.heard(0, [1])
    with monkeypatch.context() as patch:
        patch.setattr(os, function, fail)
        journal.heard(1, [2])
        journal.heard(2, [3])
    # What comes after the gap is not written, either.
    journal.heard(3, [4])
    assert said == [
        f"The journal {path} cannot be written: {os.strerror(code)}; a replay will not be possible."
    ]
    assert (said[0].event, said[0].fields) == ("file-failed", {"file": str(path)})
    assert [event["exchange"] for event in read_journal(path)] == [0]
    Journal(path, pytest.fail).heard(9, [1])
    assert [event["exchange"] for event in read_journal(path)] == [0, 9]


def test_a_journal_is_shortened_in_place_so_that_a_full_disk_cannot_empty_it(path, monkeypatch):
    Journal(path, pytest.fail).heard(0, [1])
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"event": "he')

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    Journal(path, pytest.fail)
    assert path.read_bytes() == whole


def test_what_is_no_journal_is_a_data_error(path):
    with pytest.raises(DataError, match="There is no journal"):
        read_journal(path)
    heard = b'{"event": "heard", "exchange": 0, "senders": [1]}\n'
    lines = (
        b"{\n", b"[]\n", b"{}\n", b"\xff\xfe\n", b'{"event": "heard"}\n', heard + b"no event\n",
        heard.replace(b"[1]", b"[-1]"), heard.replace(b"0,", b"1e3,"),
        heard.replace(b"0,", b"NaN,"), heard.replace(b"heard", b"end"),
        b'{"event": "agreed", "run": "xy"}\n', b"[" * 10**5 + b"\n",
    )  # fmt: skip
    for wrong in lines:
        path.write_bytes(wrong)
        number = wrong.count(b"\n")
        with pytest.raises(
            DataError, match=f"Line {number} of the journal {path} must be an event"
        ):
            read_journal(path)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"members": [0, 1]', '"members": [0, 4]', "Line 1 .* name peers of the network file"),
        ("[[1, 2]]", "[[1, 4]]", "Line 1 .* name peers of the network file"),
        ('"senders": [1, 2]', '"senders": [1, 99]', "Line 3 .* name peers of the network file"),
        ("[3, 4]", "[4, 3]", "Line 2 .* have 3 centers of 4 numbers"),
        ('"round": 7', '"round": 1000000000', "Line 4 .* have a round of the network file"),
        ('"exchange": 14', '"exchange": 10000000', "Line 4 .* have a round of the network file"),
    ],
)
def test_the_last_run_of_a_journal_must_be_one_of_the_network_file(path, whole, old, new, sentence):
    contract = make_path_contract(rounds=1000, search="none")
    assert len(read_journal(path, contract)) == 4
    path.write_text(whole.decode().replace(old, new))
    assert len(read_journal(path)) == 4
    with pytest.raises(DataError, match=f"{sentence}. Move it away"):
        read_journal(path, contract)
    # Of an earlier run, in the same directory, nothing is used.
    Journal(path, pytest.fail).agreed(b"another!", [0, 1], [], "5f" * 32, b"rows")
    assert len(read_journal(path, contract)) == 5


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_content_of_a_journal_does_more_than_raise_a_data_error(path, whole, data):
    text = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text) - 1))
        text[start : start + data.draw(st.integers(0, 4))] = data.draw(
            st.one_of(
                st.binary(max_size=4), st.sampled_from([b"1e999", b"-1", b"[[", b'"', b"9" * 30])
            )
        )
    path.write_bytes(text)
    try:
        events = read_journal(path, make_path_contract())
    except DataError as error:
        events, said = [], str(error)
    else:
        said = str(path)
    assert str(path) in said
    assert all(np.isfinite(unpack_array(each["x"])).all() for each in events if "x" in each)


def test_a_line_that_was_not_finished_is_left_out(path):
    heard = {"event": "heard", "exchange": 0, "senders": [2]}
    path.write_text(json.dumps(heard) + '\n{"event": "he')
    assert read_journal(path) == [heard]
    Journal(path, print).heard(3, [1])
    assert [event["exchange"] for event in read_journal(path)] == [0, 3]


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
