"""Run by the ranks of a job: all that is claimed of jobs of this size, so that one job is enough.

Words: `conform` checks the runtime, `same` checks clustering and `some` does
it in fewer ways, `smoke` checks a little of both.
"""

import sys

import conform
import same

from peerclust import testing
from peerclust.runtimes.mpi import world

SMOKE = ("dgc", "accelerated", "admm", "group lasso, drops", "draw", "average", "maximum")


def main(words):
    if "conform" in words:
        conform.check_covering()
    if "same" in words:
        same.main()
    if "some" in words:
        same.main(same.WAYS[::3])
    if "smoke" in words:
        cases = [case for case in testing.cases() if case.name == "Huber, path(13)"]
        conform.check(SMOKE, cases)
        same.check_cluster([{"loss": "huber", "rho": 10, "rounds": 10}])


if __name__ == "__main__":
    with world().abort_on_failure():
        main(sys.argv[1:])
