"""The tables of names and defaults: real at each entry point, and the same in the docs."""

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
    "by_user": pc.partition.by_user,
    "paper.run": paper.run,
    "mnist": datasets.mnist,
    "cifar10": datasets.cifar10,
    "baselines.load": baselines.load,
    "peer init": Contract,
}


def parameters(call):
    return set(inspect.signature(call).parameters)


def command(*words):
    found = typer.main.get_command(app)
    for word in words:
        found = found.commands[word]
    return found


def options(*words):
    """Return the options and arguments of a command, as they are written."""
    return {name for each in command(*words).params for name in (*each.opts, each.metavar)}


def signature_defaults(call):
    """Return the default of each parameter, `...` if it must be given."""
    return {
        name: ... if each.default is each.empty else each.default
        for name, each in inspect.signature(call).parameters.items()
    }


def option_defaults(*words):
    return {
        name: ... if each.required else each.default
        for each in command(*words).params
        for name in (*each.opts, each.metavar)
    }


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
        assert len(own) == len(parameters(kind) - {"contamination", "delta", "verbose"})


def test_every_setting_of_peers_has_an_option():
    keys = {name for of, name in doors.PEER_INIT.names if of == "peer init"}
    assert keys == parameters(Contract) - {"peers"}


def test_the_table_in_the_docs_is_the_same():
    text = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text()
    title = r"\| `cluster` \| estimators \| `peerclust fit` \| network file \|\n"
    table = re.search(rf"{title}\|[-|]+\n((?:\|.*\n)+)", text)[1]
    drawn = [
        [cell.strip().strip("`") for cell in row.split("|")[1:-1]] for row in table.splitlines()
    ]
    expected = [[row.label, *(each or "" for each in row[2:])] for row in doors.NAMES]
    assert drawn == expected


LABELS = {(row.of, row.name): row.label for row in doors.NAMES}
TABLE = {row.label: row for row in doors.DEFAULTS}


def of_table(title, labels):
    return {name: TABLE[label].elsewhere.get(title, TABLE[label].value) for name, label in labels}


def test_defaults_of_cluster_and_of_losses_are_those_of_the_table():
    actual = signature_defaults(pc.cluster)
    assert actual == of_table("cluster", [(name, name) for name in actual])
    for row in doors.NAMES:
        if row.of not in ("cluster", "from_file", "by_user"):
            assert signature_defaults(OWNERS[row.of])[row.name] == TABLE[row.label].value


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_defaults_of_estimators_are_those_of_the_table(kind):
    names = {here: LABELS[where] for where, here in doors.estimator(kind.__name__).names.items()}
    actual = signature_defaults(kind)
    actual |= {"sample_weight": signature_defaults(kind.fit)["sample_weight"]}
    assert actual == of_table(kind.__name__, [(name, names.get(name, name)) for name in actual])


def test_defaults_of_fit_are_those_of_the_table():
    actual = option_defaults("fit")
    labels = [(here, LABELS[at]) for at, here in doors.FIT.names.items() if at[0] != "from_file"]
    assert {name: actual[name] for name, _ in labels} == of_table("fit", labels)


def test_defaults_of_peers_are_those_of_the_table_and_of_the_network_file():
    actual = option_defaults("peer", "init")
    keys = {here: LABELS[where] for where, here in doors.NETWORK_FILE.names.items()}
    keys |= {key: key for key in doors.NETWORK_ONLY}
    labels = [(doors.option(key), label) for key, label in keys.items()]
    assert {name: actual[name] for name, _ in labels} == of_table("peer init", labels)
    # Links follow from the graph, and on_loss from the solver.
    for key in set(keys) - {"links", "on_loss"}:
        assert signature_defaults(Contract)[key] == actual[doors.option(key)]
    assert Contract.on_loss == TABLE["on_loss"].value


def test_the_table_of_defaults_has_no_row_too_many_and_a_reason_for_each_exception():
    own = {"contamination", "verbose", *doors.NETWORK_ONLY}
    # What is read from a file or a column has no default of its own.
    read = {"from_file(path)", "by_user(users)"}
    assert {row.label for row in doors.NAMES if row.label not in TABLE} == read
    assert set(TABLE) == {*LABELS.values(), *parameters(pc.cluster), *own} - read
    assert len(TABLE) == len(doors.DEFAULTS)
    titles = {"PeerClustering", "PeerOutlierDetector", "fit", "peer init"}
    for row in doors.DEFAULTS:
        assert set(row.elsewhere) <= titles
        assert row.value not in row.elsewhere.values(), row.label
        assert bool(row.elsewhere) == bool(row.why), row.label


def show_default(value):
    return "required" if value is ... else f"`{value!r}`"


def show_exceptions(row):
    by_value = {}
    for title, value in row.elsewhere.items():
        by_value.setdefault(show_default(value), []).append(f"`{title}`")
    return "; ".join(f"{', '.join(titles)}: {value}" for value, titles in by_value.items())


def test_the_table_of_defaults_in_the_docs_is_the_same():
    text = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text()
    title = r"\| parameter \| default \| except \| why \|\n"
    table = re.search(rf"{title}\|[-|]+\n((?:\|.*\n)+)", text)[1]
    assert table.splitlines() == [
        f"| `{row.label}` | {show_default(row.value)} | {show_exceptions(row)} | {row.why} |"
        for row in doors.DEFAULTS
    ]


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
