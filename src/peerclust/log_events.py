"""The events of a peer's log. Their names are stable; sentences may change between versions.

Whatever logs calls `log(sentence)`. A `LogEvent` is a sentence that also has the name of its event
and fields, for programs that read the log; a plain sentence is a "note".
"""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime

from peerclust.text import LONGEST_LINE, sanitize

EVENTS = {
    "read": "the rows were read, and how",
    "waiting": "`peers` are awaited",
    "connected": "`peer` is here",
    "disconnected": "the connection to `peer` broke",
    "refused": "`peer`, or a stranger, was refused; with a `cause` if it is dropped",
    "setup-restarted": "the set-up starts again",
    "agreed": "`peers` have agreed on the settings of the run",
    "resumed": "the run is resumed at `round`, from checkpoints",
    "joined": "this peer joins a run that is in `round`",
    "progress": "the `round`, the `residual`, and the number of `neighbors` alive",
    "lost": "`peer` was lost in `round`, for a `cause`",
    "rejoined": "`peer` takes part again from `round` on",
    "unconfirmed": "`peer` has a result that too few peers have signed; it is not taken",
    "fetched": "the result of `run`, which is over, was received from `peer`",
    "serving": "this peer serves the result of `run`, which ended in `round`",
    "majority-lost": "`connected` peers are left, too few to converge",
    "majority-back": "`connected` peers are enough again",
    "evidence": "`peer` was caught lying",
    "file-failed": "`file`, or the result, could not be written",
    "asked-to-end": "SIGTERM or Ctrl-C came",
    "ended": "the run is over: `status`, `rounds`",
    "written": "the result is in `directory`",
    "lingering": "this peer waits for `peers` to return",
    "failed": "this process ends without a result; on stderr with the exit `code`",
    "note": "anything else",
}

FORMATS = ("text", "json")


class LogEvent(str):
    """A sentence of the log, with the name of its event and its fields.

    >>> LogEvent("lost", "b was lost in round 3.", peer="b", round=3).fields
    {'peer': 'b', 'round': 3}
    """

    __slots__ = ("event", "fields")
    event: str
    fields: dict[str, object]

    def __new__(cls, event: str, sentence: str, **fields: object) -> LogEvent:
        """Make the sentence of an event of `EVENTS`."""
        made = super().__new__(cls, sentence)
        made.event, made.fields = event, fields
        return made


def make_printable(sentence: str) -> str:
    r"""Return a sentence, or an event, as one printable line.

    >>> make_printable(LogEvent("lost", "b was lost:\x1b[31m.", peer="b")).fields
    {'peer': 'b'}
    """
    clean = sanitize(sentence, longest=LONGEST_LINE)
    if isinstance(sentence, LogEvent):
        return LogEvent(sentence.event, clean, **sentence.fields)
    return clean


def json_line(sentence: str, now: datetime) -> str:
    """Return a sentence of the log as one JSON object.

    >>> json_line("All is well.", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    '{"time": "2026-01-02T03:04:05Z", "event": "note", "message": "All is well."}'
    """
    event, fields = "note", dict[str, object]()
    if isinstance(sentence, LogEvent):
        event, fields = sentence.event, sentence.fields
    finite = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in fields.items()
    }
    return json.dumps({"time": show_time(now), "event": event, "message": str(sentence)} | finite)


def text_line(sentence: str, now: datetime) -> str:
    """Return a sentence of the log with its time.

    >>> text_line("All is well.", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    '2026-01-02T03:04:05Z All is well.'
    """
    return f"{show_time(now)} {sentence}"


def show_time(now: datetime) -> str:
    """Return a time in UTC, as ISO 8601 with its zone."""
    return f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
