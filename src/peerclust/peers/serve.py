"""A site that serves the result of its run to neighbors that have missed the end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from peerclust.errors import DataError, WireError
from peerclust.files import read_private
from peerclust.log_events import LogEvent
from peerclust.peers.commands import PeerArguments, check_own_dates
from peerclust.peers.end_request import EndRequest
from peerclust.peers.site_directory import SiteDirectory
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.messages import SignedRecord, unpack
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.record import check_signed, is_majority, show_run
from peerclust.runtimes.network.session import Leaving
from peerclust.runtimes.network.state_validation import refuse_state
from peerclust.runtimes.network.statements import Verifier, run_id
from peerclust.runtimes.network.status import StatusSocket


def serve_record(
    given: PeerArguments,
    out: Path,
    *,
    log_format: str = "text",
    end_request: EndRequest | None = None,
    on_log: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve the record in a result directory until the process is asked to end.

    `on_log` is called with every sentence of the log.
    """
    contract, me = given.read_contract(), given.me
    identity = given.load_identity(contract)
    check_own_dates(identity, datetime.now(UTC))
    directory = SiteDirectory(out, serves=True, log_format=log_format, on_log=on_log)
    try:
        signed = read_record(directory.record, contract)
        node = Node(contract, me, identity, listen=given.listen, dial=given.dial, log=directory.log)
        node.serve(signed)
        status = StatusSocket(node.session, directory.status_socket, lambda: signed.record.residual)
        if end_request is not None:
            end_request.listener = lambda: _forward(node)
        try:
            node.open()
            node.session.loop.run_until_complete(status.open())
            record, run = signed.record, show_run(signed)
            serving = f"{me} serves the result of the run {run}, which ended in round"
            directory.log(
                LogEvent("serving", f"{serving} {record.round}.", run=run, round=record.round)
            )
            with suppress(Leaving):
                node.session.loop.run_until_complete(_wait(node))
            directory.log(LogEvent("asked-to-end", f"{me} was asked to end."))
        finally:
            status.close()
            node.close("done", "")
    except BaseException as error:
        directory.log(LogEvent("failed", f"Ended: {error or type(error).__name__}"), echo=False)
        raise
    finally:
        directory.close()


async def _wait(node: Node) -> None:
    while True:
        await node.session.wait()


def _forward(node: Node) -> None:
    """Pass a request to end on to the event loop; called in another thread."""
    with suppress(RuntimeError):  # it is closed
        node.session.loop.call_soon_threadsafe(node.leave)


def read_record(path: Path, contract: Contract) -> SignedRecord:
    """Return the record in a file; raise DataError unless it is one that others may believe."""
    try:
        signed = unpack(read_private(path), SignedRecord)
    except WireError:
        raise _bad(path, "be whole, and of this version of peerclust") from None
    record = signed.record
    if record.run != run_id(contract, record.agreed):
        raise _bad(path, "be that of a run with this network file")
    if must := refuse_state(contract, record.agreed, record.round, record.centers):
        raise _bad(path, must)
    try:
        signers = check_signed(signed, contract, Verifier(contract))
    except WireError:
        raise _bad(path, "have valid signatures") from None
    if not is_majority(len(signers), len(contract.peers)):
        names = contract.names
        missing = ", ".join(name for i, name in enumerate(names) if i not in signers)
        raise DataError(
            f"The record {path} must be signed by more than half of {len(names)} peers. Got the"
            f" signatures of {len(signers)}, not of {missing}. It is not a joint result; run again."
        )
    return signed


def _bad(path: Path, must: str) -> DataError:
    return DataError(
        f"The record {path} must {must}. Name the network file and the directory of the same run;"
        " if the file was changed, `peerclust peer run` with another --out fetches the result from"
        " a neighbor that serves it."
    )
