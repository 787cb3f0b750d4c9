"""Rounds over MPI: speedup and memory on several ranks, and a model of the seconds of a round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

from benchmarks.measures import Measure, Progress, check_picture
from benchmarks.mpi.cost_model import Costs, Load, predict, ring_load
from benchmarks.mpi.jobs import Task, find_mpiexec, run_job
from benchmarks.mpi.scaling_runs import (
    IMAGES,
    PLANE,
    Shape,
    TimedRound,
    measure_costs,
    time_scaling,
)
from benchmarks.round_timing import USERS
from peerclust.files import new_file
from peerclust.kernels.threads import available_cores
from peerclust.validation import check_count, check_number

# Name, K, d and the fraction of the exchanges that is run. A user sends 8 K d bytes and its votes.
_PAYLOADS = (("96B", 3, 4, 1.0), ("63KB", 10, 784, 0.1))

# The prediction: users on a ring, rows in total, and ranks.
_PREDICTED = {"m": 10_000, "rows": 1_000_000_000}
_PREDICTED_RANKS = 1000


def measure(
    progress: Progress,
    *,
    rows: int = 2_000_000,
    rounds: int = 100,
    exchanges: int = 20_000,
    repeats: int = 5,
    latency: float = 2e-6,
    bandwidth: float = 1e10,
    out: str | PathLike[str] = "peerclust-mpi.png",
) -> Iterator[Measure]:
    """Yield the measures; the figure of scaling is saved to `out`.

    `rounds` is the number of timed rounds with rows, `exchanges` of those without. `latency`, in
    seconds, and `bandwidth`, in bytes per second, are those of the network that the prediction for
    1,000 ranks assumes.
    """
    check_picture(out)
    for name, count, least in (
        ("rows", rows, 4000), ("rounds", rounds, 1), ("exchanges", exchanges, 10),
        ("repeats", repeats, 1),
    ):  # fmt: skip
        check_count(count, name, "benchmarks", at_least=least)
    for name, value in (("latency", latency), ("bandwidth", bandwidth)):
        check_number(value, name, "benchmarks", above=0)
    find_mpiexec()

    timed = time_scaling(progress, rows=rows, rounds=rounds, repeats=repeats)
    yield from _scaling(timed)
    yield _memory(timed["strong"])

    progress("rounds without rows on 2 ranks, and a bare exchange")
    exchange_seconds = {}
    for (name, K, d, _), seconds in zip(
        _PAYLOADS, _time_exchanges(exchanges, repeats), strict=True
    ):
        exchange_seconds[8 * K * d] = seconds["exchange"]
        yield _empty_round(name, K, d, seconds)

    progress("the costs of the model")
    costs = measure_costs(timed, exchange_seconds, exchanges=exchanges, repeats=repeats)
    yield from _model_errors(costs[PLANE], timed)
    assumed = {
        shape: replace(each, latency=latency, byte=1.0 / bandwidth) for shape, each in costs.items()
    }
    for name, alone in (("plane", timed["strong"][0]), ("images", timed["images"][0])):
        yield _predict(name, alone, assumed[alone.shape], bandwidth)
    _draw(timed, costs[PLANE], assumed, Path(out))


def _time_exchanges(exchanges: int, repeats: int) -> list[dict[str, float]]:
    tasks: list[Task] = [
        (
            "time_exchange",
            {"K": K, "d": d, "rounds": int(distribution * exchanges), "repeats": repeats},
        )
        for _, K, d, distribution in _PAYLOADS
    ]
    return run_job(2, *tasks)


def _empty_round(name: str, K: int, d: int, seconds: Mapping[str, float]) -> Measure:
    """Return the seconds of a round without rows / those of a bare exchange, without a target."""
    return Measure(
        f"round_{name}",
        seconds["round"] / seconds["exchange"],
        f"a round without rows {seconds['round'] * 1e6:.2f} us / a bare exchange"
        f" {seconds['exchange'] * 1e6:.2f} us; 2 ranks{_oversubscribed(2)}, one user each, K = {K},"
        f" d = {d}",
    )


def _scaling(timed: Mapping[str, Sequence[TimedRound]]) -> Iterator[Measure]:
    """Yield the speedup of more ranks, and their efficiency with the same rows per rank."""
    alone, *others = timed["strong"]
    for each in others:
        yield Measure(
            f"speedup_{each.ranks}_ranks",
            alone.seconds / each.seconds,
            f"one round {each.seconds * 1e3:.2f} ms on {each.ranks} ranks"
            f"{_oversubscribed(each.ranks)}, {alone.seconds * 1e3:.2f} ms on one;"
            f" {alone.rows:,} x 2 rows, K = 4, {USERS} users on a ring, fair loss, one thread per"
            " rank",
            at_least=1.6 if each.ranks == 2 else None,
        )
    alone, *others = timed["weak"]
    for each in others:
        yield Measure(
            f"weak_{each.ranks}_ranks",
            alone.seconds / each.seconds,
            f"one round {alone.seconds * 1e3:.2f} ms on one rank, {each.seconds * 1e3:.2f} ms on"
            f" {each.ranks}{_oversubscribed(each.ranks)}; {alone.rows:,} x 2 rows and {USERS} users"
            " per rank",
        )


def _memory(timed: Sequence[TimedRound]) -> Measure:
    """Return the peak memory per byte of rows on the most ranks / on one rank."""
    memories = [each.memory or 0.0 for each in timed]
    if min(memories) <= 0.0:
        reason = "only Linux reports the peak memory of a process, and only for many rows"
        return Measure("memory", "not known", reason)
    by_ranks = ", ".join(
        f"{each.ranks}: {memory:.2f}" for each, memory in zip(timed, memories, strict=True)
    )
    return Measure(
        "memory",
        memories[-1] / memories[0],
        "peak memory per byte of the rank's own rows, including them, on the rank with most rows;"
        f" by ranks: {by_ranks}",
        at_most=1.2,
    )


def _model_errors(costs: Costs, timed: Mapping[str, Sequence[TimedRound]]) -> Iterator[Measure]:
    """Yield predicted / measured seconds of the rounds that the model was not fitted to."""
    for kind, first in (("strong", 1), ("weak", 0)):
        ratios = [(each.ranks, each.predict(costs) / each.seconds) for each in timed[kind][first:]]
        _, worst = max(ratios, key=lambda each: max(each[1], 1.0 / each[1]))
        by_ranks = ", ".join(f"{ranks}: {ratio:.2f}" for ranks, ratio in ratios)
        yield Measure(
            f"model_{kind}",
            worst,
            f"predicted / measured seconds per round, the furthest from 1; by ranks: {by_ranks};"
            f" an empty round {costs.round * 1e6:.2f} us; per center and feature, a row"
            f" {costs.row * 1e9:.3f} ns and a user {costs.user * 1e9:.1f} ns; an exchange"
            f" {costs.latency * 1e6:.2f} us and {_bandwidth(costs.byte)}",
        )


def _predict(name: str, alone: TimedRound, costs: Costs, bandwidth: float) -> Measure:
    """Return the predicted milliseconds of a round on a thousand ranks, and their parts."""
    K, d = alone.shape
    ranks, load = _PREDICTED_RANKS, _predicted_load(alone.shape, _PREDICTED_RANKS)
    seconds = predict(costs, load, ranks=ranks, cores=ranks)
    on_one = predict(costs, _predicted_load(alone.shape, 1), ranks=1, cores=1)
    exchange = costs.latency + costs.byte * load.bytes
    memory = alone.memory and f"{alone.memory * load.rows * d * 8e-9:.2f} GB per rank, "
    return Measure(
        f"predicted_{name}",
        seconds * 1e3,
        f"predicted ms per round on {ranks:,} ranks: {_PREDICTED['rows']:,} x {d} rows, K = {K},"
        f" {_PREDICTED['m']:,} users on a ring; of which messages {exchange * 1e6:.2f} us;"
        f" {memory or ''}efficiency {on_one / (ranks * seconds):.3f}. Assumes"
        f" {costs.latency * 1e6:g} us and {bandwidth * 1e-9:g} GB/s between ranks, one core like"
        " this one per rank, no slow ranks and no contention",
    )


def _predicted_load(shape: Shape, ranks: int) -> Load:
    K, d = shape
    return ring_load(**_PREDICTED, ranks=ranks, K=K, d=d)


def _draw(
    timed: Mapping[str, Sequence[TimedRound]],
    costs: Costs,
    assumed: Mapping[Shape, Costs],
    path: Path,
) -> None:
    from benchmarks.mpi import figure

    measured = {
        kind: [(each.ranks, each.seconds, each.predict(costs)) for each in timed[kind]]
        for kind in ("strong", "weak")
    }
    predicted = {
        f"{d} features, K = {K}": [
            (R, predict(assumed[K, d], _predicted_load((K, d), R), ranks=R, cores=R))
            for R in (1, 10, 100, 1000, 10_000)
        ]
        for K, d in (PLANE, IMAGES)
    }
    with new_file(path) as file:
        figure.draw(measured, predicted, available_cores(), file)


def _oversubscribed(ranks: int) -> str:
    return f" on {available_cores()} cores" if ranks > available_cores() else ""


def _bandwidth(seconds_per_byte: float) -> str:
    return f"{1e-9 / seconds_per_byte:.1f} GB/s" if seconds_per_byte > 0 else "no time per byte"
