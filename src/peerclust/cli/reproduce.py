"""The command reproduce: tables and figures of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from peerclust.cli import exit_codes
from peerclust.cli.app import Json, Seed, app, echo, print_json, print_progress
from peerclust.doors import REPRODUCE
from peerclust.errors import DataError, ParameterError


@app.command()
def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="table-1 to table-7, figure-2 to figure-9, splits, cifar-classes, rivals, or all.",
        ),
    ] = "",
    show_list: Annotated[
        bool, typer.Option("--list", help="List the experiments and exit.")
    ] = False,
    runs: Annotated[
        int | None, typer.Option(min=1, help="Runs per cell (default: that of the experiment).")
    ] = None,
    seed: Seed = 0,
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Results go to DIR/NAME; an interrupted run resumes from there."
        ),
    ] = Path("reproduction"),
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory of MNIST and CIFAR-10 (default: OpenML)."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="A,B", help="Run only these data sets of table-3, table-5 or figure-4."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run a smaller version, marked as such.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of processes (default: one per core).")
    ] = None,
    own: Annotated[
        list[Path],
        typer.Option(
            "--methods", metavar="FILE.py", help="Python file that registers your methods."
        ),
    ] = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Run a table or figure of the paper and compare the numbers with the paper's."""
    from peerclust import baselines, paper
    from peerclust.cli import options
    from peerclust.kernels import threads
    from peerclust.report import terminal
    from peerclust.validation import check_name

    if show_list:
        listed = [paper.get(each) for each in paper.NAMES]
        if as_json:
            print_json({each.name: each.title for each in listed})
        else:
            rows = [(each.name, each.title, each.runs, each.needs) for each in listed]
            terminal.show(terminal.experiments_table(rows))
        return
    if not name:
        raise ParameterError("`NAME` of reproduce is required; --list shows the names.")
    if name == "all" and data is not None:
        raise ParameterError(f"`--data` of reproduce must be left out with all. Got {data!r}.")
    check_name(name, (*paper.NAMES, "all"), "NAME", "reproduce")
    chosen = paper.NAMES if name == "all" else (name,)
    with REPRODUCE.naming():
        for file in own:
            baselines.load(file)
    results, left_out = [], []
    for each in chosen:
        with terminal.job_progress(each, quiet=as_json) as progress:
            try:
                with REPRODUCE.naming():
                    result = paper.run(
                        each,
                        out=out,
                        runs=runs,
                        seed=seed,
                        quick=quick,
                        data_dir=data_dir,
                        data=options.split_names(data) or (),
                        workers=workers or threads.cores(),
                        progress=progress,
                    )
            except DataError as error:
                if name != "all":
                    raise
                left_out.append(f"{each} was skipped. {error}")
                continue
            except KeyboardInterrupt:
                where = exit_codes.where("interrupted")
                echo(f"Interrupted; run the same command again to resume. ({where})", err=True)
                raise typer.Exit(exit_codes.INTERRUPTED) from None
        results.append(result)
        if not as_json:
            terminal.show(result.page, f"Written to {result.directory}.\n")
    for sentence in left_out:
        print_progress(sentence, as_json)
    if as_json:
        print_json({"results": [each.as_dict() for each in results], "left_out": left_out})
    if left_out:
        raise typer.Exit(1)
