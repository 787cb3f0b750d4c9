"""The files of a site's result, written together when its run is over.

`site_directory` lists them, among all files of a site.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from peerclust.arrays import Array
from peerclust.clustering.result import Certificate, Status
from peerclust.clustering.solution import Solution
from peerclust.errors import DataError
from peerclust.files import read_private, write_durably
from peerclust.log_events import LogEvent
from peerclust.peers.configuration import make_scale
from peerclust.peers.site_directory import SiteDirectory
from peerclust.peers.verdict import Verdict
from peerclust.report.result_directory import (
    center_columns,
    count,
    list_versions,
    write_files,
)
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.messages import Agreed, SignedRecord, pack
from peerclust.runtimes.network.record import digest
from peerclust.tables import Table
from peerclust.text import sanitize
from peerclust.users import Users

# The content of certificate.json.
Record = dict[str, object]


def write_result(
    directory: SiteDirectory,
    contract: Contract,
    me: str,
    table: Table,
    *,
    verdict: Verdict,
    signed: SignedRecord,
    users: Users,
    x: Array,
    traffic: Mapping[str, Mapping[str, int]],
) -> Record:
    """Write the result at the centers x, certificate.json last; return its content."""
    agreed = signed.record.agreed
    # Not those of the last assignment, which may belong to other centers.
    labels, _ = users.nearest(x)
    scale = make_scale(contract, agreed)
    centers = x if scale is None else scale.back(x)
    solution = Solution(
        centers=centers[None],
        labels=[labels],
        status=verdict.status,
        certificate=_certificate(verdict, agreed),
        rho=agreed.rho if contract.spec.takes("rho") else None,
        alpha=agreed.alpha or None,
        why={"solver": "agreed"},
        solver=contract.solver,
        loss=users.loss,
        distance=users.distance,
        scale=scale,
        feature_names=tuple(contract.features),
    )
    scores = solution.outlier_scores(table.rows) if len(table.rows) else np.empty(0)
    record: Record = {
        "name": me,
        **verdict.as_dict(),
        "features": list(contract.features),
        "cluster_sizes": count(labels, len(x)),
        "rows": len(table.rows),
        "network_digest": contract.digest.hex(),
        "run": signed.record.run.hex(),
        "record": digest(signed.record).hex(),
        "agreed": {name: getattr(agreed, name) for name in agreed.__struct_fields__},
        "traffic": traffic,
        "settings": contract.settings(),
        "versions": list_versions(),
    }
    write_durably(directory.record, pack(signed))
    write_files(
        directory.path,
        {
            "centers.csv": center_columns(contract.features, centers),
            "labels.csv": {"row": table.row, "label": labels, "outlier_score": scores},
            "solution.npz": solution,
            "certificate.json": record,
        },
    )
    try:
        directory.checkpoint.unlink(missing_ok=True)
    except OSError as error:
        # One that is left does no harm.
        why = f"The checkpoint {directory.checkpoint} cannot be removed: {error.strerror}."
        directory.log(LogEvent("file-failed", why, file=str(directory.checkpoint)))
    return record


def _certificate(verdict: Verdict, agreed: Agreed) -> Certificate:
    """Return the certificate as far as one site knows it; what it cannot know is NaN."""
    unknown = {name: float("nan") for name in Certificate.__dataclass_fields__}
    known = {
        "residual": verdict.largest_residual,
        "disagreement": verdict.disagreement * agreed.spread,
        "disagreement_exact": False,
        "cost": verdict.cost,
        "pooled_cost": verdict.pooled_cost,
        "pooled_residual": verdict.pooled_residual,
        "rounds": verdict.rounds - verdict.search_rounds,
        "search_rounds": verdict.search_rounds,
        "moves": verdict.moves,
        "moves_kept": verdict.moves_kept,
        "spread": agreed.spread,
        "largest_weight": agreed.W,
    }
    return Certificate(**unknown | known)  # type: ignore[arg-type]


def read_status(directory: Path) -> Status | None:
    """Return how the run in a directory ended; None if it has no result."""
    path = directory / "certificate.json"
    try:
        status = json.loads(read_private(path))["status"]
        # The addition is an error if one is not text.
        return Status(sanitize("" + status["name"]), sanitize("" + status["advice"]))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise DataError(f"{path} must be a certificate of peer run. Move it away.") from None
