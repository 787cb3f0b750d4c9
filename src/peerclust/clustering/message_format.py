"""Number format of messages: what `exchange` of `cluster` means, and whether the data fits it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from peerclust.arrays import Array
from peerclust.clustering.problem import Problem
from peerclust.errors import DataError, ParameterError
from peerclust.programs.lossy import MESSAGE_DTYPES, Lossy
from peerclust.programs.protocol import AnyProgram
from peerclust.programs.solver_spec import SolverSpec
from peerclust.text import parameter, show
from peerclust.validation import check_count, check_name, check_number


class MessageFormat(NamedTuple):
    """The number format of messages, whether they are noisy, and how to wrap a program for a seed.

    A program is wrapped by `wrap(program, seed)`, and then sends its messages in this format.
    """

    dtype: str
    noisy: bool
    wrap: Callable[[AnyProgram, int], AnyProgram]


def resolve(exchange: object, solver: SolverSpec) -> MessageFormat:
    """Return the message format that `exchange` of `cluster` means.

    >>> from peerclust.programs.solvers import SOLVERS
    >>> resolve("float32", SOLVERS["admm"]).dtype
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
    own_seed: int | None = None
    if "seed" in given:
        own_seed = check_count(given["seed"], "seed", "exchange", at_least=0)
    noise, gradient_noise, drop = (
        check_number(given.get(name, 0.0), name, "exchange", at_least=0)
        for name in ("noise", "gradient_noise", "drop")
    )
    if not drop < 1.0:
        raise ParameterError(f"`drop` of exchange must be below 1. Got {given['drop']}.")
    solver.check_options({"exchange": exchange}, "cluster")

    def wrap(program: AnyProgram, seed: int) -> AnyProgram:
        return Lossy(
            program,
            dtype=dtype,
            noise=noise,
            drop=drop,
            gradient_noise=gradient_noise,
            seed=seed if own_seed is None else own_seed,
        )

    return MessageFormat(dtype, bool(noise or drop or gradient_noise), wrap)


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
    if size > most or problem.scales.spread < least:
        raise DataError(
            parameter("exchange", "cluster")
            + f" must be a format for numbers up to {size:.2g}, such as"
            f" 'float64'. Got {dtype!r}; scaled rows fit every format."
        )
