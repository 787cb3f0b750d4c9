"""The public entry points: what each of them calls a parameter, and the parameter's default there.

`cluster` is behind all of them. A check names a parameter as the function that makes it does; the
entry point that the caller used renames it. `NAMES` is the only table of names, and `DEFAULTS` that
of defaults: docs/architecture.md has the same, and the tests compare both with the signatures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from peerclust.errors import PeerclustError
from peerclust.text import Parameter, Sentence


class Names(NamedTuple):
    """A parameter and its names elsewhere; None where there is no such parameter.

    `network_file` is a key of that file. `peer init` has the option of `fit`, or the key.
    """

    of: str
    name: str
    estimators: str | None
    fit: str | None
    network_file: str | None

    @property
    def label(self) -> str:
        """The parameter as the documentation writes it.

        >>> Names("Huber", "delta", None, None, None).label
        'Huber(delta)'
        """
        return self.name if self.of == "cluster" else f"{self.of}({self.name})"


NAMES = (
    Names("cluster", "parts", "X", "FILE", None),
    Names("cluster", "n_clusters", "n_clusters", "--clusters", "n_clusters"),
    Names("cluster", "graph", "graph", "--graph", "links"),
    Names("cluster", "loss", "loss", "--loss", "loss"),
    Names("cluster", "distance", "distance", "--distance", None),
    Names("cluster", "solver", "solver", "--solver", "solver"),
    Names("cluster", "rho", "rho", "--rho", "rho"),
    Names("cluster", "alpha", "alpha", "--alpha", None),
    Names("cluster", "B", "B", "--updates", "B"),
    Names("cluster", "rounds", "max_iter", "--rounds", "rounds"),
    Names("cluster", "tol", "tol", "--tol", "tol"),
    Names("cluster", "init", "init", "--init", None),
    Names("cluster", "n_init", "n_init", "--starts", None),
    Names("cluster", "search", "search", "--search", "search"),
    Names("cluster", "weights", "sample_weight", "--weights-column", "weights_column"),
    Names("cluster", "scale", "scale", "--scale", "scale"),
    Names("cluster", "ranges", None, None, "ranges"),
    Names("cluster", "exchange", None, "--exchange", "exchange"),
    Names("cluster", "runtime", "runtime", "--runtime", None),
    Names("cluster", "random_state", "random_state", "--seed", "seed"),
    Names("cluster", "trace", None, "--trace", None),
    Names("cluster", "checkpoint", None, "--checkpoint", None),
    Names("Checkpoint", "every", None, "--checkpoint-every", None),
    Names("Checkpoint", "resume", None, "--resume", None),
    Names("Huber", "delta", "delta", "--delta", "delta"),
    Names("Fair", "eta", None, "--eta", "eta"),
    Names("Mahalanobis", "A", None, "--matrix", "matrix"),
    Names("KMeansPlusPlus", "mean_of", None, None, "mean_of"),
    Names("from_file", "path", None, "--graph", None),
    Names("by_user", "users", "users", None, None),
)

# Keys of the network file that are no parameters elsewhere.
NETWORK_ONLY = (
    *(
        "features",
        "max_weight",
        "timeout",
        "join_timeout",
        "linger",
        "checkpoint_every",
        "on_loss",
        "on_absent",
    ),
)


class Default(NamedTuple):
    """The default of a parameter; `elsewhere` are the entry points with another one, and why.

    A value of `...` means that the parameter must be given.
    """

    label: str
    value: object
    elsewhere: Mapping[str, object] = MappingProxyType({})
    why: str = ""


_CLUSTERING, _DETECTOR, _FIT, _INIT = "PeerClustering", "PeerOutlierDetector", "fit", "peer init"

# Of all parameters that affect a result, not of options that say where to read and write.
DEFAULTS = (
    Default("parts", ...),
    Default(
        "n_clusters", ..., {_CLUSTERING: 3, _DETECTOR: 3},
        "an estimator of scikit-learn needs no argument",
    ),
    Default("graph", "auto", {_INIT: "ring"}, "each link is a connection that two sites set up"),
    Default("loss", "kmeans"),
    Default("distance", "euclidean"),
    Default(
        "solver", "auto", {_INIT: "accelerated"},
        "sites must know what they send; this one continues if a site is lost",
    ),
    Default("rho", "auto"),
    Default("alpha", "auto"),
    Default("B", 1),
    Default("rounds", 1000, {_INIT: 10000}, "it is hard to run again with all sites"),
    Default("tol", 1e-6, {_CLUSTERING: 1e-4, _DETECTOR: 1e-4}, "as in KMeans of scikit-learn"),
    Default(
        "init", "k-means++", {_DETECTOR: "auto"},
        "auto caps D² at a quantile, so that outliers are seldom drawn",
    ),
    Default("n_init", "auto"),
    Default("search", "auto"),
    Default(
        "weights", "unit", {_CLUSTERING: None, _DETECTOR: None, _FIT: None, _INIT: None},
        "None is no weights, and every weight is then 1",
    ),
    Default(
        "scale", "none", {_DETECTOR: "robust", _FIT: "standard", _INIT: "standard"},
        "an array has the units that its owner chose, while columns of a file have any; outliers"
        " change deviations, but hardly quartiles",
    ),
    Default("ranges", None),
    Default("consensus_factor", 1.0),
    Default("exchange", "float64"),
    Default("runtime", "simulator"),
    Default("random_state", None, {_FIT: 0, _INIT: 0}, "runs can be repeated, and sites share it"),
    Default("trace", False),
    Default("progress", None),
    Default("checkpoint", None),
    Default("gather", True),
    Default(
        "Checkpoint(every)", 100, {_FIT: None},
        "None means 100, and shows that no number was given",
    ),
    Default("Checkpoint(resume)", False),
    Default(
        "Huber(delta)", 1.0, {_DETECTOR: "auto", _FIT: None, _INIT: None},
        "a detector should work in any units; None means 1, and shows that no number was given",
    ),
    Default(
        "Fair(eta)", 1.0, {_FIT: None, _INIT: None},
        "None means 1, and shows that no number was given",
    ),
    Default("Mahalanobis(A)", ..., {_FIT: None, _INIT: None}, "None is the Euclidean distance"),
    Default(
        "KMeansPlusPlus(mean_of)", 1, {_INIT: 5}, "an initial center should not be a row of a site"
    ),
    Default("contamination", 0.1),
    Default("verbose", 0),
    Default("features", ...),
    Default("max_weight", 1e9),
    Default("timeout", 10.0),
    Default("join_timeout", 60.0),
    Default("linger", 60.0),
    Default("checkpoint_every", 10.0),
    Default(
        "on_loss", "continue", {_INIT: None}, "None is stop for solvers that need a fixed graph"
    ),
    Default("on_absent", "stop"),
)  # fmt: skip


REPRODUCED = {
    ("paper.run", "name"): "NAME",
    ("paper.run", "runs"): "--runs",
    ("paper.run", "seed"): "--seed",
    ("paper.run", "data"): "--data",
    ("paper.run", "data_dir"): "--data-dir",
    ("paper.run", "workers"): "--workers",
    ("mnist", "data_dir"): "--data-dir",
    ("cifar10", "data_dir"): "--data-dir",
    ("baselines.load", "path"): "--methods",
}


@dataclass(frozen=True)
class Door:
    """An entry point: its title, and its name of each parameter (of, name) that it passes on."""

    title: str
    names: Mapping[tuple[str, str], str]

    def translate(self, text: str) -> str:
        """Return a sentence with the names that parameters have here.

        >>> from peerclust.text import parameter
        >>> str(FIT.translate(parameter("n_init", "cluster") + " must be at least 1."))
        '`--starts` of fit must be at least 1.'
        """
        return text.rename(self._rename) if isinstance(text, Sentence) else text

    def _rename(self, found: Parameter) -> Parameter:
        name = self.names.get((found.of, found.name))
        return found if name is None else replace(found, shown=(name, self.title))

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Rename the parameters in errors that are raised within; the outermost names remain."""
        try:
            yield
        except PeerclustError as error:
            error.args = (*map(self.translate, error.args),)
            raise

    def arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of `cluster` among the values of this entry point's parameters.

        >>> FIT.arguments({"starts": 3, "json": True})
        {'n_init': 3}
        """
        keys = {
            name: here.lstrip("-").replace("-", "_")
            for (of, name), here in self.names.items()
            if of == "cluster"
        }
        return {name: values[key] for name, key in keys.items() if key in values}


def estimator(title: str) -> Door:
    """Return the entry point that an estimator is; `title` is the name of its class."""
    return Door(title, {(row.of, row.name): row.estimators for row in NAMES if row.estimators})


def option(key: str) -> str:
    """Return the option of `peer init` for a key of the network file.

    >>> option("join_timeout"), option("n_clusters")
    ('--join-timeout', '--clusters')
    """
    if key == "ranges":
        return "--range"
    same = (row.fit for row in NAMES if row.network_file == key)
    return next(same, None) or f"--{key.replace('_', '-')}"


FIT = Door("fit", {(row.of, row.name): row.fit for row in NAMES if row.fit})
NETWORK_FILE = Door(
    "the network file", {(row.of, row.name): row.network_file for row in NAMES if row.network_file}
)
PEER_INIT = Door(
    "peer init",
    {("from_file", "path"): "--graph"}
    | {where: option(key) for where, key in NETWORK_FILE.names.items()}
    | {("peer init", key): option(key) for key in (*NETWORK_FILE.names.values(), *NETWORK_ONLY)},
)
REPRODUCE = Door("reproduce", REPRODUCED)
