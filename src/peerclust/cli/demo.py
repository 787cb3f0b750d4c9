"""The command demo: K-means beside Huber on data with outliers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from peerclust.cli.app import Json, Seed, app, print_json, print_progress
from peerclust.errors import ParameterError


@app.command()
def demo(
    out: Annotated[Path, typer.Option(metavar="FILE.png", help="File for the figure.")] = Path(
        "peerclust-demo.png"
    ),
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Compare K-means and Huber on five clusters with 20 % outliers, held by ten users."""
    from peerclust.files import new_file
    from peerclust.paper import demo as circle, demo_report
    from peerclust.report import terminal

    if out.suffix.lower() != ".png":
        raise ParameterError(f"`--out` of demo must end in .png. Got {out}.")
    result = circle.run(seed, lambda line: print_progress(line, as_json))
    with new_file(out) as file:
        demo_report.draw(result, file)
    if as_json:
        print_json({"seed": seed, **result.as_dict(), "picture": str(out)})
    else:
        terminal.show(demo_report.demo_table(result.outcomes), result.sentence, f"Picture: {out}")
