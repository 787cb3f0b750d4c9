"""The set-up that all sites do together before the first round, the same on every runtime.

A peer runs it over the network as a block of one user, a replay runs it on the simulator as a block
of all users; both end with the same bits. Nothing here depends on connections.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from peerclust.arrays import Array
from peerclust.clustering.auto_delta import choose_delta
from peerclust.clustering.problem import Problem, draw_seed
from peerclust.clustering.restarts import RunSettings, prepare_run
from peerclust.clustering.scaling import Scale, agree_on_scale, distributed_moments
from peerclust.clustering.solvers import SolverChoice, SolverRequest
from peerclust.errors import DataError
from peerclust.initialize import KMeansPlusPlus
from peerclust.peers.configuration import make_bounds, public_box, with_eigenvalues
from peerclust.peers.rows import Rows
from peerclust.peers.setup_validation import WEIGHT_ROUNDING
from peerclust.programs.consensus import Maximum
from peerclust.programs.limits import Limits
from peerclust.runtimes import run_program
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.messages import Agreed
from peerclust.runtimes.network.wire import TAG_BYTES
from peerclust.runtimes.protocol import Runtime
from peerclust.text import parameter
from peerclust.theory import Scales
from peerclust.users import Users

# Eigenvalues of a graph may differ by this fraction between machines.
_EIGENVALUES = 1e-6


def agree(
    contract: Contract,
    runtime: Runtime,
    rows: Rows,
    members: tuple[int, ...],
    lost: list[tuple[int, int]],
    processes: str,
) -> tuple[Agreed, Users, Array]:
    """Agree on scale, delta, rho, step and start; return these, the scaled users and their centers.

    Scale, delta, start, and rho with its pilot runs, are those of `cluster`.
    """
    plain = rows.users(contract)
    moments, _ = distributed_moments(runtime, plain)
    scale, _ = agree_on_scale(runtime, plain, contract.scale, moments)
    users, K, seed = rows.scaled(contract, scale), contract.n_clusters, draw_seed(contract.seed)
    users = users.with_bounds(make_bounds(contract, *public_box(contract, scale)))
    if contract.weights_column is None and contract.n_clusters > round(moments.weight):
        raise DataError(
            parameter("n_clusters", "the network file")
            + f" must be at most the number of rows of all sites, {round(moments.weight)}."
            f" Got {contract.n_clusters}."
        )
    eigenvalues = contract.graph.lambda_max.value, -runtime.distribution.graph.lambda_2.value
    W, lambda_max, lambda_2, low, high = _extremes(runtime, users, eigenvalues)
    if not W > 0:
        raise DataError("The rows of all sites together must have a weight above 0. Got 0.")
    if moments.weight * (1 + WEIGHT_ROUNDING) < W:
        raise DataError(
            f"A site has the total weight {W:g}, but all sites together have {moments.weight:g}:"
            " one of them reported a wrong number. The run cannot start."
        )
    bounds = make_bounds(contract, low, high, W)
    users = users.with_bounds(bounds)
    spread, delta = moments.spread_in(scale), 1.0
    if contract.delta == "auto":
        # A start of its own, which reveals no more than that of the run.
        delta, _ = choose_delta(
            runtime, users, K, seed=seed, spread=spread, mean_of=contract.mean_of
        )
        users = rows.scaled(contract, scale, delta).with_bounds(bounds)
    graph = with_eigenvalues(runtime.distribution.graph, lambda_max, lambda_2)
    problem = Problem(
        users=users,
        distribution=replace(runtime.distribution, graph=graph),
        runtime=runtime,
        K=K,
        seed=seed,
        scales=Scales(W=W, W_total=moments.weight, beta=users.smoothness, spread=spread),
    )
    ready = prepare_run(problem, _run_settings(contract), problem.seed)
    units = scale or Scale(np.zeros(users.d), np.ones(users.d))
    agreed = Agreed(
        members=list(members),
        lost=lost,
        mean=units.mean.tolist(),
        deviation=units.deviation.tolist(),
        low=low.tolist(),
        high=high.tolist(),
        spread=spread,
        weight=moments.weight,
        W=W,
        delta=delta,
        rho=1.0 if ready.tuned.rho is None else ready.tuned.rho,
        alpha=ready.tuned.alpha or 0.0,
        curvature=ready.curvature.mean.tolist(),
        evenness=ready.curvature.evenness.tolist(),
        lambda_max=lambda_max,
        lambda_2=lambda_2,
        processes=processes,
    )
    return agreed, users, ready.x


def _run_settings(contract: Contract) -> RunSettings:
    """Return the settings of `cluster` that correspond to the network file's."""
    spec = contract.spec
    return RunSettings(
        request=SolverRequest(
            spec, rho=contract.rho, alpha="auto", B=contract.B, consensus_factor=1.0
        ),
        chosen=SolverChoice(spec, "agreed"),
        start=KMeansPlusPlus(mean_of=contract.mean_of),
        format=None,
        rounds=contract.rounds,
        tol=contract.tol,
        search=contract.searches,
        trace=False,
        progress=None,
    )


def agree_to_resume(
    contract: Contract, runtime: Runtime, users: Users, run: bytes | None, round_: int
) -> int | None:
    """Return the latest round of all checkpoints if every site has one of the same run, else None.

    `run` and `round_` are those of this site's checkpoint; `run` is None if it has none.
    """
    own = np.full((users.m, 1, 2 * TAG_BYTES + 2), -np.inf)
    own[:, 0, 0] = run is None
    if run is not None:
        tag = np.frombuffer(run, np.uint8).astype(np.float64)
        # All tags are equal if the maximum of each byte equals the minimum.
        own[:, 0, 1:] = np.concatenate([tag, -tag, [round_]])
    lacking, *agreed = run_program(runtime, Maximum(), users, own, rounds=1).states[0].x[0, 0]
    largest, smallest = np.array(agreed[:TAG_BYTES]), -np.array(agreed[TAG_BYTES:-1])
    same = not lacking and np.array_equal(largest, smallest)
    return int(agreed[-1]) if same and 0 <= agreed[-1] <= contract.max_round else None


def _extremes(
    runtime: Runtime, users: Users, eigenvalues: tuple[float, float]
) -> tuple[float, float, float, Array, Array]:
    """Agree on the largest total weight of a site, lambda_max(L), lambda_2(L) and the rows' box.

    `eigenvalues` are lambda_max of the whole network, which bounds that of any living part, and
    minus lambda_2 of the living part. On another machine they may differ in the last bits. A box
    that is public is not exchanged.
    """
    bounds, known = users.bounds, np.array(eigenvalues)
    assert bounds is not None
    assert bounds.weight is not None
    public, slack = bool(np.isfinite(bounds.low).all()), _EIGENVALUES * np.abs(known)
    own = np.full((users.m, 1, 3 if public else 3 + 2 * users.d), -np.inf)
    own[:, 0, 0] = users.total_weights
    own[:, 0, 1:3] = known
    if not public:
        low, high = users.ranges
        own[:, 0, 3:] = np.column_stack([high, -low])
    limits = Limits.of(
        ("total weight", 1, 0.0, bounds.weight),
        ("graph eigenvalue", 2, known - slack, known + slack),
        ("extreme value", own.shape[2] - 3, -np.inf, np.inf),
    )
    program = Maximum(limits)
    agreed = run_program(runtime, program, users, own, rounds=1).states[0].x[0, 0]
    high, low = (bounds.high, -bounds.low) if public else np.split(agreed[3:], 2)
    return float(agreed[0]), float(agreed[1]), -float(agreed[2]), -low, high
