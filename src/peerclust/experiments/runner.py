"""Runs an experiment's jobs, several at a time, and goes on where an earlier run stopped.

In the directory of an experiment: `runs/`, one file a job, written when the job is done;
`runs.csv`, `table.md`, `figure.png` and `config.json`, written at the end. A job whose file is
there, with the same arguments and the same versions, is not run again. Whoever changes the code
without changing the version takes another directory.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any

from peerclust import methods
from peerclust.errors import InputError, JobError, ParameterError
from peerclust.experiments.plan import Experiment, Job, Settings
from peerclust.experiments.writing import Result, describe_job, write
from peerclust.files import new_file
from peerclust.text import place

# Told after each job: (effort done, effort in all, what was done).
Progress = Callable[[float, float, str], None]


def run_experiment(
    experiment: Experiment,
    settings: Settings,
    out: Path,
    *,
    workers: int = 1,
    progress: Progress = lambda *_: None,
) -> Result:
    """Run what is not there yet, then write the results to `out` / the experiment's name.

    A quick version has a directory of its own.
    """
    # Without matplotlib nothing begins.
    import peerclust.report.figures  # noqa: F401

    directory = out / (f"{experiment.name}-quick" if settings.quick else experiment.name)
    jobs = experiment.plan(settings)
    if experiment.timed:
        jobs = [replace(job, reuse=False) for job in jobs]
    rows = [
        row
        for each in _run_jobs(
            jobs, directory / "runs", 1 if experiment.timed else workers, progress
        )
        for row in each
    ]
    summary = experiment.summarize(rows, settings)
    result = Result(experiment, settings, directory, summary)
    write(result, jobs, rows)
    return result


def _run_jobs(
    jobs: Sequence[Job], folder: Path, workers: int, progress: Progress
) -> list[list[dict[str, Any]]]:
    """Give the rows of every job, in their order."""
    if len({job.key for job in jobs}) < len(jobs):
        raise ParameterError("The jobs of an experiment must have different keys.")
    done: dict[str, list[dict[str, Any]]] = {}
    for job in jobs:
        found = _read(job, folder) if job.reuse else None
        if found is not None:
            done[job.key] = found
    total = sum(job.effort for job in jobs)
    finished = sum(job.effort for job in jobs if job.key in done)
    progress(finished, total, f"{len(done)} of {len(jobs)} there already" if done else "")
    missing = [job for job in jobs if job.key not in done]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(f"{folder} cannot be written: {error.strerror}.") from None
    try:
        for job, rows in _results(missing, workers):
            with new_file(_path(job, folder)) as file:
                file.write_text(json.dumps(describe_job(job) | {"rows": rows}))
            done[job.key] = rows
            finished += job.effort
            progress(finished, total, job.key)
    except BaseException:
        # What was only begun leaves nothing behind; what is done is kept.
        for each in (folder, folder.parent):
            with suppress(OSError):
                each.rmdir()
        raise
    return [done[job.key] for job in jobs]


def _results(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, list[dict[str, Any]]]]:
    """Yield each job with its rows as they come."""
    if min(workers, len(jobs)) <= 1:
        for job in jobs:
            yield job, _work(job)
        return
    with _pool(workers) as pool:
        # The longest first, so that no long one is left alone at the end.
        queue = sorted(jobs, key=lambda job: -job.effort)
        with _ignored_interrupts():
            waiting: dict[Future[Any], Job] = {pool.submit(_work, job): job for job in queue}
        while waiting:
            done = wait(waiting, return_when=FIRST_COMPLETED).done
            # Those that failed come last, so that what is done is kept.
            for future in sorted(done, key=lambda each: each.exception() is not None):
                yield waiting.pop(future), future.result()


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Give processes of one thread each; none is left behind, whatever happens."""
    before = set(active_children())
    pool = ProcessPoolExecutor(
        workers,
        mp_context=get_context("spawn"),
        initializer=_begin_process,
        initargs=_picklable(methods.shared()),
    )
    try:
        yield pool
    except BaseException as error:
        for process in set(active_children()) - before:
            process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)
        if isinstance(error, BrokenProcessPool):
            raise JobError(
                "A process of the experiment ended by itself, for lack of memory (try fewer"
                " workers), or because a script with workers has no `if __name__ == '__main__':`."
                " What is done is kept."
            ) from None
        raise
    pool.shutdown(wait=True)


@contextmanager
def _ignored_interrupts() -> Iterator[None]:
    """Start processes that never heard of Ctrl-C; it is the parent who ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _picklable(shared: tuple[Any, Any]) -> tuple[Any, Any]:
    try:
        pickle.dumps(shared)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ParameterError(
            "`workers` of experiments.run must be 1 with a method that other processes cannot"
            f" have. {error}."
        ) from None
    return shared


def _begin_process(files: list[Path], own: dict[str, methods.Method]) -> None:
    """Prepare a process: one thread, the user's own methods, and Ctrl-C left to the parent."""
    from threadpoolctl import threadpool_limits

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["PEERCLUST_THREADS"] = "1"
    # For what is loaded already, and for what scikit-learn loads later.
    threadpool_limits(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    for file in files:
        methods.load(file)
    for name, method in own.items():
        # A script that registers has done so again, when this process imported it.
        if name not in methods.registered():
            methods.register(name, method)


def _end_with_parent() -> None:
    """End this process when its parent does, however that comes; it would wait for work forever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(job: Job) -> list[dict[str, Any]]:
    """Do a job; if it fails by itself, say which it was."""
    try:
        return job.work(**job.given)
    except InputError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}".rstrip(".")
        raise JobError(f"The job {job.key} failed with {what} ({place(error)}).") from error


def _path(job: Job, folder: Path) -> Path:
    return folder / f"{job.key}.json"


def _read(job: Job, folder: Path) -> list[dict[str, Any]] | None:
    """Give the rows of a job that was done before with the same arguments, if it was."""
    try:
        held = json.loads(_path(job, folder).read_text())
        rows: list[dict[str, Any]] = held.pop("rows")
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None
    return rows if held == describe_job(job) else None
