"""Random rows of the joint data, drawn by all users in two exchanges and without a server.

Each row y of the joint data is drawn with probability proportional to its mass

    w_y min(D(y)^2, cap),    D(y) the distance to the nearest center agreed so far (1 if none),

exactly. A user whose rows have the total mass M draws one of them in proportion to its mass, and a
key log M + G with G a standard Gumbel variable. The largest key over the network is user i's with
probability M_i / sum_j M_j (Gumbel-max). First the network computes the largest key. Only then does
the winner send its value: the row, or the mean of the rows nearest to it.

That value becomes known to all users; nothing else does, beyond the maximum of each exchange. A
neighbor that receives a user's own key, and does not know G, learns the order of magnitude of M, as
exp(-key) is exponential with rate M. One that knows G learns M. So peers draw G from a private
seed, and two masses never share it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from peerclust.arrays import Array
from peerclust.programs.limits import Limits, claims
from peerclust.programs.protocol import HeardMax, NetworkMax, State
from peerclust.sparse import AnyRows
from peerclust.users import Users
from peerclust.users.nearest import nearest

# Keys are rounded to multiples of this: the last bits of log M + G would exclude many values of M.
ROUNDING = 2.0**-32


@dataclass(frozen=True, eq=False, kw_only=True)
class DrawState(State):
    """The block's keys (u, n), its candidates' values (u, n, d), and the results.

    `drawn` is (n, d) after two rounds; a row of it is NaN if no row had any mass. `limits` are
    those of a value.
    """

    keys: Array
    values: Array
    limits: Limits | None = None
    best: Array = field(default_factory=partial(np.empty, 0))
    drawn: Array = field(default_factory=partial(np.empty, (0, 0)))


@dataclass(frozen=True)
class Draw:
    """Draw `n` rows, independently, from the streams of `seed` and `step`.

    Parameters
    ----------
    seed, step : int
        Select the random streams; each user has its own.
    n : int
        The number of rows.
    cap : float
        The upper limit of a row's D^2.
    mean_of : int
        If above 1, the winner sends the weighted mean of this many of its distinct rows, those
        nearest to the one drawn; a user with fewer does not take part.
    """

    seed: int
    step: int
    n: int = 1
    cap: float = np.inf
    mean_of: int = 1

    def start(self, users: Users, x: Array) -> DrawState:
        """Draw each user's candidates; x, (u, k, d), are the centers agreed so far, if any."""
        rows, weights, offsets = users.distinct
        agreed = x[0]
        far = users.nearest_distance2(agreed)[rows] if len(agreed) else np.ones(len(rows))
        mass = weights * np.minimum(far, self.cap)
        if users.geometry.divergence is not None:
            # A row outside the domain of a loss cannot be a center.
            mass = mass * users.geometry.inside(users.rows[rows].astype(np.float64))
        keys = np.full((users.m, self.n), -np.inf)
        values = np.full((users.m, self.n, users.d), -np.inf)
        for i in range(users.m):
            here = slice(offsets[i], offsets[i + 1])
            running = np.cumsum(mass[here])
            # A user with fewer rows than a mean takes does not take part: it would reveal them.
            if len(running) < self.mean_of or not running[-1] > 0:
                continue
            generator = users.generator(i, self.seed, self.step, hides=running[-1])
            exact = np.log(running[-1]) + generator.gumbel(size=self.n)
            keys[i] = ROUNDING * np.rint(exact / ROUNDING)
            draws = np.searchsorted(running, generator.random(self.n) * running[-1], side="right")
            chosen = offsets[i] + np.minimum(draws, len(running) - 1)
            if self.mean_of == 1:
                values[i] = users.rows[rows[chosen]]
            else:
                own = users.rows[rows[here]]
                values[i] = [
                    self._mean(users, own, weights[here], at - offsets[i]) for at in chosen
                ]
        limits = None
        if (bounds := claims(users)) is not None:
            limits = Limits.of(("drawn center", users.d, bounds.low, bounds.high)).repeat(self.n)
        return DrawState(x=x, keys=keys, values=values, limits=limits)

    def _mean(self, users: Users, own: AnyRows, weights: Array, at: int) -> Array:
        """Return the weighted mean of the distinct rows nearest to the row own[at]."""
        drawn = np.asarray(own[at : at + 1], dtype=np.float64)
        far = nearest(own, drawn, users.geometry)[1]
        near = np.argsort(far, kind="stable")[: self.mean_of]
        rows = np.asarray(own[near], dtype=np.float64)
        return np.asarray(np.average(rows, axis=0, weights=weights[near]))

    def say(self, state: DrawState) -> NetworkMax:
        """Send the keys; then the values of those that won."""
        if state.round == 0:
            return NetworkMax(state.keys)
        won = (state.keys == state.best) & (state.keys > -np.inf)
        values = np.where(won[..., None], state.values, -np.inf)
        return NetworkMax(values, state.limits)

    def hear(self, users: Users, state: DrawState, heard: HeardMax) -> DrawState:  # noqa: ARG002
        """Store the largest keys; then the winners' values."""
        if state.round == 0:
            return replace(state, best=heard.v, round=1)
        drawn = np.where(np.isneginf(heard.v), np.nan, heard.v)
        return replace(state, drawn=drawn, round=2)
