"""Checks of a site's rows, and of what others agreed on, by what is public about all sites."""

from __future__ import annotations

import numpy as np

from peerclust.errors import SiteDataError
from peerclust.peers.configuration import make_scale, public_box
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.contract_validation import LARGEST
from peerclust.runtimes.network.messages import Agreed
from peerclust.tables import Table
from peerclust.text import shorten, show
from peerclust.users import Users

# The total weight of all sites may be rounded by this fraction of it.
WEIGHT_ROUNDING = 1e-9


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
    H = beta * contract.make_distance().largest * agreed.W * (1 + WEIGHT_ROUNDING)
    if contract.max_weight * (1 + WEIGHT_ROUNDING) < agreed.W:
        return f"the total weight {agreed.W:g} of a site, above max_weight"
    if (
        not agreed.W / (1 + WEIGHT_ROUNDING)
        <= agreed.weight
        <= m * agreed.W * (1 + WEIGHT_ROUNDING)
    ):
        return f"the total weight {agreed.weight:g} of {m} sites of at most {agreed.W:g}"
    if max(agreed.curvature) > H or max(agreed.evenness) > 1:
        return "curvatures that no rows have"
    low, high = public_box(contract, make_scale(contract, agreed))
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


def check_fits(agreed: Agreed, users: Users) -> None:
    """Raise if rows that were not part of the set-up do not fit what was agreed."""
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
