"""One site, from its rows to its result: it joins the others, runs, and disconnects.

Messages are the business of `runtimes.network`, files that of `site_directory`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Literal

from peerclust import kernels
from peerclust.errors import InputError, LeftError, PeerclustError, PeerError
from peerclust.files import explain
from peerclust.log_events import LogEvent
from peerclust.peers import configuration
from peerclust.peers.end_request import EndRequest
from peerclust.peers.farewell import describe, say_farewell
from peerclust.peers.join import JoinProcedure, JoinResult
from peerclust.peers.plan import make_plan, plan_runs
from peerclust.peers.rows import Rows
from peerclust.peers.site_directory import SiteDirectory
from peerclust.peers.site_result import SiteResult, Traffic
from peerclust.peers.verdict import judge, list_events, make_record
from peerclust.programs.protocol import UNKNOWN, State
from peerclust.runtimes.network import checkpoint
from peerclust.runtimes.network.checkpoint import Checkpoint
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.identity import Identity
from peerclust.runtimes.network.messages import (
    Agreed,
    Bye,
    Record,
    SignedRecord,
    StateReply,
    pack_centers,
    unpack_centers,
)
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.record import show_run
from peerclust.runtimes.network.rounds import IsolatedError, Outcome, RoundLoop
from peerclust.runtimes.network.session import Leaving, Session, StateReceived, Stopping
from peerclust.runtimes.network.statements import run_id
from peerclust.runtimes.network.status import StatusSocket
from peerclust.runtimes.network.wire import TAG_BYTES
from peerclust.text import sanitize

# Seconds between two reports of progress.
_REPORT_EVERY = 0.1

# Seconds that a process which was asked to end waits for the others' signatures, at the most.
_LAST_SECONDS = 1.0

# Called now and then with (round, residual, neighbors alive).
Progress = Callable[[int, float, int], None]


def explain_isolation(session: Session) -> str:
    """Return why a peer has nobody left to run with, and what to do.

    A neighbor may be there, with a result that too few have signed.
    """
    links = session.links.values()
    doubted = "".join(
        f" The result of {link.name}, which is connected, is not taken: {link.refusal}."
        for link in links
        if link.connected and link.phase == "done" and link.refusal
    )
    return (
        f"{session.name} lost contact with all its neighbors ({', '.join(session.links)}) in round"
        f" {session.round}.{doubted} A checkpoint was saved; the same command tries again."
    )


class Site:
    """One peer of a contract with its rows and the directory that it writes to."""

    def __init__(
        self,
        contract: Contract,
        me: str,
        identity: Identity,
        rows: Rows,
        directory: SiteDirectory,
        *,
        listen: tuple[str, int] | None = None,
        dial: Mapping[str, tuple[str, int]] | None = None,
        progress: Progress = lambda *_: None,
        end_request: EndRequest | None = None,
    ) -> None:
        self.contract, self.me, self.rows, self.directory = contract, me, rows, directory
        self._progress, self._end_request = progress, end_request
        self._asked = False
        self._begun = self._saved_at = time.monotonic()
        self._reported_at = 0.0
        self._running: RoundLoop | None = None
        self._agreed: Agreed | None = None
        self._record: Record | None = None
        self.node = Node(contract, me, identity, listen=listen, dial=dial, log=directory.log)
        self.node.flooding.on_evidence = directory.save_evidence
        self.node.signing.discarded_run = directory.discarded_run
        self._tell = partial(say_farewell, contract, me, identity, listen=listen, dial=dial)
        self._join = JoinProcedure(self.node, rows, directory)
        self._status = StatusSocket(self.node.session, directory.status_socket, self._residual)

    def run(self) -> SiteResult:
        """Take part from the setup to the end; return the result.

        The links stay open until `leave`, for peers that join late.
        """
        node, failing = self.node, "it cannot listen at its address"
        if self._end_request is not None:
            self._end_request.listener = self._forward_request
        try:
            node.open()
            failing = "an error at its site"
            kernels.import_compiler()
            node.session.loop.run_until_complete(self._status.open())
            return self._take_part()
        except Leaving:
            saved = self._save_checkpoint()
            self._close("leaves", "it was asked to end")
            when = "before the run started" if self._running is None else "the run"
            left = f"{self.me} left {when}; the same command joins again."
            if saved:
                resumes = "the same command resumes from there"
                left = f"{self.me} left the run in round {node.session.round}; {resumes}."
            raise LeftError(left) from None
        except Stopping as stopping:
            self._close("stops", str(stopping))
            saved = self._save_checkpoint()
            remedy = "Once that is fixed, the same command at all sites " + (
                "resumes the run from its checkpoints." if saved else "starts the run."
            )
            if not any(link.heard_at for link in node.session.links.values()):
                remedy += " If theirs is over, one of them can send its result with"
                remedy += " `peerclust peer serve`."
            why = str(stopping).removesuffix(".")
            raise PeerError(f"The run was stopped: {why}. {remedy}") from None
        except Exception as error:
            self._close("fails", describe(error, failing))
            raise

    def leave(self) -> None:
        """Disconnect once all others have ended; linger if some are missing."""
        with suppress(Leaving, Stopping, StateReceived):
            self.node.session.loop.run_until_complete(self._linger())
        self._close("done", "")

    # Requests to end

    def _forward_request(self) -> None:
        """Pass a request to end on to the event loop; called in another thread."""
        with suppress(RuntimeError):  # it is closed
            self.node.session.loop.call_soon_threadsafe(self._on_request)

    def _on_request(self) -> None:
        self._asked = True
        self.directory.log(LogEvent("asked-to-end", f"{self.me} was asked to end."), echo=False)
        self.node.leave()

    def _close(self, why: Literal["leaves", "fails", "stops", "done"], reason: str) -> None:
        """Disconnect; neighbors that are not connected yet learn why there is no run."""
        node, early = self.node, time.monotonic() < self._begun + self.contract.join_timeout
        untold = [link.name for link in node.session.links.values() if not link.heard_at]
        self._status.close()
        node.close(why, reason)
        if why in ("fails", "stops") and node.session.phase == "agreeing" and early and untold:
            self._tell(Bye(why, sanitize(reason)), untold)

    def _take_part(self) -> SiteResult:
        try:
            joined = self._join.run()
            outcome = self._run_program(joined)
            signed = self._sign_record(joined.agreed, outcome)
        except StateReceived as late:
            return self._keep(self._adopt_result(late))
        verdict = judge(
            self.contract,
            signed,
            residual=outcome.residual,
            events=list_events(self.node),
            seconds=outcome.seconds,
        )
        x = outcome.state.x[0]
        return self._keep(SiteResult(verdict, signed, joined.users, x, self._traffic()))

    def _sign_record(self, agreed: Agreed, outcome: Outcome) -> SignedRecord:
        """Sign the record of the run; return it with the signatures of the others."""
        assert self._running is not None
        node = self.node
        make = partial(make_record, self.contract, agreed, outcome)
        self._record = node.session.loop.run_until_complete(
            self._running.sign_record(outcome, make)
        )
        hear = node.session.loop.run_until_complete
        try:
            hear(self._hear_signatures(self.contract.timeout))
        except Leaving:
            # The run has a result, and signatures are on their way.
            hear(self._hear_signatures(_LAST_SECONDS))
        return SignedRecord(self._record, node.signing.signatures(self._record))

    def _keep(self, result: SiteResult) -> SiteResult:
        """Log how the run ended, and save the result in a checkpoint before it is written."""
        verdict, agreed = result.verdict, result.signed.record.agreed
        status, rounds = verdict.status, verdict.rounds
        self.directory.log(LogEvent("ended", str(status), status=status.name, rounds=rounds))
        run = run_id(self.contract, agreed)[:TAG_BYTES]
        self.directory.keeps_result = self._write_checkpoint(
            run, agreed, rounds, pack_centers(result.x), result.pack_end()
        )
        return result

    def _traffic(self) -> Traffic:
        """Return the bytes sent to, and heard from, each neighbor."""
        traffic = {name: link.traffic() for name, link in self.node.session.links.items()}
        return {name: {"sent": sent, "heard": heard} for name, (sent, heard) in traffic.items()}

    def _adopt_result(self, late: StateReceived) -> SiteResult:
        """Return the result that the others have signed, as the run is over."""
        signed = late.reply.record
        assert signed is not None
        run = show_run(signed)
        fetched = f"{late.link.name} sent the result of the run {run}, which is over."
        self.directory.log(LogEvent("fetched", fetched, peer=late.link.name, run=run))
        verdict = judge(self.contract, signed, late=True, events=list_events(self.node))
        users = self._join.scaled(signed.record.agreed)
        x = unpack_centers(signed.record.centers, self.contract.n_clusters)
        return SiteResult(verdict, signed, users, x, self._traffic())

    # The rounds

    def _run_program(self, joined: JoinResult) -> Outcome:
        contract, agreed = self.contract, joined.agreed
        self._agreed = agreed
        plan = make_plan(contract, agreed, joined.users, late=joined.late)
        running = self._running = RoundLoop(
            self.node,
            plan,
            joined.x,
            joined.round,
            curvature=configuration.agreed_curvature(agreed),
            check=configuration.make_box(contract, agreed).refuse,
            journal=self.directory.journal,
            on_round=self._on_round,
        )
        self.node.state_transfer.make_reply = self._state_reply
        try:
            return running.run(partial(plan_runs, contract, plan))
        except InputError as error:
            # What all sites computed together cannot be: each of them finds the same.
            raise Stopping(str(error)) from None
        except IsolatedError:
            self._save_checkpoint()
            raise PeerError(explain_isolation(self.node.session)) from None

    def _on_round(self, state: State) -> None:
        """Report progress and save checkpoints between two rounds."""
        now = time.monotonic()
        if now - self._reported_at > _REPORT_EVERY:
            self._reported_at = now
            alive = sum(link.active for link in self.node.session.links.values())
            self._progress(state.round, self._residual(), alive)
        if now - self._saved_at > self.contract.checkpoint_every:
            self._save_checkpoint()

    def _residual(self) -> float:
        if self._running is None:
            return float("inf")
        residual = self._running.state.max_residual
        return residual / self._running.plan.spread if residual < UNKNOWN else float("inf")

    def _state_reply(self) -> StateReply:
        assert self._running is not None
        assert self._agreed is not None
        # A step that runs in a thread may replace the state at any time.
        node, state = self.node, self._running.state
        return StateReply(
            self._agreed,
            state.round,
            pack_centers(state.x),
            None
            if self._record is None
            else SignedRecord(self._record, node.signing.signatures(self._record)),
        )

    def _save_checkpoint(self) -> bool:
        self._saved_at = time.monotonic()
        if self._running is None or self._agreed is None:
            return False
        state = self._running.state
        return self._write_checkpoint(
            self.node.session.run, self._agreed, state.round, pack_centers(state.x)
        )

    def _write_checkpoint(
        self, run: bytes, agreed: Agreed, round_: int, centers: bytes, end: bytes = b""
    ) -> bool:
        network, rows = self.contract.digest, self.rows.digest
        path = self.directory.checkpoint
        try:
            checkpoint.save(path, Checkpoint(network, run, rows, agreed, round_, centers, end))
        except (OSError, PeerclustError) as error:
            why = explain(error)
            self.directory.log(
                LogEvent(
                    "file-failed",
                    f"A checkpoint could not be written, and the run continues: {why}",
                    file=str(path),
                )
            )
            return False
        return True

    # The end

    async def _hear_signatures(self, seconds: float) -> None:
        """Wait until all peers of the record have signed it, or for some seconds."""
        node, record = self.node, self._record
        assert record is not None
        limit = node.session.loop.time() + seconds
        while len(node.signing.signatures(record)) < len(record.members):
            if not await node.session.wait_until(limit):
                break

    async def _linger(self) -> None:
        node = self.node
        if self._record is None or self._asked:
            return
        signed = {statement.origin.peer for statement in node.signing.signatures(self._record)}
        missing = [name for i, name in enumerate(self.contract.names) if i not in signed]
        if not missing:
            return
        waiting = f"Waiting {self.contract.linger:g} s for {', '.join(missing)} to return."
        self.directory.log(LogEvent("lingering", waiting, peers=missing))
        limit = node.session.loop.time() + self.contract.linger
        while await node.session.wait_until(limit):
            pass
