"""What all commands share: help, version, missing extras, exit codes."""

import os

import pytest

import peerclust as pc
from command_line import FILES, FIT, good, process, run, write_tables


@pytest.fixture(autouse=True)
def _tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_tables()


@pytest.mark.parametrize(
    "words", [("fit", "bern.csv"), ("fit", *FILES, "--clusters", 0, "--out", "out"), ("cluster",)]
)
def test_wrong_usage_exits_with_2(words):
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize(
    ("package", "words", "sentence"),
    [
        ("matplotlib", ("demo",), "Pictures need matplotlib, which is not installed;"),
        ("polars", FIT, "Tables need polars, which is not installed;"),
    ],
)
def test_a_missing_extra_is_named(package, words, sentence):
    code = f"import sys; sys.modules[{package!r}] = None; from peerclust.cli import main; main()"
    done = process(*map(str, words), code=code)
    assert done.returncode == 2
    assert done.stdout == ""
    extra = {"matplotlib": "plots", "polars": "tables"}[package]
    assert done.stderr == f"{sentence} it comes with the extra `{extra}`.\n"


def test_an_interrupt_while_modules_are_imported_is_one_sentence():
    code = """
import sys
from peerclust.__main__ import main

class Interrupt:
    def find_spec(self, name, *_):
        if name == "peerclust.cli.app":
            sys.meta_path.remove(self)
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
main()
"""
    done = process("--help", code=code)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "Interrupted. (docs/exit-codes.md#interrupted)\n"


@pytest.mark.parametrize(
    "words",
    [(), ("demo",), ("fit",), ("predict",), ("reproduce",), ("warm-up",), ("peer", "init")],
)
def test_help_is_fast(words):
    # CPU time, because other tests run at the same time; the best of up to three attempts counts.
    for _ in range(3):
        before = os.times()
        done = process(*words, "--help")
        after = os.times()
        assert done.returncode == 0
        assert "Usage: peerclust" in done.stdout
        user = after.children_user - before.children_user
        seconds = user + after.children_system - before.children_system
        if seconds < 0.5:
            return
    pytest.fail(f"{seconds:.2f} s of CPU time")


def test_the_command_line_imports_heavy_packages_late():
    code = "import sys, peerclust.cli; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = set(process(code=code).stdout.split())
    heavy = {"numpy", "scipy", "numba", "sklearn", "networkx", "polars", "matplotlib"}
    heavy |= {"cryptography", "msgspec", "websockets"}
    assert "typer" in loaded
    assert not loaded & heavy


def test_the_version_is_printed():
    assert good("--version").stdout == f"peerclust {pc.__version__}\n"
