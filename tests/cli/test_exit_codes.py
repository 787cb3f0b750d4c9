"""One document explains every status and exit code, and what is printed says where."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import peerclust as pc
from peer_runs import make_cluster
from peerclust.cli import exit_codes
from peerclust.clustering.result import Status
from peerclust.clustering.status import joined_late, partitioned
from peerclust.log_events import EVENTS

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "exit-codes.md").read_text()
SOURCE = ROOT / "src" / "peerclust"


def headings(text):
    return re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)


def anchors(text):
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings(text))
    return [heading.replace(" ", "-") for heading in plain]


def named_statuses():
    """Return every name that the source gives a status."""
    text = (SOURCE / "clustering" / "status.py").read_text()
    names = set(re.findall(r'Status\(\s*"([a-z, ]+)"', text))
    names |= set(re.findall(r'name(?:, residual)? = "([a-z, ]+)"', text))
    names |= set(re.findall(r'else "([a-z, ]+)"\n', text))
    return names | {joined_late(3, Status("converged", ""), 2, 3).name, partitioned(["a"], 3).name}


def test_every_status_has_a_heading():
    names = named_statuses()
    assert {"converged", "ran out of rounds", "stopped", "partitioned"} <= names
    for name in names:
        assert exit_codes.where(name).split("#")[1] in anchors(DOCUMENT), name


def test_every_exit_code_is_in_the_table():
    codes = {value for name, value in vars(exit_codes).items() if name.isupper() and name[0] != "_"}
    table = {int(code) for code in re.findall(r"^\| (\d+) \|", DOCUMENT, flags=re.MULTILINE)}
    assert table == codes


def test_every_place_that_is_printed_exists():
    places = []
    for path in (SOURCE / "cli").glob("*.py"):
        places += re.findall(r'where\(["\']([a-z ]+)["\']\)', path.read_text())
        places += re.findall(r'"([a-z ]+)", (?:exit_codes|self\.code)', path.read_text())
    assert {"an error", "asked to end", "interrupted", "a crash", "a check failed"} <= {*places}
    for place in places:
        assert exit_codes.where(place).split("#")[1] in anchors(DOCUMENT), place


def test_events_of_the_log_have_names_of_the_table_and_the_table_is_documented():
    used = set()
    for path in SOURCE.rglob("*.py"):
        used |= set(re.findall(r'LogEvent\(\s*"([a-z-]+)"', path.read_text()))
    assert used <= set(EVENTS)
    documented = dict(re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", DOCUMENT, flags=re.MULTILINE))
    assert documented == EVENTS


def run_python(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True
    )


CRASHES = """
import sys
from peerclust import cli
from peerclust.peers import commands
def crash(*_, **__):
    raise ZeroDivisionError("a bug")
commands.run_site = crash
sys.argv[0] = "peerclust"
cli.main()
"""


def test_a_crash_has_an_exit_code_of_its_own():
    words = ("peer", "run", "--network", "n", "--me", "a", "--data", "d", "--out", "o")
    done = run_python(CRASHES, *words)
    assert done.returncode == exit_codes.CRASH == 70
    *_, last = done.stderr.splitlines()
    assert last == (
        "peerclust crashed: ZeroDivisionError. Please report what is above."
        " (docs/exit-codes.md#a-crash)"
    )


INTERRUPTED = """
import sys
from peerclust import cli
from peerclust.peers import commands
def interrupt(*_, **__):
    raise KeyboardInterrupt
commands.replay = interrupt
cli.main()
"""


def test_ctrl_c_has_an_exit_code_that_is_explained():
    done = run_python(INTERRUPTED, "peer", "replay", "--network", "n", "--site", "a=d=o")
    assert done.returncode == exit_codes.INTERRUPTED == 130
    assert done.stderr == "Interrupted. (docs/exit-codes.md#interrupted)\n"


LOGS = """
import logging, sys
from peerclust import cli
from peerclust.peers import commands
def log(*_, **__):
    logging.getLogger("peerclust").warning("compiling kernels, once: about 1 s")
    raise OSError(28, "No space left on device", "o/lock")
commands.run_site = log
cli.main()
"""


def test_what_the_package_logs_is_json_too():
    words = ("peer", "run", "--network", "n", "--me", "a", "--data", "d", "--out", "o")
    done = run_python(LOGS, *words, "--log-format", "json")
    assert done.returncode == exit_codes.ERROR
    first, second = map(json.loads, done.stderr.splitlines())
    assert first["message"] == "compiling kernels, once: about 1 s"
    assert second["message"].startswith("o/lock cannot be used: No space left on device.")


@pytest.mark.peers
def test_a_run_logs_json_lines_only_and_says_where_its_status_is_explained(tmp_path):
    with make_cluster(tmp_path, 2, pc.graphs.path(2), rho=2.0) as peers:
        peers.start(options=["--log-format", "json"])
        assert peers.wait() == {"p0": 0, "p1": 0}
        lines = [json.loads(line) for line in peers.error("p0").splitlines()]
        assert {line["event"] for line in lines} <= set(EVENTS)
        logged = (peers.out("p0") / "log.jsonl").read_text().splitlines()
        events = [json.loads(line)["event"] for line in logged]
        assert events[-2:] == ["ended", "written"]
        assert [line["event"] for line in lines[-2:]] == ["ended", "written"]
        status, written = (tmp_path / "p0.out").read_text().splitlines()
        assert status.endswith(" (docs/exit-codes.md#converged)")
        assert written == "Written to out-p0."
        modes = {path.stat().st_mode & 0o777 for path in peers.out("p0").iterdir()}
        assert modes == {0o600}


@pytest.mark.peers
@pytest.mark.parametrize("words", [(), ("--json",), ("--log-format", "json")], ids=str)
def test_a_run_does_not_depend_on_whoever_reads_what_it_prints(tmp_path, words):
    with make_cluster(tmp_path, 2, pc.graphs.path(2), rho=2.0) as peers:
        peers.start("p1")
        command = [sys.executable, "-m", "peerclust", "peer", "run", "--network", "network.toml"]
        command += ["--me", "p0", "--data", "p0.csv", "--out", "out-p0", *words]
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        process.stdout.close()
        process.stderr.close()
        assert process.wait(timeout=60) == 0
        assert peers.ended("p0")
        assert peers.wait("p1") == {"p1": 0}
