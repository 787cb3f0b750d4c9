"""Fingerprints: short texts by which ranks, or two runs, compare what they were given."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from peerclust.errors import ParameterError
from peerclust.graphs import Graph
from peerclust.ranks.group import ProcessGroup
from peerclust.text import parameter, show


def fingerprint(value: Any) -> str:
    """Return a short text for a value: itself, a digest if it is long, or a function's name.

    >>> fingerprint(3), fingerprint("ring"), fingerprint(np.zeros(2))
    ('3', "'ring'", 'array (2,) 374708fff771')
    >>> fingerprint([*range(99)])
    '[0, 1, 2, 3, 4, 5, ...] 9dd7ba3c0669'
    """
    if isinstance(value, np.ndarray):
        return f"array {value.shape} {digest([value])}"
    if isinstance(value, Graph):
        return f"{value!r} {digest([value.indptr, value.indices])}"
    if is_dataclass(value) and not isinstance(value, type):
        # Not its repr, which may leave fields out.
        named = [f"{each.name}={fingerprint(getattr(value, each.name))}" for each in fields(value)]
        return f"{type(value).__name__}({', '.join(named)})"
    if isinstance(value, list | tuple) and any(np.ndim(each) > 0 for each in value):
        return f"{len(value)} parts {_digest_text(' '.join(map(fingerprint, value)))}"
    if callable(value):
        kind = value if hasattr(value, "__qualname__") else type(value)
        return f"{kind.__module__}.{kind.__qualname__}"
    text = show(value)
    try:
        whole = repr(value)
    except ValueError:  # an int of more digits than Python converts to text
        return text
    if " at 0x" in whole:
        return type(value).__name__
    # The shortened text may omit where two long values differ.
    return text if text == whole else f"{text} {_digest_text(whole)}"


def _digest_text(text: str) -> str:
    return digest([np.frombuffer(text.encode(), np.uint8)])


def digest(arrays: Sequence[Any]) -> str:
    """Return the first twelve hexadecimal digits of the SHA-256 of the arrays' bytes."""
    state = hashlib.sha256()
    for each in arrays:
        state.update(np.ascontiguousarray(each).data)
    return state.hexdigest()[:12]


def check_same(group: ProcessGroup, settings: Mapping[str, Any], of: str) -> None:
    """Raise, on all ranks, if their values of the parameters of a function differ."""
    of_ranks = group.allgather({name: fingerprint(value) for name, value in settings.items()})
    for rank, given in enumerate(of_ranks):
        for name, value in given.items():
            if value != of_ranks[0].get(name):
                raise ParameterError(
                    "All ranks must be given the same " + parameter(name, of) + f". Rank {rank} has"
                    f" {value}, rank 0 has {of_ranks[0].get(name)}."
                )
