"""The directory of one site: its files during a run, and its result (see `result_files`).

- log.txt: what happened, one line per event; log.jsonl if it is written as JSON;
- journal.jsonl: what a replay needs (see `runtimes.network.journal`);
- checkpoint: the state to resume from, or the end from which a result can still be written; removed
  once there is a result;
- lock: locked while a process runs here; status.sock: where it answers `peer status`;
- centers.csv: this site's centers, in the rows' own units;
- labels.csv: row, label and outlier score of each row;
- evidence.json: statements with which peers contradicted themselves, if any did;
- record: the joint record of the run, with its signatures, which `peer serve` serves;
- certificate.json: how it ended, the rounds each peer contributed to, what was agreed;
- solution.npz: for `peerclust predict`.

Only this user can write to it, its files have mode 600, and none is opened through a link.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

import numpy as np

from peerclust.errors import DataError, ParameterError, WireError
from peerclust.files import (
    explain,
    make_private_directory,
    open_private,
    read_private,
    write_all,
    write_durably,
)
from peerclust.log_events import LogEvent, json_line, make_printable, text_line
from peerclust.peers import configuration
from peerclust.runtimes.network import checkpoint
from peerclust.runtimes.network.checkpoint import Checkpoint
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.journal import Journal
from peerclust.runtimes.network.messages import (
    Evidence,
    SignedRecord,
    to_json,
    unpack,
    unpack_centers,
)

RESULT = ("centers.csv", "labels.csv", "certificate.json", "solution.npz", "record")
_OTHERS = ("journal.jsonl", "checkpoint", "evidence.json", "log.txt", "log.jsonl")


def status_socket(directory: Path) -> Path:
    """Return the socket at which a peer that runs in this directory answers `peer status`."""
    path = directory.resolve() / "status.sock"
    if len(str(path).encode()) < 100:
        return path
    # The path of a socket has at most 107 bytes.
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"peerclust-{digest}.sock"


class SiteDirectory:
    """A site's directory, locked by one process at a time.

    One that `serves` needs the result of a run that is over, and writes nothing but the log.
    """

    def __init__(
        self,
        path: Path,
        *,
        force: bool = False,
        serves: bool = False,
        log_format: str = "text",
        on_log: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.path, self._on_log = path, on_log
        self.record = path / "record"
        if serves and not self.record.exists():
            raise ParameterError(
                "`--out` of peer serve must be the directory of a peer run that has ended. Got"
                f" {path}, which has no record."
            )
        make_private_directory(path)
        # Until `close`, all files of this process are private, also those that libraries write.
        self._umask = os.umask(0o077)
        self._lock = self._log = -1
        self._writing = Lock()
        self._format = json_line if log_format == "json" else text_line
        self.checkpoint = path / "checkpoint"
        # Whether the checkpoint has the result of a run that is over.
        self.keeps_result = False
        # The run of the result that `force` has removed.
        self.discarded_run = b""
        self.status_socket = status_socket(path)
        try:
            self._take_lock()
            if force:
                self._clear()
            if not serves:
                self._check_no_result()
                self._remove_leftovers()
            name = "log.jsonl" if log_format == "json" else "log.txt"
            self._log = open_private(path / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            if not serves:
                self.journal = Journal(path / "journal.jsonl", self.log)
        except BaseException:
            self._release()
            raise

    def _take_lock(self) -> None:
        path = self.path / "lock"
        self._lock = open_private(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ParameterError(
                f"A peer is already running in {self.path}; `peerclust peer status {self.path}`"
                " shows its status."
            ) from None
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from None

    def _check_no_result(self) -> None:
        if (self.path / "certificate.json").exists():
            raise ParameterError(
                "`--out` of peer run must not contain a result yet; choose another directory, or"
                f" replace the result with --force. Got {self.path}."
            )

    def _clear(self) -> None:
        with suppress(OSError, WireError):
            self.discarded_run = unpack(read_private(self.record), SignedRecord).record.run
        for name in (*RESULT, *_OTHERS):
            (self.path / name).unlink(missing_ok=True)

    def _remove_leftovers(self) -> None:
        """Remove what a process that was killed had begun to write."""
        names = "|".join(map(re.escape, (*RESULT, "checkpoint", "evidence.json")))
        for path in self.path.iterdir():
            if re.fullmatch(rf"\.({names})\.[a-z0-9_]{{8}}", path.name):
                shutil.rmtree(path, ignore_errors=True)

    def log(self, sentence: str, *, echo: bool = True) -> None:
        """Write a sentence to the log, and echo it; a full disk does not stop a run."""
        sentence = make_printable(sentence)
        if echo:
            self._on_log(sentence)
        line = self._format(sentence, datetime.now(UTC))
        # A run that computes in a thread logs from there, too.
        with self._writing, suppress(OSError):
            write_all(self._log, f"{line}\n".encode(errors="replace"))

    def save_evidence(self, name: str, evidence: Evidence) -> None:
        """Write the two statements that convict a peer; a full disk does not stop a run."""
        found = {"peer": name, **to_json(evidence)}
        path = self.path / "evidence.json"
        try:
            before = json.loads(read_private(path)) if path.exists() else []
            write_durably(path, json.dumps([*before, found], indent=2).encode())
        except (OSError, TypeError, ValueError) as error:
            why = explain(error)
            self.log(LogEvent("file-failed", f"Evidence was not kept: {why}", file=str(path)))

    def close(self) -> None:
        """Close the log and release the lock."""
        with suppress(OSError):
            self.status_socket.unlink(missing_ok=True)
        self._release()

    def _release(self) -> None:
        os.umask(self._umask)
        for file in (self._log, self._lock):
            if file >= 0:
                os.close(file)
        self._log = self._lock = -1

    def load_checkpoint(self, contract: Contract, digest: bytes) -> Checkpoint | None:
        """Return the checkpoint of this network file and of the rows with this digest, if any."""
        saved = checkpoint.load(self.checkpoint, contract)
        if saved is None:
            return None
        if saved.network != contract.digest:
            if saved.end:
                raise DataError(
                    f"The checkpoint {self.checkpoint} has the result of a run with another network"
                    " file, which is not written yet. Write it with that file, or name another"
                    " directory."
                )
            self.log("The checkpoint belongs to another network file. It is not used.")
            return None
        if saved.rows != digest:
            raise DataError(
                f"The checkpoint {self.checkpoint} must belong to the given rows. Got other rows;"
                " use the same file, or start over with --force."
            )
        x = unpack_centers(saved.centers, contract.n_clusters)
        with np.errstate(all="ignore"):
            outside = configuration.make_box(contract, saved.agreed).refuse(x)
        if outside:
            raise checkpoint.bad(self.checkpoint, "have centers in the box of the data")
        return saved
