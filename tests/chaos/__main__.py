"""The commands `python -m tests.chaos schedules` and `python -m tests.chaos fuzz`."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from benchmarks.command_line import Parser, add_json_option, run_command
from benchmarks.measures import Progress, Report
from peerclust.report.machine import this_machine

COMMANDS = {
    "schedules": "run random schedules of faults on six peer processes",
    "fuzz": "decode mutated frames of the wire format",
}

EPILOG = """\
The exit code is 0 if nothing failed, 1 if something did, and 2 if an option is wrong. Progress goes
to stderr. docs/benchmarks.md describes what is checked.
"""


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(
        prog="python -m tests.chaos",
        description="Inject faults into peer processes and into the decoder of frames.",
        epilog=EPILOG,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, what in COMMANDS.items():
        command = commands.add_parser(
            name, help=what, description=f"{what[0].upper()}{what[1:]}.", epilog=EPILOG
        )
        if name == "schedules":
            command.add_argument(
                "--count",
                type=int,
                default=200,
                metavar="N",
                help="number of schedules (default: 200)",
            )
        else:
            command.add_argument(
                "--frames",
                type=int,
                default=10_000_000,
                metavar="N",
                help="number of mutated frames (default: 10,000,000)",
            )
        command.add_argument(
            "--seed",
            type=int,
            default=0,
            metavar="S",
            help="the same seed repeats a run (default: 0)",
        )
        add_json_option(command)
    return parser


def start(given: argparse.Namespace, progress: Progress) -> Report:
    """Run the command that was given."""
    importlib.import_module("peerclust.runtimes.network")  # names the extra if it is missing
    from . import campaign, fuzz

    if given.command == "schedules":
        measures = campaign.measure(progress, count=given.count, seed=given.seed)
    else:
        measures = fuzz.measure(progress, frames=given.frames, seed=given.seed)
    return Report(given.command, this_machine(), list(measures))


def main(words: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return run_command(make_parser(), start, words)


if __name__ == "__main__":
    sys.exit(main())
