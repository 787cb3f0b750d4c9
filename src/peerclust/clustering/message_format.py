"""Number format of messages: what `exchange` of `cluster` means, and whether the data fits it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peerclust.arrays import Array
from peerclust.clustering.problem import Problem
from peerclust.errors import DataError, ParameterError
from peerclust.programs.lossy import MESSAGE_DTYPES, Lossy
from peerclust.programs.protocol import AnyProgram
from peerclust.programs.solver_spec import SolverSpec
from peerclust.text import parameter, show
from peerclust.validation import check_count, check_name, check_number


@dataclass(frozen=True)
class MessageFormat:
    """How messages are sent, if not as float64 and exactly; see `lossy`.

    Without a `seed` of its own, what is random depends on the run's.
    """

    dtype: str = "float64"
    noise: float = 0.0
    drop: float = 0.0
    gradient_noise: float = 0.0
    seed: int | None = None

    @property
    def noisy(self) -> bool:
        """Whether some messages or gradients are changed or dropped."""
        return bool(self.noise or self.drop or self.gradient_noise)

    def wrap(self, program: AnyProgram, seed: int) -> Lossy:
        """Return the program with its messages in this format."""
        return Lossy(program, **vars(self) | {"seed": seed if self.seed is None else self.seed})

    def check_range(self, problem: Problem, x: Array) -> None:
        """Raise if rows or initial centers have numbers outside the range of the format."""
        if self.dtype == "float64":
            return
        least, most = {
            "float16": (0.0, 6e4),
            "float32": (0.0, 1e38),
            # The exponent of two is one byte.
            "8-bit": (1e-30, 1e30),
        }[self.dtype]
        low, high = problem.users.ranges
        largest = max(high.max(), -low.min(), np.abs(x).max())
        size = problem.distribution.max_over_ranks(largest)
        if size > most or problem.scales.spread < least:
            raise DataError(
                parameter("exchange", "cluster")
                + f" must be a format for numbers up to {size:.2g}, such as"
                f" 'float64'. Got {self.dtype!r}; scaled rows fit every format."
            )


def resolve(exchange: object, solver: SolverSpec) -> MessageFormat | None:
    """Return the message format that `exchange` of `cluster` means; None for exact float64.

    >>> from peerclust.programs.solvers import SOLVERS
    >>> resolve({"dtype": "float32", "drop": 0.1}, SOLVERS["accelerated"])
    MessageFormat(dtype='float32', noise=0.0, drop=0.1, gradient_noise=0.0, seed=None)
    """
    given = {"dtype": exchange} if isinstance(exchange, str) else exchange
    if not isinstance(given, dict):
        raise ParameterError(
            parameter("exchange", "cluster") + f" must be a name or a dict. Got {show(exchange)}."
        )
    for name in given:
        check_name(name, vars(MessageFormat()), "exchange", "cluster, a dict,")
    if given in ({"dtype": "float64"}, {}):
        return None
    if "dtype" in given:
        check_name(given["dtype"], MESSAGE_DTYPES, "exchange", "cluster")
    if "seed" in given:
        check_count(given["seed"], "seed", "exchange", at_least=0)
    for name in ("noise", "gradient_noise", "drop"):
        check_number(given.get(name, 0.0), name, "exchange", at_least=0)
    if not given.get("drop", 0.0) < 1.0:
        raise ParameterError(f"`drop` of exchange must be below 1. Got {given['drop']}.")
    solver.check_options({"exchange": exchange}, "cluster")
    return MessageFormat(**given)
