"""Three sites to check, each with a directory of its own and, on request, a process."""

import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np

from peerclust.peers.check import check
from peerclust.peers.commands import SiteArguments
from peerclust.peers.site_directory import status_socket
from peerclust.runtimes.network import contract_file, status
from peerclust.runtimes.network.contract import Peer
from peerclust.runtimes.network.contract_validation import make_contract
from peerclust.runtimes.network.identity import make_identity, read_certificate
from peerclust.testing.local_cluster import free_ports

NAMES = ("a", "b", "c")
LONG = 30.0  # seconds; longer than anything correct takes


class Net:
    """Three sites on a path, each with a directory of its own."""

    def __init__(self, path):
        self.path = path
        rng = np.random.default_rng(0)
        for name in NAMES:
            make_identity(name, path / name)
            lines = [f"{i},{a},{b}" for i, (a, b) in enumerate(rng.normal(size=(20, 2)).tolist())]
            (path / name / "rows.csv").write_text("\n".join(["id,x,y", *lines]))
        self.ports = dict(zip(NAMES, free_ports(3), strict=True))
        self.agree()

    def agree(self, links=(("a", "b"), ("b", "c")), **values):
        peers = [
            Peer(n, f"127.0.0.1:{self.ports[n]}", read_certificate(self.path / n / f"{n}.crt"))
            for n in NAMES
        ]
        given = {"links": links, "features": ["x", "y"], "n_clusters": 2}
        given["ranges"] = {"x": (-9, 9), "y": (-9, 9)}
        self.contract = make_contract(peers, given | values, "here")
        for name in NAMES:
            contract_file.write(self.file(name), self.contract)

    def file(self, name):
        return self.path / name / "network.toml"

    def check(self, name, seconds=LONG, **given):
        site = {"data": self.path / name / "rows.csv"}
        site |= {key: given.pop(key) for key in ("data", "keys", "listen", "dial") if key in given}
        lines = check(SiteArguments(self.file(name), name, **site), seconds=seconds, **given)
        return {line.name: line for line in lines}

    def check_all(self, names, **given):
        """Check several sites at the same time."""
        found = {}
        threads = [
            threading.Thread(target=lambda n=name: found.update({n: self.check(n, **given)}))
            for name in names
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    @contextmanager
    def running(self, *names):
        """Run sites in processes of their own; yield the processes."""
        program = [sys.executable, "-m", "peerclust", "peer", "run", "--network", "network.toml"]
        processes = {}
        for name in names:
            command = [*program, "--me", name, "--data", "rows.csv", "--out", "out"]
            with (self.path / name / "output.txt").open("w") as output:
                processes[name] = subprocess.Popen(
                    command, cwd=self.path / name, stdout=output, stderr=output
                )
        try:
            yield processes
        finally:
            for process in processes.values():
                process.kill()
                process.wait()

    def status(self, name):
        return status.ask(status_socket(self.path / name / "out"))

    def wait(self, name, condition):
        """Wait until the status of a running site meets a condition; return it."""
        limit = time.monotonic() + LONG
        while time.monotonic() < limit:
            try:
                found = self.status(name)
            except status.PeerError:
                found = None
            if found is not None and condition(found):
                return found
            time.sleep(0.05)
        raise AssertionError((self.path / name / "output.txt").read_text())


def bad(lines):
    return {name: line.detail for name, line in lines.items() if not line.ok}
