"""The commands that run peers, serve and inspect their runs: peer check, run, serve and others."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

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
from peerclust.cli.peer_options import (
    Data,
    Dial,
    Keys,
    Listen,
    LogFormat,
    Me,
    Network,
    parse_peer_arguments,
    parse_site,
    parse_site_arguments,
)
from peerclust.cli.peer_printer import PeerPrinter, logging_to
from peerclust.cli.peer_setup import peer
from peerclust.errors import LeftError, ParameterError, PeerclustError, PeerError
from peerclust.files import explain
from peerclust.peers.end_request import EndRequest
from peerclust.text import count


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
        given = parse_site_arguments(network, me, data, keys, listen, dial, csv)
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
    printer = PeerPrinter(me, out, log_format, quiet=as_json)
    with EndRequest(printer.exit_now) as end_request, logging_to(printer.log):
        # Heavy modules are imported once the process can be asked to end.
        from peerclust.cli import options, peer_display
        from peerclust.peers import commands

        csv = options.parse_csv(delimiter, decimal, "peer run")
        emit = None if sys.stderr.isatty() and log_format == "text" else printer.log
        try:
            with peer_display.rounds(quiet=as_json, emit=emit) as progress:
                commands.run_site(
                    parse_site_arguments(network, me, data, keys, listen, dial, csv),
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
    printer = PeerPrinter(me, out, log_format, quiet=False, command="peer serve", code=0)
    with EndRequest(printer.exit_now) as end_request:
        from peerclust.peers.serve import serve_record

        try:
            serve_record(
                parse_peer_arguments(network, me, keys, listen, dial),
                out,
                log_format=log_format,
                end_request=end_request,
                on_log=printer.log,
            )
        except (PeerclustError, OSError) as error:
            printer.fail(explain(error), "an error", exit_codes.ERROR)
    raise typer.Exit(printer.code)


@peer.command()
def status(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory given to peer run as --out.")
    ],
    as_json: Json = False,
) -> None:
    """Ask a running peer for its round, residual, neighbors and bytes, or say how its run ended."""
    from peerclust.cli import peer_display
    from peerclust.peers.result_files import read_status
    from peerclust.peers.site_directory import status_socket
    from peerclust.report import terminal
    from peerclust.runtimes.network.status import ask

    if not directory.is_dir():
        raise ParameterError(f"There is no directory {directory}.")
    try:
        answer = ask(status_socket(directory))
    except PeerError as error:
        ended = read_status(directory)
        if ended is None:
            if not (directory / "checkpoint").exists():
                raise
            resumes = "There is a checkpoint: the same command resumes from it."
            raise PeerError(f"{error} {resumes}") from None
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
            [parse_site(each) for each in sites],
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
