"""The command warm-up: compile kernels in advance."""

from __future__ import annotations

from time import perf_counter
from typing import Annotated

import typer

from peerclust.cli.app import Json, app, echo, print_json, print_progress


@app.command("warm-up")
def warm_up(
    float32: Annotated[
        bool,
        typer.Option(
            "--float32",
            help="For float32 rows, too, as Python may pass them; tables are read as float64.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Compile kernels now, for images and services; otherwise it is done when one is needed."""
    from peerclust.clustering.warm_up import warm_up as compile_all
    from peerclust.kernels.cache_directory import cache_directory

    start = perf_counter()
    compile_all(lambda line: print_progress(line, as_json), float32=float32)
    seconds, directory = perf_counter() - start, cache_directory()
    files = [path for path in directory.rglob("*") if path.is_file()] if directory else []
    size = sum(path.stat().st_size for path in files)
    if as_json:
        where = None if directory is None else str(directory)
        print_json({"directory": where, "bytes": size, "seconds": seconds})
    elif directory is None:
        echo("No directory can be written to, so nothing is kept; set NUMBA_CACHE_DIR.")
    else:
        echo(
            f"Compiled kernels are in {directory} ({size / 1e6:.1f} MB); that took {seconds:.0f} s."
        )
