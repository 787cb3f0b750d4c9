"""A kernel runs in numpy until compiling pays; both versions serve one call."""

import logging
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from peerclust import kernels
from peerclust.errors import ParameterError
from peerclust.kernels import kernel as module
from peerclust.kernels.kernel import LOADING, Kernel

X = np.arange(12.0).reshape(6, 2)
MATRIX = np.eye(2)[None]


@pytest.fixture(autouse=True)
def auto():
    with kernels.use_mode("auto"):
        yield


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that only tests advance, in seconds."""
    now = [0.0]
    monkeypatch.setattr(module, "thread_time", lambda: now[0])
    return now


def make_kernel(tmp_path, monkeypatch, clock, *, seconds):
    """Return a kernel with a loop of its own, which counts as what numba compiles, and all calls.

    The version in numpy takes a second of the clock.
    """
    monkeypatch.setattr(module, "cache_directory", lambda: tmp_path)
    monkeypatch.setattr(module, "existing_cache", lambda: tmp_path)
    calls = []

    class Loop:
        signatures = ()
        _cache = SimpleNamespace(saved=True)

        def _compile_for_args(self, *arguments):
            calls.append("compile")
            Loop.signatures = ("some",)
            return lambda x: calls.append(f"compiled {x.dtype.char}")

        def __call__(self, *arguments):
            self._compile_for_args(*arguments)(*arguments)

    def plain(x):
        clock[0] += 1.0
        calls.append(f"numpy {x.dtype.char}")

    made = Kernel("some.loop", plain, seconds=seconds)
    Kernel.all.remove(made)
    loops = type(sys)("loops")
    loops.loop = Loop()
    monkeypatch.setitem(sys.modules, "peerclust.kernels.loops.some", loops)
    monkeypatch.setitem(sys.modules, "numba", None)
    return made, calls


def test_numpy_runs_for_as_long_as_compiling_would_take(tmp_path, monkeypatch, clock):
    kernel, calls = make_kernel(tmp_path, monkeypatch, clock, seconds=2.5)
    for _ in range(5):
        kernel(X)
    assert calls == 3 * ["numpy d"] + 2 * ["compile", "compiled d"]


def test_each_type_has_an_account_of_its_own(tmp_path, monkeypatch, clock):
    kernel, calls = make_kernel(tmp_path, monkeypatch, clock, seconds=1.5)
    for _ in range(3):
        kernel(X)
    calls.clear()
    for _ in range(3):
        kernel(X.astype(np.float32))
    assert calls == 2 * ["numpy f"] + ["compile", "compiled f"]


def test_a_loop_in_the_cache_is_loaded_soon(tmp_path, monkeypatch, clock):
    first, _ = make_kernel(tmp_path, monkeypatch, clock, seconds=2.5)
    for _ in range(4):
        first(X)
    later, calls = make_kernel(tmp_path, monkeypatch, clock, seconds=2.5)
    assert later.delay(worth=9.0) == LOADING
    for _ in range(2):
        later(X)
    assert calls == ["numpy d", "compile", "compiled d"]


def test_a_damaged_marker_is_ignored_and_overwritten(tmp_path, monkeypatch, clock):
    first, _ = make_kernel(tmp_path, monkeypatch, clock, seconds=2.5)
    for _ in range(4):
        first(X)
    (marker,) = tmp_path.glob("*.types")
    right = marker.read_bytes()
    marker.write_bytes(b"\xff\xfe")
    (tmp_path / "some.loop-link.types").symlink_to(tmp_path / "gone")
    (tmp_path / "some.loop-directory.types").mkdir()
    later, calls = make_kernel(tmp_path, monkeypatch, clock, seconds=2.5)
    assert later.delay(9.0, X) == 2.5
    for _ in range(4):
        later(X)
    assert calls == 3 * ["numpy d"] + ["compile", "compiled d"]
    assert marker.read_bytes() == right


def test_a_loop_that_could_not_be_saved_does_not_count_as_cached(tmp_path, monkeypatch, clock):
    kernel, calls = make_kernel(tmp_path, monkeypatch, clock, seconds=0.5)
    monkeypatch.setattr(kernel._load()._cache, "saved", False)
    with kernels.use_mode("always"):
        kernel(X)
    assert calls == ["compile", "compiled d"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("mode", "expected"), [("always", "compile"), ("never", "numpy d")])
def test_a_mode_leaves_no_choice(tmp_path, monkeypatch, clock, mode, expected):
    kernel, calls = make_kernel(tmp_path, monkeypatch, clock, seconds=0.0)
    with kernels.use_mode(mode):
        for _ in range(3):
            kernel(X)
        assert kernel.delay(worth=9.0) == (0.0 if mode == "always" else float("inf"))
    assert calls[0] == expected
    assert ("compile" in calls) == (mode == "always")


@pytest.mark.parametrize(("seconds", "lines"), [(0.5, []), (3.6, ["4 s"])])
def test_a_person_who_waits_is_told_so_once(tmp_path, monkeypatch, clock, caplog, seconds, lines):
    kernel, _ = make_kernel(tmp_path, monkeypatch, clock, seconds=seconds)
    monkeypatch.setattr(module.Kernel, "compiling", 0.0)
    monkeypatch.setattr(module.Kernel, "announced", False)
    monkeypatch.setattr(module.Kernel, "due_soon", set())
    with caplog.at_level(logging.WARNING, "peerclust"):
        for _ in range(9):
            kernel(X)
    expected = [f"compiling kernels, once: about {line}" for line in lines]
    assert caplog.messages == expected


def test_numba_runs_either_version_by_the_types_of_a_call():
    out, out32 = np.zeros_like(X), np.zeros_like(X)
    with kernels.use_mode("always"):
        kernels.matvec(X, MATRIX, out)
    # Compiled for float64; for float32 numba's dispatcher calls numpy's version.
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: kernels.matvec(X.astype(np.float32), MATRIX, out32), range(20)))
    np.testing.assert_array_equal(out, X)
    np.testing.assert_array_equal(out32, X)
    types = module._types_of((X.astype(np.float32), MATRIX, out32))
    assert kernels.matvec._spent[types] > 0.0


def test_an_unknown_mode_is_refused(monkeypatch):
    monkeypatch.setattr(module._Mode, "name", None)
    monkeypatch.setenv("PEERCLUST_COMPILE", "sometimes")
    with pytest.raises(ParameterError, match="must be one of auto, always, never"):
        kernels.compile_mode()


FIT = """
import sys
import numpy as np
from peerclust.estimators import PeerClustering
rng = np.random.default_rng(0)
rows = rng.normal(size=({n}, 2)) + 10 * rng.integers(3, size=({n}, 1))
fitted = PeerClustering(3, random_state=0).fit(rows, users=np.arange({n}) % {users})
print("numba" in sys.modules, fitted.inertia_.hex())
"""


def fit(mode, n, users, directory):
    env = os.environ | {"PEERCLUST_COMPILE": mode, "NUMBA_CACHE_DIR": str(directory)}
    code = FIT.format(n=n, users=users)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    return done.stdout.split()


@pytest.mark.parametrize(("n", "users"), [(300, 1), (300, 10), (400, 100)])
def test_a_small_fit_needs_no_numba_and_has_the_same_bits(n, users, tmp_path):
    plain = fit("auto", n, users, tmp_path)
    assert plain[0] == "False"
    assert list(tmp_path.iterdir()) == []
    if users == 10:
        compiled = fit("always", n, users, os.environ.get("NUMBA_CACHE_DIR", ""))
        assert compiled == ["True", plain[1]]


def test_a_kernel_that_is_due_soon_is_known_until_it_is_compiled(tmp_path, monkeypatch, clock):
    monkeypatch.setattr(Kernel, "due_soon", set())
    kernel, calls = make_kernel(tmp_path, monkeypatch, clock, seconds=20.0)
    for _ in range(18):
        kernel(X)
    assert not kernels.may_compile()
    kernel(X)
    assert kernels.may_compile()
    while "compile" not in calls:
        kernel(X)
    assert not kernels.may_compile()


def test_a_loop_in_the_cache_is_loaded_without_a_thread(tmp_path, monkeypatch, clock):
    monkeypatch.setattr(Kernel, "due_soon", set())
    kernel, calls = make_kernel(tmp_path, monkeypatch, clock, seconds=1.0)
    while "compile" not in calls:
        kernel(X)
    again, calls = make_kernel(tmp_path, monkeypatch, clock, seconds=20.0)
    again(X)
    assert not kernels.may_compile()
    again(X)
    assert calls == ["numpy d", "compile", "compiled d"]


@pytest.mark.parametrize("markers", [0, 1])
def test_numba_is_imported_ahead_only_if_there_are_loops_in_the_cache(
    tmp_path, monkeypatch, markers
):
    imported = []
    monkeypatch.setattr(module, "existing_cache", lambda: tmp_path)
    monkeypatch.setattr(module, "import_module", imported.append)
    for i in range(markers):
        (tmp_path / f"some.loop-{i}.types").write_text("d1")
    with kernels.use_mode("auto"):
        kernels.import_compiler()
    for thread in threading.enumerate():
        if thread.daemon and thread.name.endswith("(append)"):
            thread.join()
    assert imported == ["numba"] * markers
