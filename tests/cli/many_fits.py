"""Run by the ranks of a job: gives each command of a file to the command line, one by one.

What each rank says to each command goes to another file.
"""

import json
import sys
from pathlib import Path

from typer.testing import CliRunner

from peerclust.cli import app


def answer(commands, answers):
    # Not above: pytest, which looks into this file, too, is no job.
    from peerclust.runtimes.mpi import world

    said = []
    for words in json.loads(commands.read_text()):
        result = CliRunner().invoke(app, words)
        said.append(world().allgather((result.exit_code, result.stdout, result.stderr)))
    if world().rank == 0:
        answers.write_text(json.dumps(said))


if __name__ == "__main__":
    answer(*map(Path, sys.argv[1:]))
