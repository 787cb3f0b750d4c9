"""A block of users: their rows and weights, and what they compute from these alone.

A block may have all users, some or one. What it computes for a user does not depend, to the last
bit, on the other users of the block. Nothing here knows of neighbors.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels, theory
from peerclust.arrays import Array, Rows
from peerclust.distances import Distance, Euclidean
from peerclust.kernels import buffers
from peerclust.kernels.exact_sums import no_sums
from peerclust.kernels.threads import parallel_for
from peerclust.losses import KMeans, Loss, compiled_loss, curvature_ratio, geometry_of
from peerclust.sparse import AnyRows, SparseRows
from peerclust.users.assigners import (
    Assigner,
    Data,
    FullAssigner,
    SmallUsersAssigner,
    first_pass,
    reads_all,
    sum_by_user,
)
from peerclust.users.assignment import Assignment, AssignmentCache, Labels, Terms
from peerclust.users.cached import cached_pass, caching_pays
from peerclust.users.nearest import nearest
from peerclust.users.public_bounds import PublicBounds
from peerclust.users.rows import (
    column_ranges,
    distinct_rows,
    plan_batches,
    plan_chunks,
    sum_by_label,
)
from peerclust.users.sparse import (
    SparseAssigner,
    find_nearest,
    lower_distance2,
    own_distance2,
    sum_rows,
)


class Step(NamedTuple):
    """The result of a gradient step: centers (u, K, d), residuals (u,) and step sizes (u, K).

    A residual is the largest of rho ||gradient of J_rho|| / stiffness over a user's centers.
    """

    x: Array
    residual: Array
    alpha: Array


class Users:
    """A block of u users, with user i's rows at offsets[i]:offsets[i+1].

    Parameters
    ----------
    rows : (N, d) array or SparseRows
        float32 or float64 in C order; used as is, never copied or written to. Sparse rows need a
        Euclidean distance.
    offsets : (u + 1,) int array
        The first row of each user, and N at the end; a user may have no rows.
    weights : float or (N,) array
        One weight for all rows, or one per row.
    loss, distance
        See `losses`, `bregman` and `distances`. A Bregman loss brings its own distance.
    ids : sequence of u ints, optional
        The ids of these users among all users (default 0 to u - 1).
    private_seeds : dict of bytes, at most 64 each, optional
        Secrets of users, by id. The random streams of a user with one depend on it.
    bounds : PublicBounds, optional
        What is public about the rows and weights of all users.

    Attributes
    ----------
    m, d : int
        The number of users in the block, and of features.
    geometry : Geometry
        How rows and centers are compared.
    smoothness : float
        beta, the smoothness of the loss under the distance.

    Examples
    --------
    >>> users = Users(np.array([[0.0], [2.0], [10.0]]), np.array([0, 2, 3]))
    >>> x = np.array([[[0.0], [9.0]], [[0.0], [9.0]]])
    >>> assignment = users.assign(x)
    >>> assignment.labels.tolist(), users.cost(assignment, x).tolist()
    ([0, 0, 1], [2.0, 0.5])
    >>> users.gradient(assignment, x).tolist()
    [[[-2.0], [0.0]], [[0.0], [-1.0]]]
    """

    def __init__(
        self,
        rows: AnyRows,
        offsets: NDArray[np.int64],
        *,
        weights: float | Array = 1.0,
        loss: Loss | None = None,
        distance: Distance | None = None,
        ids: Sequence[int] | None = None,
        private_seeds: Mapping[int, bytes] | None = None,
        bounds: PublicBounds | None = None,
    ) -> None:
        self.rows = rows
        self.offsets = offsets
        self.m, self.d = len(offsets) - 1, int(rows.shape[1])
        self.weights = weights
        self.loss: Loss = KMeans() if loss is None else loss
        self.distance = Euclidean() if distance is None else distance
        self.ids = tuple(range(len(offsets) - 1) if ids is None else ids)
        self.private_seeds = private_seeds or {}
        self.bounds = bounds
        self.geometry, compiled = geometry_of(self.loss, self.distance), compiled_loss(self.loss)
        self.smoothness = theory.smoothness(self.loss, self.distance)
        # The rows in coordinates where distance is Euclidean: a copy only for Mahalanobis.
        self._y = rows if isinstance(rows, SparseRows) else self.geometry.forward(rows)
        self._weights = np.empty(0) if isinstance(weights, float) else weights
        self._unit = weights if isinstance(weights, float) else 1.0
        self._code = compiled[0]
        self._curvature_ratio = curvature_ratio(self.loss)
        # No kernel is given sparse rows.
        y = cast("Rows", self._y)
        row_data = kernels.RowData(y, self._weights, float(self._unit), *compiled)
        self._data = Data(row_data, offsets)
        self._owner, self._start, self._stop = self._chunks = plan_chunks(offsets)
        self._ends = np.cumsum(self._stop - self._start)
        self._weighting = self._weights, float(self._unit), self._chunks
        # Whether the rows' own coordinates are those of the geometry.
        self._euclidean = isinstance(self.distance, Euclidean) and self.geometry.divergence is None
        self._cache = AssignmentCache(labels=np.empty(0, np.int32))
        # The centers of the last `nearest_distance2`, and its result.
        self._nearest_distance2: tuple[Array, Array] | None = None
        self._noise: Callable[[tuple[int, ...]], Array] | None = None

    @cached_property
    def total_weights(self) -> Array:
        """Each user's total weight, (u,)."""
        if self._weights.size == 0:
            return np.diff(self.offsets) * float(self._unit)
        total = np.zeros(self.m)
        for first, last, here in plan_batches(self._chunks):
            ones = np.ones(here.stop - here.start)
            kernels.weighted_sum(first, last, ones, *self._weighting, total)
        return total

    @cached_property
    def ranges(self) -> tuple[Array, Array]:
        """The minima and maxima of each user's rows, (u, d); infinity and -infinity without rows.

        >>> users = Users(np.array([[0.0], [2.0], [10.0]]), np.array([0, 2, 3]))
        >>> [each.tolist() for each in users.ranges]
        [[[0.0], [10.0]], [[2.0], [10.0]]]
        """
        return column_ranges(self.rows, self.offsets)

    def broadcast_centers(self, centers: Array) -> Array:
        """Return a copy of common centers (k, d) for each user of the block, (u, k, d)."""
        return np.repeat(centers[None], self.m, axis=0)

    def single_user(self, i: int) -> Users:
        """Return a block of user i of this block alone; its rows are a view."""
        here = slice(self.offsets[i], self.offsets[i + 1])
        weights = self.weights if isinstance(self.weights, float) else self.weights[here]
        offsets = self.offsets[i : i + 2] - self.offsets[i]
        return self._copy_with(self.rows[here], offsets, weights, (self.ids[i],))

    def with_weights(self, weights: Array) -> Users:
        """Return the same users with other weights, one per row."""
        return self._copy_with(self.rows, self.offsets, weights, self.ids)

    def with_bounds(self, bounds: PublicBounds) -> Users:
        """Return the same users with other public bounds."""
        bounded = copy.copy(self)
        bounded.bounds = bounds
        return bounded

    def with_noise(self, noise: Callable[[tuple[int, ...]], Array]) -> Users:
        """Return the same users with noise(shape) added to their gradients, (u, K, d)."""
        noisy = copy.copy(self)
        noisy._noise = noise
        return noisy

    def assign(self, x: Array, last: Assignment | None = None) -> Assignment:
        """Label each row with its nearest center among its user's x[i] (steps 2-5 of Algorithm 1).

        Of equally near centers the first is taken. `last` is the assignment before: the changed
        labels are counted from there, all of them if there is none. Unless it is an earlier one, a
        row is not read where the centers have moved too little since the latest assignment for its
        label to change (see `cached`).
        """
        z, scores = self._place(x)
        # It serves the start of a run, which is over.
        self._nearest_distance2 = None
        cache, assigners = self._cache, list[Assigner]()
        if last is not None and not self._is_latest(last):
            labels = self._read_labels(last)
        elif cache.assigners and cache.shape == x.shape:
            labels, assigners = cache.labels, cache.assigners
        elif last is not None:
            labels = self._latest_labels()
        else:
            labels = np.full(len(self.rows), -1, np.int32)
        # What follows may be interrupted.
        cache.token, cache.assigners, cache.terms = object(), [], None
        if scores:
            assigners = [FullAssigner(self._data, np.arange(self.m), z.shape[1])]
        elif not assigners and isinstance(self._y, SparseRows):
            assigners = [SparseAssigner(self._data, self._y)]
        elif not assigners:
            assigners = first_pass(self._data, z.shape[1])
        elif reads_all(assigners) and caching_pays(self._data):
            assigners = cached_pass(self._data, z.shape[1])
        for assigner in assigners:
            assigner.assign(z, labels, *scores)
        cache.labels, cache.assigners, cache.shape = labels, assigners, x.shape
        counts = [(assigner.changed, assigner.rows_scanned) for assigner in assigners]
        if last is None:
            counts = [(len(labels), 0), *((0, scanned) for _, scanned in counts)]
        return Assignment(x, z, cache.token, self._read_labels, counts)

    def gradient(self, assignment: Assignment, x: Array) -> Array:
        """Return the gradient of the local cost, sum over C_i(k) of w grad f(x_i(k), y): (u, K, d).

        For K-means and Bregman losses rows are read at most once. For other losses this holds if x
        is the very array that was assigned.
        """
        z = self._place_again(assignment, x)
        s0, s1 = self._find_terms(assignment, x, z)
        gradient = s0[..., None] * z - s1
        if not self._euclidean:
            gradient = self.geometry.back(x, gradient)
        if self._noise is not None:
            gradient = gradient + self._noise(x.shape)
        return gradient

    def gradient_terms(self, assignment: Assignment, x: Array) -> Terms:
        """Return (s0, s1), (u, K) and (u, K, d), such that the gradient is s0 x - s1.

        They are valid until the next `assign` and must not be written to.
        """
        if self._euclidean and self._noise is None:
            return self._find_terms(assignment, x, np.ascontiguousarray(x))
        return np.zeros(x.shape[:2]), -self.gradient(assignment, x)

    def gradient_step(
        self,
        assignment: Assignment,
        x: Array,
        neighbors: tuple[Array, Array],
        step: tuple[float, float, float],
        stiffness: Array,
        *,
        only: bool,
    ) -> Step:
        """Return the centers after a gradient step on J_rho, and how far they had to go.

            x - alpha g,    g = 1/rho gradient + c (degree x - total)

        `neighbors` are the total, (u, K, d), of the neighbors' centers and their number, degree,
        (u, 1, 1); `step` is (rho, alpha, c). With an alpha of 0, each center has its own,
        1 / (curvature / rho + 2 c degree). `stiffness`, (u, K), makes lengths of gradients. One
        loop over the users computes all results. `only` is whether no other step follows from this
        assignment; sums are then not kept.
        """
        moved, residual, alphas = buffers.empty(x.shape), np.empty(self.m), np.empty(x.shape[:2])
        total, degree = neighbors[0], neighbors[1].reshape(-1)
        step = float(step[0]), float(step[1]), float(step[2])
        small = self._small_users(assignment)
        if small is not None and only:
            small.gradient_step(
                x, self._cache.labels, self._curvature_ratio, (total, degree), step, stiffness,
                (moved, residual, alphas),
            )  # fmt: skip
            return Step(moved, residual, alphas)
        s0, s1 = self.gradient_terms(assignment, x)
        H = self.curvature(assignment, x) if step[1] == 0 else s0
        flat, s1, total, out = (each.reshape(self.m, -1) for each in (x, s1, total, moved))
        parallel_for(
            kernels.gradient_step, self.m, x.size, flat, s0, s1, H, (total, degree), step,
            stiffness, (out, residual, alphas),
        )  # fmt: skip
        return Step(moved, residual, alphas)

    def curvature(self, assignment: Assignment, x: Array) -> Array:
        """Return a bound on the curvature of each user's cost near x, (u, K).

        It is the sum of w gamma over C_i(k), times the largest ratio of h'' and gamma, times the
        largest eigenvalue of A, or of the Hessian of a Bregman loss at the center. A step
        x - gradient / curvature never raises the cost of K-means and Huber, which are concave in
        r^2. For the logistic and the fair loss the bound is that of h'' at x. A custom loss has
        only its smoothness: beta times the weight of C_i(k).
        """
        if self._code == kernels.GIVEN:
            return self.label_weights(assignment, x.shape[1]) * self.smoothness
        weights = self._find_terms(assignment, x, self._place_again(assignment, x))[0]
        if self._euclidean:
            return np.asarray(self._curvature_ratio * weights)
        return np.asarray(self._curvature_ratio * weights * self.geometry.largest_curvature(x))

    def local_curvature(self, assignment: Assignment, x: Array) -> Array:
        """Return the curvature that each user's cost has around x, (u, K).

        Unlike `curvature` it is a cautious estimate, for residuals:

            min(sum of w gamma(r^2), W gamma(mean of r^2)),    over the rows of C_i(k), of weight W,

        times the smallest eigenvalue of A, or of the Hessian of a Bregman loss at the center. A
        center that sits on one of many far rows has gamma = 1 there, and the mean does not.
        """
        W = self.label_weights(assignment, x.shape[1])
        H = W
        if self._code != kernels.KMEANS:
            z, labels = self._place_again(assignment, x), self._labels_of(assignment)
            r2 = self._own_distance2(z, labels)
            # Squares of far rows may overflow in the sum, and count as that far.
            squares = sum_by_label(self.offsets, labels, self._each_weight() * r2, x.shape[1])
            mean = np.divide(squares, W, out=np.zeros_like(W), where=W > 0)
            H = np.minimum(self._find_terms(assignment, x, z)[0], W * self.loss.gamma(mean))
        return np.asarray(H * self.geometry.smallest_curvature(x))

    def label_weights(self, assignment: Assignment, K: int) -> Array:
        """Return the weight of each user's rows in each cluster, (u, K)."""
        if self._code == kernels.KMEANS and assignment.z is not None:
            return self._find_terms(assignment, assignment.x, assignment.z)[0].copy()
        return sum_by_label(self.offsets, self._labels_of(assignment), self._each_weight(), K)

    def cost(self, assignment: Assignment, x: Array) -> Array:
        """Return each user's cost, the sum of w f(x_i(label), y) over its rows, (u,)."""
        z, labels = self._place_again(assignment, x), self._labels_of(assignment)
        costs = np.zeros(self.m)
        for batch in plan_batches(self._chunks):
            values = self._row_costs(batch, x, z, labels)
            kernels.weighted_sum(*batch[:2], values, *self._weighting, costs)
        return costs

    def swap_costs(self, assignment: Assignment, x: Array) -> tuple[Array, Array]:
        """Return each user's cost E of each cluster, and the cost U of removing its center, (u, K).

            E_i(k) = sum over C_i(k) of w f(x_i(k), y)
            U_i(k) = sum over C_i(k) of w (f(x_i(l), y) - f(x_i(k), y))

        Here l is the nearest center of y other than k. If K is 1, there is none, and U is 0.

        >>> users = Users(np.array([[0.0], [2.0], [10.0]]), np.array([0, 2, 3]))
        >>> x = np.array([[[0.0], [9.0]], [[0.0], [9.0]]])
        >>> E, U = users.swap_costs(users.assign(x), x)
        >>> E.tolist(), U.tolist()
        ([[2.0, 0.0], [0.0, 0.5]], [[63.0, 0.0], [0.0, 49.5]])
        """
        z, scores = self._place(x)
        slope, offset = scores or (None, None)
        labels = self._labels_of(assignment)
        if isinstance(self._y, SparseRows):
            others = find_nearest(self._y, self.offsets, z, labels)
        else:
            others = np.empty_like(labels)
            centers = z, slope, offset, labels, others
            work = self._y.size * z.shape[1]
            parallel_for(kernels.nearest_other, self._ends, work, self._y, self._chunks, *centers)
        own, more = np.empty((2, len(labels)))
        for batch in plan_batches(self._chunks):
            own[batch[2]] = self._row_costs(batch, x, z, labels)
            more[batch[2]] = self._row_costs(batch, x, z, others)
        more -= own
        weights = self._each_weight()
        E, U = (sum_by_label(self.offsets, labels, weights * c, x.shape[1]) for c in (own, more))
        return E, U

    def nearest(self, centers: Array) -> tuple[NDArray[np.int32], Array]:
        """Return each row's nearest of common centers (K, d), and its squared distance, both (N,).

        For a Bregman loss the divergence replaces the squared distance.
        """
        return nearest(self.rows, centers, self.geometry, transformed=self._y)

    def nearest_distance2(self, centers: Array) -> Array:
        """Return each row's squared distance to the nearest of common centers (K, d), (N,).

        If these are the centers of the call before and others after them, only the others are
        measured. The result must not be written to.
        """
        n, r2 = 0, np.full(len(self.rows), np.inf)
        if self._nearest_distance2 is not None:
            known, last = self._nearest_distance2
            if np.array_equal(known, centers[: len(known)]):
                n, r2 = len(known), last
        for k in range(n, len(centers)):
            if isinstance(self._y, SparseRows):
                r2 = lower_distance2(self._y, centers[k], r2)
            else:
                r2 = np.minimum(r2, self.nearest(centers[k : k + 1])[1])
        self._nearest_distance2 = centers.copy(), r2
        return r2

    @cached_property
    def distinct(self) -> tuple[NDArray[np.int64], Array, NDArray[np.int64]]:
        """(indices, weights, offsets): the distinct rows of each user, with their total weights.

        They are ordered by a hash of their values. So the order does not depend on the order of a
        user's rows, nor on whether a row occurs three times or once with a weight of 3. Draws that
        walk in this order do not depend on these either.
        """
        return distinct_rows(self.rows, self.offsets, self._each_weight())

    def generator(self, i: int, seed: int, step: int, *, hides: float = 0.0) -> np.random.Generator:
        """Return user i's random stream for a step, the same on every runtime.

        The stream of a user with a private seed is a keyed hash of the arguments, so what was drawn
        from one stream says nothing about another. `hides` is the number that its draws conceal, if
        any. Another number has another stream, or the difference of two results would not be
        concealed; the same number has the same, so that repetitions reveal no more.
        """
        private = self.private_seeds.get(self.ids[i])
        if private is None:
            children = np.random.SeedSequence(seed, spawn_key=(self.ids[i], step))
            return np.random.default_rng(children)
        use = f"{seed} {step} {float(hides).hex()}".encode()
        digest = hashlib.blake2b(use, key=private, digest_size=32).digest()
        return np.random.default_rng(int.from_bytes(digest))

    def _copy_with(
        self,
        rows: AnyRows,
        offsets: NDArray[np.int64],
        weights: float | Array,
        ids: tuple[int, ...],
    ) -> Users:
        return Users(
            rows,
            offsets,
            weights=weights,
            loss=self.loss,
            distance=self.distance,
            ids=ids,
            private_seeds=self.private_seeds,
            bounds=self.bounds,
        )

    def _each_weight(self) -> Array:
        return self._weights if self._weights.size else np.full(len(self.rows), self._unit)

    def _place(self, x: Array) -> tuple[Array, tuple[Array, ...]]:
        """Return centers in the coordinates of the geometry, and their scores; see `Geometry`."""
        return (np.ascontiguousarray(x), ()) if self._euclidean else self.geometry.place(x)

    def _place_again(self, assignment: Assignment, x: Array) -> Array:
        """Return centers in the coordinates of the geometry; they may be those of an assignment."""
        if x is assignment.x and assignment.z is not None:
            return assignment.z
        return self._place(x)[0]

    def _row_costs(
        self, batch: tuple[int, int, slice[int, int, int]], x: Array, z: Array, labels: Labels
    ) -> Array:
        """Return f(x_i(label), y) of each row of a batch (see `plan_batches`)."""
        first, last, here = batch
        divergence = self.geometry.divergence
        if divergence is None:
            r2 = self._own_distance2(z, labels, batch)
        else:
            owner = np.repeat(self._owner[first:last], (self._stop - self._start)[first:last])
            r2 = divergence(x[owner, labels[here]], self.rows[here].astype(np.float64))
        r2[:] = self.loss.value(r2)
        return r2

    def _own_distance2(
        self,
        z: Array,
        labels: Labels,
        batch: tuple[int, int, slice[int, int, int]] | None = None,
    ) -> Array:
        """Return the squared distance to its own center of each row, or each row of a batch."""
        first, last, here = batch or (0, len(self._owner), slice(0, len(self.rows)))
        if isinstance(self._y, SparseRows):
            offsets = np.clip(self.offsets, here.start, here.stop) - here.start
            return own_distance2(self._y[here], offsets, z, labels[here])
        r2 = np.empty(here.stop - here.start)
        kernels.own_distance2(first, last, self._y, self._chunks, z, labels, r2)
        return r2

    def _small_users(self, assignment: Assignment) -> SmallUsersAssigner | None:
        """Return the latest assigner, if it has all users, and can take their gradient steps."""
        assigners = self._cache.assigners
        if (
            len(assigners) == 1
            and isinstance(assigners[0], SmallUsersAssigner)
            and self._is_latest(assignment)
            and self._euclidean
            and self._noise is None
            and self._code != kernels.GIVEN
        ):
            return assigners[0]
        return None

    def _is_latest(self, assignment: Assignment) -> bool:
        return assignment.token is self._cache.token

    def _latest_labels(self) -> Labels:
        for assigner in self._cache.assigners:
            if assigner.keeps_labels:
                assigner.write(self._cache.labels)
        return self._cache.labels

    def _labels_of(self, assignment: Assignment) -> Labels:
        """Return the labels without a copy; they must be read before the next `assign`."""
        if self._is_latest(assignment):
            return self._latest_labels()
        return self._read_labels(assignment) if assignment.z is None else assignment.labels

    def _read_labels(self, assignment: Assignment) -> Labels:
        if self._is_latest(assignment):
            return self._latest_labels().copy()
        users = self._without_cache()
        users.assign(assignment.x)
        return users._latest_labels()

    def _without_cache(self) -> Users:
        """Return the same users with a cache of their own, to see to an earlier assignment."""
        users = copy.copy(self)
        users._cache = AssignmentCache(labels=np.empty(0, np.int32))
        return users

    def _find_terms(self, assignment: Assignment, x: Array, z: Array) -> Terms:
        """Return each user's sums of w gamma and w gamma y by label; z is geometry.place(x)."""
        cache = self._cache
        as_assigned = assignment.x is x or self._code == kernels.KMEANS
        if cache.terms is not None:
            of, at, terms = cache.terms
            if of is assignment.token and (at is x or self._code == kernels.KMEANS):
                return terms
        if as_assigned and self._code != kernels.GIVEN and not self._is_latest(assignment):
            users = self._without_cache()
            again = users.assign(assignment.x)
            return users._find_terms(again, again.x, z)
        if as_assigned and self._code != kernels.GIVEN:
            for assigner in cache.assigners:
                assigner.sum(z, cache.labels)
            terms = sum_by_user(cache.assigners, x.shape)
        else:
            terms = self._sum_by_labels(self._labels_of(assignment), x, z)
        cache.terms = assignment.token, x, terms
        return terms

    def _sum_by_labels(self, labels: Labels, x: Array, z: Array) -> Terms:
        """Sum all rows by their labels, with gamma at the centers x."""
        if isinstance(self._y, SparseRows):
            w, exact = self._each_weight(), np.zeros(self.m, np.bool_)
            if self._code != kernels.KMEANS:
                w = w * self.loss.gamma(self._own_distance2(z, labels))
            total = sum_rows(self._y, self.offsets, labels, w, x.shape[1], exact)
            return total.hi0, total.hi1
        sums = no_sums(len(self._owner), *x.shape[1:])
        given = np.empty(0)
        if self._code == kernels.GIVEN and len(self.rows):
            given = self._own_distance2(z, labels)
            given[:] = self.loss.gamma(given)
        rows = self._data.of_loops, self._chunks
        parallel_for(kernels.gradient, self._ends, self._y.size, *rows, z, labels, given, sums)
        return sum_by_user([Assigner(self._data, self._owner, [sums])], x.shape)
