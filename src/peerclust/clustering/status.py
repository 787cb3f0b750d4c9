"""The sentences of a status: how a run ended and what to do about it, of `cluster` and of peers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from peerclust import theory
from peerclust.clustering.result import Status
from peerclust.programs.solver_spec import SolverSpec
from peerclust.programs.solvers import PENALIZED_DEFAULT
from peerclust.text import count, mention, setting


@dataclass(frozen=True)
class Ending:
    """What a status is decided by.

    Attributes
    ----------
    spec : SolverSpec
        The solver.
    rho : float or None
        Its rho, if it takes one.
    rounds, stopped, tol
        The number of rounds, whether the users stopped by themselves, and their tolerance.
    residual, disagreement : float
        Those of the certificate, the latter as a fraction of the data's spread.
    used, K : int
        The number of clusters that have rows, and of all clusters.
    aimed : bool
        Whether rho was chosen to bring the disagreement to `theory.AIMED_DISAGREEMENT`.
    dtype : str
        The number format of messages.
    noisy : bool
        Whether some messages were changed or dropped.
    """

    spec: SolverSpec
    rho: float | None
    rounds: int
    stopped: bool
    tol: float
    residual: float
    disagreement: float
    used: int
    K: int
    aimed: bool = False
    dtype: str = "float64"
    noisy: bool = False


# rho="auto" misses its aim if users' centers differ by more than this many times the aim.
_MISSED = 1.5


def decide_status(end: Ending) -> Status:
    """Return how a run ended, with advice."""
    more: str = _describe_disagreement(end) + _describe_empty(end)
    if end.stopped and end.residual <= end.tol:
        after = f"after {count(end.rounds, 'round')}"
        return Status("converged", f"every residual is below {end.tol:g} {after}." + more)
    return _decide_out_of_rounds(end, more)


def _describe_empty(end: Ending) -> str:
    """Return a sentence about clusters without rows, or ""."""
    return f" Only {end.used} of {end.K} clusters have rows." if end.used < end.K else ""


def _describe_disagreement(end: Ending) -> str:
    """Return a sentence about users' centers that differ much, or ""."""
    aim = theory.AIMED_DISAGREEMENT
    if end.aimed and end.disagreement > _MISSED * aim:
        return (
            f" The users' centers differ by {end.disagreement:.1%} of the data's spread, where "
            + setting("rho", "'auto'")
            + f" aims at {aim:.0%}: give a larger "
            + mention("rho")
            + "."
        )
    if end.disagreement > 10 * aim:
        remedy = "more " + mention("rounds") + " bring"
        if end.rho is not None:
            remedy = "a larger " + mention("rho") + " brings"
        return (
            f" The users' centers still differ by {end.disagreement:.0%} of the data's spread: "
            + remedy
            + " them closer."
        )
    return ""


def _decide_out_of_rounds(end: Ending, more: str) -> Status:
    name, residual = "ran out of rounds", f"the residual is {end.residual:.2g}"
    if end.tol == 0:
        return Status(
            name, setting("tol", 0) + f" runs all {count(end.rounds, 'round')}; {residual}." + more
        )
    ended = f"{residual} after {count(end.rounds, 'round')}"
    if end.noisy:
        advice = f"the centers keep moving, so {end.tol:g} may be out of reach."
        if not end.spec.tolerates_noise:
            advice = f"this solver may end at a wrong point; use {PENALIZED_DEFAULT.name!r}."
        return Status(name, f"{ended}: with noisy or dropped messages {advice}" + more)
    coarse = ""
    if end.dtype in ("float32", "float16"):
        coarse = f"{end.dtype} may be too coarse for this " + mention("tol") + ", '8-bit' is not"
    if end.residual <= end.tol:
        return Status(
            name,
            f"{ended}, below {end.tol:g}, but the users had not yet agreed to stop. Allow a few"
            " more " + mention("rounds") + ("; " + coarse if coarse else "") + "." + more,
        )
    if not end.spec.penalized and end.rho is not None and end.disagreement > end.tol:
        return Status(
            name,
            f"users' centers differ by {end.disagreement:.2g} of the data's spread after"
            f" {count(end.rounds, 'round')}: allow more "
            + mention("rounds")
            + ", or if they do not come closer, a "
            + mention("rho")
            + f" above {end.rho:g}."
            + _describe_empty(end),
        )
    faster: str = (
        "; a smaller " + mention("rho") + " converges faster" if end.spec.penalized else ""
    )
    if coarse:
        faster = "; " + coarse
    above = f"{ended}, above " + setting("tol", f"{end.tol:g}") + ". Allow more "
    larger = mention("rounds") + ", or a larger " + mention("tol")
    return Status(name, above + larger + faster + "." + more)


def decide_peer_status(end: Ending, *, unheard: int, missing: Sequence[str]) -> Status:
    """Return how a run ended for a peer, whose component of the network has most of the peers.

    `unheard` peers of the component have not signed the record; the `missing` are not in it.
    """
    status = decide_status(end)
    if end.stopped and unheard:
        status = Status(
            "stopped",
            f"the peers stopped after {count(end.rounds, 'round')}, but {unheard} of them have"
            " not signed its record. Run again.",
        )
    if not missing:
        return status
    name = "converged without some peers" if status.converged else status.name
    without = f" Without {', '.join(missing)}; the events have the reasons."
    return Status(name, status.advice + without)


def partitioned(heard: Sequence[str], m: int) -> Status:
    """Return the status of a peer that hears at most half of the m peers: those of `heard`."""
    return Status(
        "partitioned",
        f"this peer hears only {', '.join(heard)} of {m} peers; others may be running without it,"
        " so this is no joint result. Repair the links and start again.",
    )


def joined_late(round_: int, status: Status, signers: int, m: int) -> Status:
    """Return the status of a peer that joined after the end, from that of the joint record."""
    name = "joined late" if status.name.startswith("converged") else "joined late, not converged"
    return Status(
        name,
        f"the run ended in round {round_} as {status.name!r} without this peer; the centers are the"
        f" mean ones, in the record that {signers} of {m} peers have signed.",
    )
