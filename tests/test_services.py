"""The unit, container files and jobs in examples/ use commands and options that exist."""

import configparser
import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from peerclust.cli import app, exit_codes

ROOT = Path(__file__).parents[1]
UNIT = ROOT / "examples" / "peerclust-peer@.service"
SERVE_UNIT = ROOT / "examples" / "peerclust-serve@.service"
CONTAINER = ROOT / "examples" / "Containerfile"
MPI_CONTAINER = ROOT / "examples" / "Containerfile.mpi"
MPI_JOB = ROOT / "examples" / "mpijob.yaml"
SLURM = ROOT / "examples" / "slurm.sh"
PROJECT = (ROOT / "pyproject.toml").read_text()


def check_command(arguments):
    """Assert that peerclust has this command with these options."""
    command = [word for word in arguments[:2] if not word.startswith("-")]
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    known = set(re.findall(r"--[a-z-]+", result.output))
    options = [word for word in arguments if word.startswith("--")]
    assert options
    assert set(options) <= known


def read_unit(path):
    found = configparser.ConfigParser(strict=False, interpolation=None)
    found.optionxform = str
    found.read_string(path.read_text())
    return found


@pytest.fixture
def unit():
    return read_unit(UNIT)


@pytest.fixture
def serve_unit():
    return read_unit(SERVE_UNIT)


def test_the_unit_runs_a_command_that_exists(unit):
    program, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert Path(program).name == "peerclust"
    assert arguments[:2] == ["peer", "run"]
    check_command(arguments)
    given = dict(zip(arguments[2::2], arguments[3::2], strict=True))
    assert given["--me"] == "%i"
    # It writes only to the state directory, the only one that it may write to.
    assert given["--out"].startswith(f"%S/{unit['Service']['StateDirectory']}/")


def test_the_unit_compiles_into_a_directory_that_it_may_write_to(unit):
    service = unit["Service"]
    # With "-" the peer starts even if the kernels could not be compiled.
    program = shlex.split(service["ExecStart"])[0]
    assert service["ExecStartPre"] == f"-{program} warm-up"
    assert int(service["TimeoutStartSec"]) >= 300
    assert service["Environment"] == f"NUMBA_CACHE_DIR=%C/{service['CacheDirectory']}"


@pytest.mark.parametrize("path", [CONTAINER, MPI_CONTAINER], ids=lambda each: each.name)
def test_images_have_compiled_kernels_beside_the_package(path):
    instructions = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    text = "\n".join(instructions)
    # Before the cache is elsewhere; there it begins with what the image has.
    assert text.index("peerclust warm-up") < text.index("ENV NUMBA_CACHE_DIR=")


def test_the_unit_is_confined_and_stops_cleanly(unit):
    service = unit["Service"]
    required = {"NoNewPrivileges": "yes", "ProtectSystem": "strict", "KillSignal": "SIGTERM"}
    required |= {"Restart": "on-failure", "ProtectHome": "yes", "CapabilityBoundingSet": ""}
    assert required.items() <= dict(service).items()
    assert int(service["TimeoutStopSec"]) >= 10
    assert service["User"] != "root"
    assert "certificate.json" in unit["Unit"]["ConditionPathExists"]


def test_the_unit_restarts_a_peer_that_crashed_but_not_one_that_has_a_result(unit):
    service = unit["Service"]
    assert service["RestartPreventExitStatus"].split() == [str(exit_codes.NOT_CONVERGED)]
    assert service["SuccessExitStatus"].split() == [str(exit_codes.LEFT)]
    assert exit_codes.CRASH not in (exit_codes.NOT_CONVERGED, exit_codes.LEFT)


def test_the_result_of_the_unit_is_served_by_another_unit(unit, serve_unit):
    assert unit["Unit"]["OnSuccess"] == SERVE_UNIT.name.replace("@", "@%i")
    program, *arguments = shlex.split(serve_unit["Service"]["ExecStart"])
    assert arguments[:2] == ["peer", "serve"]
    check_command(arguments)
    given = dict(zip(arguments[2::2], arguments[3::2], strict=True))
    # The same installation, network file, name and result directory.
    peer_program, *others = shlex.split(unit["Service"]["ExecStart"])
    run = dict(zip(others[2::2], others[3::2], strict=True))
    assert program == peer_program
    assert given.items() <= run.items()
    assert serve_unit["Unit"]["ConditionPathExists"] == f"{given['--out']}/record"


def test_the_unit_that_serves_is_confined_and_restarts_unless_it_was_asked_to_end(unit, serve_unit):
    serves, runs = dict(serve_unit["Service"]), dict(unit["Service"])
    only_runs = {"ExecStartPre", "TimeoutStartSec", "CacheDirectory", "Environment"}
    only_runs |= {"SuccessExitStatus"}
    own = {name: serves[name] for name in ("ExecStart", "RestartPreventExitStatus")}
    # Exit code 0 is the answer to SIGTERM, and no failure.
    assert {**runs, **own} == serves | {name: runs[name] for name in only_runs}
    assert serves["Restart"] == "on-failure"


def test_the_unit_that_serves_does_not_start_again_after_an_error(serve_unit):
    # Such as a record that too few have signed, after a run with exit code 1.
    assert serve_unit["Service"]["RestartPreventExitStatus"].split() == [str(exit_codes.ERROR)]


def test_a_unit_that_waits_for_others_does_not_reach_its_start_limit(unit):
    limit, burst = (int(unit["Unit"][f"StartLimit{name}"]) for name in ("IntervalSec", "Burst"))
    docs = (ROOT / "docs" / "peers.md").read_text()
    assert f"{limit // burst} s" in docs
    assert "join_timeout = 3600" in docs
    assert limit / burst < 3600


def read_container(path):
    """Return the arguments of each instruction of a container file; check what both files share."""
    text = path.read_text()
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line[:1] not in ("#", "")]
    instructions = {}
    for line in lines:
        instruction, _, rest = line.partition(" ")
        instructions.setdefault(instruction, []).append(rest)
    assert instructions["FROM"][0].startswith("python:3.")
    for sources in instructions["COPY"]:
        for source in sources.split()[:-1]:
            assert (ROOT / source).exists()
    extras = re.search(r"/source\[([a-z,]+)\]", text)[1].split(",")
    assert all(re.search(rf"^{extra} = \[", PROJECT, re.MULTILINE) for extra in extras)
    return instructions


def test_the_container_runs_peerclust_as_an_ordinary_user():
    instructions = read_container(CONTAINER)
    assert json.loads(instructions["ENTRYPOINT"][0]) == ["peerclust"]
    check_command(json.loads(instructions["CMD"][0]))
    assert instructions["USER"] == ["site"]


@pytest.mark.parametrize(
    ("path", "command"),
    [
        (CONTAINER, r"peerclust \\ (peer run .*?--listen \S+)"),
        (MPI_CONTAINER, r"mpiexec -n 4 peerclust (fit .*?--out \S+)"),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_the_commands_in_the_comments_of_the_container_files_exist(path, command):
    comment = " ".join(line.lstrip("# ") for line in path.read_text().splitlines())
    check_command(re.search(command, comment)[1].split())


def test_ranks_in_containers_are_started_by_an_ordinary_user_over_ssh():
    instructions = read_container(MPI_CONTAINER)
    assert instructions["USER"] == ["rank"]
    server, *options = json.loads(instructions["CMD"][0])
    assert server == "/usr/sbin/sshd"
    assert "PasswordAuthentication no" in MPI_CONTAINER.read_text()
    # The same server, account, key and port in the job.
    job = MPI_JOB.read_text()
    assert f"args: {json.dumps(options)}" in job
    assert set(re.findall(r"runAsUser: (\d+)", job)) == set(
        re.findall(r"useradd --uid (\d+)", instructions["RUN"][0])
    )
    assert re.search(r"sshAuthMountPath: (\S+)", job)[1] == "/home/rank/.ssh"
    assert "HostKey /home/rank/.ssh/id_rsa" in MPI_CONTAINER.read_text()
    assert f"port: {re.search(r'Port ([0-9]+)', MPI_CONTAINER.read_text())[1]}" in job


def test_the_job_on_kubernetes_fills_its_workers_with_ranks_of_a_command_that_exists():
    text = MPI_JOB.read_text()
    assert "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\n" in text
    # No dependency parses YAML; these are the usual mistakes of writing it by hand.
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
    arguments = command[command.index("peerclust") + 1 :]
    assert arguments[:3] == ["fit", "--runtime", "mpi"]
    assert "--resume" in arguments
    check_command(arguments)
    # Every mount has a volume in the same pod.
    for pod in text.split("template:")[1:]:
        mounts, volumes = pod.split("volumes:")
        for name in re.findall(r"- name: (\w+)\n\s+mountPath", mounts):
            assert f"- name: {name}\n" in volumes


def run_slurm_script(home):
    """Run the script as a job of two ranks, with an mpiexec that prints its arguments."""
    commands = home / "commands"
    commands.mkdir(exist_ok=True)
    says = 'printf "%s\\n" "$PEERCLUST_THREADS" "$@"'
    alone = 'echo "$*" > "$HOME/alone"'
    for name, does in (("mpiexec", says), ("module", ""), ("peerclust", alone)):
        (commands / name).write_text(f"#!/bin/sh\n{does}\n")
        (commands / name).chmod(0o755)
    job = {"SLURM_NTASKS": "2", "SLURM_CPUS_PER_TASK": "1", "SLURM_JOB_NAME": "trial"}
    environment = job | {"HOME": str(home), "PATH": f"{commands}:{os.environ['PATH']}"}
    run = subprocess.run(
        ["bash", SLURM], env=environment, capture_output=True, text=True, check=True
    )
    return run.stdout.splitlines()


def test_the_slurm_script_starts_ranks_of_a_command_that_exists_and_can_be_rerun(tmp_path):
    (tmp_path / "rows").mkdir()
    for name in ("oslo", "rome"):
        (tmp_path / "rows" / f"{name}.parquet").touch()
    (tmp_path / "peerclust" / "bin").mkdir(parents=True)
    (tmp_path / "peerclust" / "bin" / "activate").touch()
    threads, *arguments = run_slurm_script(tmp_path)
    assert threads == "1"
    assert arguments[:6] == ["-n", "2", "peerclust", "fit", "--runtime", "mpi"]
    assert (tmp_path / "alone").read_text() == "warm-up\n"
    assert "--resume" in arguments
    files = [Path(word).stem for word in arguments if word.endswith(".parquet")]
    assert files == ["oslo", "rome"]
    check_command(arguments[3:])
    out = Path(arguments[arguments.index("--out") + 1])
    out.mkdir()
    (out / "certificate.json").touch()
    assert run_slurm_script(tmp_path) == [f"{out} exists already."]


def test_slurm_reads_its_options_before_the_first_command():
    lines = SLURM.read_text().splitlines()
    assert lines[0] == "#!/bin/bash"
    options = [i for i, line in enumerate(lines) if line.startswith("#SBATCH ")]
    first = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
    assert options[-1] < first
    assert {"#SBATCH --requeue", "#SBATCH --open-mode=append"} <= {lines[i] for i in options}
