"""Numbers and public names that later work must keep; see `golden` and `public_names`."""

import json

import pytest

import golden
import public_names


def test_numbers_are_those_recorded():
    assert golden.differences(golden.run_all(fast=True)) == []


@pytest.mark.peers
def test_numbers_of_peers_are_those_recorded_and_a_restarted_peer_equals_its_replay():
    assert golden.differences(golden.peer_numbers()) == []
    golden.check_restarted_peer()


@pytest.mark.mpi
def test_numbers_on_two_ranks_are_those_recorded_and_those_of_the_simulator():
    found = golden.mpi_numbers()
    assert golden.differences(found) == []
    recorded = json.loads(golden.FILE.read_text())["digests"]
    for digests in recorded.values():
        for name in found:
            assert digests[name] == digests[name.removeprefix("mpi-")]


def test_a_changed_number_is_found(monkeypatch):
    numbers = {"centers": golden.estimator_numbers()["estimator-1"]["centers"]}
    monkeypatch.setattr(golden, "machine", lambda: "a machine without digests")
    assert golden.differences({"estimator-1": numbers}) == []
    numbers["centers"] = numbers["centers"].copy()
    numbers["centers"][0, 0, 0] += 1e-6
    assert "centers differ by up to 1e-06" in golden.differences({"estimator-1": numbers})[0]


def test_public_names_are_those_recorded():
    assert public_names.FILE.read_text().splitlines() == public_names.public_names()
