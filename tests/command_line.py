"""The command line in this process and in processes of its own, and a folder of tables to fit."""

import subprocess
import sys

import polars as pl
from typer.testing import CliRunner

import peerclust as pc
from peerclust.cli import app

NAMES = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
SITES = ("bern", "oslo", "rome")
FILES = tuple(f"{name}.csv" for name in SITES)
FIT = ("fit", *FILES, "--clusters", 3, "--out", "out")
FIT_ALL = ("fit", "all.csv", "--users-column", "site", "--clusters", 3, "--out", "out")


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def good(*words):
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result


def process(*words, code="from peerclust.cli import main; main()"):
    return subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )


def write_tables():
    """Write Iris, split over three sites, to the working directory; return their rows."""
    rows, _ = pc.datasets.iris()
    iris = pl.DataFrame(dict(zip(NAMES, rows.T, strict=True)))
    site = pl.Series("site", [SITES[i % 3] for i in range(150)])
    iris.with_columns(site).write_csv("all.csv")
    iris.with_columns(site).write_parquet("all.parquet")
    for name in SITES:
        iris.filter(site == name).write_csv(f"{name}.csv")
    return [rows[i::3] for i in range(3)]
