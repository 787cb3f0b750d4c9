"""The commands that cluster files: fit and predict."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from peerclust.cli import job
from peerclust.cli.app import Files, Force, Json, Seed, app, print_json
from peerclust.errors import ParameterError

_data = partial(typer.Option, rich_help_panel="The rows")
_method = partial(typer.Option, rich_help_panel="The method")
_long = partial(typer.Option, rich_help_panel="Long runs and many machines")


@app.command()
def fit(
    ctx: typer.Context,
    files: Files,
    clusters: Annotated[int, typer.Option(min=1, metavar="K", help="How many clusters.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="A new directory for the result.")],
    users_column: Annotated[
        str | None,
        _data(metavar="COLUMN", help="The column that names the user; else each file is a user."),
    ] = None,
    columns: Annotated[
        str | None, _data(metavar="A,B,C", help="The columns to cluster by; else all others.")
    ] = None,
    weights_column: Annotated[
        str | None, _data(metavar="COLUMN", help="The column of the rows' weights; else 1.")
    ] = None,
    scale: Annotated[
        str,
        _data(help="standard: features in units of their joint deviation; none: as they are."),
    ] = "standard",
    loss: Annotated[str, _method(help="kmeans, huber, logistic or fair.")] = "kmeans",
    delta: Annotated[
        float | None, _method(help="Of huber: rows further away pull no harder (default 1).")
    ] = None,
    eta: Annotated[float | None, _method(help="Of fair (default 1).")] = None,
    distance: Annotated[str, _method(help="euclidean or mahalanobis.")] = "euclidean",
    matrix: Annotated[
        Path | None, _method(metavar="A.csv", help="Of mahalanobis: a matrix without a header.")
    ] = None,
    graph: Annotated[
        str,
        _method(
            metavar="NAME|FILE",
            help="Who talks with whom: ring, path, star, complete, grid, or a file of pairs.",
        ),
    ] = "ring",
    solver: Annotated[
        str,
        _method(help="accelerated, dgc, admm, group-lasso, auto, or exact, which tells sums, too."),
    ] = "accelerated",
    rho: Annotated[
        str,
        _method(
            metavar="auto|X",
            help="The larger, the closer the users' centers; not of admm and exact.",
        ),
    ] = "auto",
    alpha: Annotated[
        str, _method(metavar="auto|paper|X", help="The step of accelerated and dgc.")
    ] = "auto",
    updates: Annotated[
        int, _method(min=1, metavar="B", help="Center updates a round of accelerated and dgc.")
    ] = 1,
    rounds: Annotated[int, _method(min=1, help="At most so many rounds.")] = 1000,
    tol: Annotated[float, _method(help="Stop once every residual is below this.")] = 1e-6,
    init: Annotated[str, _method(help="k-means++, k-means++-local or random.")] = "k-means++",
    starts: Annotated[int, _method(min=1, help="How many starts; the best is kept.")] = 1,
    exchange: Annotated[
        str,
        _method(help="How numbers travel: float64, float32, float16 or 8-bit; exact: float64."),
    ] = "float64",
    certify: Annotated[
        str, _method(help="Who finds the certificate: onlooker, or users by agreements.")
    ] = "central",
    seed: Seed = 0,
    runtime: Annotated[
        str, _long(help="simulator, loopback or mpi, for a job that mpiexec has started.")
    ] = "simulator",
    per_rank: Annotated[
        bool, _long("--per-rank", help="Of mpi: each rank writes its own users' result.")
    ] = False,
    checkpoint: Annotated[
        Path | None, _long(metavar="DIR", help="A directory in which to keep where the run is.")
    ] = None,
    checkpoint_every: Annotated[
        int | None, _long(min=1, metavar="N", help="After every so many rounds (default 100).")
    ] = None,
    resume: Annotated[
        bool, _long("--resume", help="Go on from the checkpoint, if there is one.")
    ] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Write trace.csv, a row a round.")] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Cluster the rows of files; write centers, labels and a certificate to a directory."""
    from peerclust import tables
    from peerclust.cli import options
    from peerclust.clustering.cluster import cluster
    from peerclust.ranks.group import run_on_root
    from peerclust.report import result_directory, terminal

    def parse() -> dict[str, Any]:
        result_directory.check_directory(out, force=force)
        options.check_per_rank(per_rank, runtime)
        return {
            "loss": options.make_loss(loss, delta=delta, eta=eta),
            "distance": options.make_distance(distance, matrix),
            "scale": options.parse_scale(scale),
            "rho": options.parse_number("--rho", rho, "auto"),
            "alpha": options.parse_number("--alpha", alpha, "auto", "paper"),
            "checkpoint": options.make_checkpoint(
                checkpoint, every=checkpoint_every, resume=resume, out=out
            ),
        }

    with job.together(runtime) as group:
        job.check_same_options(group, ctx.params)
        given = run_on_root(group, parse)
        if per_rank:
            result_directory.check_shared(out, group)
        table, network = tables.read_own(
            files,
            columns=options.split_names(columns),
            users_column=users_column,
            weights_column=weights_column,
            make_graph=partial(options.make_graph, graph),
            group=group,
        )
        result_directory.check_features(table)
        with terminal.progress(rounds, quiet=as_json or group.rank > 0) as progress:
            solution = cluster(
                **options.give_rows(table, group),
                n_clusters=clusters,
                graph=network,
                B=updates,
                rounds=rounds,
                tol=tol,
                init=init,
                n_init=starts,
                solver=solver,
                exchange=exchange,
                certify=certify,
                runtime=runtime,
                random_state=seed,
                trace=trace,
                progress=progress,
                gather=False,
                **given,
            )
        record = result_directory.describe(solution, table, settings=ctx.params, group=group)
        result_directory.write(
            out, solution, table, record, group=group, per_rank=per_rank, force=force
        )
        if group.rank > 0:
            return
    if as_json:
        print_json(record | {"out": str(out)})
    else:
        terminal.show(
            terminal.clusters_table(solution, table.features, record["cluster_sizes"]),
            terminal.solution_table(solution, len(table.names)),
            f"Written to {out}.",
            # To a rank stdout is a terminal even if mpiexec writes it to a file.
            plain=group.size > 1,
        )


@app.command()
def predict(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="What fit has written.")],
    files: Files,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="A .csv or .parquet file for the labels.")
    ],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Label the rows of files by the joint centers that fit has found."""
    from peerclust import tables
    from peerclust.files import new_file
    from peerclust.report import result_directory, terminal

    tables.check_suffix(out)
    if out.exists() and not force:
        raise ParameterError(f"`--out` of predict must be a new file, unless --force. Got {out}.")
    solution, features = result_directory.read(directory)
    table = tables.read(files, columns=features)
    label, score = solution.predict(table.rows), solution.outlier_scores(table.rows)
    with new_file(out) as file:
        tables.write(file, table.origins() | {"label": label, "outlier_score": score})
    sizes = result_directory.count(label, len(solution.consensus))
    if as_json:
        print_json({"out": str(out), "rows": len(label), "cluster_sizes": sizes})
    else:
        terminal.show(
            terminal.clusters_table(solution, tuple(features), sizes),
            f"{len(label)} rows written to {out}.",
        )
