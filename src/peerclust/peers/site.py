"""One site, from its rows to its result: joins the others, runs, and takes leave.

What goes over the network is `runtimes.network`'s business, what is written to disk `folder`'s.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from peerclust.errors import LeftError, PeerclustError, PeerError
from peerclust.peers import configuration, setup
from peerclust.peers.join import Entrance, Entry
from peerclust.peers.site_directory import Folder
from peerclust.peers.verdict import Verdict, judge
from peerclust.programs.protocol import UNKNOWN
from peerclust.runtimes.network import checkpoint
from peerclust.runtimes.network.checkpoint import Checkpoint
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.identity import Identity
from peerclust.runtimes.network.membership import Leaving, Stopping, Welcomed
from peerclust.runtimes.network.messages import Agreed, Welcome, pack_centers, unpack_centers
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.rounds import AloneError, Outcome, Running
from peerclust.runtimes.network.status import StatusSocket
from peerclust.types import Array
from peerclust.users import Users

# Seconds between two words of progress.
_TELL = 0.1


# Told now and then: (round, residual, neighbors alive).
Progress = Callable[[int, float, int], None]


@dataclass(frozen=True, eq=False)
class Result:
    """Where a site's run ended: centers (K, d) in the agreed scale, and how to judge them."""

    verdict: Verdict
    agreed: Agreed
    users: Users
    x: Array


class Site:
    """One peer of a contract with its rows and the folder that it writes to."""

    def __init__(
        self,
        contract: Contract,
        me: str,
        identity: Identity,
        rows: setup.Rows,
        folder: Folder,
        *,
        listen: tuple[str, int] | None = None,
        dial: Mapping[str, tuple[str, int]] | None = None,
        progress: Progress = lambda *_: None,
    ) -> None:
        self.contract, self.me, self.rows, self.folder = contract, me, rows, folder
        self._progress = progress
        self._saved_at, self._told_at = time.monotonic(), 0.0
        self._running: Running | None = None
        self._agreed: Agreed | None = None
        self._verdict: Verdict | None = None
        self.node = Node(contract, me, identity, listen=listen, dial=dial, log=folder.log)
        self._entrance = Entrance(self.node, rows, folder)
        self._status = StatusSocket(self.node, folder.status_socket, self._residual)

    def run(self) -> Result:
        """Take part from the first agreement to the end; give the result.

        The links stay open until `leave`, for peers that come late.
        """
        node = self.node
        for each in (signal.SIGTERM, signal.SIGINT):
            node.loop.add_signal_handler(each, node.interrupt, Leaving())
        try:
            self.rows.warm_up(self.contract)
            node.open()
            node.loop.run_until_complete(self._status.open())
            return self._take_part()
        except Leaving:
            kept = self._save_checkpoint()
            self._close("leaves", "it was asked to end")
            where = f" in round {node.round}; the same command goes on from there" if kept else ""
            raise LeftError(f"{self.me} left the run{where}.") from None
        except Stopping as stopping:
            self._close("stops", str(stopping))
            told = " A checkpoint is kept." if self._save_checkpoint() else ""
            raise PeerError(f"The run was stopped: {stopping}{told}") from None
        except Exception as error:
            self._close("leaves", str(error))
            raise

    def leave(self) -> None:
        """Take leave once all others have ended; stay a while if some are missing."""
        with suppress(Leaving, Stopping, Welcomed):
            self.node.loop.run_until_complete(self._linger())
        self._close("done", "")

    def _close(self, why: Literal["leaves", "stops", "done"], reason: str) -> None:
        self._status.close()
        self.node.close(why, reason)

    def _take_part(self) -> Result:
        try:
            entry = self._entrance.enter()
            outcome = self._run_program(entry)
        except Welcomed as late:
            return self._take_over(late)
        with suppress(Leaving):  # the result is there
            self.node.loop.run_until_complete(self._hear_ends())
        verdict = self._verdict = judge(self.node, outcome, entry.agreed)
        self.folder.log(str(verdict.status), say=False)
        return Result(verdict, entry.agreed, entry.users, outcome.state.x[0])

    def traffic(self) -> dict[str, dict[str, int]]:
        """Give the bytes sent to, and heard from, each neighbor."""
        told = {name: link.traffic() for name, link in self.node.links.items()}
        return {name: {"sent": sent, "heard": heard} for name, (sent, heard) in told.items()}

    def _take_over(self, late: Welcomed) -> Result:
        """Take the result from a neighbor: the run is over."""
        welcome, agreed = late.welcome, late.welcome.agreed
        x = unpack_centers(welcome.centers, self.contract.n_clusters)
        users = self._entrance.scaled(agreed)
        if reason := self._entrance.refuse(welcome):
            raise PeerError(f"{late.link.name} told a result that cannot be used: {reason}.")
        name = late.link.name
        self.folder.log(f"The run ended in round {welcome.round}; the result is that of {name}.")
        return Result(Verdict.late(welcome.round, name, welcome.status), agreed, users, x)

    # The rounds

    def _run_program(self, entry: Entry) -> Outcome:
        program = configuration.make_program(self.contract, entry.agreed)
        box = configuration.make_box(self.contract, program, entry.agreed)
        self._agreed = entry.agreed
        running = self._running = Running(
            self.node,
            program,
            entry.users,
            residual_scale=setup.residual_scale(entry.agreed, entry.users),
            allow=configuration.make_guard(self.contract, program, entry.agreed, box),
            certify=configuration.make_certify(self.contract, entry.agreed),
            degree=configuration.agreed_degree(self.contract, entry.agreed, self.node.number),
            journal=self.folder.journal,
            between=self._between,
        )
        self.node.welcome = self._welcome
        try:
            return running.run(entry.x, entry.round)
        except AloneError:
            names = ", ".join(self.node.links)
            self._save_checkpoint()
            raise PeerError(
                f"{self.me} fell apart from the others in round {self.node.round}: it hears none of"
                f" its neighbors ({names}) any more. A checkpoint is kept; the same command tries"
                " again."
            ) from None

    def _between(self, state: Any) -> None:
        """Keep what is needed between two rounds."""
        now = time.monotonic()
        if now - self._told_at > _TELL:
            self._told_at = now
            alive = sum(link.counted for link in self.node.links.values())
            self._progress(state.round, self._residual(), alive)
        if now - self._saved_at > self.contract.checkpoint_every:
            self._save_checkpoint()

    def _residual(self) -> float:
        if self._running is None or self._running.state is None:
            return float("inf")
        residual = float(self._running.state.residual.max())
        return residual / self._running.residual_scale if residual < UNKNOWN else float("inf")

    def _welcome(self) -> Welcome:
        assert self._running is not None
        assert self._agreed is not None
        node = self.node
        return Welcome(
            self._agreed,
            self._running.state.round,
            pack_centers(self._running.state.x),
            node.views.told(),
            node.phase == "done",
            "" if self._verdict is None else self._verdict.status.name,
        )

    def _save_checkpoint(self) -> bool:
        self._saved_at = time.monotonic()
        if self._running is None or self._running.state is None or self._agreed is None:
            return False
        state = self._running.state
        centers = pack_centers(state.x)
        try:
            checkpoint.save(
                self.folder.checkpoint,
                Checkpoint(self.node.run, self.rows.digest, self._agreed, state.round, centers),
            )
        except (OSError, PeerclustError) as error:
            self.folder.log(f"A checkpoint could not be written ({error}); the run goes on.")
            return False
        return True

    # The end

    async def _hear_ends(self) -> None:
        """Wait until all peers of the part have told how they ended, or for `timeout`."""
        node = self.node
        limit = node.loop.time() + self.contract.timeout
        while not all(node.views[i].ended for i in node.views.part(node.number)):
            if not await node.wait_until(limit):
                break

    async def _linger(self) -> None:
        node = self.node
        if self._running is None or all(view.ended for view in node.views.all()):
            return
        missing = [name for i, name in enumerate(self.contract.names) if not node.views[i].ended]
        names = ", ".join(missing)
        self.folder.log(f"Staying {self.contract.linger:g} s for {names}, should they come.")
        limit = node.loop.time() + self.contract.linger
        while await node.wait_until(limit):
            pass
