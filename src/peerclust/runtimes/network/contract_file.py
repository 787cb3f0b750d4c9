"""The network file: a contract as TOML, with a comment on each setting."""

from __future__ import annotations

import base64
import binascii
import json
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path

from peerclust.errors import ParameterError
from peerclust.files import new_file
from peerclust.programs.solvers import list_names
from peerclust.runtimes.network.contract import Contract, Peer
from peerclust.runtimes.network.contract_validation import make_contract
from peerclust.text import guess, show

# The keys of each section, and the comments that the file has on them.
SECTIONS = {
    "clustering": {
        "features": "the columns to cluster by, in this order",
        "weights_column": "the column with the rows' weights; if left out, all are 1",
        "scale": "units of features: standard (deviation), robust (interquartile range) or none",
        "n_clusters": "the number of clusters",
        "loss": "kmeans, huber, logistic or fair",
        "delta": "huber threshold: beyond this distance the loss is linear; auto: chosen from the"
        " rows; if left out, 1",
        "eta": "scale of the fair loss; if left out, 1",
        "matrix": "A of the Mahalanobis distance; if left out, the distance is Euclidean",
        "solver": list_names(),
        "rho": "consensus penalty; a larger number means closer centers. auto: measured in pilot"
        " runs",
        "B": "center updates per round",
        "exchange": "number format of messages: float64, float32 or 8-bit",
        "rounds": "maximum number of rounds of a run",
        "tol": "stop once every residual is below this",
        "search": "after a run, move centers to find a better optimum: swaps, none, or auto (swaps"
        " unless tol is 0)",
        "seed": "seed of the random numbers that all sites share",
        "mean_of": "average this many rows of one site per initial center; 1 reveals single rows",
        "max_weight": "the most rows of a site, or their weight; one that claims more is refused",
        "ranges": "the public range of each feature, low and high; if left out, all sites learn"
        " the smallest and the largest value",
    },
    "timing": {
        "timeout": "seconds of silence after which a neighbor is lost",
        "join_timeout": "seconds to wait for all peers to connect",
        "linger": "seconds that a peer stays after the end, for peers that return late",
        "checkpoint_every": "seconds between two checkpoints",
    },
    "absence": {
        "on_loss": "if a peer is lost: continue without it, or stop",
        "on_absent": "if a peer has not connected in join_timeout: start without it, or stop",
    },
    "graph": {"links": "pairs of neighbors"},
}
PEER = {
    "name": "as in its certificate",
    "address": "host:port where the others reach it",
    "fingerprint": "compare it with the site by telephone",
    "certificate": "the certificate itself, which TLS pins",
}
# A setting that is left out has the default of `Contract`.
OPTIONAL = {
    "weights_column",
    "delta",
    "eta",
    "matrix",
    "max_weight",
    "ranges",
    "exchange",
    "search",
    *SECTIONS["timing"],
    *SECTIONS["absence"],
}
_HEADER = """\
# A network of peers that cluster together with peerclust. Every site must have the same file: the
# digest that `peerclust peer check` shows must be the same everywhere. Comments and the order of
# lines do not change it.
"""


def read(path: Path) -> Contract:
    """Return the contract in a network file; raise if it is not valid."""
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
    values: dict[str, object] = {}
    for section, keys in SECTIONS.items():
        table = document.get(section, {})
        if not isinstance(table, dict):
            raise ParameterError(f"`{section}` of {of} must be a section, [{section}].")
        _check_keys(table, keys, keys.keys() - OPTIONAL, of, f" in [{section}]")
        values |= table
    peers = document.get("peer", [])
    if not isinstance(peers, list) or not all(isinstance(peer, dict) for peer in peers):
        raise ParameterError(f"`peer` of {of} must be sections, one [[peer]] for each peer.")
    return make_contract([_read_peer(peer, i + 1, of) for i, peer in enumerate(peers)], values, of)


def write(path: Path, contract: Contract) -> None:
    """Write a contract to a network file, atomically."""
    with new_file(path) as file:
        file.write_text("\n".join(_lines(contract)) + "\n", encoding="utf-8", newline="\n")


def _read_peer(table: dict[str, object], place: int, of: str) -> Peer:
    _check_keys(table, PEER, PEER.keys(), of, f" in [[peer]] number {place}")
    texts: dict[str, str] = {}
    for key in PEER:
        value = table[key]
        if not isinstance(value, str):
            raise ParameterError(
                f"`{key}` of peer number {place} in {of} must be text in quotes. Got {show(value)}."
            )
        texts[key] = value
    name = texts["name"]
    try:
        der = base64.b64decode(texts["certificate"], validate=True)
    except (ValueError, binascii.Error):
        raise ParameterError(
            f"`certificate` of peer {show(name)} in {of} must be the base64 of a certificate."
        ) from None
    peer = Peer(name, texts["address"], der)
    if peer.fingerprint != texts["fingerprint"]:
        raise ParameterError(
            f"`fingerprint` of peer {show(name)} in {of} must be that of its certificate,"
            f" {peer.fingerprint}. Got {show(texts['fingerprint'])}."
        )
    return peer


def _check_keys(
    table: Collection[str],
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
            if key == "ranges" and value is not None:
                # The last key of its section, as it has one of its own.
                yield f"\n# {comment}\n[{section}.{key}]"
                for feature, each in zip(contract.features, value, strict=True):
                    yield f"{_toml(feature)} = {_toml(each)}"
            elif value is not None:
                yield from _entry(key, value, comment)
    comments: dict[str, str] = PEER
    for peer in contract.peers:
        yield "\n[[peer]]"
        for key in PEER:
            yield from _entry(key, getattr(peer, key), comments.get(key, ""))
        comments = {}  # once is enough


def _entry(key: str, value: object, comment: str) -> Iterator[str]:
    """Yield the comment, if any, and the setting below it; nested lists have one line each."""
    if comment:
        yield f"# {comment}"
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        yield f"{key} = ["
        yield from (f"    {_toml(row)}," for row in value)
        yield "]"
    else:
        yield f"{key} = {_toml(value)}"


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        # TOML has the escapes of JSON if non-ASCII characters are not escaped; only TOML requires
        # DEL to be escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bytes):
        return f'"{base64.b64encode(value).decode()}"'
    return repr(value)
