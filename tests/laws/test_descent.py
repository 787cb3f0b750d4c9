"""The paper's lemmas and theorems, each as a law that runs of the library must keep.

The cost J_rho, its gradient, its Hessian and its fixed points are computed here from the paper's
formulas and a dense Laplacian; from the library come only the runs.
"""

import itertools
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import peerclust as pc
from instances import BREGMANS, DISTANCES, GRAPHS, LOSSES, WEIGHTS, spd
from peerclust.losses import Fair, Huber, KMeans, Logistic
from peerclust.runtimes import RUNTIMES, Simulator
from peerclust.runtimes.protocol import Traffic

EUCLIDEAN = DISTANCES[0]


# --- The paper's formulas ------------------------------------------------------------------------


def h(loss, r2):
    """f(x, y) as a function of the squared distance (Examples 1-4)."""
    if isinstance(loss, KMeans):
        return r2 / 2
    if isinstance(loss, Huber):
        r = np.sqrt(r2)
        return np.where(r <= loss.delta, r2 / 2, loss.delta * r - loss.delta**2 / 2)
    if isinstance(loss, Logistic):
        return np.log1p(np.exp(-r2)) + r2
    if isinstance(loss, Fair):
        return 2 * loss.eta**2 * (r2 / loss.eta - np.log1p(r2 / loss.eta))
    return loss.value(r2)  # a loss of the user's own says itself what it is


def gamma(loss, r2):
    """grad f = gamma (x - y) (lm:asmpt-satisfied)."""
    if isinstance(loss, KMeans):
        return np.ones_like(r2)
    if isinstance(loss, Huber):
        return loss.delta / np.sqrt(np.maximum(r2, loss.delta**2))
    if isinstance(loss, Logistic):
        return 2 / (1 + np.exp(-r2))
    if isinstance(loss, Fair):
        return 4 * loss.eta * (1 - loss.eta / (loss.eta + r2))
    return loss.gamma(r2)


def gamma_slope(loss, r2):
    """d gamma / d r^2, so that the Hessian of f is gamma I + 2 gamma' (x - y)(x - y)'."""
    if isinstance(loss, Huber):
        far = np.maximum(r2, loss.delta**2)
        return np.where(r2 <= loss.delta**2, 0.0, -loss.delta / (2 * far**1.5))
    if isinstance(loss, Logistic):
        return 2 * np.exp(-r2) / (1 + np.exp(-r2)) ** 2
    if isinstance(loss, Fair):
        return 4 * loss.eta**2 / (loss.eta + r2) ** 2
    return np.zeros_like(r2)


@dataclass(frozen=True)
class Problem:
    """Rows with their owners and weights, a graph, and what is minimized over them.

    `A` is the matrix of a Mahalanobis distance or of psi(x) = x'Ax/2; `kl` stands for the
    generalized Kullback-Leibler divergence.
    """

    parts: list[Any]
    weights: list[Any]
    graph: pc.Graph
    loss: Any
    A: Any
    kl: bool = False
    distance: Any = "euclidean"
    K: int = 3
    c: Any = 1.0

    @property
    def rows(self):
        return np.concatenate(self.parts)

    @property
    def owner(self):
        return np.repeat(np.arange(len(self.parts)), [len(part) for part in self.parts])

    @property
    def w(self):
        return np.concatenate(self.weights)

    @property
    def L(self):
        L = np.zeros((self.graph.m, self.graph.m))
        for i in range(self.graph.m):
            for j in self.graph.neighbors(i):
                L[i, i] += 1
                L[i, j] -= 1
        return L

    def factor(self, rho):
        return 1 - 1 / rho if self.c == "1-1/rho" else self.c

    def losses(self, x):
        """f(x_i(k), y) of each row and each of its user's centers, (N, K)."""
        y, z = self.rows[:, None], x[self.owner]
        if self.kl:
            return (y * np.log(y / z) - y + z).sum(axis=2)
        r2 = np.einsum("nka,ab,nkb->nk", z - y, self.A, z - y)
        return r2 / 2 if isinstance(self.loss, pc.Bregman) else h(self.loss, r2)

    def consensus(self, x):
        """<x, L x> as the sum over pairs of -L_ij ||x_i - x_j||^2, which does not cancel."""
        apart = ((x[:, None] - x[None]) ** 2).sum(axis=(2, 3))
        return -0.5 * (self.L * apart).sum()

    def cost(self, x, labels, rho):
        """J_rho (eq. distributed-gen)."""
        own = self.losses(x)[np.arange(len(labels)), labels]
        return (self.w * own).sum() / rho + self.factor(rho) / 2 * self.consensus(x)

    def pulls(self, x, labels):
        """w grad f of each row at its own center, (N, d)."""
        y, z = self.rows, x[self.owner, labels]
        if self.kl:
            return self.w[:, None] * (1 - y / z)
        r2 = np.einsum("na,ab,nb->n", z - y, self.A, z - y)
        g = np.ones_like(r2) if isinstance(self.loss, pc.Bregman) else gamma(self.loss, r2)
        return (self.w * g)[:, None] * ((z - y) @ self.A)

    def gradient(self, x, labels, rho):
        """The gradient of J_rho in x, (m, K, d)."""
        pull = np.zeros_like(x)
        np.add.at(pull, (self.owner, labels), self.pulls(x, labels))
        # (L x)_i as the sum over j of -L_ij (x_i - x_j), which does not cancel
        apart = -np.einsum("ij,ijkd->ikd", self.L, x[:, None] - x[None])
        return pull / rho + self.factor(rho) * apart

    def pooled_gradient(self, centers):
        """The gradient of the pooled cost at common centers (K, d), all rows assigned to them."""
        x = np.repeat(centers[None], self.graph.m, axis=0)
        labels = self.labels(x)
        pull = np.zeros_like(centers)
        np.add.at(pull, labels, self.pulls(x, labels))
        return pull

    def labels(self, x):
        return self.losses(x).argmin(axis=1)

    @property
    def spread(self):
        mean = np.average(self.rows, axis=0, weights=self.w)
        return np.sqrt(np.average(((self.rows - mean) ** 2).sum(axis=1), weights=self.w))

    def run(self, *, init, rho, seen=None, solver="dgc", **options):
        """Run the library's `cluster`; `seen` gets (x, labels) after each round."""
        return pc.cluster(
            self.parts,
            n_clusters=self.K,
            graph=self.graph,
            loss=self.loss,
            distance=self.distance,
            weights=self.weights,
            consensus_factor=self.c,
            solver=solver,
            rho=rho,
            init=init,
            runtime="simulator" if seen is None else watched(seen),
            **options,
        )


def watched(seen):
    """A simulator that keeps the centers and labels after each round."""

    class Watched(Simulator):
        def run(self, *args, **options):
            def look(states, blocks):
                seen.append((states[0].x.copy(), blocks[0].labels.copy()))

            return super().run(*args, **options | {"watch": look})

    return Watched


def problem(
    rng, *, loss=None, distance=EUCLIDEAN, breg=None, graph=GRAPHS[0], m=6, d=2, K=3, N=36,
    weights=WEIGHTS[0], c=1.0, spread=2.0,
):  # fmt: skip
    """Random blobs, dealt to the users at random: some may have few rows or none."""
    centers = rng.uniform(-spread, spread, (K, d))
    rows = centers[np.arange(N) % K] + rng.normal(size=(N, d))
    if breg is not None:
        rows = 1 + 2 * (rows - rows.min()) / np.ptp(rows)  # in [1, 3], the domain of all of them
    owner = np.sort(rng.integers(m, size=N))
    w = np.broadcast_to(weights(N), N).astype(float)
    A = getattr(distance(d), "A", np.eye(d))
    kl = "kl" in repr(breg)
    if breg is not None:
        loss = breg(d)
        A = spd(d) if "mahalanobis" in repr(breg) else A
        # Centers stay in the box of the rows, [1, 3], where the curvature y / x^2 is at most 3.
        loss = replace(loss, smoothness=3.0) if kl else loss
    return Problem(
        parts=[rows[owner == i] for i in range(m)],
        weights=[w[owner == i] for i in range(m)],
        graph=graph(m),
        loss=loss,
        A=A,
        kl=kl,
        distance=distance(d),
        K=K,
        c=c,
    )


def start(rng, p, outside=0.0):
    """A start of each user's own, within the box of the rows or beyond it."""
    low, high = p.rows.min(axis=0), p.rows.max(axis=0)
    x = rng.uniform(size=(p.graph.m, p.K, p.rows.shape[1]))
    return low + (high - low) * ((1 + 2 * outside) * x - outside)


# Every loss with every distance, by name.
CASES = {
    f"{loss}-{distance}": {"loss": loss, "distance": distance}
    for loss, distance in itertools.product(LOSSES, DISTANCES)
} | {repr(breg): {"breg": breg} for breg in BREGMANS}
every_loss = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


# --- lm:decr -------------------------------------------------------------------------------------

# Rounds for each loss and distance, such that there are 10,000 in all.
LAW_ROUNDS = -(-10_000 // len(CASES))


@every_loss
def test_the_cost_never_rises_with_the_automatic_step(case):
    rng = np.random.default_rng(20)
    settings = itertools.cycle(itertools.product(GRAPHS, (1, 2, 4)))
    done, rises = 0, []
    while done < LAW_ROUNDS:
        graph, B = next(settings)
        p = problem(
            rng,
            **case,
            graph=graph,
            m=int(rng.integers(4, 9)),
            d=int(rng.integers(1, 4)),
            K=int(rng.integers(2, 5)),
            c=[0.5, 1.0, 2.0, "1-1/rho"][rng.integers(4)],
            weights=WEIGHTS[rng.integers(len(WEIGHTS))],
        )
        rho = float(10 ** rng.uniform(0, 4)) if rng.random() < 0.9 else 1.0
        x = start(rng, p, outside=0.0 if p.kl else rng.choice([0.0, 1.0]))
        seen = []
        p.run(init=x, rho=rho, B=B, rounds=9, tol=0, seen=seen, random_state=0)
        cost = np.inf
        for x_next, labels in seen:
            best = p.losses(x).min(axis=1)
            assigned = p.cost(x, labels, rho)
            updated = p.cost(x_next, labels, rho)
            least = (p.w * best).sum() / rho + p.factor(rho) / 2 * p.consensus(x)
            assert assigned <= least * (1 + 1e-12)  # no assignment is better
            for name, old, new in [("assign", cost, assigned), ("update", assigned, updated)]:
                if not new <= old * (1 + 1e-12):
                    rises.append((name, repr(graph), B, rho, p.c, old, new))
            x, cost = x_next, updated
            done += 1
    assert not rises, f"{len(rises)} rises in {done} rounds, the first: {rises[0]}"


@every_loss
def test_an_update_is_a_step_along_the_numerical_gradient_of_the_cost(case):
    rng = np.random.default_rng(21)
    for graph, c in zip(GRAPHS, itertools.cycle((1.0, 0.5, "1-1/rho")), strict=False):
        p = problem(rng, **case, graph=graph, weights=WEIGHTS[2], c=c)
        rho, alpha, seen = 5.0, 1e-3, []
        x = start(rng, p)
        p.run(init=x, rho=rho, alpha=alpha, rounds=1, tol=0, seen=seen, random_state=0)
        ((after, labels),) = seen
        slope = np.empty_like(x)
        for at in np.ndindex(x.shape):
            e = np.zeros_like(x)
            e[at] = 1e-5
            slope[at] = (p.cost(x + e, labels, rho) - p.cost(x - e, labels, rho)) / 2e-5
        np.testing.assert_allclose((x - after) / alpha, slope, rtol=1e-6, atol=2e-6)
        np.testing.assert_allclose(p.gradient(x, labels, rho), slope, rtol=1e-6, atol=2e-6)


# --- lm:bdd-fix-pt -------------------------------------------------------------------------------


def in_hull(point, corners):
    """Whether a point is a convex combination of the corners, by linear programming."""
    equal = np.vstack([corners.T, np.ones(len(corners))])
    found = linprog(np.zeros(len(corners)), A_eq=equal, b_eq=[*point, 1.0], bounds=(0, None))
    return found.status == 0


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_euclidean_centers_stay_in_the_hull_of_rows_and_start(loss):
    rng = np.random.default_rng(22)
    for graph, c in zip(GRAPHS, itertools.cycle((1.0, 0.5, 2.0)), strict=False):
        d = int(rng.integers(2, 5))
        p = problem(rng, loss=loss, graph=graph, d=d, c=c, weights=WEIGHTS[2])
        x, seen = start(rng, p, outside=rng.choice([0.0, 0.3])), []
        p.run(init=x, rho=float(10 ** rng.uniform(0, 2)), B=2, rounds=30, tol=0, seen=seen)
        corners = np.concatenate([p.rows, x.reshape(-1, d)])
        directions = rng.normal(size=(400, d))
        reach = (corners @ directions.T).max(axis=0)
        for t, (centers, _) in enumerate(seen):
            over = centers.reshape(-1, d) @ directions.T - reach
            assert over.max() <= 1e-12 * np.abs(reach).max(), f"{graph}, round {t}"
        for center in seen[-1][0].reshape(-1, d):
            assert in_hull(center, corners), graph


def test_the_hull_is_told_from_its_outside():
    square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    assert in_hull(np.array([0.999, 0.5]), square)
    assert not in_hull(np.array([1.001, 0.5]), square)


# --- Symmetry ------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", GRAPHS, ids=repr)
@every_loss
def test_permuting_users_permutes_the_result(case, graph):
    rng = np.random.default_rng(23)
    p = problem(rng, **case, graph=graph, weights=WEIGHTS[2])
    x, order = start(rng, p), rng.permutation(p.graph.m)
    options = {"rho": 8.0, "B": 2, "rounds": 40, "tol": 0, "random_state": 0}
    one = p.run(init=x, **options)
    other = pc.cluster(
        [p.parts[i] for i in order],
        n_clusters=p.K,
        graph=p.graph.reordered(order),
        loss=p.loss,
        distance=p.distance,
        weights=[p.weights[i] for i in order],
        solver="dgc",
        init=x[order],
        **options,
    )
    np.testing.assert_allclose(other.centers, one.centers[order], rtol=0, atol=1e-10)
    for i, part in enumerate(order):
        np.testing.assert_array_equal(other.labels[i], one.labels[part])
    assert other.certificate.cost == pytest.approx(one.certificate.cost, rel=1e-10)


# --- thm:convergence -----------------------------------------------------------------------------


@cache
def converged(name, graph=GRAPHS[0], c=1.0):
    """A problem, and where a long run on it ended."""
    rng = np.random.default_rng(24)
    p = problem(rng, **CASES[name], graph=graph, m=4, N=40, weights=WEIGHTS[2], c=c)
    x = start(rng, p)
    solution = p.run(init=x, rho=4.0, rounds=20_000, tol=1e-11, trace=True, random_state=0)
    return p, solution


@pytest.mark.parametrize("name", CASES)
def test_labels_stop_changing_and_the_centers_converge(name):
    p, solution = converged(name)
    trace = solution.trace
    assert solution.status.converged, str(solution.status)
    last_change = int(np.flatnonzero(trace.changed).max())
    assert last_change < len(trace) // 2, "labels changed until late"
    labels = np.concatenate(solution.labels)
    np.testing.assert_array_equal(labels, p.labels(solution.centers))
    gradient = p.gradient(solution.centers, labels, solution.rho)
    W = max(w.sum() for w in p.weights)
    scale = p.loss.smoothness if isinstance(p.loss, pc.Bregman) else p.distance.largest
    residual = solution.rho * np.linalg.norm(gradient, axis=2).max() / (W * scale * p.spread)
    assert residual < 1e-9
    # Both residuals are rounding by now; one a hundred times the other would be a slip.
    assert solution.certificate.residual == pytest.approx(residual, rel=0.1, abs=1e-13)


# --- lm:fix-pt -----------------------------------------------------------------------------------


@pytest.mark.parametrize("c", [1.0, 0.5])
@pytest.mark.parametrize("graph", GRAPHS[:3], ids=repr)
@pytest.mark.parametrize("name", ["KMeans()-euclidean", *map(repr, BREGMANS)])
def test_bregman_fixed_points_have_the_closed_form(name, graph, c):
    p, solution = converged(name, graph, c)
    x, rho, d = solution.centers, solution.rho, p.rows.shape[1]
    assert solution.status.converged
    for i, k in np.ndindex(x.shape[:2]):
        own = np.asarray(solution.labels[i]) == k
        w, y = p.weights[i][own], p.parts[i][own]
        hessian = np.diag(1 / x[i, k]) if p.kl else p.A
        near = p.graph.neighbors(i)
        P = hessian * w.sum() / rho + c * len(near) * np.eye(d)
        pulled = hessian @ (w[:, None] * y).sum(axis=0) / rho + c * x[near, k].sum(axis=0)
        np.testing.assert_allclose(x[i, k], np.linalg.solve(P, pulled), rtol=0, atol=1e-8)


# --- lm:bregman-cons-fp --------------------------------------------------------------------------


@pytest.mark.parametrize("breg", BREGMANS, ids=repr)
def test_one_user_with_a_bregman_loss_ends_at_weighted_cluster_means(breg):
    p = problem(np.random.default_rng(25), breg=breg, m=1, weights=WEIGHTS[2])
    solution = p.run(init="k-means++", rho=1.0, rounds=20_000, tol=1e-11, random_state=0)
    assert solution.status.converged
    for k in range(p.K):
        own = solution.labels[0] == k
        mean = np.average(p.parts[0][own], axis=0, weights=p.weights[0][own])
        np.testing.assert_allclose(solution.centers[0, k], mean, rtol=0, atol=1e-8)


@pytest.mark.parametrize("breg", BREGMANS, ids=repr)
def test_bregman_consensus_points_are_weighted_cluster_means(breg):
    p = problem(np.random.default_rng(26), breg=breg, m=3, graph=GRAPHS[3], weights=WEIGHTS[2])
    x = start(np.random.default_rng(27), p)[:1].repeat(3, axis=0)
    apart = []
    for rho in (30.0, 100.0, 1000.0):
        solution = p.run(init=x, rho=rho, rounds=50_000, tol=1e-7, random_state=0)
        assert solution.status.converged
        x = solution.centers
        labels = np.concatenate(solution.labels)
        means = [
            np.average(p.rows[labels == k], axis=0, weights=p.w[labels == k]) for k in range(p.K)
        ]
        apart.append(np.abs(solution.consensus - means).max())
    # O(1/rho) from the means
    assert apart[2] < 5e-4
    assert apart[2] / apart[1] == pytest.approx(0.1, rel=0.1)


# --- thm:cons-conv -------------------------------------------------------------------------------

RHOS = [10.0, 100.0, *np.logspace(3, 5, 5)]
FOUR = [KMeans(), Huber(1.0), Logistic(), Fair(1.0)]


def newton(p, x, labels, rho):
    """The minimizer of J_rho for given labels: a Newton method, each center k by itself."""
    m, K, d = x.shape
    consensus = rho * np.kron(p.L, np.eye(d))
    for _ in range(100):
        gradient = rho * p.gradient(x, labels, rho)
        z = x[p.owner, labels] - p.rows
        r2 = (z * z).sum(axis=1)
        curvature = gamma(p.loss, r2)[:, None, None] * np.eye(d)
        curvature += 2 * gamma_slope(p.loss, r2)[:, None, None] * z[:, :, None] * z[:, None]
        blocks = np.zeros((m, K, d, d))
        np.add.at(blocks, (p.owner, labels), p.w[:, None, None] * curvature)
        step = np.empty_like(x)
        for k in range(K):
            # A little more than the Hessian, which may be singular (one far row, a Huber loss).
            hessian = consensus + (np.abs(gradient).max() + 1e-12) * np.eye(m * d)
            for i in range(m):
                hessian[i * d : (i + 1) * d, i * d : (i + 1) * d] += blocks[i, k]
            step[:, k] = -np.linalg.solve(hessian, gradient[:, k].ravel()).reshape(m, d)
        t, before = 1.0, p.cost(x, labels, rho)
        while p.cost(x + t * step, labels, rho) > before * (1 + 1e-13):
            t /= 2
        x = x + t * step
        if np.abs(step).max() < 1e-9 * np.abs(x).max():
            return x  # it converges quadratically: what is left is rounding
    raise AssertionError("Newton's method did not converge")


def fixed_point(p, x, rho):
    """A fixed point of DGC (def:fix-pt) from x on: centers and labels, each optimal in turn."""
    labels = p.labels(x)
    while True:
        x = newton(p, x, labels, rho)
        if np.array_equal(p.labels(x), labels):
            return x
        labels = p.labels(x)


@cache
def iris_fixed_points(loss, seed=0):
    """Iris on a ring of 10, and its fixed points by continuation in rho."""
    rows, classes = pc.datasets.iris()
    users = pc.partition.homogeneous(classes, 10, random_state=seed)
    p = Problem(
        parts=[rows[i] for i in users],
        weights=[np.ones(len(i)) for i in users],
        graph=pc.graphs.ring(10),
        loss=loss,
        A=np.eye(4),
    )
    means = np.stack([rows[classes == k].mean(axis=0) for k in range(3)])
    x, points = np.repeat(means[None], 10, axis=0), {}
    for rho in RHOS:
        points[rho] = x = fixed_point(p, x, rho)
    return p, points


def largest_apart(x):
    """Mean over k of the largest ||x_i(k) - x_j(k)||."""
    pairs = np.linalg.norm(x[:, None] - x[None], axis=3)
    return pairs.max(axis=(0, 1)).mean()


def slope(values, rhos):
    return np.polyfit(np.log(rhos), np.log(values), 1)[0]


@pytest.mark.parametrize("loss", FOUR, ids=repr)
def test_dgc_stays_at_fixed_points_found_without_it(loss):
    p, points = iris_fixed_points(loss)
    for rho, x in points.items():
        assert np.abs(p.gradient(x, p.labels(x), rho)).max() < 1e-13
        solution = p.run(init=x, rho=rho, rounds=20, tol=0)
        assert solution.certificate.residual < 1e-9
        np.testing.assert_allclose(solution.centers, x, rtol=0, atol=1e-11)


@pytest.mark.parametrize("loss", FOUR, ids=repr)
def test_disagreement_falls_like_one_over_rho(loss):
    _, points = iris_fixed_points(loss)
    rhos = [rho for rho in RHOS if rho >= 1e3]
    found = slope([largest_apart(points[rho]) for rho in rhos], rhos)
    assert found == pytest.approx(-1.0, abs=0.05)


@pytest.mark.parametrize("loss", FOUR, ids=repr)
def test_consensus_points_are_stationary_points_of_the_pooled_problem(loss):
    p, points = iris_fixed_points(loss)
    rhos = [rho for rho in RHOS if rho >= 1e3]
    residuals = []
    for rho in rhos:
        gradient = p.pooled_gradient(points[rho].mean(axis=0))
        residuals.append(np.linalg.norm(gradient, axis=1).max() / (p.w.sum() * p.spread))
        solution = p.run(init=points[rho], rho=rho, rounds=1, tol=0)
        assert solution.certificate.pooled_residual == pytest.approx(residuals[-1], rel=1e-4)
    assert slope(residuals, rhos) == pytest.approx(-1.0, abs=0.05)
    assert residuals[-1] < 1e-5


@pytest.mark.parametrize("loss", FOUR, ids=repr)
def test_for_a_finite_rho_all_users_label_as_the_mean_centers_do(loss):
    p, points = iris_fixed_points(loss)

    def differ(rho):
        """How many rows their user labels otherwise than the mean centers do."""
        solution = p.run(init=points[rho], rho=rho, rounds=1, tol=0)
        common = np.repeat(points[rho].mean(axis=0)[None], p.graph.m, axis=0)
        return int((np.concatenate(solution.labels) != p.labels(common)).sum())

    assert differ(RHOS[0]) > 0
    assert [differ(rho) for rho in RHOS if rho >= 1e4] == [0, 0, 0]


# --- Users of every size -------------------------------------------------------------------------


@pytest.mark.parametrize("graph", GRAPHS, ids=repr)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_users_with_few_rows_or_none_take_part(loss, graph):
    rng = np.random.default_rng(28)
    sizes = [0, 1, 2, 15, 0, 12]
    p = replace(
        problem(rng, loss=loss, graph=graph),
        parts=[rng.normal(size=(n, 2)) + 3 * rng.integers(2, size=(n, 1)) for n in sizes],
        weights=[np.ones(n) for n in sizes],
    )
    x = start(rng, p, outside=0.2)
    solution = p.run(init=x, rho=6.0, rounds=20_000, tol=1e-10, random_state=0)
    assert solution.status.converged
    centers, labels = solution.centers, np.concatenate(solution.labels)
    np.testing.assert_array_equal(labels, p.labels(centers))
    assert np.abs(p.gradient(centers, labels, 6.0)).max() < 1e-8
    corners = np.concatenate([p.rows, x.reshape(-1, 2)])
    for i in (0, 4):
        assert len(solution.labels[i]) == 0
        # Without rows of its own, a user rests at the mean of its neighbors.
        rest = centers[p.graph.neighbors(i)].mean(axis=0)
        np.testing.assert_allclose(centers[i], rest, rtol=0, atol=1e-8)
        assert all(in_hull(center, corners) for center in centers[i])


# --- Starts, seeds and runtimes ------------------------------------------------------------------


class InTurn:
    """Gives one start after the other, as `n_init` asks for them."""

    def __init__(self, starts):
        self.left = iter(starts)

    def centers(self, runtime, users, K, seed):
        return next(self.left), Traffic()


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_n_init_keeps_the_start_of_least_pooled_cost(loss):
    rng = np.random.default_rng(29)
    p = problem(rng, loss=loss, K=4, N=48, weights=WEIGHTS[2], spread=4.0)
    options = {"rho": 5.0, "rounds": 60, "tol": 0, "random_state": 0}
    starts = [start(rng, p) for _ in range(6)]

    def pooled(solution):
        common = np.repeat(solution.centers.mean(axis=0)[None], p.graph.m, axis=0)
        return (p.w * p.losses(common).min(axis=1)).sum()

    each = [p.run(init=x, **options) for x in starts]
    costs = [pooled(solution) for solution in each]
    kept = p.run(init=InTurn(starts), n_init=6, **options)
    best = int(np.argmin(costs))
    assert np.ptp(costs) > 0.01 * max(costs)  # else any would do
    np.testing.assert_array_equal(kept.centers, each[best].centers)
    assert kept.certificate.pooled_cost == pytest.approx(min(costs), rel=1e-12)
    for part, expected in zip(kept.labels, each[best].labels, strict=True):
        np.testing.assert_array_equal(part, expected)


def bits(solution):
    return solution.centers.tobytes(), [part.tobytes() for part in solution.labels]


@pytest.mark.parametrize("init", ["k-means++", "k-means++-local", "random"])
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(init):
    p = problem(np.random.default_rng(30), loss=Huber(1.0), weights=WEIGHTS[2])

    def run(seed):
        return p.run(init=init, rho="auto", n_init=2, rounds=30, tol=1e-4, random_state=seed)

    assert bits(run(7)) == bits(run(7))
    assert bits(run(np.random.default_rng(7))) == bits(run(7))
    assert bits(run(8)) != bits(run(7))


@pytest.mark.parametrize("graph", GRAPHS, ids=repr)
@every_loss
def test_all_runtimes_give_the_same_bits(case, graph):
    p = problem(np.random.default_rng(31), **case, graph=graph, weights=WEIGHTS[2], c=0.5)
    inits = ["k-means++", "random", "k-means++-local"]
    for B, tol in [(1, 0), (3, 1e-2)]:
        runs = [
            pc.cluster(
                p.parts,
                n_clusters=p.K,
                graph=p.graph,
                loss=p.loss,
                distance=p.distance,
                weights=p.weights,
                consensus_factor=p.c,
                rho=3.0,
                B=B,
                tol=tol,
                rounds=40,
                init=inits[GRAPHS.index(graph) % 3],
                runtime=runtime,
                random_state=5,
            )
            for runtime in RUNTIMES
        ]
        for run in runs[1:]:
            assert bits(run) == bits(runs[0])
            assert run.certificate == runs[0].certificate
            assert run.status == runs[0].status
