"""What one site does, from its files to the directory of its result; and the replay of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np

from peerclust import tables
from peerclust.arrays import Array
from peerclust.doors import NETWORK_FILE
from peerclust.errors import DataError, ParameterError, SiteDataError
from peerclust.log_events import LogEvent
from peerclust.peers import replay as replaying
from peerclust.peers.end_request import EndRequest
from peerclust.peers.farewell import telling_neighbors
from peerclust.peers.result_files import Record, write_result
from peerclust.peers.rows import Rows
from peerclust.peers.setup_validation import check_public_bounds
from peerclust.peers.site import Progress, Site
from peerclust.peers.site_directory import SiteDirectory
from peerclust.peers.site_result import SiteResult, load_result
from peerclust.runtimes.network import contract_file
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.identity import (
    Identity,
    check_dates,
    load_identity,
    read_certificate,
)
from peerclust.runtimes.network.journal import read_journal
from peerclust.tables import DETECT_ALL, CsvOptions, Table
from peerclust.text import guess


@dataclass(frozen=True)
class PeerArguments:
    """The arguments of a site on the network, with or without rows: files, name and addresses."""

    network: Path
    me: str
    _: KW_ONLY
    keys: Path | None = None
    listen: tuple[str, int] | None = None
    dial: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    def read_contract(self) -> Contract:
        """Read the network file; raise if it lacks this site or one that it is to dial."""
        contract = contract_file.read(self.network)
        check_member(contract, self.me)
        check_dial(contract, self.me, self.dial)
        return contract

    def load_identity(self, contract: Contract) -> Identity:
        """Load this site's key and certificate, which must be that of the contract."""
        keys = self.keys or self.network.parent
        identity = load_identity(self.me, keys / f"{self.me}.key", keys / f"{self.me}.crt")
        own = contract.peer(self.me).certificate
        if read_certificate(identity.certificate) != own:
            raise ParameterError(
                f"The certificate {identity.certificate} must be that of {self.me} in the network"
                " file. Got another; ask for a network file with the current one."
            )
        return identity


@dataclass(frozen=True)
class SiteArguments(PeerArguments):
    """The arguments of a site's run and of the check before it."""

    data: Path
    csv: CsvOptions = field(default=DETECT_ALL, kw_only=True)


def run_site(
    given: SiteArguments,
    out: Path,
    *,
    force: bool = False,
    log_format: str = "text",
    end_request: EndRequest | None = None,
    progress: Progress = lambda *_: None,
    on_log: Callable[[str], None] = lambda _: None,
    on_result: Callable[[Record], None] = lambda _: None,
) -> Record:
    """Take part in a run; return the content of certificate.json.

    `on_log` is called with every sentence of the log, `on_result` with the result, before this peer
    waits for peers that join late. If the run is over here, and only its result could not be
    written, it is written without the other sites.
    """
    contract, me = given.read_contract(), given.me
    identity = given.load_identity(contract)
    tell = partial(
        telling_neighbors, contract, me, identity, listen=given.listen, dial=given.dial, log=on_log
    )
    now = datetime.now(UTC)
    with tell(f"its certificate is not valid by its clock, which shows {now:%Y-%m-%d %H:%M} UTC"):
        check_own_dates(identity, now)
    with tell("its data cannot be used"):
        table = read_table(contract, given.data, given.csv)
    with tell("its result directory cannot be used"):
        directory = SiteDirectory(out, force=force, log_format=log_format, on_log=on_log)

    def write(result: SiteResult) -> Record:
        try:
            record = write_result(directory, contract, me, table, **vars(result))
        except (OSError, ParameterError) as error:
            unwritten = _explain_unwritten(error, directory)
            # At once: others may still need this site for a while.
            directory.log(LogEvent("file-failed", str(unwritten)))
            raise unwritten from error
        directory.log(LogEvent("written", f"Written to {out}.", directory=str(out)))
        on_result(record)
        return record

    try:
        for sentence in table.describe_dialects():
            directory.log(LogEvent("read", sentence))
        rows = read_rows(contract, me, table)
        with tell("its checkpoint cannot be used"):
            result = load_result(contract, rows, directory)
        if result is not None:
            return write(result)
        seeds = {contract.number(me): directory.journal.private_seed}
        site = Site(
            contract,
            me,
            identity,
            replace(rows, private_seeds=seeds),
            directory,
            listen=given.listen,
            dial=given.dial,
            progress=progress,
            end_request=end_request,
        )
        with NETWORK_FILE.naming():
            result = site.run()
        try:
            return write(result)
        finally:
            site.leave()
    except BaseException as error:
        directory.log(LogEvent("failed", f"Ended: {error or type(error).__name__}"), echo=False)
        raise
    finally:
        directory.close()


def _explain_unwritten(error: OSError | ParameterError, directory: SiteDirectory) -> DataError:
    """Return the error of a result that cannot be written, with what to do."""
    why = str(error)
    if isinstance(error, OSError):
        why = f"{error.filename} cannot be written: {error.strerror}."
    remedy = f"The result is kept in {directory.checkpoint}: the same command writes it later."
    if not directory.keeps_result:
        remedy = "No checkpoint could be written either: the same command asks the others for it."
    return DataError(f"{why} {remedy}")


def replay(
    network: Path,
    sites: Sequence[tuple[str, Path, Path]],
    on_round: Callable[[int, dict[int, Array]], None] = lambda *_: None,
    *,
    csv: CsvOptions = DETECT_ALL,
) -> dict[str, dict[str, int | bool]]:
    """Compute a run again; `sites` are (name, rows, directory). Return each site's end by name."""
    contract = contract_file.read(network)
    rows, journals = {}, {}
    for name, data, directory in sites:
        check_member(contract, name, "--site")
        number = contract.number(name)
        rows[number] = read_rows(contract, name, read_table(contract, data, csv))
        if (directory / "journal.jsonl").exists():
            journals[number] = read_journal(directory / "journal.jsonl", contract)
    with NETWORK_FILE.naming():
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


def check_dial(contract: Contract, me: str, dial: Mapping[str, object]) -> None:
    """Raise unless all peers with another address are neighbors that this peer dials."""
    for name in dial:
        if name not in contract.neighbors(me) or name < me:
            raise ParameterError(
                f"`--dial` must name neighbors that {me} dials, those with larger names. Got"
                f" {name!r}.{guess(name, contract.neighbors(me))}"
            )


def check_own_dates(identity: Identity, now: datetime) -> None:
    """Raise unless a site's own certificate is valid now."""
    remedy = (
        "make another with `peerclust peer keygen NAME --force` and ask for a network file with it"
    )
    check_dates(identity.certificate, now, remedy)


def read_table(contract: Contract, data: Path, csv: CsvOptions = DETECT_ALL) -> Table:
    """Read the columns that the contract names; the table may have no rows."""
    try:
        table = tables.read(
            [data],
            columns=contract.features,
            weights_column=contract.weights_column,
            csv=csv,
            may_be_empty=True,
        )
    except DataError as error:
        if "There is no column" in str(error):
            sentence = error.sentence + " The network file requires it."
            rule = "it must have the columns of the network file"
        else:
            sentence, rule = error.sentence, "it must be a readable table of finite numbers"
        raise SiteDataError(sentence, rule) from None
    check_public_bounds(contract, table)
    return table


def read_rows(contract: Contract, me: str, table: Table) -> Rows:
    """Return the rows of a site as `Rows`."""
    weights = 1.0 if table.weights is None else table.weights
    offsets = np.array([0, len(table.rows)], np.int64)
    return Rows(table.rows, offsets, weights, (contract.number(me),))
