"""The settings that all peers share: the peers, their links and how they cluster.

`Contract` does not check its values: `contract_validation.make_contract` does. `contract_file`
reads and writes a contract as a network file. Two peers have the same contract if their digests are
equal; otherwise `contract_differences` names the settings that differ.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np

from peerclust import distances, losses
from peerclust.graphs import Graph
from peerclust.graphs.graph import build
from peerclust.programs.solver_spec import SolverSpec
from peerclust.programs.solvers import SOLVERS
from peerclust.programs.swaps import MAX_MOVES
from peerclust.runtimes.network.contract_differences import differences
from peerclust.runtimes.network.identity import fingerprint, server_name


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

    def peer(self, name: str) -> Peer:
        """Return the peer with this name."""
        return self.peers[self.number(name)]

    def server_name(self, name: str) -> str:
        """Return the name by which a peer of this network is called in TLS."""
        return server_name(self.digest, self.peer(name).certificate)

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
        """The parameters of losses; those of losses other than this one are None."""
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
        """The last round that a peer may reach; those of a search count, too."""
        # The first run, up to two after each move, and the last.
        return self.rounds * (2 + 2 * MAX_MOVES if self.searches else 1)

    @property
    def patience(self) -> float:
        """How long a live peer may make no progress, since it may be waiting for others in turn."""
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
    """Return a digest in groups of four hex digits, easy to read out over the telephone.

    >>> group_hex(bytes(range(6)))
    '0001 0203 0405'
    """
    text = digest.hex()
    return " ".join(text[i : i + 4] for i in range(0, len(text), 4))
