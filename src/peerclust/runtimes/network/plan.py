"""The runs of a peer, one after the other, and where in their plan it is. No I/O.

All rounds are counted together. A search (`clustering.search`) decides which runs there are.
"""

from __future__ import annotations

from typing import NamedTuple

from peerclust.arrays import Array
from peerclust.programs.certificate import Certify
from peerclust.programs.protocol import AnyProgram, State
from peerclust.programs.swaps import TOL
from peerclust.runtimes.convergence import CheckedRun, Plan, converge
from peerclust.runtimes.loop import begin
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.protocol import Snapshot
from peerclust.theory import Curvature
from peerclust.users import Users


class Place(NamedTuple):
    """Where a peer is in the plan; a number that it does not know is 0.

    `round` is where the last run ended, and `limit` where the present one ends at the latest.
    `search_from` is where the search began; `moves` are its moves so far, `kept` those that were
    kept.
    """

    round: int = 0
    limit: int = 0
    search_from: int = 0
    moves: int = 0
    kept: int = 0


class RunPlan:
    """Makes the plans of one peer's runs of a program.

    `late` is whether the run was under way before this process joined it. Lengths up to `threshold`
    are within `tol`; the first run, and those that a search compares with it, end at `coarse`. The
    last run after the first one began at `anew`.
    """

    def __init__(
        self,
        contract: Contract,
        program: AnyProgram,
        certify: Certify,
        users: Users,
        *,
        spread: float,
        late: bool = False,
    ) -> None:
        self.program, self.certify, self.users, self.spread = program, certify, users, spread
        self._contract, self.late = contract, late
        self.threshold = contract.tol * spread if contract.tol > 0 else -1.0
        self.coarse = max(contract.tol, TOL) * spread if contract.searches else self.threshold
        self.place = Place()
        self.anew: Snapshot[State] | None = None

    def first(self, start: Snapshot[State]) -> Plan[CheckedRun]:
        """Return the plan of the first run, until it has converged."""
        if self.late:
            # The others know how many rounds are left.
            return self._run(start, self._contract.max_round, self.threshold)
        begun, most = start.states[0].round, self._contract.rounds
        # A run that is resumed has the rounds that were left to it, unless it was a later one.
        return self._run(start, self._limit(most if begun < most else begun + most), self.coarse)

    def next(self, x: Array, curvature: Curvature, threshold: float) -> Plan[CheckedRun]:
        """Return the plan of a run after the last one, from centers x, (1, K, d)."""
        begun = self.place.round
        stiffness = curvature.stiffness(self.certify.penalty_curvature)
        self.anew = begin(self.program, [self.users], [x], begun, stiffness=[stiffness])
        return self._run(self.anew, self._limit(begun + self._contract.rounds), threshold)

    def begin_search(self) -> None:
        """Note that the search begins after the last run."""
        self.place = self.place._replace(search_from=self.place.round)

    def count_move(self, kept: bool) -> None:
        """Note a move of the search."""
        place = self.place
        self.place = place._replace(moves=place.moves + 1, kept=place.kept + kept)

    def _limit(self, limit: int) -> int:
        """Keep the limit of the rounds of a run, and return it."""
        self.place = self.place._replace(limit=min(limit, self._contract.max_round))
        return self.place.limit

    def _run(self, start: Snapshot[State], rounds: int, threshold: float) -> Plan[CheckedRun]:
        end = yield from converge(
            self.program, self.certify, start, rounds=rounds, threshold=threshold
        )
        self.place = self.place._replace(round=end.run.rounds)
        return end
