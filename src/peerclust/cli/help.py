"""The help texts of the options of fit, predict and the peer commands, by panel.

Where commands differ, the key of the text is not the name of the option.
"""

from __future__ import annotations

from typing import Any

import typer

HELP = {
    "Data": {
        "users_column": "Column with the user's name (default: one file per user).",
        "delimiter": "Delimiter of CSV files: comma, semicolon, tab, pipe, space, or another"
        " character (default: detected in each file).",
        "decimal": "Decimal sign of CSV files: point or comma (default: detected in each file).",
        "columns": "Columns to cluster by (default: all other columns).",
        "weights_column": "Column with the rows' weights (default: every weight is 1).",
        "ranges": "Public range of a feature; repeat for each. Rows outside are an error at their"
        " site (default: all sites learn the smallest and the largest value).",
        "max_weight": "The most rows of a site, or their weight; a site that claims more is"
        " refused.",
        "scale": "standard: features in units of their standard deviation; robust: of their"
        " interquartile range; none: as they are.",
    },
    "Method": {
        "loss": "kmeans, huber, logistic or fair.",
        "delta": "Huber threshold: beyond this distance the loss is linear (default 1; --loss huber"
        " only). auto: about the size of a cluster, from the rows.",
        "eta": "Scale eta of the fair loss (default 1; --loss fair only).",
        "distance": "euclidean or mahalanobis.",
        "matrix": "Matrix of the Mahalanobis distance; CSV without a header.",
        "graph": "Communication graph: auto, ring, path, star, complete, grid, exponential, or a"
        " file of edges. auto: complete up to 16 users, exponential above.",
        "solver": "accelerated, dgc, admm, group-lasso, exact (which sends per-cluster sums), or"
        " auto: exact, or accelerated for options that exact lacks.",
        "peer_solver": "accelerated, dgc, admm, group-lasso, or exact (which sends per-cluster"
        " sums).",
        "rho": "Consensus penalty; larger means users' centers are closer. auto: measured in pilot"
        " runs. Not used by admm and exact.",
        "alpha": "Step size; accelerated and dgc only.",
        "updates": "Center updates per round, each with an exchange; accelerated and dgc only.",
        "rounds": "Maximum number of rounds of a run; the moves of a search are runs, too.",
        "tol": "Stop when every residual is below this.",
        "init": "Initial centers: k-means++, k-means++-local or random.",
        "starts": "Number of starts; the one with the lowest cost is used. auto: 10 for"
        " --init random without a search, else 1.",
        "search": "Move centers to find a better optimum: swaps, none, or auto (swaps if the start"
        " is drawn).",
        "mean_of": "Average this many rows per initial center; 1 reveals single rows.",
        "exchange": "Number format of messages: float64, float32, float16 or 8-bit.",
        "peer_search": "Move centers to find a better optimum: none, or auto (unless --tol is 0).",
        "peer_seed": "Seed of the random numbers that all sites share.",
        "peer_exchange": "Number format of messages: float64, float32 or 8-bit.",
    },
    "Network": {
        "peer_graph": "Communication graph: ring, path, star, complete, grid, exponential or auto,"
        " of the sites in the order of --peer, or a file of edges.",
        "timeout": "Seconds of silence after which a neighbor counts as lost.",
        "join_timeout": "Seconds to wait for all peers to connect.",
        "linger": "Seconds to keep answering late peers after the end of the run.",
        "seconds_between_checkpoints": "Seconds between checkpoints.",
        "on_loss": "If a peer is lost: continue (default of accelerated and dgc) or stop (the only"
        " choice for other solvers).",
        "on_absent": "If a peer does not connect in time: start (without it) or stop.",
    },
    "Long runs and MPI": {
        "runtime": "simulator, loopback, or mpi (in a job started by mpiexec).",
        "per_rank": "With mpi: each rank writes the result of its own users.",
        "checkpoint": "Directory for checkpoints.",
        "rounds_between_checkpoints": "Rounds between checkpoints (default 100).",
        "resume": "Resume from the checkpoint, if there is one.",
    },
}


def option(key: str, *flags: str, **settings: Any) -> Any:
    """Return an option with the help text of a key, and the other settings of `typer.Option`."""
    panel = next(panel for panel, texts in HELP.items() if key in texts)
    return typer.Option(*flags, help=HELP[panel][key], rich_help_panel=panel, **settings)
