"""Run an experiment's jobs, several at a time, and resume where an earlier run stopped.

The directory of an experiment has `runs/` with one file per job, written when the job is done, and
the files of `output`, written at the end. A job whose file is there, with the same arguments and
the same versions, is not run again. After a change of the code without a new version, use another
directory.
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

from peerclust import baselines
from peerclust.errors import InputError, JobError, ParameterError
from peerclust.files import new_file
from peerclust.paper.experiment import Experiment, Job, RunOptions
from peerclust.paper.output import Result, describe_job, write
from peerclust.text import parameter, place

# Called after each job: (effort done, total effort, what was done).
Progress = Callable[[float, float, str], None]


def run_experiment(
    experiment: Experiment,
    options: RunOptions,
    out: Path,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> Result:
    """Run the jobs that are not done yet, then write the results to `out` / the experiment's name.

    A quick version has a directory of its own.
    """
    # Fail before the first job if matplotlib is missing.
    import peerclust.report.figures  # noqa: F401

    directory = out / (f"{experiment.name}-quick" if options.quick else experiment.name)
    jobs = experiment.plan(options)
    if experiment.timed:
        jobs = [replace(job, reuse=False) for job in jobs]
        workers = 1
    rows = _run_jobs(jobs, directory / "runs", workers, progress or (lambda *_: None))
    result = Result(experiment, options, directory, experiment.summarize(rows, options))
    write(result, jobs, rows)
    return result


def _run_jobs(
    jobs: Sequence[Job], folder: Path, workers: int, progress: Progress
) -> list[dict[str, Any]]:
    """Return the rows of all jobs, in the order of the jobs."""
    if len({job.key for job in jobs}) < len(jobs):
        raise ParameterError("The jobs of an experiment must have different keys.")
    stored = {job.key: _read(job, folder) for job in jobs if job.reuse}
    done = {key: rows for key, rows in stored.items() if rows is not None}
    total = sum(job.effort for job in jobs)
    finished = sum(job.effort for job in jobs if job.key in done)
    progress(finished, total, f"{len(done)} of {len(jobs)} already done" if done else "")
    missing = [job for job in jobs if job.key not in done]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(f"{folder} cannot be written: {error.strerror}.") from None
    try:
        for job, rows in _results(missing, workers):
            with new_file(folder / f"{job.key}.json") as file:
                file.write_text(json.dumps(describe_job(job) | {"rows": rows}))
            done[job.key] = rows
            finished += job.effort
            progress(finished, total, job.key)
    except BaseException:
        # Remove directories that are still empty; finished jobs are kept.
        for each in (folder, folder.parent):
            with suppress(OSError):
                each.rmdir()
        raise
    return [row for job in jobs for row in done[job.key]]


def _results(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, list[dict[str, Any]]]]:
    """Yield each job with its rows as it finishes."""
    if min(workers, len(jobs)) <= 1:
        for job in jobs:
            yield job, _work(job)
        return
    with _pool(workers) as pool:
        # Longest first, so that no long job is left alone at the end.
        queue = sorted(jobs, key=lambda job: -job.effort)
        with _ignored_interrupts():
            waiting: dict[Future[Any], Job] = {pool.submit(_work, job): job for job in queue}
        while waiting:
            done = wait(waiting, return_when=FIRST_COMPLETED).done
            # Failed jobs come last, so that the others are stored first.
            for future in sorted(done, key=lambda each: each.exception() is not None):
                yield waiting.pop(future), future.result()


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Return a pool of single-threaded processes; on exit none of them is left running."""
    before = set(active_children())
    pool = ProcessPoolExecutor(
        workers,
        mp_context=get_context("spawn"),
        initializer=_begin_process,
        initargs=_picklable(baselines.shared()),
    )
    try:
        yield pool
    except BaseException as error:
        for process in set(active_children()) - before:
            process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)
        if isinstance(error, BrokenProcessPool):
            raise JobError(
                "A worker process died: out of memory (try fewer workers), or a script with"
                " workers lacks `if __name__ == '__main__':`. Finished jobs are kept."
            ) from None
        raise
    pool.shutdown(wait=True)


@contextmanager
def _ignored_interrupts() -> Iterator[None]:
    """Let processes that start here ignore Ctrl-C; the parent terminates them."""
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
            parameter("workers", "paper.run")
            + f" must be 1 with a method that cannot be pickled. {error}."
        ) from None
    return shared


def _begin_process(files: list[Path], own: dict[str, baselines.Method]) -> None:
    """Prepare a worker: one thread, the user's own methods, and Ctrl-C left to the parent."""
    from threadpoolctl import threadpool_limits

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["PEERCLUST_THREADS"] = "1"
    # The call is for libraries loaded already, the variable for those that scikit-learn loads.
    threadpool_limits(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    for file in files:
        baselines.load(file)
    for name, method in own.items():
        # A script that registers methods did so again when this process imported it.
        if name not in baselines.registered():
            baselines.register(name, method)


def _end_with_parent() -> None:
    """Exit when the parent does, for whatever reason; otherwise this process would wait forever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(job: Job) -> list[dict[str, Any]]:
    """Run a job; an unexpected error names the job."""
    try:
        return job.work(**job.given)
    except InputError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}".rstrip(".")
        raise JobError(f"The job {job.key} failed with {what} ({place(error)}).") from error


def _read(job: Job, folder: Path) -> list[dict[str, Any]] | None:
    """Return the stored rows of a job with the same arguments and versions, if there are any."""
    try:
        held = json.loads((folder / f"{job.key}.json").read_text())
        rows: list[dict[str, Any]] = held.pop("rows")
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None
    return rows if held == describe_job(job) else None
