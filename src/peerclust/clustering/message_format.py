"""Number format of messages: what `exchange` of `cluster` means, and whether the data fits it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from peerclust.arrays import Array
from peerclust.clustering.problem import Problem
from peerclust.errors import DataError, ParameterError
from peerclust.programs.lossy import MESSAGE_DTYPES, Lossy
from peerclust.programs.protocol import Program
from peerclust.text import parameter, show
from peerclust.validation import check_count, check_name, check_number


class MessageFormat(NamedTuple):
    """The number format of messages, whether they are noisy, and how to wrap a program for a seed.

    A program is wrapped by `wrap(program, seed)`, and then sends its messages in this format.
    """

    dtype: str
    noisy: bool
    wrap: Callable[[Program, int], Program]


def resolve(exchange: Any, solver: str) -> MessageFormat:
    """Return the message format that `exchange` of `cluster` means.

    >>> resolve("float32", "admm").dtype
    'float32'
    """
    given = {"dtype": exchange} if isinstance(exchange, str) else exchange
    known = ("dtype", "noise", "drop", "gradient_noise", "seed")
    if not isinstance(given, dict):
        raise ParameterError(
            parameter("exchange", "cluster") + f" must be a name or a dict. Got {show(exchange)}."
        )
    for name in given:
        check_name(name, known, "exchange", "cluster, a dict,")
    if given == {"dtype": "float64"} or not given:
        return MessageFormat("float64", False, lambda program, _: program)
    dtype = check_name(given.get("dtype", "float64"), MESSAGE_DTYPES, "exchange", "cluster")
    check_count(given.get("seed", 0), "seed", "exchange", at_least=0)
    for name in ("noise", "gradient_noise", "drop"):
        check_number(given.get(name, 0.0), name, "exchange", at_least=0)
    if not given.get("drop", 0.0) < 1.0:
        raise ParameterError(f"`drop` of exchange must be below 1. Got {given['drop']}.")
    if solver == "exact":
        raise ParameterError(
            parameter("exchange", "cluster")
            + " must be 'float64' with the solver 'exact', whose averages need"
            f" every digit. Got {show(exchange)}."
        )

    def wrap(program: Program, seed: int) -> Program:
        settings: dict[str, Any] = {"seed": seed} | given
        return Lossy(program, **settings)

    noisy = any(given.get(each) for each in ("noise", "drop", "gradient_noise"))
    return MessageFormat(dtype, noisy, wrap)


def check_range(dtype: str, problem: Problem, x: Array) -> None:
    """Raise if rows or initial centers have numbers outside the range of the message format."""
    if dtype == "float64":
        return
    least, most = {
        "float16": (0.0, 6e4),
        "float32": (0.0, 1e38),
        # The exponent of two is one byte.
        "8-bit": (1e-30, 1e30),
    }[dtype]
    rows = problem.users.rows
    size = problem.distribution.max_over_ranks(max(np.abs(rows).max(initial=0.0), np.abs(x).max()))
    if size > most or problem.spread < least:
        raise DataError(
            parameter("exchange", "cluster")
            + f" must be a format for numbers up to {size:.2g}, such as"
            f" 'float64'. Got {dtype!r}; scaled rows fit every format."
        )
