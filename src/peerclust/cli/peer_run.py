"""The commands that run peers and inspect their runs: peer check, run, status, replay, demo."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
from peerclust.errors import LeftError, ParameterError, PeerError

if TYPE_CHECKING:
    from peerclust.peers.commands import SiteArguments
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
        terminal.show(peer_display.check_table(lines))
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
    as_json: Json = False,
) -> None:
    """Cluster with the other sites.

    Exit code 0: converged, or joined late and received the result; 1: ended without converging;
    2: an error; 3: stopped by SIGTERM (the same command resumes from the checkpoint).
    """
    from peerclust.cli import options, peer_display
    from peerclust.peers import commands

    csv = options.parse_csv(delimiter, decimal, "peer run")
    try:
        with peer_display.rounds(quiet=as_json) as progress:
            record: dict[str, Any] = commands.run_site(
                _parse_site_arguments(network, me, data, keys, listen, dial, csv),
                out,
                force=force,
                progress=progress,
                on_log=lambda line: print_progress(line, as_json),
                on_result=lambda record: _print_result(record, out, as_json),
            )
    except LeftError as stopped:
        echo(str(stopped), err=True)
        raise typer.Exit(3) from None
    if record["status"]["name"] not in ("converged", "converged without some peers", "joined late"):
        raise typer.Exit(1)


def _print_result(record: dict[str, Any], out: Path, as_json: bool) -> None:
    """Print the result; the peer may keep answering late peers for a while."""
    if as_json:
        print_json(record | {"out": str(out)})
        return
    echo(f"{record['status']['name']}: {record['status']['advice']}")
    echo(f"Written to {out}.")


@peer.command()
def status(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory given to peer run as --out.")
    ],
    as_json: Json = False,
) -> None:
    """Ask a running peer for its round, residual, neighbors and bytes."""
    from peerclust.cli import peer_display
    from peerclust.peers.site_directory import status_socket
    from peerclust.report import terminal
    from peerclust.runtimes.network.status import ask

    if not directory.is_dir():
        raise ParameterError(f"There is no directory {directory}.")
    try:
        answer = ask(status_socket(directory))
    except PeerError:
        result = directory / "certificate.json"
        if result.exists():
            raise PeerError(f"The run in {directory} has ended; see {result}.") from None
        raise
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
    if as_json:
        print_json(replayed)
    else:
        terminal.show(peer_display.replay_table(replayed))
    if not all(site["same"] for site in replayed.values()):
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

    endpoint = None if listen is None else parse_endpoint(listen, "listen")
    others = dict(_parse_dial(each) for each in dial)
    return SiteArguments(network, me, data, keys=keys, listen=endpoint, dial=others, csv=csv)


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
