import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from websockets.protocol import Protocol

from peerclust.errors import WireError
from peerclust.runtimes.network import messages, wire
from peerclust.runtimes.network.transport import read_messages
from peerclust.runtimes.network.wire import Kind

from . import fuzz
from .__main__ import main
from .frame_mutations import mutated_frames, valid_frames


def test_mutated_frames_crash_nothing():
    lines = []
    measures = list(fuzz.measure(lines.append, frames=30_000, seed=1))
    assert all(measure.holds for measure in measures), measures
    assert [measure.name for measure in measures] == [
        "crashes", "forged", "largest_allocation", "slowest_ms",
    ]  # fmt: skip
    assert lines[-1].startswith("30,000 of 30,000 frames")


def test_frames_of_all_kinds_are_mutated_and_valid_before():
    frames = [wire.decode(data, limit=fuzz.LIMIT) for data in valid_frames()]
    assert {frame.kind for frame in frames} == set(Kind)
    for frame in frames:
        if frame.kind not in wire.ARRAYS:
            messages.unpack(frame.payload, fuzz._TYPES[frame.kind])


def test_mutations_reach_every_check_and_the_code_behind_it():
    sentences = set()
    good = valid_frames()
    for mutant in mutated_frames(good, 20_000, np.random.default_rng(0)):
        try:
            for data in read_messages(fuzz.open_websocket(1 << 14), mutant.websocket):
                frame = wire.decode(data, limit=1000)
                if frame.kind not in wire.ARRAYS:
                    messages.unpack(frame.payload, fuzz._TYPES[frame.kind])
        except WireError as error:
            sentences.add(str(error).split(".")[0])
    for part in (
        "header of 72 bytes", "must begin with", "of version", "a known kind", "at most 1000 bytes",
        "as long as its header", "cannot be of dtype", "1 to 3 numbers", "must not be empty",
        "as long as its shape", "must be counts", "have the checksum", "malformed", "truncated",
        "Expected `int`", "Expected `str`", "unknown field", "missing required field",
        "cannot be read: 'utf-8'",
    ):  # fmt: skip
        assert any(part in sentence for sentence in sentences), part


def test_mutations_reach_every_check_of_the_websocket_s_frames():
    sentences, codes = set(), set()
    for mutant in mutated_frames(valid_frames(), 20_000, np.random.default_rng(0)):
        ws = fuzz.open_websocket(fuzz.LIMIT)
        try:
            for _ in read_messages(ws, mutant.websocket):
                sentences.add("a message")
        except WireError as error:
            sentences.add(str(error))
        codes.add(ws.close_sent and int(ws.close_sent.code))
        # The first byte of a pong.
        codes |= {data[0] for data in ws.data_to_send() if data[:1] == b"\x8a"}
    for part in (
        "a message", "one binary frame", "masking", "opcode", "reserved bits", "control frame",
        "close frame", "status code", "utf-8", "continuation frame", "9223372036854775807",
    ):  # fmt: skip
        assert any(part in sentence for sentence in sentences), part
    assert {None, 0x8A, 1000, 1002, 1007, 1009} <= codes, codes


def test_the_same_seed_has_the_same_mutations_and_another_has_others():
    one, same, other = (
        [
            mutant.websocket
            for mutant in mutated_frames(valid_frames(), 50, np.random.default_rng(seed))
        ]
        for seed in (3, 3, 4)
    )
    assert one == same != other


def test_a_crash_of_the_decoder_is_found_and_described_with_its_frame(monkeypatch):
    def decode(data, *, limit):
        if len(data) == 73:
            raise IndexError("out of range")
        raise WireError("A frame must be good.")

    monkeypatch.setattr(wire, "decode", decode)
    crashes, *_ = fuzz.measure(print, frames=5_000)
    assert crashes.value > 0
    assert not crashes.holds
    assert "IndexError: out of range, from " in crashes.detail


def test_a_crash_that_the_websockets_library_catches_is_found(monkeypatch):
    def recv_frame(self, frame):
        raise IndexError("out of range")

    monkeypatch.setattr(Protocol, "recv_frame", recv_frame)
    crashes, *_ = fuzz.measure(print, frames=500)
    assert "IndexError('out of range'), from " in crashes.detail


def test_a_decoder_that_allocates_what_a_header_claims_is_found(monkeypatch):
    def decode(data, *, limit):
        bytes(int.from_bytes(data[64:68], "little") % (1 << 24))
        raise WireError("A frame must be good.")

    monkeypatch.setattr(wire, "decode", decode)
    measures = fuzz.measure(print, frames=5_000)
    assert {m.name for m in measures if not m.holds} == {"largest_allocation"}


def test_a_decoder_without_a_checksum_is_found(monkeypatch):
    monkeypatch.setattr(wire, "_checksum", lambda *_: 0)
    measures = fuzz.measure(print, frames=5_000)
    assert "forged" in {m.name for m in measures if not m.holds}


def test_the_command_prints_json_and_its_exit_code_is_0_if_nothing_fails(capsys):
    assert main(["fuzz", "--frames", "500", "--seed", "2", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["name"], err) == ("fuzz", "")
    assert [measure["value"] for measure in found["measures"][:2]] == [0, 0]


def test_the_exit_code_is_1_if_something_fails(monkeypatch, capsys):
    monkeypatch.setattr(wire, "_checksum", lambda *_: 0)
    assert main(["fuzz", "--frames", "5000"]) == 1
    out, err = capsys.readouterr()
    assert "NO" in out
    assert err.startswith("5,000 of 5,000 frames")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fuzz", "--frames", "0"], "`--frames` of chaos must be a whole number >= 1. Got 0."),
        (["fuzz", "--frames", "1.5"], "must be a whole number. Got '1.5'."),
        (["fuzz", "--seed", "-1"], "`--seed` of chaos must be"),
        (["schedules", "--count", "0"], "`--count` of chaos must be"),
        (["fuzz", "--frame", "5"], "Did you mean '--frames'?"),
        (["fuz"], "Got 'fuz'. Did you mean 'fuzz'?"),
        ([], "COMMAND"),
    ],
)
def test_a_wrong_command_is_one_sentence_and_exit_code_2(words, sentence, capsys):
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert err.count("\n") == 1


def test_the_command_runs_from_the_root():
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos", "--help"],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "schedules" in done.stdout
