"""A change of any kernel takes effect at once, and compiled code is cached."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import pytest

from peerclust import arrays
from peerclust.kernels import cache_directory
from peerclust.kernels.cache_directory import find_cache
from peerclust.kernels.loops import compiling

# The last line of a function of another file, which is inlined into the loop below.
HELPER = "return (a + b) + (c + d)"
SHOW_DISTANCE = """
import numpy as np
from peerclust.kernels.loops.center_drift import add_drift
path, drift, max_drift = np.zeros((1, 1)), np.zeros((1, 1)), np.zeros(1)
results, scratch = (path, drift, max_drift), (np.zeros(1), np.zeros(4))
add_drift(np.full((1, 1, 4), 1.0), np.arange(1), np.zeros((1, 1, 4)), *results, scratch)
print(round(path[0, 0], 9), sum(add_drift.stats.cache_hits.values()))
"""


@pytest.fixture
def package(tmp_path):
    """Return a copy of the kernels, in a package of the same name that imports none by itself."""
    kernels = tmp_path / "peerclust" / "kernels"
    kernels.parent.mkdir()
    ours = Path(cache_directory.__file__).parent
    shutil.copytree(ours, kernels, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(Path(arrays.__file__), kernels.parent)
    for path in (kernels.parent, kernels):
        (path / "__init__.py").write_text("")
    return kernels


def edit_helper(package):
    """Change what the inlined function returns, in its own file only."""
    (path,) = (path for path in package.glob("loops/*.py") if HELPER in path.read_text())
    assert path.name != "center_drift.py"
    path.write_text(path.read_text().replace(HELPER, "return 9.0 * (a + b + c + d)"))


def show_distance(package, processes=1):
    """Return how far a center went, and the loops found on disk, as new processes see it."""
    env = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    env["PYTHONPATH"] = str(package.parents[1])
    started = [
        subprocess.Popen(
            [sys.executable, "-c", SHOW_DISTANCE], stdout=subprocess.PIPE, text=True, env=env
        )
        for _ in range(processes)
    ]
    outputs = [process.communicate()[0].split() for process in started]
    assert [process.returncode for process in started] == [0] * processes
    return [(float(distance), int(hits)) for distance, hits in outputs]


def test_an_edited_helper_changes_loops_of_other_files_at_once(package):
    assert show_distance(package) == [(2.0, 0)]
    assert show_distance(package) == [(2.0, 1)]
    before = set((package / "__pycache__").glob("numba-*"))
    edit_helper(package)
    # Several at once, as the workers of a test run or the ranks of a job are.
    assert {distance for distance, _ in show_distance(package, processes=3)} == {6.0}
    after = set((package / "__pycache__").glob("numba-*"))
    assert len(before) == len(after) == 1
    assert before != after


def test_compiling_leaves_the_settings_of_numba_alone(monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", "the user's own")

    @compiling.compiled()
    def double(x):
        return 2 * x

    assert numba.config.CACHE_DIR == "the user's own"
    assert double.stats.cache_path.startswith(str(cache_directory.cache_directory()))


@pytest.fixture
def places(package, monkeypatch):
    """Return a package, a directory for numba and a user's cache, for `find_cache` to choose."""
    monkeypatch.setattr(cache_directory, "_HERE", package)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    user = package.parents[1] / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(user))
    return package, package.parents[1] / "numba", user


def test_the_cache_is_beside_the_kernels_or_where_the_user_wants_it(places, monkeypatch):
    package, wanted, _ = places
    beside = find_cache()
    assert beside.parent == package / "__pycache__"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(wanted))
    found = find_cache()
    assert found.parents[1] == wanted
    assert found.name == beside.name
    # A directory that cannot be made is passed over.
    (wanted.parent / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(wanted.parent / "file"))
    assert find_cache() == beside


def test_a_package_that_cannot_be_written_to_has_its_cache_at_the_user_s(places, monkeypatch):
    package, _, user = places
    (package / "__pycache__").write_text("")  # no directory can be made in it
    first = find_cache()
    assert first.parents[1] == user / "peerclust"
    edit_helper(package)
    assert find_cache().parent == first.parent
    assert not first.exists()
    # Another installation has its own.
    second = package.with_name("other")
    shutil.copytree(package, second)
    monkeypatch.setattr(cache_directory, "_HERE", second)
    assert find_cache().parents[1] == user / "peerclust"
    assert len(list((user / "peerclust").glob("*/numba-*"))) == 2


def test_without_a_writable_directory_nothing_is_cached(places, monkeypatch):
    package, _, user = places
    (package / "__pycache__").write_text("")
    user.write_text("")
    assert find_cache() is None
    monkeypatch.setattr(compiling, "cache_directory", find_cache)
    assert compiling.compiled()(lambda x: 2 * x)(3) == 6


def test_a_cache_that_cannot_be_written_to_is_copied(places, monkeypatch):
    _, wanted, _ = places
    beside = find_cache()
    (beside / "loop.nbi").write_text("compiled")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(wanted))
    found = find_cache()
    assert found.parents[1] == wanted
    assert (found / "loop.nbi").read_text() == "compiled"
    assert [path.name for path in found.parent.iterdir()] == [found.name]


def test_a_user_s_cache_that_cannot_be_looked_into_is_passed_over(places, monkeypatch):
    package, *_ = places
    monkeypatch.setenv("XDG_CACHE_HOME", "/" + 300 * "a")  # no name of a file is that long
    existing = cache_directory.existing_cache.__wrapped__
    assert existing() is None
    assert find_cache().parent == package / "__pycache__"
    assert existing() == find_cache()


def test_versions_have_caches_of_their_own(places, monkeypatch):
    before = find_cache()
    monkeypatch.setattr(cache_directory, "version", lambda name: f"{name} of next year")
    after = find_cache()
    assert after != before
    assert before.exists()
    assert after.parent == before.parent


def test_many_processes_may_find_the_cache_at_once(places):
    package, *_ = places
    for n in range(20):
        stale = package / "__pycache__" / f"numba-{cache_directory._digest_machine()}-{n}"
        stale.mkdir(parents=True)
        (stale / "loop.nbi").write_text("")
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: find_cache(), range(32)))
    assert [*(package / "__pycache__").glob("numba-*")] == [*found]


def double(x):
    return 2 * x


def run_double(monkeypatch, directory):
    """Return the number of loops found on disk, and whether all were saved."""
    monkeypatch.setattr(compiling, "cache_directory", lambda: directory)
    loop = compiling.compiled()(double)
    assert loop(3) == 6
    return sum(loop.stats.cache_hits.values()), loop._cache.saved


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", [lambda found: found[:-9], lambda _: b"", lambda _: b"\xffno"])
def test_a_damaged_file_is_ignored_and_overwritten(tmp_path, monkeypatch, suffix, damage):
    assert run_double(monkeypatch, tmp_path) == (0, True)
    assert run_double(monkeypatch, tmp_path) == (1, True)
    (file,) = tmp_path.rglob(f"*.{suffix}")
    file.write_bytes(damage(file.read_bytes()))
    assert run_double(monkeypatch, tmp_path) == (0, True)
    assert run_double(monkeypatch, tmp_path) == (1, True)


def test_a_full_disk_only_leaves_loops_uncached(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile._save_data", fail)
    assert run_double(monkeypatch, tmp_path) == (0, False)
    monkeypatch.undo()
    assert run_double(monkeypatch, tmp_path) == (0, True)


def test_a_cache_that_becomes_a_file_only_leaves_loops_uncached(tmp_path, monkeypatch):
    monkeypatch.setattr(compiling, "cache_directory", lambda: tmp_path / "cache")
    loop = compiling.compiled()(double)
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").write_text("")
    assert loop(3) == 6
    assert not loop._cache.saved
    assert compiling.compiled()(double)(3) == 6
