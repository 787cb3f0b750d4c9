"""What an experiment is: jobs that give rows of numbers, and a summary of these rows.

    plan(settings) -> jobs        a job is a function and its arguments, which are its record
    summarize(rows, settings)     from the rows of all jobs: lines beside the paper's, and a picture

How jobs are run is `runner`'s business, how pictures are drawn `report.figures`'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peerclust.report.pictures import Picture

# One row of the CSV: what was run, and what came out.
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Settings:
    """What a user asks for.

    `runs` is how often each cell is repeated, and `asked` whether that was asked for or is the
    experiment's own choice; `data` are the data sets to run, all of the experiment's if empty.
    """

    runs: int
    asked: bool = True
    seed: int = 0
    quick: bool = False
    data_dir: str | None = None
    data: tuple[str, ...] = ()

    def seeds(self) -> range:
        """Give the seed of each run."""
        return range(self.seed, self.seed + self.runs)

    def chosen(self, data: Iterable[str]) -> list[str]:
        """Give those of an experiment's data sets that are to be run."""
        return [each for each in data if not self.data or each in self.data]


@dataclass(frozen=True)
class Job:
    """A piece of work: `work(**given)` gives rows.

    `work` is a function of a module, so that another process can find it; `given` can be written
    as JSON, and says all that the rows depend on, but for where the data sets are. `effort` is
    about in proportion to the time it takes. Without `reuse` it is run again even if it was done
    before.
    """

    key: str
    work: Callable[..., list[dict[str, Any]]]
    given: Mapping[str, Any]
    effort: float = 1.0
    reuse: bool = True


@dataclass(frozen=True)
class Stat:
    """A mean and a standard deviation, None where there is none; `text` as a source prints them."""

    mean: float
    std: float | None = None
    text: str = ""


@dataclass(frozen=True)
class Line:
    """One number beside the paper's.

    Attributes
    ----------
    where : mapping
        What it is the number of, a column each, such as {"data": "MNIST7", "method": "DGC-KM"}.
    ours : Stat
        What was measured.
    paper : Stat or None
        What the paper has, if it has it.
    form : str
        "percent", "score" (of at most 1), "scale" (compared by its ratio), "count" or "seconds".
    """

    where: Mapping[str, str]
    ours: Stat
    paper: Stat | None = None
    form: str = "percent"


@dataclass(frozen=True)
class Summary:
    """What an experiment comes to: lines, sentences, and a picture."""

    lines: Sequence[Line]
    picture: Picture
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper, or an experiment beside it.

    Attributes
    ----------
    name, title : str
        As `peerclust reproduce --list` shows them.
    plan, summarize : callable
        See the top of this file.
    runs, quick_runs : int
        How often each cell is repeated unless asked otherwise.
    needs : tuple of str
        The data sets that are read from files: "mnist", "cifar10".
    data : tuple of str
        The parts that can be run alone, by the names of their data sets.
    timed : bool
        Whether times are compared, so that jobs run one after the other and always all anew.
    """

    name: str
    title: str
    plan: Callable[[Settings], list[Job]]
    summarize: Callable[[Sequence[Row], Settings], Summary]
    runs: int = 20
    quick_runs: int = 3
    needs: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    timed: bool = False
