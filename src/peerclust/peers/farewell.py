"""How a site that cannot take part in a run tells its neighbors why, so that they need not wait.

They hear which rule was violated, but no values, paths or rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from peerclust.errors import PeerclustError, PeerError, SiteDataError
from peerclust.files import explain
from peerclust.log_events import LogEvent
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.identity import Identity
from peerclust.runtimes.network.messages import Bye
from peerclust.runtimes.network.probe import Probe
from peerclust.text import sanitize

# How many seconds to try. A neighbor that dials pauses for at most 3.75 s.
_SECONDS = 4.0


def say_farewell(
    contract: Contract,
    me: str,
    identity: Identity,
    bye: Bye,
    names: Sequence[str],
    *,
    listen: tuple[str, int] | None = None,
    dial: Mapping[str, tuple[str, int]] | None = None,
    on_wait: Callable[[list[str]], None] = lambda _: None,
) -> None:
    """Tell these neighbors why this site does not take part, as far as they are there.

    `on_wait` is called with those that do not know it yet; never if another process of this site
    runs, as nothing is said then.
    """
    probe = Probe(
        contract, me, identity, listen=listen, dial=dial, farewell=bye, names=names
    )  # fmt: skip
    asyncio.run(probe.run(_SECONDS, on_wait))


@contextmanager
def telling_neighbors(
    contract: Contract,
    me: str,
    identity: Identity,
    reason: str,
    *,
    listen: tuple[str, int] | None,
    dial: Mapping[str, tuple[str, int]],
    log: Callable[[str], None],
) -> Iterator[None]:
    """Tell all neighbors of an error, with a reason; log the error before they are waited for."""
    try:
        yield
    except (PeerclustError, OSError) as error:
        names = contract.neighbors(me)
        telling = f"Telling {', '.join(names)}, if they are there."
        lines = [LogEvent("note", f"{explain(error)} {telling}")]

        def log_once(_: list[str]) -> None:
            while lines:
                log(lines.pop())

        bye = Bye("fails", describe(error, reason))
        say_farewell(contract, me, identity, bye, names, listen=listen, dial=dial, on_wait=log_once)
        raise


def describe(error: Exception, reason: str) -> str:
    """Return what neighbors learn of an error.

    >>> age = SiteDataError("Got 210 in row 3.", "column 'age' must lie in its range")
    >>> describe(age, "its data cannot be used")
    "its data cannot be used: column 'age' must lie in its range"
    """
    if isinstance(error, PeerError):
        return sanitize(str(error))  # it is about other sites
    rule = f": {error.rule}" if isinstance(error, SiteDataError) else ""
    return sanitize(reason + rule)
