"""The setup that all sites do together before the first round, the same on every runtime.

A peer runs it over the network as a block of one user, a replay runs it on the simulator as a block
of all users; both end with the same bits. Nothing here depends on connections.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array
from peerclust.clustering.auto_delta import choose_delta
from peerclust.clustering.problem import Problem, draw_seed
from peerclust.clustering.restarts import RunSettings, prepare_run
from peerclust.clustering.scaling import Scale, agree_on_scale, distributed_moments
from peerclust.clustering.solvers import SolverChoice, SolverRequest
from peerclust.errors import DataError, SiteDataError
from peerclust.graphs import Graph
from peerclust.graphs.graph import Known
from peerclust.initialize import KMeansPlusPlus
from peerclust.programs.consensus import Maximum
from peerclust.programs.limits import Limits
from peerclust.runtimes import run_program
from peerclust.runtimes.network.collectives import active_graph
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.contract_validation import LARGEST
from peerclust.runtimes.network.messages import Agreed
from peerclust.runtimes.network.wire import TAG_BYTES
from peerclust.runtimes.protocol import Runtime
from peerclust.tables import Table
from peerclust.text import parameter, shorten, show
from peerclust.theory import Curvature, Scales
from peerclust.users import Users
from peerclust.users.public_bounds import PublicBounds

# The total weight of all sites may be rounded by this fraction of it.
_ROUNDING = 1e-9

# Centers may leave the box of the data by this fraction of its width, for rounding.
_BOX_ROUNDING = 1e-6

# Eigenvalues of a graph may differ by this fraction between machines.
_EIGENVALUES = 1e-6


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of some sites, as in their files: rows (N, d), offsets, weights, peers' numbers.

    `private_seeds` are those of the sites, by number.
    """

    rows: Array
    offsets: NDArray[np.int64]
    weights: Array | float
    numbers: tuple[int, ...]
    private_seeds: Mapping[int, bytes] = field(default_factory=dict)

    @cached_property
    def digest(self) -> bytes:
        """The SHA-256 of rows and weights."""
        data = hashlib.sha256(np.ascontiguousarray(self.rows).data)
        data.update(np.ascontiguousarray(self.weights).data)
        return data.digest()

    def users(self, contract: Contract, agreed: Agreed | None = None) -> Users:
        """Return the users of these rows, in the agreed scale and with the agreed loss, if any."""
        if agreed is None:
            return self.scaled(contract, None).with_bounds(make_bounds(contract, *_box(contract)))
        users = self.scaled(contract, make_scale(contract, agreed), agreed.delta)
        low, high = np.array(agreed.low), np.array(agreed.high)
        return users.with_bounds(make_bounds(contract, low, high, agreed.W))

    def scaled(self, contract: Contract, scale: Scale | None, delta: float = 1.0) -> Users:
        """Return the users of these rows, scaled or not; `delta` is what "auto" stands for."""
        return Users(
            self.rows if scale is None else np.asarray(scale.forward(self.rows), np.float64),
            self.offsets,
            weights=self.weights,
            loss=contract.make_loss(delta),
            distance=contract.make_distance(),
            ids=self.numbers,
            private_seeds=self.private_seeds,
        )


def agree(
    contract: Contract,
    runtime: Runtime,
    rows: Rows,
    members: tuple[int, ...],
    lost: list[tuple[int, int]],
    processes: str,
) -> tuple[Agreed, Users, Array]:
    """Agree on scale, delta, rho, step and start; return all of it, scaled users and their centers.

    Scale, delta, start, and rho with its pilot runs, are those of `cluster`.
    """
    plain = rows.users(contract)
    moments, _ = distributed_moments(runtime, plain)
    scale, _ = agree_on_scale(runtime, plain, contract.scale, moments)
    users, K, seed = rows.scaled(contract, scale), contract.n_clusters, draw_seed(contract.seed)
    users = users.with_bounds(make_bounds(contract, *_box(contract, scale)))
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
    if moments.weight * (1 + _ROUNDING) < W:
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
    graph = _known_graph(runtime.distribution.graph, lambda_max, lambda_2)
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


def check_public_bounds(contract: Contract, table: Table) -> None:
    """Raise if rows of a site's file violate what the network file says about all sites."""
    if table.rows.size and np.abs(table.rows).max() > LARGEST:
        rule = f"must have no numbers above {LARGEST:g} in magnitude"
        raise SiteDataError(f"The rows of {table.files[0]} {rule}.", f"rows {rule}")
    for j, name in enumerate(contract.features if contract.ranges else ()):
        assert contract.ranges is not None
        (low, high), values = contract.ranges[j], table.rows[:, j]
        outside = np.flatnonzero((values < low) | (values > high))
        if len(outside):
            at = shorten([f"{values[i]:g} in row {table.row[i]}" for i in outside])
            rule = f"must lie in its range of the network file, {low:g} to {high:g}"
            raise SiteDataError(
                f"Column {show(name)} of {table.files[0]} {rule}. Got {at}.",
                f"column {show(name)} {rule}",
            )
    total = float(len(table.rows) if table.weights is None else table.weights.sum())
    if total > contract.max_weight:
        most = f"at most {contract.max_weight:g}"
        what = f"{most} rows" if table.weights is None else f"a total weight of {most}"
        rule = f"must have {what}, the max_weight of the network file"
        raise SiteDataError(
            f"{table.files[0]} {rule}. Got {total:g}; all sites need one with a larger max_weight.",
            f"it {rule}",
        )


def refuse_agreed(contract: Contract, agreed: Agreed) -> str:
    """Return why this cannot be what sites agreed on, by what is public; or ""."""
    m, beta = len(agreed.members), contract.make_loss(agreed.delta).smoothness
    H = beta * contract.make_distance().largest * agreed.W * (1 + _ROUNDING)
    if contract.max_weight * (1 + _ROUNDING) < agreed.W:
        return f"the total weight {agreed.W:g} of a site, above max_weight"
    if not agreed.W / (1 + _ROUNDING) <= agreed.weight <= m * agreed.W * (1 + _ROUNDING):
        return f"the total weight {agreed.weight:g} of {m} sites of at most {agreed.W:g}"
    if max(agreed.curvature) > H or max(agreed.evenness) > 1:
        return "curvatures that no rows have"
    low, high = _box(contract, make_scale(contract, agreed))
    if contract.ranges is not None and (agreed.low, agreed.high) != (low.tolist(), high.tolist()):
        return "a box other than the ranges"
    diagonal = float(np.linalg.norm(np.array(agreed.high) - np.array(agreed.low)))
    width = np.ptp(contract.ranges, axis=1) if contract.ranges else np.inf
    # The unit of a constant feature is 1; of others at most its range.
    far = (np.array(agreed.deviation) > np.maximum(width, 1.0)).any()
    outside = contract.scale != "none" and not ((low <= 0) & (high >= 0)).all()
    if far or outside or (diagonal > 0 and agreed.spread > diagonal):
        return "a mean, deviation or spread that no rows in the ranges have"
    return ""


def make_bounds(contract: Contract, low: Array, high: Array, W: float = np.inf) -> PublicBounds:
    """Return the bounds of rows in the box from low to high, by which claims are checked.

    `W` is the largest total weight of a site, once all have agreed on it.
    """
    condition = 1.0 if contract.matrix is None else float(np.linalg.cond(contract.matrix))
    # Dither and rounding carry numbers a little further than centers go; one width is generous.
    lossy = contract.exchange != "float64"
    overshoot = contract.spec.max_overshoot(condition) + lossy + _BOX_ROUNDING
    return PublicBounds(low, high, min(contract.max_weight, W), overshoot)


def _box(contract: Contract, scale: Scale | None = None) -> tuple[Array, Array]:
    """Return the public ranges, in a scale; infinite without any."""
    if contract.ranges is None:
        infinite = np.full(len(contract.features), np.inf)
        return -infinite, infinite
    low, high = np.array(contract.ranges).T
    return (low, high) if scale is None else (scale.forward(low), scale.forward(high))


def _known_graph(graph: Graph, lambda_max: float, lambda_2: float) -> Graph:
    """Return the graph with these eigenvalues: other machines may compute others."""
    return replace(graph, known=Known(lambda_max, lambda_2, int(graph.diameter.value)))


def agreed_graph(contract: Contract, agreed: Agreed) -> Graph:
    """Return the graph of the sites that agreed, with the eigenvalues that they agreed on."""
    graph = active_graph(contract.graph, tuple(agreed.members), agreed.lost)
    return _known_graph(graph, agreed.lambda_max, agreed.lambda_2)


def agreed_curvature(agreed: Agreed) -> Curvature:
    """Return the curvature that all sites agreed on, without a site's own."""
    mean = np.array(agreed.curvature)
    return Curvature(np.empty((0, len(mean))), mean, np.array(agreed.evenness))


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


def make_scale(contract: Contract, agreed: Agreed) -> Scale | None:
    """Return the agreed scale, None without scaling."""
    if contract.scale == "none":
        return None
    return Scale(np.array(agreed.mean), np.array(agreed.deviation))


def join_rows(parts: Sequence[Rows]) -> Rows:
    """Return the rows of several sites as one block."""
    sizes = [len(part.rows) for part in parts]
    weights: Array | float = 1.0
    if not all(isinstance(part.weights, float) for part in parts):
        weights = np.concatenate([np.broadcast_to(p.weights, len(p.rows)) for p in parts])
    return Rows(
        np.concatenate([part.rows for part in parts]),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        weights,
        tuple(number for part in parts for number in part.numbers),
        {number: seed for part in parts for number, seed in part.private_seeds.items()},
    )


def check_fits(agreed: Agreed, users: Users) -> None:
    """Raise if rows that were not part of the setup do not fit what was agreed."""
    W = float(users.total_weights.max())
    if W > agreed.W:
        raise SiteDataError(
            f"The rows have the total weight {W:g}, and the step that the others agreed on without"
            f" this peer is safe up to {agreed.W:g}; it can take part only if all start again.",
            "its rows do not fit what the others agreed on without it",
        )
    if len(users.rows) and (
        (users.rows < np.array(agreed.low)).any() or (users.rows > np.array(agreed.high)).any()
    ):
        raise SiteDataError(
            "Some rows lie outside the box of the data that the others agreed on without this"
            " peer; it can take part only if all start again.",
            "its rows do not fit what the others agreed on without it",
        )


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
