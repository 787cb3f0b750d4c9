"""What all peers must agree on before they cluster: who they are, who talks with whom, and how.

`Contract` trusts what it is given; `terms.make_contract` checks, and `contract_file` reads and
writes it as a network file. Two peers have the same contract if their digests are equal, and if
they are not, `differences` says in which settings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from peerclust import distances, losses
from peerclust.graphs import Graph
from peerclust.graphs.graph import build
from peerclust.runtimes.network.identity import fingerprint
from peerclust.text import shorten, show


@dataclass(frozen=True)
class Peer:
    """A site's name, where it answers ("host:port"), and its certificate as DER."""

    name: str
    address: str
    certificate: bytes = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """What identifies the certificate."""
        return fingerprint(self.certificate)

    @property
    def endpoint(self) -> tuple[str, int]:
        """The host, without the brackets of IPv6, and the port.

        >>> Peer("a", "[::1]:4000", b"").endpoint
        ('::1', 4000)
        """
        host, _, port = self.address.rpartition(":")
        return host.removeprefix("[").removesuffix("]"), int(port)


@dataclass(frozen=True, kw_only=True)
class Contract:
    """All settings of a network; a peer's number is its place among `peers`, sorted by name.

    `links` are pairs of names, sorted within and among them, which connect all peers. `matrix` is
    the A of a Mahalanobis distance, None the Euclidean one. Times are in seconds. What
    `contract_file` writes beside each setting explains it.
    """

    peers: tuple[Peer, ...]
    links: tuple[tuple[str, str], ...]
    features: tuple[str, ...]
    weights_column: str | None = None
    scale: str = "standard"
    n_clusters: int
    loss: str = "kmeans"
    delta: float | None = None
    eta: float | None = None
    matrix: tuple[tuple[float, ...], ...] | None = None
    solver: str = "accelerated"
    rho: float | str = "auto"
    B: int = 1
    exchange: str = "float64"
    rounds: int = 10000
    tol: float = 1e-6
    seed: int = 0
    mean_of: int = 5
    timeout: float = 10.0
    join_timeout: float = 60.0
    linger: float = 60.0
    checkpoint_every: float = 10.0
    on_loss: str = "continue"
    on_absent: str = "stop"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The peers' names, in order."""
        return tuple(peer.name for peer in self.peers)

    def number(self, name: str) -> int:
        """Return the place of the peer of this name."""
        return self.names.index(name)

    def neighbors(self, name: str) -> list[str]:
        """Return the names of those whom the peer of this name talks with, sorted."""
        return [self.names[int(i)] for i in self.graph.neighbors(self.number(name))]

    @cached_property
    def graph(self) -> Graph:
        """Who talks with whom, with the peers' names."""
        ends = np.array([[self.number(name) for name in link] for link in self.links], int)
        u, v = ends.reshape(-1, 2).T
        return build(u, v, len(self.peers), "network", self.names)

    def make_loss(self) -> Any:
        """Return the loss."""
        given = {"huber": self.delta, "fair": self.eta}.get(self.loss)
        kind: Any = losses.LOSSES[self.loss]
        return kind() if given is None else kind(given)

    def make_distance(self) -> distances.Distance:
        """Return the distance."""
        return distances.Euclidean() if self.matrix is None else distances.Mahalanobis(self.matrix)

    def settings(self) -> dict[str, Any]:
        """Return all settings in a form that JSON keeps; a peer is [address, fingerprint]."""
        form = {each.name: getattr(self, each.name) for each in fields(self)}
        for name in _FLOATS:  # 10 and 10.0 are the same setting
            form[name] = float(form[name]) if isinstance(form[name], int) else form[name]
        matrix = self.matrix and [[float(v) for v in row] for row in self.matrix]
        peers = {peer.name: [peer.address, peer.fingerprint] for peer in self.peers}
        links = [list(link) for link in self.links]
        features = list(self.features)
        return form | {"matrix": matrix, "features": features, "peers": peers, "links": links}

    @cached_property
    def told(self) -> str:
        """All settings as JSON in ASCII, as peers tell them to each other."""
        return json.dumps(self.settings())

    def compare(self, told: str, name: str) -> list[str]:
        """Return sentences that say in what the peer called `name`, of another network, differs.

        `told` is what it told and may be anything.
        """
        try:
            theirs = json.loads(told)
        except (ValueError, RecursionError):
            theirs = {}
        return differences(self.settings(), theirs, name) or [f"{name} has another network file."]

    @cached_property
    def digest(self) -> bytes:
        """The SHA-256 of all settings, in whatever way a file lays them out: 32 bytes."""
        text = json.dumps(self.settings(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).digest()


_FLOATS = ("delta", "eta", "rho", "tol", "timeout", "join_timeout", "linger", "checkpoint_every")


def spell(digest: bytes) -> str:
    """Return a digest in groups of four digits, as one reads it out by telephone.

    >>> spell(bytes(range(6)))
    '0001 0203 0405'
    """
    text = digest.hex()
    return " ".join(text[i : i + 4] for i in range(0, len(text), 4))


def differences(mine: dict[str, Any], theirs: Any, name: str) -> list[str]:
    """Return sentences that say in which settings a peer differs from mine.

    `theirs` came over the network from the peer called `name` and may be anything; what is shown
    of it is short, and nothing else is done with it.

    >>> differences({"n_clusters": 3}, {"n_clusters": 4}, "hospital-b")
    ['hospital-b has n_clusters = 4, here it is 3.']
    """
    if not isinstance(theirs, dict):
        return [f"{name} sent settings that are none: {_brief(theirs)}."]
    said: list[str] = []
    for key, here in mine.items():
        if key not in theirs:
            said.append(f"{name} says nothing of {key}.")
        elif not _same(here, there := theirs[key]):
            told = _TELL[key](here, there, name) if key in _TELL else []
            said += told or [f"{name} has {key} = {_brief(there)}, here it is {_brief(here)}."]
    more = [_brief(key) for key in theirs if key not in mine]
    if more:
        said.append(f"{name} has settings that are not known here: {shorten(more)}.")
    return said


def _brief(value: Any) -> str:
    """Show a value; lists within lists could make even a shortened one long."""
    text = show(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _same(here: Any, there: Any) -> bool:
    # True == 1 in Python, but it is no whole number.
    return type(here) is type(there) and bool(here == there)


def _tell_sets(here: Collection[str], there: Collection[str], name: str, what: str) -> list[str]:
    """Say what is missing there, and what is added."""
    lacks = [_brief(each) for each in sorted(set(here) - set(there))]
    adds = [_brief(each) for each in sorted(set(there) - set(here))]
    said = [f"{name} lacks the {what}{'s' * (len(lacks) > 1)} {shorten(lacks)}."] if lacks else []
    if adds:
        several = len(adds) > 1
        said.append(
            f"{name} has the {what}{'s' * several} {shorten(adds)}, which"
            f" {'are' if several else 'is'} not here."
        )
    return said


def _tell_features(here: list[str], there: Any, name: str) -> list[str]:
    if not _are_texts(there):
        return []
    said = _tell_sets(here, there, name, "feature")
    if not said and len(here) == len(there):
        i = next(i for i, (a, b) in enumerate(zip(here, there, strict=True)) if a != b)
        said = [
            f"{name} has the features in another order: number {i + 1} is {_brief(there[i])}, here"
            f" it is {_brief(here[i])}."
        ]
    return said


def _tell_links(here: list[list[str]], there: Any, name: str) -> list[str]:
    if not isinstance(there, list) or not all(_are_texts(link) for link in there):
        return []
    # A link is told as one name, so that links are compared as names are.
    return _tell_sets([" - ".join(a) for a in here], [" - ".join(a) for a in there], name, "link")


def _tell_peers(here: dict[str, list[str]], there: Any, name: str) -> list[str]:
    if not isinstance(there, dict) or not _are_texts(list(there)):
        return []
    said = _tell_sets(here, there, name, "peer")
    changed = []
    for peer in here.keys() & there.keys():
        if _same(here[peer], there[peer]):
            continue
        if not _are_texts(there[peer]) or len(there[peer]) != 2:
            changed.append(f"{name} has {_brief(there[peer])} for the peer {peer}.")
            continue
        for what, a, b in zip(("address", "certificate"), here[peer], there[peer], strict=True):
            if a != b:
                changed.append(
                    f"{name} has the {what} {_brief(b)} of {peer}, here it is {_brief(a)}."
                )
    changed.sort()
    more = [f"{name} has {len(changed) - 5} more differences among the peers."]
    return said + changed[:5] + more * (len(changed) > 5)


_TELL: dict[str, Callable[[Any, Any, str], list[str]]] = {
    "features": _tell_features,
    "links": _tell_links,
    "peers": _tell_peers,
}


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
