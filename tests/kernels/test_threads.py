from __future__ import annotations

import os
import subprocess
import sys
import threading
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from peerclust.kernels import threads
from peerclust.kernels.threads import cores, parallel_for


@pytest.fixture
def use_threads(monkeypatch):
    def use(number):
        monkeypatch.setenv("PEERCLUST_THREADS", str(number))
        monkeypatch.setattr(threads, "MIN_WORK_PER_THREAD", 1)

    return use


def ranges(sizes, work):
    """Return the ranges that `parallel_for` calls its loop with, sorted."""
    called = []
    parallel_for(lambda a, b: called.append((a, b)), np.cumsum(sizes), work)
    return sorted(called)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 50), min_size=0, max_size=40),
    number=st.integers(1, 9),
    work=st.floats(0.0, 1e4),
)
def test_every_item_is_done_exactly_once(sizes, number, work):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PEERCLUST_THREADS", str(number))
        patch.setattr(threads, "MIN_WORK_PER_THREAD", 100)
        called = ranges(sizes, work)
    assert called[0][0] == 0
    assert called[-1][1] == len(sizes)
    assert all(a[1] == b[0] for a, b in pairwise(called))
    assert len(called) <= max(1, 2 * number)


@pytest.mark.parametrize("number", [2, 5])
def test_ranges_are_of_about_equal_work(use_threads, number):
    use_threads(number)
    sizes = np.random.default_rng(0).integers(1, 9, 500)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    each = [ends[b] - ends[a] for a, b in ranges(sizes, 1e9)]
    assert len(each) == 2 * number
    assert max(each) - min(each) <= 2 * 9


def test_as_many_threads_run_at_once_as_were_requested(use_threads):
    use_threads(3)
    meet = threading.Barrier(3, timeout=30)
    names = set()

    def loop(first, last):
        if first in (0, 2, 4):  # one stretch of each thread's two waits for the other threads
            meet.wait()
        names.add(threading.current_thread().name)

    parallel_for(loop, np.arange(1, 7), work=1e9)
    assert len(names) == 3
    assert threading.current_thread().name not in names


def test_one_thread_means_the_calling_one(use_threads):
    use_threads(1)
    inside = []
    parallel_for(lambda a, b: inside.append(threading.current_thread()), np.arange(1, 100), 1e9)
    assert inside == [threading.current_thread()]


def test_little_work_is_not_worth_a_thread(monkeypatch):
    monkeypatch.setenv("PEERCLUST_THREADS", "8")
    inside = []

    def loop(first, last):
        inside.append(threading.current_thread())

    parallel_for(loop, np.arange(1, 100), threads.MIN_WORK_PER_THREAD - 1)
    assert inside == [threading.current_thread()]
    parallel_for(loop, np.arange(1, 100), threads.MIN_WORK_PER_THREAD)
    assert threading.current_thread() not in inside[1:]


@pytest.mark.parametrize(("number", "count"), [(1, 7), (4, 7), (4, 1), (4, 0), (3, 1000)])
def test_items_that_are_all_alike_need_only_be_counted(use_threads, number, count):
    use_threads(number)
    seen = []
    parallel_for(lambda first, last: seen.extend(range(first, last)), count, 1e9)
    assert sorted(seen) == list(range(count))


@pytest.mark.parametrize("number", [1, 4])
def test_an_error_in_the_loop_reaches_the_caller(use_threads, number):
    use_threads(number)

    def loop(first, last):
        raise ArithmeticError(first)

    with pytest.raises(ArithmeticError):
        parallel_for(loop, np.arange(1, 20), 1e9)
    assert ranges([1] * 20, 1e9)  # and the next call is none the worse


@pytest.mark.parametrize("number", [1, 2, 7])
def test_the_environment_says_how_many_cores(monkeypatch, number):
    monkeypatch.setenv("PEERCLUST_THREADS", str(number))
    assert cores() == number


@pytest.mark.parametrize("nonsense", ["", "0", "-3", "many", "1.5"])
def test_nonsense_in_the_environment_means_the_cores_we_may_use(monkeypatch, nonsense):
    monkeypatch.delenv("PEERCLUST_THREADS", raising=False)
    allowed = cores()
    assert 1 <= allowed <= os.cpu_count()
    monkeypatch.setenv("PEERCLUST_THREADS", nonsense)
    assert cores() == allowed


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux can bind a process")
def test_only_the_cores_this_process_may_use_are_counted(monkeypatch):
    monkeypatch.delenv("PEERCLUST_THREADS", raising=False)
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_makes_threads_of_its_own():
    # In a process of its own: pytest's may hold threads, and a fork would warn.
    script = """
import os, signal
import numpy as np
from peerclust.kernels.threads import parallel_for
def run():
    done = []
    parallel_for(lambda a, b: done.append(b - a), np.arange(1, 50), 1e9)
    return sum(done)
assert run() == 49
child = os.fork()
if child == 0:
    signal.alarm(20)  # a child that waits for its parent's threads waits for ever
    os._exit(0 if run() == 49 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert run() == 49
"""
    env = {**os.environ, "PEERCLUST_THREADS": "3"}
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, env=env)
