"""Exit codes, and where the docs explain each of them and each status of a run."""

from __future__ import annotations

import re

# There is a result. Not converged, or in other commands: a check failed, or a replay differs.
CONVERGED, NOT_CONVERGED = 0, 1
# There is none: an error that one sentence explains; asked to end; an exception that is a bug.
ERROR, LEFT, INTERRUPTED, CRASH = 2, 3, 130, 70

_CONVERGED = ("converged", "converged without some peers", "joined late")


def of_status(name: str) -> int:
    """Return the exit code of `peer run` for a status.

    >>> of_status("converged"), of_status("partitioned")
    (0, 1)
    """
    return CONVERGED if name in _CONVERGED else NOT_CONVERGED


def where(heading: str) -> str:
    """Return where the docs explain a status, or a kind of end without a result.

    >>> where("joined late, not converged")
    'docs/exit-codes.md#joined-late-not-converged'
    """
    return f"docs/exit-codes.md#{re.sub(r'[^a-z ]', '', heading).replace(' ', '-')}"


def describe_interrupt() -> str:
    """Return the sentence on Ctrl-C."""
    return f"Interrupted. ({where('interrupted')})"
