"""The settings that all peers share: the peers, their links and how they cluster.

`Contract` does not check its values: `contract_validation.make_contract` does. `contract_file`
reads and writes a contract as a network file. Two peers have the same contract if their digests are
equal; otherwise `differences` names the settings that differ.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TypeGuard

import numpy as np

from peerclust import distances, losses
from peerclust.graphs import Graph
from peerclust.graphs.graph import build
from peerclust.programs.solver_spec import SolverSpec
from peerclust.programs.solvers import SOLVERS
from peerclust.programs.swaps import MAX_MOVES
from peerclust.runtimes.network.identity import fingerprint
from peerclust.text import shorten, show


@dataclass(frozen=True)
class Peer:
    """A site's name, its address ("host:port") and its certificate as DER."""

    name: str
    address: str
    certificate: bytes = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the certificate."""
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
    """All settings of a network; a peer's number is its index in `peers`, sorted by name.

    `links` are pairs of names, each pair sorted and the list sorted; they connect all peers.
    `matrix` is the A of a Mahalanobis distance; None means Euclidean. `ranges` are in the order of
    the features. Times are in seconds.
    `contract_file.SECTIONS` explains each setting.
    """

    peers: tuple[Peer, ...]
    links: tuple[tuple[str, str], ...]
    features: tuple[str, ...]
    weights_column: str | None = None
    scale: str = "standard"
    n_clusters: int
    loss: str = "kmeans"
    delta: float | str | None = None
    eta: float | None = None
    matrix: tuple[tuple[float, ...], ...] | None = None
    ranges: tuple[tuple[float, float], ...] | None = None
    max_weight: float = 1e9
    solver: str = "accelerated"
    rho: float | str = "auto"
    B: int = 1
    exchange: str = "float64"
    rounds: int = 10000
    tol: float = 1e-6
    search: str = "auto"
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
        """Return the number of the peer with this name."""
        return self.names.index(name)

    def neighbors(self, name: str) -> list[str]:
        """Return the sorted names of a peer's neighbors."""
        return [self.names[int(i)] for i in self.graph.neighbors(self.number(name))]

    @cached_property
    def graph(self) -> Graph:
        """The communication graph, with the peers' names."""
        ends = np.array([[self.number(name) for name in link] for link in self.links], int)
        u, v = ends.reshape(-1, 2).T
        return build(u, v, len(self.peers), "network", self.names)

    @property
    def loss_parameters(self) -> dict[str, float | str | None]:
        """The parameters of losses; those of other losses than this one are None."""
        return {"delta": self.delta, "eta": self.eta}

    def make_loss(self, delta: float = 1.0) -> losses.Loss:
        """Return the loss; `delta` is what the peers chose for "auto"."""
        given = self.loss_parameters
        return losses.make(self.loss, given | ({"delta": delta} if self.delta == "auto" else {}))

    @property
    def spec(self) -> SolverSpec:
        """What the solver takes, sends and survives."""
        return SOLVERS[self.solver]

    @property
    def searches(self) -> bool:
        """Whether the peers search for a better optimum: starts are always drawn."""
        return self.search != "none" and self.tol > 0

    @property
    def max_round(self) -> int:
        """The last round that a peer may reach; the rounds of a search are counted on."""
        # The first run, up to two after each move, and the last.
        return self.rounds * (2 + 2 * MAX_MOVES if self.searches else 1)

    @property
    def patience(self) -> float:
        """How long a peer that is alive may make no progress: it may wait for others in turn."""
        return self.join_timeout + self.timeout * (2 + len(self.peers))

    def make_distance(self) -> distances.Distance:
        """Return the distance."""
        return distances.Euclidean() if self.matrix is None else distances.Mahalanobis(self.matrix)

    def settings(self) -> dict[str, object]:
        """Return all settings as JSON types; a peer is [address, fingerprint]."""
        form: dict[str, object] = {each.name: getattr(self, each.name) for each in fields(self)}
        for name in _FLOATS:  # 10 and 10.0 are the same setting
            value = form[name]
            form[name] = float(value) if isinstance(value, int) else value
        matrix = self.matrix and [[float(v) for v in row] for row in self.matrix]
        ranges = self.ranges and {
            name: [float(v) for v in each]
            for name, each in zip(self.features, self.ranges, strict=True)
        }
        peers = {peer.name: [peer.address, peer.fingerprint] for peer in self.peers}
        links = [list(link) for link in self.links]
        features = list(self.features)
        lists = {"matrix": matrix, "ranges": ranges, "features": features, "links": links}
        return form | lists | {"peers": peers}

    @cached_property
    def settings_json(self) -> str:
        """All settings as JSON in ASCII, as HELLO carries them."""
        return json.dumps(self.settings())

    def explain_differences(self, settings: str, name: str) -> list[str]:
        """Return sentences on how the settings of the peer `name` differ from these.

        `settings` is the JSON that the peer sent, and is not trusted.
        """
        try:
            theirs = json.loads(settings)
        except (ValueError, RecursionError):
            theirs = {}
        return differences(self.settings(), theirs, name) or [
            f"{name} has a different network file."
        ]

    @cached_property
    def digest(self) -> bytes:
        """The SHA-256 of all settings, 32 bytes; it does not depend on the file's layout."""
        text = json.dumps(self.settings(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).digest()


_FLOATS = (
    *("delta", "eta", "max_weight", "rho", "tol"),
    *("timeout", "join_timeout", "linger", "checkpoint_every"),
)


def group_hex(digest: bytes) -> str:
    """Return a digest in groups of four hex digits, easy to read out on the telephone.

    >>> group_hex(bytes(range(6)))
    '0001 0203 0405'
    """
    text = digest.hex()
    return " ".join(text[i : i + 4] for i in range(0, len(text), 4))


def differences(mine: dict[str, object], theirs: object, name: str) -> list[str]:
    """Return sentences on how a peer's settings differ from `mine`.

    `theirs` came over the network from the peer `name` and is not trusted. It is only shown, and
    only in part.

    >>> differences({"n_clusters": 3}, {"n_clusters": 4}, "hospital-b")
    ['hospital-b has n_clusters = 4, here it is 3.']
    """
    if not isinstance(theirs, dict):
        return [f"{name} sent invalid settings: {_brief(theirs)}."]
    sentences: list[str] = []
    for key, here in mine.items():
        if key not in theirs:
            sentences.append(f"{name} did not send {key}.")
        elif not _same(here, there := theirs[key]):
            details = _EXPLAIN[key](here, there, name) if key in _EXPLAIN else []
            plain = f"{name} has {key} = {_brief(there)}, here it is {_brief(here)}."
            sentences += details or [plain]
    more = [_brief(key) for key in theirs if key not in mine]
    if more:
        sentences.append(f"{name} has settings that are unknown here: {shorten(more)}.")
    return sentences


def _brief(value: object) -> str:
    """Return a value as text of at most 80 characters; nested lists may be long even shortened."""
    text = show(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _same(here: object, there: object) -> bool:
    # True == 1 in Python, but the settings differ.
    return type(here) is type(there) and bool(here == there)


def _explain_sets(here: Collection[str], there: Collection[str], name: str, what: str) -> list[str]:
    """Return sentences on what is missing there and what is added."""
    lacks = [_brief(each) for each in sorted(set(here) - set(there))]
    adds = [_brief(each) for each in sorted(set(there) - set(here))]
    sentences = []
    if lacks:
        sentences.append(f"{name} lacks the {what}{'s' * (len(lacks) > 1)} {shorten(lacks)}.")
    if adds:
        several = len(adds) > 1
        sentences.append(
            f"{name} has the {what}{'s' * several} {shorten(adds)}, which"
            f" {'are' if several else 'is'} not here."
        )
    return sentences


def _explain_features(here: object, there: object, name: str) -> list[str]:
    if not (_are_texts(here) and _are_texts(there)):
        return []
    sentences = _explain_sets(here, there, name, "feature")
    if not sentences and len(here) == len(there):
        i = next(i for i, (a, b) in enumerate(zip(here, there, strict=True)) if a != b)
        sentences = [
            f"{name} has the features in another order: number {i + 1} is {_brief(there[i])}, here"
            f" it is {_brief(here[i])}."
        ]
    return sentences


def _explain_links(here: object, there: object, name: str) -> list[str]:
    if not (_are_links(here) and _are_links(there)):
        return []
    # A link becomes one text, so that links can be compared as names are.
    return _explain_sets(
        [" - ".join(a) for a in here], [" - ".join(a) for a in there], name, "link"
    )


def _explain_peers(here: object, there: object, name: str) -> list[str]:
    if not (_is_table(here) and _is_table(there)):
        return []
    sentences = _explain_sets(here, there, name, "peer")
    changed = []
    for peer in here.keys() & there.keys():
        mine, theirs = here[peer], there[peer]
        if not (_are_texts(mine) and _are_texts(theirs) and len(mine) == len(theirs)):
            changed.append(f"{name} has {_brief(theirs)} for the peer {peer}.")
            continue
        for what, a, b in zip(("address", "certificate"), mine, theirs, strict=True):
            if a != b:
                changed.append(
                    f"{name} has the {what} {_brief(b)} of {peer}, here it is {_brief(a)}."
                )
    changed.sort()
    more = [f"{name} has {len(changed) - 5} more differences among the peers."]
    return sentences + changed[:5] + more * (len(changed) > 5)


_EXPLAIN: dict[str, Callable[[object, object, str], list[str]]] = {
    "features": _explain_features,
    "links": _explain_links,
    "peers": _explain_peers,
}


def _are_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _are_links(value: object) -> TypeGuard[list[list[str]]]:
    return isinstance(value, list) and all(_are_texts(each) for each in value)


def _is_table(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict) and _are_texts(list(value))
