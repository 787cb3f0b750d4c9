"""The result of a site's run, as it is kept in a checkpoint until it is written."""

from __future__ import annotations

import base64
from dataclasses import asdict, dataclass

import numpy as np

from peerclust.arrays import Array
from peerclust.errors import WireError
from peerclust.peers.rows import Rows
from peerclust.peers.site_directory import SiteDirectory
from peerclust.peers.verdict import Verdict
from peerclust.runtimes.network import checkpoint
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.messages import SignedRecord, pack, unpack, unpack_centers
from peerclust.users import Users

# Bytes sent to, and heard from, each neighbor.
Traffic = dict[str, dict[str, int]]


@dataclass(frozen=True, eq=False)
class SiteResult:
    """Where a site's run ended: centers (K, d) in the agreed scale, and how to judge them."""

    verdict: Verdict
    signed: SignedRecord
    users: Users
    x: Array
    traffic: Traffic

    def pack_end(self) -> bytes:
        """Return what a checkpoint says of the end of the run."""
        signed = base64.b64encode(pack(self.signed)).decode()
        return checkpoint.pack_end(
            {"verdict": asdict(self.verdict), "traffic": self.traffic, "signed": signed}
        )


@dataclass(frozen=True, eq=False)
class _End:
    """How a run ended, in a checkpoint."""

    verdict: Verdict
    traffic: Traffic
    signed: str


def load_result(contract: Contract, rows: Rows, directory: SiteDirectory) -> SiteResult | None:
    """Return the result of a run that is over, if it could not be written then."""
    saved = directory.load_checkpoint(contract, rows.digest)
    if saved is None or not saved.end:
        return None
    try:
        end = checkpoint.unpack_end(saved.end, _End)
        signed = unpack(base64.b64decode(end.signed, validate=True), SignedRecord)
    except (ValueError, WireError):
        raise checkpoint.bad(directory.checkpoint, "say how its run ended") from None
    with np.errstate(all="ignore"):
        users = rows.users(contract, saved.agreed)
    if not np.isfinite(users.rows).all():
        raise checkpoint.bad(directory.checkpoint, "have a scale that fits the rows")
    x = unpack_centers(saved.centers, contract.n_clusters)
    directory.keeps_result = True
    return SiteResult(end.verdict, signed, users, x, end.traffic)
