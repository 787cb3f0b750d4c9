"""What one site does, from its files to the directory of its result; and the replay of a run."""

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
from peerclust.peers.site_directory import SiteDirectory
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


def run_site(
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
    on_log: Callable[[str], None] = lambda _: None,
    on_result: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, Any]:
    """Take part in a run; return the content of certificate.json.

    `on_log` is called with every line of the log, `on_result` with the result, before this peer
    waits for peers that join late.
    """
    contract = contract_file.read(network)
    check_member(contract, me)
    check_dial(contract, me, dial or {})
    identity = find_identity(contract, me, keys or network.parent)
    check_dates(identity, datetime.now(UTC))
    table = read_table(contract, data)
    directory = SiteDirectory(out, force=force, on_log=on_log)
    try:
        site = Site(
            contract,
            me,
            identity,
            read_rows(contract, me, table),
            directory,
            listen=listen,
            dial=dial,
            progress=progress,
        )
        result = site.run()
        record = directory.write_result(
            contract,
            me,
            table,
            verdict=result.verdict,
            agreed=result.agreed,
            users=result.users,
            x=result.x,
            traffic=site.traffic(),
        )
        on_result(record)
        site.leave()
    except BaseException as error:
        directory.log(f"Ended: {error or type(error).__name__}", echo=False)
        raise
    finally:
        directory.close()
    return record


def replay(
    network: Path,
    sites: Sequence[tuple[str, Path, Path]],
    on_round: Callable[[int, dict[int, Any]], None] = lambda *_: None,
) -> dict[str, Any]:
    """Compute a run again; `sites` are (name, rows, directory). Return each site's end by name."""
    contract = contract_file.read(network)
    rows, journals = {}, {}
    for name, data, directory in sites:
        check_member(contract, name, "--site")
        number = contract.number(name)
        rows[number] = read_rows(contract, name, read_table(contract, data))
        # A site that was lost before the first round has none, but its rows may be in the setup.
        if (directory / "journal.jsonl").exists():
            journals[number] = read_journal(directory / "journal.jsonl")
    done = replaying.replay(contract, rows, journals, on_round)
    if not done:
        raise DataError("A replay needs a site that reached the end of the run. Got none.")
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
    """Raise unless all peers with another address are neighbors that this peer dials."""
    for name in dial:
        if name not in contract.neighbors(me) or name < me:
            raise ParameterError(
                f"`--dial` must name neighbors that {me} dials, those with larger names. Got"
                f" {name!r}.{guess(name, contract.neighbors(me))}"
            )


def find_identity(contract: Contract, me: str, keys: Path) -> Identity:
    """Load a peer's key and certificate, which must be that of the contract."""
    identity = load_identity(me, keys / f"{me}.key", keys / f"{me}.crt")
    if read_certificate(identity.certificate) != contract.peers[contract.number(me)].certificate:
        raise ParameterError(
            f"The certificate {identity.certificate} must be that of {me} in the network file."
            " Got another; ask for a network file with the current one."
        )
    return identity


def check_dates(identity: Identity, now: datetime) -> None:
    """Raise unless a certificate is valid now."""
    start, end = certificate_dates(read_certificate(identity.certificate))
    if not start <= now <= end:
        raise ParameterError(
            f"The certificate {identity.certificate} must be valid now, {now:%Y-%m-%d %H:%M} UTC."
            f" Got one valid from {start:%Y-%m-%d} to {end:%Y-%m-%d}; make another with"
            " `peerclust peer keygen --force`, or set the clock."
        )


def read_table(contract: Contract, data: Path) -> Table:
    """Read the columns that the contract names; the table may have no rows."""
    try:
        return tables.read(
            [data],
            columns=contract.features,
            weights_column=contract.weights_column,
            may_be_empty=True,
        )
    except DataError as error:
        note = " The network file requires it." if "There is no column" in str(error) else ""
        raise DataError(f"{error}{note}") from None


def read_rows(contract: Contract, me: str, table: Table) -> Rows:
    """Return the rows of a site as `Rows`."""
    weights = 1.0 if table.weights is None else table.weights
    offsets = np.array([0, len(table.rows)], np.int64)
    return Rows(table.rows, offsets, weights, (contract.number(me),))
