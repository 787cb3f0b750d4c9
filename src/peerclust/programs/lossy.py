"""Any program over links that carry less than it says: rounded, coarse, noisy or lossy messages.

`Lossy(program, ...)` is a program itself. What the inner program says, s_i, goes out as t_i:

- "float32" and "float16": each number rounded;
- "8-bit": one byte a number. Sender and receivers remember t_i of the exchange before, and

      t_i <- t_i + 2^e round((s_i - t_i) / 2^e + dither),    dither uniform in [-1/2, 1/2],

  is told as the bytes round(...) and the exponent e, the least for which they fit. Dithering makes
  the error 0 on average, whatever s_i is; as a program comes to rest, differences and with them
  errors go to 0. The first message is in full.

A user takes part with what it told: where the inner program compares x_i with its neighbors', it is
given their numbers plus s_i - t_i, so that it compares t_i with them and two neighbors see the same
difference. On top of it, a channel may add Gaussian noise to every number told, lose each letter
with a probability (its receiver goes on as if the sender agreed with it), and users' gradients may
be noisy. All of it is drawn from a seed, by user and exchange, alike on every runtime. Votes on
stopping, and the maxima of `NeighborSum.most`, travel unharmed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust.programs.protocol import HeardSum, HeardValues, NeighborSum, NeighborValues, Program
from peerclust.types import Array
from peerclust.users import Users

MESSAGE_DTYPES = ("float64", "float32", "float16", "8-bit")

# A byte holds -127 to 127; dither adds up to one half.
_LARGEST_CODE = 126

# Of streams of random numbers, so that no two things use one: programs' own begin at 0.
_DITHER, _NOISE, _DROPS, _GRADIENT = (np.int64(k) << 40 for k in range(1, 5))

# What goes with 8-bit numbers: an exponent, and a vote in four bytes, as s need not count beyond
# the diameter and R is no further away. A frame of `runtimes.network` has a header of its own.
COMPACT_BYTES = 5
_BYTES = {"float32": 4, "float16": 2}


@dataclass(frozen=True, eq=False)
class LossyState:
    """The inner program's state, what its users told, (u, ...), and how that was coded.

    `codes` are int8, (u, ...), and `exponents` (u,) of 8-bit messages. `exchange` counts exchanges.
    """

    inner: Any
    told: Array
    codes: NDArray[np.int8]
    exponents: NDArray[np.int16]
    exchange: int

    @property
    def x(self) -> Array:
        """The centers of the block's users, (u, K, d)."""
        return np.asarray(self.inner.x)

    @property
    def round(self) -> int:
        """How many rounds are done."""
        return int(self.inner.round)

    @property
    def update(self) -> int:
        """How many exchanges of the present round are done."""
        return int(self.inner.update)

    @property
    def residual(self) -> Array:
        """That of the inner program."""
        return np.asarray(self.inner.residual)


@dataclass(frozen=True)
class Lossy:
    """A program whose messages and gradients are inexact.

    Parameters
    ----------
    program : Program
        One that says `NeighborSum` or `NeighborValues`.
    form : "float64", "float32", "float16" or "8-bit"
        How numbers travel.
    noise : float
        The standard deviation of what the channel adds to each number.
    drop : float
        The probability with which a letter is lost.
    gradient_noise : float
        The standard deviation of what is added to each number of a user's gradient, times the
        user's weight.
    seed : int
        Of all that is random.

    Examples
    --------
    >>> from peerclust.graphs import ring
    >>> from peerclust.programs.dgc import DGC
    >>> from peerclust.runtimes import Simulator
    >>> users = Users(np.arange(10.0)[:, None], np.arange(0, 11, 2))
    >>> program = Lossy(DGC(rho=5.0, alpha=0.2), dtype="8-bit")
    >>> run = Simulator(ring(5)).run(program, users, np.zeros((5, 1, 1)), rounds=200)
    >>> run.x.mean().round(6), run.traffic.bytes
    (np.float64(4.5), 12180)
    """

    program: Program
    dtype: str = "float64"
    noise: float = 0.0
    drop: float = 0.0
    gradient_noise: float = 0.0
    seed: int = 0

    def max_overshoot(self, condition: float) -> float:
        """Give how far numbers told may leave the box of rows and starts, in widths of it.

        Dither and rounding carry them a little further than centers go; a width is generous.
        """
        inner: Any = self.program
        return float(inner.max_overshoot(condition)) + (self.dtype != "float64")

    def __getattr__(self, name: str) -> Any:
        # What the inner program declares else (`rho`) holds of this one.
        if name.startswith("__") or name == "program":
            raise AttributeError(name)
        return getattr(self.program, name)

    def start(self, users: Users, x: Array) -> LossyState:
        """Start the inner program."""
        inner = self.program.start(users, x)
        told = self._round(self._said(inner).x)
        u = len(told)
        return LossyState(inner, told, np.zeros(told.shape, np.int8), np.zeros(u, np.int16), 0)

    def say(self, state: LossyState) -> NeighborSum:
        """Tell what the inner program says, in the form that travels."""
        said = self._said(state.inner)
        letters = self.drop > 0 or self.noise > 0 or isinstance(said, NeighborValues)
        kind = NeighborValues if letters else NeighborSum
        compact = self.dtype == "8-bit" and state.exchange > 0
        codes = (state.codes, state.exponents) if compact else None
        return kind(state.told, said.extra_max, self._size(said, compact), codes)

    def hear(self, users: Users, state: LossyState, heard: HeardSum) -> LossyState:
        """Let the inner program hear what came through."""
        said, at = self._said(state.inner).x, state.exchange
        if self.noise > 0 or self.drop > 0:
            heard = self._channel(users, heard, state.told, at)
        off = said - state.told
        heard = replace(heard, total=heard.total + heard.degree * off)
        if isinstance(heard, HeardValues):
            own = np.repeat(off, np.diff(heard.offsets), axis=0)
            heard = replace(heard, each=heard.each + own)
        noisy: Any = users
        if self.gradient_noise > 0:
            noisy = _Noisy(users, lambda i: self._draw(users, i, _GRADIENT, at), self)
        inner = self.program.hear(noisy, state.inner, heard)
        return self._code(users, state, inner)

    def _said(self, inner: Any) -> NeighborSum:
        said = self.program.say(inner)
        if not isinstance(said, NeighborSum):
            raise TypeError("Inexact must be given a program that says Sum or Each.")
        return said

    def _round(self, x: Array) -> Array:
        return x.astype(self.dtype).astype(np.float64) if self.dtype in _BYTES else x

    def _size(self, said: NeighborSum, compact: bool) -> int | None:
        most = 0 if said.extra_max is None else said.extra_max[0].nbytes
        if compact:
            return int(said.x[0].size) + most + COMPACT_BYTES
        if self.dtype in _BYTES:
            return int(said.x[0].size) * _BYTES[self.dtype] + most + 16
        return None

    def _draw(self, users: Users, i: int, stream: np.int64, at: int) -> np.random.Generator:
        return users.generator(i, self.seed, int(stream) + at)

    def _code(self, users: Users, state: LossyState, inner: Any) -> LossyState:
        """Give the state in which the users tell what the inner program says now."""
        s, at = self._said(inner).x, state.exchange + 1
        if self.dtype != "8-bit":
            return LossyState(inner, self._round(s), state.codes, state.exponents, at)
        gap = s - state.told
        _, exponents = np.frexp(np.abs(gap).reshape(len(gap), -1).max(axis=1) / _LARGEST_CODE)
        # Below this differences are rounding, and an exponent has a byte.
        exponents = np.clip(exponents, -120, 120)
        unit = np.ldexp(1.0, exponents).reshape((-1,) + (1,) * (gap.ndim - 1))
        dither = np.stack(
            [self._draw(users, i, _DITHER, at).random(gap.shape[1:]) for i in range(users.m)]
        )
        codes = np.clip(np.round(gap / unit + dither - 0.5), -127, 127)
        told = state.told + codes * unit
        return LossyState(inner, told, codes.astype(np.int8), exponents.astype(np.int16), at)

    def _channel(self, users: Users, heard: HeardSum, told: Array, at: int) -> HeardSum:
        """Give what came through: noise on every number, and some letters lost.

        A lost letter is taken for one that says what its receiver told.
        """
        assert isinstance(heard, HeardValues)
        each, offsets = heard.each.copy(), heard.offsets
        for i in range(users.m):
            here = slice(offsets[i], offsets[i + 1])
            if self.noise > 0:
                noise = self._draw(users, i, _NOISE, at).normal(size=each[here].shape)
                each[here] += self.noise * noise
            lost = self._draw(users, i, _DROPS, at).random(offsets[i + 1] - offsets[i]) < self.drop
            each[here][lost] = told[i]
        total = np.stack(
            [_add(each[offsets[i] : offsets[i + 1]], told[i].shape) for i in range(users.m)]
        )
        return replace(heard, total=total, each=each)


def _add(letters: Array, shape: tuple[int, ...]) -> Array:
    total = np.zeros(shape)
    for letter in letters:
        total += letter
    return total


class _Noisy:
    """Users whose gradients are noisy."""

    all_small = None

    def __init__(self, users: Users, draw: Callable[[int], np.random.Generator], of: Lossy) -> None:
        self._users, self._draw, self._size = users, draw, of.gradient_noise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._users, name)

    def gradient(self, x: Array) -> Array:
        """Give the users' gradients, noise added."""
        noise = np.stack([self._draw(i).normal(size=x.shape[1:]) for i in range(self._users.m)])
        return (
            self._users.gradient(x) + self._size * self._users.total_weights[:, None, None] * noise
        )

    def gradient_terms(self, x: Array) -> tuple[Array, Array]:
        """Give them as `Users.gradient_terms` does."""
        return np.zeros(x.shape[:2]), -self.gradient(x)
