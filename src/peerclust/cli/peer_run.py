"""The commands that run peers, serve and inspect their runs: peer check, run, serve and others."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from peerclust.cli import exit_codes
from peerclust.cli.app import (
    Decimal,
    Delimiter,
    Force,
    Json,
    Seed,
    echo,
    print_json,
    print_progress,
)
from peerclust.cli.peer_setup import peer
from peerclust.errors import LeftError, ParameterError, PeerclustError, PeerError
from peerclust.files import explain
from peerclust.log_events import FORMATS, LogEvent, json_line
from peerclust.peers.end_request import EndRequest
from peerclust.text import LONGEST_LINE, count, sanitize

if TYPE_CHECKING:
    from peerclust.peers.commands import PeerArguments, SiteArguments
    from peerclust.tables import CsvOptions

Network = Annotated[Path, typer.Option(metavar="FILE", help="Network file, from peer init.")]
Me = Annotated[str, typer.Option(metavar="NAME", help="Name of this site in the network file.")]
Data = Annotated[Path, typer.Option(metavar="FILE", help="This site's rows, CSV, TSV or Parquet.")]
Keys = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Directory of the key (default: that of the network file)."),
]
Listen = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="Address to listen on (default: as in the network file)."
    ),
]
Dial = Annotated[
    list[str],
    typer.Option(
        metavar="NAME=HOST:PORT", help="Dial a neighbor at another address, such as a tunnel."
    ),
]
LogFormat = Annotated[
    str,
    typer.Option(
        metavar="text|json", help="Log to stderr and to DIR as sentences, or as JSON lines."
    ),
]


@peer.command()
def check(
    network: Network,
    me: Me,
    data: Data,
    keys: Keys = None,
    listen: Listen = None,
    dial: Dial = [],  # noqa: B006
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    seconds: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for neighbors that do not answer.")
    ] = 10,
    as_json: Json = False,
) -> None:
    """Check whether this site is ready to run: files, key, clock, port, data and neighbors.

    Exit code 0: every check passed; 1: a check failed.
    """
    from peerclust.cli import options, peer_display
    from peerclust.peers.check import check
    from peerclust.report import terminal

    csv = options.parse_csv(delimiter, decimal, "peer check")
    with peer_display.waiting(quiet=as_json) as show_waiting:
        given = _parse_site_arguments(network, me, data, keys, listen, dial, csv)
        lines = check(given, seconds=seconds, on_wait=show_waiting)
    ready = all(each.ok for each in lines)
    if as_json:
        print_json({"ready": ready, "checks": [asdict(each) for each in lines]})
    else:
        failed = sum(not each.ok for each in lines)
        where = exit_codes.where("a check failed")
        last = [f"{count(failed, 'check')} failed. ({where})"] if failed else []
        terminal.show(peer_display.check_table(lines), *last)
    if not ready:
        raise typer.Exit(1)


@peer.command()
def run(
    network: Network,
    me: Me,
    data: Data,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory for this site's result.")],
    keys: Keys = None,
    listen: Listen = None,
    dial: Dial = [],  # noqa: B006
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    force: Force = False,
    log_format: LogFormat = "text",
    as_json: Json = False,
) -> None:
    """Cluster with the other sites.

    Exit code 0: converged, or joined late and received the result; 1: ended without converging;
    2: an error; 3: stopped by SIGTERM or Ctrl-C (the same command resumes from the checkpoint);
    70: a crash.
    """
    printer = _Printer(me, out, log_format, quiet=as_json)
    with EndRequest(printer.exit_now) as end_request, _logging_to(printer.log):
        # Heavy modules are imported once the process can be asked to end.
        from peerclust.cli import options, peer_display
        from peerclust.peers import commands

        csv = options.parse_csv(delimiter, decimal, "peer run")
        emit = None if sys.stderr.isatty() and log_format == "text" else printer.log
        try:
            with peer_display.rounds(quiet=as_json, emit=emit) as progress:
                commands.run_site(
                    _parse_site_arguments(network, me, data, keys, listen, dial, csv),
                    out,
                    force=force,
                    log_format=log_format,
                    end_request=end_request,
                    progress=progress,
                    on_log=printer.log,
                    on_result=printer.result,
                )
        except LeftError as left:
            printer.fail(str(left), "asked to end", exit_codes.LEFT)
            # Python waits for threads when it ends, and one may still compile a kernel.
            printer.exit_now()
        except (PeerclustError, OSError) as error:
            printer.fail(explain(error), "an error", exit_codes.ERROR)
    raise typer.Exit(printer.code)


@peer.command()
def serve(
    network: Network,
    me: Me,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory of this site's result.")],
    keys: Keys = None,
    listen: Listen = None,
    dial: Dial = [],  # noqa: B006
    log_format: LogFormat = "text",
) -> None:
    """Serve the result of a run that is over to neighbors that have missed the end.

    Exit code 0: asked to end, by SIGTERM or Ctrl-C; 2: an error; 70: a crash.
    """
    printer = _Printer(me, out, log_format, quiet=False, command="peer serve", code=0)
    with EndRequest(printer.exit_now) as end_request:
        from peerclust.peers.serve import serve_record

        try:
            serve_record(
                _parse_peer_arguments(network, me, keys, listen, dial),
                out,
                log_format=log_format,
                end_request=end_request,
                on_log=printer.log,
            )
        except (PeerclustError, OSError) as error:
            printer.fail(explain(error), "an error", exit_codes.ERROR)
    raise typer.Exit(printer.code)


@contextmanager
def _logging_to(log: Callable[[str], None]) -> Iterator[None]:
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


class _Printer:
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
        """Print a sentence of the log to stderr."""
        if not self.quiet:
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
            print(line, file=stream, flush=True)
        except OSError:
            # Otherwise Python fails once more, when it flushes the stream at the end.
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@peer.command()
def status(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory given to peer run as --out.")
    ],
    as_json: Json = False,
) -> None:
    """Ask a running peer for its round, residual, neighbors and bytes, or say how its run ended."""
    from peerclust.cli import peer_display
    from peerclust.peers.site_directory import read_status, status_socket
    from peerclust.report import terminal
    from peerclust.runtimes.network.status import ask

    if not directory.is_dir():
        raise ParameterError(f"There is no directory {directory}.")
    try:
        answer = ask(status_socket(directory))
    except PeerError:
        ended = read_status(directory)
        if ended is None:
            raise
        if as_json:
            print_json({"phase": "ended", "status": asdict(ended), "out": str(directory)})
            return
        where = exit_codes.where(ended.name)
        echo(f"The run in {directory} has ended. {ended} ({where})")
        return
    if as_json:
        print_json(answer)
    else:
        terminal.show(peer_display.status_table(answer))


@peer.command()
def replay(
    network: Network,
    sites: Annotated[
        list[str],
        typer.Option(
            "--site",
            metavar="NAME=DATA=DIR",
            help="A site, its rows and its result directory; repeat for each site.",
        ),
    ],
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    as_json: Json = False,
) -> None:
    """Compute a run again from the sites' rows and journals.

    Exit code 0: all centers are equal to the last bit; 1: some differ.
    """
    from peerclust.cli import options, peer_display
    from peerclust.peers import commands
    from peerclust.report import terminal

    with peer_display.rounds(quiet=as_json) as progress:
        replayed = commands.replay(
            network,
            [_parse_site(each) for each in sites],
            csv=options.parse_csv(delimiter, decimal, "peer replay"),
            on_round=lambda round_, here: progress(round_, None, len(here)),
        )
    same = all(site["same"] for site in replayed.values())
    if as_json:
        print_json(replayed)
    else:
        last = [] if same else [f"The replay differs. ({exit_codes.where('a replay differs')})"]
        terminal.show(peer_display.replay_table(replayed), *last)
    if not same:
        raise typer.Exit(1)


@peer.command()
def demo(
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="New directory for all files (default: a temporary one)."),
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Run ten peer processes on this machine, kill and restart one, and replay the run."""
    from tempfile import TemporaryDirectory

    from peerclust.cli import peer_display
    from peerclust.report import terminal
    from peerclust.testing import peer_demo

    if out is not None and out.exists():
        raise ParameterError(f"`--out` of peer demo must be a new directory. Got {out}.")
    with TemporaryDirectory(prefix="peerclust-") as folder:
        result = peer_demo.run(
            out or Path(folder), seed, lambda line: print_progress(line, as_json)
        )
    if as_json:
        print_json(result.as_dict())
    else:
        written = [f"Written to {out}."] if out else []
        terminal.show(peer_display.demo_table(result.as_dict()), *written)
    if not result.holds:
        raise typer.Exit(1)


def _parse_site(value: str) -> tuple[str, Path, Path]:
    name, _, rest = value.partition("=")
    data, equals, directory = rest.rpartition("=")
    if not equals:
        raise ParameterError(f"`--site` of peer replay must be NAME=DATA=DIR. Got {value!r}.")
    return name, Path(data), Path(directory)


def _parse_site_arguments(
    network: Path,
    me: str,
    data: Path,
    keys: Path | None,
    listen: str | None,
    dial: list[str],
    csv: CsvOptions,
) -> SiteArguments:
    from peerclust.peers.commands import SiteArguments

    given = vars(_parse_peer_arguments(network, me, keys, listen, dial))
    return SiteArguments(data=data, csv=csv, **given)


def _parse_peer_arguments(
    network: Path, me: str, keys: Path | None, listen: str | None, dial: list[str]
) -> PeerArguments:
    from peerclust.peers.commands import PeerArguments

    endpoint = None if listen is None else parse_endpoint(listen, "listen")
    others = dict(_parse_dial(each) for each in dial)
    return PeerArguments(network, me, keys=keys, listen=endpoint, dial=others)


def parse_endpoint(value: str, name: str) -> tuple[str, int]:
    """Return the host and the port in an option's value."""
    from peerclust.runtimes.network.contract import Peer
    from peerclust.runtimes.network.contract_validation import check_address

    check_address(value, f"`--{name}`")
    return Peer("", value, b"").endpoint


def _parse_dial(value: str) -> tuple[str, tuple[str, int]]:
    name, equals, address = value.partition("=")
    if not equals:
        raise ParameterError(f"`--dial` must be NAME=HOST:PORT. Got {value!r}.")
    return name, parse_endpoint(address, "dial")
