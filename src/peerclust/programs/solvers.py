"""The table of all solvers; each spec stands beside its program, in the file of the algorithm."""

from __future__ import annotations

from peerclust.programs import accelerated, admm, dgc, exact, group_lasso
from peerclust.programs.solver_spec import SolverSpec

SOLVERS: dict[str, SolverSpec] = {
    spec.name: spec
    for spec in (
        accelerated.SPEC,
        dgc.SPEC,
        admm.SPEC,
        group_lasso.SPEC,
        exact.SPEC,
    )
}

# What `solver="auto"` of `cluster` means: the second, or the first where only that one can do it.
PENALIZED_DEFAULT = accelerated.SPEC
CONSENSUS_DEFAULT = exact.SPEC


def list_names() -> str:
    """Return the names of all solvers for a sentence; it says which of them send sums.

    >>> list_names()
    'accelerated, dgc, admm, group-lasso or exact (which sends sums)'
    """
    *names, last = (
        f"{spec.name} (which sends sums)" if spec.sends_sums else spec.name
        for spec in SOLVERS.values()
    )
    return f"{', '.join(names)} or {last}"
