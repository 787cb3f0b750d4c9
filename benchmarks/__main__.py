"""The command `python -m benchmarks NAME`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import benchmarks
from benchmarks.command_line import Parser, add_json_option, run_command
from benchmarks.measures import Progress, Report

DESCRIPTION = """\
Run a benchmark and print each measure beside its target.

benchmarks:
"""

EPILOG = """\
The exit code is 0 if every measure meets its target, 1 if one misses it, and 2 if an option is
wrong or the benchmark cannot run. docs/benchmarks.md describes the measures and targets.
"""


def make_parser() -> Parser:
    """Return the parser of the command line."""
    listed = "".join(f"  {name:10} {what}\n" for name, what in benchmarks.BENCHMARKS.items())
    parser = Parser(
        prog="python -m benchmarks",
        usage="python -m benchmarks NAME [options]",
        description=DESCRIPTION + listed,
        epilog=EPILOG,
    )
    parser.add_argument("name", metavar="NAME", help="the benchmark to run")
    add_json_option(parser)
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="rounds, whole: directory with the MNIST files (rounds by default downloads them)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE.png",
        help="rounds, solvers, choices, mpi: where to save the figure"
        " (default: peerclust-NAME.png)",
    )
    parser.add_argument(
        "--latency",
        type=float,
        metavar="SECONDS",
        help="mpi: latency of the network that the prediction for 1,000 ranks assumes"
        " (default: 2e-6)",
    )
    parser.add_argument(
        "--bandwidth",
        type=float,
        metavar="BYTES",
        help="mpi: bandwidth of that network in bytes per second (default: 1e10)",
    )
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""

    def start(given: argparse.Namespace, progress: Progress) -> Report:
        options = {
            option: value
            for option, value in vars(given).items()
            if option not in ("name", "json") and value is not None
        }
        return benchmarks.run(given.name, progress, **options)

    return run_command(make_parser(), start, words)


if __name__ == "__main__":
    sys.exit(main())
