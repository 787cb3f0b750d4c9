"""What `peerclust peer check` and `peer status` print; what a check finds is in `peers.check`."""

import json
import os
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from peerclust.cli import app
from peerclust.runtimes.network import contract_file


def run(*words):
    return CliRunner().invoke(app, ["peer", *map(str, words)])


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Work in the folder of a site whose only neighbor is absent; return the words of a check."""
    monkeypatch.chdir(tmp_path)
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        ports = [each.getsockname()[1] for each in (one, two)]
    words = []
    for name, port in zip(("bern", "oslo"), ports, strict=True):
        assert run("keygen", name).exit_code == 0
        words += ["--peer", f"{name}=127.0.0.1:{port}={name}.crt"]
    assert run("init", *words, "--features", "x", "--clusters", 1).exit_code == 0
    Path("rows.csv").write_text("x\n" + "1\n" * 9)
    named = ("--network", "network.toml", "--me", "bern", "--data", "rows.csv")
    return ("check", *named, "--seconds", 0.2)


def test_check_prints_one_line_per_check_and_waits_on_stderr(site):
    result = run(*site)
    assert result.exit_code == 1
    assert result.stderr == "waiting for oslo\n"
    *lines, last = result.stdout.splitlines()
    marks = [line.split()[0] for line in lines if line[:1].strip()]
    assert marks == ["good"] * 6 + ["note", "BAD"]
    assert last == "1 check failed. (docs/exit-codes.md#a-check-failed)"
    assert "Connection refused" in result.stdout
    digest = contract_file.read(Path("network.toml")).digest.hex()
    assert digest in "".join(line[20:] for line in result.stdout.splitlines()).replace(" ", "")


def test_check_has_a_json_form(site):
    result = run(*site, "--json")
    assert (result.exit_code, result.stderr) == (1, "")
    found = json.loads(result.stdout)
    assert found["ready"] is False
    lines = found["checks"]
    assert [*lines[0]] == ["name", "ok", "detail", "warns"]
    names = ["network file", "key", "certificate", "clock", "port", "data", "ranges", "oslo"]
    assert [line["name"] for line in lines] == names
    assert [line["ok"] for line in lines] == [True] * 7 + [False]


def test_check_reads_the_table_with_the_signs_it_is_given(site):
    Path("rows.csv").write_text("x;y\n" + "1,5;2\n" * 9)

    def check_data(*words):
        lines = json.loads(run(*site, *words, "--json").stdout)["checks"]
        return next((line["ok"], line["detail"]) for line in lines if line["name"] == "data")

    signs = "(read with ';' as delimiter and ',' as decimal sign)"
    good = (True, f"rows.csv {signs}, 9 rows of finite numbers in x")
    assert check_data() == check_data("--delimiter", "semicolon", "--decimal", ",") == good
    assert check_data("--decimal", "point") == (
        False,
        "Column 'x' of rows.csv (read with ';' as delimiter and '.' as decimal sign) must be"
        " numbers. Got '1,5' in row 0; if ',' is the decimal sign, give --decimal comma.",
    )
    assert run(*site, "--delimiter", "colon").exit_code == 2


def test_check_rejects_invalid_addresses(site):
    result = run(*site, "--listen", "here")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "host:port" in result.stderr
    assert run(*site, "--dial", "oslo").exit_code == 2


def test_status_of_a_run_that_has_ended_says_so(tmp_path):
    said = run("status", tmp_path / "nowhere")
    assert said.exit_code == 2
    assert said.stderr.startswith(f"There is no directory {tmp_path / 'nowhere'}. (docs/")
    said = run("status", tmp_path)
    assert said.exit_code == 2
    assert said.stderr == f"No peer is running in {tmp_path}. (docs/exit-codes.md#an-error)\n"
    (tmp_path / "checkpoint").touch()
    said = run("status", tmp_path)
    assert said.exit_code == 2
    assert "There is a checkpoint: the same command resumes from it." in said.stderr
    status = {"name": "ran out of rounds", "advice": "allow more."}
    (tmp_path / "certificate.json").write_text(json.dumps({"status": status}))
    said = run("status", tmp_path)
    assert (said.exit_code, said.stdout) == (
        0,
        f"The run in {tmp_path} has ended. ran out of rounds: allow more."
        " (docs/exit-codes.md#ran-out-of-rounds)\n",
    )
    said = run("status", tmp_path, "--json")
    assert said.exit_code == 0
    assert json.loads(said.stdout) == {"phase": "ended", "status": status, "out": str(tmp_path)}


def test_a_socket_of_another_user_is_not_asked(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "status.sock"))
        other.listen()
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        said = run("status", tmp_path)
    assert said.exit_code == 2
    assert said.stderr.startswith(f"No peer is running in {tmp_path}. (docs/")


@pytest.mark.parametrize(
    "words",
    [
        ("check", "--network", "network.toml", "--me", "bern", "--data", "rows.csv", "--dial", "x"),
        ("status", "nowhere"),
        ("replay", "--network", "nowhere.toml", "--site", "bern=rows.csv=out"),
    ],
    ids=lambda words: words[0],
)
def test_errors_of_other_commands_say_where_to_read_too(site, words):
    said = run(*words)
    assert said.exit_code == 2
    assert len(said.stderr.splitlines()) == 1
    assert said.stderr.endswith(" (docs/exit-codes.md#an-error)\n")


def test_errors_of_a_run_say_where_to_read_and_may_be_json(site):
    words = ("run", *site[1:-2], "--out", "out", "--me", "paris")
    said = run(*words)
    assert said.exit_code == 2
    assert "`--me` must be a peer of the network file" in said.stderr
    assert said.stderr.endswith(" (docs/exit-codes.md#an-error)\n")
    said = run(*words, "--log-format", "json")
    line = json.loads(said.stderr)
    assert (line["event"], line["code"]) == ("failed", 2)
    assert "`--me` must be a peer" in line["message"]
    said = run(*words, "--log-format", "xml")
    assert said.exit_code == 2
    assert said.stderr.startswith("`--log-format` of peer run must be text or json. Got 'xml'. (")
