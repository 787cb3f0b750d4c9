"""What `python -m benchmarks` and `python -m tests.chaos` share: parsing, errors and printing.

Expected errors are one sentence on stderr and exit code 2. Results go to stdout, progress to
stderr; with --json there is no progress.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from rich.table import Table

from benchmarks.measures import Progress, Report
from peerclust.errors import ParameterError, PeerclustError
from peerclust.files import explain
from peerclust.report import terminal
from peerclust.text import guess
from peerclust.validation import check_name


class Parser(argparse.ArgumentParser):
    """A parser that raises ParameterError with one sentence and never abbreviates options."""

    def __init__(self, **options: Any) -> None:
        shape = argparse.RawDescriptionHelpFormatter
        super().__init__(formatter_class=shape, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Raise ParameterError with argparse's message in the form of our own."""
        kinds = {"float": "a number", "int": "a whole number"}
        if found := re.fullmatch(r"argument (\S+): invalid (\w+) value: (.*)", message):
            name, kind, value = found.groups()
            raise ParameterError(f"`{name}` of {self.prog} must be {kinds[kind]}. Got {value}.")
        if found := re.fullmatch(r"argument (\S+): invalid choice: '(.*)' \(choose .*", message):
            check_name(found[2], self.subcommands, found[1], self.prog)
        raise ParameterError(f"{message[0].upper()}{message[1:]}. Try `{self.prog} --help`.")

    @property
    def subcommands(self) -> dict[str, Parser]:
        """The subcommands by name."""
        chosen = [each for each in self._actions if isinstance(each, argparse._SubParsersAction)]
        return {name: parser for each in chosen for name, parser in each.choices.items()}

    def parse_all(self, words: Sequence[str] | None) -> argparse.Namespace:
        """Parse all words; name the nearest known option if one is unknown."""
        given, unknown = self.parse_known_args(words)
        if unknown:
            parser = self.subcommands.get(getattr(given, "command", ""), self)
            options = [name for action in parser._actions for name in action.option_strings]
            near = guess(unknown[0], options) if unknown[0].startswith("-") else ""
            raise ParameterError(
                f"`{unknown[0]}` is not an option of {parser.prog}.{near or ' Try --help.'}"
            )
        return given


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Add --json."""
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
    )


def run_command(
    parser: Parser,
    start: Callable[[argparse.Namespace, Progress], Report],
    words: Sequence[str] | None,
) -> int:
    """Parse the words, run `start`, print its report and return the exit code."""
    try:
        given = parser.parse_all(words)
        report = start(given, _ignore if given.json else _print_progress)
    except PeerclustError as error:
        return _fail(_as_option(str(error)))
    except BrokenPipeError:
        raise
    except OSError as error:
        return _fail(explain(error))
    if given.json:
        print(json.dumps(report.as_dict(), indent=2))
    else:
        terminal.show(make_table(report.as_dict()))
    return 0 if report.holds else 1


def make_table(report: dict[str, Any]) -> Table:
    """Return the measures of a report as a table."""
    machine = report["machine"]
    table = Table(title=f"{report['name']}, on {machine['cores']} cores ({machine['processor']})")
    table.add_column("measure", overflow="fold")
    for name in ("value", "target"):
        table.add_column(name, justify="right")
    table.add_column("holds")
    table.add_column("detail", overflow="fold")
    for measure in report["measures"]:
        table.add_row(
            measure["name"],
            _short(measure["value"]),
            "" if measure["target"] is None else _short(measure["target"]),
            "" if measure["target"] is None else "yes" if measure["holds"] else "NO",
            str(measure["detail"]),
        )
    return table


def _as_option(sentence: str) -> str:
    """Write the parameter that a sentence begins with as an option of the command line.

    >>> _as_option("`data_dir` of mnist must be a folder.")
    '`--data-dir` of mnist must be a folder.'
    """
    return re.sub(
        r"^`([a-z_]+)` of", lambda found: f"`--{found[1].replace('_', '-')}` of", sentence
    )


def _print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _ignore(_: str) -> None:
    pass


def _fail(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 2


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
