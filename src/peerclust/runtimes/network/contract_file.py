"""The network file: a contract as TOML that people read; written with a word on each setting."""

from __future__ import annotations

import base64
import binascii
import json
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from peerclust.errors import ParameterError
from peerclust.files import new_file
from peerclust.runtimes.network.contract import Contract, Peer
from peerclust.runtimes.network.terms import make_contract
from peerclust.text import guess, show

# Each section's keys, and what the file says about them.
SECTIONS = {
    "clustering": {
        "features": "the columns to cluster by, in this order",
        "weights_column": "the column of the rows' weights; left out, all are 1",
        "scale": "standard: features in units of their joint deviation; none: as they are",
        "n_clusters": "how many clusters",
        "loss": "kmeans, huber, logistic or fair",
        "delta": "of huber: rows further away pull no harder; left out, 1",
        "eta": "of fair; left out, 1",
        "matrix": "A of the Mahalanobis distance; left out, the distance is Euclidean",
        "solver": "accelerated, dgc, admm, group-lasso, or exact, which tells sums besides centers",
        "rho": "the larger, the closer the peers' centers: auto or a number",
        "B": "center updates a round",
        "exchange": "how numbers travel: float64, float32 or 8-bit",
        "rounds": "at most so many rounds",
        "tol": "stop once every residual is below this",
        "seed": "the same seed gives the same result",
        "mean_of": "each first center is a mean of so many rows of one site; 1 tells rows",
    },
    "timing": {
        "timeout": "seconds of silence after which a neighbor counts as lost",
        "join_timeout": "seconds in which all peers must have come",
        "linger": "seconds that a peer stays after the end, for those who come back late",
        "checkpoint_every": "seconds between two checkpoints",
    },
    "absence": {
        "on_loss": "if a peer is lost: continue without it, or stop",
        "on_absent": "if a peer has not come in join_timeout: start without it, or stop",
    },
    "graph": {"links": "who talks with whom"},
}
PEER = {
    "name": "as in its certificate",
    "address": "host:port where the others reach it",
    "fingerprint": "compare it with the site by telephone",
    "certificate": "the certificate itself, which TLS must know to demand it",
}
# Left out, a setting has the default of `Contract`.
OPTIONAL = {
    "weights_column",
    "delta",
    "eta",
    "matrix",
    "exchange",
    *SECTIONS["timing"],
    *SECTIONS["absence"],
}
_HEADER = """\
# A network of peers that cluster together, as peerclust reads it. Every site must have the same
# file. All agree if `peerclust peer check` shows the same digest everywhere; comments and the order
# of lines do not change it.
"""


def read(path: Path) -> Contract:
    """Return the contract in a network file, checked."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ParameterError(
            f"The network file {path} cannot be read: {error.strerror or error}."
        ) from None
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"{path} must be TOML in UTF-8. {error}.") from None
    of = str(path)
    _check_keys(document, [*SECTIONS, "peer"], set(), of)
    values: dict[str, Any] = {}
    for section, keys in SECTIONS.items():
        table = document.get(section, {})
        if not isinstance(table, dict):
            raise ParameterError(f"`{section}` of {of} must be a section, [{section}].")
        _check_keys(table, keys, keys.keys() - OPTIONAL, of, f" in [{section}]")
        values |= table
    peers = document.get("peer", [])
    if not isinstance(peers, list) or not all(isinstance(peer, dict) for peer in peers):
        raise ParameterError(f"`peer` of {of} must be sections, one [[peer]] for each peer.")
    values["peers"] = [_read_peer(peer, i + 1, of) for i, peer in enumerate(peers)]
    return make_contract(values, of)


def write(path: Path, contract: Contract) -> None:
    """Write a contract to a network file, which appears once it is whole."""
    with new_file(path) as file:
        file.write_text("\n".join(_lines(contract)) + "\n", encoding="utf-8", newline="\n")


def _read_peer(table: dict[str, Any], place: int, of: str) -> Peer:
    _check_keys(table, PEER, PEER.keys(), of, f" in [[peer]] number {place}")
    for key in PEER:
        if not isinstance(table[key], str):
            raise ParameterError(
                f"`{key}` of peer number {place} in {of} must be text in quotes. Got"
                f" {show(table[key])}."
            )
    name = table["name"]
    try:
        der = base64.b64decode(table["certificate"], validate=True)
    except (ValueError, binascii.Error):
        raise ParameterError(
            f"`certificate` of peer {show(name)} in {of} must be the base64 of a certificate."
        ) from None
    peer = Peer(name, table["address"], der)
    if peer.fingerprint != table["fingerprint"]:
        raise ParameterError(
            f"`fingerprint` of peer {show(name)} in {of} must be that of its certificate,"
            f" {peer.fingerprint}. Got {show(table['fingerprint'])}."
        )
    return peer


def _check_keys(
    table: dict[str, Any],
    known: Collection[str],
    needed: Collection[str],
    of: str,
    where: str = "",
) -> None:
    for key in table:
        if key not in known:
            raise ParameterError(f"{of} has an unknown key {show(key)}{where}.{guess(key, known)}")
    for key in known:
        if key in needed and key not in table:
            raise ParameterError(f"`{key}` of {of} must be given{where}. Got none.")


def _lines(contract: Contract) -> Iterator[str]:
    yield _HEADER.rstrip()
    for section, keys in SECTIONS.items():
        yield f"\n[{section}]"
        for key, comment in keys.items():
            value = getattr(contract, key)
            if value is not None:
                yield from _entry(key, value, comment)
    comments: dict[str, str] = PEER
    for peer in contract.peers:
        yield "\n[[peer]]"
        for key in PEER:
            yield from _entry(key, getattr(peer, key), comments.get(key, ""))
        comments = {}  # once is enough


def _entry(key: str, value: Any, comment: str) -> Iterator[str]:
    """Give the comment, if any, and the setting below it; lists within a list have a line each."""
    if comment:
        yield f"# {comment}"
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        yield f"{key} = ["
        yield from (f"    {_spell(row)}," for row in value)
        yield "]"
    else:
        yield f"{key} = {_spell(value)}"


def _spell(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_spell, value))}]"
    if isinstance(value, str):
        # JSON's escapes are TOML's as long as other letters stay as they are; TOML alone wants
        # DEL escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bytes):
        return f'"{base64.b64encode(value).decode()}"'
    return repr(value)
