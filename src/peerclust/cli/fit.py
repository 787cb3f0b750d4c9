"""The commands that cluster files: fit and predict."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from peerclust.cli import mpi_job
from peerclust.cli.app import (
    Clusters,
    Decimal,
    Delimiter,
    Files,
    Force,
    Json,
    Seed,
    app,
    print_json,
)
from peerclust.cli.help import option
from peerclust.doors import FIT
from peerclust.errors import ParameterError


@app.command()
def fit(
    ctx: typer.Context,
    files: Files,
    clusters: Clusters,
    out: Annotated[Path, typer.Option(metavar="DIR", help="New directory for the result.")],
    users_column: Annotated[str | None, option("users_column", metavar="COLUMN")] = None,
    columns: Annotated[str | None, option("columns", metavar="A,B,C")] = None,
    weights_column: Annotated[str | None, option("weights_column", metavar="COLUMN")] = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    scale: Annotated[str, option("scale")] = "standard",
    loss: Annotated[str, option("loss")] = "kmeans",
    delta: Annotated[str | None, option("delta", metavar="auto|X")] = None,
    eta: Annotated[float | None, option("eta")] = None,
    distance: Annotated[str, option("distance")] = "euclidean",
    matrix: Annotated[Path | None, option("matrix", metavar="A.csv")] = None,
    graph: Annotated[str, option("graph", metavar="NAME|FILE")] = "auto",
    solver: Annotated[str, option("solver")] = "auto",
    rho: Annotated[str, option("rho", metavar="auto|X")] = "auto",
    alpha: Annotated[str, option("alpha", metavar="auto|paper|X")] = "auto",
    updates: Annotated[int, option("updates", min=1, metavar="B")] = 1,
    rounds: Annotated[int, option("rounds", min=1)] = 1000,
    tol: Annotated[float, option("tol")] = 1e-6,
    init: Annotated[str, option("init")] = "k-means++",
    starts: Annotated[str, option("starts", metavar="auto|N")] = "auto",
    search: Annotated[str, option("search")] = "auto",
    exchange: Annotated[str, option("exchange")] = "float64",
    seed: Seed = 0,
    runtime: Annotated[str, option("runtime")] = "simulator",
    per_rank: Annotated[bool, option("per_rank", "--per-rank")] = False,
    checkpoint: Annotated[Path | None, option("checkpoint", metavar="DIR")] = None,
    checkpoint_every: Annotated[
        int | None, option("rounds_between_checkpoints", min=1, metavar="N")
    ] = None,
    resume: Annotated[bool, option("resume", "--resume")] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Write trace.csv: one row per round.")
    ] = False,
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
        options.check_start(init)
        return {
            "csv": options.parse_csv(delimiter, decimal, "fit"),
            "loss": options.make_loss(loss, delta=delta, eta=eta),
            "n_init": options.parse_starts(starts),
            "distance": options.make_distance(distance, matrix),
            "rho": options.parse_number("--rho", rho, "auto"),
            "alpha": options.parse_number("--alpha", alpha, "auto", "paper"),
            "checkpoint": options.make_checkpoint(
                checkpoint, every=checkpoint_every, resume=resume, out=out
            ),
        }

    with mpi_job.process_group(runtime) as group, FIT.naming():
        mpi_job.check_same_options(group, ctx.params)
        parsed = run_on_root(group, parse)
        if per_rank:
            result_directory.check_shared(out, group)
        table, network = tables.read_own(
            files,
            columns=options.split_names(columns),
            users_column=users_column,
            weights_column=weights_column,
            csv=parsed.pop("csv"),
            make_graph=partial(options.make_graph, graph),
            group=group,
        )
        result_directory.check_features(table)
        given = FIT.arguments(ctx.params) | parsed | options.cluster_input(table, group)
        given |= {"graph": network, "progress": not as_json, "gather": False}
        solution = cluster(**given)
        status, names = solution.status.renamed(FIT), tuple(table.features)
        solution = replace(solution, status=status, feature_names=names)
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
            *table.describe_dialects(),
            f"Written to {out}.",
            # On a rank, stdout looks like a terminal even if mpiexec redirects it to a file.
            plain=group.size > 1,
        )


@app.command()
def predict(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Result directory of fit.")],
    files: Files,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="File for the labels, .csv or .parquet.")
    ],
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Label the rows of files by the joint centers of an earlier fit."""
    from peerclust import tables
    from peerclust.cli import options
    from peerclust.files import new_file
    from peerclust.report import result_directory, terminal

    tables.check_suffix(out)
    if out.exists() and not force:
        raise ParameterError(
            f"`--out` of predict must be a new file, unless --force is given. Got {out}."
        )
    csv = options.parse_csv(delimiter, decimal, "predict")
    solution, features = result_directory.read(directory)
    table = tables.read(files, columns=features, csv=csv)
    label, score = solution.predict(table.rows), solution.outlier_scores(table.rows)
    with new_file(out) as file:
        tables.write(file, table.origins() | {"label": label, "outlier_score": score})
    sizes = result_directory.count(label, len(solution.consensus))
    if as_json:
        print_json({"out": str(out), "rows": len(label), "cluster_sizes": sizes})
    else:
        terminal.show(
            terminal.clusters_table(solution, tuple(features), sizes),
            *table.describe_dialects(),
            f"{len(label)} rows written to {out}.",
        )
