"""The programs that must end the same on every runtime; add a line for a new program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from peerclust.arrays import Array
from peerclust.programs.accelerated import Accelerated
from peerclust.programs.admm import ADMM
from peerclust.programs.certificate import Certify
from peerclust.programs.consensus import Maximum, Total
from peerclust.programs.dgc import DGC
from peerclust.programs.draw import Draw
from peerclust.programs.exact import Exact
from peerclust.programs.group_lasso import GroupLasso
from peerclust.programs.lossy import Lossy
from peerclust.programs.lsp2p import LSP2P
from peerclust.programs.nk_means import NKMeans
from peerclust.programs.protocol import (
    UNKNOWN,
    AnyProgram,
    HeardMax,
    HeardSum,
    NeighborSum,
    NetworkMax,
    State,
)
from peerclust.programs.quantile import Quantile
from peerclust.testing.cases import Case
from peerclust.users import Users


@dataclass(frozen=True)
class Trial:
    """A program to check: made for each case, from each user's own centers or from two common ones.

    Some cases reach the threshold before the last round, others do not; with one below zero the
    users never stop. `rounds` may depend on the case.
    """

    make: Callable[[Case], AnyProgram]
    common_start: bool = False
    rounds: int | Callable[[Case], int] = 100
    threshold: float = 20.0

    def start(self, case: Case) -> Array:
        """Return the start, (13, k, 3)."""
        x = case.start()
        return np.repeat(x[:1, :2], len(x), axis=0) if self.common_start else x

    def max_rounds(self, case: Case) -> int:
        """Return the maximum number of rounds for a case."""
        return self.rounds if isinstance(self.rounds, int) else self.rounds(case)


def _with_dtype(dtype: str) -> Trial:
    return Trial(lambda case: Lossy(DGC(rho=20.0, alpha=case.step(20.0)), dtype=dtype))


def _certify(case: Case) -> Certify:
    return Certify(case.graph.m, rho=20.0, c=0.5, lambda_2=case.graph.lambda_2.value)


@dataclass(frozen=True)
class _MaximumFirst:
    """DGC whose rounds start with a maximum over all users, which is not used."""

    program: DGC

    def start(self, users: Users, x: Array) -> State:
        """Start without a residual."""
        return replace(self.program.start(users, x), residual=np.full(users.m, UNKNOWN))

    def say(self, state: State) -> NeighborSum | NetworkMax:
        """Say the centers' magnitudes to all users, then the centers to the neighbors."""
        return NetworkMax(np.abs(state.x)) if state.update == 0 else NeighborSum(state.x)

    def hear(self, users: Users, state: State, heard: HeardSum | HeardMax) -> State:
        """Move the centers in the second exchange."""
        if isinstance(heard, HeardMax):
            return replace(state, update=1)
        return self.program.hear(users, replace(state, update=0), heard)


PROGRAMS = {
    "dgc": Trial(lambda case: DGC(rho=20.0, alpha=case.step(20.0))),
    "dgc, B = 3, c = 0.5": Trial(
        lambda case: DGC(rho=20.0, alpha=case.step(20.0), B=3, consensus_factor=0.5)
    ),
    "accelerated": Trial(lambda _: Accelerated(rho=20.0)),
    "accelerated, one step": Trial(lambda case: Accelerated(rho=20.0, alpha=case.step(20.0))),
    "accelerated, B = 2": Trial(lambda case: Accelerated(rho=20.0, alpha=case.step(20.0), B=2)),
    # With a smaller c the multipliers carry centers out of the domain of the KL divergence.
    "admm": Trial(lambda case: ADMM(c=50.0, D=int(case.graph.diameter.value))),
    "admm, as published": Trial(lambda _: ADMM.plain(c=5.0)),
    "group lasso": Trial(lambda _: GroupLasso(rho=40.0, c=20.0)),
    "exact": Trial(lambda case: Exact(case.graph.m)),
    "certificate": Trial(
        lambda case: _certify(case),
        rounds=lambda case: _certify(case).rounds,
        threshold=-1.0,
    ),
    **{f"dgc in {dtype}": _with_dtype(dtype) for dtype in ("float32", "float16", "8-bit")},
    "admm in 8-bit": Trial(lambda _: Lossy(ADMM(c=50.0, D=12), dtype="8-bit"), rounds=40),
    "group lasso, drops": Trial(lambda _: Lossy(GroupLasso(40.0, 20.0), drop=0.2), rounds=20),
    "dgc, all noise": Trial(
        lambda case: Lossy(
            DGC(rho=20.0, alpha=case.step(20.0)), noise=1e-3, drop=0.1, gradient_noise=1e-3, seed=5
        ),
        rounds=30,
    ),
    "nk-means": Trial(lambda case: NKMeans(rho=20.0, alpha=case.relative_step(20.0))),
    "lsp2p": Trial(lambda _: LSP2P()),
    "draw": Trial(lambda _: Draw(seed=3, step=1, n=5), True, 2, -1.0),
    "quantile": Trial(lambda case: Quantile(case.graph.m, (0.7,)), True, 12, -1.0),
    "quantiles of features": Trial(
        lambda case: Quantile(case.graph.m, (0.25, 0.5), lambda users, _: np.asarray(users.rows)),
        rounds=12,
        threshold=-1.0,
    ),
    "total": Trial(lambda case: Total(case.graph.m), rounds=2, threshold=-1.0),
    "total of bounded numbers": Trial(
        lambda case: Total(case.graph.m, bound=64.0), rounds=1, threshold=-1.0
    ),
    "dgc, a maximum first": Trial(
        lambda case: _MaximumFirst(DGC(rho=20.0, alpha=case.step(20.0))), rounds=60, threshold=40.0
    ),
    "maximum": Trial(lambda _: Maximum(), rounds=1, threshold=-1.0),
}
