"""What `peerclust bench` prints; what it measures is tested with `bench`."""

import json

from command_line import good, run
from peerclust import bench


def test_bench_prints_measures_and_exits_with_1_if_one_misses_its_target(monkeypatch):
    machine = bench.Machine("abacus", 2, "3.11", {"numpy": "2"})
    slow = bench.Measure("time", 3.0, "seconds by seconds", at_most=2)
    fast = bench.Measure("time", 1.0, "seconds by seconds", at_most=2)
    said = []

    def fake(name, say):
        say("measuring")
        return bench.Report(name, machine, said)

    monkeypatch.setattr(bench, "run", fake)
    said[:] = [fast]
    result = good("bench", "core")
    assert "abacus" in result.stdout
    assert "seconds by seconds" in result.stdout
    assert result.stderr == "measuring\n"
    said[:] = [fast, slow]
    result = run("bench", "core", "--json")
    assert result.exit_code == 1
    assert result.stderr == ""
    assert [m["holds"] for m in json.loads(result.stdout)["measures"]] == [True, False]


def test_bench_passes_on_only_the_options_that_were_given(monkeypatch):
    machine = bench.Machine("abacus", 2, "3.11", {"numpy": "2"})
    came = []

    def fake(name, say, **options):
        came.append(options)
        return bench.Report(name, machine, [])

    monkeypatch.setattr(bench, "run", fake)
    for words in ((), ("--frames", "5"), ("--frames", "5", "--seed", "0")):
        good("bench", "fuzz", *words)
    assert came == [{}, {"frames": 5}, {"frames": 5, "seed": 0}]


def test_bench_refuses_an_option_of_another_benchmark():
    result = run("bench", "core", "--frames", "5")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "must be left out with core, which takes no options. Got 5." in result.stderr


def test_bench_knows_its_names():
    result = run("bench", "outlier")
    assert result.exit_code == 2
    assert "Got 'outlier'. Did you mean 'outliers'?" in result.stderr
