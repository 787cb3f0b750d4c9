"""Short texts by which processes, or two runs, see whether they were given the same."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from peerclust.errors import ParameterError
from peerclust.graphs import Graph
from peerclust.ranks.group import ProcessGroup
from peerclust.text import show


def fingerprint(value: Any) -> str:
    """Give the value itself, or a digest of what is long, or the name of a function or a kind.

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
        held = {each.name: fingerprint(getattr(value, each.name)) for each in fields(value)}
        told = ", ".join(f"{name}={text}" for name, text in held.items())
        return f"{type(value).__name__}({told})"
    if isinstance(value, list | tuple) and any(np.ndim(each) > 0 for each in value):
        return f"{len(value)} parts {_digest_text(' '.join(map(fingerprint, value)))}"
    if callable(value):
        kind = value if hasattr(value, "__qualname__") else type(value)
        return f"{kind.__module__}.{kind.__qualname__}"
    text = show(value)
    try:
        whole = repr(value)
    except ValueError:  # an int of more digits than Python spells out
        return text
    if " at 0x" in whole:
        return type(value).__name__
    # What is shown may leave out where two long values differ.
    return text if text == whole else f"{text} {_digest_text(whole)}"


def _digest_text(text: str) -> str:
    return digest([np.frombuffer(text.encode(), np.uint8)])


def digest(arrays: Sequence[Any]) -> str:
    """Give twelve letters that follow from the arrays' bytes."""
    state = hashlib.sha256()
    for each in arrays:
        state.update(np.ascontiguousarray(each).data)
    return state.hexdigest()[:12]


def check_same(group: ProcessGroup, settings: Mapping[str, Any], say: str) -> None:
    """Raise, in all processes, if one was given another value; `say` has a place for its name."""
    held = group.allgather({name: fingerprint(value) for name, value in settings.items()})
    for rank, given in enumerate(held):
        for name, value in given.items():
            if value != held[0].get(name):
                raise ParameterError(
                    f"All ranks must be given the same {say.format(name)}. Rank {rank} has"
                    f" {value}, rank 0 has {held[0].get(name)}."
                )
