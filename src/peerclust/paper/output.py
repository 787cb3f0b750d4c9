"""The files of an experiment: `table.md`, `runs.csv`, `figure.png` and `config.json`."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from peerclust import baselines
from peerclust.files import new_file
from peerclust.paper.comparison import agrees, markdown
from peerclust.paper.experiment import Experiment, Job, Row, RunOptions, Summary
from peerclust.paper.settings import SETTINGS
from peerclust.report.machine import this_machine


@dataclass(frozen=True, repr=False)
class Result:
    """The result of an experiment, and where it was written; `page` is the table to print."""

    experiment: Experiment
    options: RunOptions
    directory: Path
    summary: Summary

    def __repr__(self) -> str:
        return f"<Result: {self.experiment.name}, {len(self.summary.lines)} lines>"

    @property
    def page(self) -> str:
        """The Markdown page: title, what was run, table, notes."""
        options, lines = self.options, self.summary.lines
        runs = f"{options.runs} run{'s' if options.runs > 1 else ''} per cell, seed {options.seed}"
        quick = "**Quick version, smaller than the paper's experiment.** " if options.quick else ""
        page = f"# {self.experiment.name}: {self.experiment.title}\n\n{quick}{runs}.\n\n"
        if lines:
            page += markdown(lines, verdicts=not options.quick) + "\n"
        return page + "".join(f"{note}\n\n" for note in self.summary.notes).rstrip("\n") + "\n"

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers in a form that JSON can hold."""
        return {
            "name": self.experiment.name,
            "title": self.experiment.title,
            "settings": _options(self.options),
            "directory": str(self.directory),
            "lines": [
                {
                    **line.where,
                    "form": line.form,
                    "paper": None if line.paper is None else asdict(line.paper),
                    "ours": asdict(line.ours),
                    "agrees": agrees(line),
                }
                for line in self.summary.lines
            ],
            "notes": list(self.summary.notes),
        }


def describe_job(job: Job) -> dict[str, Any]:
    """Return what identifies a job; the directory of its data does not, as data may move."""
    given: dict[str, Any] = json.loads(json.dumps(dict(job.given)))
    given.pop("data_dir", None)
    return {"versions": _versions(), "work": job.work.__name__, "given": given}


@cache
def _versions() -> dict[str, str]:
    """Return the versions that a stored job must match; there may be thousands of jobs."""
    return {name: version(name) for name in ("peerclust", "numpy", "scikit-learn")}


def write(result: Result, jobs: Sequence[Job], rows: Sequence[Row]) -> None:
    """Write all files, each of them atomically."""
    from peerclust.report import figures

    directory = result.directory
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with new_file(directory / "runs.csv") as place, place.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
    with new_file(directory / "table.md") as place:
        place.write_text(result.page)
    config = {
        "experiment": result.experiment.name,
        "title": result.experiment.title,
        "settings": _options(result.options),
        "data": {name: asdict(SETTINGS[name]) for name in _named(jobs, "setting")},
        "methods": {name: _describe_method(name) for name in _named(jobs, "method")},
        "jobs": [{"key": job.key, **describe_job(job)} for job in jobs],
        "machine": asdict(this_machine()),
    }
    with new_file(directory / "config.json") as place:
        place.write_text(json.dumps(config, indent=1) + "\n")
    with new_file(directory / "figure.png") as place:
        figures.draw(result.summary.picture, place)


def _named(jobs: Sequence[Job], argument: str) -> list[str]:
    return list(dict.fromkeys(job.given[argument] for job in jobs if argument in job.given))


def _describe_method(name: str) -> dict[str, str]:
    """Return a method's class and fields; a function by its name."""
    method: Any = baselines.get(name)
    held = fields(method) if is_dataclass(method) else ()
    values = {each.name: getattr(method, each.name) for each in held}
    shown = {key: getattr(value, "__name__", repr(value)) for key, value in values.items()}
    return {"class": type(method).__name__, **shown}


def _options(options: RunOptions) -> dict[str, Any]:
    return {name: value for name, value in asdict(options).items() if name != "data_dir"}
