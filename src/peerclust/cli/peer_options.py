"""The options that commands of peers share, and how their values are parsed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from peerclust.errors import ParameterError

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


def parse_site(value: str) -> tuple[str, Path, Path]:
    """Return the name, the rows and the result directory in a value of --site."""
    name, _, rest = value.partition("=")
    data, equals, directory = rest.rpartition("=")
    if not equals:
        raise ParameterError(f"`--site` of peer replay must be NAME=DATA=DIR. Got {value!r}.")
    return name, Path(data), Path(directory)


def parse_site_arguments(
    network: Path,
    me: str,
    data: Path,
    keys: Path | None,
    listen: str | None,
    dial: list[str],
    csv: CsvOptions,
) -> SiteArguments:
    """Return the arguments of a site with rows."""
    from peerclust.peers.commands import SiteArguments

    given = vars(parse_peer_arguments(network, me, keys, listen, dial))
    return SiteArguments(data=data, csv=csv, **given)


def parse_peer_arguments(
    network: Path, me: str, keys: Path | None, listen: str | None, dial: list[str]
) -> PeerArguments:
    """Return the arguments of a site without rows."""
    from peerclust.peers.commands import PeerArguments

    endpoint = None if listen is None else _parse_endpoint(listen, "listen")
    others = dict(_parse_dial(each) for each in dial)
    return PeerArguments(network, me, keys=keys, listen=endpoint, dial=others)


def _parse_endpoint(value: str, name: str) -> tuple[str, int]:
    """Return the host and the port in an option's value."""
    from peerclust.runtimes.network.contract import Peer
    from peerclust.runtimes.network.contract_validation import check_address

    check_address(value, f"`--{name}`")
    return Peer("", value, b"").endpoint


def _parse_dial(value: str) -> tuple[str, tuple[str, int]]:
    name, equals, address = value.partition("=")
    if not equals:
        raise ParameterError(f"`--dial` must be NAME=HOST:PORT. Got {value!r}.")
    return name, _parse_endpoint(address, "dial")
