"""The whole work of one site: from the names of its files to the folder of its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from peerclust import tables
from peerclust.errors import DataError, ParameterError
from peerclust.peers import replay as replaying
from peerclust.peers.setup import Rows
from peerclust.peers.site import Progress, Site
from peerclust.peers.site_directory import Folder
from peerclust.runtimes.network import contract_file
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.identity import (
    Identity,
    certificate_dates,
    load_identity,
    read_certificate,
)
from peerclust.runtimes.network.journal import read_journal
from peerclust.tables import Table
from peerclust.text import guess


def run(
    network: Path,
    me: str,
    data: Path,
    out: Path,
    *,
    keys: Path | None = None,
    listen: tuple[str, int] | None = None,
    dial: Mapping[str, tuple[str, int]] | None = None,
    force: bool = False,
    progress: Progress = lambda *_: None,
    say: Callable[[str], None] = lambda _: None,
    done: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, Any]:
    """Take part in a run; give what certificate.json holds.

    `say` hears every line of the log; `done` is told of the result before this peer takes leave of
    those who come late.
    """
    contract = contract_file.read(network)
    check_member(contract, me)
    check_dial(contract, me, dial or {})
    identity = find_identity(contract, me, keys or network.parent)
    check_dates(identity, datetime.now(UTC))
    table = read_table(contract, data)
    folder = Folder(out, force=force, say=say)
    try:
        site = Site(
            contract,
            me,
            identity,
            read_rows(contract, me, table),
            folder,
            listen=listen,
            dial=dial,
            progress=progress,
        )
        result = site.run()
        record = folder.write_result(
            contract,
            me,
            table,
            verdict=result.verdict,
            agreed=result.agreed,
            users=result.users,
            x=result.x,
            traffic=site.traffic(),
        )
        done(record)
        site.leave()
    except BaseException as error:
        folder.log(f"Ended: {error or type(error).__name__}", say=False)
        raise
    finally:
        folder.close()
    return record


def replay(
    network: Path,
    sites: Sequence[tuple[str, Path, Path]],
    on_round: Callable[[int, dict[int, Any]], None] = lambda *_: None,
) -> dict[str, Any]:
    """Compute a run again; `sites` are (name, rows, folder). Give each site's end by its name."""
    contract = contract_file.read(network)
    rows, journals = {}, {}
    for name, data, folder in sites:
        check_member(contract, name, "--site")
        number = contract.number(name)
        rows[number] = read_rows(contract, name, read_table(contract, data))
        # A site that was lost before the first round has none; its rows may have been agreed on.
        if (folder / "journal.jsonl").exists():
            journals[number] = read_journal(folder / "journal.jsonl")
    done = replaying.replay(contract, rows, journals, on_round)
    if not done:
        raise DataError("A replay needs a site that came to the end of the run. Got none.")
    return {
        contract.names[i]: {"rounds": each.round, "same": each.same} for i, each in done.items()
    }


def check_member(contract: Contract, me: str, option: str = "--me") -> None:
    """Raise unless a name is one of the contract's peers."""
    if me not in contract.names:
        known = ", ".join(contract.names)
        raise ParameterError(
            f"`{option}` must be a peer of the network file: {known}. Got {me!r}."
            f"{guess(me, contract.names)}"
        )


def check_dial(contract: Contract, me: str, dial: Mapping[str, Any]) -> None:
    """Raise unless all that is to be reached elsewhere are neighbors that this peer dials."""
    for name in dial:
        if name not in contract.neighbors(me) or name < me:
            raise ParameterError(
                f"`--dial` must name neighbors that {me} dials, those with larger names. Got"
                f" {name!r}.{guess(name, contract.neighbors(me))}"
            )


def find_identity(contract: Contract, me: str, keys: Path) -> Identity:
    """Load a peer's key and certificate, which must be the one that the contract names."""
    identity = load_identity(me, keys / f"{me}.key", keys / f"{me}.crt")
    if read_certificate(identity.certificate) != contract.peers[contract.number(me)].certificate:
        raise ParameterError(
            f"The certificate {identity.certificate} must be that of {me} in the network file."
            " Got another; ask for a network file with the present one."
        )
    return identity


def check_dates(identity: Identity, now: datetime) -> None:
    """Raise unless a certificate is valid."""
    begins, ends = certificate_dates(read_certificate(identity.certificate))
    if not begins <= now <= ends:
        raise ParameterError(
            f"The certificate {identity.certificate} must be valid now, {now:%Y-%m-%d %H:%M} UTC."
            f" Got one that is from {begins:%Y-%m-%d} to {ends:%Y-%m-%d}; make another with"
            " `peerclust peer keygen --force`, or set the clock."
        )


def read_table(contract: Contract, data: Path) -> Table:
    """Read the columns that the contract names; a site may have no rows."""
    try:
        return tables.read(
            [data],
            columns=contract.features,
            weights_column=contract.weights_column,
            may_be_empty=True,
        )
    except DataError as error:
        asks = " The network file asks for it." if "There is no column" in str(error) else ""
        raise DataError(f"{error}{asks}") from None


def read_rows(contract: Contract, me: str, table: Table) -> Rows:
    """Give a site's rows as all sites use them."""
    weights = 1.0 if table.weights is None else table.weights
    offsets = np.array([0, len(table.rows)], np.int64)
    return Rows(table.rows, offsets, weights, (contract.number(me),))
