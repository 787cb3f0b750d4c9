"""The unit and the container file in examples/ name commands and options that there are."""

import configparser
import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from peerclust.cli import app

ROOT = Path(__file__).parents[1]
UNIT = ROOT / "examples" / "peerclust-peer@.service"
CONTAINER = ROOT / "examples" / "Containerfile"


def check_command(words):
    """Assert that peerclust has this command with these options."""
    command = [word for word in words[:2] if not word.startswith("-")]
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    known = set(re.findall(r"--[a-z-]+", result.output))
    options = [word for word in words if word.startswith("--")]
    assert options
    assert set(options) <= known


@pytest.fixture
def unit():
    found = configparser.ConfigParser(strict=False, interpolation=None)
    found.optionxform = str
    found.read_string(UNIT.read_text())
    return found


def test_the_unit_runs_a_command_that_there_is(unit):
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert Path(program).name == "peerclust"
    assert words[:2] == ["peer", "run"]
    check_command(words)
    given = dict(zip(words[2::2], words[3::2], strict=True))
    assert given["--me"] == "%i"
    # What it writes is in the state directory, which is all that it may write to.
    assert given["--out"].startswith(f"%S/{unit['Service']['StateDirectory']}/")


def test_the_unit_is_confined_and_ends_in_good_order(unit):
    service = unit["Service"]
    held = {"NoNewPrivileges": "yes", "ProtectSystem": "strict", "KillSignal": "SIGTERM"}
    held |= {"Restart": "on-failure", "ProtectHome": "yes", "CapabilityBoundingSet": ""}
    assert held.items() <= dict(service).items()
    assert int(service["TimeoutStopSec"]) >= 10
    assert service["User"] != "root"
    assert "certificate.json" in unit["Unit"]["ConditionPathExists"]


def test_the_container_runs_peerclust_as_an_ordinary_user():
    text = CONTAINER.read_text()
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line[:1] not in ("#", "")]
    said = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        said.setdefault(word, []).append(rest)
    assert said["FROM"][0].startswith("python:3.")
    assert json.loads(said["ENTRYPOINT"][0]) == ["peerclust"]
    check_command(json.loads(said["CMD"][0]))
    assert said["USER"] == ["site"]
    for sources in said["COPY"]:
        for source in sources.split()[:-1]:
            assert (ROOT / source).exists()


def test_the_commands_in_the_container_files_comments_are_there():
    comment = " ".join(line.lstrip("# ") for line in CONTAINER.read_text().splitlines())
    words = re.search(r"peerclust \\ (peer run .*?--listen \S+)", comment)[1].split()
    check_command(words)
