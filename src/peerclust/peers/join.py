"""How a site enters a run: it agrees with all others, all go on from checkpoints, or it is told.

Who comes when others have begun is told by a neighbor where the run is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from peerclust.errors import DataError, PeerError
from peerclust.peers import configuration, setup
from peerclust.peers.setup import Rows
from peerclust.peers.site_directory import Folder
from peerclust.runtimes.network import checkpoint
from peerclust.runtimes.network.checkpoint import Checkpoint
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.membership import Restart, Welcomed
from peerclust.runtimes.network.messages import Agreed, View, Welcome, unpack_centers
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.setup import Agreeing
from peerclust.runtimes.network.terms import GO_ON
from peerclust.runtimes.network.views import Views
from peerclust.types import Array
from peerclust.users import Users


@dataclass(frozen=True, eq=False)
class Entry:
    """What was agreed, the scaled rows, and from which centers (1, K, d) and round to go on."""

    agreed: Agreed
    users: Users
    x: Array
    round: int


class Entrance:
    """The way of one site into a run."""

    def __init__(self, node: Node, rows: Rows, folder: Folder) -> None:
        self.node, self.rows, self.folder = node, rows, folder
        self.contract: Contract = node.contract

    def enter(self) -> Entry:
        """Agree with all others, or enter a run that is on its way.

        Raises Welcomed if the run is over.
        """
        while True:
            try:
                return self._agree()
            except Restart:
                self.folder.log("The agreement begins again.")
            except Welcomed as come:
                if come.welcome.done:
                    raise
                reason = self.refuse(come.welcome)
                if not reason:
                    return self._join(come.welcome)
                self.node.ban(come.link, f"it told of a run that cannot be: {reason}")

    def scaled(self, agreed: Agreed) -> Users:
        """Give this site's rows in the scale that was agreed on."""
        return self.rows.users(self.contract, setup.make_scale(self.contract, agreed))

    def _agree(self) -> Entry:
        """Agree on scale, step and start, or on going on from the checkpoints of all."""
        runtime = Agreeing(self.node)
        if len(runtime.members) == 1:
            raise PeerError(
                f"{self.node.name} could reach none of its neighbors: {self._tell_absent()}."
            )
        held, round_ = self._agree_to_resume(runtime)
        if held is None:
            agreed, users, x = setup.agree(
                self.contract, runtime, self.rows, runtime.members, runtime.lost
            )
        else:
            agreed, users = held.agreed, self.scaled(held.agreed)
            setup.check_fits(agreed, users)
            x = unpack_centers(held.centers, self.contract.n_clusters)[None]
        runtime.pass_barrier()
        names = ", ".join(self.contract.names[i] for i in runtime.members)
        chosen = "" if self.contract.solver in ("admm", "exact") else f": rho {agreed.rho:.6g}"
        if self.contract.solver in GO_ON:
            chosen += f", alpha {agreed.alpha:.6g}"
        self.folder.log(f"Agreed with {names}{chosen}.")
        if held is not None:
            self.folder.log(f"All go on from their checkpoints, at round {round_}.")
        self._begin(agreed, (), round_)
        return Entry(agreed, users, x, round_)

    def _agree_to_resume(self, runtime: Agreeing) -> tuple[Checkpoint | None, int]:
        """Give the checkpoint, and the latest round of all, if everyone has one of the same run."""
        held = self._load_checkpoint()
        if held is not None and held.run != setup.run_tag(self.contract, held.agreed):
            self.folder.log("The checkpoint is of another network file. It is not used.")
            held = None
        run, round_ = (None, 0) if held is None else (held.run, held.round)
        users = self.rows.users(self.contract)
        latest = setup.agree_to_resume(self.contract, runtime, users, run, round_)
        return (None, 0) if latest is None else (held, latest)

    def refuse(self, welcome: Welcome) -> str:
        """Give why the centers that a neighbor tells cannot be those of the run, or nothing."""
        program = configuration.make_program(self.contract, welcome.agreed)
        x = unpack_centers(welcome.centers, self.contract.n_clusters)
        return configuration.make_box(self.contract, program, welcome.agreed).refuse(x)

    def _join(self, welcome: Welcome) -> Entry:
        """Enter a run that is on its way, from the checkpoint or else a neighbor's centers."""
        agreed = welcome.agreed
        K = self.contract.n_clusters
        users = self.scaled(agreed)
        setup.check_fits(agreed, users)
        for link in self.node.links.values():
            link.discount()
        x = unpack_centers(welcome.centers, K)[None]
        whence = "the centers of a neighbor"
        held = self._load_checkpoint()
        if held is not None and held.run == setup.run_tag(self.contract, agreed):
            x = unpack_centers(held.centers, K)[None]
            whence = f"the checkpoint of round {held.round}"
        self.folder.log(f"The run is in round {welcome.round}; entering it with {whence}.")
        self._begin(agreed, welcome.views, welcome.round)
        return Entry(agreed, users, x, welcome.round)

    def _begin(self, agreed: Agreed, views: Sequence[View], round_: int) -> None:
        """Stand at the first round of the run, or at a later one."""
        tag = setup.run_tag(self.contract, agreed)
        self.folder.journal.agreed(tag, agreed.members, agreed.lost, self.rows.digest)
        held = Views(self.contract.graph, agreed.members, agreed.lost)
        for view in views:
            held.take(view)
        self.node.begin_run(tag, held, round_)

    def _load_checkpoint(self) -> Checkpoint | None:
        try:
            held = checkpoint.load(self.folder.checkpoint)
        except DataError as error:
            self.folder.log(f"{error} It is not used.")
            return None
        if held is not None and held.rows != self.rows.digest:
            raise DataError(
                f"The checkpoint {self.folder.checkpoint} must be of the rows that are given. Got"
                " other rows; give the same file, or begin anew with --force."
            )
        return held

    def _tell_absent(self) -> str:
        links = self.node.links.values()
        return "; ".join(f"{link.name}: {link.refusal or 'no answer'}" for link in links)
