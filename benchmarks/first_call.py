"""CPU seconds of first calls: on a machine that has never compiled a kernel, and in a new process.

Each measure is a process of its own with an empty cache of kernels. CPU seconds count all threads
and children, and the imports.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.measures import Measure, Progress

# Prints the CPU seconds after the imports and after each call that an argument describes.
_CALLS = """
import json, resource, sys, warnings
import numpy as np
warnings.simplefilter("ignore")

def cpu():
    whose = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, whose))

from peerclust.estimators import PeerClustering
seconds = [cpu()]
for words in sys.argv[1:]:
    n, d, users, dtype, loss, weighted = words.split(",")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(int(n), int(d))) + 10.0 * rng.integers(0, 8, size=(int(n), 1))
    who = None if users == "1" else np.arange(int(n)) % int(users)
    weights = rng.uniform(0.5, 2.0, int(n)) if weighted == "weights" else None
    model = PeerClustering(8, loss=loss, random_state=0)
    model.fit(X.astype(dtype), sample_weight=weights, users=who).predict(X[:100].astype(dtype))
    seconds.append(cpu())
print(json.dumps(seconds))
"""

_SMALL = "300,2,1,float64,kmeans,none"
_LARGE = "20000,8,1,float64,kmeans,none"
# Further first uses after the first call, each of which needs something that it did not.
_FURTHER = {
    "huber": "20000,8,1,float64,huber,none",
    "weights": "20000,8,1,float64,kmeans,weights",
    "float32": "20000,8,1,float32,kmeans,none",
    "ten users": "20000,8,10,float64,kmeans,none",
    "a thousand users": "20000,2,1000,float64,kmeans,none",
    "64 features": "20000,64,1,float64,kmeans,none",
    "logistic": "20000,8,1,float64,logistic,none",
}


def measure(progress: Progress) -> Iterator[Measure]:
    """Yield the measures of first calls, of a warm process and of the command line."""
    for name, call, target in (("small", _SMALL, 5.0), ("large", _LARGE, 9.0)):
        progress(f"the first call ever: {call}")
        with TemporaryDirectory() as cache:
            imports, total = run_calls(cache, [call])
        yield Measure(
            f"first_{name}",
            total,
            f"CPU s for {call}, of them imports {imports:.2f}",
            at_most=target,
        )
    progress("further first uses in the same process")
    with TemporaryDirectory() as cache:
        times = run_calls(cache, [_LARGE, *_FURTHER.values()])
        for (name, call), last, now in zip(_FURTHER.items(), times[1:], times[2:], strict=False):
            yield Measure(f"further_{name.replace(' ', '_')}", now - last, call, at_most=2.0)
        progress("a new process with a warm cache")
        yield _time_process("warm", ["-c", _CALLS, _LARGE], cache, 1.5)
        yield _time_process("help", ["-m", "peerclust", "--help"], cache, 0.5)


def run_calls(cache: str | Path, calls: Sequence[str]) -> list[float]:
    """Return the CPU seconds of a process after its imports, and after each call."""
    command = [sys.executable, "-c", _CALLS, *calls]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    seconds: list[float] = json.loads(done.stdout)
    return seconds


def _time_process(name: str, words: Sequence[str], cache: str, target: float) -> Measure:
    """Return the median wall time of a process, from its start to its end."""
    environment, seconds = os.environ | {"NUMBA_CACHE_DIR": cache}, []
    for _ in range(5):
        begin = perf_counter()
        subprocess.run([sys.executable, *words], env=environment, check=True, capture_output=True)
        seconds.append(perf_counter() - begin)
    return Measure(
        name, median(seconds), "s from the start of a process to its end", at_most=target
    )
