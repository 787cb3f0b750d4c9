"""The table of parameters' names: its rows are real at each entry point, and the docs have them."""

import inspect
import pickle
import re
from pathlib import Path

import pytest
import typer

import peerclust as pc
from peerclust import baselines, datasets, doors, paper
from peerclust.cli import app
from peerclust.errors import ParameterError
from peerclust.outliers import SHARED, estimate_delta
from peerclust.runtimes.network.contract import Contract
from peerclust.text import mention, parameter, setting

ESTIMATORS = (pc.PeerClustering, pc.PeerOutlierDetector)
OWNERS = {
    "cluster": pc.cluster,
    "Checkpoint": pc.Checkpoint,
    "Huber": pc.Huber,
    "Fair": pc.Fair,
    "Mahalanobis": pc.Mahalanobis,
    "KMeansPlusPlus": pc.initialize.KMeansPlusPlus,
    "from_file": pc.graphs.from_file,
    "paper.run": paper.run,
    "mnist": datasets.mnist,
    "cifar10": datasets.cifar10,
    "baselines.load": baselines.load,
    "peer init": Contract,
}


def parameters(call):
    return set(inspect.signature(call).parameters)


def options(*words):
    """Return the options and arguments of a command, as they are written."""
    command = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    return {name for each in command.params for name in (*each.opts, each.metavar)}


REAL = [
    (doors.FIT, options("fit")),
    (doors.PEER_INIT, options("peer", "init")),
    (doors.REPRODUCE, options("reproduce")),
    (doors.NETWORK_FILE, parameters(Contract)),
    *(
        (doors.estimator(kind.__name__), parameters(kind) | parameters(kind.fit))
        for kind in ESTIMATORS
    ),
]


@pytest.mark.parametrize(("door", "real"), REAL, ids=[door.title for door, _ in REAL])
def test_every_name_of_the_table_is_real_on_both_sides(door, real):
    # An estimator lacks the delta of its loss, or has a loss of its own and never searches.
    lacks = {"PeerClustering": {"delta"}, "PeerOutlierDetector": {"loss", "search"}}
    lacks = lacks.get(door.title, set())
    assert set(door.names.values()) - real == lacks
    for of, name in door.names:
        assert name in parameters(OWNERS[of])


def test_every_parameter_that_an_entry_point_shares_with_cluster_has_a_row():
    ours = {row.name for row in doors.NAMES if row.of == "cluster"}
    shared = parameters(pc.cluster) & set().union(*map(parameters, ESTIMATORS))
    shared |= {
        option[2:] for option in options("fit") if option and option[2:] in parameters(pc.cluster)
    }
    assert shared <= ours
    assert parameters(pc.cluster) - ours == {"consensus_factor", "progress", "gather"}
    for kind in ESTIMATORS:
        own = set(doors.estimator(kind.__name__).arguments(kind().get_params()))
        assert len(own) == len(parameters(kind) - {"contamination", "delta"})


def test_every_setting_of_peers_has_an_option():
    keys = {name for of, name in doors.PEER_INIT.names if of == "peer init"}
    assert keys == parameters(Contract) - {"peers"}


def test_estimate_delta_has_the_parameters_that_it_shares():
    assert parameters(estimate_delta) == {"parts", *SHARED}


def test_the_table_in_the_docs_is_the_same():
    text = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text()
    title = r"\| `cluster` \| estimators \| `peerclust fit` \| network file \|\n"
    table = re.search(rf"{title}\|[-|]+\n((?:\|.*\n)+)", text)[1]
    drawn = [
        [cell.strip().strip("`") for cell in row.split("|")[1:-1]] for row in table.splitlines()
    ]
    expected = [
        [
            row.name if row.of == "cluster" else f"{row.of}({row.name})",
            *(each or "" for each in row[2:]),
        ]
        for row in doors.NAMES
    ]
    assert drawn == expected


def test_only_parameters_are_renamed_not_what_the_caller_passed():
    got = "`n_init` of cluster"
    sentence = (
        parameter("n_init", "cluster") + f" must be a number. Got {got!r}. Try " + mention("B")
    )
    assert doors.FIT.translate(sentence + ".") == (
        "`--starts` of fit must be a number. Got '`n_init` of cluster'. Try --updates."
    )
    assert doors.FIT.translate(setting("rounds", 3)) == "--rounds 3"
    assert doors.FIT.translate(got) == got


def test_an_error_keeps_its_parameters_between_processes():
    error = pickle.loads(pickle.dumps(ParameterError("Rank 1: " + parameter("rho", "cluster"))))
    assert str(error) == "Rank 1: `rho` of cluster"
    with pytest.raises(ParameterError, match="Rank 1: `--rho` of fit"), doors.FIT.naming():
        raise error


def test_each_entry_point_names_the_parameter_that_its_caller_passed():
    rows = [[[0.0], [1.0]], [[2.0], [3.0]]]
    with pytest.raises(ParameterError, match="`n_clusters` of cluster must be"):
        pc.cluster(rows, n_clusters=-1)
    with pytest.raises(ParameterError, match="`n_clusters` of PeerClustering must be"):
        pc.PeerClustering(n_clusters=-1).fit(rows[0])
    with pytest.raises(ParameterError, match="`n_clusters` of estimate_delta must be"):
        estimate_delta(rows, n_clusters=-1)
