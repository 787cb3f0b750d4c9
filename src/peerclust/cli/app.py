"""What all commands share: the application, errors as one sentence, common options, printing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from peerclust import __version__
from peerclust.cli.job import let_first_speak
from peerclust.errors import PeerclustError
from peerclust.files import explain

# What is raised for words that no command takes; the name of its module differs between versions.
USAGE: type[Exception] = typer.BadParameter.__mro__[1]


class Sentences(TyperGroup):
    """Commands whose expected errors are one sentence on stderr and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except PeerclustError as error:
            inside = ctx.info_name == "peer"
            sentence = in_options(str(error), f"peer {ctx.invoked_subcommand}" if inside else "fit")
        except USAGE:
            let_first_speak()
            raise
        except BrokenPipeError:
            raise
        except OSError as error:
            sentence = explain(error)
        typer.echo(sentence, err=True)
        raise typer.Exit(2)


app = typer.Typer(
    cls=Sentences, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
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


def in_options(sentence: str, command: str = "fit") -> str:
    """Name the command and its options where a sentence names a function and its parameters.

    `command` is the one that was given the parameters of `cluster`.
    """
    commands = {"cluster": command, "peer init": "peer init"}
    words = {"n_clusters": "clusters", "B": "updates", "n_init": "starts", "path": "methods"}
    words |= {"random_state": "seed", "weights": "weights-column", "links": "graph"}
    sentence = sentence.replace("with `resume`", "with --resume")
    return re.sub(
        r"`(\w+)` of (cluster|paper\.run|baselines\.load|mnist|cifar10|peer init)\b",
        lambda found: (
            f"`--{words.get(found[1], found[1].replace('_', '-'))}` of"
            f" {commands.get(found[2], 'reproduce')}"
        ),
        sentence,
    )


def tell(line: str, quiet: bool) -> None:
    """Print a line of progress to stderr."""
    if not quiet:
        typer.echo(line, err=True)


def print_json(value: dict[str, Any] | list[dict[str, Any]]) -> None:
    """Print one JSON object, or a list of them, to stdout."""
    typer.echo(json.dumps(value, indent=2))
