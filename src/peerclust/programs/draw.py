"""Draws rows of the joint data, known to all users, in two exchanges and without a server.

Each row y of the joint data is drawn with probability in proportion to its mass

    w_y min(D(y)^2, cap),    D(y) the distance to the nearest center agreed so far (1 if none),

exactly: a user whose rows have the total mass M draws one of them in proportion to its mass, and a
key log M + G with G a standard Gumbel variable. The largest key over the network is user i's with
probability M_i / sum_j M_j (Gumbel-max). First the network agrees on the largest key; only then
does the winner tell its value: the row, the mean of the rows nearest to it, or only its D^2.

That value becomes known to all users; nothing else does, beyond each exchange's maximum.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from peerclust.programs.protocol import HeardMax, Max
from peerclust.users import Users

Array = NDArray[np.float64]


@dataclass(frozen=True)
class DrawState:
    """The block's keys (u, n) and candidates' values (u, n, width), and what was agreed.

    `drawn` is (n, width) after two rounds; a row of it is NaN if no row had any mass.
    """

    x: Array
    keys: Array
    values: Array
    round: int = 0
    update: int = 0
    best: Array = field(default_factory=lambda: np.empty(0))
    drawn: Array = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def residual(self) -> Array:
        """No residual: a draw takes two rounds, always."""
        return np.full(len(self.keys), np.inf)


@dataclass(frozen=True)
class Draw:
    """Draw `n` rows, independently, from the streams of `seed` and `step`.

    Parameters
    ----------
    seed, step : int
        Which random streams; each user has its own.
    n : int
        How many rows.
    cap : float
        No row's D^2 counts for more than this.
    tell : "row" or "distance"
        Whether a winner tells its row or only its D^2.
    nearest : int
        If above 1, the winner tells the mean of this many of its rows around the one drawn.
    """

    seed: int
    step: int
    n: int = 1
    cap: float = np.inf
    tell: Literal["row", "distance"] = "row"
    nearest: int = 1

    def start(self, users: Users, x: Array) -> DrawState:
        """Draw each user's candidates; x (k, d) are the centers agreed so far, maybe none."""
        rows, weights, offsets = users.distinct
        far = users.nearest(x)[1][rows] if len(x) else np.ones(len(rows))
        mass = weights * (1.0 if self.tell == "distance" else np.minimum(far, self.cap))
        width = 1 if self.tell == "distance" else users.d
        keys = np.full((users.m, self.n), -np.inf)
        values = np.full((users.m, self.n, width), -np.inf)
        for i in range(users.m):
            here = slice(offsets[i], offsets[i + 1])
            running = np.cumsum(mass[here])
            if not len(running) or not running[-1] > 0:
                continue
            generator = users.generator(i, self.seed, self.step)
            keys[i] = np.log(running[-1]) + generator.gumbel(size=self.n)
            draws = np.searchsorted(running, generator.random(self.n) * running[-1], side="right")
            chosen = offsets[i] + np.minimum(draws, len(running) - 1)
            if self.tell == "distance":
                values[i, :, 0] = far[chosen]
            else:
                values[i] = [self._row(users, i, row) for row in rows[chosen]]
        return DrawState(x=x, keys=keys, values=values)

    def _row(self, users: Users, i: int, row: int) -> Array:
        if self.nearest == 1:
            return np.asarray(users.rows[row], dtype=np.float64)
        own = users.rows[users.offsets[i] : users.offsets[i + 1]].astype(np.float64)
        near = np.argsort(((own - own[row - users.offsets[i]]) ** 2).sum(axis=1), kind="stable")
        mean: Array = own[near[: self.nearest]].mean(axis=0)
        return mean

    def say(self, state: DrawState) -> Max:
        """Tell the keys; then, of those that won, the values."""
        if state.round == 0:
            return Max(state.keys)
        won = (state.keys == state.best) & (state.keys > -np.inf)
        return Max(np.where(won[..., None], state.values, -np.inf))

    def hear(self, users: Users, state: DrawState, heard: HeardMax) -> DrawState:  # noqa: ARG002
        """Learn the largest keys; then the winners' values."""
        if state.round == 0:
            return replace(state, best=heard.v, round=1)
        drawn = np.where(np.isneginf(heard.v), np.nan, heard.v)
        return replace(state, drawn=drawn, round=2)
