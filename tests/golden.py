"""Numbers that must not change: `python tests/golden.py record|compare [--fast]`.

`record` runs every case and writes `golden.json`: the numbers themselves, and SHA-256 digests of
their bits for this CPU and these versions. `compare` runs every case again. On a machine whose
digests are known the bits must be equal, elsewhere the numbers must agree to 1e-9. Strings are
never compared. `--fast` leaves out peers and MPI, which start processes.

Recording again is a commit of its own, with the reason in its message.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
FILE = HERE / "golden.json"
TOLERANCE = 1e-9

# By name: an integer array is compared exactly, a float array to TOLERANCE.
Numbers = dict[str, np.ndarray]


def machine() -> str:
    """Return the CPU and the versions that the last bits depend on."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    libraries = ("numpy", "scipy", "scikit-learn", "numba", "llvmlite")
    return ", ".join([cpu, *(f"{name} {version(name)}" for name in libraries)])


def digest(numbers: Numbers) -> str:
    """Return the SHA-256 of the bits of all numbers."""
    total = hashlib.sha256()
    for values in numbers.values():
        total.update(np.ascontiguousarray(values).tobytes())
    return total.hexdigest()


def cluster_numbers(options: dict[str, Any]) -> Numbers:
    """Return the numbers of a clustering: centers, labels, certificate and trace."""
    import peerclust as pc

    solution = pc.cluster(**options)
    certificate = dataclasses.astuple(solution.certificate)
    numbers = {
        "centers": solution.centers,
        "labels": np.concatenate(solution.labels).astype(np.int64),
        "certificate": np.array([v for v in certificate if not isinstance(v, str)], np.float64),
    }
    if solution.trace is not None:
        numbers["trace"] = np.array([np.sum(values) for values in vars(solution.trace).values()])
    return numbers


def estimator_numbers() -> dict[str, Numbers]:
    """Return the numbers of both estimators."""
    import peerclust as pc

    rows, _ = pc.datasets.iris()
    users = np.arange(150) % 4
    model = pc.PeerClustering(3, loss="huber", rho=20.0, max_iter=100, random_state=2).fit(
        rows, users=users
    )
    detector = pc.PeerOutlierDetector(2, contamination=0.1, random_state=3).fit(rows, users=users)
    return {
        "estimator-1": {
            "centers": model.user_centers_,
            "labels": model.labels_.astype(np.int64),
            "distances": model.transform(rows[:10]),
        },
        "estimator-2": {
            "centers": detector.cluster_centers_,
            "labels": detector.predict(rows).astype(np.int64),
            "scores": detector.score_samples(rows),
        },
    }


def peer_numbers() -> dict[str, Numbers]:
    """Return the numbers of runs of three real peers in which nothing goes wrong."""
    import peerclust as pc
    from golden_cases import PEERS, data
    from peerclust.testing.local_cluster import LocalCluster

    found = {}
    for name, settings in PEERS.items():
        parts = data("iris")
        parts = [np.concatenate(parts[:2]), np.concatenate(parts[2:4]), np.concatenate(parts[4:])]
        with (
            tempfile.TemporaryDirectory() as folder,
            LocalCluster(
                Path(folder), parts, pc.graphs.ring(3), n_clusters=3, linger=0.5, **settings
            ) as peers,
        ):
            peers.start()
            codes = peers.wait()
            assert all(code in (0, 1) for code in codes.values()), codes
            held = [
                np.loadtxt(peers.out(each) / "labels.csv", delimiter=",", skiprows=1)
                for each in peers.names
            ]
            keys = (
                "rounds",
                "residual",
                "largest_residual",
                "disagreement",
                "cost",
                "pooled_cost",
                "pooled_residual",
            )
            values = [[peers.certificate(each)[key] for key in keys] for each in peers.names]
            found[name] = {
                "centers": np.stack([peers.centers(each) for each in peers.names]),
                "labels": np.concatenate([each[:, 1] for each in held]).astype(np.int64),
                "scores": np.concatenate([each[:, 2] for each in held]),
                "certificate": np.array(values, np.float64),
            }
    return found


def check_restarted_peer() -> None:
    """Raise unless a run in which a peer is killed and returns equals its own replay."""
    import peerclust as pc
    from golden_cases import data
    from peerclust.testing.local_cluster import LocalCluster

    settings = {
        "n_clusters": 3, "solver": "dgc", "rho": 1000.0, "tol": 1e-6, "rounds": 30_000,
        "timeout": 2.0, "linger": 0.5, "checkpoint_every": 0.1,
    }  # fmt: skip
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(Path(folder), data("iris")[:5], pc.graphs.ring(5), **settings) as peers,
    ):
        peers.start()
        peers.wait_for_round("p2", 200)
        peers.kill("p2")
        peers.start("p2")
        peers.wait()
        replayed = peers.replay()
        assert len(replayed) == 5, replayed
        assert all(each["same"] for each in replayed.values()), replayed


def mpi_numbers() -> dict[str, Numbers]:
    """Return the numbers of cases run as two ranks of an MPI job."""
    from golden_cases import ON_MPI
    from mpi_jobs import run_ranks

    found = {}
    for name in ON_MPI:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "numbers.npz")
            command = [sys.executable, "-m", "mpi4py", __file__, "rank", name, out]
            done = run_ranks(2, *command, timeout=300)
            assert done.returncode == 0, done.stderr
            with np.load(out) as held:
                found[f"mpi-{name}"] = dict(held)
    return found


def run_rank(name: str, out: Path) -> None:
    """Run a case as a rank of an MPI job; rank 0 writes the numbers."""
    from mpi4py import MPI

    from golden_cases import CASES

    numbers = cluster_numbers(CASES[name] | {"runtime": "mpi"})
    if MPI.COMM_WORLD.rank == 0:
        np.savez(out, **numbers)  # type: ignore[arg-type]


def run_all(*, fast: bool) -> dict[str, Numbers]:
    """Run all cases; `fast` leaves out what starts processes."""
    from golden_cases import CASES

    found = {name: cluster_numbers(options) for name, options in CASES.items()}
    found |= estimator_numbers()
    if not fast:
        found |= mpi_numbers() | peer_numbers()
    return found


def differences(found: dict[str, Numbers]) -> list[str]:
    """Return a sentence for each case whose numbers are not those recorded."""
    recorded = json.loads(FILE.read_text())
    known = recorded["digests"].get(machine(), {})
    sentences = []
    for name, numbers in found.items():
        for what, values in numbers.items():
            held = np.array(recorded["numbers"][name][what], values.dtype).reshape(values.shape)
            same = (
                np.array_equal(held, values)
                if values.dtype.kind == "i"
                else np.allclose(held, values, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
            )
            if not same:
                off = np.abs(held - values).max()
                sentences.append(f"{name}: {what} differ by up to {off:.3g}.")
        if known and digest(numbers) != known[name]:
            sentences.append(f"{name}: the bits differ.")
    return sentences


def record(found: dict[str, Numbers]) -> None:
    """Write the numbers, and the digests of this machine."""
    digests = {machine(): {name: digest(numbers) for name, numbers in found.items()}}
    numbers = {
        name: {what: values.ravel().tolist() for what, values in each.items()}
        for name, each in found.items()
    }
    lines = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(each, separators=(',', ':'))}"
        for name, each in numbers.items()
    )
    FILE.write_text(
        f'{{"digests": {json.dumps(digests, indent=0)},\n"numbers": {{\n{lines}\n}}}}\n'
    )


def main() -> None:
    """Record or compare, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", choices=["record", "compare", "rank"])
    parser.add_argument("arguments", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--fast", action="store_true", help="leave out peers and MPI")
    given = parser.parse_args()
    if given.what == "rank":
        run_rank(given.arguments[0], Path(given.arguments[1]))
        return
    found = run_all(fast=given.fast and given.what == "compare")
    if given.what == "record":
        record(found)
        print(f"Recorded {len(found)} cases in {FILE.name}.")
        return
    if not given.fast:
        check_restarted_peer()
    sentences = differences(found)
    known = machine() in json.loads(FILE.read_text())["digests"]
    how = "to the last bit" if known else "to 1e-9 (no digests of this CPU and these versions)"
    print("\n".join(sentences) or f"{len(found)} cases are the same {how}.")
    sys.exit(bool(sentences))


if __name__ == "__main__":
    main()
