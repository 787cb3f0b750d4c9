import numpy as np
import pytest

from peerclust import bench
from peerclust.bench import fuzz
from peerclust.errors import ParameterError, WireError
from peerclust.runtimes.network import messages, wire
from peerclust.runtimes.network.wire import Kind

from .frame_mutations import changed_frames, valid_frames


def test_a_hundred_thousand_changed_frames_crash_nothing():
    said = []
    report = bench.run("fuzz", said.append, frames=100_000, seed=1)
    assert report.holds, report.as_dict()
    assert [measure.name for measure in report.measures] == [
        "crashes", "forged", "largest_allocation", "slowest_ms",
    ]  # fmt: skip
    assert said[-1].startswith("100,000 of 100,000 frames")


def test_frames_of_all_kinds_are_changed_and_valid_before():
    frames = [wire.decode(data, limit=fuzz.LIMIT) for data in valid_frames()]
    assert {frame.kind for frame in frames} == set(Kind)
    for frame in frames:
        if frame.kind not in wire.ARRAYS:
            messages.unpack(frame.payload, fuzz._TYPES[frame.kind])


def test_changes_reach_every_check_and_what_lies_behind_them():
    sentences = set()
    good = valid_frames()
    for data, _ in changed_frames(good, 20_000, np.random.default_rng(0)):
        try:
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


def test_the_same_seed_changes_frames_alike_and_another_does_not():
    one, same, other = (
        [d for d, _ in changed_frames(valid_frames(), 50, np.random.default_rng(seed))]
        for seed in (3, 3, 4)
    )
    assert one == same != other


def test_a_decoder_that_crashes_is_found_and_its_frame_told(monkeypatch):
    def decode(data, *, limit):
        if len(data) == 73:
            raise IndexError("out of range")
        raise WireError("A frame must be good.")

    monkeypatch.setattr(wire, "decode", decode)
    crashes, *_ = bench.run("fuzz", frames=5_000).measures
    assert crashes.value > 0
    assert not crashes.holds
    assert "IndexError: out of range of " in crashes.detail


def test_a_decoder_that_allocates_what_a_header_claims_is_found(monkeypatch):
    def decode(data, *, limit):
        bytes(int.from_bytes(data[64:68], "little") % (1 << 24))
        raise WireError("A frame must be good.")

    monkeypatch.setattr(wire, "decode", decode)
    report = bench.run("fuzz", frames=5_000)
    assert {m.name for m in report.measures if not m.holds} == {"largest_allocation"}


def test_a_decoder_without_a_checksum_is_found(monkeypatch):
    monkeypatch.setattr(wire, "_sum_up", lambda *_: 0)
    report = bench.run("fuzz", frames=5_000)
    assert "forged" in {m.name for m in report.measures if not m.holds}


def test_an_option_that_a_benchmark_does_not_take_is_refused():
    with pytest.raises(ParameterError, match=r"`frames` of bench must be left out with core"):
        bench.run("core", frames=3)
    with pytest.raises(ParameterError, match=r"takes only frames, seed\. Got 5\."):
        bench.run("fuzz", schedules=5)
    for wrong in ({"frames": 0}, {"frames": 1.5}, {"seed": -1}):
        with pytest.raises(ParameterError, match=f"`{next(iter(wrong))}` of bench must be"):
            bench.run("fuzz", **wrong)
