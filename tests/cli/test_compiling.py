"""The one line that says that kernels are compiled: real processes, with an empty cache."""

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import peerclust

pytestmark = pytest.mark.slow

LINE = "compiling kernels, once: about 1 s"


@pytest.fixture
def rows(tmp_path):
    """A table on which a fit takes longer than compiling, and the package without its cache."""
    package = Path(peerclust.__file__).parent
    shutil.copytree(
        package, tmp_path / "src" / "peerclust", ignore=shutil.ignore_patterns("__pycache__")
    )
    table = np.random.default_rng(0).normal(size=(400_000, 8))
    pl.DataFrame(table).with_columns(user=pl.int_range(pl.len()) % 4).write_parquet(
        tmp_path / "rows.parquet"
    )
    return tmp_path


def fit_on_terminal(directory, *options):
    """Return the stdout of `fit`, and what it writes to a terminal that is its stderr."""
    ours, theirs = pty.openpty()
    command = ["-c", "from peerclust.cli import main; main()", "fit", "rows.parquet"]
    command += ["--users-column", "user", "--clusters", "8", "--out", "out"]
    command += ["--search", "none", "--rounds", "100"]
    settings = {"NUMBA_CACHE_DIR": str(directory / "cache"), "PEERCLUST_COMPILE": "auto"}
    settings |= {"TERM": "xterm", "PYTHONPATH": str(directory / "src")}
    with (directory / "stdout").open("w") as stdout:
        process = subprocess.Popen(
            [sys.executable, *command, *options],
            cwd=directory, env=os.environ | settings, stdout=stdout, stderr=theirs,
        )  # fmt: skip
    os.close(theirs)
    shown = b""
    while piece := _read(ours):
        shown += piece
    os.close(ours)
    assert process.wait() == 0, shown.decode()
    return (directory / "stdout").read_text(), shown.decode()


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # the process has closed it
        return b""


def test_a_fit_that_compiles_says_so_once_above_its_progress(rows):
    stdout, shown = fit_on_terminal(rows)
    assert shown.count("compiling") == 1
    before, after = shown.split(LINE)
    # The bar is erased before the line, and drawn again below it.
    assert before.endswith("\r\x1b[2K")
    assert after.startswith("\r\nround ")
    assert "compiling" not in stdout
    # The next one finds the kernels.
    _, shown = fit_on_terminal(rows, "--force")
    assert "round " in shown
    assert "compiling" not in shown


def test_the_json_of_a_fit_that_compiles_is_alone_on_stdout(rows):
    stdout, shown = fit_on_terminal(rows, "--json")
    assert json.loads(stdout)["out"] == "out"
    assert shown == f"{LINE}\r\n"
