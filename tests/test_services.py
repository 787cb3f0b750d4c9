"""The unit, container files and jobs in examples/ name commands and options that there are."""

import configparser
import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from peerclust.cli import app

ROOT = Path(__file__).parents[1]
UNIT = ROOT / "examples" / "peerclust-peer@.service"
CONTAINER = ROOT / "examples" / "Containerfile"
MPI_CONTAINER = ROOT / "examples" / "Containerfile.mpi"
MPI_JOB = ROOT / "examples" / "mpijob.yaml"
SLURM = ROOT / "examples" / "slurm.sh"
PROJECT = (ROOT / "pyproject.toml").read_text()


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


def read_container(path):
    """Return what each instruction of a container file says, checked as far as both are alike."""
    text = path.read_text()
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line[:1] not in ("#", "")]
    said = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        said.setdefault(word, []).append(rest)
    assert said["FROM"][0].startswith("python:3.")
    for sources in said["COPY"]:
        for source in sources.split()[:-1]:
            assert (ROOT / source).exists()
    extras = re.search(r"/source\[([a-z,]+)\]", text)[1].split(",")
    assert all(re.search(rf"^{extra} = \[", PROJECT, re.MULTILINE) for extra in extras)
    return said


def test_the_container_runs_peerclust_as_an_ordinary_user():
    said = read_container(CONTAINER)
    assert json.loads(said["ENTRYPOINT"][0]) == ["peerclust"]
    check_command(json.loads(said["CMD"][0]))
    assert said["USER"] == ["site"]


@pytest.mark.parametrize(
    ("path", "command"),
    [
        (CONTAINER, r"peerclust \\ (peer run .*?--listen \S+)"),
        (MPI_CONTAINER, r"mpiexec -n 4 peerclust (fit .*?--out \S+)"),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_the_commands_in_the_container_files_comments_are_there(path, command):
    comment = " ".join(line.lstrip("# ") for line in path.read_text().splitlines())
    check_command(re.search(command, comment)[1].split())


def test_ranks_in_containers_are_started_by_an_ordinary_user_over_ssh():
    said = read_container(MPI_CONTAINER)
    assert said["USER"] == ["rank"]
    server, *options = json.loads(said["CMD"][0])
    assert server == "/usr/sbin/sshd"
    assert "PasswordAuthentication no" in MPI_CONTAINER.read_text()
    # The same server, account, key and port in the job.
    job = MPI_JOB.read_text()
    assert f"args: {json.dumps(options)}" in job
    assert set(re.findall(r"runAsUser: (\d+)", job)) == set(
        re.findall(r"useradd --uid (\d+)", said["RUN"][0])
    )
    assert re.search(r"sshAuthMountPath: (\S+)", job)[1] == "/home/rank/.ssh"
    assert "HostKey /home/rank/.ssh/id_rsa" in MPI_CONTAINER.read_text()
    assert f"port: {re.search(r'Port ([0-9]+)', MPI_CONTAINER.read_text())[1]}" in job


def test_the_job_on_kubernetes_fills_its_workers_with_ranks_of_a_command_that_there_is():
    text = MPI_JOB.read_text()
    assert "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\n" in text
    # There is no YAML parser among the dependencies; this is what goes wrong by hand.
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        assert indent % 2 == 0
        assert "\t" not in line
        assert line == line.rstrip()
    command = re.search(r"mpiexec .*?--out result", " ".join(text.split()))[0].split()
    slots, workers = (
        int(re.search(rf"{n}: (\d+)", text)[1]) for n in ("slotsPerWorker", "Worker:\\s+replicas")
    )
    assert int(command[command.index("-n") + 1]) == slots * workers
    assert command[command.index("--hostfile") + 1] == "/etc/mpi/hostfile"
    words = command[command.index("peerclust") + 1 :]
    assert words[:3] == ["fit", "--runtime", "mpi"]
    assert "--resume" in words
    check_command(words)
    # Whatever is mounted is a volume of the same pod.
    for pod in text.split("template:")[1:]:
        mounts, volumes = pod.split("volumes:")
        for name in re.findall(r"- name: (\w+)\n\s+mountPath", mounts):
            assert f"- name: {name}\n" in volumes


def run_slurm_script(home):
    """Run the script as a job of two ranks, with an mpiexec that says what it was called with."""
    commands = home / "commands"
    commands.mkdir(exist_ok=True)
    for name, does in (("mpiexec", 'printf "%s\\n" "$PEERCLUST_THREADS" "$@"'), ("module", "")):
        (commands / name).write_text(f"#!/bin/sh\n{does}\n")
        (commands / name).chmod(0o755)
    job = {"SLURM_NTASKS": "2", "SLURM_CPUS_PER_TASK": "1", "SLURM_JOB_NAME": "trial"}
    environment = job | {"HOME": str(home), "PATH": f"{commands}:{os.environ['PATH']}"}
    run = subprocess.run(
        ["bash", SLURM], env=environment, capture_output=True, text=True, check=True
    )
    return run.stdout.splitlines()


def test_the_slurm_script_starts_ranks_of_a_command_that_there_is_and_may_be_run_again(tmp_path):
    (tmp_path / "rows").mkdir()
    for name in ("oslo", "rome"):
        (tmp_path / "rows" / f"{name}.parquet").touch()
    (tmp_path / "peerclust" / "bin").mkdir(parents=True)
    (tmp_path / "peerclust" / "bin" / "activate").touch()
    threads, *words = run_slurm_script(tmp_path)
    assert threads == "1"
    assert words[:6] == ["-n", "2", "peerclust", "fit", "--runtime", "mpi"]
    assert "--resume" in words
    files = [Path(word).stem for word in words if word.endswith(".parquet")]
    assert files == ["oslo", "rome"]
    check_command(words[3:])
    out = Path(words[words.index("--out") + 1])
    out.mkdir()
    (out / "certificate.json").touch()
    assert run_slurm_script(tmp_path) == [f"{out} is there."]


def test_slurm_reads_its_options_before_the_first_command():
    lines = SLURM.read_text().splitlines()
    assert lines[0] == "#!/bin/bash"
    options = [i for i, line in enumerate(lines) if line.startswith("#SBATCH ")]
    first = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
    assert options[-1] < first
    assert {"#SBATCH --requeue", "#SBATCH --open-mode=append"} <= {lines[i] for i in options}
