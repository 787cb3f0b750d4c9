"""`cluster`: the function that runs a solver's program on a runtime."""

from __future__ import annotations

import os
from dataclasses import replace
from numbers import Integral

from peerclust import distances, initialize, losses, runtimes
from peerclust.clustering import message_format
from peerclust.clustering.checkpoint import Checkpoint, Journal
from peerclust.clustering.problem import Problem, prepare
from peerclust.clustering.progress import OnProgress, check_progress, reporting
from peerclust.clustering.restarts import RunSettings, run_restarts, select_best
from peerclust.clustering.solution import Solution
from peerclust.clustering.solvers import SolverRequest, choose
from peerclust.distances import Distance
from peerclust.errors import ParameterError
from peerclust.losses import Loss
from peerclust.programs.solver_spec import ProgramFactory, SolverSpec
from peerclust.ranks.fingerprint import check_same, digest, fingerprint
from peerclust.ranks.group import ProcessGroup
from peerclust.sparse import arrays_of
from peerclust.text import mention, parameter, setting, show
from peerclust.validation import RandomState, check_count, check_name, check_number


def cluster(
    parts: object,
    *,
    n_clusters: int,
    graph: object = "auto",
    loss: str | Loss = "kmeans",
    distance: str | Distance = "euclidean",
    solver: str | SolverSpec | ProgramFactory = "auto",
    rho: float | str = "auto",
    alpha: float | str = "auto",
    B: int = 1,
    rounds: int = 1000,
    tol: float = 1e-6,
    init: object = "k-means++",
    n_init: int | str = "auto",
    search: str = "auto",
    weights: object = "unit",
    scale: str = "none",
    ranges: object = None,
    consensus_factor: float | str = 1.0,
    exchange: object = "float64",
    runtime: object = "simulator",
    random_state: RandomState = None,
    trace: bool = False,
    progress: bool | OnProgress | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    gather: bool = True,
) -> Solution:
    """Cluster data that lives with many users, without pooling it.

    Each user keeps its rows and talks with its neighbors on a graph. By default all users end with
    the same centers, which minimize the clustering cost of all rows together, and a search replaces
    a local optimum by a better one. The solvers "dgc", Algorithm 1 of the paper, and "accelerated"
    minimize J_rho(x, C) = 1/rho sum of w f(x_i(k), y) + c/2 <x, L x> (eq. distributed-gen) instead:
    in their rounds users send each other center estimates only. docs/how-to-choose.md compares the
    solvers.

    Parameters
    ----------
    parts : list of (N_i, d) arrays, (rows, offsets), or dict
        The users' rows. A list is copied once into flat form. Flat rows are never copied: user i
        has rows[offsets[i]:offsets[i+1]]. Users may differ in size and may be empty. Rows may be
        sparse arrays of scipy, which are never made dense as a whole. With MPI each rank reads only
        its own users' rows (memory maps are supported), or passes a dict of them, keyed by the
        user's number; these must be dense.
    n_clusters : int
        K.
    graph : str, Graph or networkx graph
        Communication graph: "auto", "ring", "path", "star", "complete", "grid", "exponential", or
        see `peerclust.graphs`. "auto" is complete up to 16 users, and exponential above.
    loss : str or object
        "kmeans", "huber", "logistic", "fair", a loss such as Huber(delta=5), a Bregman loss, or an
        object with value(r2), gamma(r2) and smoothness. For Huber(delta="auto") the users choose
        delta from their rows (see `clustering.auto_delta`); `solution.loss` has it.
    distance : "euclidean" or Mahalanobis(A)
        A Bregman loss is its own distance.
    solver : str, SolverSpec or callable
        "accelerated" and "dgc" minimize J_rho. "admm" and "group-lasso" find common centers, a
        solution of the pooled problem. So does "exact", which sends per-cluster sums and counts.
        "auto" is "exact", or "accelerated" where an option is given that "exact" lacks: `rho`,
        `alpha`, `B`, `consensus_factor`, `exchange` or a Bregman loss. Or a `SolverSpec`, or a
        callable (rho, alpha, B, consensus_factor) that returns a custom program.
    rho : float > 0 or "auto"
        Consensus penalty; larger means users' centers are closer. "auto" measures their
        disagreement at small values of rho and chooses the rho that brings it to 1 % of the data's
        spread; the run continues from those centers. For "group-lasso" it bounds the gradient of
        each link, and "auto" is enough for consensus.
    alpha : float > 0, "auto" or "paper"
        Step size: "auto" is 0.99 of the largest that is proved to converge, and for "accelerated" a
        step of its own for each user and center; "paper" is that of the paper's experiments.
    B : int
        Center updates, and thus exchanges, per round.
    rounds : int
        Maximum number of rounds of a run. Pilot runs of rho="auto" and the runs of a search are
        counted apart.
    tol : float
        Stop once every user's residual is below this (see `Certificate.residual`); 0 never stops.
    init : str, array or object
        "k-means++", "k-means++-local", "random", centers (K, d) or (m, K, d), or see
        `peerclust.initialize`.
    n_init : int or "auto"
        Number of restarts; the one with the lowest pooled cost is used. "auto" is 1 where a search
        follows, and otherwise 10 if the start is random rows, 1 if it is not.
    search : "auto", "swaps" or "none"
        Whether to look for a better optimum by moving centers, one at a time, from where their
        removal costs least to where the cost is highest (`clustering.search`). "auto" does so where
        the start is drawn, unless `tol` is 0; not where centers or classes are given.
    weights : "unit", "normalized" or list of arrays
        1 for each row, 1/N for each row, or given: nonnegative, in the form of the parts.
    scale : "none", "standard" or "robust"
        The users agree on units for each feature over all rows (see `clustering.scaling`), and
        cluster in these: "standard" is its mean and standard deviation, "robust" its median and
        interquartile range. The loss, a Mahalanobis distance, the certificate and the trace are in
        these units, too. `init` and the resulting centers are in the rows' own units.
    ranges : list of (low, high), optional
        A range of each feature that is public, in the rows' own units. Rows outside are an error.
        Users then exchange nothing about the box of their rows, which the solver "exact" needs; its
        extreme values are those of single rows.
    consensus_factor : float or "1-1/rho"
        The factor c.
    exchange : "float64", "float32", "float16", "8-bit" or dict
        Number format of messages; a dict may also have `noise`, `drop`, `gradient_noise` and `seed`
        (see `programs.lossy`). Not for the solver "exact".
    runtime : "simulator", "loopback" or "mpi"
        All return the same centers to the last bit. With "mpi" every rank of the job calls
        `cluster` with the same arguments; pass `runtimes.mpi.MPIGroup(comm)` to use the ranks of
        one communicator.
    random_state : None, int or numpy Generator
        The same seed gives the same result on every runtime.
    trace : bool
        Whether to record cost, disagreement and changed labels of every round.
    progress : bool or callable, optional
        True shows the progress on stderr. A callable is called after each round with (round,
        largest residual); the round is 0 during the pilot runs of rho="auto", and counts from 1
        again in each run of a search. With MPI only rank 0's is called, after every tenth round.
    checkpoint : path or Checkpoint, optional
        Folder for checkpoints, written every 100 rounds. `Checkpoint(folder, every=...,
        resume=True)` resumes from there, with the same result to the last bit.
    gather : bool
        With MPI, whether all ranks get the whole solution, or each only its own users' part.

    Returns
    -------
    Solution

    Examples
    --------
    >>> import peerclust as pc
    >>> rows, classes = pc.datasets.iris()
    >>> users = pc.partition.homogeneous(classes, 10, random_state=0)
    >>> solution = pc.cluster([rows[i] for i in users], n_clusters=3, loss="huber", rho=10,
    ...                       random_state=0)
    >>> solution.centers.shape, solution.consensus.shape
    ((10, 3, 4), (3, 4))
    """
    given = dict(locals())
    group = runtimes.process_group(runtime)
    with group.abort_on_failure():
        # Check: all ranks the same arguments, then each argument.
        if group.size > 1:
            _check_same_arguments(group, given)
        with group.raise_on_all():
            _check_choice(rho, ("auto",), "rho", above=0)
            _check_choice(alpha, ("auto", "paper"), "alpha", above=0)
            _check_choice(consensus_factor, ("1-1/rho",), "consensus_factor", above=0)
            _check_consensus_factor(consensus_factor, rho)
            check_count(B, "B", "cluster")
            check_count(rounds, "rounds", "cluster")
            check_progress(progress)
            check_name(search, ("auto", "swaps", "none"), "search", "cluster")
            check_number(tol, "tol", "cluster", at_least=0)
            f, metric = losses.resolve(loss), distances.resolve(distance)
            request = SolverRequest(solver, rho, alpha, B, consensus_factor)
            plain = isinstance(exchange, str) and exchange == "float64"
            chosen = choose(request, f, metric, full_precision=plain)
            format_ = None if plain else message_format.resolve(exchange, chosen.spec)
            start = initialize.resolve(init)
            searched = _choose_search(search, start, tol)
            restarts = _choose_restarts(n_init, start, searched)
        # Prepare: users on a graph, and a runtime that delivers their messages.
        problem = prepare(
            parts,
            n_clusters=n_clusters,
            graph=graph,
            loss=f,
            distance=metric,
            weights=weights,
            scale=scale,
            ranges=ranges,
            runtime=runtime,
            random_state=random_state,
            mean_of=start.mean_of if isinstance(start, initialize.KMeansPlusPlus) else 1,
        )
        if checkpoint is not None:
            problem = replace(problem, journal=_open_journal(checkpoint, problem, given))
        # Run, and judge: the best run, its certificate and its status.
        with reporting(progress, rounds, group) as report:
            settings = RunSettings(
                request, chosen, start, format_, rounds, tol, searched, trace, report
            )
            runs = run_restarts(problem, settings, restarts)
            solution = select_best(problem, settings, runs)
        if problem.journal is not None:
            problem.journal.finish()
        if gather and solution.part is not None:
            solution = solution.gathered(problem.distribution)
        problem.runtime.close()
        return solution


def _check_same_arguments(group: ProcessGroup, given: dict[str, object]) -> None:
    """Raise if the ranks' arguments of `cluster` differ where they must not.

    `prepare` compares some of them once they are resolved; others may differ.
    """
    excluded = {"n_clusters", "graph", "loss", "distance", "scale", "weights"}
    excluded |= {"parts", "runtime", "progress", "random_state"}
    common = {name: value for name, value in given.items() if name not in excluded}
    check_same(group, common, "cluster")


def _open_journal(checkpoint: object, problem: Problem, given: dict[str, object]) -> Journal:
    """Return the journal for the arguments of `cluster`."""
    if isinstance(checkpoint, str | os.PathLike):
        checkpoint = Checkpoint(checkpoint)
    if not isinstance(checkpoint, Checkpoint):
        raise ParameterError(
            parameter("checkpoint", "cluster")
            + f" must be a folder or a Checkpoint. Got {show(checkpoint)}."
        )
    if given["random_state"] is None:
        raise ParameterError(
            parameter("random_state", "cluster")
            + " must be given with "
            + mention("checkpoint")
            + ", so that a run can be"
            " resumed. Got None."
        )
    excluded = ("parts", "weights", "progress", "checkpoint", "gather")
    given = given | {"graph": problem.graph, "random_state": problem.seed}
    runtime = given["runtime"]
    given["runtime"] = runtime if isinstance(runtime, str) else type(problem.runtime).__name__
    identity = {name: fingerprint(value) for name, value in given.items() if name not in excluded}
    users = problem.users
    own = digest([*arrays_of(users.rows), users.offsets, users.weights])
    return Journal(checkpoint, problem.distribution.group, identity=identity, own=own)


def _choose_search(search: str, start: initialize.Start, tol: float) -> bool:
    """Return whether to search for a better optimum."""
    if search == "swaps" and tol == 0:
        raise ParameterError(
            parameter("search", "cluster")
            + " must be 'auto' or 'none' with "
            + setting("tol", 0)
            + ", because moves begin where a run has converged. Got 'swaps'."
        )
    given = isinstance(start, initialize.Given | initialize.Warm)
    return search == "swaps" or (search == "auto" and tol > 0 and not given)


def _choose_restarts(n_init: int | str, start: initialize.Start, searched: bool) -> int:
    """Return the number of restarts; "auto" follows scikit-learn where no search follows."""
    if isinstance(n_init, Integral) and not isinstance(n_init, bool) and n_init >= 1:
        return int(n_init)
    check_name(n_init, ("auto",), "n_init", "cluster", other="a whole number >= 1")
    return 10 if isinstance(start, initialize.Random) and not searched else 1


def _check_consensus_factor(consensus_factor: float | str, rho: float | str) -> None:
    if consensus_factor == "1-1/rho" and not isinstance(rho, str) and rho <= 1:
        raise ParameterError(
            parameter("rho", "cluster")
            + " must be a number > 1 with "
            + setting("consensus_factor", "'1-1/rho'")
            + f". Got {show(rho)}."
        )


def _check_choice(value: float | str, choices: tuple[str, ...], name: str, **limits: float) -> None:
    if not (isinstance(value, str) and value in choices):
        check_number(value, name, "cluster", names=choices, **limits)
