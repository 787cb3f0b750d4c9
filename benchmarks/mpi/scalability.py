"""Rounds over MPI beside a bare exchange, on one rank and on more, and beside a model of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

from benchmarks.measures import Measure, check_picture
from benchmarks.mpi.jobs import Task, cores, find_mpiexec, run_job
from benchmarks.mpi.cost_model import Costs, Load, predict, ring_load
from benchmarks.mpi.scaling_runs import IMAGES, PLANE, Point, Shape, measure_costs, time_scaling
from benchmarks.round_timing import USERS
from peerclust.errors import ParameterError
from peerclust.files import new_file
from peerclust.validation import check_count

# Name, K, d and the share of the exchanges that is run. A letter has 8 K d bytes, and its votes.
_PAYLOADS = (("96B", 3, 4, 1.0), ("63KB", 10, 784, 0.1))

# Ranks that are more than most machines have cores, and their share of the exchanges.
_MANY = 10
_MANY_SHARE = 0.02

# What is predicted: users on a ring, rows in all and ranks.
_PAPER = {"m": 10_000, "rows": 1_000_000_000}
_PAPER_RANKS = 1000

# Seconds by the name of a way, see `mpi_ranks.time_letters`.
Times = Mapping[str, float]


def measure(
    say: Callable[[str], None],
    *,
    rows: int = 2_000_000,
    rounds: int = 100,
    exchanges: int = 20_000,
    repeats: int = 5,
    latency: float = 2e-6,
    bandwidth: float = 1e10,
    out: str | PathLike[str] = "peerclust-mpi.png",
) -> Iterator[Measure]:
    """Yield the measures; `out` is the picture of how rounds scale.

    `rounds` are those with rows, `exchanges` those without. `latency`, in seconds, and `bandwidth`,
    in bytes a second, are of the network for which rounds on 1,000 ranks are predicted.
    """
    check_picture(out)
    for name, count, least in (
        ("rows", rows, 4000), ("rounds", rounds, 1), ("exchanges", exchanges, 1000),
        ("repeats", repeats, 1),
    ):  # fmt: skip
        check_count(count, name, "bench", at_least=least)
    for name, value in (("latency", latency), ("bandwidth", bandwidth)):
        if not value > 0:
            raise ParameterError(f"`{name}` of bench must be above 0. Got {value}.")
    find_mpiexec()

    say("rounds without rows on 2 ranks beside a bare exchange")
    pair = _time_letters(2, exchanges, repeats)
    yield from _beside_bare(2, pair)
    say(f"the same on {_MANY} ranks")
    yield from _beside_bare(_MANY, _time_letters(_MANY, int(_MANY_SHARE * exchanges), repeats))

    points = time_scaling(say, rows=rows, rounds=rounds, repeats=repeats)
    yield from _scaling(points)
    yield _memory(points["strong"])

    say("what the parts of a round cost")
    bare = {8 * K * d: times["bare"] for (_, K, d, _), times in zip(_PAYLOADS, pair, strict=True)}
    costs = measure_costs(points, bare, exchanges=exchanges, repeats=repeats)
    yield from _model(costs[PLANE], points)
    afar = {
        shape: replace(each, latency=latency, byte=1.0 / bandwidth) for shape, each in costs.items()
    }
    for name, point in (("plane", points["strong"][0]), ("images", points["images"][0])):
        yield _predict(name, point, afar[point.shape], bandwidth)
    _draw(points, costs[PLANE], afar, Path(out))


def _time_letters(ranks: int, exchanges: int, repeats: int) -> list[Times]:
    tasks: list[Task] = [
        ("letters", {"K": K, "d": d, "rounds": max(int(share * exchanges), 1), "repeats": repeats})
        for _, K, d, share in _PAYLOADS
    ]
    return list(run_job(ranks, *tasks))


def _beside_bare(ranks: int, found: Sequence[Times]) -> Iterator[Measure]:
    """Give rounds' times in those of a bare exchange; of two ranks they have a target.

    A bare loop that never writes what it sends finds it in the caches of both cores, which no
    exchange of news does: its letter is written anew each time, and what it takes to send the same
    one again is told besides.
    """
    for (name, K, d, _), times in zip(_PAYLOADS, found, strict=True):
        told = (
            f"a bare exchange {times['anew'] * 1e6:.2f} us, of a letter that stays as it is"
            f" {times['bare'] * 1e6:.2f} us; {ranks} ranks{_crowded(ranks)}, a user without rows"
            f" each, K = {K}, d = {d}"
        )
        label = f"round_{name}" + ("" if ranks == 2 else f"_{ranks}_ranks")
        for way, beside, more in (
            ("silent", "anew", ""),
            ("silent", "bare", "_beside_the_same_letter"),
            ("voting", "anew", "_voting"),
        ):
            yield Measure(
                label + more,
                times[way] / times[beside],
                f"a round {times[way] * 1e6:.2f} us, {told}",
                at_most=2.0 if ranks == 2 and not more else None,
            )


def _scaling(points: Mapping[str, Sequence[Point]]) -> Iterator[Measure]:
    """Give how many times as fast more ranks are, and their efficiency with as many rows each."""
    alone, *others = points["strong"]
    for point in others:
        yield Measure(
            f"speedup_{point.ranks}_ranks",
            alone.seconds / point.seconds,
            f"a round {point.seconds * 1e3:.2f} ms on {point.ranks} ranks{_crowded(point.ranks)},"
            f" {alone.seconds * 1e3:.2f} ms on one; {alone.rows:,} x 2 rows, K = 4, {USERS} users"
            " on a ring, fair loss, one thread a rank",
            at_least=1.6 if point.ranks == 2 else None,
        )
    alone, *others = points["weak"]
    for point in others:
        yield Measure(
            f"weak_{point.ranks}_ranks",
            alone.seconds / point.seconds,
            f"a round {alone.seconds * 1e3:.2f} ms on one rank, {point.seconds * 1e3:.2f} ms on"
            f" {point.ranks}{_crowded(point.ranks)}; {alone.rows:,} x 2 rows and {USERS} users"
            " a rank",
        )


def _memory(points: Sequence[Point]) -> Measure:
    """Give what a byte of rows takes on the most ranks, beside one rank."""
    growths = [point.growth or 0.0 for point in points]
    if min(growths) <= 0.0:
        why = "only Linux tells a process's peak memory, and only of many rows"
        return Measure("memory", "not known", why)
    told = ", ".join(
        f"{point.ranks}: {growth:.2f}" for point, growth in zip(points, growths, strict=True)
    )
    return Measure(
        "memory",
        growths[-1] / growths[0],
        "peak memory for a byte of a rank's own rows, those included, on the rank that has most; by"
        f" ranks: {told}",
        at_most=1.2,
    )


def _model(costs: Costs, points: Mapping[str, Sequence[Point]]) -> Iterator[Measure]:
    """Give what the model says of rounds that it was not fitted to, beside what they took."""
    for kind, first in (("strong", 1), ("weak", 0)):
        held = [(each, each.predict(costs) / each.seconds) for each in points[kind][first:]]
        _, worst = max(held, key=lambda each: max(each[1], 1.0 / each[1]))
        told = ", ".join(f"{each.ranks}: {ratio:.2f}" for each, ratio in held)
        yield Measure(
            f"model_{kind}",
            worst,
            f"seconds a round predicted / measured, the furthest from 1; by ranks: {told}; a round"
            f" {costs.round * 1e6:.2f} us, and for a center and feature a row"
            f" {costs.row * 1e9:.3f} ns and a user {costs.user * 1e9:.1f} ns; letters"
            f" {costs.latency * 1e6:.2f} us and {_rate(costs.byte)}",
        )


def _predict(name: str, point: Point, costs: Costs, bandwidth: float) -> Measure:
    """Give the milliseconds of a round on a thousand ranks, and of what."""
    K, d = point.shape
    ranks, load = _PAPER_RANKS, _paper_load(point.shape, _PAPER_RANKS)
    seconds = predict(costs, load, ranks=ranks, cores=ranks)
    alone = predict(costs, _paper_load(point.shape, 1), ranks=1, cores=1)
    travel = costs.latency + costs.byte * load.bytes
    memory = "" if point.growth is None else f"{point.growth * load.rows * d * 8e-9:.2f} GB a rank,"
    return Measure(
        f"predicted_{name}",
        seconds * 1e3,
        f"ms a round on {ranks:,} ranks, on paper: {_PAPER['rows']:,} x {d} rows, K = {K},"
        f" {_PAPER['m']:,} users on a ring; letters {travel * 1e6:.2f} us of it,"
        f" {memory} efficiency {alone / (ranks * seconds):.3f}. Assumed: {costs.latency * 1e6:g} us"
        f" and {bandwidth * 1e-9:g} GB/s between ranks, a core like this one for each, and none"
        " slower than others or in another's way",
    )


def _paper_load(shape: Shape, ranks: int) -> Load:
    K, d = shape
    return ring_load(**_PAPER, ranks=ranks, K=K, d=d)


def _draw(
    points: Mapping[str, Sequence[Point]],
    costs: Costs,
    afar: Mapping[Shape, Costs],
    path: Path,
) -> None:
    from peerclust.report import scaling

    measured = {
        kind: [(each.ranks, each.seconds, each.predict(costs)) for each in points[kind]]
        for kind in ("strong", "weak")
    }
    ranks = [1, 10, 100, 1000, 10_000]
    paper = {
        f"{d} features, K = {K}": [
            (R, predict(afar[K, d], _paper_load((K, d), R), ranks=R, cores=R)) for R in ranks
        ]
        for K, d in (PLANE, IMAGES)
    }
    with new_file(path) as file:
        scaling.draw(measured, paper, cores(), file)


def _crowded(ranks: int) -> str:
    return f" on {cores()} cores" if ranks > cores() else ""


def _rate(byte: float) -> str:
    return f"{1e-9 / byte:.1f} GB/s" if byte > 0 else "no seconds a byte"
