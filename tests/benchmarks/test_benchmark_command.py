"""`python -m benchmarks`: measures and targets, the table, JSON, exit codes, and errors."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import benchmarks
from benchmarks.__main__ import main
from benchmarks.measures import Measure, Report
from peerclust.errors import DataError, ParameterError
from peerclust.report.machine import Machine

MACHINE = Machine("abacus", 2, "3.11", {"numpy": "2"})
FAST = Measure("time", 1.0, "seconds per second", at_most=2)
SLOW = Measure("time", 3.0, "seconds per second", at_most=2)


@pytest.fixture
def calls(monkeypatch):
    """Replace the benchmarks; `calls.measures` are their results, `calls.options` what they got."""

    class Calls:
        measures, options = [], []

    def run(name, progress, **options):
        progress("measuring")
        Calls.options.append(options)
        return Report(name, MACHINE, list(Calls.measures))

    monkeypatch.setattr(benchmarks, "run", run)
    return Calls


@pytest.mark.parametrize(
    ("value", "target", "holds"),
    [
        (2.0, {}, True),
        (2.0, {"at_most": 2}, True),
        (2.1, {"at_most": 2}, False),
        (2.0, {"at_least": 2}, True),
        (1.9, {"at_least": 2}, False),
        ("not reached", {}, True),
        ("not reached", {"at_most": 3}, False),
        ("not reached", {"at_least": 3}, False),
    ],
)
def test_a_number_meets_its_target_and_a_text_meets_none(value, target, holds):
    assert Measure("some", value, "", **target).holds is holds


def test_measures_are_printed_as_a_table(calls, capsys):
    calls.measures[:] = [FAST]
    assert main(["core"]) == 0
    out, err = capsys.readouterr()
    assert "core, on 2 cores (abacus)" in out
    assert "at most 2: seconds per second" in out
    assert err == "measuring\n"


def test_json_is_one_object_and_a_missed_target_is_exit_code_1(calls, capsys):
    calls.measures[:] = [FAST, SLOW]
    assert main(["core", "--json"]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    found = json.loads(out)
    assert (found["name"], found["machine"]["cores"]) == ("core", 2)
    assert [measure["holds"] for measure in found["measures"]] == [True, False]
    assert found["measures"][0] == {
        "name": "time", "value": 1.0, "target": 2, "holds": True,
        "detail": "at most 2: seconds per second",
    }  # fmt: skip


def test_only_the_options_that_are_given_are_passed_on(calls):
    main(["mpi"])
    main(["mpi", "--latency", "1e-6", "--out", "a.png"])
    main(["rounds", "--data-dir", "data", "--json"])
    assert calls.options == [
        {}, {"latency": 1e-6, "out": Path("a.png")}, {"data_dir": Path("data")}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["outlier"], "Got 'outlier'. Did you mean 'outliers'?"),
        (["core", "--out", "a.png"], "`--out` of benchmarks must be omitted for core"),
        (["rounds", "--latency", "1"], "accepts only data_dir, out. Got 1.0."),
        (["mpi", "--latncy", "1"], "`--latncy` is not an option of"),
        (["mpi", "--latncy", "1"], "Did you mean '--latency'?"),
        (["mpi", "--latency", "fast"], "must be a number. Got 'fast'."),
        (["mpi", "--latency", "0"], "`--latency` of benchmarks must be a number > 0. Got 0.0."),
        (["rounds", "--data-dir", "no/such"], "`--data-dir` of mnist must be a folder."),
        ([], "NAME"),
    ],
)
def test_a_wrong_command_is_one_sentence_and_exit_code_2(words, sentence, capsys, tmp_path):
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "options", "error", "sentence"),
    [
        *(
            (name, {"out": out}, ParameterError, sentence)
            for name in ("rounds", "solvers", "choices", "mpi")
            for out, sentence in (
                ("a.jpg", "must end in .png. Got a.jpg"),
                ("no/such/folder/a.png", "must be in a folder that exists"),
            )
        ),
        ("rounds", {"data_dir": "no/such"}, DataError, "must be a folder. Got no/such"),
        ("core", {"rows": 3}, ParameterError, "must be omitted for core, which accepts no options"),
        ("mpi", {"rows": 100}, ParameterError, "`rows` of benchmarks must be"),
        (
            "mpi",
            {"bandwidth": 0.0},
            ParameterError,
            "`bandwidth` of benchmarks must be a number > 0",
        ),
        ("peers", {"rounds": 1}, ParameterError, "`rounds` of benchmarks must be"),
    ],
)
def test_wrong_options_end_a_benchmark_before_it_measures(name, options, error, sentence):
    lines = []
    with pytest.raises(error, match=sentence):
        benchmarks.run(name, lines.append, **options)
    assert lines == []


def test_the_command_runs_from_the_root_and_its_help_names_every_benchmark():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--help"],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("usage: python -m benchmarks NAME [options]")
    for word in (*benchmarks.BENCHMARKS, "--json", "--data-dir", "--out", "--latency", "exit code"):
        assert word in done.stdout
