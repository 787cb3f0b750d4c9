"""What all commands share: the application, errors as one sentence, common options, printing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from peerclust import __version__
from peerclust.cli import exit_codes
from peerclust.cli.help import option
from peerclust.cli.mpi_job import wait_for_root
from peerclust.errors import PeerclustError
from peerclust.files import explain
from peerclust.text import LONGEST_LINE, sanitize

# Raised for unknown or missing options; the name of its module differs between versions of typer.
USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]


class CommandGroup(TyperGroup):
    """Commands whose expected errors are one sentence on stderr and exit code 2.

    With `names_docs` the sentence says where the docs explain it.
    """

    names_docs = False

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except PeerclustError as error:
            sentence = str(error)
        except USAGE_ERROR:
            wait_for_root()
            raise
        except BrokenPipeError:
            raise
        except OSError as error:
            sentence = explain(error)
        except KeyboardInterrupt:
            echo(exit_codes.describe_interrupt(), err=True)
            raise typer.Exit(exit_codes.INTERRUPTED) from None
        if self.names_docs:
            sentence = f"{sentence} ({exit_codes.where('an error')})"
        echo(sentence, err=True)
        raise typer.Exit(exit_codes.ERROR)


app = typer.Typer(
    cls=CommandGroup, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


def _version(requested: bool) -> None:
    if requested:
        echo(f"peerclust {__version__}")
        raise typer.Exit


@app.callback()
def _peerclust(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Cluster data held by many users, without pooling it and without a server."""


Files = Annotated[list[Path], typer.Argument(metavar="FILE", help="CSV, TSV or Parquet files.")]
Delimiter = Annotated[str | None, option("delimiter", metavar="NAME|CHARACTER")]
Decimal = Annotated[str | None, option("decimal", metavar="point|comma")]
Clusters = Annotated[int, typer.Option(min=1, metavar="K", help="Number of clusters.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Seed = Annotated[int, typer.Option(min=0, help="Random seed; equal seeds give equal results.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an earlier result.")]


def echo(line: str, *, err: bool = False) -> None:
    """Print one line to stdout, or to stderr; parts of it may come from outside."""
    typer.echo(sanitize(line, longest=LONGEST_LINE), err=err)


def print_progress(line: str, quiet: bool) -> None:
    """Print a line of progress to stderr."""
    if not quiet:
        echo(line, err=True)


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object to stdout."""
    typer.echo(json.dumps(value, indent=2))
