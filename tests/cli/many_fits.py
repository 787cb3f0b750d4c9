"""Run by the ranks of a job: run the commands of one file, one after the other.

What each rank prints for each command is written to another file.
"""

import json
import sys
from pathlib import Path

from typer.testing import CliRunner

from peerclust.cli import app


def answer(commands, answers):
    # Imported here because pytest, which collects this file too, is not an MPI job.
    from peerclust.runtimes.mpi import world

    printed = []
    for words in json.loads(commands.read_text()):
        result = CliRunner().invoke(app, words)
        printed.append(world().allgather((result.exit_code, result.stdout, result.stderr)))
    if world().rank == 0:
        answers.write_text(json.dumps(printed))


if __name__ == "__main__":
    answer(*map(Path, sys.argv[1:]))
