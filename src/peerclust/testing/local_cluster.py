"""Real peers on this machine, each a process with its own certificate, for tests and the demo.

They can be started, killed, stopped and restarted, and their links cut. At the end their results
are read and the whole run is replayed.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import random
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from peerclust.arrays import Array
from peerclust.errors import PeerError
from peerclust.graphs import Graph
from peerclust.peers import commands
from peerclust.peers.site_directory import status_socket
from peerclust.runtimes.network import contract_file
from peerclust.runtimes.network.contract import Contract, Peer
from peerclust.runtimes.network.contract_validation import make_contract
from peerclust.runtimes.network.identity import make_identity, read_certificate
from peerclust.runtimes.network.status import ask
from peerclust.testing.fault_proxy import FaultProxies, FaultProxy

# Seconds between two polls of a peer.
_POLL = 0.02


class LocalCluster:
    """Peers named p0, p1, ... on loopback, with their files in one directory.

    Parameters
    ----------
    directory : Path
        Where keys, rows, the network file and results go.
    parts : sequence of arrays
        Each peer's rows; the columns are named x0, x1, ...
    graph : Graph
        The communication graph.
    proxied : bool
        Whether each link has a fault proxy (`proxy`).
    hosts : sequence of str, optional
        Each peer's address, if not all are on loopback.
    fixed_seeds : bool
        Whether each peer has the same private seed in every run, so that equal runs have equal
        results; else it draws one, as `peer run` does.
    settings
        Settings of the network file, such as n_clusters and timeout.
    """

    def __init__(
        self,
        directory: Path,
        parts: Sequence[Array],
        graph: Graph,
        *,
        proxied: bool = False,
        hosts: Sequence[str] | None = None,
        fixed_seeds: bool = True,
        **settings: Any,
    ) -> None:
        self.directory, self._fixed_seeds = directory, fixed_seeds
        directory.mkdir(parents=True, exist_ok=True)
        width = len(str(graph.m - 1))
        self.names = [f"p{i:0{width}}" for i in range(graph.m)]
        columns = [f"x{j}" for j in range(parts[0].shape[1])]
        features = [name for name in columns if name != settings.get("weights_column")]
        for name, part in zip(self.names, parts, strict=True):
            lines = [",".join(columns), *(",".join(map(repr, row)) for row in part.tolist())]
            self.data(name).write_text("\n".join(lines) + "\n")
        self.contract = self._make_contract(
            graph, hosts or ["127.0.0.1"] * graph.m, {"features": features, **settings}
        )
        contract_file.write(self.network, self.contract)
        self._proxies = FaultProxies() if proxied else None
        self._link_proxies: dict[tuple[str, str], FaultProxy] = {}
        if self._proxies is not None:
            for a, b in self.contract.links:
                target = self.contract.peer(b).endpoint
                self._link_proxies[a, b] = self._proxies.add(target)
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["peerclust.testing.preload"])
        self.processes: dict[str, Any] = {}

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def network(self) -> Path:
        """The network file."""
        return self.directory / "network.toml"

    def data(self, name: str) -> Path:
        """Return the file with a peer's rows."""
        return self.directory / f"{name}.csv"

    def out(self, name: str) -> Path:
        """Return the result directory of a peer."""
        return self.directory / f"out-{name}"

    def proxy(self, a: str, b: str) -> FaultProxy:
        """Return the fault proxy between two neighbors."""
        return self._link_proxies[min(a, b), max(a, b)]

    def start(
        self,
        *names: str,
        options: Sequence[str] = (),
        run: Callable[[list[str], Path], None] | None = None,
    ) -> None:
        """Start peers, all if none is named.

        `options` are more options of `peer run`; `run` is called instead of `preload.run_peer`, as
        for a peer that misbehaves.
        """
        for name in names or self.names:
            if self._fixed_seeds and not self.out(name).exists():
                self._write_seed(name)
            self._launch("run", name, ["--data", self.data(name).name, *options], run)

    def serve(
        self,
        *names: str,
        options: Sequence[str] = (),
        run: Callable[[list[str], Path], None] | None = None,
    ) -> None:
        """Let peers serve their results, in processes as those of `start`."""
        for name in names:
            self._launch("serve", name, options, run)

    def _launch(
        self,
        command: str,
        name: str,
        options: Sequence[str],
        run: Callable[[list[str], Path], None] | None,
    ) -> None:
        # Late, as importing it loads the compiled loops.
        from peerclust.testing import preload

        arguments = ["peer", command, "--network", self.network.name, "--me", name]
        arguments += ["--out", self.out(name).name]
        for (a, b), proxy in self._link_proxies.items():
            if a == name:
                arguments += ["--dial", f"{b}=127.0.0.1:{proxy.port}"]
        process = self._context.Process(
            target=run or preload.run_peer,
            args=([*arguments, *options], self.directory),
            daemon=True,
        )
        process.start()
        self.processes[name] = process

    def signal(self, name: str, number: int) -> None:
        """Send a peer a signal."""
        os.kill(self.processes[name].pid, number)

    def kill(self, *names: str) -> None:
        """Kill peers, so that they send no goodbye."""
        for name in names:
            self.signal(name, signal.SIGKILL)
            self.processes[name].join(10)

    def status(self, name: str) -> dict[str, Any]:
        """Return the status of a running peer."""
        return ask(status_socket(self.out(name)))

    def wait_for_round(self, name: str, round_: int, seconds: float = 120.0) -> int:
        """Wait until a peer has reached a round; return the round that it was seen in."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            try:
                status = self.status(name)
            except PeerError:
                status = {"phase": "agreeing", "round": -1}
            phase, at = status["phase"], int(status["round"])
            if phase == "done" or (phase == "running" and at >= round_):
                return at
            time.sleep(_POLL)
        raise PeerError(f"{name} did not reach round {round_} within {seconds:g} s.")

    def wait_for_end(self, name: str, seconds: float = 120.0) -> None:
        """Wait until a peer has written a result; it may wait for others after that."""
        limit = time.monotonic() + seconds
        while not self.ended(name):
            if time.monotonic() > limit:
                raise PeerError(f"{name} wrote no result within {seconds:g} s.")
            time.sleep(_POLL)

    def wait(self, *names: str, seconds: float = 240.0) -> dict[str, int | None]:
        """Wait for peers to end, all that were started if none is named; return their exit codes.

        The code of a peer that has not ended after `seconds` is None.
        """
        limit = time.monotonic() + seconds
        codes = {}
        for name in names or tuple(self.processes):
            self.processes[name].join(max(0.0, limit - time.monotonic()))
            codes[name] = self.processes[name].exitcode
        return codes

    def ended(self, name: str) -> bool:
        """Return whether a peer has written a result."""
        return (self.out(name) / "certificate.json").exists()

    def certificate(self, name: str) -> dict[str, Any]:
        """Read the certificate of a peer."""
        record: dict[str, Any] = json.loads((self.out(name) / "certificate.json").read_text())
        return record

    def centers(self, name: str) -> Array:
        """Read a peer's centers, (K, d), in the rows' own units."""
        table = np.loadtxt(self.out(name) / "centers.csv", delimiter=",", skiprows=1, ndmin=2)
        return np.asarray(table[:, 1:])

    def log(self, name: str) -> str:
        """Read a peer's log."""
        return (self.out(name) / "log.txt").read_text()

    def error(self, name: str) -> str:
        """Read what a peer has written to standard error."""
        return (self.directory / f"{name}.err").read_text()

    def replay(
        self, on_round: Callable[[int, dict[int, Array]], None] = lambda *_: None
    ) -> dict[str, Any]:
        """Replay the run from the rows and journals of all peers that have one."""
        sites = [(name, self.data(name), self.out(name)) for name in self.names]
        return commands.replay(self.network, sites, on_round)

    def close(self) -> None:
        """Kill all processes that still run, and close the proxies."""
        for process in self.processes.values():
            if process.is_alive():
                process.kill()
            process.join(10)
        if self._proxies is not None:
            self._proxies.close()

    def _write_seed(self, name: str) -> None:
        """Begin a peer's journal with a private seed, which its process then uses."""
        self.out(name).mkdir(mode=0o700)
        event = {"event": "seed", "seed": hashlib.sha256(name.encode()).hexdigest()}
        (self.out(name) / "journal.jsonl").write_text(json.dumps(event) + "\n")

    def _make_contract(
        self, graph: Graph, hosts: Sequence[str], settings: dict[str, Any]
    ) -> Contract:
        peers = []
        for name, host, port in zip(self.names, hosts, free_ports(graph.m), strict=True):
            identity = make_identity(name, self.directory, force=True)
            certificate = read_certificate(identity.certificate)
            peers.append(Peer(name, f"{host}:{port}", certificate))
        links = [(self.names[i], self.names[j]) for i, j in graph.pairs]
        return make_contract(peers, {"links": links, **settings}, "a local cluster")


def free_ports(n: int) -> list[int]:
    """Return ports that are free now and outside the range of ephemeral ports."""
    ports: list[int] = []
    for port in random.sample(range(20_000, 32_000), 2_000):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            ports.append(port)
        if len(ports) == n:
            return ports
    raise PeerError(f"{n} free ports could not be found.")
