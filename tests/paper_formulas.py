"""The paper's formulas: the cost J_rho, its gradient, its Hessian, its fixed points.

All are computed from the paper's text and a dense Laplacian; from the library come only the runs.
"""

import itertools
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import peerclust as pc
from all_pairs import pairwise
from instances import BREGMANS, DISTANCES, GRAPHS, LOSSES, WEIGHTS, spd
from peerclust.clustering.problem import Problem as ClusteringProblem
from peerclust.losses import Fair, Huber, KMeans, Logistic

EUCLIDEAN = DISTANCES[0]


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

    def curvatures(self, x, labels):
        """What the cost of each user bends by in each center, at least, (m, K): docs/theory.md."""
        H = np.zeros(x.shape[:2])
        for i, k in np.ndindex(H.shape):
            own = (self.owner == i) & (labels == k)
            w, z = self.w[own], x[i, k] - self.rows[own]
            least = (1 / x[i, k]).min() if self.kl else np.linalg.eigvalsh(self.A)[0]
            bend = w.sum()
            if bend > 0 and not isinstance(self.loss, pc.Bregman):
                r2 = np.einsum("na,ab,nb->n", z, self.A, z)
                middle = gamma(self.loss, np.array([np.average(r2, weights=w)]))[0]
                bend = min((w * gamma(self.loss, r2)).sum(), w.sum() * middle)
            H[i, k] = bend * least
        return H

    def residual(self, x, labels, rho):
        """How far centers still have to go, as a share of the spread."""
        H = self.curvatures(x, labels)
        squares = (H * H).mean(axis=0)
        even = np.where(squares > 0, H.mean(axis=0) ** 2 / np.where(squares > 0, squares, 1.0), 1.0)
        alone = H + even * rho * self.factor(rho) * np.linalg.eigvalsh(self.L)[1]
        stiffness = np.where(H.mean(axis=0) > 0, np.minimum(H.mean(axis=0), alone), alone)
        lengths = rho * np.linalg.norm(self.gradient(x, labels, rho), axis=2) / stiffness
        return lengths.max() / self.spread

    def labels(self, x):
        return self.losses(x).argmin(axis=1)

    @property
    def spread(self):
        mean = np.average(self.rows, axis=0, weights=self.w)
        return np.sqrt(np.average(((self.rows - mean) ** 2).sum(axis=1), weights=self.w))

    def run(self, *, init, rho, seen=None, solver="dgc", **options):
        """Run the library's `cluster`; `seen` gets (x, labels) after each round."""
        with nullcontext() if seen is None else watched(seen):
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
                **options,
            )


@contextmanager
def watched(seen):
    """Keep the centers and labels of all users after each round that `cluster` runs within."""
    run = ClusteringProblem.run

    def look(states, _):
        seen.append((states[0].x.copy(), states[0].assignment.labels))

    with pytest.MonkeyPatch.context() as patch:
        # Problem.run calls it after the rounds of a solver only.
        patch.setattr(ClusteringProblem, "run", lambda self, task, **_: run(self, task, look))
        yield


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
# All pairs of loss, distance and graph, and every Bregman loss on every graph.
CASES_AND_GRAPHS = [
    (f"{loss}-{distance}", graph) for loss, distance, graph in pairwise(LOSSES, DISTANCES, GRAPHS)
] + [(repr(breg), graph) for breg in BREGMANS for graph in GRAPHS]


def in_hull(point, corners):
    """Whether a point is a convex combination of the corners, by linear programming."""
    equal = np.vstack([corners.T, np.ones(len(corners))])
    found = linprog(np.zeros(len(corners)), A_eq=equal, b_eq=[*point, 1.0], bounds=(0, None))
    return found.status == 0


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


def largest_apart(x):
    """Mean over k of the largest ||x_i(k) - x_j(k)||."""
    pairs = np.linalg.norm(x[:, None] - x[None], axis=3)
    return pairs.max(axis=(0, 1)).mean()
