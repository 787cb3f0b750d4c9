"""What `peerclust warm-up` prints."""

import json

from command_line import good
from peerclust.clustering import warm_up


def test_it_says_where_the_kernels_are_and_how_large(monkeypatch):
    monkeypatch.setattr(warm_up, "_SHAPES", [(6, 2)])
    result = good("warm-up")
    assert result.stdout.startswith("Compiled kernels are in /")
    assert " MB); that took " in result.stdout
    first, second = result.stderr.splitlines()
    assert first == "1 of 2: 6 rows with 2 features, float64, kmeans"
    assert second == "2 of 2: 6 rows with 2 features, float64, huber"
    record = json.loads(good("warm-up", "--json").stdout)
    assert record["directory"] in result.stdout
    assert record["bytes"] > 10_000
    assert record["seconds"] > 0


def test_without_a_cache_nothing_is_kept(monkeypatch):
    monkeypatch.setattr(warm_up, "warm_up", lambda report, float32: None)
    monkeypatch.setattr("peerclust.kernels.cache_directory.cache_directory", lambda: None)
    assert good("warm-up").stdout.startswith("No directory can be written to, so nothing is kept")
    assert json.loads(good("warm-up", "--json").stdout)["directory"] is None
