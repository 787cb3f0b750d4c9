"""Any program over links that carry less than it says: rounded, quantized, noisy or lost messages.

`Lossy(program, ...)` is a program itself. What the inner program says, s_i, is sent as t_i:

- "float32" and "float16": each number is rounded;
- "8-bit": one byte per number. Sender and receivers store t_i of the previous exchange, and

      t_i <- t_i + 2^e round((s_i - t_i) / 2^e + dither),    dither uniform in [-1/2, 1/2],

  is sent as the bytes round(...) and the exponent e, the smallest for which they fit. Dithering
  makes the error 0 on average, whatever s_i is. As a program comes to rest, the differences go to
  0, and the errors with them. The first message is sent in full.

A user counts with what it sent. Where the inner program compares x_i with its neighbors' centers,
it is given their numbers plus s_i - t_i. So it compares t_i with them, and two neighbors see the
same difference. In addition, a channel may add Gaussian noise to every number sent and may drop
each message with some probability; its receiver then proceeds as if the sender agreed with it.
Users' gradients may be noisy, too. All of this is drawn from a seed, by user and exchange, alike on
every runtime. Votes on stopping, and the maxima of `NeighborSum.extra_max`, arrive unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array
from peerclust.programs.protocol import (
    AnyProgram,
    HeardSum,
    HeardValues,
    NeighborSum,
    NeighborValues,
    State,
    ToNeighbors,
)
from peerclust.users import Users

MESSAGE_DTYPES = ("float64", "float32", "float16", "8-bit")

# A byte holds -127 to 127; dither adds up to one half.
_LARGEST_CODE = 126

# Offsets of the random streams, so that no two uses share one: those of programs start at 0.
_DITHER, _NOISE, _DROPS, _GRADIENT = (np.int64(k) << 40 for k in range(1, 5))

# What goes with 8-bit numbers: an exponent, and a vote in four bytes, as s need not count beyond
# the diameter and R is at most a diameter away. A frame of `runtimes.network` adds its own header.
COMPACT_BYTES = 5
_BYTES = {"float32": 4, "float16": 2}


@dataclass(frozen=True, eq=False, kw_only=True)
class LossyState(State):
    """The inner program's state, the numbers that its users send, (u, ...), and their codes.

    `codes` are int8, (u, ...), and `exponents` (u,) of 8-bit messages. `exchange` counts exchanges.
    """

    inner: State
    sent: Array
    codes: NDArray[np.int8]
    exponents: NDArray[np.int16]
    exchange: int

    @classmethod
    def around(
        cls,
        inner: State,
        sent: Array,
        codes: NDArray[np.int8],
        exponents: NDArray[np.int16],
        exchange: int,
    ) -> LossyState:
        """Return the state whose centers, counters, residual and assignment are the inner ones."""
        return cls(
            x=inner.x,
            round=inner.round,
            update=inner.update,
            residual=inner.residual,
            stiffness=inner.stiffness,
            assignment=inner.assignment,
            inner=inner,
            sent=sent,
            codes=codes,
            exponents=exponents,
            exchange=exchange,
        )

    def attach(self, users: Users) -> Self:
        """Return the state, as read from a checkpoint, of these users: they assign again."""
        inner = self.inner.attach(users)
        return replace(self, inner=inner, assignment=inner.assignment)

    def at_round(self, round_: int) -> Self:
        """Return the state as of the start of a round."""
        return replace(self, inner=self.inner.at_round(round_), round=round_, update=0)

    def with_stiffness(self, stiffness: Array) -> Self:
        """Return the state with the stiffness, (u, K), on which its users have agreed."""
        return replace(self, inner=self.inner.with_stiffness(stiffness), stiffness=stiffness)


@dataclass(frozen=True)
class Lossy:
    """A program whose messages and gradients are inexact.

    Parameters
    ----------
    program : Program
        The inner program, which says `NeighborSum` or `NeighborValues`.
    dtype : "float64", "float32", "float16" or "8-bit"
        The number format of messages.
    noise : float
        The standard deviation of the noise that the channel adds to each number.
    drop : float
        The probability with which a message is lost.
    gradient_noise : float
        The standard deviation of the noise in each number of a user's gradient, divided by the
        user's weight.
    seed : int
        The seed of all that is random.

    Examples
    --------
    >>> from peerclust.graphs import ring
    >>> from peerclust.programs.dgc import DGC
    >>> from peerclust.runtimes import Simulator, run_program
    >>> users = Users(np.arange(10.0)[:, None], np.arange(0, 11, 2))
    >>> program = Lossy(DGC(rho=5.0, alpha=0.2), dtype="8-bit")
    >>> run = run_program(Simulator(ring(5)), program, users, np.zeros((5, 1, 1)), rounds=200)
    >>> run.x.mean().round(6), run.traffic.bytes
    (np.float64(4.5), 12180)
    """

    program: AnyProgram
    dtype: str = "float64"
    noise: float = 0.0
    drop: float = 0.0
    gradient_noise: float = 0.0
    seed: int = 0

    def start(self, users: Users, x: Array) -> LossyState:
        """Start the inner program."""
        inner = self.program.start(users, x)
        sent = self._round(self._said(inner).x)
        codes, exponents = np.zeros(sent.shape, np.int8), np.zeros(len(sent), np.int16)
        return LossyState.around(inner, sent, codes, exponents, 0)

    def say(self, state: LossyState) -> ToNeighbors[HeardSum]:
        """Send what the inner program says, encoded."""
        said = self._said(state.inner)
        one_by_one = self.drop > 0 or self.noise > 0 or isinstance(said, NeighborValues)
        kind = NeighborValues if one_by_one else NeighborSum
        compact = self.dtype == "8-bit" and state.exchange > 0
        codes = (state.codes, state.exponents) if compact else None
        return kind(state.sent, said.extra_max, self._size(said, compact), codes)

    def hear(self, users: Users, state: LossyState, heard: HeardSum) -> LossyState:
        """Let the inner program hear what arrived."""
        at = state.exchange
        if self.noise > 0 or self.drop > 0:
            heard = self._channel(users, heard, state.sent, at)
        heard = _shift(heard, self._said(state.inner).x - state.sent)
        if self.gradient_noise > 0:
            scale = self.gradient_noise * users.total_weights[:, None, None]
            draw = partial(self._draw, users, stream=_GRADIENT, at=at)
            noisy = users.with_noise(
                lambda shape: (
                    scale * np.stack([draw(i).normal(size=shape[1:]) for i in range(users.m)])
                )
            )
            inner = self.program.hear(noisy, state.inner, heard)
        else:
            inner = self.program.hear(users, state.inner, heard)
        return self._encode(users, state, inner)

    def _said(self, inner: State) -> ToNeighbors[HeardSum]:
        said = self.program.say(inner)
        if not isinstance(said, ToNeighbors):
            raise TypeError(
                "Lossy must be given a program that says NeighborSum or NeighborValues."
            )
        return said

    def _round(self, x: Array) -> Array:
        return x.astype(self.dtype).astype(np.float64) if self.dtype in _BYTES else x

    def _size(self, said: ToNeighbors[HeardSum], compact: bool) -> int | None:
        extra = 0 if said.extra_max is None else said.extra_max[0].nbytes
        if compact:
            return int(said.x[0].size) + extra + COMPACT_BYTES
        if self.dtype in _BYTES:
            return int(said.x[0].size) * _BYTES[self.dtype] + extra + 16
        return None

    def _draw(self, users: Users, i: int, stream: np.int64, at: int) -> np.random.Generator:
        return users.generator(i, self.seed, int(stream) + at)

    def _encode(self, users: Users, state: LossyState, inner: State) -> LossyState:
        """Return the state in which the users send what the inner program says now."""
        s, at = self._said(inner).x, state.exchange + 1
        if self.dtype != "8-bit":
            return LossyState.around(inner, self._round(s), state.codes, state.exponents, at)
        gap = s - state.sent
        _, exponents = np.frexp(np.abs(gap).reshape(len(gap), -1).max(axis=1) / _LARGEST_CODE)
        # Smaller differences are rounding errors, and an exponent must fit into one byte.
        exponents = np.clip(exponents, -120, 120)
        unit = np.ldexp(1.0, exponents).reshape((-1,) + (1,) * (gap.ndim - 1))
        dither = np.stack(
            [self._draw(users, i, _DITHER, at).random(gap.shape[1:]) for i in range(users.m)]
        )
        codes = np.clip(np.round(gap / unit + dither - 0.5), -127, 127)
        sent = state.sent + codes * unit
        return LossyState.around(inner, sent, codes.astype(np.int8), exponents.astype(np.int16), at)

    def _channel(self, users: Users, heard: HeardSum, sent: Array, at: int) -> HeardSum:
        """Return what arrived: with noise on every number, and without the lost messages.

        A lost message is replaced by what its receiver sent.
        """
        assert isinstance(heard, HeardValues)
        values, offsets = heard.values.copy(), heard.offsets
        for i in range(users.m):
            here = slice(offsets[i], offsets[i + 1])
            if self.noise > 0:
                noise = self._draw(users, i, _NOISE, at).normal(size=values[here].shape)
                values[here] += self.noise * noise
            lost = self._draw(users, i, _DROPS, at).random(offsets[i + 1] - offsets[i]) < self.drop
            values[here][lost] = sent[i]
        total = np.stack(
            [_add(values[offsets[i] : offsets[i + 1]], sent[i].shape) for i in range(users.m)]
        )
        return HeardValues(total, heard.degree, heard.extra_max, values=values, offsets=offsets)


def _add(messages: Array, shape: tuple[int, ...]) -> Array:
    total = np.zeros(shape)
    for message in messages:
        total += message
    return total


def _shift(heard: HeardSum, off: Array) -> HeardSum:
    """Return what was heard with off[i], (u, ...), added to every message to user i."""
    total = heard.total + heard.degree * off
    if not isinstance(heard, HeardValues):
        return HeardSum(total, heard.degree, heard.extra_max)
    values = heard.values + np.repeat(off, np.diff(heard.offsets), axis=0)
    return HeardValues(total, heard.degree, heard.extra_max, values=values, offsets=heard.offsets)
