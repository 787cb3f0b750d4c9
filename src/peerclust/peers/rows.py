"""The rows of sites, and the users that they become in the agreed scale."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array
from peerclust.clustering.scaling import Scale
from peerclust.peers.configuration import make_bounds, make_box, make_scale, public_box
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.messages import Agreed
from peerclust.users import Users


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
            bounds = make_bounds(contract, *public_box(contract))
            return self.scaled(contract, None).with_bounds(bounds)
        users = self.scaled(contract, make_scale(contract, agreed), agreed.delta)
        return users.with_bounds(make_box(contract, agreed))

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
