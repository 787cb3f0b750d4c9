"""How a site joins a run.

All sites agree on the settings of the run, or resume together from their checkpoints. A site that
joins after the others have started gets the settings and the current round from a neighbor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from peerclust.arrays import Array
from peerclust.errors import DataError, PeerError
from peerclust.peers import configuration, setup
from peerclust.peers.setup import Rows
from peerclust.peers.site_directory import SiteDirectory
from peerclust.runtimes.network import checkpoint
from peerclust.runtimes.network.checkpoint import Checkpoint
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.membership import RestartSetup, StateReceived
from peerclust.runtimes.network.messages import Agreed, StateReply, View, unpack_centers
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.setup import SetupRuntime
from peerclust.runtimes.network.views import MembershipViews
from peerclust.users import Users


@dataclass(frozen=True, eq=False)
class JoinResult:
    """What was agreed, the scaled rows, and the centers (1, K, d) and the round to start from."""

    agreed: Agreed
    users: Users
    x: Array
    round: int


class JoinProcedure:
    """Joins one site to a run."""

    def __init__(self, node: Node, rows: Rows, directory: SiteDirectory) -> None:
        self.node, self.rows, self.directory = node, rows, directory
        self.contract: Contract = node.contract

    def run(self) -> JoinResult:
        """Agree with all others, or join a run that has started.

        Raises StateReceived if the run is over.
        """
        while True:
            try:
                return self._agree()
            except RestartSetup:
                self.directory.log("The setup starts again.")
            except StateReceived as received:
                if received.reply.done:
                    raise
                reason = self.refuse(received.reply)
                if not reason:
                    return self._join(received.reply)
                self.node.ban(received.link, f"it reported an impossible run: {reason}")

    def scaled(self, agreed: Agreed) -> Users:
        """Return this site's rows in the agreed scale."""
        return self.rows.users(self.contract, agreed)

    def _agree(self) -> JoinResult:
        """Agree on scale, step and start, or on resuming from the checkpoints of all sites."""
        runtime = SetupRuntime(self.node)
        if len(runtime.members) == 1:
            raise PeerError(
                f"{self.node.name} could reach none of its neighbors: {self._list_absent()}."
            )
        saved, round_ = self._agree_to_resume(runtime)
        if saved is None:
            agreed, users, x = runtime.in_thread(
                lambda: setup.agree(
                    self.contract, runtime, self.rows, runtime.members, runtime.lost
                )
            )
        else:
            agreed, users = saved.agreed, self.scaled(saved.agreed)
            setup.check_fits(agreed, users)
            x = unpack_centers(saved.centers, self.contract.n_clusters)[None]
        runtime.pass_barrier()
        names = ", ".join(self.contract.names[i] for i in runtime.members)
        parameters = [
            f"{name} {value:.6g}"
            for name, value in (("rho", agreed.rho), ("alpha", agreed.alpha))
            if self.contract.spec.takes(name) and value > 0
        ]
        if self.contract.delta == "auto":
            parameters.append(f"delta {agreed.delta:.6g}")
        chosen = f": {', '.join(parameters)}" if parameters else ""
        self.directory.log(f"Agreed with {names}{chosen}.")
        if saved is not None:
            self.directory.log(f"All peers resume from their checkpoints, at round {round_}.")
        self._start(agreed, (), round_)
        return JoinResult(agreed, users, x, round_)

    def _agree_to_resume(self, runtime: SetupRuntime) -> tuple[Checkpoint | None, int]:
        """Return the checkpoint and the latest round of all, if all sites have one of this run."""
        saved = self._load_checkpoint()
        if saved is not None and saved.run != setup.run_tag(self.contract, saved.agreed):
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
        return setup.refuse_agreed(self.contract, reply.agreed) or box.refuse(x)

    def _join(self, reply: StateReply) -> JoinResult:
        """Join a run that has started, from the checkpoint or else a neighbor's centers."""
        agreed = reply.agreed
        K, spec = self.contract.n_clusters, self.contract.spec
        if not spec.survives_loss:
            raise PeerError(
                f"The run has started without {self.node.name}, and the solver {spec.name!r} needs"
                " a fixed graph; it can take part only if all start again."
            )
        users = self.scaled(agreed)
        setup.check_fits(agreed, users)
        for link in self.node.links.values():
            link.reset()
        x = unpack_centers(reply.centers, K)[None]
        source = "the centers of a neighbor"
        saved = self._load_checkpoint()
        if saved is not None and saved.run == setup.run_tag(self.contract, agreed):
            x = unpack_centers(saved.centers, K)[None]
            source = f"the checkpoint of round {saved.round}"
        self.directory.log(f"The run is in round {reply.round}; joining with {source}.")
        self._start(agreed, reply.views, reply.round)
        return JoinResult(agreed, users, x, reply.round)

    def _start(self, agreed: Agreed, views: Sequence[View], round_: int) -> None:
        """Set the node to a round of the run, with the views of its members."""
        tag = setup.run_tag(self.contract, agreed)
        self.directory.journal.agreed(tag, agreed.members, agreed.lost, self.rows.digest)
        known = MembershipViews(self.contract.graph, agreed.members, agreed.lost)
        for view in views:
            known.update(view)
        self.node.start_run(tag, known, round_)

    def _load_checkpoint(self) -> Checkpoint | None:
        try:
            saved = checkpoint.load(self.directory.checkpoint)
        except DataError as error:
            self.directory.log(f"{error} It is not used.")
            return None
        if saved is not None and saved.rows != self.rows.digest:
            raise DataError(
                f"The checkpoint {self.directory.checkpoint} must belong to the given rows. Got"
                " other rows; use the same file, or start over with --force."
            )
        return saved

    def _list_absent(self) -> str:
        links = self.node.links.values()
        return "; ".join(f"{link.name}: {link.refusal or 'no answer'}" for link in links)
