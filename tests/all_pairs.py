"""Products of parameters, covered by pairs.

A fault that shows needs two values of two parameters far more often than values of three
(combinatorial testing). So tests of several parameters run over few cases in which every value of
one parameter meets every value of every other, not over the full product.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pytest


def pairwise(*parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return cases, one value of each parameter in each, that cover all pairs of values.

    Deterministic and greedy: each case begins with the first pair that no case has yet, and takes
    the value of each other parameter that adds the most new pairs.
    """
    sizes = [len(values) for values in parameters]
    if len(sizes) < 2:
        return [(value,) for values in parameters for value in values]
    missing = {
        (p, i, q, j): None
        for p, q in combinations(range(len(sizes)), 2)
        for i in range(sizes[p])
        for j in range(sizes[q])
    }
    uses = [[0] * size for size in sizes]
    cases = []
    while missing:
        p, i, q, j = next(iter(missing))
        case = {p: i, q: j}
        for other in range(len(sizes)):
            if other not in case:
                case[other] = max(
                    range(sizes[other]),
                    # of equally good values the one used least, then the first
                    key=lambda v, other=other, case=case: (
                        sum(_pair(other, v, *each) in missing for each in case.items()),
                        -uses[other][v],
                        -v,
                    ),
                )
        for one, two in combinations(case.items(), 2):
            missing.pop(_pair(*one, *two), None)
        for parameter, value in case.items():
            uses[parameter][value] += 1
        cases.append(tuple(parameters[at][case[at]] for at in range(len(sizes))))
    return cases


def _pair(p: int, i: int, q: int, j: int) -> tuple[int, int, int, int]:
    return (p, i, q, j) if p < q else (q, j, p, i)


def name(value: Any) -> str:
    """Return the part of a test's id that stands for one value."""
    return getattr(value, "__name__", None) or str(value)


def by_pairs(**parameters: Sequence[Any]) -> pytest.MarkDecorator:
    """Parametrize a test by all pairs of values of its parameters, given by name."""
    cases = pairwise(*(list(values) for values in parameters.values()))
    ids = ["-".join(map(name, case)) for case in cases]
    return pytest.mark.parametrize(list(parameters), cases, ids=ids)
