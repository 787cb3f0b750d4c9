"""The commands that set up a network of peers: peer keygen and peer init."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from peerclust.cli.app import Clusters, CommandGroup, Json, app, echo, print_json
from peerclust.cli.help import option
from peerclust.doors import PEER_INIT
from peerclust.errors import ParameterError


class PeerCommandGroup(CommandGroup):
    """The commands of peers, whose errors say where the docs explain them."""

    names_docs = True


peer = typer.Typer(cls=PeerCommandGroup, no_args_is_help=True)
app.add_typer(
    peer,
    name="peer",
    help="Cluster with other sites over the network; each site runs its own peer.",
)


@peer.command()
def keygen(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of this site in the network.")],
    directory: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Directory for NAME.key and NAME.crt.")
    ] = Path(),
    days: Annotated[
        int, typer.Option(min=1, max=36500, help="Days for which the certificate is valid.")
    ] = 3650,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier key.")] = False,
    as_json: Json = False,
) -> None:
    """Create this site's private key and the certificate that identifies it to the others."""
    from peerclust.runtimes.network.identity import fingerprint, make_identity, read_certificate

    identity = make_identity(name, directory, days=days, force=force)
    mark = fingerprint(read_certificate(identity.certificate))
    files = {"key": str(identity.key), "certificate": str(identity.certificate)}
    if as_json:
        print_json({"name": name, "fingerprint": mark, **files})
        return
    echo(f"{mark} is the fingerprint of {name}.")
    echo(f"Send {identity.certificate} to the site that writes the network file.")
    echo(f"Keep {identity.key} secret: anyone with this key can impersonate {name}.")


@peer.command()
def init(
    peers: Annotated[
        list[str],
        typer.Option(
            "--peer",
            metavar="NAME=HOST:PORT=FILE.crt",
            help="One site and its certificate; repeat for each site.",
        ),
    ],
    features: Annotated[str, typer.Option(metavar="A,B,C", help="Columns to cluster by.")],
    clusters: Clusters,
    out: Annotated[Path, typer.Option(metavar="FILE", help="New network file.")] = Path(
        "network.toml"
    ),
    weights_column: Annotated[str | None, option("weights_column", metavar="COLUMN")] = None,
    ranges: Annotated[
        list[str] | None, option("ranges", "--range", metavar="NAME=LOW:HIGH")
    ] = None,
    max_weight: Annotated[float, option("max_weight")] = 1e9,
    scale: Annotated[str, option("scale")] = "standard",
    loss: Annotated[str, option("loss")] = "kmeans",
    delta: Annotated[str | None, option("delta", metavar="auto|X")] = None,
    eta: Annotated[float | None, option("eta")] = None,
    matrix: Annotated[Path | None, option("matrix", metavar="A.csv")] = None,
    solver: Annotated[str, option("peer_solver")] = "accelerated",
    rho: Annotated[str, option("rho", metavar="auto|X")] = "auto",
    updates: Annotated[int, option("updates", min=1, metavar="B")] = 1,
    exchange: Annotated[str, option("peer_exchange")] = "float64",
    rounds: Annotated[int, option("rounds", min=1)] = 10000,
    tol: Annotated[float, option("tol")] = 1e-6,
    search: Annotated[str, option("peer_search")] = "auto",
    mean_of: Annotated[int, option("mean_of", min=1)] = 5,
    seed: Annotated[int, option("peer_seed", min=0)] = 0,
    graph: Annotated[str, option("peer_graph", metavar="NAME|FILE")] = "ring",
    timeout: Annotated[float, option("timeout")] = 10,
    join_timeout: Annotated[float, option("join_timeout")] = 60,
    linger: Annotated[float, option("linger")] = 60,
    checkpoint_every: Annotated[float, option("seconds_between_checkpoints")] = 10,
    on_loss: Annotated[str | None, option("on_loss")] = None,
    on_absent: Annotated[str, option("on_absent")] = "stop",
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier file.")] = False,
    as_json: Json = False,
) -> None:
    """Write the network file: the sites, their links, and the clustering options."""
    from peerclust import tables
    from peerclust.cli import options
    from peerclust.programs.solvers import SOLVERS
    from peerclust.runtimes.network import contract_file
    from peerclust.runtimes.network.contract import group_hex
    from peerclust.runtimes.network.contract_validation import make_contract

    if out.exists() and not force:
        raise ParameterError(
            f"`--out` of peer init must be a new file, unless --force is given. Got {out}."
        )
    sites = [_parse_peer(each) for each in peers]
    names = [site.name for site in sites]
    links: list[tuple[str, str]] = []
    if len(set(names)) == len(names) > 1:
        with PEER_INIT.naming():
            found = options.make_graph(graph, names)
        links = [(names[i], names[j]) for i, j in found.pairs]
    # An unknown solver is rejected below.
    stops = solver in SOLVERS and not SOLVERS[solver].survives_loss
    values: dict[str, object] = {
        "links": links,
        "features": options.split_names(features),
        "n_clusters": clusters,
        "ranges": dict(map(_parse_range, ranges)) if ranges else None,
        "max_weight": max_weight,
        "matrix": None if matrix is None else tables.read_matrix(matrix).tolist(),
        # Defaults are written out, so that the file is complete.
        "delta": 1.0 if delta is None and loss == "huber" else _parse_number(delta),
        "eta": 1.0 if eta is None and loss == "fair" else eta,
        "rho": _parse_number(rho),
        "on_loss": on_loss or ("stop" if stops else "continue"),
        **{"weights_column": weights_column, "scale": scale, "loss": loss, "solver": solver},
        **{"B": updates, "exchange": exchange, "rounds": rounds, "tol": tol},
        **{"search": search, "seed": seed, "mean_of": mean_of},
        **{"timeout": timeout, "join_timeout": join_timeout, "linger": linger},
        **{"checkpoint_every": checkpoint_every, "on_absent": on_absent},
    }
    with PEER_INIT.naming():
        contract = make_contract(sites, values, "peer init")
    contract_file.write(out, contract)
    marks = {site.name: site.fingerprint for site in contract.peers}
    if as_json:
        digest = contract.digest.hex()
        print_json(
            {"out": str(out), "digest": digest, "fingerprints": marks, "links": contract.links}
        )
        return
    echo(f"Written to {out}. Its digest is")
    echo(f"  {group_hex(contract.digest)}")
    echo("The peers are")
    for name, mark in marks.items():
        echo(f"  {name} {mark}")
    echo(
        "Send the file to every site. Each site compares the digest and its own fingerprint by"
        " telephone, and runs `peerclust peer check`."
    )


def _parse_number(value: str | None) -> float | str | None:
    """Return the number, or what is none unchanged: `make_contract` rejects it, unless "auto"."""
    try:
        return value and float(value)
    except ValueError:
        return value


def _parse_range(value: str) -> tuple[str, tuple[float, float]]:
    name, _, limits = value.rpartition("=")
    low, _, high = limits.partition(":")
    try:
        return name, (float(low), float(high))
    except ValueError:
        raise ParameterError(
            f"`--range` of peer init must be NAME=LOW:HIGH, with two numbers. Got {value!r}."
        ) from None


def _parse_peer(value: str) -> Any:
    from peerclust.runtimes.network.contract import Peer
    from peerclust.runtimes.network.identity import check_dates, read_certificate

    fields = value.split("=", 2)
    if len(fields) != 3:
        raise ParameterError(
            f"`--peer` of peer init must be NAME=HOST:PORT=FILE.crt. Got {value!r}."
        )
    name, address, path = fields[0], fields[1], Path(fields[2])
    certificate = read_certificate(path)
    remedy = "ask its site for another, which it makes with `peerclust peer keygen NAME --force`"
    check_dates(path, datetime.now(UTC), remedy)
    return Peer(name, address, certificate)
