"""What an experiment leaves in its directory: the page, the CSV, the picture, the configuration."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from peerclust import methods
from peerclust.experiments.compare import agrees, markdown
from peerclust.experiments.plan import Experiment, Job, Row, Settings, Summary
from peerclust.experiments.setting import SETTINGS
from peerclust.files import new_file
from peerclust.report.machine import this_machine


@dataclass(frozen=True, repr=False)
class Result:
    """What running an experiment gave, and where it was written; `page` is the table to print."""

    experiment: Experiment
    settings: Settings
    directory: Path
    summary: Summary

    def __repr__(self) -> str:
        return f"<Result: {self.experiment.name}, {len(self.summary.lines)} lines>"

    @property
    def page(self) -> str:
        """The Markdown page: title, what was run, table, sentences."""
        return describe(self.experiment, self.settings, self.summary)

    def as_dict(self) -> dict[str, Any]:
        """Give the numbers as JSON can hold them."""
        return {
            "name": self.experiment.name,
            "title": self.experiment.title,
            "settings": _settings(self.settings),
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
    """Give what a job is known by: not where its data is, which may move."""
    given: dict[str, Any] = json.loads(json.dumps(dict(job.given)))
    given.pop("data_dir", None)
    return {"versions": _versions(), "work": job.work.__name__, "given": given}


@cache
def _versions() -> dict[str, str]:
    """Give the versions that a record is good for; there may be thousands of records to compare."""
    return {name: version(name) for name in ("peerclust", "numpy", "scikit-learn")}


def write(result: Result, jobs: Sequence[Job], rows: Sequence[Row]) -> None:
    """Write everything; each file appears whole."""
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
        "settings": _settings(result.settings),
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
    """Give a method's class and fields; a function by its name."""
    method: Any = methods.get(name)
    held = fields(method) if hasattr(method, "__dataclass_fields__") else ()
    values = {each.name: getattr(method, each.name) for each in held}
    shown = {key: getattr(value, "__name__", repr(value)) for key, value in values.items()}
    return {"class": type(method).__name__, **shown}


def _settings(settings: Settings) -> dict[str, Any]:
    return {name: value for name, value in asdict(settings).items() if name != "data_dir"}


def describe(experiment: Experiment, settings: Settings, summary: Summary) -> str:
    """Give the page of an experiment: title, what was run, table, sentences."""
    runs = f"{settings.runs} run{'s' if settings.runs > 1 else ''} a cell, seed {settings.seed}"
    quick = "**Quick version, smaller than the paper's experiment.** " if settings.quick else ""
    page = f"# {experiment.name}: {experiment.title}\n\n{quick}{runs}.\n\n"
    if summary.lines:
        page += markdown(summary.lines, verdicts=not settings.quick) + "\n"
    return page + "".join(f"{note}\n\n" for note in summary.notes).rstrip("\n") + "\n"
