"""What all commands share: the application, errors as one sentence, common options, printing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from peerclust import __version__
from peerclust.errors import PeerclustError


class _Sentences(TyperGroup):
    """Commands whose expected errors are one sentence on stderr and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except PeerclustError as error:
            sentence = in_options(str(error))
        except BrokenPipeError:
            raise
        except OSError as error:
            sentence = f"{error.filename or 'A file'} cannot be used: {error.strerror or error}."
        typer.echo(sentence, err=True)
        raise typer.Exit(2)


app = typer.Typer(
    cls=_Sentences, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"peerclust {__version__}")
        raise typer.Exit


@app.callback()
def _peerclust(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Cluster data that lives with many users, without pooling it and without a server."""


Files = Annotated[list[Path], typer.Argument(metavar="FILE", help="CSV or Parquet files.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an earlier result.")]


def in_options(sentence: str) -> str:
    """Name the command and its options where a sentence names a function and its parameters."""
    commands = {"cluster": "fit"}
    words = {"n_clusters": "clusters", "B": "updates", "n_init": "starts", "path": "methods"}
    words |= {"random_state": "seed", "weights": "weights-column", "data_dir": "data-dir"}
    return re.sub(
        r"`(\w+)` of (cluster|experiments\.run|methods\.load|mnist|cifar10)\b",
        lambda found: (
            f"`--{words.get(found[1], found[1])}` of {commands.get(found[2], 'reproduce')}"
        ),
        sentence,
    )


def tell(line: str, quiet: bool) -> None:
    """Print a line of progress to stderr."""
    if not quiet:
        typer.echo(line, err=True)


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object to stdout."""
    typer.echo(json.dumps(value, indent=2))
