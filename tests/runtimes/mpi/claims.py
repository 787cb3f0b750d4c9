"""Run by the ranks of a job: all that is claimed of jobs of this size, so that one job is enough.

Arguments: `conform` checks the runtime, `same` checks clustering, `some` checks clustering with
fewer options, `smoke` checks a little of both.
"""

import sys

import conform
import same

from peerclust import testing
from peerclust.runtimes.mpi import world

SMOKE = (
    "dgc", "accelerated", "admm", "group lasso, drops", "exact", "certificate", "draw", "total",
    "maximum",
)  # fmt: skip


def main(checks):
    if "conform" in checks:
        conform.check_covering()
    if "same" in checks:
        same.main()
    if "some" in checks:
        same.main(same.OPTIONS[::3])
    if "smoke" in checks:
        cases = [case for case in testing.cases() if case.name == "Huber, path(13)"]
        conform.check(SMOKE, cases)
        same.check_cluster([{"loss": "huber", "rho": 10, "rounds": 10}])


if __name__ == "__main__":
    with world().abort_on_failure():
        main(sys.argv[1:])
