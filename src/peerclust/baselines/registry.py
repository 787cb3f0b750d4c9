"""The methods by name, and how users add their own."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path

from peerclust import text
from peerclust.baselines.centralized import CGC, LGC, SklearnKMeans
from peerclust.baselines.coreset import Coreset
from peerclust.baselines.decentralized import (
    OverNetwork,
    make_admm,
    make_dgc,
    make_lsp2p,
    make_nk_means,
)
from peerclust.baselines.protocol import Method
from peerclust.errors import ParameterError, PeerclustError
from peerclust.losses import Fair, Huber, KMeans, Logistic, Loss
from peerclust.text import parameter
from peerclust.validation import check_name

LOSSES: dict[str, Loss] = {"KM": KMeans(), "HL": Huber(5.0), "LL": Logistic(), "FL": Fair(1.0)}

METHODS: dict[str, Method] = {"SKL-KM": SklearnKMeans()}
for _short, _loss in LOSSES.items():
    METHODS[f"CGC-{_short}"] = CGC(_loss)
    METHODS[f"LGC-{_short}"] = LGC(_loss)
    METHODS[f"DGC-{_short}"] = OverNetwork(make_dgc, _loss)
METHODS["ADMM-KM"] = OverNetwork(make_admm)
METHODS["NK-MEANS"] = OverNetwork(make_nk_means)
METHODS["LSP2P-KM"] = OverNetwork(make_lsp2p, common=True, tol=1e-6)
METHODS["CORESET-KM"] = Coreset()
METHODS["CORESET-MED"] = Coreset(median=True)

# The methods that users have added, and the files that added some of them, with their names.
_OWN: dict[str, Method] = {}
_FILES: dict[Path, list[str]] = {}


def register(name: str, method: Method) -> None:
    """Add your own method to every table that compares methods, under a new name.

    `method.fit(task, on_round=None)` returns an `Outcome`; `OverNetwork` makes one of a program.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9._-]+", name):
        raise ParameterError(
            f"`name` of register must be made of A-Z, a-z, 0-9, '.', '_' and '-'. Got {name!r}."
        )
    if name in METHODS or name in _OWN:
        raise ParameterError(f"`name` of register must be new. Got {name!r}.")
    if not callable(getattr(method, "fit", None)):
        raise ParameterError(f"`method` of register must have fit(task, on_round). Got {method!r}.")
    _OWN[name] = method


def unregister(name: str) -> None:
    """Remove a method that `register` has added."""
    if name not in _OWN:
        raise ParameterError(
            f"`name` of unregister must be one that `register` has added. Got {name!r}."
        )
    del _OWN[name]


def registered() -> dict[str, Method]:
    """Return the methods that users have added, by name."""
    return dict(_OWN)


def load(path: str | os.PathLike[str]) -> None:
    """Run a Python file that registers methods; worker processes of an experiment run it too.

    A file that was loaded before is not run again.
    """
    place = Path(path).resolve()
    if place in _FILES:
        return
    # A prefix, so that no other module is shadowed.
    name = f"peerclust_baselines_{place.stem}"
    spec = importlib.util.spec_from_file_location(name, place)
    if place.suffix != ".py" or not place.is_file() or spec is None or spec.loader is None:
        raise ParameterError(
            parameter("path", "baselines.load") + f" must be a Python file. Got {path}."
        )
    before = set(_OWN)
    module = importlib.util.module_from_spec(spec)
    # Pickle looks up what the file defines by the name of its module.
    sys.modules[name] = module
    problem = ""
    # Like a script, the file may import modules beside it.
    sys.path.insert(0, str(place.parent))
    try:
        spec.loader.exec_module(module)
    except PeerclustError as error:
        problem = str(error)
    except Exception as error:  # the file may raise anything
        problem = f"{type(error).__name__}: {error} ({text.place(error)})."
    finally:
        sys.path.remove(str(place.parent))
    added = sorted(set(_OWN) - before)
    if problem or not added:
        del sys.modules[name]
        for each in added:
            del _OWN[each]
        raise ParameterError(
            parameter("path", "baselines.load")
            + " must be a file that runs and calls baselines.register."
            f" Got {path}. {problem}".rstrip()
        )
    _FILES[place] = added


def shared() -> tuple[list[Path], dict[str, Method]]:
    """Return what a worker process needs: files to load, and the methods that none of them adds."""
    from_files = {name for names in _FILES.values() for name in names}
    return list(_FILES), {name: _OWN[name] for name in _OWN if name not in from_files}


def get(name: str) -> Method:
    """Return the method of a name.

    >>> get("ADMM-KM").fit.__name__
    'fit'
    """
    return (METHODS | _OWN)[check_name(name, METHODS | _OWN, "name", "baselines.get")]
