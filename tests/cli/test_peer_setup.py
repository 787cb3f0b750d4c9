import json
import stat
import subprocess
import sys
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from peerclust.cli import app
from peerclust.runtimes.network import contract_file
from peerclust.runtimes.network.contract import group_hex
from peerclust.runtimes.network.identity import (
    fingerprint,
    load_identity,
    make_identity,
    read_certificate,
)

SITES = ("rome", "bern", "oslo", "kiev")


def run(*words):
    return CliRunner().invoke(app, ["peer", *map(str, words)])


def good(*words):
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    for name in SITES:
        make_identity(name, folder)
    return folder


@pytest.fixture
def init(keys, tmp_path, monkeypatch):
    """Work in a new directory; return the arguments of an init with n peers."""
    monkeypatch.chdir(tmp_path)
    Path("keys").symlink_to(keys)

    def words(n=4):
        sites = [
            f"{name}={name}.example:{4000 + i}=keys/{name}.crt" for i, name in enumerate(SITES)
        ]
        peers = [word for site in sites[:n] for word in ("--peer", site)]
        return ("init", *peers, "--features", "x, y", "--clusters", 3)

    return words


def test_keygen_makes_an_identity_and_says_what_to_do_with_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = good("keygen", "bern").stdout
    identity = load_identity("bern", Path("bern.key"), Path("bern.crt"))
    assert stat.S_IMODE(identity.key.stat().st_mode) == 0o600
    mark = fingerprint(read_certificate(identity.certificate))
    assert f"{mark} is the fingerprint of bern." in said
    assert "Send bern.crt to the site that writes the network file." in said
    assert "Keep bern.key secret: anyone with this key can impersonate bern." in said
    assert "PRIVATE" not in said
    result = json.loads(good("keygen", "oslo", "--dir", "keys", "--days", 3, "--json").stdout)
    made = load_identity("oslo", Path(result["key"]), Path(result["certificate"]))
    assert result["fingerprint"] == fingerprint(read_certificate(made.certificate))
    assert made.key == Path("keys/oslo.key")


def test_keygen_replaces_a_key_only_by_force(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good("keygen", "bern")
    before = Path("bern.key").read_bytes()
    result = run("keygen", "bern")
    assert (result.exit_code, result.stdout) == (2, "")
    sentence = "bern.key exists already; it is replaced only with --force."
    assert result.stderr == f"{sentence} (docs/exit-codes.md#an-error)\n"
    assert Path("bern.key").read_bytes() == before
    good("keygen", "bern", "--force")
    assert Path("bern.key").read_bytes() != before


def test_init_writes_what_its_options_say(init):
    Path("A.csv").write_text("2,0\n0,1\n")
    result = good(
        *init(), "--weights-column", "w", "--scale", "none", "--loss", "huber", "--delta", 2,
        "--matrix", "A.csv", "--solver", "dgc", "--exchange", "float32",
        "--rho", 20, "--updates", 3, "--rounds", 50, "--search", "swaps", "--tol", 1e-3,
        "--mean-of", 3, "--seed", 7, "--graph", "star", "--timeout", 1, "--join-timeout", 2,
        "--linger", 3, "--checkpoint-every", 4, "--on-loss", "stop", "--on-absent", "start",
        "--range", "y=-1e2:0", "--range", "x=0.5:2", "--max-weight", 1e4, "--out", "n.toml",
    )  # fmt: skip
    found = contract_file.read(Path("n.toml"))
    settings = found.settings()
    peers = settings.pop("peers")
    assert settings == {
        "links": [["bern", "rome"], ["kiev", "rome"], ["oslo", "rome"]],
        "features": ["x", "y"], "weights_column": "w", "scale": "none", "n_clusters": 3,
        "loss": "huber", "delta": 2.0, "eta": None, "matrix": [[2.0, 0.0], [0.0, 1.0]],
        "solver": "dgc", "rho": 20.0, "B": 3, "exchange": "float32", "rounds": 50,
        "tol": 1e-3, "search": "swaps", "seed": 7,
        "mean_of": 3, "timeout": 1.0, "join_timeout": 2.0, "linger": 3.0,
        "checkpoint_every": 4.0, "on_loss": "stop", "on_absent": "start",
        "ranges": {"x": [0.5, 2.0], "y": [-100.0, 0.0]}, "max_weight": 1e4,
    }  # fmt: skip
    assert list(peers) == sorted(SITES)
    for i, name in enumerate(SITES):
        mark = fingerprint(read_certificate(Path(f"keys/{name}.crt")))
        assert peers[name] == [f"{name}.example:{4000 + i}", mark]
        assert f"{name} {mark}" in result.stdout
    assert group_hex(found.digest) in result.stdout
    assert "peerclust peer check" in result.stdout


def test_init_has_defaults_and_a_json_form(init):
    result = json.loads(good(*init(), "--json").stdout)
    found = contract_file.read(Path("network.toml"))
    assert result["out"] == "network.toml"
    assert result["digest"] == found.digest.hex()
    assert result["links"] == [list(link) for link in found.links]
    assert result["fingerprints"] == {peer.name: peer.fingerprint for peer in found.peers}
    assert (found.solver, found.rho, found.rounds, found.tol) == (
        "accelerated",
        "auto",
        10000,
        1e-6,
    )
    # a ring in the order given: rome, bern, oslo, kiev
    assert set(found.links) == {
        ("bern", "rome"), ("bern", "oslo"), ("kiev", "oslo"), ("kiev", "rome"),
    }  # fmt: skip


def test_init_writes_out_the_parameter_of_a_loss(init):
    for loss, key in (("huber", "delta"), ("fair", "eta")):
        good(*init(), "--loss", loss, "--force")
        assert tomllib.loads(Path("network.toml").read_text())["clustering"][key] == 1


def test_init_takes_a_delta_and_a_scale_that_the_sites_choose(init):
    good(*init(), "--loss", "huber", "--delta", "auto", "--scale", "robust")
    found = contract_file.read(Path("network.toml"))
    assert (found.delta, found.scale) == ("auto", "robust")


def test_admm_stops_at_a_lost_peer_by_default(init):
    good(*init(), "--solver", "admm")
    assert contract_file.read(Path("network.toml")).on_loss == "stop"


@pytest.mark.parametrize("graph", ["ring", "path", "star", "complete", "grid"])
def test_any_graph_of_two_peers_is_one_link(init, graph):
    good(*init(2), "--graph", graph)
    assert contract_file.read(Path("network.toml")).links == (("bern", "rome"),)


def test_a_graph_may_be_a_file_of_names(init):
    Path("links.txt").write_text("kiev oslo\noslo rome\nrome bern\n")
    good(*init(), "--graph", "links.txt")
    links = contract_file.read(Path("network.toml")).links
    assert links == (("bern", "rome"), ("kiev", "oslo"), ("oslo", "rome"))


BAD_OPTIONS = [
    (("--rho", -0.5), "`--rho` of peer init must be a number > 0. Got -0.5."),
    (("--rho", "big"), "`--rho` of peer init must be a number or 'auto'. Got 'big'."),
    (("--rho", "nan"), "`--rho` of peer init must be a number > 0. Got nan."),
    (("--loss", "hubr"), "`--loss` of peer init must be one of"),
    (("--delta", 1), "`--delta` of peer init belongs to the loss 'huber'. Got the loss 'kmeans'."),
    (("--delta", "big"), "`--delta` of peer init must be a number or 'auto'. Got 'big'."),
    (("--scale", "robst"), "Got 'robst'. Did you mean 'robust'?"),
    (("--tol", -1), "`--tol` of peer init must be a number >= 0. Got -1.0."),
    (("--join-timeout", 0), "`--join-timeout` of peer init must be a number > 0. Got 0.0."),
    (("--graph", "rign"), "`--graph` of peer init must be one of"),
    (("--graph", "apart.txt"), "apart.txt must connect all users: "),
    (("--graph", "others.txt"), "The graph file others.txt must name exactly the users; it adds"),
    (("--graph", "none.txt"), "must be a readable file. Got none.txt: No such file or directory."),
    (("--features", "x,x"), "`--features` of peer init must be different. Got 'x' twice."),
    (("--features", "x,"), "`--features` of peer init must be a column's name. Got ''."),
    (("--weights-column", "x"), "`--weights-column` of peer init must not be a feature too."),
    (("--matrix", "none.csv"), "There is no file none.csv."),
    (
        ("--solver", "admm", "--rho", 2),
        "`--rho` of peer init must be 'auto' with the solver 'admm'",
    ),
    (
        ("--solver", "exact", "--exchange", "8-bit"),
        "`--exchange` of peer init must be 'float64' wi",
    ),
    (("--exchange", "9-bit"), "`--exchange` of peer init must be one of"),
    (("--solver", "admm", "--on-loss", "continue"), "`--on-loss` of peer init must be 'stop' with"),
    (("--solver", "admm", "--updates", 2), "`--updates` of peer init must be 1 with"),
    (("--on-absent", "wait"), "`--on-absent` of peer init must be one of 'start', 'stop'."),
    (("--peer", "x"), "`--peer` of peer init must be NAME=HOST:PORT=FILE.crt. Got 'x'."),
    (("--peer", "x=h:1=none.crt"), "The certificate none.crt cannot be read: No such file or"),
    (("--peer", "x=h:1=keys/bern.key"), "must be one certificate in PEM. Got a private key."),
    (("--peer", "x=h:1=keys/bern.crt"), "peer x in peer init must be its own. Got that of 'bern'."),
    (("--peer", "bern=h:1=keys/bern.crt"), "must have different names. Got bern twice."),
    (("--peer", "x y=h:1=keys/bern.crt"), "The name of a peer in peer init must be 1 to 64"),
    (("--peer", "x=h=keys/bern.crt"), "`address` of peer x in peer init must be host:port"),
    (("--out", "apart.txt"), "`--out` of peer init must be a new file, unless --force is given."),
    (("--out", "apart.txt/n.toml"), "apart.txt/n.toml cannot be written: "),
]


@pytest.mark.parametrize(("words", "sentence"), BAD_OPTIONS)
def test_an_error_of_init_is_one_sentence_and_nothing_is_written(init, words, sentence):
    Path("apart.txt").write_text("bern rome\noslo kiev\n")
    Path("others.txt").write_text("bern Rome\noslo bern\n")
    before = sorted(Path.cwd().rglob("*"))
    result = run(*init(), *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1
    assert sentence in result.stderr
    assert sorted(Path.cwd().rglob("*")) == before


@pytest.mark.parametrize("days", [-3, 3], ids=["expired", "not yet valid"])
def test_a_certificate_that_is_not_valid_now_is_refused(init, days):
    words, now = init(), datetime.now(UTC) + timedelta(days=days)
    make_identity("riga", Path(), days=1, now=now)
    result = run(*words, "--peer", "riga=riga.example:4004=riga.crt")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("The certificate riga.crt must be valid now, 2")
    first, last = now - timedelta(hours=1), now + timedelta(days=1)
    dates = f"{first:%Y-%m-%d} to {last:%Y-%m-%d}"
    assert f"Got one valid from {dates}; ask its site for another" in result.stderr
    assert not Path("network.toml").exists()


def test_a_network_of_one_is_rejected(init):
    said = run(*init(1)).stderr
    assert said.startswith("A network has at least 2 peers. Got 1 in peer init. (docs/")


def test_a_network_file_is_replaced_only_by_force(init):
    good(*init())
    before = Path("network.toml").read_bytes()
    assert run(*init(), "--seed", 1).exit_code == 2
    assert Path("network.toml").read_bytes() == before
    good(*init(), "--seed", 1, "--force")
    assert contract_file.read(Path("network.toml")).seed == 1


def test_the_missing_extra_is_named(tmp_path):
    code = "import sys; sys.modules['cryptography'] = None; from peerclust.cli import main; main()"
    command = [sys.executable, "-c", code, "peer", "keygen", "bern", "--dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "Peers need cryptography, which is not installed; it comes with the extra `network`."
        " (docs/exit-codes.md#an-error)\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("ranges", "sentence"),
    [
        (["x=1"], "`--range` of peer init must be NAME=LOW:HIGH, with two numbers. Got 'x=1'."),
        (["x=a:b"], "`--range` of peer init must be NAME=LOW:HIGH, with two numbers. Got 'x=a:b'."),
        (["x=0:1"], "`--range` of peer init must have a range for each feature. Got none for 'y'."),
        (["x=0:1", "z=0:1"], "`--range` of peer init must name features. Got 'z'."),
        (["x=0:1", "y=1:1"], "low < high, for each feature. Got (1.0, 1.0) for 'y'."),
        (["x=0:1", "y=0:inf"], "`--range` of peer init must be a number"),
    ],
)
def test_ranges_that_cannot_be_are_refused(init, ranges, sentence):
    given = [word for each in ranges for word in ("--range", each)]
    result = run(*init(), *given, "--out", "n.toml")
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert not Path("n.toml").exists()
