"""What the log says about refused connections: little, whoever connects, and however often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from peerclust.log_events import LogEvent

# Seconds between two lines for the same reason, and maximum number of different reasons.
_PAUSE, _MAX_REASONS = 60.0, 100

# Maximum number of different lines about one neighbor.
_MAX_LINES = 100

_OTHER = "for yet another reason"


@dataclass
class _Refusals:
    """When a reason was last logged, and how many connections were refused for it since."""

    logged_at: float
    more: int = 0


class RefusalLog:
    """The lines about neighbors, each once, and about strangers, one per reason and minute."""

    def __init__(self, log: Callable[[str], None], clock: Callable[[], float] = monotonic) -> None:
        self._log, self._clock = log, clock
        self._lines: dict[str, set[str]] = {}
        self._reasons: dict[str, _Refusals] = {}

    def note_neighbor(self, name: str, what: str, *, event: str = "refused") -> None:
        """Log what happened to a neighbor's connection, unless that was logged already."""
        known, what = self._lines.setdefault(name, set()), what.removesuffix(".")
        if what not in known and len(known) < _MAX_LINES:
            known.add(what)
            self._log(LogEvent(event, f"{name} {what}.", peer=name))

    def note_stranger(self, host: str, reason: str) -> None:
        """Log why a stranger was refused, or count it."""
        reason = reason.removesuffix(".")
        if reason not in self._reasons and len(self._reasons) >= _MAX_REASONS:
            reason = _OTHER
        now = self._clock()
        same = self._reasons.get(reason)
        if same is None:
            self._reasons[reason] = _Refusals(now)
            self._log(LogEvent("refused", f"{host} was refused: {reason}."))
        elif now - same.logged_at < _PAUSE:
            same.more += 1
        else:
            others = f" and {_count(same.more)}" if same.more else ""
            refused = f"{host}{others} {'were' if others else 'was'} refused: {reason}."
            self._log(LogEvent("refused", refused))
            same.logged_at, same.more = now, 0

    def close(self) -> None:
        """Log what was only counted."""
        for reason, same in self._reasons.items():
            if same.more:
                refused = f"{_count(same.more)} of strangers were refused: {reason}."
                self._log(LogEvent("refused", refused))
                same.more = 0


def _count(more: int) -> str:
    return f"{more:,} more connection{'s' * (more > 1)}"
