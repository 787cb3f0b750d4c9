"""Checks of parameters, called by the public entry points only; internal code trusts its arguments.

A check returns the value in the form that internal code uses. Otherwise it raises with one
sentence: which parameter of what, what it must be, what was passed. `row_validation` has the checks
of data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from peerclust.errors import ParameterError
from peerclust.text import guess, parameter, show

RandomState = int | np.random.Generator | None


def check_number(
    value: Any,
    name: str,
    of: str,
    *,
    at_least: float = -math.inf,
    above: float = -math.inf,
    at_most: float = math.inf,
    below: float = math.inf,
    names: Sequence[str] = (),
) -> float:
    """Return `value` as a finite float within its range.

    `names` are what the parameter may be if it is not a number.

    >>> check_number(10, "rho", "cluster", at_least=1)
    10.0
    """
    try:
        good = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an int beyond the floats
        good = False
    if not (good and value >= at_least and value > above and value <= at_most and value < below):
        limits = {">=": at_least, ">": above, "<=": at_most, "<": below}
        stated = [f"{sign} {limit:g}" for sign, limit in limits.items() if math.isfinite(limit)]
        must = " ".join(["a number", " and ".join(stated)]).strip()
        near = ""
        if not isinstance(value, Real):
            must, near = " or ".join([must, *map(repr, names)]), guess(value, names)
        raise ParameterError(parameter(name, of) + f" must be {must}. Got {show(value)}.{near}")
    return float(value)


def check_count(value: Any, name: str, of: str, *, at_least: int = 1) -> int:
    """Return `value` as an int within its range.

    >>> check_count(3, "n_clusters", "cluster")
    3
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < at_least:
        raise ParameterError(
            parameter(name, of) + f" must be a whole number >= {at_least}. Got {show(value)}."
        )
    return int(value)


def check_name(value: object, known: Iterable[str], name: str, of: str, *, other: str = "") -> str:
    """Return `value` if it is known; else raise and suggest the closest known name.

    `other` is what the parameter may be if it is not a name.

    >>> check_name("huber", ["kmeans", "huber"], "loss", "cluster")
    'huber'
    """
    names = list(known)
    if isinstance(value, str) and value in names:
        return value
    must = ", ".join(map(repr, names))
    if len(names) > 1:
        must = f"one of {must}{',' if other else ''}"
    if other:
        must = f"{must} or {other}"
    raise ParameterError(
        parameter(name, of) + f" must be {must}. Got {show(value)}.{guess(value, names)}"
    )


def check_generator(random_state: Any, of: str) -> np.random.Generator:
    """Return the generator that `random_state` is or seeds; None takes a random seed.

    >>> check_generator(0, "random").integers(10)
    np.int64(8)
    """
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    try:
        return np.random.default_rng(check_count(random_state, "random_state", of, at_least=0))
    except ParameterError:
        raise ParameterError(
            parameter("random_state", of) + " must be None, a whole number >= 0 or a"
            f" numpy.random.Generator. Got {show(random_state)}."
        ) from None
