"""The commands of a site that takes part in a run: peer check, run, status, replay and demo."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from peerclust.cli.app import Force, Json, Seed, print_json, tell
from peerclust.cli.peer import peer
from peerclust.errors import LeftError, ParameterError, PeerError

Network = Annotated[Path, typer.Option(metavar="FILE", help="The network file.")]
Me = Annotated[str, typer.Option(metavar="NAME", help="Which of its peers this site is.")]
Data = Annotated[Path, typer.Option(metavar="FILE", help="This site's rows, CSV or Parquet.")]
Keys = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where NAME.key and NAME.crt are; else by the network file."),
]
Listen = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Where to listen; else the network file's address."),
]
Dial = Annotated[
    list[str],
    typer.Option(metavar="NAME=HOST:PORT", help="Reach a neighbor elsewhere, as through a tunnel."),
]


@peer.command()
def check(
    network: Network,
    me: Me,
    data: Data,
    keys: Keys = None,
    listen: Listen = None,
    dial: Dial = [],  # noqa: B006
    seconds: Annotated[
        float, typer.Option(min=0, help="How long to wait for neighbors that do not answer.")
    ] = 10,
    as_json: Json = False,
) -> None:
    """Check files, key, clock, port, data and neighbors; exit code 0 if all is good, else 1."""
    from peerclust.cli import peer_display
    from peerclust.peers.check import check
    from peerclust.report import terminal

    with peer_display.waiting(quiet=as_json) as tell:
        lines = check(
            network,
            me,
            data,
            keys=keys,
            listen=None if listen is None else parse_endpoint(listen, "listen"),
            dial=dict(_parse_dial(each) for each in dial),
            seconds=seconds,
            on_wait=tell,
        )
    if as_json:
        print_json([asdict(each) for each in lines])
    else:
        terminal.show(peer_display.check_table(lines))
    if not all(each.ok for each in lines):
        raise typer.Exit(1)


@peer.command()
def run(
    network: Network,
    me: Me,
    data: Data,
    out: Annotated[Path, typer.Option(metavar="DIR", help="A folder for this site's result.")],
    keys: Keys = None,
    listen: Listen = None,
    dial: Dial = [],  # noqa: B006
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Cluster with the other sites.

    Exit code 0: converged, or joined late and has the result; 1: ended otherwise; 2: an error;
    3: was asked to end (SIGTERM); the same command resumes from the checkpoint.
    """
    from peerclust.cli import peer_display
    from peerclust.peers import commands

    with _left(), peer_display.rounds(quiet=as_json) as progress:
        record = commands.run_site(
            network,
            me,
            data,
            out,
            keys=keys,
            listen=None if listen is None else parse_endpoint(listen, "listen"),
            dial=dict(_parse_dial(each) for each in dial),
            force=force,
            progress=progress,
            on_log=lambda line: tell(line, as_json),
            on_result=lambda record: _show(record, out, as_json),
        )
    if record["status"]["name"] not in ("converged", "converged without some peers", "joined late"):
        raise typer.Exit(1)


@contextmanager
def _left() -> Iterator[None]:
    """Tell that a peer was asked to end, with an exit code of its own."""
    try:
        yield
    except LeftError as left:
        typer.echo(str(left), err=True)
        raise typer.Exit(3) from None


def _show(record: dict[str, Any], out: Path, as_json: bool) -> None:
    """Print a result, before the peer takes leave."""
    if as_json:
        print_json(record | {"out": str(out)})
        return
    typer.echo(f"{record['status']['name']}: {record['status']['advice']}")
    typer.echo(f"Written to {out}.")


@peer.command()
def status(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="What --out of peer run is.")],
    as_json: Json = False,
) -> None:
    """Ask a running peer for its round, residual, neighbors and bytes."""
    from peerclust.cli import peer_display
    from peerclust.peers.site_directory import status_socket
    from peerclust.report import terminal
    from peerclust.runtimes.network.status import ask

    if not directory.is_dir():
        raise ParameterError(f"There is no folder {directory}.")
    try:
        told = ask(status_socket(directory))
    except PeerError:
        result = directory / "certificate.json"
        if result.exists():
            raise PeerError(f"The run of {directory} has ended; {result} tells how.") from None
        raise
    if as_json:
        print_json(told)
    else:
        terminal.show(peer_display.status_table(told))


@peer.command()
def replay(
    network: Network,
    sites: Annotated[
        list[str],
        typer.Option("--site", metavar="NAME=DATA=DIR", help="A site's rows and its folder."),
    ],
    as_json: Json = False,
) -> None:
    """Compute a run again from the sites' rows and journals; exit code 1 if a bit differs."""
    from peerclust.cli import peer_display
    from peerclust.peers import commands
    from peerclust.report import terminal

    with peer_display.rounds(quiet=as_json) as progress:
        told = commands.replay(
            network,
            [_parse_site(each) for each in sites],
            on_round=lambda round_, here: progress(round_, None, len(here)),
        )
    if as_json:
        print_json(told)
    else:
        terminal.show(peer_display.replay_table(told))
    if not all(site["same"] for site in told.values()):
        raise typer.Exit(1)


@peer.command()
def demo(
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A new folder to keep everything in; else none is kept."),
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Run ten real peers on this machine, kill one, start it again, and replay the run."""
    from tempfile import TemporaryDirectory

    from peerclust.cli import peer_display
    from peerclust.report import terminal
    from peerclust.testing import peer_demo as trial

    if out is not None and out.exists():
        raise ParameterError(f"`--out` of peer demo must be a new folder. Got {out}.")
    with TemporaryDirectory(prefix="peerclust-") as folder:
        found = trial.run(out or Path(folder), seed, lambda line: tell(line, as_json))
    if as_json:
        print_json(found.as_dict())
    else:
        terminal.show(
            peer_display.demo_table(found.as_dict()), *([f"Kept in {out}."] if out else [])
        )
    if not found.holds:
        raise typer.Exit(1)


def _parse_site(value: str) -> tuple[str, Path, Path]:
    name, _, rest = value.partition("=")
    data, equals, directory = rest.rpartition("=")
    if not equals:
        raise ParameterError(f"`--site` of peer replay must be NAME=DATA=DIR. Got {value!r}.")
    return name, Path(data), Path(directory)


def parse_endpoint(value: str, name: str) -> tuple[str, int]:
    """Give the host and the port of an option's value."""
    from peerclust.runtimes.network.contract import Peer
    from peerclust.runtimes.network.contract_validation import check_address

    check_address(value, f"`--{name}`")
    return Peer("", value, b"").endpoint


def _parse_dial(value: str) -> tuple[str, tuple[str, int]]:
    name, equals, address = value.partition("=")
    if not equals:
        raise ParameterError(f"`--dial` must be NAME=HOST:PORT. Got {value!r}.")
    return name, parse_endpoint(address, "dial")
