"""What a peer prints while it runs or serves, and its exit code."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from peerclust.cli import exit_codes
from peerclust.errors import ParameterError
from peerclust.log_events import FORMATS, LogEvent, json_line
from peerclust.text import LONGEST_LINE, sanitize


@contextmanager
def logging_to(log: Callable[[str], None]) -> Iterator[None]:
    """Pass on what the package logs, as that kernels are compiled."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            log(record.getMessage())

    logger, handler = logging.getLogger("peerclust"), Handler()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class PeerPrinter:
    """What a peer prints, and its exit code so far. A broken pipe does not end a run.

    `code` is that of a peer that is asked to end.
    """

    def __init__(
        self,
        me: str,
        out: Path,
        log_format: str,
        *,
        quiet: bool,
        command: str = "peer run",
        code: int = exit_codes.LEFT,
    ) -> None:
        if log_format not in FORMATS:
            raise ParameterError(
                f"`--log-format` of {command} must be text or json. Got {log_format!r}."
            )
        self.me, self.out, self.quiet = me, out, quiet
        self.as_json = log_format == "json"
        self.code, self._failed = code, False

    def log(self, sentence: str) -> None:
        """Print a sentence of the log to stderr, unless `result` prints it as text."""
        with_result = isinstance(sentence, LogEvent) and sentence.event in ("ended", "written")
        if not self.quiet and (self.as_json or not with_result):
            self._print_error(sentence)

    def result(self, record: dict[str, Any]) -> None:
        """Print the result; the peer may keep answering late peers for a while."""
        status = record["status"]
        self.code = exit_codes.of_status(status["name"])
        if self.quiet:
            self._print(json.dumps(record | {"out": str(self.out)}, indent=2), sys.stdout)
            return
        where = exit_codes.where(status["name"])
        self._print(f"{status['name']}: {status['advice']} ({where})", sys.stdout)
        self._print(f"Written to {self.out}.", sys.stdout)

    def fail(self, sentence: str, heading: str, code: int) -> None:
        """Print why there is no result, and set the exit code."""
        self.code, self._failed = code, True
        where = exit_codes.where(heading)
        self._print_error(LogEvent("failed", f"{sentence} ({where})", code=code))

    def exit_now(self) -> None:
        """End the process, which was asked to end and is busy."""
        if self.code == exit_codes.LEFT and not self._failed:
            if sys.stderr.isatty():
                sys.stderr.write("\r\x1b[K\x1b[?25h")  # a progress line may hide the cursor
            resumes = "the same command resumes from its last checkpoint, if there is one."
            self.fail(f"{self.me} was asked to end; {resumes}", "asked to end", self.code)
        os._exit(self.code)

    def _print_error(self, sentence: str) -> None:
        line = json_line(sentence, datetime.now(UTC)) if self.as_json else str(sentence)
        self._print(line, sys.stderr)

    def _print(self, line: str, stream: TextIO) -> None:
        # A path may have bytes that are no text.
        line = line.encode(errors="backslashreplace").decode()
        if not (self.quiet or self.as_json):
            line = sanitize(line, longest=LONGEST_LINE)
        try:
            # In one piece, as another thread may print, too.
            stream.write(f"{line}\n")
            stream.flush()
        except OSError:
            # Otherwise Python fails once more, when it flushes the stream at the end.
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
