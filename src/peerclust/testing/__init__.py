"""Conformance suites that every loss, program and runtime must pass, including a user's own.

    from peerclust.testing import check_loss, check_program, check_runtime

Each raises AssertionError with the case that failed. "Equal" means equal to the last bit.
"""

from peerclust.testing.cases import Case, cases
from peerclust.testing.checks import check_loss, check_program, check_runtime
from peerclust.testing.programs import PROGRAMS, Trial

__all__ = [
    "PROGRAMS",
    "Case",
    "Trial",
    "cases",
    "check_loss",
    "check_program",
    "check_runtime",
]
