"""What an experiment is: jobs that return rows of numbers, and a summary of these rows.

    plan(options) -> jobs              a job is a function and its arguments
    summarize(rows, options) -> Summary    our numbers beside the paper's, and a picture

`runner` runs the jobs; `report.figures` draws the picture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peerclust.report.pictures import Picture

# One row of the CSV: what was run, and what came out.
Row = Mapping[str, Any]


@dataclass(frozen=True)
class RunOptions:
    """The options of one run of an experiment.

    `runs` is the number of runs per cell, and `asked` is false if that is the experiment's own
    default; `data` names the data sets to run, all of the experiment's if empty.
    """

    runs: int
    asked: bool = True
    seed: int = 0
    quick: bool = False
    data_dir: str | None = None
    data: tuple[str, ...] = ()

    def seeds(self) -> range:
        """Return the seed of each run."""
        return range(self.seed, self.seed + self.runs)

    def chosen(self, data: Iterable[str]) -> list[str]:
        """Return those of an experiment's data sets that are to be run."""
        return [each for each in data if not self.data or each in self.data]


@dataclass(frozen=True)
class Job:
    """A piece of work: `work(**given)` returns rows.

    `work` is a function of a module, so that another process can import it. `given` can be written
    as JSON, and the rows depend on nothing else, but for the directory of the data sets. `effort`
    is roughly proportional to the run time. Without `reuse` the job runs even if its rows are
    stored.
    """

    key: str
    work: Callable[..., list[dict[str, Any]]]
    given: Mapping[str, Any]
    effort: float = 1.0
    reuse: bool = True


@dataclass(frozen=True)
class Stat:
    """A mean and a standard deviation, None if unknown; `text` is how a source prints them."""

    mean: float
    std: float | None = None
    text: str = ""


@dataclass(frozen=True)
class Line:
    """One number beside the paper's.

    Attributes
    ----------
    where : mapping
        What the number belongs to, by column, such as {"data": "MNIST7", "method": "DGC-KM"}.
    ours : Stat
        What was measured.
    paper : Stat or None
        What the paper prints, if anything.
    form : str
        "percent", "score" (at most 1), "scale" (compared by ratio), "count" or "seconds".
    """

    where: Mapping[str, str]
    ours: Stat
    paper: Stat | None = None
    form: str = "percent"


@dataclass(frozen=True)
class Summary:
    """The result of an experiment: lines, a picture, and notes."""

    lines: Sequence[Line]
    picture: Picture
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper, or an extra experiment.

    Attributes
    ----------
    name, title : str
        As shown by `peerclust reproduce --list`.
    plan, summarize : callable
        See the top of this file.
    runs, quick_runs : int
        Default number of runs per cell.
    needs : tuple of str
        The data sets that are read from files: "mnist", "cifar10".
    data : tuple of str
        The data sets that can be selected.
    timed : bool
        Whether times are compared. If so, jobs run one at a time, and stored rows are not reused.
    """

    name: str
    title: str
    plan: Callable[[RunOptions], list[Job]]
    summarize: Callable[[Sequence[Row], RunOptions], Summary]
    runs: int = 20
    quick_runs: int = 3
    needs: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    timed: bool = False
