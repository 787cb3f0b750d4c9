"""The commands of a site that clusters with others over the network: peer keygen, peer init."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from peerclust.cli.app import Json, Seed, Sentences, app, print_json
from peerclust.errors import ParameterError

peer = typer.Typer(cls=Sentences, no_args_is_help=True)
app.add_typer(peer, name="peer", help="Cluster with other sites over the network, as one of them.")

_method = partial(typer.Option, rich_help_panel="The method")
_network = partial(typer.Option, rich_help_panel="The network")


@peer.command()
def keygen(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the others call this site.")],
    directory: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Where to write NAME.key and NAME.crt.")
    ] = Path(),
    days: Annotated[
        int, typer.Option(min=1, max=36500, help="How long the certificate is valid.")
    ] = 3650,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier key.")] = False,
    as_json: Json = False,
) -> None:
    """Make this site's key, and the certificate by which the others know it."""
    from peerclust.runtimes.network.identity import fingerprint, make_identity, read_certificate

    identity = make_identity(name, directory, days=days, force=force)
    mark = fingerprint(read_certificate(identity.certificate))
    files = {"key": str(identity.key), "certificate": str(identity.certificate)}
    if as_json:
        print_json({"name": name, "fingerprint": mark, **files})
        return
    typer.echo(f"{mark} is the fingerprint of {name}.")
    typer.echo(f"Send {identity.certificate} to whoever writes the network file.")
    typer.echo(f"Keep {identity.key}: who has it can pass for {name}.")


@peer.command()
def init(
    peers: Annotated[
        list[str],
        typer.Option("--peer", metavar="NAME=HOST:PORT=FILE.crt", help="A site; give each one."),
    ],
    features: Annotated[str, typer.Option(metavar="A,B,C", help="The columns to cluster by.")],
    clusters: Annotated[int, typer.Option(min=1, metavar="K", help="How many clusters.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="A new network file.")] = Path(
        "network.toml"
    ),
    weights_column: Annotated[
        str | None, _method(metavar="COLUMN", help="The column of the rows' weights; else 1.")
    ] = None,
    scale: Annotated[
        str,
        _method(help="standard: features in units of their joint deviation; none: as they are."),
    ] = "standard",
    loss: Annotated[str, _method(help="kmeans, huber, logistic or fair.")] = "kmeans",
    delta: Annotated[
        float | None, _method(help="Of huber: rows further away pull no harder (default 1).")
    ] = None,
    eta: Annotated[float | None, _method(help="Of fair (default 1).")] = None,
    matrix: Annotated[
        Path | None, _method(metavar="A.csv", help="Of a Mahalanobis distance, without a header.")
    ] = None,
    solver: Annotated[
        str,
        _method(help="accelerated, dgc, admm, group-lasso or exact, which tells sums as well."),
    ] = "accelerated",
    rho: Annotated[
        str, _method(metavar="auto|X", help="The larger, the closer the sites' centers.")
    ] = "auto",
    updates: Annotated[int, _method(min=1, metavar="B", help="Center updates a round.")] = 1,
    exchange: Annotated[
        str, _method(help="How numbers travel: float64, float32 or 8-bit.")
    ] = "float64",
    rounds: Annotated[int, _method(min=1, help="At most so many rounds.")] = 10000,
    tol: Annotated[float, _method(help="Stop once every residual is below this.")] = 1e-6,
    mean_of: Annotated[
        int, _method(min=1, help="Each first center is a mean of so many rows; 1 tells rows.")
    ] = 5,
    seed: Seed = 0,
    graph: Annotated[
        str,
        _network(
            metavar="NAME|FILE",
            help="Who talks with whom: ring, path, star, complete or grid of the sites in the"
            " order given, or a file of pairs.",
        ),
    ] = "ring",
    timeout: Annotated[float, _network(help="Seconds until a silent neighbor is lost.")] = 10,
    join_timeout: Annotated[float, _network(help="Seconds in which all must have come.")] = 60,
    linger: Annotated[float, _network(help="Seconds to stay after the end.")] = 60,
    checkpoint_every: Annotated[float, _network(help="Seconds between checkpoints.")] = 10,
    on_loss: Annotated[
        str | None,
        _network(help="If a site is lost: continue (accelerated and dgc) or stop (the others)."),
    ] = None,
    on_absent: Annotated[str, _network(help="If a site does not come: start or stop.")] = "stop",
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier file.")] = False,
    as_json: Json = False,
) -> None:
    """Write the network file: the sites, who talks with whom, and how they cluster."""
    from peerclust import tables
    from peerclust.cli import options
    from peerclust.runtimes.network import contract_file
    from peerclust.runtimes.network.contract import group_hex
    from peerclust.runtimes.network.contract_validation import FIXED_GRAPH, make_contract

    if out.exists() and not force:
        raise ParameterError(f"`--out` of peer init must be a new file, unless --force. Got {out}.")
    sites = [_parse_peer(each) for each in peers]
    names = [site.name for site in sites]
    links: list[tuple[str, str]] = []
    if len(set(names)) == len(names) > 1:
        found = options.make_graph(graph, names)
        links = [(names[i], names[j]) for i, j in found.pairs]
    values: dict[str, Any] = {
        "peers": sites,
        "links": links,
        "features": options.split_names(features),
        "n_clusters": clusters,
        "matrix": None if matrix is None else tables.read_matrix(matrix).tolist(),
        # What is left out is written out, so that the file says all.
        "delta": 1.0 if delta is None and loss == "huber" else delta,
        "eta": 1.0 if eta is None and loss == "fair" else eta,
        "rho": rho if rho == "auto" else _parse_number(rho),
        "on_loss": on_loss or ("stop" if solver in FIXED_GRAPH else "continue"),
        **{"weights_column": weights_column, "scale": scale, "loss": loss, "solver": solver},
        **{
            "B": updates,
            "exchange": exchange,
            "rounds": rounds,
            "tol": tol,
            "seed": seed,
            "mean_of": mean_of,
        },
        **{"timeout": timeout, "join_timeout": join_timeout, "linger": linger},
        **{"checkpoint_every": checkpoint_every, "on_absent": on_absent},
    }
    contract = make_contract(values, "peer init")
    contract_file.write(out, contract)
    marks = {site.name: site.fingerprint for site in contract.peers}
    if as_json:
        digest = contract.digest.hex()
        print_json(
            {"out": str(out), "digest": digest, "fingerprints": marks, "links": contract.links}
        )
        return
    typer.echo(f"{out} is written. Its digest is\n  {group_hex(contract.digest)}\nThe peers are")
    for name, mark in marks.items():
        typer.echo(f"  {name} {mark}")
    typer.echo(
        "Send the file to every site. Each compares the digest and its fingerprint by telephone,"
        " and runs `peerclust peer check`."
    )


def _parse_number(value: str) -> float | str:
    """Give the number, or the text itself for the check to refuse."""
    try:
        return float(value)
    except ValueError:
        return value


def _parse_peer(value: str) -> Any:
    from peerclust.runtimes.network.contract import Peer
    from peerclust.runtimes.network.identity import read_certificate

    words = value.split("=", 2)
    if len(words) != 3:
        raise ParameterError(
            f"`--peer` of peer init must be NAME=HOST:PORT=FILE.crt. Got {value!r}."
        )
    return Peer(words[0], words[1], read_certificate(Path(words[2])))
