"""Control characters from outside reach neither a log nor a terminal, by any path."""

import re
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

import peerclust
from hostile_texts import HOSTILE
from peerclust.cli import peer_display
from peerclust.cli.app import app, echo, print_json, print_progress
from peerclust.errors import WireError
from peerclust.peers.check import Line
from peerclust.peers.site_directory import SiteDirectory
from peerclust.report import terminal
from peerclust.runtimes.network import messages
from peerclust.runtimes.network.messages import Bye
from peerclust.text import sanitize


def to_log(text, capsys, tmp_path):
    lines = []
    directory = SiteDirectory(tmp_path / "out", on_log=lines.append)
    directory.log(f"p1 {text}.")
    directory.close()
    return (tmp_path / "out" / "log.txt").read_bytes().decode() + lines[0]


def to_error(text, capsys, tmp_path):
    name = text.replace("\x00", "") + ".csv"  # no argument of a process has a null
    words = ["fit", "--clusters", "2", "--out", str(tmp_path / "out"), name]
    return CliRunner().invoke(app, words).output


def to_progress(text, capsys, tmp_path):
    print_progress(text, quiet=False)
    echo(text)
    return "".join(capsys.readouterr())


def to_json(text, capsys, tmp_path):
    print_json({"advice": text})
    return capsys.readouterr().out


def to_terminal(text, capsys, tmp_path):
    table = Table(text, title=text)
    table.add_row(text)
    table.add_row(Text(text, style="red"))
    terminal.show(table)
    # A line break is one of the terminal's own where text may have several lines.
    return re.sub("\n", "", capsys.readouterr().out)


def to_check(text, capsys, tmp_path):
    terminal.show(peer_display.check_table([Line("p1", False, text), Line(text, True, "")]))
    return capsys.readouterr().out


def to_status(text, capsys, tmp_path):
    link = {
        "counted": True, "connected": True, "refused": text, "seconds_since_heard": 1.0,
        "bytes_sent": 1, "bytes_heard": 1,
    }  # fmt: skip
    answer = {"name": "p0", "phase": "running", "round": 1, "residual": 1.0}
    terminal.show(peer_display.status_table(answer | {"neighbors": {"p1": link}}))
    return capsys.readouterr().out


def to_csv_error(text, capsys, tmp_path):
    data = tmp_path / "a.csv"
    quoted = text.encode(errors="surrogatepass")
    data.write_bytes(b'"' + quoted + b'",b\n1,2\n3,"' + quoted + b'"\n')
    words = ["fit", "--clusters", "2", "--out", str(tmp_path / "out"), str(data)]
    runner = CliRunner()
    return runner.invoke(app, words).output + runner.invoke(app, [*words, "--columns", "c"]).output


PATHS = [
    to_log, to_error, to_progress, to_json, to_terminal, to_check, to_status, to_csv_error,
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.__name__)
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_what_is_shown_is_printable(text, path, capsys, tmp_path):
    shown = path(text, capsys, tmp_path)
    assert shown
    assert all(c.isprintable() or c == "\n" for c in shown), shown


@pytest.mark.parametrize("path", [to_check, to_status], ids=lambda path: path.__name__)
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_what_follows_a_hostile_text_is_not_hidden(text, path, capsys, tmp_path):
    assert "theend" in path(f"{text} theend", capsys, tmp_path)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_line_of_a_log_or_an_error_stays_one_line(text, capsys, tmp_path):
    assert to_error(text, capsys, tmp_path).count("\n") == 1
    assert to_progress(text, capsys, tmp_path).count("\n") == 2
    assert to_log(text, capsys, tmp_path).count("\n") == 1


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_second_line_of_a_check_looks_like_one_of_its_own(text, capsys, tmp_path):
    shown = to_check(f"x{text}\ngood p2", capsys, tmp_path)
    assert not any(line.startswith("good  p2") or line == "good p2" for line in shown.splitlines())


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_sanitized_text_is_a_valid_reason_of_a_message(text):
    bye = Bye("refuses", sanitize(text * 1000))
    assert messages.unpack(messages.pack(bye), Bye) == bye


def test_ordinary_text_is_not_changed():
    for text in ("größe, 名前, возраст", "µm², 5 €", "", "e\u0301", "10 000"):
        assert sanitize(text) == text
    assert sanitize("10\u00a0000\u2009g\u3000x") == "10 000 g x"


def test_errors_about_messages_are_printable():
    for text in HOSTILE.values():
        with pytest.raises(WireError) as error:
            messages.unpack(messages._pack({text.encode("utf-8", "replace").decode(): 1}), Bye)
        assert str(error.value).isprintable()


def test_only_one_place_writes_to_a_terminal_each_way():
    """Whatever else wrote there would not sanitize."""
    folder = Path(peerclust.__file__).parent
    writers = {
        "typer.echo(": {"cli/app.py"},
        " Console(": {"clustering/progress.py"},  # numbers, and names of solvers
    }
    for call, allowed in writers.items():
        found = {
            str(path.relative_to(folder))
            for path in folder.rglob("*.py")
            if call in path.read_text() and "testing" not in path.parts
        }
        assert found == allowed, call
