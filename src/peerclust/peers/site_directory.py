"""The directory of one site: its files during a run, and its result.

- log.txt: what happened, one line per event;
- journal.jsonl: what a replay needs (see `runtimes.network.journal`);
- checkpoint: the state to resume from; removed once there is a result;
- lock: locked while a process runs here; status.sock: where it answers `peer status`;
- centers.csv: this site's centers, in the rows' own units;
- labels.csv: row, label and outlier score of each row;
- certificate.json: how it ended, the rounds each peer contributed to, what was agreed;
- solution.npz: for `peerclust predict`.
"""

from __future__ import annotations

import fcntl
import hashlib
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import IO

import numpy as np

from peerclust.arrays import Array
from peerclust.clustering.result import Certificate
from peerclust.clustering.solution import Solution
from peerclust.errors import ParameterError
from peerclust.peers import setup
from peerclust.peers.verdict import Verdict
from peerclust.report.result_directory import (
    center_columns,
    count,
    list_versions,
    write_files,
)
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.journal import Journal
from peerclust.runtimes.network.messages import Agreed
from peerclust.tables import Table
from peerclust.text import LONGEST_LINE, sanitize
from peerclust.users import Users

# The content of certificate.json.
Record = dict[str, object]

RESULT = ("centers.csv", "labels.csv", "certificate.json", "solution.npz")


def status_socket(directory: Path) -> Path:
    """Return the socket at which a peer that runs in this directory answers `peer status`."""
    path = directory.resolve() / "status.sock"
    if len(str(path).encode()) < 100:
        return path
    # The path of a socket has at most 107 bytes.
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"peerclust-{digest}.sock"


class SiteDirectory:
    """A site's directory, locked by one process at a time."""

    def __init__(
        self, path: Path, *, force: bool = False, on_log: Callable[[str], None] = lambda _: None
    ) -> None:
        self.path, self._on_log = path, on_log
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ParameterError(f"{path} cannot be a directory: {error.strerror}.") from None
        self._lock = self._take_lock()
        if force:
            self._clear()
        if (path / "certificate.json").exists():
            self._lock.close()
            raise ParameterError(
                f"`--out` of peer run must not contain a result yet, unless --force. Got {path}."
            )
        self._log, self._writing = (path / "log.txt").open("a", encoding="utf-8"), Lock()
        self.journal = Journal(path / "journal.jsonl", self.log)
        self.checkpoint = path / "checkpoint"
        self.status_socket = status_socket(path)

    def _take_lock(self) -> IO[str]:
        lock = (self.path / "lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise ParameterError(
                f"A peer is already running in {self.path}; `peerclust peer status {self.path}`"
                " shows its status."
            ) from None
        return lock

    def _clear(self) -> None:
        for name in (*RESULT, "journal.jsonl", "checkpoint", "log.txt"):
            (self.path / name).unlink(missing_ok=True)

    def log(self, line: str, *, echo: bool = True) -> None:
        """Write a line to the log, and echo it; a full disk does not stop a run."""
        line = sanitize(line, longest=LONGEST_LINE)
        if echo:
            self._on_log(line)
        # A run that computes in a thread logs from there, too.
        with self._writing, suppress(OSError):
            self._log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}\n")
            self._log.flush()

    def close(self) -> None:
        """Close the log and release the lock."""
        self.status_socket.unlink(missing_ok=True)
        self._log.close()
        self._lock.close()

    def write_result(
        self,
        contract: Contract,
        me: str,
        table: Table,
        *,
        verdict: Verdict,
        agreed: Agreed,
        users: Users,
        x: Array,
        traffic: Mapping[str, Mapping[str, int]],
    ) -> Record:
        """Write the result at the centers x, certificate.json last; return the content of that."""
        # Not those of the last assignment, which may belong to other centers.
        labels, _ = users.nearest(x)
        scale = setup.make_scale(contract, agreed)
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
            "agreed": {name: getattr(agreed, name) for name in agreed.__struct_fields__},
            "traffic": traffic,
            "settings": contract.settings(),
            "versions": list_versions(),
        }
        write_files(
            self.path,
            {
                "centers.csv": center_columns(contract.features, centers),
                "labels.csv": {"row": table.row, "label": labels, "outlier_score": scores},
                "solution.npz": solution,
                "certificate.json": record,
            },
        )
        self.checkpoint.unlink(missing_ok=True)
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
