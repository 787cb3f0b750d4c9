"""Run by the ranks of a job: gives each command of a file to the command line, one by one.

What each rank says to each command goes to another file.
"""

import json
import sys
from pathlib import Path

from typer.testing import CliRunner

from peerclust.cli import app
from peerclust.runtimes.mpi import world

commands, answers = map(Path, sys.argv[1:])
said = []
for words in json.loads(commands.read_text()):
    result = CliRunner().invoke(app, words)
    said.append(world().collect((result.exit_code, result.stdout, result.stderr)))
if world().rank == 0:
    answers.write_text(json.dumps(said))
