"""The commands that show and measure: demo and reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from peerclust.cli.app import Json, Seed, app, in_options, print_json, tell
from peerclust.errors import DataError, ParameterError


@app.command()
def demo(
    out: Annotated[Path, typer.Option(metavar="FILE.png", help="File for the demo_report.")] = Path(
        "peerclust-demo.png"
    ),
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Cluster Iris with 20 % outliers, held by five users on a ring, with K-means and Huber."""
    from peerclust.files import new_file
    from peerclust.paper import demo as iris, demo_report
    from peerclust.report import terminal

    if out.suffix.lower() != ".png":
        raise ParameterError(f"`--out` of demo must end in .png. Got {out}.")
    result = iris.run(seed, lambda line: tell(line, as_json))
    with new_file(out) as file:
        demo_report.draw(result, file)
    if as_json:
        print_json({"seed": seed, **result.as_dict(), "picture": str(out)})
    else:
        terminal.show(demo_report.demo_table(result.outcomes), result.sentence, f"Picture: {out}")


@app.command()
def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="table-1 to 7, figure-2 to 9, splits, cifar-classes, rivals, or all.",
        ),
    ] = "",
    show_list: Annotated[
        bool, typer.Option("--list", help="List the experiments and exit.")
    ] = False,
    runs: Annotated[
        int | None, typer.Option(min=1, help="Runs per cell; each experiment has its own default.")
    ] = None,
    seed: Seed = 0,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Results go to DIR/NAME; an earlier run resumes.")
    ] = Path("reproduction"),
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory of MNIST and CIFAR-10; without it, OpenML."),
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
        int | None, typer.Option(min=1, help="Number of processes; by default one per core.")
    ] = None,
    own: Annotated[
        list[Path],
        typer.Option("--methods", metavar="FILE.py", help="Python file that registers methods."),
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
        raise ParameterError("`NAME` of reproduce must be given; --list shows them all.")
    if name == "all" and data is not None:
        raise ParameterError(f"`--data` of reproduce must be left out with all. Got {data!r}.")
    check_name(name, (*paper.NAMES, "all"), "NAME", "reproduce")
    chosen = paper.NAMES if name == "all" else (name,)
    for file in own:
        baselines.load(file)
    results, left_out = [], []
    for each in chosen:
        with terminal.job_progress(each, quiet=as_json) as progress:
            try:
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
                left_out.append(f"{each} was left out. {in_options(str(error))}")
                continue
            except KeyboardInterrupt:
                typer.echo("Interrupted; run the same command again to resume.", err=True)
                raise typer.Exit(130) from None
        results.append(result)
        if not as_json:
            terminal.show(result.page, f"Written to {result.directory}.\n")
    for sentence in left_out:
        tell(sentence, as_json)
    if as_json:
        print_json({"results": [each.as_dict() for each in results], "left_out": left_out})
    if left_out:
        raise typer.Exit(1)
