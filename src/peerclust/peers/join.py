"""How a site joins a run.

All sites agree on the settings of the run, or resume together from their checkpoints. A site that
joins after the others have started gets the settings and the current round from a neighbor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from peerclust.arrays import Array
from peerclust.doors import NETWORK_FILE
from peerclust.errors import InputError, PeerError
from peerclust.log_events import LogEvent
from peerclust.peers import configuration, setup
from peerclust.peers.rows import Rows
from peerclust.peers.setup_validation import check_fits, refuse_agreed
from peerclust.peers.site_directory import SiteDirectory
from peerclust.runtimes.network.checkpoint import Checkpoint
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.messages import Agreed, StateReply, unpack_centers
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.record import digest, is_majority
from peerclust.runtimes.network.session import RestartSetup, StateReceived, Stopping
from peerclust.runtimes.network.setup import SetupRuntime
from peerclust.runtimes.network.statements import run_id
from peerclust.runtimes.network.wire import TAG_BYTES
from peerclust.users import Users


@dataclass(frozen=True, eq=False)
class JoinResult:
    """What was agreed, the scaled rows, and the centers (1, K, d) and the round to start from.

    `late` is whether the run had started before.
    """

    agreed: Agreed
    users: Users
    x: Array
    round: int
    late: bool = False


class JoinProcedure:
    """Joins one site to a run."""

    def __init__(self, node: Node, rows: Rows, directory: SiteDirectory) -> None:
        self.node, self.rows, self.directory = node, rows, directory
        self.contract: Contract = node.session.contract

    def run(self) -> JoinResult:
        """Agree with all others, or join a run that has started.

        Raises StateReceived if the run is over.
        """
        while True:
            try:
                return self._agree()
            except RestartSetup:
                self.directory.log(LogEvent("setup-restarted", "The set-up starts again."))
            except StateReceived as received:
                if received.reply.record is not None:
                    raise
                reason = self.refuse(received.reply)
                if not reason:
                    return self._join(received.reply)
                self.node.on_invalid(received.link, f"it reported an impossible run: {reason}")

    def scaled(self, agreed: Agreed) -> Users:
        """Return this site's rows in the agreed scale."""
        return self.rows.users(self.contract, agreed)

    def _agree(self) -> JoinResult:
        """Agree on scale, step and start, or on resuming from the checkpoints of all sites."""
        runtime = SetupRuntime(self.node)
        self._check_majority(runtime.members)
        saved, round_ = self._agree_to_resume(runtime)
        if saved is None:
            try:
                agreed, users, x = runtime.in_thread(
                    lambda: setup.agree(
                        self.contract,
                        runtime,
                        self.rows,
                        runtime.members,
                        runtime.lost,
                        runtime.processes,
                    )
                )
            except InputError as error:
                # This site's own rows were checked before: it is about the rows of all sites.
                raise Stopping(str(NETWORK_FILE.translate(error.sentence))) from None
        else:
            agreed, users = saved.agreed, self.scaled(saved.agreed)
            check_fits(agreed, users)
            x = unpack_centers(saved.centers, self.contract.n_clusters)[None]
        runtime.pass_barrier(digest(agreed))
        names = ", ".join(self.contract.names[i] for i in runtime.members)
        parameters = [
            f"{name} {value:.6g}"
            for name, value in (("rho", agreed.rho), ("alpha", agreed.alpha))
            if self.contract.spec.takes(name) and value > 0
        ]
        if self.contract.delta == "auto":
            parameters.append(f"delta {agreed.delta:.6g}")
        chosen = f": {', '.join(parameters)}" if parameters else ""
        self.directory.log(
            LogEvent("agreed", f"Agreed with {names}{chosen}.", peers=names.split(", "))
        )
        if saved is not None:
            resumed = f"All peers resume from their checkpoints, at round {round_}."
            self.directory.log(LogEvent("resumed", resumed, round=round_))
        self._start(agreed, round_)
        return JoinResult(agreed, users, x, round_)

    def _agree_to_resume(self, runtime: SetupRuntime) -> tuple[Checkpoint | None, int]:
        """Return the checkpoint and the latest round of all, if all sites have one of this run."""
        saved = self._load_checkpoint()
        if saved is not None and saved.run != run_id(self.contract, saved.agreed)[:TAG_BYTES]:
            self.directory.log("The checkpoint belongs to another network file. It is not used.")
            saved = None
        run, round_ = (None, 0) if saved is None else (saved.run, saved.round)
        users = self.rows.users(self.contract)
        latest = runtime.in_thread(
            lambda: setup.agree_to_resume(self.contract, runtime, users, run, round_)
        )
        return (None, 0) if latest is None else (saved, latest)

    def refuse(self, reply: StateReply) -> str:
        """Return why a neighbor's centers cannot be those of the run, or ""."""
        x = unpack_centers(reply.centers, self.contract.n_clusters)
        box = configuration.make_box(self.contract, reply.agreed)
        return refuse_agreed(self.contract, reply.agreed) or box.refuse(x)

    def _join(self, reply: StateReply) -> JoinResult:
        """Join a run that has started, from the checkpoint or else a neighbor's centers."""
        agreed = reply.agreed
        K, spec = self.contract.n_clusters, self.contract.spec
        if not spec.survives_loss:
            raise PeerError(
                f"The run has started without {self.node.session.name}, and the solver"
                f" {spec.name!r} needs a fixed graph; it can take part only if all start again."
            )
        users = self.scaled(agreed)
        check_fits(agreed, users)
        for link in self.node.session.links.values():
            link.reset()
        x = unpack_centers(reply.centers, K)[None]
        source = "the centers of a neighbor"
        saved = self._load_checkpoint()
        if saved is not None and saved.run == run_id(self.contract, agreed)[:TAG_BYTES]:
            x = unpack_centers(saved.centers, K)[None]
            source = f"the checkpoint of round {saved.round}"
        joins = f"The run is in round {reply.round}; joining with {source}."
        self.directory.log(LogEvent("joined", joins, round=reply.round))
        self._start(agreed, reply.round)
        return JoinResult(agreed, users, x, reply.round, late=True)

    def _start(self, agreed: Agreed, round_: int) -> None:
        """Set the node to a round of the run."""
        run = run_id(self.contract, agreed)
        self.directory.journal.agreed(
            run[:TAG_BYTES], agreed.members, agreed.lost, agreed.processes, self.rows.digest
        )
        self.node.membership.start_run(run, agreed, round_)

    def _load_checkpoint(self) -> Checkpoint | None:
        return self.directory.load_checkpoint(self.contract, self.rows.digest)

    def _check_majority(self, members: Sequence[int]) -> None:
        """Raise PeerError for half of all peers or fewer: they cannot converge, nor be joined."""
        session, m = self.node.session, len(self.contract.peers)
        if is_majority(len(members), m):
            return
        others = [self.contract.names[i] for i in members if i != session.number]
        reached = "none of its neighbors"
        if others:
            reached = f"only {', '.join(others)}, and a run needs more than half of all {m} peers"
        absent = "; ".join(
            f"{link.name}: {link.banned or link.refusal or 'no answer'}"
            for link in session.links.values()
            if link.number not in members or link.banned or link.refusal
        )
        raise PeerError(
            f"{session.name} could reach {reached}{': ' * bool(absent)}{absent}. Start all sites"
            " within `join_timeout`; if their run is over, one of them can send its result with"
            " `peerclust peer serve`."
        )
